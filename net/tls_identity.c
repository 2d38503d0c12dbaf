#include "net/tls_identity.h"

#include <openssl/x509v3.h>
#include <string.h>

#define SCHEME       "zlink://"
#define SCHEME_BYTES (sizeof(SCHEME) - 1)
#define PART_BYTES   64u

static bool is_part_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '.' || byte == '_' || byte == '-';
}

/* Copies one part; false for a wrong length or byte (a NUL among them). */
static bool take_part(const char *bytes, size_t size, char part[PART_BYTES + 1])
{
    if (size == 0 || size > PART_BYTES)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!is_part_byte(bytes[i]))
            return false;
    }
    memcpy(part, bytes, size);
    part[size] = '\0';
    return true;
}

bool zlink_peer_identity_parse(const char *uri, size_t size, zlink_peer_identity_t *identity, const char **reason)
{
    zlink_peer_identity_t found;
    const char *mesh = uri + SCHEME_BYTES;
    const char *slash;

    if (size < SCHEME_BYTES || memcmp(uri, SCHEME, SCHEME_BYTES) != 0) {
        *reason = "the URI name is not zlink://<mesh>/<name>";
        return false;
    }
    slash = memchr(mesh, '/', size - SCHEME_BYTES);
    if (slash == NULL || !take_part(mesh, (size_t)(slash - mesh), found.mesh) ||
        !take_part(slash + 1, size - SCHEME_BYTES - (size_t)(slash + 1 - mesh), found.name)) {
        *reason = "mesh and name in the URI name zlink://<mesh>/<name> must be 1..64 of A-Z a-z 0-9 . _ -";
        return false;
    }
    *identity = found;
    return true;
}

/* The one URI name of our scheme among `names`. */
static bool identity_among(const GENERAL_NAMES *names, zlink_peer_identity_t *identity, const char **reason)
{
    unsigned found = 0;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const char *uri;
        size_t size;
        if (name->type != GEN_URI)
            continue;
        uri = (const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
        size = (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier);
        if (size < SCHEME_BYTES || memcmp(uri, SCHEME, SCHEME_BYTES) != 0)
            continue;
        if (++found > 1) {
            *reason = "the certificate has more than one zlink:// URI name";
            return false;
        }
        if (!zlink_peer_identity_parse(uri, size, identity, reason))
            return false;
    }
    if (found == 0)
        *reason = "the certificate has no URI name zlink://<mesh>/<name>";
    return found == 1;
}

bool zlink_tls_identity_of(X509 *certificate, zlink_peer_identity_t *identity, const char **reason)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const bool good = identity_among(names, identity, reason);

    GENERAL_NAMES_free(names);
    return good;
}
