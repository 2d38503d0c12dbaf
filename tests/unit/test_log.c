#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"

extern zlink_counter_t zlink_log_lines_dropped;

static int reading = -1;
static int writing = -1;
static char text[16384];

static int set_up(void **state)
{
    int ends[2];

    (void)state;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    reading = ends[0];
    writing = ends[1];
    zlink_log_set_fd(writing);
    zlink_log_set_level(ZLINK_LOG_INFO);
    zlink_log_set_node("");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zlink_log_set_fd(2);
    if (reading >= 0)
        close(reading);
    if (writing >= 0)
        close(writing);
    return 0;
}

/* What was logged since the last call, without the time stamps' digits of the first line. */
static const char *logged(void)
{
    struct pollfd readable = {.fd = reading, .events = POLLIN};
    size_t used = 0;

    while (used < sizeof(text) - 1 && poll(&readable, 1, 0) == 1 && (readable.revents & POLLIN)) {
        ssize_t size = read(reading, text + used, sizeof(text) - 1 - used);

        assert_true(size > 0);
        used += (size_t)size;
    }
    text[used] = '\0';
    return text;
}

static const char *after_time(const char *line)
{
    assert_int_equal(strncmp(line, "ts=20", 5), 0);
    assert_int_equal(line[3 + 10], 'T');
    assert_int_equal(line[3 + 23], 'Z');
    return line + 3 + 25;
}

static void test_a_line_is_logfmt(void **state)
{
    (void)state;
    zlink_log_set_node("a");
    zlink_log(ZLINK_LOG_INFO, "zlink.peer.ready", ZLINK_LOG_S("peer", "b-1"), ZLINK_LOG_I("links", -2),
              ZLINK_LOG_R("seconds", 0.25), ZLINK_LOG_S("nothing", NULL));
    assert_string_equal(after_time(logged()),
                        "level=info event=zlink.peer.ready node=a peer=b-1 links=-2 seconds=0.25 nothing=\"\"\n");
}

static void test_levels_below_the_set_one_write_nothing(void **state)
{
    (void)state;
    zlink_log(ZLINK_LOG_DEBUG, "no", ZLINK_LOG_I("n", 1));
    assert_string_equal(logged(), "");
    zlink_log_set_level(ZLINK_LOG_DEBUG);
    assert_int_equal(zlink_log_get_level(), ZLINK_LOG_DEBUG);
    zlink_log(ZLINK_LOG_DEBUG, "yes", ZLINK_LOG_I("n", 1));
    assert_string_equal(after_time(logged()), "level=debug event=yes n=1\n");
    zlink_log_set_level(ZLINK_LOG_ERROR);
    zlink_log(ZLINK_LOG_WARN, "no", ZLINK_LOG_I("n", 1));
    assert_string_equal(logged(), "");
    zlink_log(ZLINK_LOG_ERROR, "yes", ZLINK_LOG_I("n", 1));
    assert_string_equal(after_time(logged()), "level=error event=yes n=1\n");
    zlink_log_set_level(ZLINK_LOG_OFF);
    zlink_log(ZLINK_LOG_ERROR, "no", ZLINK_LOG_I("n", 1));
    zlink_log(ZLINK_LOG_OFF, "no", ZLINK_LOG_I("n", 1));
    assert_string_equal(logged(), "");
}

static void test_no_value_can_forge_a_field_or_a_line(void **state)
{
    static const struct {
        const char *value;
        const char *written;
    } cases[] = {
        {"plain", "plain"},
        {"two words", "\"two words\""},
        {"level=error", "\"level=error\""},
        {"a\nts=1 event=forged", "\"a\\nts=1 event=forged\""},
        {"\r\t\x1b[2J\x7f", "\"\\r\\t\\x1b[2J\\x7f\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"\xc3\xa9\xed\x95\x9c\xf0\x9f\x98\x80", "\xc3\xa9\xed\x95\x9c\xf0\x9f\x98\x80"}, /* UTF-8 stays */
        {"\xc2\x9b", "\"\\xc2\\x9b\""},                                                   /* U+009B, a control */
        {"\xff\xc3", "\"\\xff\\xc3\""},                                                   /* not UTF-8, then cut off */
        {"\xc0\xaf", "\"\\xc0\\xaf\""},                                                   /* overlong */
        {"\xed\xa0\x80", "\"\\xed\\xa0\\x80\""},                                          /* a surrogate */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[256];

        zlink_log(ZLINK_LOG_WARN, "e", ZLINK_LOG_S("k", cases[i].value), ZLINK_LOG_I("n", 1));
        snprintf(expected, sizeof(expected), "level=warn event=e k=%s n=1\n", cases[i].written);
        assert_string_equal(after_time(logged()), expected);
    }
    zlink_log(ZLINK_LOG_WARN, "e v\n", ZLINK_LOG_S("k =", "v"));
    assert_string_equal(after_time(logged()), "level=warn event=e_v_ k__=v\n");
}

static void test_a_node_name_is_cut_at_64_bytes(void **state)
{
    char name[100];
    char expected[200];

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    zlink_log_set_node(name);
    zlink_log(ZLINK_LOG_INFO, "e", ZLINK_LOG_I("n", 1));
    snprintf(expected, sizeof(expected), "level=info event=e node=%.64s n=1\n", name);
    assert_string_equal(after_time(logged()), expected);
}

/* For every length around the limit: one line, at most 4 KiB, quotes closed, and marked exactly where it was cut. */
static void test_a_long_line_is_cut_at_4_kib_with_a_marker(void **state)
{
    static char value[5000];

    (void)state;
    for (unsigned quoted = 0; quoted < 2; quoted++) {
        for (size_t size = 3900; size < 4200; size++) {
            const char *line;
            size_t length;
            bool cut;

            memset(value, 'v', size);
            value[size] = '\0';
            if (quoted)
                value[0] = ' ';
            zlink_log(ZLINK_LOG_INFO, "e", ZLINK_LOG_S("k", value), ZLINK_LOG_I("number", 123456),
                      ZLINK_LOG_S("s", ""));
            line = logged();
            length = strlen(line);
            assert_in_range(length, 1, 4096);
            assert_ptr_equal(strchr(line, '\n'), line + length - 1);
            cut = strcmp(line + length - 10, " cut=true\n") == 0;
            assert_int_equal(cut, strstr(line, "number=123456 s=\"\"\n") == NULL);
            if (strstr(line, "number") != NULL)
                assert_non_null(strstr(line, "number=123456 "));
            if (quoted)
                assert_non_null(strstr(line + 60, "v\" "));
        }
    }
}

/* A character of several bytes is never cut in two. */
static void test_a_cut_keeps_characters_whole(void **state)
{
    static char value[6001];

    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        const char *line;
        const char *end;

        memset(value, 0, sizeof(value));
        memset(value, 'x', shift);
        for (size_t i = 0; i + 3 < sizeof(value) - shift; i += 3)
            memcpy(value + shift + i, "\xed\x95\x9c", 3);
        zlink_log(ZLINK_LOG_INFO, "e", ZLINK_LOG_S("k", value));
        line = logged();
        end = strstr(line, " cut=true\n");
        assert_non_null(end);
        assert_int_equal((unsigned char)end[-1], 0x9c);
    }
}

/* EX-98: a log that nobody reads, whose pipe is full or that is closed changes nothing: no signal, no wait, errno kept.
 */
static void test_ex98_a_log_that_cannot_be_written_changes_nothing(void **state)
{
    int64_t dropped = zlink_counter_read(&zlink_log_lines_dropped);
    unsigned lines = 0;

    (void)state;
    errno = ENOTTY;
    while (zlink_counter_read(&zlink_log_lines_dropped) == dropped) { /* until the pipe is full */
        zlink_log(ZLINK_LOG_INFO, "e", ZLINK_LOG_I("n", lines));
        assert_true(++lines < 100000);
    }
    assert_int_equal(errno, ENOTTY);
    assert_true(lines > 100);

    close(reading);
    reading = -1;
    zlink_log(ZLINK_LOG_INFO, "e", ZLINK_LOG_I("n", 1)); /* would raise SIGPIPE */
    assert_int_equal(zlink_counter_read(&zlink_log_lines_dropped), dropped + 2);
    close(writing);
    writing = -1;
    zlink_log(ZLINK_LOG_INFO, "e", ZLINK_LOG_I("n", 1));
    assert_int_equal(zlink_counter_read(&zlink_log_lines_dropped), dropped + 3);
    assert_int_equal(errno, ENOTTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_line_is_logfmt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_levels_below_the_set_one_write_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_value_can_forge_a_field_or_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_node_name_is_cut_at_64_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_long_line_is_cut_at_4_kib_with_a_marker, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_cut_keeps_characters_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ex98_a_log_that_cannot_be_written_changes_nothing, set_up, tear_down),
    };

    return zlink_test_main(tests);
}
