#include "server/config/module_file.h"

#include <dlfcn.h>
#include <pb_decode.h>
#include <stdlib.h>

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

zlink_status_t zlink_module_file_open(const char *path, const zlink_module_descriptor_t **descriptor,
                                      zlink_refusal_t *why)
{
    void *handle = open_file(path, why);
    if (!handle)
        return ZLINK_NOT_FOUND;
    *descriptor = dlsym(handle, ZLINK_MODULE_DESCRIPTOR_SYMBOL);
    if (*descriptor && descriptor_fits(path, *descriptor, why))
        return ZLINK_OK;
    if (!*descriptor)
        zlink_refuse(why, "%s: not a zlink module: it has no ZLINK_MODULE", path);
    dlclose(handle);
    return ZLINK_INVALID_OPERATION;
}
