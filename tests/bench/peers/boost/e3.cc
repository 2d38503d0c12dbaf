// E3: Boost.Asio C++20 coroutine: await a timerless reply posted from another strand: co_await async op whose
// completion is posted back
#include <utility> // Asio 1.74 uses std::exchange without it

#include "../common/pb.h"
#include <boost/asio.hpp>
#include <coroutine>
#include <string>
namespace asio = boost::asio;
static long N = 1000000;
using Strand = asio::strand<asio::thread_pool::executor_type>;
template <class T> static auto call(Strand &srv, T &&tok)
{
    return asio::async_initiate<T, void(int)>(
        [&srv](auto h) {
            asio::post(srv, [h = std::move(h)]() mutable {
                auto ex = asio::get_associated_executor(h);
                asio::post(ex, [h = std::move(h)]() mutable { h(1); });
            });
        },
        tok);
}
static asio::awaitable<void> run(Strand &srv, long n)
{
    for (long i = 0; i < n; i++)
        co_await call(srv, asio::use_awaitable);
}
// e3 WORKLOAD: E3-1 or E3-500
int main(int ac, char **av)
{
    std::string what = ac > 1 ? av[1] : "";
    if (what == "E3-1") {
        asio::thread_pool pool(2);
        Strand a(pool.get_executor()), b(pool.get_executor());
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        asio::co_spawn(a, run(b, N), asio::detached);
        pool.join();
        double w = now_ns() - t0;
        emit("boost", "E3-1", "co_await reply from another strand", "rate", N / w * 1e9, "cycles/s");
        emit("boost", "E3-1", "co_await reply from another strand", "cpu_per_million", (cpu_self() - c0) * 1e6 / N,
             "cpu_s/1e6");
    }
    if (what == "E3-500") {
        asio::thread_pool pool(2);
        Strand b(pool.get_executor());
        double c0 = cpu_self();
        uint64_t t0 = now_ns();
        for (int i = 0; i < 500; i++) {
            Strand s(pool.get_executor());
            asio::co_spawn(s, run(b, 2000), asio::detached);
        }
        pool.join();
        double w = now_ns() - t0;
        emit("boost", "E3-500", "co_await reply from another strand", "rate", 1000000 / w * 1e9, "cycles/s");
        emit("boost", "E3-500", "co_await reply from another strand", "cpu_per_million", (cpu_self() - c0),
             "cpu_s/1e6");
    }
}
