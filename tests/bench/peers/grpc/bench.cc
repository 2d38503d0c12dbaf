// gRPC C++ peer: callback-API server, async-CQ client (unary), bidi stream and client stream.
// bench srv --port P --tls 0|1 ; bench cli --port P --tls 0|1 --conns C --out O --wl N1 --mode unary|stream|sink|hs
// --size S --secs T --spid PID --param str
#include "../common/pb.h"
#include "bench.grpc.pb.h"
#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>
using namespace grpc;
static std::string slurp(const char *p)
{
    std::ifstream f(p);
    std::stringstream s;
    s << f.rdbuf();
    return s.str();
}
static const std::string D = "../certs/";
struct Svc final : pb::Bench::CallbackService {
    ServerUnaryReactor *Echo(CallbackServerContext *c, const pb::Msg *q, pb::Msg *r) override
    {
        r->set_data(q->data());
        auto *x = c->DefaultReactor();
        x->Finish(Status::OK);
        return x;
    }
    ServerBidiReactor<pb::Msg, pb::Msg> *Stream(CallbackServerContext *) override
    {
        struct R : ServerBidiReactor<pb::Msg, pb::Msg> {
            pb::Msg in;
            std::deque<pb::Msg> q;
            std::mutex m;
            bool w = false, fin = false;
            pb::Msg cur;
            R()
            {
                StartRead(&in);
            }
            void OnReadDone(bool ok) override
            {
                std::unique_lock<std::mutex> l(m);
                if (!ok) {
                    fin = true;
                    if (!w)
                        Finish(Status::OK);
                    return;
                }
                q.push_back(std::move(in));
                if (!w)
                    next();
                l.unlock();
                StartRead(&in);
            }
            void next()
            {
                cur = std::move(q.front());
                q.pop_front();
                w = true;
                StartWrite(&cur);
            }
            void OnWriteDone(bool ok) override
            {
                std::lock_guard<std::mutex> l(m);
                w = false;
                if (!ok)
                    q.clear();
                if (!q.empty())
                    next();
                else if (fin)
                    Finish(Status::OK);
            }
            void OnDone() override
            {
                delete this;
            }
        };
        return new R;
    }
    ServerReadReactor<pb::Msg> *Sink(CallbackServerContext *, pb::Count *r) override
    {
        struct R : ServerReadReactor<pb::Msg> {
            pb::Msg in;
            pb::Count *r;
            uint64_t n = 0;
            R(pb::Count *r) : r(r)
            {
                StartRead(&in);
            }
            void OnReadDone(bool ok) override
            {
                if (!ok) {
                    r->set_n(n);
                    Finish(Status::OK);
                    return;
                }
                n++;
                StartRead(&in);
            }
            void OnDone() override
            {
                delete this;
            }
        };
        return new R(r);
    }
};
static int port = 7400, tls = 0, conns = 1, outst = 1, size_ = 64;
static double secs = 1.5;
static const char *wl = "N1", *mode = "unary", *param = "";
static pid_t spid;
static std::shared_ptr<ChannelCredentials> ccreds()
{
    if (!tls)
        return InsecureChannelCredentials();
    SslCredentialsOptions o;
    o.pem_root_certs = slurp((D + "ca.pem").c_str());
    o.pem_private_key = slurp((D + "client.key").c_str());
    o.pem_cert_chain = slurp((D + "client.pem").c_str());
    return SslCredentials(o);
}
static std::shared_ptr<Channel> chan(std::shared_ptr<ChannelCredentials> c)
{
    ChannelArguments a;
    a.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    a.SetSslTargetNameOverride("localhost");
    return CreateCustomChannel("127.0.0.1:" + std::to_string(port), c, a);
}
struct Call {
    ClientContext ctx;
    pb::Msg rep;
    Status st;
    std::unique_ptr<ClientAsyncResponseReader<pb::Msg>> rd;
    uint64_t t0;
    int slot;
};
int main(int ac, char **av)
{
    bool server = ac > 1 && !strcmp(av[1], "srv");
    for (int i = 2; i + 1 < ac; i += 2) {
        std::string k = av[i];
        const char *v = av[i + 1];
        if (k == "--port")
            port = atoi(v);
        else if (k == "--tls")
            tls = atoi(v);
        else if (k == "--conns")
            conns = atoi(v);
        else if (k == "--out")
            outst = atoi(v);
        else if (k == "--wl")
            wl = v;
        else if (k == "--mode")
            mode = v;
        else if (k == "--size")
            size_ = atoi(v);
        else if (k == "--secs")
            secs = atof(v);
        else if (k == "--spid")
            spid = pb_spid[0] = atoi(v);
        else if (k == "--param")
            param = v;
    }
    alarm(60);
    if (server) {
        Svc s;
        ServerBuilder b;
        std::shared_ptr<ServerCredentials> c;
        if (tls) {
            SslServerCredentialsOptions o(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
            o.pem_root_certs = slurp((D + "ca.pem").c_str());
            o.pem_key_cert_pairs.push_back({slurp((D + "server.key").c_str()), slurp((D + "server.pem").c_str())});
            c = SslServerCredentials(o);
        } else
            c = InsecureServerCredentials();
        b.AddListeningPort("127.0.0.1:" + std::to_string(port), c);
        b.RegisterService(&s);
        auto sv = b.BuildAndStart();
        if (!sv)
            return 1;
        sv->Wait();
        return 0;
    }
    auto cc = ccreds();
    if (!strcmp(mode, "hs")) { // connect rate: new channel each time, full handshake incl. HTTP/2 settings; sequential
                               // and 4 threads
        for (int th : {1, 4}) {
            std::atomic<int> n{0};
            {
                auto c = chan(cc);
                c->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5));
            }
            uint64_t t0 = now_ns(), end = t0 + (uint64_t)(secs * 1e9);
            double c0 = cpu_self(), s0 = cpu_pid(spid);
            std::vector<std::thread> v;
            for (int i = 0; i < th; i++)
                v.emplace_back([&] {
                    while (now_ns() < end) {
                        auto c = chan(cc);
                        if (!c->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5)))
                            exit(3);
                        n++;
                    }
                });
            for (auto &t : v)
                t.join();
            double w = (now_ns() - t0) * 1e-9;
            char p[64];
            snprintf(p, 64, "%s,threads=%d", param, th);
            emit("grpc", wl, p, "rate", n / w, "conn/s");
            emit("grpc", wl, p, "cpu_per_million", (cpu_self() - c0 + cpu_pid(spid) - s0) / n * 1e6, "cpu_s/1e6");
        }
        return 0;
    }
    std::vector<std::shared_ptr<Channel>> ch;
    std::vector<std::unique_ptr<pb::Bench::Stub>> st;
    for (int i = 0; i < conns; i++) {
        ch.push_back(chan(cc));
        if (!ch[i]->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(5))) {
            fprintf(stderr, "no conn\n");
            return 2;
        }
        st.push_back(pb::Bench::NewStub(ch[i]));
    }
    pb::Msg q;
    q.set_data(std::string(size_, 'x'));
    if (!strcmp(mode, "sink")) {
        ClientContext ctx;
        pb::Count r;
        auto w = st[0]->Sink(&ctx, &r);
        for (int i = 0; i < 100; i++)
            w->Write(q);
        uint64_t t0 = now_ns(), end = t0 + (uint64_t)(secs * 1e9), n = 100;
        double c0 = cpu_self(), s0 = cpu_pid(spid);
        WriteOptions wo;
        wo.set_buffer_hint();
        bool hint = size_ <= 1024;
        while (now_ns() < end) {
            for (int i = 0; i < 16; i++)
                w->Write(q, hint ? wo : WriteOptions());
            n += 16;
        }
        w->WritesDone();
        Status s = w->Finish();
        double d = (now_ns() - t0) * 1e-9;
        if (!s.ok() || r.n() != n)
            fprintf(stderr, "sink bad %lu %lu %s\n", (unsigned long)r.n(), (unsigned long)n, s.error_message().c_str());
        report_ow("grpc", wl, param, n - 100, size_, d, cpu_self() - c0, cpu_pid(spid) - s0);
        return 0;
    }
    if (!strcmp(mode, "stream")) { // one bidi stream, writer thread + reader thread with window outst
        lat_t lat;
        lat_init(&lat, 20000000);
        ClientContext ctx;
        auto s = st[0]->Stream(&ctx);
        for (int ph = 0; ph < 2; ph++) {
            double T = ph ? secs : .2;
            lat.n = 0;
            uint64_t n = 0, t0 = now_ns(), end = t0 + (uint64_t)(T * 1e9);
            double c0 = cpu_self(), s0 = cpu_pid(spid);
            pb::Msg r;
            std::atomic<uint64_t> sent{0}, rec{0};
            std::atomic<bool> stop{false};
            std::mutex m;
            std::condition_variable cv;
            std::thread wr([&] {
                while (!stop) {
                    uint64_t t = now_ns();
                    if (t >= end)
                        break;
                    if (sent - rec >= (uint64_t)outst) {
                        std::unique_lock<std::mutex> l(m);
                        cv.wait_for(l, std::chrono::milliseconds(50), [&] { return sent - rec < (uint64_t)outst; });
                        continue;
                    }
                    uint64_t x = t;
                    pb::Msg z;
                    std::string d(size_, 'x');
                    memcpy(&d[0], &x, 8);
                    z.set_data(d);
                    sent++;
                    s->Write(z);
                }
                stop = true;
            });
            while (1) {
                if (stop && rec == sent)
                    break;
                if (rec == sent) {
                    if (stop)
                        break;
                    std::this_thread::yield();
                    continue;
                }
                if (!s->Read(&r))
                    break;
                uint64_t x;
                memcpy(&x, r.data().data(), 8);
                lat_add(&lat, now_ns() - x);
                rec++;
                n++;
                if (sent - rec <= (uint64_t)outst / 2 + 1) {
                    std::lock_guard<std::mutex> l(m);
                    cv.notify_one();
                }
            }
            wr.join();
            double d = (now_ns() - t0) * 1e-9;
            if (ph)
                report_rr("grpc", wl, param, n, d, cpu_self() - c0, cpu_pid(spid) - s0, &lat);
        }
        s->WritesDone();
        return 0;
    }
    // unary via completion queues (1 CQ thread)
    lat_t lat;
    lat_init(&lat, 20000000);
    if (!strcmp(mode, "sync")) {
        for (int ph = 0; ph < 2; ph++) {
            lat.n = 0;
            double T = ph ? secs : .2;
            uint64_t t0 = now_ns(), end = t0 + (uint64_t)(T * 1e9), n = 0;
            double c0 = cpu_self(), s0 = cpu_pid(spid);
            for (;;) {
                uint64_t t = now_ns();
                if (t >= end)
                    break;
                ClientContext c;
                pb::Msg r;
                Status s = st[0]->Echo(&c, q, &r);
                if (!s.ok())
                    return 3;
                lat_add(&lat, now_ns() - t);
                n++;
            }
            double d = (now_ns() - t0) * 1e-9;
            if (ph)
                report_rr("grpc", wl, param, n, d, cpu_self() - c0, cpu_pid(spid) - s0, &lat);
        }
        return 0;
    }
    for (int ph = 0; ph < 2; ph++) {
        CompletionQueue cq;
        lat.n = 0;
        double T = ph ? secs : .2;
        uint64_t t0 = now_ns(), end = t0 + (uint64_t)(T * 1e9), n = 0;
        double c0 = cpu_self(), s0 = cpu_pid(spid);
        int infl = 0;
        auto go = [&](int i) {
            auto *c = new Call;
            c->slot = i;
            c->t0 = now_ns();
            c->rd = st[i]->AsyncEcho(&c->ctx, q, &cq);
            c->rd->Finish(&c->rep, &c->st, c);
            infl++;
        };
        for (int i = 0; i < conns; i++)
            for (int k = 0; k < outst; k++)
                go(i);
        void *tag;
        bool ok;
        while (infl && cq.Next(&tag, &ok)) {
            auto *c = (Call *)tag;
            infl--;
            if (!c->st.ok()) {
                fprintf(stderr, "rpc %s\n", c->st.error_message().c_str());
                return 3;
            }
            uint64_t t = now_ns();
            lat_add(&lat, t - c->t0);
            n++;
            int i = c->slot;
            delete c;
            if (t < end)
                go(i);
        }
        double d = (now_ns() - t0) * 1e-9;
        if (ph)
            report_rr("grpc", wl, param, n, d, cpu_self() - c0, cpu_pid(spid) - s0, &lat);
        cq.Shutdown();
        while (cq.Next(&tag, &ok))
            ;
    }
    return 0;
}
