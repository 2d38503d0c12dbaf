/*
 * old_abi.c: a module of another ABI, as one that was built against other headers. Nothing of it may run.
 */
#include <stdlib.h>

#include <zlink/zlink.h>

static void body(zlink_module_t *module)
{
    (void)module;
    abort();
}

ZLINK_API extern const zlink_module_descriptor_t zlink_module_descriptor;
const zlink_module_descriptor_t zlink_module_descriptor = {ZLINK_MODULE_MAGIC, ZLINK_MODULE_ABI_VERSION + 1,
                                                           ZLINK_MODULE_PB_LAYOUT, "old_abi", body};
