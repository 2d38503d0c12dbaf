/* The mailbox alone: order, sleeping and waking. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#include "base/container_of.h"
#include "net/mailbox.h"

typedef struct letter {
    zlink_mail_t mail;
    unsigned sender;
    unsigned number;
} letter_t;

static void deliver_nothing(zlink_mail_t *mail)
{
    (void)mail;
}

static bool woken(const zlink_mailbox_t *mailbox)
{
    struct pollfd poller = {.fd = mailbox->event_fd, .events = POLLIN};
    uint64_t value;

    if (poll(&poller, 1, 0) != 1)
        return false;
    assert_int_equal(read(mailbox->event_fd, &value, sizeof(value)), (ssize_t)sizeof(value));
    return true;
}

/* Oldest first; only a post that meets a sleeper wakes, and only the first. */
static void test_mailbox_wakes_once_and_only_a_sleeper(void **state)
{
    letter_t letters[4];
    zlink_mailbox_t mailbox;
    zlink_mail_t *mail;

    (void)state;
    assert_int_equal(zlink_mailbox_init(&mailbox), ZLINK_OK);
    for (unsigned i = 0; i < 4; i++)
        letters[i] = (letter_t){.mail.deliver = deliver_nothing, .number = i};
    assert_null(zlink_mailbox_take(&mailbox));
    assert_false(zlink_mailbox_post(&mailbox, &letters[0].mail)); /* awake: no wake-up */
    assert_false(zlink_mailbox_try_sleep(&mailbox));              /* mail: no sleep */
    assert_ptr_equal(zlink_mailbox_take(&mailbox), &letters[0].mail);
    assert_true(zlink_mailbox_try_sleep(&mailbox));
    assert_false(woken(&mailbox));
    assert_true(zlink_mailbox_post(&mailbox, &letters[1].mail));
    assert_false(zlink_mailbox_post(&mailbox, &letters[2].mail));
    assert_false(zlink_mailbox_post(&mailbox, &letters[3].mail));
    assert_true(woken(&mailbox));
    mail = zlink_mailbox_take(&mailbox);
    for (unsigned i = 1; i < 4; i++, mail = mail->next)
        assert_ptr_equal(mail, &letters[i].mail);
    assert_null(mail);
    assert_true(zlink_mailbox_try_sleep(&mailbox));
    assert_null(zlink_mailbox_take(&mailbox)); /* awake again without mail */
    assert_false(zlink_mailbox_post(&mailbox, &letters[0].mail));
    assert_non_null(zlink_mailbox_take(&mailbox));
    zlink_mailbox_destroy(&mailbox);
}

enum { SENDERS = 4, LETTERS = 50000 };

typedef struct sender {
    zlink_mailbox_t *mailbox;
    unsigned number;
    letter_t *letters;
} sender_t;

static void *sender_main(void *argument)
{
    sender_t *sender = argument;

    for (unsigned i = 0; i < LETTERS; i++) {
        sender->letters[i] = (letter_t){.mail.deliver = deliver_nothing, .sender = sender->number, .number = i};
        zlink_mailbox_post(sender->mailbox, &sender->letters[i].mail);
    }
    return NULL;
}

/* H22: senders race with a consumer that sleeps whenever it may and waits on the eventfd without a timeout: a lost
 * wake-up would hang it. Each sender's letters come in its order. */
static void test_h22_storm_loses_no_wake_up_and_no_order(void **state)
{
    zlink_mailbox_t mailbox;
    sender_t senders[SENDERS];
    pthread_t threads[SENDERS];
    unsigned expected[SENDERS] = {0};
    size_t left = (size_t)SENDERS * LETTERS;

    (void)state;
    assert_int_equal(zlink_mailbox_init(&mailbox), ZLINK_OK);
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (sender_t){&mailbox, i, calloc(LETTERS, sizeof(letter_t))};
        assert_int_equal(pthread_create(&threads[i], NULL, sender_main, &senders[i]), 0);
    }
    while (left > 0) {
        zlink_mail_t *mail;
        uint64_t value;

        if (zlink_mailbox_try_sleep(&mailbox))
            assert_int_equal(read(mailbox.event_fd, &value, sizeof(value)), (ssize_t)sizeof(value));
        for (mail = zlink_mailbox_take(&mailbox); mail != NULL;) {
            letter_t *letter = ZLINK_CONTAINER_OF(mail, letter_t, mail);

            assert_int_equal(letter->number, expected[letter->sender]++);
            mail = mail->next;
            left--;
        }
    }
    for (unsigned i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        free(senders[i].letters);
    }
    zlink_mailbox_destroy(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mailbox_wakes_once_and_only_a_sleeper),
        cmocka_unit_test(test_h22_storm_loses_no_wake_up_and_no_order),
    };

    return zlink_test_main(tests);
}
