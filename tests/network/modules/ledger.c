#include "ledger.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOLDER_VARIABLE "ZLINK_MESH_TEST_FOLDER"

_Static_assert(offsetof(ledger_t, cells) == 64, "the test reads it");

ledger_t *ledger_open(const char *side, const char *name)
{
    const char *folder = getenv(FOLDER_VARIABLE);
    ledger_t *ledger = NULL;
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s/%s", folder ? folder : ".", side, name);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    if (ftruncate(file, sizeof(*ledger)) == 0) {
        void *memory = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ledger = memory == MAP_FAILED ? NULL : memory;
    }
    close(file);
    if (ledger)
        snprintf(ledger->name, sizeof(ledger->name), "%s", name);
    return ledger;
}

uint32_t ledger_begin(ledger_t *ledger)
{
    if (ledger->last == LEDGER_NUMBERS_MAX)
        return 0;
    ledger->last++;
    ledger->cells[ledger->last] = LEDGER_BEGUN;
    return ledger->last;
}

void ledger_end(ledger_t *ledger, uint32_t number, zlink_status_t status)
{
    if (ledger->cells[number] != LEDGER_BEGUN)
        ledger->wrong++;
    ledger->cells[number] = (uint8_t)(LEDGER_ENDED + (unsigned)status);
    if (status == ZLINK_OK)
        ledger->good++;
}

void ledger_note(ledger_t *ledger, uint32_t number)
{
    if (number == 0 || number > LEDGER_NUMBERS_MAX) {
        ledger->wrong++;
        return;
    }
    if (number <= ledger->last)
        ledger->wrong++;
    else
        ledger->last = number;
    if (ledger->cells[number] < UINT8_MAX)
        ledger->cells[number]++;
    ledger->good++;
}
