/*
 * What a module may register, what is refused and with which line, how a handler is found, and which shared objects are
 * modules at all.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlink/zlink.h>

#include "harness.h"
#include "host.zlink.h"

#include "base/log.h"
#include "base/memory.h"
#include "server/application/catalogue.h"
#include "server/application/module_loader.h"

/* ---- tables ---- */

static zlink_status_t on_run(zlink_turn_t *turn, void *self, const RunReq *request, RunRes *reply)
{
    (void)turn, (void)self, (void)request, (void)reply;
    return ZLINK_OK;
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const Note *message)
{
    (void)turn, (void)self, (void)message;
    return ZLINK_OK;
}

static zlink_status_t on_run_sent(zlink_turn_t *turn, void *self, const RunReq *message)
{
    (void)turn, (void)self, (void)message;
    return ZLINK_OK;
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(RunReq, RunRes, on_run),
    ZLINK_ON_SEND(Note, on_note),
    ZLINK_ON_SEND(RunReq, on_run_sent), /* the same packet as a one-way message is another handler */
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t good_spot = {
    .name = "counter",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = 64,
    .relocation = ZLINK_RECREATE_ON_RELOCATION,
    .handlers = handlers,
};
static const zlink_channel_type_t good_channel = {.name = "prices", .state_size = 8, .handlers = handlers};

/* ---- a module's view ---- */

typedef struct fixture {
    zlink_catalogue_t *catalogue;
    zlink_module_t module;
} fixture_t;

static void set_up(fixture_t *fixture)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->catalogue = zlink_catalogue_create();
    assert_non_null(fixture->catalogue);
    fixture->module = (zlink_module_t){.catalogue = fixture->catalogue, .name = "shop"};
}

static void tear_down(fixture_t *fixture)
{
    zlink_catalogue_destroy(fixture->catalogue);
}

static void expect_refused(const fixture_t *fixture, const char *name, const char *reason)
{
    const char *line = fixture->module.refusal.line;
    assert_int_equal(fixture->module.status, ZLINK_INVALID_OPERATION);
    if (!strstr(line, "module shop: ") || !strstr(line, name) || !strstr(line, reason))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", line, name, reason);
}

static void spot_is_refused(zlink_spot_type_t type, const char *name, const char *reason)
{
    fixture_t fixture;
    set_up(&fixture);
    zlink_module_add_spot_type(&fixture.module, &type);
    expect_refused(&fixture, name, reason);
    assert_int_equal(fixture.catalogue->spot_type_count, 0);
    tear_down(&fixture);
}

static void channel_is_refused(zlink_channel_type_t type, const char *name, const char *reason)
{
    fixture_t fixture;
    set_up(&fixture);
    zlink_module_add_channel(&fixture.module, &type);
    expect_refused(&fixture, name, reason);
    assert_int_equal(fixture.catalogue->channel_count, 0);
    tear_down(&fixture);
}

/* ---- registration ---- */

static void test_good_registrations_are_found(void **state)
{
    fixture_t fixture;

    (void)state;
    set_up(&fixture);
    zlink_module_add_spot_type(&fixture.module, &good_spot);
    zlink_module_add_channel(&fixture.module, &good_channel);
    assert_int_equal(fixture.module.status, ZLINK_OK);
    assert_ptr_equal(zlink_catalogue_find_spot_type(fixture.catalogue, "counter")->type, &good_spot);
    assert_ptr_equal(zlink_catalogue_find_channel(fixture.catalogue, "prices")->type, &good_channel);
    /* A Spot type and a channel are different things. */
    assert_null(zlink_catalogue_find_spot_type(fixture.catalogue, "prices"));
    assert_null(zlink_catalogue_find_channel(fixture.catalogue, "counter"));
    assert_null(zlink_catalogue_find_channel(fixture.catalogue, ""));
    tear_down(&fixture);
}

static void test_handlers_are_found_by_kind_and_packet(void **state)
{
    fixture_t fixture;

    (void)state;
    set_up(&fixture);
    zlink_module_add_channel(&fixture.module, &good_channel);
    const zlink_handler_table_t *table = &zlink_catalogue_find_channel(fixture.catalogue, "prices")->handlers;
    assert_int_equal(table->count, 3);
    assert_ptr_equal(zlink_handler_table_find(table, ZLINK_HANDLER_REQUEST, "tests.host.RunReq"), &handlers[0]);
    assert_ptr_equal(zlink_handler_table_find(table, ZLINK_HANDLER_SEND, "tests.host.Note"), &handlers[1]);
    assert_ptr_equal(zlink_handler_table_find(table, ZLINK_HANDLER_SEND, "tests.host.RunReq"), &handlers[2]);
    assert_null(zlink_handler_table_find(table, ZLINK_HANDLER_REQUEST, "tests.host.Note"));
    assert_null(zlink_handler_table_find(table, ZLINK_HANDLER_SEND, "tests.host.Not"));
    assert_null(zlink_handler_table_find(table, ZLINK_HANDLER_SEND, "tests.host.Notes"));
    assert_null(zlink_handler_table_find(table, ZLINK_HANDLER_SEND, ""));
    tear_down(&fixture);
}

static zlink_handler_t row_named(const char *packet)
{
    zlink_handler_t row = handlers[1];
    row.request.packet = packet;
    return row;
}

static void test_every_handler_of_a_large_table_is_found(void **state)
{
    static char names[ZLINK_CATALOGUE_HANDLERS_MAX][16];
    static zlink_handler_t rows[ZLINK_CATALOGUE_HANDLERS_MAX + 2];
    zlink_channel_type_t type = {.name = "large", .handlers = rows};
    fixture_t fixture;

    (void)state;
    set_up(&fixture);
    for (size_t i = 0; i < ZLINK_CATALOGUE_HANDLERS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "p.%zu", (i * 389) % ZLINK_CATALOGUE_HANDLERS_MAX);
        rows[i] = row_named(names[i]);
    }
    rows[ZLINK_CATALOGUE_HANDLERS_MAX].kind = ZLINK_HANDLER_END;
    zlink_module_add_channel(&fixture.module, &type);
    assert_int_equal(fixture.module.status, ZLINK_OK);
    const zlink_handler_table_t *table = &zlink_catalogue_find_channel(fixture.catalogue, "large")->handlers;
    for (size_t i = 0; i < ZLINK_CATALOGUE_HANDLERS_MAX; i++)
        assert_ptr_equal(zlink_handler_table_find(table, ZLINK_HANDLER_SEND, names[i]), &rows[i]);
    tear_down(&fixture);

    rows[ZLINK_CATALOGUE_HANDLERS_MAX] = row_named("p.one.more");
    channel_is_refused(type, "large", "more than 1024 handlers");
}

static void test_names_are_checked(void **state)
{
    char long_name[ZLINK_NAME_BYTES_MAX + 2];
    zlink_spot_type_t spot = good_spot;
    zlink_channel_type_t channel = good_channel;
    fixture_t fixture;

    (void)state;
    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    spot.name = NULL;
    spot_is_refused(spot, "(no name)", "needs a name");
    spot.name = "";
    spot_is_refused(spot, "spot type", "needs a name");
    spot.name = long_name;
    spot_is_refused(spot, long_name, "longer than 255 bytes");
    spot.name = "bad\xff";
    spot_is_refused(spot, "spot type", "not UTF-8");
    channel.name = NULL;
    channel_is_refused(channel, "(no name)", "needs a name");
    channel.name = long_name;
    channel_is_refused(channel, long_name, "longer than 255 bytes");
    channel.name = "two\nlines";
    channel_is_refused(channel, "channel", "control characters");

    set_up(&fixture);
    channel.name = long_name + 1; /* 255 bytes are allowed */
    zlink_module_add_channel(&fixture.module, &channel);
    assert_int_equal(fixture.module.status, ZLINK_OK);
    zlink_module_add_channel(&fixture.module, NULL);
    expect_refused(&fixture, "(no name)", "NULL was registered");
    tear_down(&fixture);
    set_up(&fixture);
    zlink_module_add_spot_type(&fixture.module, NULL);
    expect_refused(&fixture, "(no name)", "NULL was registered");
    tear_down(&fixture);
}

static void test_a_type_says_what_it_is(void **state)
{
    zlink_spot_type_t spot = good_spot;
    zlink_channel_type_t channel = good_channel;

    (void)state;
    spot.kind = ZLINK_SPOT_KIND_UNSET;
    spot_is_refused(spot, "counter", "no kind");
    spot = good_spot;
    spot.relocation = ZLINK_RELOCATION_UNSET;
    spot_is_refused(spot, "counter", "exactly one relocation policy");
    spot.relocation = (zlink_relocation_policy_t)77;
    spot_is_refused(spot, "counter", "exactly one relocation policy");
    spot = good_spot;
    spot.state_size = ((size_t)64 << 20) + 1;
    spot_is_refused(spot, "counter", "over 64 MiB");
    spot = good_spot;
    spot.handlers = NULL;
    spot_is_refused(spot, "counter", "no handlers");
    channel.handlers = NULL;
    channel_is_refused(channel, "prices", "no handlers");
    channel = good_channel;
    channel.state_size = ((size_t)64 << 20) + 1;
    channel_is_refused(channel, "prices", "over 64 MiB");
}

static void test_handler_rows_are_checked(void **state)
{
    zlink_handler_t rows[3] = {handlers[0], handlers[1], ZLINK_HANDLERS_END};
    zlink_channel_type_t channel = {.name = "prices", .handlers = rows};

    (void)state;
    rows[0].function = NULL;
    channel_is_refused(channel, "prices", "no function");
    rows[0] = handlers[0];
    rows[0].request.packet = NULL;
    channel_is_refused(channel, "prices", "no message");
    rows[0] = handlers[0];
    rows[0].request.packet = "";
    channel_is_refused(channel, "prices", "needs a name");
    rows[0] = handlers[0];
    rows[0].request.fields = NULL;
    channel_is_refused(channel, "prices", "no message");
    rows[0] = handlers[0];
    rows[0].reply.fields = NULL;
    channel_is_refused(channel, "prices", "no reply message");
    rows[0] = handlers[0];
    rows[0].reply.packet = NULL;
    channel_is_refused(channel, "prices", "needs a name");
    rows[0] = handlers[0];
    rows[1].kind = (zlink_handler_kind_t)9;
    channel_is_refused(channel, "prices", "do not end with ZLINK_HANDLERS_END");
    rows[1] = handlers[0];
    channel_is_refused(channel, "prices", "two handlers of one kind for one packet");
}

static void test_the_first_refusal_is_the_one_that_is_told(void **state)
{
    zlink_spot_type_t nameless = good_spot;
    fixture_t fixture;

    (void)state;
    nameless.name = NULL;
    set_up(&fixture);
    zlink_module_add_channel(&fixture.module, &good_channel);
    zlink_module_add_channel(&fixture.module, &good_channel);
    expect_refused(&fixture, "channel prices", "registered twice");
    zlink_module_add_spot_type(&fixture.module, &nameless);
    expect_refused(&fixture, "channel prices", "registered twice");
    assert_int_equal(fixture.catalogue->channel_count, 1);
    tear_down(&fixture);

    set_up(&fixture);
    zlink_module_add_spot_type(&fixture.module, &good_spot);
    zlink_module_add_spot_type(&fixture.module, &good_spot);
    expect_refused(&fixture, "spot type counter", "registered twice");
    tear_down(&fixture);
}

static void test_there_is_a_limit_of_types(void **state)
{
    static char names[ZLINK_CATALOGUE_TYPES_MAX + 1][16];
    static zlink_spot_type_t spots[ZLINK_CATALOGUE_TYPES_MAX + 1];
    static zlink_channel_type_t channels[ZLINK_CATALOGUE_TYPES_MAX + 1];
    fixture_t fixture;

    (void)state;
    set_up(&fixture);
    for (size_t i = 0; i <= ZLINK_CATALOGUE_TYPES_MAX; i++) {
        assert_int_equal(fixture.module.status, ZLINK_OK);
        snprintf(names[i], sizeof(names[i]), "type-%zu", i);
        spots[i] = good_spot;
        spots[i].name = names[i];
        zlink_module_add_spot_type(&fixture.module, &spots[i]);
    }
    expect_refused(&fixture, "type-256", "more than 256 Spot types");
    assert_int_equal(fixture.catalogue->spot_type_count, ZLINK_CATALOGUE_TYPES_MAX);
    fixture.module.status = ZLINK_OK;
    for (size_t i = 0; i <= ZLINK_CATALOGUE_TYPES_MAX; i++) {
        assert_int_equal(fixture.module.status, ZLINK_OK);
        channels[i] = good_channel;
        channels[i].name = names[i];
        zlink_module_add_channel(&fixture.module, &channels[i]);
    }
    expect_refused(&fixture, "type-256", "more than 256 channels");
    tear_down(&fixture);
}

static void test_no_memory_is_a_refusal(void **state)
{
    fixture_t fixture;

    (void)state;
    zlink_memory_fail_after(0);
    assert_null(zlink_catalogue_create());
    set_up(&fixture);
    zlink_memory_fail_after(0);
    zlink_module_add_channel(&fixture.module, &good_channel);
    zlink_memory_fail_after(-1);
    expect_refused(&fixture, "prices", "out of memory");
    assert_null(zlink_catalogue_find_channel(fixture.catalogue, "prices"));
    tear_down(&fixture);
    zlink_catalogue_destroy(NULL);
}

/* ---- loading ---- */

static void load_is_refused(const char *path, zlink_status_t status, const char *reason)
{
    zlink_catalogue_t *catalogue = zlink_catalogue_create();
    zlink_refusal_t why = {{0}};

    assert_int_equal(zlink_module_loader_load(path, catalogue, &why), status);
    if (!strstr(why.line, path) || !strstr(why.line, reason))
        fail_msg("\"%s\" does not name the file and \"%s\"", why.line, reason);
    assert_int_equal(catalogue->spot_type_count, 0);
    zlink_catalogue_destroy(catalogue);
}

static void test_a_module_is_loaded(void **state)
{
    zlink_catalogue_t *catalogue = zlink_catalogue_create();
    zlink_refusal_t why = {{0}};

    (void)state;
    if (zlink_module_loader_load(ZLINK_TESTS_MODULES "/unit_good.so", catalogue, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
    assert_non_null(zlink_catalogue_find_channel(catalogue, "good channel"));
    assert_non_null(zlink_catalogue_find_spot_type(catalogue, "good spot"));

    /* The same module again registers the same names again. */
    assert_int_equal(zlink_module_loader_load(ZLINK_TESTS_MODULES "/unit_good.so", catalogue, &why),
                     ZLINK_INVALID_OPERATION);
    assert_non_null(strstr(why.line, "module good: channel good channel: registered twice"));
    zlink_catalogue_destroy(catalogue);
}

static void test_what_is_no_module_is_refused_with_the_reason(void **state)
{
    (void)state;
    load_is_refused(ZLINK_TESTS_MODULES "/unit_nowhere.so", ZLINK_NOT_FOUND, "cannot be opened");
    load_is_refused(ZLINK_TESTS_SOURCES "/harness.h", ZLINK_NOT_FOUND, "cannot be loaded");
    load_is_refused(ZLINK_TESTS_SOURCES, ZLINK_NOT_FOUND, "cannot be loaded");
    load_is_refused(ZLINK_TESTS_MODULES "/unit_not_a_module.so", ZLINK_INVALID_OPERATION, "it has no ZLINK_MODULE");
    load_is_refused(ZLINK_TESTS_MODULES "/unit_wrong_magic.so", ZLINK_INVALID_OPERATION, "descriptor is damaged");
    load_is_refused(ZLINK_TESTS_MODULES "/unit_wrong_body.so", ZLINK_INVALID_OPERATION, "names no body");
    load_is_refused(ZLINK_TESTS_MODULES "/unit_bad_registration.so", ZLINK_INVALID_OPERATION, "registered twice");
}

#define STRING_(TEXT) #TEXT
#define STRING(TEXT)  STRING_(TEXT)
#define OTHER_ABI     10 /* what modules/wrong_descriptor.c makes of it: this one and six more */

/* The numbers are compared before any code of the module runs: its body would abort. */
static void test_a_module_of_another_abi_is_refused(void **state)
{
    (void)state;
    load_is_refused(ZLINK_TESTS_MODULES "/unit_wrong_abi.so", ZLINK_INVALID_OPERATION,
                    "built for module ABI " STRING(OTHER_ABI) ", this node has ABI ");
    load_is_refused(ZLINK_TESTS_MODULES "/unit_wrong_layout.so", ZLINK_INVALID_OPERATION, "other nanopb options");
}

/* A name without a slash is a file of this folder, never one of the library path. */
static void test_a_bare_name_is_not_searched_for(void **state)
{
    (void)state;
    load_is_refused("libc.so.6", ZLINK_NOT_FOUND, "cannot be opened");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_registrations_are_found),
        cmocka_unit_test(test_handlers_are_found_by_kind_and_packet),
        cmocka_unit_test(test_every_handler_of_a_large_table_is_found),
        cmocka_unit_test(test_names_are_checked),
        cmocka_unit_test(test_a_type_says_what_it_is),
        cmocka_unit_test(test_handler_rows_are_checked),
        cmocka_unit_test(test_the_first_refusal_is_the_one_that_is_told),
        cmocka_unit_test(test_there_is_a_limit_of_types),
        cmocka_unit_test(test_no_memory_is_a_refusal),
        cmocka_unit_test(test_a_module_is_loaded),
        cmocka_unit_test(test_what_is_no_module_is_refused_with_the_reason),
        cmocka_unit_test(test_a_module_of_another_abi_is_refused),
        cmocka_unit_test(test_a_bare_name_is_not_searched_for),
    };
    zlink_log_set_level(ZLINK_LOG_ERROR);
    return zlink_test_main(tests);
}
