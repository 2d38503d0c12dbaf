/*
 * zlink/module.h: an application module: a shared object that zlink-node loads.
 *
 * A module exports one thing, its descriptor, which ZLINK_MODULE makes. The node compares the ABI
 * numbers in it with its own before it runs any code of the module, and calls the body once, at
 * start, on the main thread. What the body registers must be static or live until the process ends.
 */
#ifndef ZLINK_MODULE_H
#define ZLINK_MODULE_H

#include <pb_decode.h>
#include <stdint.h>

#include <zlink/channel.h>
#include <zlink/node_handlers.h>
#include <zlink/spot.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a struct or a macro of include/zlink/ changes its meaning in memory. */
#define ZLINK_MODULE_ABI_VERSION 4u

#define ZLINK_MODULE_MAGIC 0x5a4c4d31u /* "ZLM1" */

/* nanopb's compile-time options change its structs: PB_FIELD_32BIT, PB_BUFFER_ONLY and the like must be
 * the same in the module and in the node. These numbers show a difference. */
#define ZLINK_MODULE_PB_LAYOUT                                                                                         \
    ((uint32_t)PB_PROTO_HEADER_VERSION << 24 | (uint32_t)sizeof(pb_size_t) << 16 |                                     \
     (uint32_t)sizeof(pb_istream_t) << 8 | (uint32_t)sizeof(pb_msgdesc_t))

typedef struct zlink_module zlink_module_t;

typedef struct zlink_module_descriptor {
    uint32_t magic;
    uint32_t abi_version;
    uint32_t pb_layout;
    const char *name;
    void (*body)(zlink_module_t *module);
} zlink_module_descriptor_t;

/* The symbol that the node looks for. */
#define ZLINK_MODULE_DESCRIPTOR_SYMBOL "zlink_module_descriptor"

/* ZLINK_MODULE(counter, module) { zlink_module_add_spot_type(module, &counter_type); } */
#define ZLINK_MODULE(NAME, PARAMETER)                                                                                  \
    static void NAME##_module_body(zlink_module_t *PARAMETER);                                                         \
    ZLINK_API extern const zlink_module_descriptor_t zlink_module_descriptor;                                          \
    const zlink_module_descriptor_t zlink_module_descriptor = {ZLINK_MODULE_MAGIC, ZLINK_MODULE_ABI_VERSION,           \
                                                               ZLINK_MODULE_PB_LAYOUT, #NAME, NAME##_module_body};     \
    static void NAME##_module_body(zlink_module_t *PARAMETER)

/* Register a Spot type, a channel or handlers of the node itself. Only inside the module's body. A bad or duplicate
 * registration is remembered and stops the node's start with one line that names it. */
ZLINK_API void zlink_module_add_spot_type(zlink_module_t *module, const zlink_spot_type_t *type);
ZLINK_API void zlink_module_add_channel(zlink_module_t *module, const zlink_channel_type_t *type);
ZLINK_API void zlink_module_add_node_handlers(zlink_module_t *module, const zlink_node_handlers_t *handlers);

#ifdef __cplusplus
}
#endif

#endif
