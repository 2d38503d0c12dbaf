#include "server/client_server/unready_calls.h"

#include <assert.h>

#include "base/admission_error.h"
#include "base/counters.h"
#include "server/mesh/mesh.h"

ZLINK_COUNTER_DEFINE(ready_waits, ZLINK_COUNTER, "zlink.client_server.ready_waits",
                     "Calls that had to wait for a ready server of their channel");

void zlink_unready_calls_wait(zlink_mesh_t *mesh, zlink_outbound_call_t *call)
{
    uint64_t end_ms = zlink_reactor_now_ms(mesh->reactor) + ZLINK_UNREADY_CALLS_MS;

    if (mesh->unready_count == ZLINK_UNREADY_CALLS_MAX && !call->gate) {
        zlink_admission_error_t error = zlink_admission_error(
            ZLINK_ADMISSION_WAITER_SLOT, call->one_way ? ZLINK_ADMISSION_SEND : ZLINK_ADMISSION_REQUEST, true);
        zlink_mesh_complete(mesh, call, error.status, NULL);
        return;
    }
    zlink_counter_add(&ready_waits, 1);
    call->unready = true;
    TAILQ_INSERT_TAIL(&mesh->unready, call, on_link);
    if (!call->gate) /* a gate has bounded its messages already */
        mesh->unready_count++;
    zlink_reactor_timer_start(mesh->reactor, &call->timer, call->deadline_ms < end_ms ? call->deadline_ms : end_ms);
    zlink_mesh_call_waits(call);
}

void zlink_unready_calls_remove(zlink_outbound_call_t *call)
{
    zlink_mesh_t *mesh = call->mesh;

    assert(call->unready);
    call->unready = false;
    TAILQ_REMOVE(&mesh->unready, call, on_link);
    if (!call->gate)
        mesh->unready_count--;
    zlink_reactor_timer_cancel(mesh->reactor, &call->timer);
}

/* Nobody is asked out of turn: what finds no server now is as old as what finds one, and waits on in its place. */
void zlink_unready_calls_retry(zlink_mesh_t *mesh)
{
    zlink_outbound_call_t *call = TAILQ_FIRST(&mesh->unready);

    while (call) {
        zlink_outbound_call_t *next = TAILQ_NEXT(call, on_link);
        zlink_channel_pick_t picked = {NULL, false};
        zlink_status_t status = zlink_mesh_pick(mesh, call, &picked);
        if (status != ZLINK_UNAVAILABLE) {
            zlink_unready_calls_remove(call);
            zlink_mesh_start_call(mesh, call, status, &picked);
        }
        call = next;
    }
}
