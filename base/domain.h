/*
 * base/domain.h: in which of the two work domains the calling thread executes right now (contract 003 §13, IC-10).
 *
 * A mark of the context, not of the thread: a worker is in the application domain while a turn runs on it, across the
 * turn's suspensions too, and in the infrastructure domain between turns; a state lane's turn is infrastructure on
 * whatever thread it runs. Threads that belong to no node (the main thread, a tool, a test) are in none.
 *
 * What is for one domain only asks here first and answers ZLINK_INVALID_OPERATION to a call from the other, at once:
 * a wait there could never end, and letting it pass would mix the two. It lives in base/ because both sides of the
 * wall set it. Setting and asking are a plain store and load; each thread sees its own mark only.
 */
#ifndef ZLINK_BASE_DOMAIN_H
#define ZLINK_BASE_DOMAIN_H

#include <zlink/status.h>

typedef enum zlink_domain {
    ZLINK_DOMAIN_NONE = 0,
    ZLINK_DOMAIN_APPLICATION,    /* a turn: handlers, callbacks, payload decode, error mapping */
    ZLINK_DOMAIN_INFRASTRUCTURE, /* the reactor and its helpers, timers, lanes, what a worker does between turns */
} zlink_domain_t;

/* Private to the functions below. */
extern _Thread_local zlink_domain_t zlink_domain_of_thread __attribute__((tls_model("initial-exec")));

static inline zlink_domain_t zlink_domain_current(void)
{
    return zlink_domain_of_thread;
}

/* Answers the domain that was left: whoever enters for a while enters that one again afterwards. */
static inline zlink_domain_t zlink_domain_enter(zlink_domain_t domain)
{
    zlink_domain_t left = zlink_domain_of_thread;
    zlink_domain_of_thread = domain;
    return left;
}

/* For what only infrastructure may do. ZLINK_INVALID_OPERATION inside a turn. */
static inline zlink_status_t zlink_domain_throw_if_application(void)
{
    return zlink_domain_of_thread == ZLINK_DOMAIN_APPLICATION ? ZLINK_INVALID_OPERATION : ZLINK_OK;
}

/* For what waits on a thread of its own, as start and stop do. ZLINK_INVALID_OPERATION in either domain. */
static inline zlink_status_t zlink_domain_throw_unless_outside(void)
{
    return zlink_domain_of_thread == ZLINK_DOMAIN_NONE ? ZLINK_OK : ZLINK_INVALID_OPERATION;
}

#endif
