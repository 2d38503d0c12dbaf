/* The three files of a node, and every way in which they can be wrong. */
#include "harness.h"

#include "tls_fixture.h"

static tls_fixture_t fixture;
static tls_files_t good;

static int set_up(void **state)
{
    (void)state;
    tls_fixture_init(&fixture);
    tls_fixture_authority(&fixture, "ca");
    tls_fixture_authority(&fixture, "foreign");
    good = tls_fixture_node(&fixture, "ca", "mesh", "node-a");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tls_fixture_release(&fixture);
    return 0;
}

/* Refused, and the line names this file and this reason. */
static void refuse(const tls_files_t *files, const char *file, const char *reason)
{
    const zlink_tls_options_t options = {
        .ca_file = files->ca, .certificate_file = files->certificate, .key_file = files->key};
    zlink_tls_context_t *context = NULL;
    zlink_refusal_t why = {{0}};

    assert_int_equal(zlink_tls_context_create(&options, &context, &why), ZLINK_INVALID_OPERATION);
    assert_null(context);
    if (strstr(why.line, file) == NULL || strstr(why.line, reason) == NULL)
        fail_msg("expected '%s' and '%s' in: %s", file, reason, why.line);
}

static void test_tls_context_takes_good_files(void **state)
{
    zlink_tls_context_t *context = tls_fixture_context(&good);

    (void)state;
    assert_string_equal(zlink_tls_context_identity(context)->mesh, "mesh");
    assert_string_equal(zlink_tls_context_identity(context)->name, "node-a");
    assert_int_equal(zlink_tls_context_expires_at(context), 4102444799); /* 2099-12-31 23:59:59 */
    zlink_tls_context_release(context);
}

/* TR-94: TLS without a certificate, key or authority does not start. */
static void test_tr94_missing_and_unreadable_files(void **state)
{
    tls_files_t files = good;

    (void)state;
    files.key[0] = '\0';
    refuse(&files, "key", "no key file");
    files = good;
    files.certificate[0] = '\0';
    refuse(&files, "certificate", "no certificate file");
    files = good;
    strcat(files.ca, ".gone");
    refuse(&files, files.ca, "No such file");
    files = good;
    snprintf(files.certificate, sizeof(files.certificate), "%s", fixture.directory);
    refuse(&files, files.certificate, "not a file");
    files = good;
    tls_fixture_path(&fixture, "empty", "pem", files.certificate);
    tls_fixture_write(files.certificate, "", 0, 0644);
    refuse(&files, files.certificate, "empty");
    tls_fixture_write(files.certificate, "no certificate", 14, 0644);
    refuse(&files, files.certificate, "not a PEM certificate");
    files = good;
    snprintf(files.key, sizeof(files.key), "%s", good.certificate);
    assert_int_equal(chmod(files.key, 0600), 0);
    refuse(&files, files.key, "not a PEM private key");
    assert_int_equal(chmod(files.key, 0644), 0);
}

static void test_tls_context_key_must_be_private_and_fit(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0610};
    tls_files_t files = good;
    tls_files_t other = tls_fixture_node(&fixture, "ca", "mesh", "other");

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(good.key, modes[i]), 0);
        refuse(&files, good.key, "chmod 600");
    }
    assert_int_equal(chmod(good.key, 0400), 0);
    zlink_tls_context_release(tls_fixture_context(&good));
    memcpy(files.key, other.key, sizeof(files.key));
    refuse(&files, other.key, "does not belong to certificate");
}

static void test_tls_context_certificate_times(void **state)
{
    const tls_wish_t expired = {
        .name = "expired", .authority = "ca", .uris = {"zlink://mesh/expired"}, .not_after = "20210101000000"};
    const tls_wish_t future = {
        .name = "future", .authority = "ca", .uris = {"zlink://mesh/future"}, .not_before = "20980101000000"};
    tls_files_t files = tls_fixture_make(&fixture, &expired);

    (void)state;
    refuse(&files, files.certificate, "expired on 2021-01-01");
    files = tls_fixture_make(&fixture, &future);
    refuse(&files, files.certificate, "not valid before 2098-01-01");
}

static void test_tls_context_identity_must_be_one_good_uri(void **state)
{
    static const struct {
        const char *uris[TLS_NAMES_MAX];
        const char *reason;
    } bad[] = {
        {{NULL}, "no URI name zlink://"},
        {{"https://mesh/node"}, "no URI name zlink://"},
        {{"zlink://mesh/a", "zlink://mesh/b"}, "more than one"},
        {{"zlink://mesh/a", "zlink://mesh/a"}, "more than one"},
        {{"zlink://mesh"}, "must be 1..64"},
        {{"zlink:///a"}, "must be 1..64"},
        {{"zlink://mesh/"}, "must be 1..64"},
        {{"zlink://mesh/a/b"}, "must be 1..64"},
        {{"zlink://me sh/a"}, "must be 1..64"},
        {{"zlink://mesh/0123456789012345678901234567890123456789012345678901234567890123x"}, "must be 1..64"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tls_wish_t wish = {.name = "bad", .authority = "ca"};
        tls_files_t files;

        memcpy(wish.uris, bad[i].uris, sizeof(wish.uris));
        files = tls_fixture_make(&fixture, &wish);
        refuse(&files, files.certificate, bad[i].reason);
    }
    /* Names of other kinds beside it do not matter. */
    tls_wish_t fine = {.name = "fine", .authority = "ca", .uris = {"https://mesh/x", "zlink://mesh/fine"}};
    tls_files_t files = tls_fixture_make(&fixture, &fine);
    zlink_tls_context_release(tls_fixture_context(&files));
}

static void test_tls_context_authority_must_vouch(void **state)
{
    const tls_wish_t wide = {.name = "wide", .authority = "ca", .uris = {"zlink://mesh/wide"}, .curve = "P-384"};
    tls_files_t files = tls_fixture_node(&fixture, "foreign", "mesh", "stranger");

    (void)state;
    memcpy(files.ca, good.ca, sizeof(files.ca));
    refuse(&files, files.certificate, "do not vouch for it");
    files = good;
    memcpy(files.ca, good.certificate, sizeof(files.ca));
    refuse(&files, files.ca, "CA:TRUE is missing");
    files = tls_fixture_make(&fixture, &wide);
    refuse(&files, files.certificate, "not ECDSA on P-256");
}

/* A name that looks right up to a NUL, and others that a careless compare would take. */
static void test_peer_identity_parse(void **state)
{
    zlink_peer_identity_t identity;
    const char *reason = NULL;
    static const char *const bad[] = {
        "", "zlink:/", "zlink://", "zlink://a", "Zlink://a/b", "zlink://a/b\n", "zlink://a/b?c"};

    (void)state;
    assert_true(zlink_peer_identity_parse("zlink://a.B_c-1/x", 17, &identity, &reason));
    assert_string_equal(identity.mesh, "a.B_c-1");
    assert_string_equal(identity.name, "x");
    assert_false(zlink_peer_identity_parse("zlink://a/b\0c", 13, &identity, &reason));
    assert_false(zlink_peer_identity_parse("zlink://a\0/bc", 13, &identity, &reason));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        reason = NULL;
        assert_false(zlink_peer_identity_parse(bad[i], strlen(bad[i]), &identity, &reason));
        assert_non_null(reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tls_context_takes_good_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tr94_missing_and_unreadable_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_context_key_must_be_private_and_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_context_certificate_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_context_identity_must_be_one_good_uri, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_context_authority_must_vouch, set_up, tear_down),
        cmocka_unit_test(test_peer_identity_parse),
    };

    return zlink_test_main(tests);
}
