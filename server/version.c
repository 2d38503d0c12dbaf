#include <zlink/node.h>

const char *zlink_version(void)
{
    return ZLINK_VERSION;
}
