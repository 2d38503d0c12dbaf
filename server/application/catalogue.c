#include "server/application/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "proto/wire.h"

zlink_catalogue_t *zlink_catalogue_create(void)
{
    return zlink_calloc(1, sizeof(zlink_catalogue_t));
}

void zlink_catalogue_destroy(zlink_catalogue_t *catalogue)
{
    if (!catalogue)
        return;
    for (size_t i = 0; i < catalogue->spot_type_count; i++)
        zlink_free(catalogue->spot_types[i].handlers.sorted);
    for (size_t i = 0; i < catalogue->channel_count; i++)
        zlink_free(catalogue->channels[i].handlers.sorted);
    for (size_t i = 0; i < catalogue->node_handlers_count; i++)
        zlink_free(catalogue->node_handlers[i].handlers.sorted);
    zlink_free(catalogue);
}

const zlink_catalogue_spot_type_t *zlink_catalogue_find_spot_type(const zlink_catalogue_t *catalogue, const char *name)
{
    for (size_t i = 0; i < catalogue->spot_type_count; i++)
        if (strcmp(catalogue->spot_types[i].type->name, name) == 0)
            return &catalogue->spot_types[i];
    return NULL;
}

const zlink_catalogue_channel_t *zlink_catalogue_find_channel(const zlink_catalogue_t *catalogue, const char *name)
{
    for (size_t i = 0; i < catalogue->channel_count; i++)
        if (strcmp(catalogue->channels[i].type->name, name) == 0)
            return &catalogue->channels[i];
    return NULL;
}

static int compare(zlink_handler_kind_t kind, const char *packet, const zlink_handler_t *handler)
{
    int by_packet = strcmp(packet, handler->request.packet);
    return by_packet ? by_packet : (int)kind - (int)handler->kind;
}

static int compare_rows(const void *left, const void *right)
{
    const zlink_handler_t *const *a = left;
    const zlink_handler_t *const *b = right;
    return compare((*a)->kind, (*a)->request.packet, *b);
}

const zlink_handler_t *zlink_handler_table_find(const zlink_handler_table_t *table, zlink_handler_kind_t kind,
                                                const char *packet)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(kind, packet, table->sorted[middle]);
        if (order == 0)
            return table->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const zlink_handler_t *zlink_catalogue_find_node_handler(const zlink_catalogue_t *catalogue, zlink_handler_kind_t kind,
                                                         const char *packet, size_t *at)
{
    for (*at = 0; *at < catalogue->node_handlers_count; ++*at) {
        const zlink_handler_t *found = zlink_handler_table_find(&catalogue->node_handlers[*at].handlers, kind, packet);
        if (found)
            return found;
    }
    return NULL;
}

/* ---- registration ---- */

/* Keeps the first refusal only: the one that the person has to mend first. */
static void refuse(zlink_module_t *module, const char *kind, const char *name, const char *reason)
{
    if (module->status != ZLINK_OK)
        return;
    module->status = ZLINK_INVALID_OPERATION;
    zlink_refuse(&module->refusal, "module %s: %s %s: %s", module->name, kind, name ? name : "(no name)", reason);
}

static const char *name_problem(const char *name)
{
    if (!name || !*name)
        return "it needs a name";
    if (strlen(name) > ZLINK_NAME_BYTES_MAX)
        return "its name is longer than 255 bytes";
    return zlink_wire_name_is_valid(name) ? NULL : "its name is not UTF-8 without control characters";
}

static const char *row_problem(const zlink_handler_t *row)
{
    if (row->kind != ZLINK_HANDLER_REQUEST && row->kind != ZLINK_HANDLER_SEND)
        return "its handlers do not end with ZLINK_HANDLERS_END, or a row was not made with ZLINK_ON_REQUEST or "
               "ZLINK_ON_SEND";
    if (!row->function || !row->request.packet || !row->request.fields)
        return "a handler row has no function or no message";
    const char *problem = name_problem(row->request.packet);
    if (!problem && row->kind == ZLINK_HANDLER_REQUEST)
        problem = !row->reply.fields ? "a request handler has no reply message" : name_problem(row->reply.packet);
    return problem;
}

static const char *filters_problem(const zlink_filter_t *filters)
{
    for (size_t count = 0; filters && filters[count].function; count++)
        if (count == ZLINK_CATALOGUE_FILTERS_MAX)
            return "more than 64 filters, or no ZLINK_FILTERS_END";
    return NULL;
}

/* Returns the problem, or NULL with the table made. */
static const char *sort_handlers(const zlink_handler_t *rows, zlink_handler_table_t *table)
{
    size_t count = 0;
    if (!rows)
        return "it has no handlers";
    for (; rows[count].kind != ZLINK_HANDLER_END; count++) {
        if (count == ZLINK_CATALOGUE_HANDLERS_MAX)
            return "more than 1024 handlers, or no ZLINK_HANDLERS_END";
        const char *problem = row_problem(&rows[count]);
        if (problem)
            return problem;
    }
    table->sorted = zlink_calloc(count ? count : 1, sizeof(const zlink_handler_t *));
    if (!table->sorted)
        return "out of memory";
    for (size_t i = 0; i < count; i++)
        table->sorted[i] = &rows[i];
    qsort(table->sorted, count, sizeof(const zlink_handler_t *), compare_rows);
    for (size_t i = 1; i < count; i++) {
        if (compare_rows(&table->sorted[i - 1], &table->sorted[i]) == 0) {
            zlink_free(table->sorted);
            table->sorted = NULL;
            return "two handlers of one kind for one packet (or ZLINK_HANDLERS_END is missing)";
        }
    }
    table->count = count;
    return NULL;
}

#define STATE_BYTES_MAX ((size_t)64 << 20)

void zlink_module_add_spot_type(zlink_module_t *module, const zlink_spot_type_t *type)
{
    if (!type) {
        refuse(module, "spot type", NULL, "NULL was registered");
        return;
    }
    zlink_catalogue_t *catalogue = module->catalogue;
    const char *problem = name_problem(type->name);
    if (!problem && zlink_catalogue_find_spot_type(catalogue, type->name))
        problem = "registered twice";
    else if (!problem && type->kind != ZLINK_INSTANCE_SPOT)
        problem = "no kind, or one that this node does not know";
    else if (!problem && type->relocation != ZLINK_RELOCATION_DISABLED &&
             type->relocation != ZLINK_RECREATE_ON_RELOCATION)
        problem = "it must name exactly one relocation policy";
    else if (!problem && type->state_size > STATE_BYTES_MAX)
        problem = "its state_size is over 64 MiB";
    else if (!problem && catalogue->spot_type_count == ZLINK_CATALOGUE_TYPES_MAX)
        problem = "more than 256 Spot types";

    zlink_catalogue_spot_type_t *entry = &catalogue->spot_types[catalogue->spot_type_count];
    if (!problem)
        problem = sort_handlers(type->handlers, &entry->handlers);
    if (problem) {
        refuse(module, "spot type", type->name, problem);
        return;
    }
    entry->type = type;
    catalogue->spot_type_count++;
}

void zlink_module_add_channel(zlink_module_t *module, const zlink_channel_type_t *type)
{
    if (!type) {
        refuse(module, "channel", NULL, "NULL was registered");
        return;
    }
    zlink_catalogue_t *catalogue = module->catalogue;
    const char *problem = name_problem(type->name);
    if (!problem && zlink_catalogue_find_channel(catalogue, type->name))
        problem = "registered twice";
    else if (!problem && type->state_size > STATE_BYTES_MAX)
        problem = "its state_size is over 64 MiB";
    else if (!problem && catalogue->channel_count == ZLINK_CATALOGUE_TYPES_MAX)
        problem = "more than 256 channels";

    zlink_catalogue_channel_t *entry = &catalogue->channels[catalogue->channel_count];
    if (!problem)
        problem = filters_problem(type->filters);
    if (!problem)
        problem = sort_handlers(type->handlers, &entry->handlers);
    if (problem) {
        refuse(module, "channel", type->name, problem);
        return;
    }
    entry->type = type;
    catalogue->channel_count++;
}

/* All registrations are one scope: what one of them handles, no other may. */
static const zlink_handler_t *handled_already(const zlink_catalogue_t *catalogue, const zlink_handler_table_t *table)
{
    size_t at;
    for (size_t i = 0; i < table->count; i++) {
        const zlink_handler_t *row = table->sorted[i];
        if (zlink_catalogue_find_node_handler(catalogue, row->kind, row->request.packet, &at))
            return row;
    }
    return NULL;
}

void zlink_module_add_node_handlers(zlink_module_t *module, const zlink_node_handlers_t *handlers)
{
    zlink_catalogue_t *catalogue = module->catalogue;
    const char *problem = NULL, *name = "handlers";
    zlink_handler_table_t table = {NULL, 0};
    if (!handlers)
        problem = "NULL was registered";
    else if (handlers->state_size > STATE_BYTES_MAX)
        problem = "their state_size is over 64 MiB";
    else if (catalogue->node_handlers_count == ZLINK_CATALOGUE_NODE_MAX)
        problem = "more than 256 registrations";
    else
        problem = filters_problem(handlers->filters);
    if (!problem)
        problem = sort_handlers(handlers->handlers, &table);
    const zlink_handler_t *twice = problem ? NULL : handled_already(catalogue, &table);
    if (twice) {
        problem = "the node has a handler of this kind for this packet already";
        name = twice->request.packet;
        zlink_free(table.sorted);
    }
    if (problem) {
        refuse(module, "node", name, problem);
        return;
    }
    catalogue->node_handlers[catalogue->node_handlers_count++] = (zlink_catalogue_node_handlers_t){handlers, table};
}
