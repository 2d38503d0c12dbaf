/*
 * base/hash.h: uthash with this project's allocator, and without exit() when memory is short.
 *
 * A file that adds to a table defines what a failed HASH_ADD does to the element, before its first use:
 *   #undef uthash_nonfatal_oom
 *   #define uthash_nonfatal_oom(element) ((element)->added = false)
 */
#ifndef ZLINK_BASE_HASH_H
#define ZLINK_BASE_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/memory.h"

#undef uthash_malloc
#undef uthash_free
#define uthash_malloc(SIZE)        zlink_malloc(SIZE)
#define uthash_free(POINTER, SIZE) zlink_free(POINTER)

#endif
