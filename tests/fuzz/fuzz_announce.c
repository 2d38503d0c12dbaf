/*
 * tests/fuzz/fuzz_announce.c: libFuzzer target: a stream of announcements against small tables on both sides.
 *
 * Each record is one byte of length and that many bytes of an ANNOUNCE envelope. What decodes is added on the
 * receiver's side, and given a number on the sender's: both must stay within their bounds and give back what was put
 * in.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/name_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAMES_MAX 8u

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void receive(zlink_incoming_names_t *incoming, const zlink_wire_announce_t *announce, uint32_t *accepted)
{
    const zlink_incoming_name_t *name;
    const char *reason = NULL;

    if (zlink_incoming_names_add(incoming, announce, &reason) != ZLINK_OK) {
        require(reason != NULL);
        return;
    }
    require(++*accepted <= NAMES_MAX);
    if (announce->kind == ZLINK_ANNOUNCE_TARGET) {
        name = zlink_incoming_names_target(incoming, announce->id);
        require(name != NULL && name->kind == announce->target.kind && strcmp(name->name, announce->target.name) == 0 &&
                strcmp(name->spot_id, announce->target.spot_id) == 0);
    } else {
        name = zlink_incoming_names_packet(incoming, announce->id);
        require(name != NULL && name->kind == ZLINK_TARGET_NONE && strcmp(name->name, announce->packet) == 0);
    }
}

static uint32_t number_of(zlink_outgoing_names_t *outgoing, const zlink_wire_announce_t *announce, bool *is_new)
{
    if (announce->kind == ZLINK_ANNOUNCE_PACKET)
        return zlink_outgoing_names_packet(outgoing, announce->packet, is_new);
    return zlink_outgoing_names_target(outgoing, announce->target.kind, announce->target.name, announce->target.spot_id,
                                       is_new);
}

static void send(zlink_outgoing_names_t *outgoing, const zlink_wire_announce_t *announce)
{
    bool is_new, is_new_again;
    uint32_t number = number_of(outgoing, announce, &is_new);

    require(number <= NAMES_MAX && (number != 0 || !is_new));
    require(number_of(outgoing, announce, &is_new_again) == number && !is_new_again);
    if (is_new && announce->id % 3 == 0) {
        zlink_outgoing_names_withdraw(outgoing, announce->kind, number);
        require(number_of(outgoing, announce, &is_new) == number && is_new);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const zlink_name_table_limits_t limits = {NAMES_MAX, 64};
    zlink_incoming_names_t *incoming = NULL;
    zlink_outgoing_names_t *outgoing = NULL;
    uint32_t accepted = 0;

    require(zlink_incoming_names_create(&limits, &incoming) == ZLINK_OK);
    require(zlink_outgoing_names_create(&limits, &outgoing) == ZLINK_OK);
    while (size > 0) {
        size_t length = *data++;
        zlink_wire_announce_t announce;

        size--;
        if (length > size)
            length = size;
        if (zlink_wire_announce_decode(data, length, &announce, NULL) == ZLINK_OK) {
            receive(incoming, &announce, &accepted);
            send(outgoing, &announce);
        }
        data += length;
        size -= length;
    }
    zlink_incoming_names_destroy(incoming);
    zlink_outgoing_names_destroy(outgoing);
    return 0;
}
