#include "server/picked_room.h"

#include "base/admission_error.h"
#include "base/container_of.h"
#include "base/memory.h"
#include "server/application/channel_host.h"
#include "server/application/room_wait.h"

typedef struct zlink_picked_room {
    zlink_room_wait_t room;
    zlink_mesh_t *mesh;
    zlink_outbound_call_t *call;
    zlink_timer_t deadline;
    zlink_mail_t mail;
    zlink_status_t status;
} zlink_picked_room_t;

static void complete(zlink_picked_room_t *picked, zlink_status_t status)
{
    zlink_mesh_t *mesh = picked->mesh;
    zlink_outbound_call_t *call = picked->call;
    zlink_reactor_timer_cancel(mesh->reactor, &picked->deadline);
    zlink_free(picked);
    zlink_mesh_complete(mesh, call, status, NULL);
}

static void on_reactor(zlink_mail_t *mail)
{
    zlink_picked_room_t *picked = ZLINK_CONTAINER_OF(mail, zlink_picked_room_t, mail);
    complete(picked, picked->status);
}

/* Any thread. */
static void ended(zlink_room_wait_t *room, zlink_status_t status)
{
    zlink_picked_room_t *picked = ZLINK_CONTAINER_OF(room, zlink_picked_room_t, room);
    picked->status = status;
    zlink_reactor_post(picked->mesh->reactor, &picked->mail);
}

static void time_is_over(zlink_timer_t *timer)
{
    zlink_picked_room_t *picked = ZLINK_CONTAINER_OF(timer, zlink_picked_room_t, deadline);
    if (zlink_room_wait_expire(&picked->room)) /* or it has ended just now, and its mail is on the way */
        complete(picked, ZLINK_DEADLINE_EXCEEDED);
}

zlink_status_t zlink_picked_room_wait(zlink_mesh_t *mesh, zlink_outbound_call_t *call, zlink_invocation_t *invocation)
{
    zlink_picked_room_t *picked = zlink_calloc(1, sizeof(*picked));
    if (!picked) {
        zlink_invocation_free(invocation);
        return zlink_admission_error(ZLINK_ADMISSION_MEMORY, ZLINK_ADMISSION_SEND, true).status;
    }
    picked->room.ended = ended;
    picked->mesh = mesh;
    picked->call = call;
    picked->deadline.fire = time_is_over;
    picked->mail.deliver = on_reactor;
    zlink_channel_host_hold(invocation);
    if (zlink_room_wait_begin(&picked->room, invocation) != ZLINK_OK) {
        zlink_free(picked);
        return zlink_admission_error(ZLINK_ADMISSION_WAITER_SLOT, ZLINK_ADMISSION_SEND, true).status;
    }
    call->at_home = true;
    zlink_reactor_timer_start(mesh->reactor, &picked->deadline, call->deadline_ms);
    zlink_mesh_call_waits(call);
    return ZLINK_OK;
}
