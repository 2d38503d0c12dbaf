#include "ctl/load.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container_of.h"
#include "base/memory.h"

typedef struct zlink_load zlink_load_t;

/* One of the `outstanding` places: it makes its next call when its last one has ended. */
typedef struct zlink_load_slot {
    zlink_outbound_call_t call;
    zlink_load_t *load;
    uint64_t started_ns;
    char spot_id[ZLINK_WIRE_NAME_BYTES_MAX + 1];
} zlink_load_slot_t;

struct zlink_load {
    zlink_mesh_client_t *client;
    const zlink_load_options_t *options;
    zlink_load_result_t *result;
    zlink_load_slot_t *slots;
    uint32_t *latencies_us;
    size_t latency_count;
    uint32_t begun, ended;
    sem_t done;
};

/* "cart-{}" with 7 becomes "cart-7". */
static void fill_spot_id(char *spot_id, const char *pattern, uint32_t number)
{
    const char *place = strstr(pattern, "{}");
    if (place)
        snprintf(spot_id, ZLINK_WIRE_NAME_BYTES_MAX + 1, "%.*s%u%s", (int)(place - pattern), pattern, number,
                 place + 2);
    else
        snprintf(spot_id, ZLINK_WIRE_NAME_BYTES_MAX + 1, "%s", pattern);
}

static void completed(zlink_outbound_call_t *call, zlink_status_t status, const zlink_call_answer_t *answer);

static void begin_next(zlink_load_slot_t *slot)
{
    zlink_load_t *load = slot->load;
    const zlink_load_options_t *options = load->options;
    uint32_t number = load->begun++ % options->spread;
    fill_spot_id(slot->spot_id, options->spot_id, number);
    slot->started_ns = zlink_clock_now_ns(&zlink_clock_system);
    slot->call = (zlink_outbound_call_t){
        .route = ZLINK_ROUTE_LINK,
        .one_way = options->one_way,
        .link_number = load->client->links[number % load->client->options.address_count],
        .target = options->target,
        .name = options->name,
        .spot_id = slot->spot_id,
        .packet = options->packet,
        .payload = options->payload,
        .payload_bytes = options->payload_bytes,
        .deadline_ms = slot->started_ns / ZLINK_NS_PER_MS + options->timeout_ms,
        .completed = completed,
    };
    zlink_mesh_submit(load->client->mesh, &slot->call);
}

static void completed(zlink_outbound_call_t *call, zlink_status_t status, const zlink_call_answer_t *answer)
{
    zlink_load_slot_t *slot = ZLINK_CONTAINER_OF(call, zlink_load_slot_t, call);
    zlink_load_t *load = slot->load;
    load->result->by_status[status]++;
    if (status == ZLINK_OK) {
        uint64_t took_us = (zlink_clock_now_ns(&zlink_clock_system) - slot->started_ns) / 1000;
        load->latencies_us[load->latency_count++] = took_us > UINT32_MAX ? UINT32_MAX : (uint32_t)took_us;
        if (load->options->reply && !load->options->one_way)
            load->options->reply(load->options->context, slot->spot_id, answer);
    }
    if (++load->ended == load->options->count)
        sem_post(&load->done);
    else if (load->begun < load->options->count)
        begin_next(slot);
}

static void begin(void *context)
{
    zlink_load_t *load = context;
    for (uint32_t i = 0; i < load->options->outstanding && load->begun < load->options->count; i++) {
        load->slots[i].load = load;
        begin_next(&load->slots[i]);
    }
}

static int by_value(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void summarize(zlink_load_t *load)
{
    size_t count = load->latency_count;
    if (count == 0)
        return;
    qsort(load->latencies_us, count, sizeof(load->latencies_us[0]), by_value);
    load->result->p50_us = load->latencies_us[(count - 1) / 2];
    load->result->p99_us = load->latencies_us[(count - 1) * 99 / 100];
    load->result->max_us = load->latencies_us[count - 1];
}

zlink_status_t zlink_load_run(zlink_mesh_client_t *client, const zlink_load_options_t *options,
                              zlink_load_result_t *result, zlink_refusal_t *why)
{
    zlink_load_t load = {.client = client, .options = options, .result = result};
    assert(options->count > 0 && options->outstanding > 0 && options->spread > 0);
    *result = (zlink_load_result_t){0};
    load.slots = zlink_calloc(options->outstanding, sizeof(zlink_load_slot_t));
    load.latencies_us = zlink_malloc(options->count * sizeof(uint32_t));
    if (!load.slots || !load.latencies_us) {
        zlink_free(load.slots);
        zlink_free(load.latencies_us);
        zlink_refuse(why, "no memory for %u calls", options->count);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    sem_init(&load.done, 0, 0);
    uint64_t started_ns = zlink_clock_now_ns(&zlink_clock_system);
    zlink_reactor_call(client->reactor, begin, &load);
    while (sem_wait(&load.done) != 0)
        ; /* interrupted: every call has a deadline, so the end comes */
    result->seconds = (double)(zlink_clock_now_ns(&zlink_clock_system) - started_ns) / 1e9;
    summarize(&load);
    sem_destroy(&load.done);
    zlink_free(load.slots);
    zlink_free(load.latencies_us);
    return ZLINK_OK;
}
