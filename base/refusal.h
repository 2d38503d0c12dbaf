/*
 * base/refusal.h: one line that says which thing was refused and why, for the person who has to mend it.
 *
 * A function that can refuse input (a file, a setting, an address, a ring) takes a zlink_refusal_t and writes the
 * line there; whoever talks to the user prints it. Too long a line is cut. NULL is allowed and means "do not tell".
 */
#ifndef ZLINK_BASE_REFUSAL_H
#define ZLINK_BASE_REFUSAL_H

typedef struct zlink_refusal {
    char line[512];
} zlink_refusal_t;

/* Writes the line, control bytes replaced by '?'. */
void zlink_refuse(zlink_refusal_t *refusal, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts words in front of a line that was written already, usually where the trouble is: "node.yaml: listen: ". */
void zlink_refusal_prefix(zlink_refusal_t *refusal, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
