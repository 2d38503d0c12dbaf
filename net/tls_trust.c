#include "net/tls_trust.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/tls_identity.h"

static bool is_revoked(const zlink_tls_context_t *context, const mbedtls_x509_crt *certificate)
{
    for (const mbedtls_x509_crl *list = &context->revoked; list != NULL && list->raw.p != NULL; list = list->next) {
        if (list->issuer_raw.len == certificate->issuer_raw.len &&
            memcmp(list->issuer_raw.p, certificate->issuer_raw.p, list->issuer_raw.len) == 0 &&
            mbedtls_x509_crt_is_revoked(certificate, list) != 0)
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

bool zlink_tls_trusts(const zlink_tls_context_t *context, const mbedtls_x509_crt *certificate,
                      zlink_peer_identity_t *identity, char reason[ZLINK_TLS_REASON_BYTES])
{
    const char *words = NULL;

    if (certificate == NULL)
        words = "the peer showed no certificate";
    else if (!zlink_tls_identity_of(certificate, identity, &words))
        (void)words; /* set by the callee */
    else if (mbedtls_x509_time_is_past(&certificate->valid_to))
        words = "the certificate has expired";
    else if (mbedtls_x509_time_is_future(&certificate->valid_from))
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

/* Nothing that this node has signed is to be good for longer than its own certificate. */
int zlink_tls_ticket_write(void *argument, const mbedtls_ssl_session *session, unsigned char *start,
                           const unsigned char *end, size_t *size, uint32_t *lifetime_s)
{
    zlink_tls_context_t *context = argument;
    const int64_t left_s = context->expires_at - (int64_t)time(NULL);
    int result;

    if (left_s <= 0)
        return MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED; /* the handshake goes on without a ticket */
    result = mbedtls_ssl_ticket_write(&context->tickets, session, start, end, size, lifetime_s);
    if (result == 0 && *lifetime_s > left_s)
        *lifetime_s = (uint32_t)left_s;
    return result;
}

/* A ticket of somebody who would not be let in today is not taken; the full handshake that follows says why. */
int zlink_tls_ticket_parse(void *argument, mbedtls_ssl_session *session, unsigned char *bytes, size_t size)
{
    zlink_tls_context_t *context = argument;
    zlink_peer_identity_t identity;
    char reason[ZLINK_TLS_REASON_BYTES];
    int result = mbedtls_ssl_ticket_parse(&context->tickets, session, bytes, size);

    if (result == 0 && (context->expires_at < (int64_t)time(NULL) ||
                        !zlink_tls_trusts(context, session->ZLINK_MBEDTLS_PRIVATE(peer_cert), &identity, reason)))
        result = MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
    return result;
}
