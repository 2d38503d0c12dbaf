/*
 * zlink/status.h: how every call of this library answers.
 *
 * ZLINK_OK is success; the thirteen kinds after it are the framework's published error kinds, each
 * with its published number plus one (on the wire the published numbers 0 to 12 travel). A status is
 * a value, never a text: compare it, do not parse it. Any thread may use these functions.
 */
#ifndef ZLINK_STATUS_H
#define ZLINK_STATUS_H

#if defined(__GNUC__)
#define ZLINK_API      __attribute__((visibility("default")))
#define ZLINK_MUST_USE __attribute__((warn_unused_result))
#else
#error "zlink needs gcc or clang"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zlink_status {
    ZLINK_OK = 0,
    ZLINK_NOT_FOUND,         /* no such object, handler, channel or node */
    ZLINK_ALREADY_EXISTS,    /* that id or name is taken */
    ZLINK_TYPE_MISMATCH,     /* the id exists with another kind or type */
    ZLINK_NOT_CONFIGURED,    /* a required role, handler or listener was never registered */
    ZLINK_REJECTED,          /* a filter or admission policy refused */
    ZLINK_UNAVAILABLE,       /* the target cannot be reached or used now; another node's queue is full */
    ZLINK_CAPACITY_EXCEEDED, /* a bounded resource of this process is full */
    ZLINK_DEADLINE_EXCEEDED, /* the time given to the call is over */
    ZLINK_SHUTTING_DOWN,     /* the node or object takes nothing new */
    ZLINK_PROTOCOL_ERROR,    /* bytes that cannot be understood */
    ZLINK_INVALID_OPERATION, /* a call that is not allowed here; nothing was submitted */
    ZLINK_DATA_LOST,         /* stored data is missing or damaged */
    ZLINK_INTERNAL_FAILURE,  /* a handler, worker or the node itself failed */

    /* Not one of the kinds, and never on a wire: this process gave the call up (zlink/cancellation.h). A handler that
     * returns it has failed with ZLINK_INTERNAL_FAILURE. */
    ZLINK_CANCELLED = 100,
} zlink_status_t;

#define ZLINK_STATUS_COUNT 14 /* ZLINK_OK and the kinds */

/* The kind's name as the contract spells it ("DeadlineExceeded"; "Ok" for ZLINK_OK; "Cancelled"; "Unknown" for a
 * number outside the enum). The string is static. */
ZLINK_API const char *zlink_status_name(zlink_status_t status);

#ifdef __cplusplus
}
#endif

#endif
