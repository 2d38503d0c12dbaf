/*
 * ctl/protoc.h: text to bytes and back through the protobuf compiler, so that a person can type a message.
 */
#ifndef ZLINK_CTL_PROTOC_H
#define ZLINK_CTL_PROTOC_H

#include <stddef.h>
#include <stdint.h>

#include <zlink/status.h>

#include "base/refusal.h"

#define ZLINK_PROTOC_OUTPUT_MAX ((size_t)64 << 20)

/* Runs `protoc MODE=MESSAGE PROTO` (MODE "--encode" or "--decode") with `input` and answers its output, NUL-terminated;
 * free() it. On failure the line holds protoc's own words. */
zlink_status_t zlink_protoc_run(const char *mode, const char *message, const char *proto, const void *input,
                                size_t input_bytes, uint8_t **output, size_t *output_bytes, zlink_refusal_t *why);

#endif
