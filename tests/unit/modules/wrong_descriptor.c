/* A module whose descriptor was made by another version; WRONG_... says what is wrong. Its body must never run. */
#include <stdlib.h>

#include <zlink/zlink.h>

__attribute__((unused)) static void body(zlink_module_t *module)
{
    (void)module;
    abort();
}

#ifdef WRONG_MAGIC
#define MAGIC 0x12345678u
#else
#define MAGIC ZLINK_MODULE_MAGIC
#endif
#ifdef WRONG_ABI
#define ABI (ZLINK_MODULE_ABI_VERSION + 6u)
#else
#define ABI ZLINK_MODULE_ABI_VERSION
#endif
#ifdef WRONG_LAYOUT
#define LAYOUT (ZLINK_MODULE_PB_LAYOUT ^ 0x10u)
#else
#define LAYOUT ZLINK_MODULE_PB_LAYOUT
#endif
#ifdef WRONG_BODY
#define BODY ((void (*)(zlink_module_t *))0)
#else
#define BODY body
#endif

ZLINK_API extern const zlink_module_descriptor_t zlink_module_descriptor;
const zlink_module_descriptor_t zlink_module_descriptor = {MAGIC, ABI, LAYOUT, "wrong", BODY};
