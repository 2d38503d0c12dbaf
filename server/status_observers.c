#include "server/status_observers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/memory.h"

ZLINK_COUNTER_DEFINE(watching, ZLINK_GAUGE, "zlink.status.observers", "Who watches this node now");
ZLINK_COUNTER_DEFINE(lost_events, ZLINK_COUNTER, "zlink.status.events_lost",
                     "Events that observers were too slow for, all together");

/* "{…}" becomes "{…,"lost":N}" and a line. False: there is no room for it in the stream. */
static bool write_event(zlink_status_observer_t *observer, const char *text)
{
    const size_t length = strlen(text);
    const size_t room = length + 40;
    char *line = zlink_malloc(room);
    if (!line)
        return false;
    int size = snprintf(line, room, "%.*s,\"lost\":%" PRIu64 "}\n", (int)length - 1, text, observer->lost);
    zlink_status_t status = zlink_stream_write(observer->stream, line, (size_t)size);
    zlink_free(line);
    return status == ZLINK_OK;
}

static void drop(zlink_status_observer_t *observer)
{
    observer->lost++;
    zlink_counter_add(&lost_events, 1);
}

/* In order: what stands in a slot came before. */
static void give(zlink_status_observer_t *observer, const char *text)
{
    if (observer->count == 0 && write_event(observer, text))
        return;
    char *copy = observer->count < ZLINK_STATUS_SLOTS ? zlink_strdup(text) : NULL;
    if (!copy) {
        drop(observer);
        return;
    }
    observer->slots[(observer->first + observer->count) % ZLINK_STATUS_SLOTS] = copy;
    observer->count++;
}

static zlink_status_observer_t *find(const zlink_status_observers_t *observers, const zlink_stream_t *stream)
{
    for (size_t i = 0; i < ZLINK_STATUS_OBSERVERS_MAX; i++)
        if (observers->list[i] && observers->list[i]->stream == stream)
            return observers->list[i];
    return NULL;
}

zlink_status_t zlink_status_observers_add(zlink_status_observers_t *observers, zlink_stream_t *stream,
                                          const char *status)
{
    const size_t length = strcspn(status, "\n");
    const size_t room = length + 64;
    size_t place = 0;

    while (place < ZLINK_STATUS_OBSERVERS_MAX && observers->list[place])
        place++;
    if (place == ZLINK_STATUS_OBSERVERS_MAX)
        return ZLINK_CAPACITY_EXCEEDED;
    zlink_status_observer_t *observer = zlink_calloc(1, sizeof(*observer));
    char *line = zlink_malloc(room);
    zlink_status_t written = ZLINK_CAPACITY_EXCEEDED;
    if (observer && line) {
        int size = snprintf(line, room, "{\"sequence\":%" PRIu64 ",\"snapshot\":%.*s}\n", observers->sequence,
                            (int)length, status);
        written = zlink_stream_write_forced(stream, line, (size_t)size);
    }
    zlink_free(line);
    if (written != ZLINK_OK) {
        zlink_free(observer);
        return ZLINK_CAPACITY_EXCEEDED;
    }
    observer->stream = stream;
    observers->list[place] = observer;
    zlink_counter_add(&watching, 1);
    return ZLINK_OK;
}

void zlink_status_observers_drained(zlink_status_observers_t *observers, const zlink_stream_t *stream)
{
    zlink_status_observer_t *observer = find(observers, stream);
    while (observer && observer->count > 0 && write_event(observer, observer->slots[observer->first])) {
        zlink_free(observer->slots[observer->first]);
        observer->first = (observer->first + 1) % ZLINK_STATUS_SLOTS;
        observer->count--;
    }
}

void zlink_status_observers_remove(zlink_status_observers_t *observers, const zlink_stream_t *stream)
{
    zlink_status_observer_t *observer = find(observers, stream);
    if (!observer)
        return;
    for (uint32_t i = 0; i < observer->count; i++)
        zlink_free(observer->slots[(observer->first + i) % ZLINK_STATUS_SLOTS]);
    for (size_t i = 0; i < ZLINK_STATUS_OBSERVERS_MAX; i++)
        if (observers->list[i] == observer)
            observers->list[i] = NULL;
    zlink_free(observer);
    zlink_counter_add(&watching, -1);
}

void zlink_status_observers_tell(zlink_status_observers_t *observers, cJSON *event)
{
    char *text = NULL;

    observers->sequence++;
    if (event && cJSON_AddNumberToObject(event, "sequence", (double)observers->sequence))
        text = cJSON_PrintUnformatted(event);
    cJSON_Delete(event);
    for (size_t i = 0; i < ZLINK_STATUS_OBSERVERS_MAX; i++) {
        if (observers->list[i] && text)
            give(observers->list[i], text);
        else if (observers->list[i])
            drop(observers->list[i]);
    }
    free(text);
}
