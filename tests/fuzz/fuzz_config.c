/*
 * tests/fuzz/fuzz_config.c: libFuzzer target: any bytes are a configuration or refused with one printable line.
 *
 * Also guards the claim that nothing is left for libcyaml to refuse once the shape has been checked: that would
 * show as "no memory".
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zlink_config_t *config = NULL;
    zlink_refusal_t why = {{0}};

    switch (zlink_config_parse((const char *)data, size, "folder/fuzz.yaml", &config, &why)) {
    case ZLINK_OK:
        if (config->mesh == NULL || config->name == NULL || config->limits.message_bytes == 0 ||
            (config->transport == ZLINK_CONFIG_TLS) != (config->tls.key != NULL))
            abort();
        zlink_config_free(config);
        break;
    case ZLINK_NOT_CONFIGURED:
        if (config != NULL || strncmp(why.line, "folder/fuzz.yaml", 16) != 0 || strchr(why.line, '\n') != NULL)
            abort();
        break;
    default:
        abort();
    }
    return 0;
}
