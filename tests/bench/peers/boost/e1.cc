// Boost.Asio 1.74 strands on a 2-thread pool. E1, plus an E2-like ping-pong between two strands.
#include <utility> // Asio 1.74 uses std::exchange without it

#include "../common/pb.h"
#include <atomic>
#include <boost/asio.hpp>
#include <malloc.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>
namespace asio = boost::asio;
using Strand = asio::strand<asio::thread_pool::executor_type>;
static const char *PEER = "boost";
// e1 WORKLOAD: E1a, E1b, E2a or E2b
int main(int ac, char **av)
{
    const long N = 5000000;
    std::string what = ac > 1 ? av[1] : "";
    if (what == "E1a") {
        asio::thread_pool pool(2);
        Strand s(pool.get_executor());
        long cnt = 0;
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        for (long i = 0; i < N; i++)
            asio::post(s, [&cnt] { cnt++; });
        pool.join();
        double w = (now_ns() - t0);
        if (cnt != N)
            return 1;
        emit(PEER, "E1a", "1 producer 1 strand", "rate", N / w * 1e9, "items/s");
        emit(PEER, "E1a", "1 producer 1 strand", "cpu_per_million", (cpu_self() - c0) * 1e6 / N, "cpu_s/1e6");
    }
    if (what == "E1b") {
        asio::thread_pool pool(2);
        std::vector<Strand> v;
        struct alignas(64) C {
            long n = 0;
        };
        std::vector<C> c(1000);
        for (int i = 0; i < 1000; i++)
            v.emplace_back(pool.get_executor());
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        std::thread p[2];
        for (int k = 0; k < 2; k++)
            p[k] = std::thread([&] {
                for (long i = 0; i < N / 2; i++) {
                    int q = i % 1000;
                    asio::post(v[q], [&c, q] { c[q].n++; });
                }
            });
        for (auto &t : p)
            t.join();
        pool.join();
        double w = (now_ns() - t0);
        long tot = 0;
        for (auto &x : c)
            tot += x.n;
        if (tot != N)
            return 2;
        emit(PEER, "E1b", "2 producers 1000 strands", "rate", N / w * 1e9, "items/s");
        emit(PEER, "E1b", "2 producers 1000 strands", "cpu_per_million", (cpu_self() - c0) * 1e6 / N, "cpu_s/1e6");
    }
    if (what == "E2a") {
        asio::thread_pool pool(2);
        Strand a(pool.get_executor()), b(pool.get_executor());
        const long M = 500000;
        struct S {
            Strand &a, &b;
            long n;
            void ping()
            {
                asio::post(b, [this] {
                    asio::post(a, [this] {
                        if (--n)
                            ping();
                    });
                });
            }
        } s{a, b, M};
        uint64_t t0 = now_ns();
        asio::post(a, [&] { s.ping(); });
        pool.join();
        double w = now_ns() - t0;
        emit(PEER, "E2a", "ping-pong 2 strands", "rate", M / w * 1e9, "roundtrips/s");
    }
    if (what == "E2b") {
        asio::thread_pool pool(2);
        const int Q = 10000, K = 500;
        struct C {
            long n = 0;
        };
        std::vector<C> c(Q);
        size_t m0 = mallinfo2().uordblks;
        std::vector<std::unique_ptr<Strand>> v;
        for (int i = 0; i < Q; i++)
            v.emplace_back(new Strand(pool.get_executor()));
        size_t m1 = mallinfo2().uordblks;
        uint64_t t0 = now_ns();
        std::thread p[2];
        for (int k = 0; k < 2; k++)
            p[k] = std::thread([&] {
                for (int r = 0; r < K / 2; r++)
                    for (int q = 0; q < Q; q++)
                        asio::post(*v[q], [&c, q] { c[q].n++; });
            });
        for (auto &t : p)
            t.join();
        pool.join();
        double w = now_ns() - t0;
        long tot = 0;
        for (auto &x : c)
            tot += x.n;
        if (tot != (long)Q * K)
            return 3;
        emit(PEER, "E2b", "10000 strands x500 posts", "rate", (double)Q * K / w * 1e9, "msgs/s");
        emit(PEER, "E2b", "idle strand memory (malloc delta)", "bytes", (double)(m1 - m0) / Q, "bytes");
    }
    return 0;
}
