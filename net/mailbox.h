/*
 * net/mailbox.h: the way into a reactor from other threads: an intrusive queue of many producers and one consumer.
 *
 * The whole state is one word, `head`. It is one of
 *   NULL        the consumer is awake and there is no mail,
 *   ASLEEP      the consumer sleeps, or is about to, and there is no mail,
 *   a pointer   the newest mail; older ones hang behind it by `next`.
 * A producer puts its mail in front with one compare-and-swap. If what it replaced was ASLEEP, this producer, and no
 * other, writes the eventfd: so a sleeping consumer costs one wake-up however many post, an awake one costs none.
 * The consumer may sleep only after its own compare-and-swap NULL -> ASLEEP has succeeded, that is, when no mail
 * existed at that moment; any later mail meets ASLEEP and wakes. As sleeping and posting go through the same word there
 * is no order of the two in which a wake-up is lost. When it wakes, for whatever reason, it swaps the word for NULL and
 * turns the list over, which gives each producer's order back. The eventfd is a counter: a write that comes before
 * the read was submitted is still there.
 *
 * post: any thread. The rest: the consumer's thread.
 */
#ifndef ZLINK_NET_MAILBOX_H
#define ZLINK_NET_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include <zlink/status.h>

typedef struct zlink_mail zlink_mail_t;

/* Embedded in what is sent. */
struct zlink_mail {
    zlink_mail_t *next;
    void (*deliver)(zlink_mail_t *mail);
};

typedef struct zlink_mailbox {
    _Atomic(zlink_mail_t *) head;
    int event_fd;
} zlink_mailbox_t;

zlink_status_t zlink_mailbox_init(zlink_mailbox_t *mailbox);
void zlink_mailbox_destroy(zlink_mailbox_t *mailbox);

/* Any thread. Answers whether it had to wake the consumer. */
bool zlink_mailbox_post(zlink_mailbox_t *mailbox, zlink_mail_t *mail);

/* True: no mail was there and from now on a post wakes. False: there is mail, do not sleep. */
bool zlink_mailbox_try_sleep(zlink_mailbox_t *mailbox);

/* All mail, oldest first, linked by `next`; NULL where there is none. Ends the sleep. */
zlink_mail_t *zlink_mailbox_take(zlink_mailbox_t *mailbox);

#endif
