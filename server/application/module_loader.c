#include "server/application/module_loader.h"

#include <dlfcn.h>
#include <pb_decode.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

/* dlopen searches the library path for a name without a slash; a module is always a file. */
static void *open_file(const char *path, zlink_refusal_t *why)
{
    char *absolute = realpath(path, NULL);
    if (!absolute) {
        zlink_refuse(why, "%s: cannot be opened: %m", path);
        return NULL;
    }
    void *handle = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        zlink_refuse(why, "%s: cannot be loaded: %s", path, dlerror());
    free(absolute);
    return handle;
}

static bool descriptor_fits(const char *path, const zlink_module_descriptor_t *descriptor, zlink_refusal_t *why)
{
    if (descriptor->magic != ZLINK_MODULE_MAGIC)
        zlink_refuse(why, "%s: not a zlink module: its descriptor is damaged", path);
    else if (descriptor->abi_version != ZLINK_MODULE_ABI_VERSION)
        zlink_refuse(why, "%s: built for module ABI %u, this node has ABI %u: build it again", path,
                     descriptor->abi_version, ZLINK_MODULE_ABI_VERSION);
    else if (descriptor->pb_layout != ZLINK_MODULE_PB_LAYOUT)
        zlink_refuse(why, "%s: built with other nanopb options (layout %08x, this node has %08x)", path,
                     descriptor->pb_layout, (unsigned)ZLINK_MODULE_PB_LAYOUT);
    else if (!descriptor->name || !descriptor->body)
        zlink_refuse(why, "%s: not a zlink module: its descriptor names no body", path);
    else
        return true;
    return false;
}

zlink_status_t zlink_module_loader_load(const char *path, zlink_catalogue_t *catalogue, zlink_refusal_t *why)
{
    void *handle = open_file(path, why);
    if (!handle)
        return ZLINK_NOT_FOUND;

    const zlink_module_descriptor_t *descriptor = dlsym(handle, ZLINK_MODULE_DESCRIPTOR_SYMBOL);
    if (!descriptor) {
        zlink_refuse(why, "%s: not a zlink module: it has no ZLINK_MODULE", path);
        goto refused;
    }
    if (!descriptor_fits(path, descriptor, why))
        goto refused;

    zlink_module_t module = {.catalogue = catalogue, .name = descriptor->name};
    size_t before = catalogue->spot_type_count + catalogue->channel_count;
    descriptor->body(&module);
    if (module.status != ZLINK_OK) {
        zlink_refuse(why, "%s: %s", path, module.refusal.line);
        /* Its tables may be in the catalogue already, so it stays loaded; the start ends here anyway. */
        return module.status;
    }
    zlink_log(ZLINK_LOG_INFO, "zlink.module.loaded", ZLINK_LOG_S("module", descriptor->name), ZLINK_LOG_S("file", path),
              ZLINK_LOG_I("types", catalogue->spot_type_count + catalogue->channel_count - before));
    return ZLINK_OK;

refused:
    dlclose(handle);
    return ZLINK_INVALID_OPERATION;
}
