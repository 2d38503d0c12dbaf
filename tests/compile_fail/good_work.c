/* compiles */
#include <zlink/zlink.h>

typedef struct {
    int left, right;
} pair_t;

typedef struct {
    int value;
} sum_t;

zlink_status_t add(const pair_t *input, sum_t *output, const zlink_stop_token_t *stop);
zlink_status_t begin_add(const pair_t *input, sum_t *output, const zlink_stop_token_t *stop,
                         zlink_io_completion_t *completion);
zlink_status_t on_add(zlink_turn_t *turn, const pair_t *pair, sum_t *sum);

zlink_status_t on_add(zlink_turn_t *turn, const pair_t *pair, sum_t *sum)
{
    pair_t own = *pair;
    zlink_status_t status = zlink_cpu_work_async(turn, ZLINK_CPU_WORK(pair_t, sum_t, add, pair, sum));

    if (status != ZLINK_OK)
        return status;
    status = zlink_cpu_work_yield(turn, ZLINK_CPU_WORK_WITHIN(pair_t, sum_t, add, &own, sum, 250));
    if (status != ZLINK_OK)
        return status;
    return zlink_io_work_yield(turn, ZLINK_IO_WORK(pair_t, sum_t, begin_add, pair, sum));
}
