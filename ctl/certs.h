/*
 * ctl/certs.h: a mesh's certificate authority and the certificates of its nodes and clients, as PEM files.
 *
 * All keys are P-256. The authority is "CN=<mesh>, O=zlink mesh authority" and may sign certificates but no other
 * authority. A leaf carries exactly one URI name, zlink://<mesh>/<name>, which is what nodes go by; DNS and IP names
 * are for other tools. Existing files are never overwritten and keys are readable for their owner only. One thread;
 * each call does all of its work.
 */
#ifndef ZLINK_CTL_CERTS_H
#define ZLINK_CTL_CERTS_H

#include <limits.h>
#include <stddef.h>

#include <zlink/status.h>

#include "base/refusal.h"

#define ZLINK_CERTS_HOSTS          16
#define ZLINK_CERTS_DAYS           36500
#define ZLINK_CERTS_AUTHORITY_DAYS 3650
#define ZLINK_CERTS_LEAF_DAYS      825

typedef enum zlink_certs_kind {
    ZLINK_CERTS_NODE,   /* server and client */
    ZLINK_CERTS_CLIENT, /* client only */
} zlink_certs_kind_t;

typedef struct zlink_certs_request {
    zlink_certs_kind_t kind;
    const char *folder; /* with the authority's ca.pem and ca.key */
    const char *name;
    unsigned days;            /* 0 = default; never past the authority's end */
    const char *const *hosts; /* DNS names and IP addresses */
    size_t host_count;
} zlink_certs_request_t;

/* What was made, for the person who asked. */
typedef struct zlink_certs_made {
    char certificate_file[PATH_MAX];
    char key_file[PATH_MAX];
    char identity[160];  /* the URI name, or the authority's mesh */
    char expires_at[32]; /* "2029-03-04T05:06:07Z" */
} zlink_certs_made_t;

/* ZLINK_INVALID_OPERATION: a bad argument; ZLINK_ALREADY_EXISTS: a file is there; ZLINK_NOT_CONFIGURED: an authority
 * that cannot be used; ZLINK_INTERNAL_FAILURE: the system or the library failed. Always with one line in `why`. `days`
 * 0 = default. */
zlink_status_t zlink_certs_make_authority(const char *folder, const char *mesh, unsigned days, zlink_certs_made_t *made,
                                          zlink_refusal_t *why);
zlink_status_t zlink_certs_make_leaf(const zlink_certs_request_t *request, zlink_certs_made_t *made,
                                     zlink_refusal_t *why);

/* Puts the certificate NAME.pem on the authority's list crl.pem, which is made where there is none. The list is whole
 * at every moment and good until the authority's end. ZLINK_ALREADY_EXISTS: it is on the list. */
zlink_status_t zlink_certs_revoke(const char *folder, const char *name, zlink_certs_made_t *made, zlink_refusal_t *why);

/* The command: argv[0] is "certs". Answers the exit code: 0, 1 (failed), or 2 (bad arguments, or a file exists). */
int zlink_ctl_certs(int argc, char **argv);

#endif
