#include "net/tls_trust.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/tls_identity.h"

#define TICKET_LIFETIME_S 3600

static bool is_revoked(const zlink_tls_context_t *context, X509 *certificate)
{
    for (int i = 0; i < sk_X509_CRL_num(context->revoked); i++) {
        X509_CRL *list = sk_X509_CRL_value(context->revoked, i);
        X509_REVOKED *entry = NULL;
        if (X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_issuer_name(certificate)) == 0 &&
            X509_CRL_get0_by_cert(list, &entry, certificate) == 1)
            return true;
    }
    return false;
}

static bool is_allowed(const zlink_tls_context_t *context, const char *name)
{
    for (size_t i = 0; i < context->allow_count; i++) {
        if (strcmp(context->allow[i], name) == 0)
            return true;
    }
    return context->allow_count == 0;
}

bool zlink_tls_trusts(const zlink_tls_context_t *context, X509 *certificate, zlink_peer_identity_t *identity,
                      char reason[ZLINK_TLS_REASON_BYTES])
{
    const char *words = NULL;

    if (certificate == NULL)
        words = "the peer showed no certificate";
    else if (!zlink_tls_identity_of(certificate, identity, &words))
        (void)words; /* set by the callee */
    else if (X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0)
        words = "the certificate has expired";
    else if (X509_cmp_current_time(X509_get0_notBefore(certificate)) >= 0)
        words = "the certificate is not valid yet";
    else if (is_revoked(context, certificate))
        words = "the certificate is revoked (tls.crl)";
    else if (!is_allowed(context, identity->name))
        snprintf(reason, ZLINK_TLS_REASON_BYTES, "tls.allow does not name %s", identity->name);
    else
        return true;
    if (words != NULL)
        snprintf(reason, ZLINK_TLS_REASON_BYTES, "%s", words);
    return false;
}

bool zlink_tls_is_p256(const EVP_PKEY *key)
{
    char curve[32] = "";

    return key != NULL && EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) == 1 &&
           strcmp(curve, SN_X9_62_prime256v1) == 0;
}

static bool is_well_signed(X509 *certificate)
{
    int digest = NID_undef;
    int key = NID_undef;

    return X509_get_signature_info(certificate, &digest, &key, NULL, NULL) == 1 &&
           (digest == NID_sha256 || digest == NID_sha384) && key == NID_X9_62_id_ecPublicKey;
}

/* An authority without a list has revoked nothing. */
int zlink_tls_verifying(int good, X509_STORE_CTX *verification)
{
    X509 *certificate = X509_STORE_CTX_get_current_cert(verification);

    if (!good)
        return X509_STORE_CTX_get_error(verification) == X509_V_ERR_UNABLE_TO_GET_CRL;
    if (zlink_tls_is_p256(X509_get0_pubkey(certificate)) &&
        (X509_self_signed(certificate, 0) == 1 || is_well_signed(certificate)))
        return 1;
    X509_STORE_CTX_set_error(verification, X509_V_ERR_EE_KEY_TOO_SMALL);
    return 0;
}

bool zlink_tls_trust_store(const zlink_tls_context_t *context, X509_STORE *store)
{
    for (int i = 0; i < sk_X509_num(context->authorities); i++) {
        if (X509_STORE_add_cert(store, sk_X509_value(context->authorities, i)) != 1)
            return false;
    }
    for (int i = 0; i < sk_X509_CRL_num(context->revoked); i++) {
        if (X509_STORE_add_crl(store, sk_X509_CRL_value(context->revoked, i)) != 1)
            return false;
    }
    if (sk_X509_CRL_num(context->revoked) > 0 &&
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) != 1)
        return false;
    return true;
}

/* ---- tickets ---- */

/* Nothing that this node has signed is to be good for longer than its own certificate. */
static int writing_ticket(SSL *ssl, void *argument)
{
    const zlink_tls_context_t *context = argument;
    const int64_t left_s = context->expires_at - (int64_t)time(NULL);

    SSL_SESSION_set_timeout(SSL_get_session(ssl), left_s > TICKET_LIFETIME_S ? TICKET_LIFETIME_S
                                                  : left_s > 0               ? (long)left_s
                                                                             : 1);
    return 1;
}

/* A ticket of somebody who would not be let in today is not taken; the full handshake that follows says why. */
static SSL_TICKET_RETURN reading_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_bytes,
                                        SSL_TICKET_STATUS status, void *argument)
{
    const zlink_tls_context_t *context = argument;
    zlink_peer_identity_t identity;
    char reason[ZLINK_TLS_REASON_BYTES];

    (void)ssl;
    (void)name;
    (void)name_bytes;
    if (status == SSL_TICKET_EMPTY || status == SSL_TICKET_NO_DECRYPT)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    if ((status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) ||
        context->expires_at < (int64_t)time(NULL) ||
        !zlink_tls_trusts(context, SSL_SESSION_get0_peer(session), &identity, reason))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return SSL_TICKET_RETURN_USE;
}

void zlink_tls_trust_tickets(zlink_tls_context_t *context)
{
    SSL_CTX_set_timeout(context->server, TICKET_LIFETIME_S);
    SSL_CTX_set_session_ticket_cb(context->server, writing_ticket, reading_ticket, context);
}
