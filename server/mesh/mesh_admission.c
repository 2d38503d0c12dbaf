/*
 * server/mesh/mesh_admission.c: how two nodes come to trust a connection: HELLO, ADMIT, REJECT, and UPDATE afterwards.
 *
 * The dialer speaks first. The acceptor checks version, mesh, the identity in the certificate against the node id that
 * is claimed, whether it serves, and whether there is a link already; it answers ADMIT with its own description, which
 * the dialer checks in the same way. Nothing else is read before that (TR-15).
 */
#include <assert.h>
#include <string.h>

#include "base/container_of.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/mesh/mesh.h"

ZLINK_COUNTER_DEFINE(rejected, ZLINK_COUNTER, "zlink.mesh_node.admissions.rejected",
                     "Connections that were not admitted");

#define ADMISSION_TIMEOUT_MS 5000u

/* Why a peer is refused: for its own log and for ours. */
typedef struct zlink_rejection {
    zlink_reject_code_t code;
    const char *reason;
} zlink_rejection_t;

/* ---- connections ---- */

static void admission_expired(zlink_timer_t *timer)
{
    zlink_link_end_t *end = ZLINK_CONTAINER_OF(timer, zlink_link_end_t, admission);
    zlink_frame_connection_abort(end->connection, ZLINK_DEADLINE_EXCEEDED, "no admission within 5 s");
}

static zlink_link_end_t *make_end(zlink_mesh_t *mesh, zlink_stream_t *stream)
{
    zlink_link_end_t *end = zlink_calloc(1, sizeof(*end));
    if (!end)
        return NULL;
    end->mesh = mesh;
    end->admission.fire = admission_expired;
    if (zlink_outgoing_names_create(NULL, &end->outgoing) != ZLINK_OK ||
        zlink_incoming_names_create(NULL, &end->incoming) != ZLINK_OK ||
        zlink_frame_connection_create(stream, &zlink_mesh_connection_events, mesh->options.max_body_bytes, end,
                                      &end->connection) != ZLINK_OK) {
        zlink_outgoing_names_destroy(end->outgoing);
        zlink_incoming_names_destroy(end->incoming);
        zlink_free(end);
        return NULL;
    }
    LIST_INSERT_HEAD(&mesh->ends, end, in_mesh);
    return end;
}

void zlink_mesh_accepted(zlink_listener_t *listener, zlink_stream_t *stream)
{
    if (!make_end(zlink_listener_context(listener), stream))
        zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "out of memory");
}

/* A dialer's first connection opens a link; the one after its admission completes it. */
void zlink_mesh_connecting(zlink_dialer_t *dialer, zlink_stream_t *stream)
{
    zlink_mesh_dialer_t *own = zlink_dialer_context(dialer);
    zlink_peer_link_t *link = own->link;
    bool completes = link && link->state == ZLINK_LINK_COMPLETING && !link->ends[ZLINK_CONNECTION_COMPLETION];

    if (own->mesh->draining || (link && !completes)) { /* or the link went while this attempt was on its way */
        zlink_stream_abort(stream, ZLINK_UNAVAILABLE, "no longer wanted");
        return;
    }
    zlink_link_end_t *end = make_end(own->mesh, stream);
    if (end && !link)
        link = zlink_mesh_make_link(own->mesh, own);
    if (!end || !link || (!completes && zlink_random_nonzero(&link->link_id) != ZLINK_OK)) {
        if (end)
            zlink_frame_connection_abort(end->connection, ZLINK_CAPACITY_EXCEEDED, "out of memory");
        else
            zlink_stream_abort(stream, ZLINK_CAPACITY_EXCEEDED, "out of memory");
        if (link)
            zlink_mesh_close_link(link, ZLINK_CAPACITY_EXCEEDED, "out of memory");
        else if (own->mesh->options.redial && !own->mesh->draining)
            zlink_dialer_redial(dialer); /* there is no link whose end would do it */
    }
    if (!end)
        return;
    end->dialer = own;
    end->lane = completes ? ZLINK_CONNECTION_COMPLETION : ZLINK_CONNECTION_APPLICATION;
    end->link = link;
    if (link) {
        link->ends[end->lane] = end;
        own->link = link;
    }
}

/* ---- frames of admission ---- */

static zlink_status_t send_self(zlink_link_end_t *end, zlink_frame_kind_t kind, uint64_t link_id)
{
    zlink_mesh_t *mesh = end->mesh;
    zlink_frame_prefix_t prefix = {.kind = (uint8_t)kind};
    zlink_wire_hello_t hello = mesh->self;
    size_t size = 0;
    hello.lane = end->lane;
    hello.link_id = link_id;
    if (end->link && end->lane == ZLINK_CONNECTION_APPLICATION)
        end->link->told_revision = hello.revision;
    if (end->link && (end->lane == ZLINK_CONNECTION_COMPLETION || zlink_mesh_is_client_server(mesh)))
        hello.paused = end->link->told_paused = mesh->paused;
    zlink_status_t status =
        zlink_wire_hello_encode(&hello, mesh->scratch_envelope, ZLINK_FRAME_ENVELOPE_BYTES_MAX, &size);
    if (status == ZLINK_OK)
        status = zlink_frame_connection_send_forced(end->connection, &prefix, mesh->scratch_envelope, (uint32_t)size,
                                                    NULL, 0);
    return status;
}

static zlink_frame_verdict_t reject(zlink_link_end_t *end, zlink_rejection_t rejection)
{
    uint8_t envelope[ZLINK_WIRE_SMALL_ENVELOPE_MAX];
    zlink_wire_reject_t message = {.code = (uint32_t)rejection.code};
    zlink_frame_prefix_t prefix = {.kind = ZLINK_FRAME_REJECT};
    size_t size = 0;

    bool not_required = rejection.code == ZLINK_REJECT_NOT_REQUIRED;
    if (!not_required)
        zlink_counter_add(&rejected, 1);
    zlink_log(not_required ? ZLINK_LOG_INFO : ZLINK_LOG_WARN,
              not_required ? "zlink.peer.not_required" : "zlink.peer.rejected",
              ZLINK_LOG_S("address", zlink_stream_peer_address(zlink_frame_connection_stream(end->connection))),
              ZLINK_LOG_I("code", rejection.code), ZLINK_LOG_S("reason", rejection.reason));
    strcpy(message.reason, rejection.reason);
    if (zlink_wire_reject_encode(&message, envelope, sizeof(envelope), &size) == ZLINK_OK)
        zlink_frame_connection_send_forced(end->connection, &prefix, envelope, (uint32_t)size, NULL, 0);
    zlink_mesh_fail(end, ZLINK_REJECTED, rejection.reason);
    return ZLINK_FRAME_TAKEN;
}

static const zlink_peer_identity_t *certificate_of(const zlink_link_end_t *end)
{
    return zlink_stream_peer_identity(zlink_frame_connection_stream(end->connection));
}

/* A link serves nobody where both ends are object Clients and neither is a member of any channel; a weight of 0 is a
 * membership, too (TR-11, TR-12). */
static bool serves_nothing(const zlink_wire_hello_t *node)
{
    return node->role == ZLINK_ROLE_CLIENT && node->channel_count == 0;
}

/* A client and a server of one channel. They may be of one process. */
static bool sides_fit(const zlink_wire_hello_t *self, const zlink_wire_hello_t *peer)
{
    return self->role != peer->role && strcmp(self->channels[0].name, peer->channels[0].name) == 0;
}

/* What both sides check of the other's description. True when it may be admitted. */
static bool description_fits(const zlink_link_end_t *end, const zlink_wire_hello_t *peer, zlink_rejection_t *why)
{
    const zlink_mesh_t *mesh = end->mesh;
    const zlink_peer_identity_t *identity = certificate_of(end);

    if (peer->protocol_major != ZLINK_WIRE_PROTOCOL_MAJOR)
        *why = (zlink_rejection_t){ZLINK_REJECT_VERSION, "another protocol version"};
    else if (peer->topology != mesh->options.topology)
        *why = (zlink_rejection_t){ZLINK_REJECT_TOPOLOGY, "another topology"};
    else if (strcmp(peer->mesh, mesh->identity.mesh) != 0)
        *why = (zlink_rejection_t){ZLINK_REJECT_TOPOLOGY, "another mesh"};
    else if (identity && strcmp(identity->mesh, mesh->identity.mesh) != 0)
        *why = (zlink_rejection_t){ZLINK_REJECT_SECURITY_IDENTITY, "the certificate belongs to another mesh"};
    else if (identity && !zlink_wire_node_id_belongs_to(peer->node_id, identity->name))
        *why = (zlink_rejection_t){ZLINK_REJECT_IDENTITY, "the certificate does not allow this node id"};
    else if (zlink_mesh_is_client_server(mesh) && !sides_fit(&mesh->self, peer))
        *why = (zlink_rejection_t){ZLINK_REJECT_CHANNEL, "another channel, or both ends are the same side of it"};
    else if (!zlink_mesh_is_client_server(mesh) && strcmp(peer->node_id, mesh->identity.node_id) == 0)
        *why = (zlink_rejection_t){ZLINK_REJECT_DUPLICATE, "a node does not link to itself"};
    else if (serves_nothing(peer) && serves_nothing(&mesh->self))
        *why = (zlink_rejection_t){ZLINK_REJECT_NOT_REQUIRED, "neither end serves anything: no link is needed"};
    else if (mesh->draining)
        *why = (zlink_rejection_t){ZLINK_REJECT_NOT_SERVING, "draining"};
    else
        return true;
    return false;
}

/* The peer's name: from its certificate, or, without TLS, its node id without the uuid. */
static void take_name(zlink_peer_link_t *link, const zlink_link_end_t *end, const zlink_wire_hello_t *peer)
{
    const zlink_peer_identity_t *identity = certificate_of(end);
    size_t length = strlen(peer->node_id);
    const size_t uuid = 37; /* "-" and 36 */
    if (identity)
        length = strlen(identity->name);
    else if (length > uuid && length - uuid < sizeof(link->name))
        length -= uuid;
    else if (length >= sizeof(link->name))
        length = sizeof(link->name) - 1;
    memcpy(link->name, identity ? identity->name : peer->node_id, length);
    link->name[length] = '\0';
}

static zlink_status_t decode_peer(zlink_mesh_t *mesh, const uint8_t *envelope, size_t size, zlink_wire_hello_t *peer,
                                  const char **reason)
{
    *peer = (zlink_wire_hello_t){
        .channels = mesh->scratch_channels,
        .channel_capacity = mesh->scratch_channel_count,
        .spot_types = mesh->scratch_spot_types,
        .spot_type_capacity = mesh->scratch_spot_type_count,
    };
    return zlink_wire_hello_decode(envelope, size, peer, reason);
}

static void admitted(zlink_link_end_t *end)
{
    end->admitted = true;
    zlink_reactor_timer_cancel(end->mesh->reactor, &end->admission);
}

/* In ClientServer the one connection is both. */
static void be_both(zlink_link_end_t *end)
{
    end->link->ends[ZLINK_CONNECTION_COMPLETION] = end;
    zlink_mesh_peer_paused(end->link, end->link->peer.paused);
    zlink_mesh_link_ready(end->link);
}

/* ---- the acceptor's side ---- */

/* Lives that a newer one has taken over from. One of them that comes back has not died: two processes use one name, and
 * would drive each other out for ever. */
static bool was_replaced(const zlink_mesh_t *mesh, const char *node_id)
{
    for (size_t i = 0; i < ZLINK_MESH_REPLACED_MAX; i++)
        if (strcmp(mesh->replaced[i], node_id) == 0)
            return true;
    return false;
}

static void replace(zlink_mesh_t *mesh, zlink_peer_link_t *existing)
{
    strcpy(mesh->replaced[mesh->replaced_next], existing->peer.node_id);
    mesh->replaced_next = (mesh->replaced_next + 1) % ZLINK_MESH_REPLACED_MAX;
    zlink_mesh_close_link(existing, ZLINK_UNAVAILABLE, "the peer has started anew");
}

/* Two nodes that dial each other keep the link that the smaller node id dialled. True when the newcomer stays. */
static bool newcomer_wins(zlink_mesh_t *mesh, zlink_peer_link_t *existing, const zlink_wire_hello_t *peer)
{
    bool same_life = existing->state == ZLINK_LINK_OPENING || strcmp(existing->peer.node_id, peer->node_id) == 0;
    if (!same_life) {
        replace(mesh, existing);
        return true;
    }
    if (!existing->dialled) {
        zlink_mesh_close_link(existing, ZLINK_UNAVAILABLE, "the peer has linked anew");
        return true;
    }
    if (zlink_node_identity_dials(mesh->identity.node_id, peer->node_id) || existing->state == ZLINK_LINK_READY)
        return false;
    strcpy(existing->dialer->standby_for, existing->name);
    zlink_mesh_close_link(existing, ZLINK_UNAVAILABLE, "the peer, whose node id is smaller, dials");
    return true;
}

static zlink_frame_verdict_t admit_application(zlink_link_end_t *end, const zlink_wire_hello_t *peer)
{
    zlink_mesh_t *mesh = end->mesh;
    zlink_peer_link_t *link = zlink_mesh_make_link(mesh, NULL);
    if (!link)
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_RESOURCE_LIMIT, "out of memory"});
    end->link = link;
    link->ends[end->lane] = end;
    link->link_id = peer->link_id;
    take_name(link, end, peer);

    if (was_replaced(mesh, peer->node_id)) {
        zlink_log(ZLINK_LOG_WARN, "zlink.peer.name_used_twice", ZLINK_LOG_S("name", link->name),
                  ZLINK_LOG_S("refused", peer->node_id), ZLINK_LOG_S("meaning", "two processes run under one name"));
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_IDENTITY, "another process has taken this name over"});
    }
    zlink_peer_link_t *existing = zlink_mesh_find_same(link, peer);
    if (existing && !newcomer_wins(mesh, existing, peer))
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_DUPLICATE, "there is a link already"});
    if (zlink_mesh_set_peer(link, peer) != ZLINK_OK || send_self(end, ZLINK_FRAME_ADMIT, peer->link_id) != ZLINK_OK)
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_RESOURCE_LIMIT, "out of memory"});
    link->state = ZLINK_LINK_COMPLETING;
    admitted(end);
    if (zlink_mesh_is_client_server(mesh)) {
        be_both(end);
        return ZLINK_FRAME_TAKEN;
    }
    /* Until the second connection is there, this one is on probation. */
    zlink_reactor_timer_start(mesh->reactor, &end->admission,
                              zlink_reactor_now_ms(mesh->reactor) + 2 * ADMISSION_TIMEOUT_MS);
    return ZLINK_FRAME_TAKEN;
}

static zlink_frame_verdict_t admit_completion(zlink_link_end_t *end, const zlink_wire_hello_t *peer)
{
    zlink_peer_link_t *link;
    TAILQ_FOREACH(link, &end->mesh->links, in_mesh)
    {
        if (link->state == ZLINK_LINK_COMPLETING && !link->dialled && link->link_id == peer->link_id &&
            link->peer.generation == peer->generation && strcmp(link->peer.node_id, peer->node_id) == 0 &&
            !link->ends[ZLINK_CONNECTION_COMPLETION])
            break;
    }
    if (!link)
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_STALE_GENERATION, "no link waits for this connection"});
    end->link = link;
    link->ends[end->lane] = end;
    if (send_self(end, ZLINK_FRAME_ADMIT, peer->link_id) != ZLINK_OK)
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_RESOURCE_LIMIT, "out of memory"});
    admitted(end);
    admitted(link->ends[ZLINK_CONNECTION_APPLICATION]);
    zlink_mesh_peer_paused(link, peer->paused);
    zlink_mesh_link_ready(link);
    return ZLINK_FRAME_TAKEN;
}

static zlink_frame_verdict_t on_hello(zlink_link_end_t *end, const uint8_t *envelope, size_t size)
{
    const char *reason = "bad HELLO";
    zlink_wire_hello_t peer;
    zlink_rejection_t why;
    if (decode_peer(end->mesh, envelope, size, &peer, &reason) != ZLINK_OK)
        return reject(end, (zlink_rejection_t){ZLINK_REJECT_INVALID_DESCRIPTOR, reason});
    end->lane = peer.lane;
    if (!description_fits(end, &peer, &why))
        return reject(end, why);
    return peer.lane == ZLINK_CONNECTION_APPLICATION ? admit_application(end, &peer) : admit_completion(end, &peer);
}

/* ---- the dialer's side ---- */

/* The configuration may say who is to answer at an address, by the name in the certificate or by the node id. Before
 * the peer has said it, `node_id` is NULL, and the name must be one that the expected id may belong to (TR-13). */
static bool is_expected(const zlink_mesh_dialer_t *dialer, const char *name, const char *node_id)
{
    const char *expected = dialer->expected;
    if (!expected || strcmp(expected, name) == 0)
        return true;
    return node_id ? strcmp(expected, node_id) == 0 : zlink_wire_node_id_belongs_to(expected, name);
}

static void opened(zlink_frame_connection_t *connection)
{
    zlink_link_end_t *end = zlink_frame_connection_context(connection);
    zlink_mesh_t *mesh = end->mesh;
    const zlink_peer_identity_t *identity = certificate_of(end);

    zlink_reactor_timer_start(mesh->reactor, &end->admission,
                              zlink_reactor_now_ms(mesh->reactor) + ADMISSION_TIMEOUT_MS);
    if (!end->dialer || !end->link)
        return;
    if (identity && end->lane == ZLINK_CONNECTION_APPLICATION) {
        if (!is_expected(end->dialer, identity->name, NULL)) {
            zlink_mesh_fail(end, ZLINK_REJECTED, "another node than the expected one answers");
            return;
        }
        /* The certificate tells who answers before a word is said: a peer that is linked already is left alone. */
        zlink_peer_link_t *existing = zlink_mesh_find_peer(mesh, identity->name, end->link);
        strcpy(end->link->name, identity->name);
        if (existing && existing->state != ZLINK_LINK_OPENING) {
            strcpy(end->dialer->standby_for, identity->name);
            zlink_mesh_close_link(end->link, ZLINK_UNAVAILABLE, "there is a link to this peer already");
            return;
        }
    }
    if (send_self(end, ZLINK_FRAME_HELLO, end->link->link_id) != ZLINK_OK)
        zlink_frame_connection_abort(connection, ZLINK_CAPACITY_EXCEEDED, "out of memory");
}

/* Without certificates two nodes that dial each other learn it only from ADMIT. The rule is newcomer_wins(), seen from
 * the dialer. True when the link that this node dialled stays. */
static bool dialled_wins(zlink_peer_link_t *link, zlink_peer_link_t *existing, const zlink_wire_hello_t *peer)
{
    zlink_mesh_t *mesh = link->mesh;
    bool same_life = strcmp(existing->peer.node_id, peer->node_id) == 0;
    if (same_life && !existing->dialled && zlink_node_identity_dials(peer->node_id, mesh->identity.node_id)) {
        strcpy(link->dialer->standby_for, link->name);
        zlink_mesh_close_link(link, ZLINK_UNAVAILABLE, "the peer, whose node id is smaller, dials");
        return false;
    }
    if (existing->dialer) /* another address of the same peer */
        strcpy(existing->dialer->standby_for, link->name);
    zlink_mesh_close_link(existing, ZLINK_UNAVAILABLE, "a later link to this peer replaces it");
    return true;
}

static zlink_frame_verdict_t on_admit(zlink_link_end_t *end, const uint8_t *envelope, size_t size)
{
    zlink_peer_link_t *link = end->link;
    const char *reason = "bad ADMIT";
    zlink_wire_hello_t peer;
    zlink_rejection_t why;
    if (decode_peer(end->mesh, envelope, size, &peer, &reason) != ZLINK_OK)
        return zlink_mesh_broken(end, reason);
    if (!description_fits(end, &peer, &why)) {
        /* Reaching oneself is how a list of all addresses begins everywhere: not worth redialling. */
        if (why.code == ZLINK_REJECT_DUPLICATE)
            strcpy(end->dialer->standby_for, end->mesh->identity.name);
        if (why.code == ZLINK_REJECT_NOT_REQUIRED)
            end->dialer->not_required = true;
        return zlink_mesh_broken(end, why.reason);
    }
    if (peer.lane != end->lane || peer.link_id != link->link_id)
        return zlink_mesh_broken(end, "an ADMIT for another link");
    if (end->lane == ZLINK_CONNECTION_APPLICATION) {
        take_name(link, end, &peer);
        if (!is_expected(end->dialer, link->name, peer.node_id))
            return zlink_mesh_broken(end, "another node than the expected one answers");
        zlink_peer_link_t *existing = zlink_mesh_find_same(link, &peer);
        if (existing && !dialled_wins(link, existing, &peer))
            return ZLINK_FRAME_TAKEN;
        if (zlink_mesh_set_peer(link, &peer) != ZLINK_OK)
            return zlink_mesh_broken(end, "out of memory");
        link->state = ZLINK_LINK_COMPLETING;
        admitted(end);
        if (zlink_mesh_is_client_server(end->mesh))
            be_both(end);
        else
            zlink_dialer_connect_now(end->dialer->dialer);
        zlink_mesh_tell_revision(link);
        return ZLINK_FRAME_TAKEN;
    }
    if (link->state != ZLINK_LINK_COMPLETING || peer.generation != link->peer.generation ||
        strcmp(peer.node_id, link->peer.node_id) != 0)
        return zlink_mesh_broken(end, "the second connection reached another node");
    zlink_mesh_peer_paused(link, peer.paused);
    admitted(end);
    zlink_mesh_link_ready(link);
    return ZLINK_FRAME_TAKEN;
}

/* Whether the peer that answered has a link to this node, too, by which it may have rejected this one. Clients that
 * serve nothing are not found by their name before they say who they are. */
static bool is_linked_already(const zlink_peer_link_t *link)
{
    const zlink_peer_link_t *other;
    TAILQ_FOREACH(other, &link->mesh->links, in_mesh)
    {
        if (other != link && other->state != ZLINK_LINK_CLOSING && link->name[0] &&
            strcmp(other->name, link->name) == 0)
            return true;
    }
    return false;
}

static zlink_log_level_t rejection_level(uint32_t code, bool not_required)
{
    if (not_required)
        return ZLINK_LOG_INFO;
    return code == ZLINK_REJECT_DUPLICATE ? ZLINK_LOG_DEBUG : ZLINK_LOG_WARN;
}

static zlink_frame_verdict_t on_reject(zlink_link_end_t *end, const uint8_t *envelope, size_t size)
{
    zlink_wire_reject_t message;
    const char *reason = "bad REJECT";
    if (zlink_wire_reject_decode(envelope, size, &message, &reason) != ZLINK_OK)
        return zlink_mesh_broken(end, reason);
    if (message.code == ZLINK_REJECT_DUPLICATE && strcmp(message.reason, "a node does not link to itself") == 0)
        strcpy(end->dialer->standby_for, end->mesh->identity.name);
    else if (message.code == ZLINK_REJECT_DUPLICATE && is_linked_already(end->link))
        strcpy(end->dialer->standby_for, end->link->name);
    /* Only who serves nothing itself has to believe it. */
    bool not_required = message.code == ZLINK_REJECT_NOT_REQUIRED && serves_nothing(&end->mesh->self);
    end->dialer->not_required = not_required;
    zlink_log(rejection_level(message.code, not_required),
              not_required ? "zlink.peer.not_required" : "zlink.peer.refused_us",
              ZLINK_LOG_S("address", zlink_dialer_address(end->dialer->dialer)), ZLINK_LOG_I("code", message.code),
              ZLINK_LOG_S("reason", message.reason));
    zlink_mesh_fail(end, ZLINK_REJECTED, message.reason);
    return ZLINK_FRAME_TAKEN;
}

/* ---- afterwards ---- */

/* The same revision again with the same content changes nothing; an older one, or other channels, is an error (TR-27).
 */
static zlink_frame_verdict_t on_update(zlink_link_end_t *end, const uint8_t *envelope, size_t size)
{
    assert(end->link);
    zlink_wire_hello_t *peer = &end->link->peer;
    zlink_wire_update_t update = {
        .channels = end->mesh->scratch_channels,
        .channel_capacity = end->mesh->scratch_channel_count,
    };
    const char *reason = "bad UPDATE";
    if (zlink_wire_update_decode(envelope, size, &update, &reason) != ZLINK_OK)
        return zlink_mesh_broken(end, reason);
    if (update.channel_count != peer->channel_count)
        return zlink_mesh_broken(end, "an UPDATE with other channels");
    bool same = update.draining == peer->draining;
    for (size_t i = 0; i < update.channel_count; i++) {
        if (strcmp(update.channels[i].name, peer->channels[i].name) != 0)
            return zlink_mesh_broken(end, "an UPDATE with other channels");
        same = same && update.channels[i].weight == peer->channels[i].weight;
    }
    if (peer->topology == ZLINK_TOPOLOGY_CLIENT_SERVER && peer->role == ZLINK_ROLE_CLIENT &&
        update.channels[0].weight != 0)
        return zlink_mesh_broken(end, "an UPDATE of a client with a weight");
    if (update.revision < peer->revision || (update.revision == peer->revision && !same))
        return zlink_mesh_broken(end, "an UPDATE with a stale revision");
    if (update.revision > peer->revision)
        zlink_mesh_reroute(end->link, &update);
    return ZLINK_FRAME_TAKEN;
}

static bool same_channels(const zlink_wire_hello_t *peer, const zlink_wire_hello_t *again)
{
    if (again->channel_count != peer->channel_count)
        return false;
    for (size_t i = 0; i < again->channel_count; i++)
        if (strcmp(again->channels[i].name, peer->channels[i].name) != 0 ||
            again->channels[i].weight != peer->channels[i].weight)
            return false;
    return true;
}

/* A HELLO or ADMIT that says again what is known changes nothing: no state, no liveness, no answer (TR-29). What UPDATE
 * changes can be compared on the connection that carries UPDATE only: on the other one it may come first. */
static zlink_frame_verdict_t on_repeated(zlink_link_end_t *end, const uint8_t *envelope, size_t size)
{
    const char *reason = "bad HELLO";
    zlink_wire_hello_t again;
    assert(end->link);
    const zlink_wire_hello_t *peer = &end->link->peer;
    if (decode_peer(end->mesh, envelope, size, &again, &reason) != ZLINK_OK)
        return zlink_mesh_broken(end, reason);
    bool same = again.protocol_major == peer->protocol_major && again.topology == peer->topology &&
                strcmp(again.mesh, peer->mesh) == 0 && strcmp(again.node_id, peer->node_id) == 0 &&
                again.lane == end->lane && again.link_id == end->link->link_id &&
                again.generation == peer->generation && again.role == peer->role &&
                again.max_body_bytes == peer->max_body_bytes;
    if (same && end->lane == ZLINK_CONNECTION_APPLICATION)
        same = again.revision == peer->revision && again.draining == peer->draining && same_channels(peer, &again);
    return same ? ZLINK_FRAME_TAKEN : zlink_mesh_broken(end, "a second description that differs from the first");
}

static zlink_frame_verdict_t on_frame(zlink_frame_connection_t *connection, const zlink_frame_prefix_t *prefix,
                                      const uint8_t *envelope, const uint8_t *payload, size_t payload_bytes)
{
    zlink_link_end_t *end = zlink_frame_connection_context(connection);
    if (end->link && end->link->state == ZLINK_LINK_CLOSING)
        return ZLINK_FRAME_TAKEN; /* what still comes in finds nobody */
    if (end->admitted && prefix->kind == ZLINK_FRAME_UPDATE && end->lane == ZLINK_CONNECTION_APPLICATION)
        return on_update(end, envelope, prefix->envelope_bytes);
    if (end->admitted && prefix->kind == (end->dialer ? ZLINK_FRAME_ADMIT : ZLINK_FRAME_HELLO))
        return on_repeated(end, envelope, prefix->envelope_bytes);
    if (end->admitted)
        return zlink_mesh_on_frame(end, prefix, envelope, payload, payload_bytes);
    if (!end->dialer && prefix->kind == ZLINK_FRAME_HELLO)
        return on_hello(end, envelope, prefix->envelope_bytes);
    if (end->dialer && end->link && prefix->kind == ZLINK_FRAME_ADMIT)
        return on_admit(end, envelope, prefix->envelope_bytes);
    if (end->dialer && end->link && prefix->kind == ZLINK_FRAME_REJECT)
        return on_reject(end, envelope, prefix->envelope_bytes);
    return zlink_mesh_broken(end, "a frame that does not belong before admission");
}

static void drained(zlink_frame_connection_t *connection)
{
    zlink_link_end_t *end = zlink_frame_connection_context(connection);
    if (end->link && end->lane == ZLINK_CONNECTION_APPLICATION)
        zlink_peer_link_drained(end->link);
    if (zlink_mesh_is_client_server(end->mesh)) /* a call may have waited for the room of its reply */
        zlink_frame_connection_resume(connection);
}

/* Who has a certificate and came to nothing with it. All other ways to be turned away have their line already. */
static void tell_not_admitted(const zlink_link_end_t *end, zlink_status_t status, const char *reason)
{
    const zlink_peer_identity_t *identity = certificate_of(end);
    if (!identity || end->dialer || end->link || end->mesh->closing || status == ZLINK_REJECTED ||
        status == ZLINK_PROTOCOL_ERROR)
        return;
    zlink_log(ZLINK_LOG_WARN, "zlink.peer.not_admitted",
              ZLINK_LOG_S("address", zlink_stream_peer_address(zlink_frame_connection_stream(end->connection))),
              ZLINK_LOG_S("name", identity->name), ZLINK_LOG_S("reason", reason));
}

static void closed(zlink_frame_connection_t *connection, zlink_status_t status, const char *reason)
{
    tell_not_admitted(zlink_frame_connection_context(connection), status, reason);
    zlink_mesh_link_end_closed(zlink_frame_connection_context(connection), status, reason);
}

const zlink_frame_connection_events_t zlink_mesh_connection_events = {
    .opened = opened,
    .frame = on_frame,
    .drained = drained,
    .closed = closed,
};
