#include "net/backoff.h"

#include <sys/random.h>

void zlink_backoff_init(zlink_backoff_t *backoff, uint64_t seed)
{
    if (seed == 0 && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = (uint64_t)(uintptr_t)backoff; /* only the spread suffers */
    backoff->random = seed | 1;
    zlink_backoff_reset(backoff);
}

/* xorshift64*: spread, not secrecy. */
static uint64_t backoff_random(zlink_backoff_t *backoff)
{
    backoff->random ^= backoff->random >> 12;
    backoff->random ^= backoff->random << 25;
    backoff->random ^= backoff->random >> 27;
    return (backoff->random * 0x2545f4914f6cdd1dull) >> 32;
}

uint32_t zlink_backoff_next_ms(zlink_backoff_t *backoff)
{
    const uint32_t wait_ms = backoff->wait_ms;

    backoff->wait_ms = wait_ms * 2 > ZLINK_BACKOFF_MAX_MS ? ZLINK_BACKOFF_MAX_MS : wait_ms * 2;
    return wait_ms / 2 + (uint32_t)(backoff_random(backoff) % (wait_ms + 1));
}

void zlink_backoff_reset(zlink_backoff_t *backoff)
{
    backoff->wait_ms = ZLINK_BACKOFF_FIRST_MS;
}
