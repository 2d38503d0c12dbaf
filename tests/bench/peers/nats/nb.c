// NATS: libnats 3.4.1 responder + requester over nats-server 2.9.10. nb srv|cli --port P --tls 0|1 ...
#define _GNU_SOURCE
#include "../common/pb.h"
#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>
static int port = 7700, tls, outst = 1, size = 64, conns = 1, asap;
static double secs = 1.2;
static const char *wl = "N1", *param = "", *mode = "rr";
static pid_t spid, bpid;
static natsOptions *opts(const char *who)
{
    natsOptions *o;
    natsOptions_Create(&o);
    char u[64];
    snprintf(u, 64, "%s://127.0.0.1:%d", tls ? "tls" : "nats", port);
    natsOptions_SetURL(o, u);
    if (tls) {
        natsOptions_SetSecure(o, true);
        natsOptions_LoadCATrustedCertificates(o, "../certs/ca.pem");
        char c[64], k[64];
        snprintf(c, 64, "../certs/%s.pem", who);
        snprintf(k, 64, "../certs/%s.key", who);
        natsOptions_LoadCertificatesChain(o, c, k);
        natsOptions_SetExpectedHostname(o, "localhost");
    }
    if (asap)
        natsOptions_SetSendAsap(o, true);
    natsOptions_SetMaxPendingMsgs(o, 10000000);
    return o;
}
static natsConnection *con(natsOptions *o)
{
    natsConnection *c = 0;
    natsStatus s;
    for (int i = 0; i < 50; i++) {
        s = natsConnection_Connect(&c, o);
        if (s == NATS_OK)
            return c;
        nats_Sleep(100);
    }
    fprintf(stderr, "connect %s\n", natsStatus_GetText(s));
    nats_PrintLastErrorStack(stderr);
    exit(2);
}
static void onreq(natsConnection *c, natsSubscription *s, natsMsg *m, void *x)
{
    const char *r = natsMsg_GetReply(m);
    if (r)
        natsConnection_Publish(c, r, natsMsg_GetData(m), natsMsg_GetDataLength(m));
    natsMsg_Destroy(m);
}
static lat_t lat;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static long infl;
static uint64_t n, endt;
static char inbox[256][64];
static void onrep(natsConnection *c, natsSubscription *s, natsMsg *m, void *x)
{
    int i = (int)(long)x;
    uint64_t t = now_ns(), t1;
    memcpy(&t1, natsMsg_GetData(m), 8);
    pthread_mutex_lock(&mu);
    lat_add(&lat, t - t1);
    n++;
    infl--;
    int go = t < endt;
    if (go)
        infl++;
    if (!infl)
        pthread_cond_signal(&cv);
    pthread_mutex_unlock(&mu);
    if (go) {
        char b[64] = {0};
        memcpy(b, &t, 8);
        natsConnection_PublishRequest(c, "bench", inbox[i], b, size > 64 ? 64 : size);
    }
    natsMsg_Destroy(m);
}
int main(int ac, char **av)
{
    int server = ac > 1 && !strcmp(av[1], "srv");
    for (int i = 2; i + 1 < ac; i += 2) {
        const char *k = av[i], *v = av[i + 1];
        if (!strcmp(k, "--port"))
            port = atoi(v);
        else if (!strcmp(k, "--tls"))
            tls = atoi(v);
        else if (!strcmp(k, "--out"))
            outst = atoi(v);
        else if (!strcmp(k, "--size"))
            size = atoi(v);
        else if (!strcmp(k, "--conns"))
            conns = atoi(v);
        else if (!strcmp(k, "--mode"))
            mode = v;
        else if (!strcmp(k, "--secs"))
            secs = atof(v);
        else if (!strcmp(k, "--wl"))
            wl = v;
        else if (!strcmp(k, "--param"))
            param = v;
        else if (!strcmp(k, "--spid"))
            spid = pb_spid[0] = atoi(v);
        else if (!strcmp(k, "--bpid"))
            bpid = pb_spid[1] = atoi(v);
        else if (!strcmp(k, "--asap"))
            asap = atoi(v);
    }
    alarm(60);
    nats_Open(-1);
    if (server) {
        natsConnection *c = con(opts("server"));
        natsSubscription *s;
        natsConnection_Subscribe(&s, c, "bench", onreq, 0);
        natsSubscription_SetPendingLimits(s, -1, -1);
        natsConnection_Flush(c);
        sleep(55);
        return 0;
    }
    natsOptions *o = opts("client");
    if (conns > 1)
        natsOptions_UseGlobalMessageDelivery(o, true);
    natsConnection *c[256];
    for (int i = 0; i < conns; i++)
        c[i] = con(o);
    lat_init(&lat, 20000000);
    char *b = calloc(1, size > 64 ? size : 64);
    natsMsg *m;
    for (int i = 0;; i++) {
        natsStatus s = natsConnection_Request(&m, c[0], "bench", b, 8, 500);
        if (s == NATS_OK) {
            natsMsg_Destroy(m);
            break;
        }
        if (i > 20) {
            fprintf(stderr, "no responder\n");
            return 3;
        }
        nats_Sleep(100);
    }
#define CPU() (cpu_pid(spid) + cpu_pid(bpid))
    if (!strcmp(mode, "sync")) {
        pb_begin();
        double c0 = cpu_self(), s0 = CPU();
        uint64_t t0 = now_ns(), end = t0 + (uint64_t)(secs * 1e9);
        for (;;) {
            uint64_t t = now_ns();
            if (t >= end)
                break;
            if (natsConnection_Request(&m, c[0], "bench", b, size, 2000) != NATS_OK)
                return 4;
            natsMsg_Destroy(m);
            lat_add(&lat, now_ns() - t);
            n++;
        }
        double w = (now_ns() - t0) * 1e-9;
        report_rr("nats", wl, param, n, w, cpu_self() - c0, CPU() - s0, &lat);
        return 0;
    }
    if (!strcmp(mode, "ow")) {
        pb_begin();
        double c0 = cpu_self(), s0 = CPU();
        uint64_t t0 = now_ns(), end = t0 + (uint64_t)(secs * 1e9);
        uint64_t chunk = size > 4096 ? 64 : size > 64 ? 8192 : 32768;
        while (now_ns() < end) {
            for (uint64_t i = 0; i < chunk; i++)
                if (natsConnection_Publish(c[0], "bench", b, size) != NATS_OK)
                    return 5;
            n += chunk;
            if (natsConnection_Request(&m, c[0], "bench", b, 8, 10000) != NATS_OK) {
                fprintf(stderr, "sync fail\n");
                return 6;
            }
            natsMsg_Destroy(m);
        }
        double w = (now_ns() - t0) * 1e-9;
        report_ow("nats", wl, param, n, size, w, cpu_self() - c0, CPU() - s0);
        return 0;
    }
    for (int i = 0; i < conns; i++) {
        natsInbox *x;
        natsInbox_Create(&x);
        snprintf(inbox[i], 64, "%s", x);
        natsSubscription *s;
        natsConnection_Subscribe(&s, c[i], inbox[i], onrep, (void *)(long)i);
        natsSubscription_SetPendingLimits(s, -1, -1);
        natsConnection_Flush(c[i]);
    }
    for (int ph = 0; ph < 2; ph++) {
        pthread_mutex_lock(&mu);
        lat.n = 0;
        n = 0;
        pb_begin();
        double T = ph ? secs : .2, c0 = cpu_self(), s0 = CPU();
        uint64_t t0 = now_ns();
        endt = t0 + (uint64_t)(T * 1e9);
        infl = (long)conns * outst;
        pthread_mutex_unlock(&mu);
        for (int i = 0; i < conns; i++)
            for (int k = 0; k < outst; k++) {
                uint64_t t = now_ns();
                memcpy(b, &t, 8);
                natsConnection_PublishRequest(c[i], "bench", inbox[i], b, size > 64 ? 64 : size);
            }
        pthread_mutex_lock(&mu);
        while (infl)
            pthread_cond_wait(&cv, &mu);
        pthread_mutex_unlock(&mu);
        double w = (now_ns() - t0) * 1e-9;
        if (ph)
            report_rr("nats", wl, param, n, w, cpu_self() - c0, CPU() - s0, &lat);
    }
    return 0;
}
