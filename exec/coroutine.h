/*
 * exec/coroutine.h: a stack, and how a thread leaves one for another.
 *
 * The switch is hand-written for x86-64 and aarch64 and is ucontext elsewhere, or where ZLINK_COROUTINE_UCONTEXT is
 * defined. It tells the address and thread sanitizers what it does. Nothing here knows workers or turns. A coroutine
 * belongs to one thread at a time, and only that thread switches to it: compilers keep addresses of thread-local
 * values in registers across the switch.
 */
#ifndef ZLINK_EXEC_COROUTINE_H
#define ZLINK_EXEC_COROUTINE_H

#include <stddef.h>
#include <stdint.h>

#if !defined(ZLINK_COROUTINE_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define ZLINK_COROUTINE_UCONTEXT 1
#endif
#ifdef ZLINK_COROUTINE_UCONTEXT
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ZLINK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZLINK_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ZLINK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ZLINK_TSAN 1
#endif
#endif

typedef struct zlink_coroutine zlink_coroutine_t;

/* Never returns. */
typedef void (*zlink_coroutine_entry_t)(void *argument);

/* Of a pooled stack it lies at that stack's top, so that it costs no page of its own. */
struct zlink_coroutine {
#ifdef ZLINK_COROUTINE_UCONTEXT
    ucontext_t context;
#endif
    void *live;   /* the lowest address in use while it is left */
    char *bottom; /* of the usable stack */
    size_t bytes;
    zlink_coroutine_entry_t entry;
    void *argument;
    zlink_coroutine_t *next; /* the stack pool's */
    unsigned parks;          /* since the last trim */
    unsigned valgrind_id;
#ifdef ZLINK_ASAN
    void *fake_stack;
#endif
#ifdef ZLINK_TSAN
    void *fiber;
#endif
};

/* The stack that the calling thread was born with. */
void zlink_coroutine_init_native(zlink_coroutine_t *coroutine);

/* The first switch to it calls `entry` on its empty stack; `bottom` and `bytes` are set. */
void zlink_coroutine_prepare(zlink_coroutine_t *coroutine, zlink_coroutine_entry_t entry, void *argument);

/* Leaves `from`, on which the caller runs, for `to`; returns when somebody switches back. */
void zlink_coroutine_switch(zlink_coroutine_t *from, zlink_coroutine_t *to);

/* The same for a `from` that nobody switches to again. It may be reused as soon as `to` runs. */
void zlink_coroutine_leave(zlink_coroutine_t *from, zlink_coroutine_t *to) __attribute__((noreturn));

/* Its frames will never run again: forgets what the sanitizers know about them. Not on its own stack. */
void zlink_coroutine_discard(zlink_coroutine_t *coroutine);

#endif
