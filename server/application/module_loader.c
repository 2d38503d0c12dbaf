#include "server/application/module_loader.h"

#include "base/log.h"
#include "server/config/module_file.h"

zlink_status_t zlink_module_loader_load(const char *path, zlink_catalogue_t *catalogue, zlink_refusal_t *why)
{
    const zlink_module_descriptor_t *descriptor = NULL;
    zlink_status_t status = zlink_module_file_open(path, &descriptor, why);
    if (status != ZLINK_OK)
        return status;

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
}
