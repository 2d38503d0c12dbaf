#include "tests/simulation/memory_kernel_internal.h"

void memory_kernel_set_latency(uint64_t usual_ns, uint64_t odd_ns)
{
    memory_network.usual_ns = usual_ns;
    memory_network.odd_ns = odd_ns;
}

void memory_kernel_part(unsigned one, unsigned other, bool parted)
{
    memory_network.parted[one][other] = memory_network.parted[other][one] = parted;
}

static memory_socket_t *pick_connected(void)
{
    memory_socket_t *at;
    unsigned count = 0;

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        count += at->other != NULL && !at->silent;
    }
    if (count == 0)
        return NULL;
    unsigned skip = chance_any(count);

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        if (at->other != NULL && !at->silent && skip-- == 0)
            break;
    }
    return at;
}

bool memory_kernel_reset_one(void)
{
    memory_socket_t *one = pick_connected();

    if (one == NULL)
        return false;
    memory_socket_t *other = one->other;

    memory_kernel_totals.resets++;
    one->other = other->other = NULL;
    memory_reset_send(one);
    memory_reset_send(other);
    return true;
}

void memory_kernel_silence(unsigned one, unsigned other)
{
    memory_socket_t *at;

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        if (at->other != NULL &&
            ((at->machine == one && at->far_machine == other) || (at->machine == other && at->far_machine == one)))
            at->silent = true;
    }
}

static bool is_lost(const memory_socket_t *at)
{
    const segment_t *segment;

    STAILQ_FOREACH(segment, &at->inbox, next)
    {
        if (segment->kind == SEGMENT_RESET)
            return true;
    }
    return at->reset;
}

unsigned memory_kernel_faulty(void)
{
    const memory_socket_t *at;
    unsigned count = 0;

    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        count += at->silent || is_lost(at);
    }
    return count;
}

void memory_kernel_cut_off(unsigned machine)
{
    memory_socket_t *at;

    memory_network.cut_off[machine] = true;
    TAILQ_FOREACH(at, &memory_network.all, in_all)
    {
        if (at->machine != machine)
            continue;
        if (at->kind != SOCKET_CONNECTED)
            continue;
        at->silent = false;
        if (at->other != NULL) {
            memory_socket_t *other = at->other;

            at->other = other->other = NULL;
            other->silent = chance_one_in(3); /* else others learn of it */
            memory_reset_send(other);
        }
        at->reset = true;
        memory_segments_drop(at, &at->inbox);
        memory_receive_try(at);
        memory_send_try(at);
    }
}

void memory_sockets_revive(unsigned machine)
{
    memory_network.cut_off[machine] = false;
}
