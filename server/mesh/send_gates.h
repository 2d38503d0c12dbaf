/*
 * server/mesh/send_gates.h: where one-way messages may go without asking the reactor first.
 *
 * A one-way message has been taken as soon as this node holds it and knows somebody to send it to. So that a sender
 * need not wait for the reactor to say so, each target (a channel, or a node by its name) has a gate: open while a
 * ready link leads there, with a bounded number of bytes on their way behind it. Who finds no open gate, or no room,
 * asks and waits.
 *
 * The reactor opens and closes gates; any thread takes and gives back, without a lock. A gate, once made, stays until
 * the mesh is destroyed; where no more can be made, senders ask.
 */
#ifndef ZLINK_SERVER_SEND_GATES_H
#define ZLINK_SERVER_SEND_GATES_H

#include <stdbool.h>
#include <stddef.h>

#define ZLINK_SEND_GATES_MAX         1024u             /* targets */
#define ZLINK_SEND_GATE_BYTES        ((size_t)1 << 20) /* on their way to one target */
#define ZLINK_SEND_GATE_MESSAGE_COST ((size_t)1024)    /* of each message beside its payload: at most 1,024 at once */

typedef enum zlink_send_gate_kind {
    ZLINK_SEND_TO_CHANNEL = 'c',
    ZLINK_SEND_TO_NODE = 'n',
} zlink_send_gate_kind_t;

typedef struct zlink_send_gate zlink_send_gate_t;
typedef struct zlink_send_gates zlink_send_gates_t;

/* NULL when out of memory. */
zlink_send_gates_t *zlink_send_gates_create(void);
void zlink_send_gates_destroy(zlink_send_gates_t *gates); /* NULL is allowed */

/* Reactor thread. */
void zlink_send_gates_set(zlink_send_gates_t *gates, zlink_send_gate_kind_t kind, const char *name, bool open);

/* Any thread. The gate, with room for the message taken, or NULL: ask the reactor. */
zlink_send_gate_t *zlink_send_gates_take(zlink_send_gates_t *gates, zlink_send_gate_kind_t kind, const char *name,
                                         size_t payload_bytes);

/* Any thread: the message has left, or was lost. */
void zlink_send_gate_give_back(zlink_send_gate_t *gate, size_t payload_bytes);

#endif
