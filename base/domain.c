#include "base/domain.h"

_Thread_local zlink_domain_t zlink_domain_of_thread = ZLINK_DOMAIN_NONE;
