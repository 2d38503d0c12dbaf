/*
 * zlink/cancellation.h: how a call that waits is given up by somebody else.
 *
 * Make one, name it in the options of any number of calls (zlink/call_options.h), keep it in the owner's state, and
 * cancel it from another turn or thread: every call with it that still waits ends with ZLINK_CANCELLED, and one that is
 * made with it afterwards ends so at once, with nothing sent. Calls that have ended are not changed, a one-way message
 * that was taken is still delivered, and a handler that already runs on the other side goes on: it is only no longer
 * waited for. What was not sent yet is not sent any more, and what waits in a queue over there is dropped.
 *
 * Any thread may use these functions. Destroying is not cancelling: calls that were made with it go on.
 */
#ifndef ZLINK_CANCELLATION_H
#define ZLINK_CANCELLATION_H

#include <stdbool.h>

#include <zlink/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zlink_cancellation zlink_cancellation_t;

/* NULL when out of memory. The caller's, to be destroyed once. */
ZLINK_API zlink_cancellation_t *zlink_cancellation_create(void);

/* For good; a second time changes nothing, nor does NULL. */
ZLINK_API void zlink_cancellation_cancel(zlink_cancellation_t *cancellation);

/* False for NULL. */
ZLINK_API bool zlink_cancellation_is_cancelled(const zlink_cancellation_t *cancellation);

/* NULL is allowed. Not while another thread is inside a function with it. */
ZLINK_API void zlink_cancellation_destroy(zlink_cancellation_t *cancellation);

#ifdef __cplusplus
}
#endif

#endif
