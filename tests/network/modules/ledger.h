/*
 * ledger.h: what one side of a stream of numbered parcels has written down, one byte for each number.
 *
 * A ledger is a file that is mapped, so what stands in it outlives a process that is killed, and the test reads it
 * while it is written. The sender's says of each number that it began and how it ended, the receiver's how often it
 * came. Its writer is one Spot or one channel, whose turns never overlap. The names of both sides' files are the
 * test's.
 */
#ifndef TESTS_NETWORK_LEDGER_H
#define TESTS_NETWORK_LEDGER_H

#include <stdint.h>

#include <zlink/status.h>

#define LEDGER_NUMBERS_MAX (1u << 20)
#define LEDGER_BEGUN       1u /* a cell of the sender's: begun … */
#define LEDGER_ENDED       2u /* … and, this plus the status: ended */

typedef struct ledger {
    char name[48];
    uint32_t last;   /* the highest number that was written down */
    uint32_t good;   /* sender: ended with ZLINK_OK; receiver: came */
    uint32_t wrong;  /* sender: ended twice, or with another request's reply; receiver: came twice or out of order */
    uint32_t unused; /* 64 bytes before the cells */
    uint8_t cells[LEDGER_NUMBERS_MAX + 1];
} ledger_t;

/* Opens FOLDER/`side`/`name`, or makes it; FOLDER is the test's own. It stays mapped as long as the process lives.
 * NULL: it cannot be had. */
ledger_t *ledger_open(const char *side, const char *name);

/* The sender's next number; 0 when there is none any more. */
uint32_t ledger_begin(ledger_t *ledger);
void ledger_end(ledger_t *ledger, uint32_t number, zlink_status_t status);

/* The receiver's: before anything else is done about it. */
void ledger_note(ledger_t *ledger, uint32_t number);

#endif
