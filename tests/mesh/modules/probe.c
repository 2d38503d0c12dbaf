/*
 * probe.c: Spots that look at what the node does with them: "probe" does what it is told, "shy" refuses to be created
 * the first two times, "scribe" leaves a file when it closes.
 */
#include <stdio.h>
#include <stdlib.h>

#include <zlink/zlink.h>

#include "mesh.zlink.h"
#include "wait.h"
#include "work.h"

#define FOLDER_VARIABLE "ZLINK_MESH_TEST_FOLDER"

typedef struct probe {
    waiter_t waiter; /* first: on_wait works on it */
} probe_t;

static zlink_status_t on_ping(zlink_turn_t *turn, void *self, const PingReq *request, PingRes *reply)
{
    probe_t *probe = self;
    journal_enter(&probe->waiter.journal);
    journal_note(&probe->waiter.journal, request->tag, "");
    snprintf(reply->owner, sizeof(reply->owner), "%s", zlink_turn_owner_name(turn));
    snprintf(reply->source, sizeof(reply->source), "%s", zlink_turn_source(turn));
    reply->remaining_ms = zlink_turn_remaining_ms(turn);
    journal_leave(&probe->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const Note *message)
{
    probe_t *probe = self;
    (void)turn;
    journal_enter(&probe->waiter.journal);
    journal_note(&probe->waiter.journal, message->tag, "");
    journal_leave(&probe->waiter.journal);
    return ZLINK_OK;
}

static zlink_status_t on_fail(zlink_turn_t *turn, void *self, const FailReq *request, FailRes *reply)
{
    FailReq ask = FailReq_init_zero;
    (void)self;
    if (!request->channel[0])
        return (zlink_status_t)request->status;
    ask.status = request->status;
    return zlink_channel_request_yield(turn, request->channel, ZLINK_ASK(FailReq, &ask), ZLINK_REPLY(FailRes, reply));
}

static zlink_status_t on_send(zlink_turn_t *turn, void *self, const SendReq *request, SendRes *reply)
{
    Note note = Note_init_zero;
    zlink_ask_t message = ZLINK_ASK(Note, &note);
    (void)self;
    snprintf(note.tag, sizeof(note.tag), "%s", request->tag);
    zlink_status_t status = request->spot_type[0]
                                ? zlink_instance_spot_send(turn, request->spot_type, request->spot_id, message)
                                : zlink_channel_send(turn, request->channel, message);
    snprintf(reply->status, sizeof(reply->status), "%s", zlink_status_name(status));
    return ZLINK_OK;
}

static zlink_status_t on_close(zlink_turn_t *turn, void *self, const CloseReq *request, CloseRes *reply)
{
    (void)self, (void)request, (void)reply;
    return zlink_spot_close(turn);
}

static zlink_status_t on_log(zlink_turn_t *turn, void *self, const LogReq *request, LogRes *reply)
{
    const probe_t *probe = self;
    (void)turn, (void)request;
    journal_read(&probe->waiter.journal, reply);
    reply->total = probe->waiter.total;
    return ZLINK_OK;
}

static zlink_status_t create_when_asked_again(zlink_turn_t *turn, void *self)
{
    static atomic_int asked;
    (void)turn, (void)self;
    return atomic_fetch_add(&asked, 1) < 2 ? ZLINK_REJECTED : ZLINK_OK;
}

/* One line for each life of the Spot, in FOLDER/<id>. */
static void write_file(zlink_turn_t *turn, void *self)
{
    const probe_t *probe = self;
    const char *folder = getenv(FOLDER_VARIABLE);
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder ? folder : ".", zlink_turn_owner_name(turn));
    FILE *file = fopen(path, "a");
    if (!file)
        return;
    fprintf(file, "closed: %s\n", probe->waiter.journal.text);
    fclose(file);
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(WaitReq, WaitRes, on_wait),
    ZLINK_ON_REQUEST(WorkReq, WaitRes, on_work),
    ZLINK_ON_REQUEST(LetGoReq, LetGoRes, on_let_go),
    ZLINK_ON_REQUEST(PingReq, PingRes, on_ping),
    ZLINK_ON_REQUEST(FailReq, FailRes, on_fail),
    ZLINK_ON_REQUEST(SendReq, SendRes, on_send),
    ZLINK_ON_REQUEST(CloseReq, CloseRes, on_close),
    ZLINK_ON_REQUEST(LogReq, LogRes, on_log),
    ZLINK_ON_SEND(Note, on_note),
    ZLINK_HANDLERS_END,
};

static const zlink_spot_type_t probe_type = {
    .name = "probe",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(probe_t),
    .relocation = ZLINK_RECREATE_ON_RELOCATION,
    .handlers = handlers,
};

static const zlink_spot_type_t shy_type = {
    .name = "shy",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(probe_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .on_create = create_when_asked_again,
    .handlers = handlers,
};

static const zlink_spot_type_t scribe_type = {
    .name = "scribe",
    .kind = ZLINK_INSTANCE_SPOT,
    .state_size = sizeof(probe_t),
    .relocation = ZLINK_RELOCATION_DISABLED,
    .on_closing = write_file,
    .handlers = handlers,
};

ZLINK_MODULE(probe, module)
{
    zlink_module_add_spot_type(module, &probe_type);
    zlink_module_add_spot_type(module, &shy_type);
    zlink_module_add_spot_type(module, &scribe_type);
}
