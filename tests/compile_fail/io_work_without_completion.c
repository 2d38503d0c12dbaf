/* expect: compatible with any (generic )?association */
#include <zlink/zlink.h>

typedef struct {
    int left, right;
} pair_t;

typedef struct {
    int value;
} sum_t;

zlink_status_t add(const pair_t *input, sum_t *output, const zlink_stop_token_t *stop);
zlink_status_t on_add(zlink_turn_t *turn, const pair_t *pair, sum_t *sum);

zlink_status_t on_add(zlink_turn_t *turn, const pair_t *pair, sum_t *sum)
{
    return zlink_io_work_async(turn, ZLINK_IO_WORK(pair_t, sum_t, add, pair, sum));
}
