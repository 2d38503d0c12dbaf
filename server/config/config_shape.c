#include "server/config/config_shape.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define PATH_BYTES      160
#define SHOWN_KEY_BYTES 64
#define LIST_BYTES      400

typedef struct walk {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    bool has_event;
    const char *name;
    zlink_refusal_t *why;
    zlink_status_t status;
    char path[PATH_BYTES]; /* of the value that is read now; "" at the root */
    const char *wanted;    /* a path to look for, or NULL */
    size_t wanted_line;    /* where it was */
} walk_t;

static size_t line_of(const yaml_mark_t *mark)
{
    return mark->line + 1;
}

/* Ends the walk. `line` 0: none is right. Always false. */
static bool refuse(walk_t *walk, size_t line, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static bool refuse(walk_t *walk, size_t line, const char *path, const char *format, ...)
{
    char reason[LIST_BYTES + PATH_BYTES];
    char position[32] = "";
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    if (line != 0)
        snprintf(position, sizeof(position), ":%zu", line);
    zlink_refuse(walk->why, "%s%s: %s%s%s", walk->name, position, path, path[0] == '\0' ? "" : ": ", reason);
    walk->status = ZLINK_NOT_CONFIGURED;
    return false;
}

static bool refuse_syntax(walk_t *walk)
{
    const yaml_parser_t *parser = &walk->parser;
    const char *problem = parser->problem == NULL ? "cannot be read" : parser->problem;
    const char *hint = strstr(problem, "cannot start any token") != NULL ? " (a tab?)" : "";

    if (parser->error == YAML_MEMORY_ERROR) {
        zlink_refuse(walk->why, "%s: no memory to read it", walk->name);
        walk->status = ZLINK_CAPACITY_EXCEEDED;
        return false;
    }
    if (parser->error == YAML_READER_ERROR)
        return refuse(walk, 0, "", "is not a YAML text: byte %zu: %s", parser->problem_offset, problem);
    return refuse(walk, line_of(&parser->problem_mark), "", "is not YAML: %s%s", problem, hint);
}

static bool next(walk_t *walk)
{
    if (walk->has_event)
        yaml_event_delete(&walk->event);
    walk->has_event = yaml_parser_parse(&walk->parser, &walk->event) != 0;
    if (!walk->has_event)
        return refuse_syntax(walk);
    if (walk->event.type == YAML_ALIAS_EVENT)
        return refuse(walk, line_of(&walk->event.start_mark), walk->path, "aliases (*name) are not supported");
    return true;
}

static bool next_but_one(walk_t *walk)
{
    if (!next(walk))
        return false;
    return next(walk);
}

/* Appends to the path; the caller puts the NUL back where it was. Schemas are ours, so that it always fits. */
static void path_push(walk_t *walk, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void path_push(walk_t *walk, const char *format, ...)
{
    size_t length = strlen(walk->path);
    va_list arguments;
    int added;

    va_start(arguments, format);
    added = vsnprintf(walk->path + length, sizeof(walk->path) - length, format, arguments);
    va_end(arguments);
    assert(added > 0 && (size_t)added < sizeof(walk->path) - length);
    (void)added;
}

/* Tags change what a value means ("!!binary"); nobody needs one here. */
static bool refuse_tag(walk_t *walk, const yaml_char_t *tag)
{
    return tag == NULL || refuse(walk, line_of(&walk->event.start_mark), walk->path, "tags (!name) are not supported");
}

static bool check_scalar(walk_t *walk)
{
    const yaml_event_t *event = &walk->event;
    size_t line = line_of(&event->start_mark);

    if (event->type != YAML_SCALAR_EVENT)
        return refuse(walk, line, walk->path, "must be one value");
    if (!refuse_tag(walk, event->data.scalar.tag))
        return false;
    for (size_t i = 0; i < event->data.scalar.length; i++) {
        if (event->data.scalar.value[i] < 0x20 || event->data.scalar.value[i] == 0x7f)
            return refuse(walk, line, walk->path, "holds a control character");
    }
    return true;
}

static bool check_string(walk_t *walk, const cyaml_schema_value_t *schema)
{
    size_t line = line_of(&walk->event.start_mark);
    size_t length;

    if (!check_scalar(walk))
        return false;
    length = walk->event.data.scalar.length;
    if (length < schema->string.min)
        return refuse(walk, line, walk->path, "must not be empty");
    if (length > schema->string.max)
        return refuse(walk, line, walk->path, "is longer than %u bytes", schema->string.max);
    return true;
}

static bool check_enum(walk_t *walk, const cyaml_schema_value_t *schema)
{
    const char *value;
    char list[LIST_BYTES] = "";
    size_t used = 0;

    assert(schema->flags & CYAML_FLAG_STRICT);
    if (!check_scalar(walk))
        return false;
    value = (const char *)walk->event.data.scalar.value;
    for (uint32_t i = 0; i < schema->enumeration.count; i++) {
        if (strcmp(value, schema->enumeration.strings[i].str) == 0)
            return true;
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ",
                                 schema->enumeration.strings[i].str);
        assert(used < sizeof(list));
    }
    return refuse(walk, line_of(&walk->event.start_mark), walk->path, "'%.*s' is not one of %s", SHOWN_KEY_BYTES, value,
                  list);
}

static bool check_value(walk_t *walk, const cyaml_schema_value_t *schema);

static bool check_sequence(walk_t *walk, const cyaml_schema_value_t *schema)
{
    size_t line = line_of(&walk->event.start_mark);
    size_t length = strlen(walk->path);
    uint32_t count = 0;

    if (walk->event.type != YAML_SEQUENCE_START_EVENT)
        return refuse(walk, line, walk->path, "must be a list");
    if (!refuse_tag(walk, walk->event.data.sequence_start.tag))
        return false;
    for (;;) {
        if (!next(walk))
            return false;
        if (walk->event.type == YAML_SEQUENCE_END_EVENT)
            return count >= schema->sequence.min ||
                   refuse(walk, line, walk->path, "must not be empty"); /* empty and absent are not the same */
        if (count == schema->sequence.max)
            return refuse(walk, line_of(&walk->event.start_mark), walk->path, "holds more than %u entries",
                          schema->sequence.max);
        path_push(walk, "[%u]", count++);
        if (!check_value(walk, schema->sequence.entry))
            return false;
        walk->path[length] = '\0';
    }
}

static bool refuse_unknown_key(walk_t *walk, const cyaml_schema_field_t *fields, const char *key)
{
    char list[LIST_BYTES] = "";
    char path[PATH_BYTES + SHOWN_KEY_BYTES + 2];
    size_t used = 0;

    for (const cyaml_schema_field_t *field = fields; field->key != NULL; field++) {
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", field == fields ? "" : ", ", field->key);
        assert(used < sizeof(list));
    }
    snprintf(path, sizeof(path), "%s%s%.*s", walk->path, walk->path[0] == '\0' ? "" : ".", SHOWN_KEY_BYTES, key);
    return refuse(walk, line_of(&walk->event.start_mark), path, "no such key; there are %s", list);
}

/* The current event is a key: finds its field, refuses an unknown or repeated one. */
static bool check_key(walk_t *walk, const cyaml_schema_field_t *fields, uint64_t *seen, size_t *index)
{
    const char *key;
    size_t i = 0;

    if (!check_scalar(walk))
        return false;
    key = (const char *)walk->event.data.scalar.value;
    while (fields[i].key != NULL && strcmp(fields[i].key, key) != 0)
        i++;
    if (fields[i].key == NULL)
        return refuse_unknown_key(walk, fields, key);
    path_push(walk, "%s%s", walk->path[0] == '\0' ? "" : ".", key);
    if (*seen & (1ull << i))
        return refuse(walk, line_of(&walk->event.start_mark), walk->path, "stands here a second time");
    *seen |= 1ull << i;
    *index = i;
    return true;
}

static bool check_all_required(walk_t *walk, const cyaml_schema_field_t *fields, uint64_t seen)
{
    for (size_t i = 0; fields[i].key != NULL; i++) {
        assert(i < 64);
        if ((seen & (1ull << i)) == 0 && (fields[i].value.flags & CYAML_FLAG_OPTIONAL) == 0) {
            path_push(walk, "%s%s", walk->path[0] == '\0' ? "" : ".", fields[i].key);
            return refuse(walk, 0, walk->path, "is required");
        }
    }
    return true;
}

static bool check_mapping(walk_t *walk, const cyaml_schema_value_t *schema)
{
    const cyaml_schema_field_t *fields = schema->mapping.fields;
    size_t length = strlen(walk->path);
    uint64_t seen = 0;

    if (walk->event.type != YAML_MAPPING_START_EVENT)
        return refuse(walk, line_of(&walk->event.start_mark), walk->path, "must hold 'key: value' lines");
    if (!refuse_tag(walk, walk->event.data.mapping_start.tag))
        return false;
    for (;;) {
        size_t index = 0;

        if (!next(walk))
            return false;
        if (walk->event.type == YAML_MAPPING_END_EVENT)
            return check_all_required(walk, fields, seen);
        if (!check_key(walk, fields, &seen, &index) || !next(walk) || !check_value(walk, &fields[index].value))
            return false;
        walk->path[length] = '\0';
    }
}

static bool check_value(walk_t *walk, const cyaml_schema_value_t *schema)
{
    if (walk->wanted != NULL && strcmp(walk->wanted, walk->path) == 0)
        walk->wanted_line = line_of(&walk->event.start_mark);
    switch (schema->type) {
    case CYAML_MAPPING:
        return check_mapping(walk, schema);
    case CYAML_SEQUENCE:
        return check_sequence(walk, schema);
    case CYAML_STRING:
        return check_string(walk, schema);
    case CYAML_ENUM:
        return check_enum(walk, schema);
    default:
        assert(false && "a schema of this project uses no other type");
        return false;
    }
}

static bool check_stream(walk_t *walk, const cyaml_schema_value_t *schema)
{
    if (!next_but_one(walk)) /* past the start of the stream: the start of the document */
        return false;
    if (walk->event.type == YAML_STREAM_END_EVENT)
        return refuse(walk, 0, "", "is empty");
    if (!next(walk) || !check_value(walk, schema) || !next_but_one(walk)) /* past the end of the document */
        return false;
    if (walk->event.type != YAML_STREAM_END_EVENT)
        return refuse(walk, line_of(&walk->event.start_mark), "", "holds a second document");
    return true;
}

static void run(walk_t *walk, const char *text, size_t size, const cyaml_schema_value_t *schema)
{
    walk->status = ZLINK_OK;
    if (!yaml_parser_initialize(&walk->parser)) {
        zlink_refuse(walk->why, "%s: no memory to read it", walk->name);
        walk->status = ZLINK_CAPACITY_EXCEEDED;
        return;
    }
    yaml_parser_set_input_string(&walk->parser, (const unsigned char *)text, size);
    (void)check_stream(walk, schema); /* the answer is in the status */
    if (walk->has_event)
        yaml_event_delete(&walk->event);
    yaml_parser_delete(&walk->parser);
}

zlink_status_t zlink_config_shape_check(const char *text, size_t size, const char *name,
                                        const cyaml_schema_value_t *schema, zlink_refusal_t *why)
{
    walk_t walk = {.name = name, .why = why};

    run(&walk, text, size, schema);
    return walk.status;
}

size_t zlink_config_shape_line(const char *text, size_t size, const cyaml_schema_value_t *schema, const char *path)
{
    walk_t walk = {.name = "", .wanted = path};

    run(&walk, text, size, schema);
    return walk.wanted_line;
}
