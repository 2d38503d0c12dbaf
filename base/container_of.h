/*
 * base/container_of.h: from an intrusive member back to the struct that holds it.
 */
#ifndef ZLINK_BASE_CONTAINER_OF_H
#define ZLINK_BASE_CONTAINER_OF_H

#include <stddef.h>

#define ZLINK_CONTAINER_OF(POINTER, TYPE, MEMBER) ((TYPE *)(void *)((char *)(POINTER)-offsetof(TYPE, MEMBER)))

#endif
