/* What handlers write into the node's log. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#include <zlink/log.h>

#include "base/log.h"
#include "server/application/channel_host.h"

static const zlink_channel_type_t type = {.name = "prices"};
static const zlink_catalogue_channel_t catalogued = {.type = &type};
static zlink_channel_host_t channel = {.channel = &catalogued};
static zlink_invocation_t invocation = {.channel = &channel};

/* What one message becomes; "" where nothing was written. */
static const char *said(const zlink_turn_t *turn, zlink_log_level_t level, const char *text)
{
    static char line[8192];
    int ends[2];
    ssize_t got;

    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    zlink_log_set_fd(ends[1]);
    zlink_log_message(turn, level, text);
    zlink_log_set_fd(2);
    got = read(ends[0], line, sizeof(line) - 1);
    line[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    return line;
}

static void test_log_message_names_level_and_owner(void **state)
{
    const char *line;

    (void)state;
    line = said(&invocation.turn, ZLINK_LOG_WARN, "out of apples");
    assert_non_null(strstr(line, "level=warn event=zlink.module.message"));
    assert_non_null(strstr(line, "owner=prices text=\"out of apples\"\n"));
    assert_non_null(strstr(said(NULL, ZLINK_LOG_ERROR, "x"), "owner=\"\" text=x\n"));
}

static void test_log_message_keeps_to_the_level(void **state)
{
    (void)state;
    assert_string_equal(said(NULL, ZLINK_LOG_DEBUG, "x"), "");
    assert_string_equal(said(NULL, ZLINK_LOG_OFF, "x"), "");
    assert_string_equal(said(NULL, (zlink_log_level_t)99, "x"), "");
    zlink_log_set_level(ZLINK_LOG_OFF);
    assert_string_equal(said(NULL, ZLINK_LOG_ERROR, "x"), "");
    zlink_log_set_level(ZLINK_LOG_INFO);
}

/* A text of strangers cannot forge a line or a field, and a long one stays one line. */
static void test_log_message_is_one_value_of_one_line(void **state)
{
    char text[6000];
    const char *line;

    (void)state;
    line = said(NULL, ZLINK_LOG_INFO, "a\nts=0 level=error event=forged \"q\" \x1b[2J");
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_null(strchr(line, '\x1b'));
    assert_null(strstr(line, " \"q\""));
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    line = said(NULL, ZLINK_LOG_INFO, text);
    assert_true(strlen(line) <= 4096);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_non_null(strstr(said(NULL, ZLINK_LOG_INFO, NULL), "text=\"\"\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_message_names_level_and_owner),
        cmocka_unit_test(test_log_message_keeps_to_the_level),
        cmocka_unit_test(test_log_message_is_one_value_of_one_line),
    };

    return zlink_test_main(tests);
}
