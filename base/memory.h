/*
 * base/memory.h: the one door to the heap, so that tests can make the n-th allocation fail.
 *
 * The functions behave like malloc, calloc, realloc, strdup and free, which in a process of ours are mimalloc's, where
 * it was not built with a sanitizer (ZLINK_ALLOCATOR in cmake/ZlinkCompiler.cmake). In every build the fault counter
 * costs one relaxed load. zlink_memory_fail_after(n) makes the n-th allocation from now (0 = the next) in any thread
 * return NULL, once; a negative number turns that off. Only tests call it.
 */
#ifndef ZLINK_BASE_MEMORY_H
#define ZLINK_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *zlink_malloc(size_t size) __attribute__((malloc, warn_unused_result));
void *zlink_calloc(size_t count, size_t size) __attribute__((malloc, warn_unused_result));
void *zlink_realloc(void *pointer, size_t size) __attribute__((warn_unused_result));
char *zlink_strdup(const char *string) __attribute__((malloc, warn_unused_result));
void zlink_free(void *pointer);

void zlink_memory_fail_after(int64_t allocations);

/* What the blocks that this thread has allocated, and others have not freed yet, take of the heap, the allocator's own
 * share of each with it. 0 where the allocator cannot say. Slow: for measuring. */
size_t zlink_memory_bytes_in_use(void);

#endif
