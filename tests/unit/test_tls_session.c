/* TLS without sockets: two sessions, or one and a peer that does not keep our rules. */
#include "harness.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tls_fixture.h"

#include "base/memory.h"
#include "net/tls_context_internal.h"
#include "net/tls_session.h"

static tls_fixture_t fixture;
static tls_files_t files_a;
static tls_files_t files_b;
static zlink_tls_context_t *context_a;
static zlink_tls_context_t *context_b;

static int set_up(void **state)
{
    (void)state;
    tls_fixture_init(&fixture);
    tls_fixture_authority(&fixture, "ca");
    tls_fixture_authority(&fixture, "foreign");
    files_a = tls_fixture_node(&fixture, "ca", "mesh", "node-a");
    files_b = tls_fixture_node(&fixture, "ca", "mesh", "node-b");
    context_a = tls_fixture_context(&files_a);
    context_b = tls_fixture_context(&files_b);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    zlink_tls_context_release(context_a);
    zlink_tls_context_release(context_b);
    tls_fixture_release(&fixture);
    return 0;
}

/* ---- one of our sessions ---- */

typedef struct side {
    zlink_tls_session_t *session;
    zlink_byte_buffer_t plain;
    zlink_byte_buffer_t wire;
    zlink_tls_progress_t progress;
} side_t;

static void side_open(side_t *side, const zlink_tls_context_t *context, zlink_tls_side_t which)
{
    *side = (side_t){.session = zlink_tls_session_create(context, which)};
    assert_non_null(side->session);
}

static void side_release(side_t *side)
{
    zlink_tls_session_destroy(side->session);
    zlink_byte_buffer_release(&side->plain);
    zlink_byte_buffer_release(&side->wire);
}

/* Gives it `size` bytes at `bytes`; the last progress stays, HANDSHAKEN being passed over. */
static void side_feed(side_t *side, const uint8_t *bytes, size_t size)
{
    if (side->progress == ZLINK_TLS_FAILED || side->progress == ZLINK_TLS_ENDED)
        return;
    do {
        size_t used = 0;

        side->progress = zlink_tls_session_feed(side->session, bytes, size, &used, &side->plain, &side->wire);
        if (used > 0) {
            bytes += used;
            size -= used;
        }
    } while (side->progress == ZLINK_TLS_HANDSHAKEN);
}

/* Moves what `from` has for the other side, `step` bytes at a time. */
static bool side_move(side_t *from, side_t *to, size_t step)
{
    const bool any = zlink_byte_buffer_size(&from->wire) > 0;

    while (zlink_byte_buffer_size(&from->wire) > 0) {
        size_t size = zlink_byte_buffer_size(&from->wire);

        if (size > step)
            size = step;
        side_feed(to, zlink_byte_buffer_bytes(&from->wire), size);
        zlink_byte_buffer_consume(&from->wire, size);
    }
    return any;
}

static void sides_pump(side_t *client, side_t *server, size_t step)
{
    bool any = true;

    side_feed(client, NULL, 0);
    while (any) {
        any = side_move(client, server, step);
        any = side_move(server, client, step) || any;
    }
}

/* ---- a peer that is the library alone ---- */

typedef struct raw {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in;
    BIO *out;
} raw_t;

/* A client that believes everything. `files` NULL: shows no certificate. */
static void raw_open(raw_t *raw, const tls_files_t *files)
{
    memset(raw, 0, sizeof(*raw));
    raw->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(raw->context, 0);
    assert_int_equal(SSL_CTX_set_max_proto_version(raw->context, TLS1_2_VERSION), 1);
    if (files != NULL) {
        assert_int_equal(SSL_CTX_use_certificate_file(raw->context, files->certificate, SSL_FILETYPE_PEM), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(raw->context, files->key, SSL_FILETYPE_PEM), 1);
    }
}

static void raw_start(raw_t *raw)
{
    raw->ssl = SSL_new(raw->context);
    raw->in = BIO_new(BIO_s_mem());
    raw->out = BIO_new(BIO_s_mem());
    SSL_set_bio(raw->ssl, raw->in, raw->out);
    SSL_set_connect_state(raw->ssl);
}

static void raw_release(raw_t *raw)
{
    SSL_free(raw->ssl);
    SSL_CTX_free(raw->context);
    ERR_clear_error();
}

/* What raw has written goes to our server. */
static bool raw_sends(raw_t *raw, side_t *server)
{
    char *bytes = NULL;
    const long size = BIO_get_mem_data(raw->out, &bytes);

    if (size <= 0)
        return false;
    side_feed(server, (const uint8_t *)bytes, (size_t)size);
    (void)BIO_reset(raw->out);
    return true;
}

static bool raw_gets(raw_t *raw, side_t *server)
{
    const size_t size = zlink_byte_buffer_size(&server->wire);

    if (size == 0)
        return false;
    BIO_write(raw->in, zlink_byte_buffer_bytes(&server->wire), (int)size);
    zlink_byte_buffer_consume(&server->wire, size);
    return true;
}

/* Handshakes `raw` with our server until nothing moves. True: raw is content. */
static bool raw_handshake(raw_t *raw, side_t *server)
{
    for (;;) {
        const int result = SSL_do_handshake(raw->ssl);
        const bool waits = result != 1 && SSL_get_error(raw->ssl, result) == SSL_ERROR_WANT_READ;
        const bool sent = raw_sends(raw, server);

        if (!raw_gets(raw, server) && (!sent || result == 1))
            return result == 1;
        if (result != 1 && !waits)
            return false;
    }
}

/* ---- good cases ---- */

static void test_tls_session_mutual_handshake_and_bytes(void **state)
{
    static const size_t steps[] = {1, 7, 1000, 100000};
    side_t client;
    side_t server;

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        side_open(&client, context_a, ZLINK_TLS_CLIENT);
        side_open(&server, context_b, ZLINK_TLS_SERVER);
        assert_null(zlink_tls_session_identity(client.session));
        sides_pump(&client, &server, steps[i]);
        assert_true(zlink_tls_session_is_handshaken(client.session));
        assert_true(zlink_tls_session_is_handshaken(server.session));
        assert_string_equal(zlink_tls_session_identity(client.session)->name, "node-b");
        assert_string_equal(zlink_tls_session_identity(server.session)->name, "node-a");
        assert_string_equal(zlink_tls_session_identity(server.session)->mesh, "mesh");
        assert_string_equal(zlink_tls_session_cipher(client.session), "ECDHE-ECDSA-AES128-GCM-SHA256");
        assert_int_equal(zlink_tls_session_seal(client.session, (const uint8_t *)"hello", 5, &client.wire), ZLINK_OK);
        sides_pump(&client, &server, steps[i]);
        assert_int_equal(zlink_byte_buffer_size(&server.plain), 5);
        assert_memory_equal(zlink_byte_buffer_bytes(&server.plain), "hello", 5);
        zlink_tls_session_end(server.session, &server.wire);
        sides_pump(&client, &server, steps[i]);
        assert_int_equal(client.progress, ZLINK_TLS_ENDED);
        side_release(&client);
        side_release(&server);
    }
}

/* 100,000 bytes are seven records and little more on the wire; sealing nothing sends nothing. */
static void test_tls_session_seals_into_few_records(void **state)
{
    enum { SIZE = 100000 };
    uint8_t *bytes = calloc(1, SIZE);
    side_t client;
    side_t server;

    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    side_open(&client, context_a, ZLINK_TLS_CLIENT);
    side_open(&server, context_b, ZLINK_TLS_SERVER);
    sides_pump(&client, &server, 4096);
    assert_int_equal(zlink_tls_session_seal(client.session, bytes, 0, &client.wire), ZLINK_OK);
    assert_int_equal(zlink_byte_buffer_size(&client.wire), 0);
    assert_int_equal(zlink_tls_session_seal(client.session, bytes, SIZE, &client.wire), ZLINK_OK);
    assert_true(zlink_byte_buffer_size(&client.wire) <= SIZE + 7 * 29);
    sides_pump(&client, &server, 4096);
    assert_int_equal(zlink_byte_buffer_size(&server.plain), SIZE);
    assert_memory_equal(zlink_byte_buffer_bytes(&server.plain), bytes, SIZE);
    side_release(&client);
    side_release(&server);
    free(bytes);
}

/* ---- refused ---- */

static void refuse_client(const tls_files_t *files, const char *reason)
{
    side_t server;
    raw_t raw;

    raw_open(&raw, files);
    raw_start(&raw);
    side_open(&server, context_a, ZLINK_TLS_SERVER);
    (void)raw_handshake(&raw, &server);
    assert_int_equal(server.progress, ZLINK_TLS_FAILED);
    assert_false(zlink_tls_session_is_handshaken(server.session));
    assert_null(zlink_tls_session_identity(server.session));
    if (strstr(zlink_tls_session_reason(server.session), reason) == NULL)
        fail_msg("expected '%s' in: %s", reason, zlink_tls_session_reason(server.session));
    side_release(&server);
    raw_release(&raw);
}

/* TR-93: a client without a certificate is refused. */
static void test_tr93_client_without_certificate(void **state)
{
    (void)state;
    refuse_client(NULL, "showed no certificate");
}

/* TR-92 TR-93: a certificate of a foreign authority, expired, or not for clients is refused, in words. */
static void test_tr92_tr93_untrusted_client_certificates(void **state)
{
    const tls_wish_t expired = {
        .name = "expired", .authority = "ca", .uris = {"zlink://mesh/expired"}, .not_after = "20210101000000"};
    const tls_wish_t wrong_use = {
        .name = "server-only", .authority = "ca", .uris = {"zlink://mesh/server-only"}, .server_only = true};
    const tls_wish_t alone = {.name = "alone", .uris = {"zlink://mesh/alone"}};
    tls_files_t files = tls_fixture_node(&fixture, "foreign", "mesh", "stranger");

    (void)state;
    refuse_client(&files, "not signed by an authority");
    files = tls_fixture_make(&fixture, &alone);
    refuse_client(&files, "not signed by an authority");
    files = tls_fixture_make(&fixture, &expired);
    refuse_client(&files, "expired");
    files = tls_fixture_make(&fixture, &wrong_use);
    refuse_client(&files, "for another use");
}

/* A certificate of our authority without one good URI name is refused in the handshake. */
static void test_tls_session_bad_identity_is_refused(void **state)
{
    static const struct {
        const char *uris[TLS_NAMES_MAX];
        const char *reason;
    } bad[] = {
        {{NULL}, "no URI name"},
        {{"zlink://mesh/a", "zlink://mesh/b"}, "more than one"},
        {{"zlink://mesh/a b"}, "must be 1..64"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tls_wish_t wish = {.name = "bad", .authority = "ca"};
        tls_files_t files;
        side_t server;
        raw_t raw;

        memcpy(wish.uris, bad[i].uris, sizeof(wish.uris));
        files = tls_fixture_make(&fixture, &wish);
        raw_open(&raw, &files);
        raw_start(&raw);
        side_open(&server, context_a, ZLINK_TLS_SERVER);
        (void)raw_handshake(&raw, &server);
        assert_int_equal(server.progress, ZLINK_TLS_FAILED);
        assert_null(zlink_tls_session_identity(server.session));
        assert_non_null(strstr(zlink_tls_session_reason(server.session), bad[i].reason));
        side_release(&server);
        raw_release(&raw);
    }
}

/* TR-92: our client refuses a server of a foreign authority; the server hears why. */
static void test_tr92_client_refuses_the_server(void **state)
{
    tls_files_t stranger = tls_fixture_node(&fixture, "foreign", "mesh", "stranger");
    zlink_tls_context_t *context = tls_fixture_context(&stranger);
    side_t client;
    side_t server;

    (void)state;
    side_open(&client, context_a, ZLINK_TLS_CLIENT);
    side_open(&server, context, ZLINK_TLS_SERVER);
    sides_pump(&client, &server, 4096);
    assert_int_equal(client.progress, ZLINK_TLS_FAILED);
    assert_non_null(strstr(zlink_tls_session_reason(client.session), "not signed by an authority"));
    assert_int_equal(server.progress, ZLINK_TLS_FAILED);
    assert_non_null(
        strstr(zlink_tls_session_reason(server.session), "the peer refused: certificate of an unknown authority"));
    side_release(&client);
    side_release(&server);
    zlink_tls_context_release(context);
}

/* TLS 1.1, and suites that are not ours, find no server here. */
static void test_tls_session_old_version_and_foreign_suites(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        side_t server;
        raw_t raw;

        raw_open(&raw, &files_b);
        if (old)
            SSL_CTX_set_max_proto_version(raw.context, TLS1_1_VERSION);
        else
            SSL_CTX_set_cipher_list(raw.context, "ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-GCM-SHA256");
        raw_start(&raw);
        side_open(&server, context_a, ZLINK_TLS_SERVER);
        (void)raw_handshake(&raw, &server);
        assert_int_equal(server.progress, ZLINK_TLS_FAILED);
        assert_true(zlink_tls_session_reason(server.session)[0] != '\0');
        side_release(&server);
        raw_release(&raw);
    }
}

/* A peer that wants to negotiate again gets nowhere, and takes nothing down. */
static void test_tls_session_renegotiation_is_refused(void **state)
{
    side_t server;
    raw_t raw;
    char byte;

    (void)state;
    raw_open(&raw, &files_b);
    raw_start(&raw);
    side_open(&server, context_a, ZLINK_TLS_SERVER);
    assert_true(raw_handshake(&raw, &server));
    assert_int_equal(SSL_renegotiate(raw.ssl), 1);
    (void)SSL_do_handshake(raw.ssl);
    assert_true(raw_sends(&raw, &server));
    assert_int_equal(server.progress, ZLINK_TLS_FAILED);
    assert_non_null(strstr(zlink_tls_session_reason(server.session), "renegotiation"));
    assert_true(raw_gets(&raw, &server)); /* it is told */
    assert_true(SSL_read(raw.ssl, &byte, 1) < 0);
    side_release(&server);
    raw_release(&raw);
}

/* Bytes that are no TLS, a damaged record, and a handshake that never gets on. */
static void test_tls_session_garbage_ends_it(void **state)
{
    static const uint8_t http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const uint8_t warning[] = {21, 3, 3, 0, 2, 1, 90}; /* alert, warning, user_canceled */
    side_t client;
    side_t server;

    (void)state;
    side_open(&server, context_a, ZLINK_TLS_SERVER);
    side_feed(&server, http, sizeof(http) - 1);
    assert_int_equal(server.progress, ZLINK_TLS_FAILED);
    side_release(&server);

    side_open(&client, context_a, ZLINK_TLS_CLIENT);
    side_open(&server, context_b, ZLINK_TLS_SERVER);
    sides_pump(&client, &server, 4096);
    assert_int_equal(zlink_tls_session_seal(client.session, (const uint8_t *)"hello", 5, &client.wire), ZLINK_OK);
    client.wire.data[client.wire.start + zlink_byte_buffer_size(&client.wire) - 3] ^= 1;
    side_move(&client, &server, 4096);
    assert_int_equal(server.progress, ZLINK_TLS_FAILED);
    assert_int_equal(zlink_byte_buffer_size(&server.plain), 0);
    side_release(&client);
    side_release(&server);

    side_open(&server, context_a, ZLINK_TLS_SERVER);
    for (int i = 0; i < 100000 && server.progress != ZLINK_TLS_FAILED; i++)
        side_feed(&server, warning, sizeof(warning));
    assert_int_equal(server.progress, ZLINK_TLS_FAILED);
    side_release(&server);
}

/* ---- resumption ---- */

static void resume_pump(side_t *client, side_t *server, zlink_tls_resumption_t *resumption)
{
    side_open(client, context_a, ZLINK_TLS_CLIENT);
    side_open(server, context_b, ZLINK_TLS_SERVER);
    zlink_tls_session_remember(client->session, resumption);
    sides_pump(client, server, 4096);
}

/* The second handshake is a resumed one; both know each other all the same, and bytes go through. */
static void test_tls_session_is_resumed_and_knows_its_peer(void **state)
{
    zlink_tls_resumption_t *resumption = zlink_tls_resumption_create();
    side_t client;
    side_t server;

    (void)state;
    for (int round = 0; round < 3; round++) {
        resume_pump(&client, &server, resumption);
        assert_true(zlink_tls_session_is_handshaken(client.session));
        assert_true(zlink_tls_session_is_handshaken(server.session));
        assert_int_equal(zlink_tls_session_is_resumed(client.session), round > 0);
        assert_int_equal(zlink_tls_session_is_resumed(server.session), round > 0);
        assert_string_equal(zlink_tls_session_identity(client.session)->name, "node-b");
        assert_string_equal(zlink_tls_session_identity(server.session)->name, "node-a");
        assert_int_equal(zlink_tls_session_seal(client.session, (const uint8_t *)"hello", 5, &client.wire), ZLINK_OK);
        sides_pump(&client, &server, 4096);
        assert_memory_equal(zlink_byte_buffer_bytes(&server.plain), "hello", 5);
        side_release(&client);
        side_release(&server);
    }
    zlink_tls_resumption_forget(resumption);
    resume_pump(&client, &server, resumption);
    assert_true(zlink_tls_session_is_handshaken(server.session));
    assert_false(zlink_tls_session_is_resumed(server.session));
    side_release(&client);
    side_release(&server);
    zlink_tls_resumption_release(resumption);
}

/* A ticket does not outlive the trust in its holder, on either side. */
static void test_tls_session_resumed_peer_is_checked_again(void **state)
{
    static char name[] = "somebody";
    char *names[] = {name};
    zlink_tls_resumption_t *resumption = zlink_tls_resumption_create();
    side_t client;
    side_t server;

    (void)state;
    for (int at_server = 0; at_server < 2; at_server++) {
        zlink_tls_context_t *strict = at_server ? context_b : context_a;
        char **kept = strict->allow;
        side_t *refusing = at_server ? &server : &client;

        resume_pump(&client, &server, resumption);
        assert_true(zlink_tls_session_is_handshaken(client.session));
        side_release(&client);
        side_release(&server);
        strict->allow = names;
        strict->allow_count = 1;
        resume_pump(&client, &server, resumption);
        assert_int_equal(refusing->progress, ZLINK_TLS_FAILED);
        assert_null(zlink_tls_session_identity(refusing->session));
        assert_non_null(strstr(zlink_tls_session_reason(refusing->session), "tls.allow does not name node-"));
        side_release(&client);
        side_release(&server);
        strict->allow = kept;
        strict->allow_count = 0;
        resume_pump(&client, &server, resumption); /* let in again, after a full handshake */
        assert_true(zlink_tls_session_is_handshaken(client.session));
        assert_false(at_server == 0 && zlink_tls_session_is_resumed(client.session));
        side_release(&client);
        side_release(&server);
    }
    zlink_tls_resumption_release(resumption);
}

/* A ticket is not taken when the own certificate's time is over. */
static void test_tls_session_ticket_ends_with_the_certificate(void **state)
{
    zlink_tls_resumption_t *resumption = zlink_tls_resumption_create();
    const int64_t kept = context_b->expires_at;
    side_t client;
    side_t server;

    (void)state;
    for (int round = 0; round < 3; round++) {
        if (round == 1)
            context_b->expires_at = 1;
        resume_pump(&client, &server, resumption);
        assert_true(zlink_tls_session_is_handshaken(client.session));
        assert_false(zlink_tls_session_is_resumed(server.session));
        side_release(&client);
        side_release(&server);
    }
    context_b->expires_at = kept;
    zlink_tls_resumption_release(resumption);
}

/* Each of our allocations fails once: the session fails or goes on, and bytes that come out are right. */
static void test_tls_session_survives_failing_allocations(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 12; n++) {
        side_t client = {0};
        side_t server = {0};

        zlink_memory_fail_after(n);
        client.session = zlink_tls_session_create(context_a, ZLINK_TLS_CLIENT);
        server.session = zlink_tls_session_create(context_b, ZLINK_TLS_SERVER);
        if (client.session != NULL && server.session != NULL) {
            sides_pump(&client, &server, 700);
            if (zlink_tls_session_is_handshaken(client.session) && client.progress != ZLINK_TLS_FAILED &&
                zlink_tls_session_seal(client.session, (const uint8_t *)"hello", 5, &client.wire) == ZLINK_OK) {
                sides_pump(&client, &server, 700);
                if (server.progress != ZLINK_TLS_FAILED) {
                    assert_int_equal(zlink_byte_buffer_size(&server.plain), 5);
                    assert_memory_equal(zlink_byte_buffer_bytes(&server.plain), "hello", 5);
                }
            }
        }
        zlink_memory_fail_after(-1);
        side_release(&client);
        side_release(&server);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tls_session_mutual_handshake_and_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_seals_into_few_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tr93_client_without_certificate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tr92_tr93_untrusted_client_certificates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_bad_identity_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tr92_client_refuses_the_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_old_version_and_foreign_suites, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_renegotiation_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_garbage_ends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_is_resumed_and_knows_its_peer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_resumed_peer_is_checked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_ticket_ends_with_the_certificate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls_session_survives_failing_allocations, set_up, tear_down),
    };

    return zlink_test_main(tests);
}
