// ZeroMQ 4.3.4 DEALER/ROUTER, plain or CURVE. zb srv|cli
#define _GNU_SOURCE
#include "../common/pb.h"
#include <assert.h>
#include <signal.h>
#include <zmq.h>
static int port = 7600, curve, outst = 1, size = 64, conns = 1, ow;
static double secs = 1.2;
static const char *wl = "N1", *param = "";
static pid_t spid;
// fixed benchmark key pairs, derived at start from constant secrets
static char spub[41], ssec[41], cpub[41], csec[41];
static void keys(void)
{
    uint8_t k[32];
    for (int i = 0; i < 32; i++)
        k[i] = i * 7 + 3;
    zmq_z85_encode(ssec, k, 32);
    zmq_curve_public(spub, ssec);
    for (int i = 0; i < 32; i++)
        k[i] = i * 5 + 9;
    zmq_z85_encode(csec, k, 32);
    zmq_curve_public(cpub, csec);
}
int main(int ac, char **av)
{
    int server = ac > 1 && !strcmp(av[1], "srv");
    for (int i = 2; i + 1 < ac; i += 2) {
        const char *k = av[i], *v = av[i + 1];
        if (!strcmp(k, "--port"))
            port = atoi(v);
        else if (!strcmp(k, "--curve"))
            curve = atoi(v);
        else if (!strcmp(k, "--out"))
            outst = atoi(v);
        else if (!strcmp(k, "--size"))
            size = atoi(v);
        else if (!strcmp(k, "--conns"))
            conns = atoi(v);
        else if (!strcmp(k, "--mode"))
            ow = !strcmp(v, "ow");
        else if (!strcmp(k, "--secs"))
            secs = atof(v);
        else if (!strcmp(k, "--wl"))
            wl = v;
        else if (!strcmp(k, "--param"))
            param = v;
        else if (!strcmp(k, "--spid"))
            spid = pb_spid[0] = atoi(v);
    }
    alarm(60);
    void *ctx = zmq_ctx_new();
    char ep[64];
    snprintf(ep, 64, "tcp://127.0.0.1:%d", port);
    if (curve) {
        if (!zmq_has("curve"))
            return 4;
        keys();
    }
    if (server) {
        void *s = zmq_socket(ctx, ZMQ_ROUTER);
        int one = 1;
        int hwm = 0;
        zmq_setsockopt(s, ZMQ_SNDHWM, &hwm, 4);
        if (curve) {
            zmq_setsockopt(s, ZMQ_CURVE_SERVER, &one, 4);
            zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, ssec, 40);
        }
        if (zmq_bind(s, ep))
            return 1;
        zmq_msg_t id, m;
        for (;;) {
            zmq_msg_init(&id);
            if (zmq_msg_recv(&id, s, 0) < 0)
                continue;
            zmq_msg_init(&m);
            zmq_msg_recv(&m, s, 0);
            int32_t f;
            memcpy(&f, zmq_msg_data(&m), 4);
            if (!ow || f == -1) {
                zmq_msg_send(&id, s, ZMQ_SNDMORE);
                zmq_msg_send(&m, s, 0);
            } else {
                zmq_msg_close(&id);
                zmq_msg_close(&m);
            }
        }
    }
    void *s[256];
    zmq_pollitem_t pi[256];
    for (int i = 0; i < conns; i++) {
        s[i] = zmq_socket(ctx, ZMQ_DEALER);
        int lg = 0;
        zmq_setsockopt(s[i], ZMQ_LINGER, &lg, 4);
        int hwm = ow ? 1000 : 0;
        zmq_setsockopt(s[i], ZMQ_SNDHWM, &hwm, 4);
        if (curve) {
            zmq_setsockopt(s[i], ZMQ_CURVE_SERVERKEY, spub, 40);
            zmq_setsockopt(s[i], ZMQ_CURVE_PUBLICKEY, cpub, 40);
            zmq_setsockopt(s[i], ZMQ_CURVE_SECRETKEY, csec, 40);
        }
        zmq_connect(s[i], ep);
        pi[i].socket = s[i];
        pi[i].events = ZMQ_POLLIN;
    }
    lat_t lat;
    lat_init(&lat, 40000000);
    uint8_t *b = calloc(1, size > 65536 ? size : 65536);
    size_t bl = size;
    for (int i = 0; i < conns; i++) {
        int32_t f = -1;
        memcpy(b, &f, 4);
        zmq_send(s[i], b, bl, 0);
        zmq_recv(s[i], b, 65536, 0);
    } // connected
    if (ow) {
        pb_begin();
        uint64_t t0 = now_ns(), end = t0 + (uint64_t)(secs * 1e9), n = 0;
        double c0 = cpu_self(), s0 = cpu_pid(spid);
        memset(b, 0, bl);
        while (now_ns() < end) {
            for (int i = 0; i < 16; i++)
                zmq_send(s[0], b, bl, 0);
            n += 16;
        }
        int32_t f = -1;
        memcpy(b, &f, 4);
        zmq_send(s[0], b, bl, 0);
        zmq_recv(s[0], b, 65536, 0);
        n++;
        double w = (now_ns() - t0) * 1e-9;
        report_ow("zmq", wl, param, n, size, w, cpu_self() - c0, cpu_pid(spid) - s0);
        return 0;
    }
    for (int ph = 0; ph < 2; ph++) {
        lat.n = 0;
        uint64_t n = 0;
        long infl = 0;
        pb_begin();
        double T = ph ? secs : .2, c0 = cpu_self(), s0 = cpu_pid(spid);
        uint64_t t0 = now_ns(), end = t0 + (uint64_t)(T * 1e9);
        memset(b, 0, bl);
        for (int i = 0; i < conns; i++)
            for (int k = 0; k < outst; k++) {
                uint64_t t = now_ns();
                memcpy(b + 8, &t, 8);
                zmq_send(s[i], b, bl, 0);
                infl++;
            }
        while (infl) {
            if (conns > 1)
                zmq_poll(pi, conns, -1);
            for (int i = 0; i < conns; i++) {
                if (conns > 1 && !(pi[i].revents & ZMQ_POLLIN))
                    continue;
                int fl = conns > 1 ? ZMQ_DONTWAIT : 0;
                int lim = 4096;
                while (lim--) {
                    int r = zmq_recv(s[i], b, 65536, fl);
                    if (r < 0)
                        break;
                    fl = ZMQ_DONTWAIT;
                    uint64_t t = now_ns(), t1;
                    memcpy(&t1, b + 8, 8);
                    lat_add(&lat, t - t1);
                    n++;
                    infl--;
                    if (t < end) {
                        memcpy(b + 8, &t, 8);
                        zmq_send(s[i], b, bl, 0);
                        infl++;
                    }
                }
            }
        }
        double w = (now_ns() - t0) * 1e-9;
        if (ph)
            report_rr("zmq", wl, param, n, w, cpu_self() - c0, cpu_pid(spid) - s0, &lat);
    }
    return 0;
}
