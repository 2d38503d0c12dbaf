/*
 * no_module.c: a shared object that is no module.
 */
#include <zlink/status.h>

ZLINK_API int zlink_mesh_test_nothing(void);

int zlink_mesh_test_nothing(void)
{
    return 0;
}
