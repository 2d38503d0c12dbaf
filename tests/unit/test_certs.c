#include "harness.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "ctl/certs.h"
#include "ctl/new_files.h"

#define COUNT_OF(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

static char base[64];
static char folder[96];

static const char *in_folder(const char *name)
{
    static char paths[4][160];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(base, "/tmp/zlink-certs-XXXXXX");
    if (mkdtemp(base) == NULL)
        return -1;
    snprintf(folder, sizeof(folder), "%s/deep/certs", base);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", base);
    return system(command);
}

static void make_authority(void)
{
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};

    if (zlink_certs_make_authority(folder, "m", 0, &made, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
    assert_string_equal(made.certificate_file, in_folder("ca.pem"));
    assert_string_equal(made.key_file, in_folder("ca.key"));
    assert_string_equal(made.identity, "m");
}

static void make_leaf(const zlink_certs_request_t *request, zlink_certs_made_t *made)
{
    zlink_refusal_t why = {{0}};

    if (zlink_certs_make_leaf(request, made, &why) != ZLINK_OK)
        fail_msg("%s", why.line);
}

static X509 *load(const char *name)
{
    FILE *file = fopen(in_folder(name), "re");
    X509 *certificate = file == NULL ? NULL : PEM_read_X509(file, NULL, NULL, NULL);

    assert_non_null(certificate);
    fclose(file);
    return certificate;
}

static X509_CRL *load_list(const char *name)
{
    FILE *file = fopen(in_folder(name), "re");
    X509_CRL *list = file == NULL ? NULL : PEM_read_X509_CRL(file, NULL, NULL, NULL);

    assert_non_null(list);
    fclose(file);
    return list;
}

/* X509_V_OK, or what is wrong. `list` may be NULL. */
static int verify(const char *name, X509_CRL *list)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *verification = X509_STORE_CTX_new();
    X509 *authority = load("ca.pem");
    X509 *leaf = load(name);

    assert_int_equal(X509_STORE_add_cert(store, authority), 1);
    if (list != NULL) {
        assert_int_equal(X509_STORE_add_crl(store, list), 1);
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    }
    assert_int_equal(X509_STORE_CTX_init(verification, store, leaf, NULL), 1);
    const int error = X509_verify_cert(verification) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(verification);
    X509_STORE_CTX_free(verification);
    X509_STORE_free(store);
    X509_free(leaf);
    X509_free(authority);
    return error;
}

static unsigned mode_of(const char *path)
{
    struct stat about;

    assert_int_equal(stat(path, &about), 0);
    return (unsigned)about.st_mode & 07777u;
}

/* The n-th subject alternative name as kind and bytes. */
static bool name_is(X509 *certificate, int index, int kind, const void *bytes, size_t size)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int type = -1;
    const ASN1_STRING *value =
        index < sk_GENERAL_NAME_num(names) ? GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, index), &type) : NULL;
    const bool is = value != NULL && type == kind && (size_t)ASN1_STRING_length(value) == size &&
                    memcmp(ASN1_STRING_get0_data(value), bytes, size) == 0;

    GENERAL_NAMES_free(names);
    return is;
}

static void test_an_authority_signs_certificates_and_nothing_else(void **state)
{
    X509 *authority;

    (void)state;
    make_authority();
    authority = load("ca.pem");
    assert_int_equal(X509_get_key_usage(authority), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    assert_int_equal(X509_check_ca(authority), 1);
    assert_int_equal(X509_get_serialNumber(authority)->length, 16);
    assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(authority)), 256);
    X509_free(authority);
    assert_int_equal(mode_of(in_folder("ca.key")), 0600);
    assert_int_equal(mode_of(folder), 0700);
    snprintf(folder + strlen(base), sizeof(folder) - strlen(base), "/deep");
    assert_int_equal(mode_of(folder), 0700);
}

static void test_a_node_certificate_carries_one_uri_and_its_hosts(void **state)
{
    static const char *const hosts[] = {"a.example.net", "127.0.0.1", "::1"};
    static const unsigned char loopback6[16] = {[15] = 1};
    zlink_certs_made_t made;
    X509 *node;

    (void)state;
    make_authority();
    make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_NODE, folder, "node-a", 0, hosts, COUNT_OF(hosts)}, &made);
    assert_string_equal(made.identity, "zlink://m/node-a");
    node = load("node-a.pem");
    assert_true(name_is(node, 0, 6, "zlink://m/node-a", 16));
    assert_true(name_is(node, 1, 2, "a.example.net", 13));
    assert_true(name_is(node, 2, 7, "\x7f\0\0\x01", 4));
    assert_true(name_is(node, 3, 7, loopback6, 16));
    assert_false(name_is(node, 4, 7, "", 0));
    assert_int_equal(X509_get_key_usage(node), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(node), XKU_SSL_SERVER | XKU_SSL_CLIENT);
    X509_free(node);
    assert_int_equal(verify("node-a.pem", NULL), X509_V_OK);
    assert_int_equal(mode_of(in_folder("node-a.key")), 0600);
}

static void test_a_client_certificate_is_no_server(void **state)
{
    zlink_certs_made_t made;
    X509 *client;

    (void)state;
    make_authority();
    make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_CLIENT, folder, "tool", 30, NULL, 0}, &made);
    client = load("tool.pem");
    assert_int_equal(X509_get_extended_key_usage(client), XKU_SSL_CLIENT);
    assert_true(name_is(client, 0, 6, "zlink://m/tool", 14));
    assert_false(name_is(client, 1, 6, "", 0));
    X509_free(client);
}

static void test_no_leaf_outlives_its_authority(void **state)
{
    zlink_certs_made_t authority;
    zlink_certs_made_t leaf;
    zlink_refusal_t why;

    (void)state;
    assert_int_equal(zlink_certs_make_authority(folder, "m", 10, &authority, &why), ZLINK_OK);
    make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_NODE, folder, "n", 0, NULL, 0}, &leaf);
    assert_string_equal(leaf.expires_at, authority.expires_at);
    make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_NODE, folder, "short", 1, NULL, 0}, &leaf);
    assert_true(strcmp(leaf.expires_at, authority.expires_at) < 0);
}

static char *contents(const char *name)
{
    static char text[2][8192];
    static unsigned turn;
    char *buffer = text[turn++ % 2];
    FILE *file = fopen(in_folder(name), "r");

    assert_non_null(file);
    buffer[fread(buffer, 1, sizeof(text[0]) - 1, file)] = '\0';
    fclose(file);
    return buffer;
}

static unsigned count_entries(void)
{
    char command[160];
    unsigned count = 0;
    FILE *list;

    snprintf(command, sizeof(command), "ls -A '%s' | wc -l", folder);
    list = popen(command, "r");
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%u", &count), 1);
    pclose(list);
    return count;
}

static void test_nothing_is_ever_overwritten(void **state)
{
    zlink_certs_request_t request = {ZLINK_CERTS_NODE, folder, "n", 0, NULL, 0};
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};
    char before[8192];
    char expected[300];

    (void)state;
    make_authority();
    strcpy(before, contents("ca.key"));
    assert_int_equal(zlink_certs_make_authority(folder, "m", 0, &made, &why), ZLINK_ALREADY_EXISTS);
    snprintf(expected, sizeof(expected), "%s: exists already and is never overwritten", in_folder("ca.pem"));
    assert_string_equal(why.line, expected);
    assert_string_equal(contents("ca.key"), before);

    make_leaf(&request, &made);
    assert_int_equal(unlink(in_folder("n.pem")), 0);
    strcpy(before, contents("n.key"));
    assert_int_equal(zlink_certs_make_leaf(&request, &made, &why), ZLINK_ALREADY_EXISTS);
    snprintf(expected, sizeof(expected), "%s: exists already and is never overwritten", in_folder("n.key"));
    assert_string_equal(why.line, expected);
    assert_string_equal(contents("n.key"), before);
    assert_int_equal(count_entries(), 3);
}

/* Also where the name is taken only after the check: all or none, and no scraps. */
static void test_new_files_come_all_or_none(void **state)
{
    const zlink_new_file_t files[] = {{"one", "1", 1, 0600}, {"two", "2", 1, 0600}};
    zlink_refusal_t why = {{0}};
    int fd;

    (void)state;
    assert_int_equal(zlink_new_files_make_folder(folder, &why), ZLINK_OK);
    assert_int_equal(zlink_new_files_make_folder(folder, &why), ZLINK_OK);
    fd = open(in_folder("two"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(zlink_new_files_write(folder, files, 2, &why), ZLINK_ALREADY_EXISTS);
    assert_int_equal(count_entries(), 1);
    assert_string_equal(contents("two"), "");
    assert_int_equal(unlink(in_folder("two")), 0);
    assert_int_equal(symlink("/nowhere", in_folder("two")), 0);
    assert_int_equal(zlink_new_files_write(folder, files, 2, &why), ZLINK_ALREADY_EXISTS);
    assert_int_equal(unlink(in_folder("two")), 0);
    assert_int_equal(zlink_new_files_write(folder, files, 2, &why), ZLINK_OK);
    assert_string_equal(contents("two"), "2");
    assert_int_equal(count_entries(), 2);
    assert_int_equal(zlink_new_files_write(in_folder("one"), files, 2, &why), ZLINK_INTERNAL_FAILURE);
}

static void expect_refused(const zlink_certs_request_t *request, zlink_status_t status, const char *part)
{
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};

    assert_int_equal(zlink_certs_make_leaf(request, &made, &why), status);
    if (strstr(why.line, part) == NULL)
        fail_msg("'%s' does not say '%s'", why.line, part);
}

static void test_bad_requests_and_authorities_are_refused(void **state)
{
    static const char *const bad_hosts[] = {"a b", "*.example.net", "0.0.0.0", "1.2.3", "[::1]", ""};
    const char *host = NULL;
    zlink_certs_request_t request = {ZLINK_CERTS_NODE, folder, "n", 0, &host, 0};
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};
    char keep[8192];
    FILE *file;

    (void)state;
    assert_int_equal(zlink_certs_make_authority(folder, "bad mesh", 0, &made, &why), ZLINK_INVALID_OPERATION);
    expect_refused(&request, ZLINK_NOT_CONFIGURED,
                   "ca.pem: cannot be read: No such file or directory; 'certs init' makes it");
    make_authority();
    request.name = "../n";
    expect_refused(&request, ZLINK_INVALID_OPERATION, "--name: '../n' is not a name");
    request.name = "n";
    request.host_count = 1;
    for (size_t i = 0; i < COUNT_OF(bad_hosts); i++) {
        host = bad_hosts[i];
        expect_refused(&request, ZLINK_INVALID_OPERATION, "is not a DNS name or an IP address");
    }
    request.host_count = ZLINK_CERTS_HOSTS + 1;
    expect_refused(&request, ZLINK_INVALID_OPERATION, "--host: more than 16 of them");
    request.host_count = 0;
    request.days = ZLINK_CERTS_DAYS + 1;
    expect_refused(&request, ZLINK_INVALID_OPERATION, "--days: '36501' is not between 1 and 36500");
    request.days = 0;

    assert_int_equal(chmod(in_folder("ca.key"), 0640), 0);
    expect_refused(&request, ZLINK_NOT_CONFIGURED, "ca.key: others may read it (mode 0640); make it 0600");
    assert_int_equal(chmod(in_folder("ca.key"), 0600), 0);
    strcpy(keep, contents("ca.key"));
    file = fopen(in_folder("ca.key"), "w");
    assert_non_null(file);
    fputs("not a key", file);
    fclose(file);
    expect_refused(&request, ZLINK_NOT_CONFIGURED, "ca.key: unsupported");

    /* A leaf in the authority's place cannot sign. */
    file = fopen(in_folder("ca.key"), "w");
    assert_non_null(file);
    fputs(keep, file);
    fclose(file);
    make_leaf(&request, &made);
    assert_int_equal(rename(in_folder("n.pem"), in_folder("ca.pem")), 0);
    request.name = "other";
    expect_refused(&request, ZLINK_NOT_CONFIGURED, "ca.pem: is not a mesh's authority as 'certs init' makes it");
    assert_int_equal(count_entries(), 3);
}

/* Another implementation reads the same into them. */
static void test_openssl_accepts_them_strictly(void **state)
{
    static const char *const hosts[] = {"a.example.net", "127.0.0.1"};
    zlink_certs_made_t made;
    char command[1024];

    (void)state;
    if (system("command -v openssl >/dev/null 2>&1") != 0)
        skip();
    make_authority();
    make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_NODE, folder, "n", 0, hosts, 2}, &made);
    make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_CLIENT, folder, "c", 0, NULL, 0}, &made);
    snprintf(command, sizeof(command),
             "cd '%s' && {"
             " openssl verify -x509_strict -purpose sslserver -verify_hostname a.example.net -CAfile ca.pem n.pem &&"
             " openssl verify -x509_strict -purpose sslclient -verify_ip 127.0.0.1 -CAfile ca.pem n.pem &&"
             " openssl verify -x509_strict -purpose sslclient -CAfile ca.pem c.pem &&"
             " ! openssl verify -purpose sslserver -CAfile ca.pem c.pem; } >/dev/null 2>&1",
             folder);
    assert_int_equal(system(command), 0);
}

static void put_on_list(const char *name, zlink_status_t expected, const char *words)
{
    zlink_certs_made_t made;
    zlink_refusal_t why = {{0}};

    assert_int_equal(zlink_certs_revoke(folder, name, &made, &why), expected);
    if (strstr(why.line, words) == NULL)
        fail_msg("expected '%s' in: %s", words, why.line);
}

/* Each call adds one certificate; the list is good for the library and the program; the others stay good. */
static void test_revoked_certificates_are_on_the_list(void **state)
{
    static const char *const names[] = {"n0", "n1", "n2", "n3"};
    zlink_certs_made_t made;
    char command[1024];

    (void)state;
    make_authority();
    for (size_t i = 0; i < COUNT_OF(names); i++)
        make_leaf(&(zlink_certs_request_t){ZLINK_CERTS_NODE, folder, names[i], 0, NULL, 0}, &made);
    for (size_t revoked = 1; revoked < COUNT_OF(names); revoked++) {
        put_on_list(names[revoked - 1], ZLINK_OK, "");
        X509_CRL *list = load_list("crl.pem");
        for (size_t i = 0; i < COUNT_OF(names); i++) {
            char file[8];

            snprintf(file, sizeof(file), "%s.pem", names[i]);
            assert_int_equal(verify(file, list), i < revoked ? X509_V_ERR_CERT_REVOKED : X509_V_OK);
        }
        X509_CRL_free(list);
    }
    put_on_list("n1", ZLINK_ALREADY_EXISTS, "is on it already");
    put_on_list("nobody", ZLINK_NOT_CONFIGURED, "nobody.pem");
    put_on_list("../x", ZLINK_INVALID_OPERATION, "--name");
    put_on_list("ca", ZLINK_NOT_CONFIGURED, "the authority itself");
    if (system("command -v openssl >/dev/null 2>&1") != 0)
        return;
    snprintf(command, sizeof(command),
             "cd '%s' && { openssl crl -in crl.pem -noout -CAfile ca.pem 2>&1 | grep -q 'verify OK' &&"
             " openssl verify -x509_strict -crl_check -CAfile ca.pem -CRLfile crl.pem n3.pem &&"
             " ! openssl verify -crl_check -CAfile ca.pem -CRLfile crl.pem n0.pem; } >/dev/null 2>&1",
             folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_authority_signs_certificates_and_nothing_else, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_node_certificate_carries_one_uri_and_its_hosts, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_client_certificate_is_no_server, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_leaf_outlives_its_authority, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_nothing_is_ever_overwritten, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_new_files_come_all_or_none, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_bad_requests_and_authorities_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_revoked_certificates_are_on_the_list, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_openssl_accepts_them_strictly, make_folder, remove_folder),
    };

    return zlink_test_main(tests);
}
