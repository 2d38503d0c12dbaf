// CAF 0.17 in process: caf WORKLOAD: E1a, E1b, E2a, E2b, E3-1 or E3-500
#include "../common/pb.h"
#include "caf/all.hpp"
#include <future>
#include <malloc.h>
#include <thread>
using namespace caf;
using inc_a = atom_constant<atom("inc")>;
using ping_a = atom_constant<atom("ping")>;
using pong_a = atom_constant<atom("pong")>;
using go_a = atom_constant<atom("go")>;
using done_a = atom_constant<atom("done")>;
using sync_a = atom_constant<atom("sync")>;
static const char *PEER = "caf";
static std::atomic<long> total_done;
static std::promise<void> *prom;
static behavior counter(event_based_actor *self, long n)
{
    auto c = std::make_shared<long>(0);
    return {[=](inc_a) {
        if (++*c == n) {
            if (--total_done == 0)
                prom->set_value();
            self->quit();
        }
    }};
}
static behavior ponger(event_based_actor *self)
{
    return {[=](ping_a) { return pong_a::value; }, [=](done_a) { self->quit(); }};
}
static behavior pinger(event_based_actor *self, actor p, long n)
{
    auto c = std::make_shared<long>(n);
    return {[=](go_a) { self->send(p, ping_a::value); },
            [=](pong_a) {
                if (--*c)
                    self->send(p, ping_a::value);
                else {
                    self->send(p, done_a::value);
                    prom->set_value();
                    self->quit();
                }
            }};
}
static void reqloop(event_based_actor *self, actor p, std::shared_ptr<long> c)
{
    self->request(p, infinite, ping_a::value).then([=](pong_a) {
        if (--*c)
            reqloop(self, p, c);
        else if (--total_done == 0)
            prom->set_value();
    });
}
static behavior reqer(event_based_actor *self, actor p, long n)
{
    auto c = std::make_shared<long>(n);
    return {[=](go_a) { reqloop(self, p, c); }};
}
struct LocalCfg : actor_system_config {
    LocalCfg()
    {
        set("scheduler.max-threads", (size_t)2);
    }
};
static int local(const std::string &what)
{
    LocalCfg cfg;
    actor_system sys(cfg);
    const long N = 5000000;
    if (what == "E1a") {
        std::promise<void> p;
        prom = &p;
        total_done = 1;
        auto a = sys.spawn(counter, N);
        pb_begin();
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        for (long i = 0; i < N; i++)
            anon_send(a, inc_a::value);
        p.get_future().wait();
        double w = now_ns() - t0;
        emit(PEER, "E1a", "1 producer 1 actor", "rate", N / w * 1e9, "items/s");
        emit(PEER, "E1a", "1 producer 1 actor", "cpu_per_million", (cpu_self() - c0) * 1e6 / N, "cpu_s/1e6");
    }
    if (what == "E1b") {
        std::promise<void> p;
        prom = &p;
        total_done = 1000;
        std::vector<actor> v;
        for (int i = 0; i < 1000; i++)
            v.push_back(sys.spawn(counter, N / 1000));
        pb_begin();
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        std::thread t[2];
        for (auto &x : t)
            x = std::thread([&] {
                for (long i = 0; i < N / 2; i++)
                    anon_send(v[i % 1000], inc_a::value);
            });
        for (auto &x : t)
            x.join();
        p.get_future().wait();
        double w = now_ns() - t0;
        emit(PEER, "E1b", "2 producers 1000 actors", "rate", N / w * 1e9, "items/s");
        emit(PEER, "E1b", "2 producers 1000 actors", "cpu_per_million", (cpu_self() - c0) * 1e6 / N, "cpu_s/1e6");
    }
    if (what == "E2a") {
        std::promise<void> p;
        prom = &p;
        const long M = 500000;
        auto b = sys.spawn(ponger);
        auto a = sys.spawn(pinger, b, M);
        pb_begin();
        uint64_t t0 = now_ns();
        anon_send(a, go_a::value);
        p.get_future().wait();
        double w = now_ns() - t0;
        emit(PEER, "E2a", "ping-pong 2 actors", "rate", M / w * 1e9, "roundtrips/s");
    }
    if (what == "E2b") {
        std::promise<void> p;
        prom = &p;
        const int Q = 10000, K = 500;
        total_done = Q;
        std::vector<actor> v;
        for (int i = 0; i < Q; i++)
            v.push_back(sys.spawn(counter, (long)K));
        pb_begin();
        uint64_t t0 = now_ns();
        std::thread t[2];
        for (auto &x : t)
            x = std::thread([&] {
                for (int r = 0; r < K / 2; r++)
                    for (int q = 0; q < Q; q++)
                        anon_send(v[q], inc_a::value);
            });
        for (auto &x : t)
            x.join();
        p.get_future().wait();
        double w = now_ns() - t0;
        emit(PEER, "E2b", "10000 actors x500 msgs", "rate", (double)Q * K / w * 1e9, "msgs/s");
    }
    if (what == "E3-1") {
        std::promise<void> p;
        prom = &p;
        total_done = 1;
        const long M = 500000;
        auto b = sys.spawn(ponger);
        auto a = sys.spawn(reqer, b, M);
        pb_begin();
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        anon_send(a, go_a::value);
        p.get_future().wait();
        double w = now_ns() - t0;
        emit(PEER, "E3-1", "request().then()", "rate", M / w * 1e9, "cycles/s");
        emit(PEER, "E3-1", "request().then()", "cpu_per_million", (cpu_self() - c0) * 1e6 / M, "cpu_s/1e6");
        anon_send(b, done_a::value);
        anon_send_exit(a, exit_reason::kill);
    }
    if (what == "E3-500") {
        std::promise<void> p;
        prom = &p;
        total_done = 500;
        auto b = sys.spawn(ponger);
        std::vector<actor> v;
        for (int i = 0; i < 500; i++)
            v.push_back(sys.spawn(reqer, b, 1000l));
        pb_begin();
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        for (auto &a : v)
            anon_send(a, go_a::value);
        p.get_future().wait();
        double w = now_ns() - t0;
        emit(PEER, "E3-500", "request().then()", "rate", 500000 / w * 1e9, "cycles/s");
        emit(PEER, "E3-500", "request().then()", "cpu_per_million", (cpu_self() - c0) * 1e6 / 500000, "cpu_s/1e6");
        for (auto &a : v)
            anon_send_exit(a, exit_reason::kill);
        anon_send(b, done_a::value);
    }
    return 0;
}
int main(int ac, char **av)
{
    return local(ac > 1 ? av[1] : "");
}
