#include "net/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/counters.h"

ZLINK_COUNTER_DEFINE(zlink_counter_net_wakeups, ZLINK_COUNTER, "zlink.net.wakeups",
                     "Times that another thread had to wake a sleeping reactor");

/* Its address marks the sleeping consumer; it is never delivered. */
static zlink_mail_t asleep;

zlink_status_t zlink_mailbox_init(zlink_mailbox_t *mailbox)
{
    atomic_init(&mailbox->head, NULL);
    /* Blocking: the ring waits for it, and a write can only block at 2^64-2 unread wake-ups. */
    mailbox->event_fd = eventfd(0, EFD_CLOEXEC);
    return mailbox->event_fd < 0 ? ZLINK_CAPACITY_EXCEEDED : ZLINK_OK;
}

void zlink_mailbox_destroy(zlink_mailbox_t *mailbox)
{
    if (mailbox->event_fd >= 0)
        close(mailbox->event_fd);
    mailbox->event_fd = -1;
}

static void mailbox_wake(zlink_mailbox_t *mailbox)
{
    const uint64_t one = 1;
    ssize_t written;

    zlink_counter_add(&zlink_counter_net_wakeups, 1);
    do {
        written = write(mailbox->event_fd, &one, sizeof(one));
    } while (written < 0 && errno == EINTR);
    assert(written == (ssize_t)sizeof(one));
}

bool zlink_mailbox_post(zlink_mailbox_t *mailbox, zlink_mail_t *mail)
{
    zlink_mail_t *head = atomic_load_explicit(&mailbox->head, memory_order_relaxed);

    assert(mail->deliver != NULL);
    do {
        mail->next = head == &asleep ? NULL : head;
    } while (!atomic_compare_exchange_weak_explicit(&mailbox->head, &head, mail, memory_order_release,
                                                    memory_order_relaxed));
    /* From here on the mail may be gone: only the local copy of the old head is looked at. */
    if (head != &asleep)
        return false;
    mailbox_wake(mailbox);
    return true;
}

bool zlink_mailbox_try_sleep(zlink_mailbox_t *mailbox)
{
    zlink_mail_t *nobody = NULL;

    return atomic_compare_exchange_strong_explicit(&mailbox->head, &nobody, &asleep, memory_order_relaxed,
                                                   memory_order_relaxed);
}

zlink_mail_t *zlink_mailbox_take(zlink_mailbox_t *mailbox)
{
    zlink_mail_t *newest;
    zlink_mail_t *oldest = NULL;

    if (atomic_load_explicit(&mailbox->head, memory_order_relaxed) == NULL)
        return NULL;
    newest = atomic_exchange_explicit(&mailbox->head, NULL, memory_order_acquire);
    if (newest == &asleep)
        return NULL;
    while (newest != NULL) {
        zlink_mail_t *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}
