#include "tests/simulation/chance.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

static struct {
    uint64_t seed;
    uint64_t random;
    uint64_t trace;
    char replay[64];
} chance;

static void tell_seed(void)
{
    const ssize_t written = write(STDERR_FILENO, chance.replay, strlen(chance.replay));

    (void)written;
}

static void died(int number)
{
    tell_seed();
    (void)raise(number); /* the usual end: the handler is gone */
}

/* Assertions and faults of the code that is tested end the process, too. */
static void watch_death(void)
{
    const struct sigaction action = {.sa_handler = died, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};

    (void)sigaction(SIGABRT, &action, NULL);
#ifdef SANITIZED
    __sanitizer_set_death_callback(tell_seed);
#else
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
#endif
}

void chance_begin(uint64_t seed)
{
    (void)snprintf(chance.replay, sizeof(chance.replay), "replay: ZLINK_NETWORK_SEED=%llu\n", (unsigned long long)seed);
    watch_death();
    chance.seed = seed;
    chance.random = seed * UINT64_C(0xd1342543de82ef95);
    chance.trace = seed;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

unsigned chance_any(unsigned count)
{
    chance.random += UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(mix(chance.random) % count);
}

bool chance_one_in(unsigned count)
{
    return chance_any(count) == 0;
}

void chance_note(uint64_t what)
{
    chance.trace = mix(chance.trace + what);
}

uint64_t chance_trace(void)
{
    return mix(chance.trace + chance.random);
}

void chance_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    abort();
}
