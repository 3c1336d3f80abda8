/* text.h - a growing string, for everything that is written as text. */
#ifndef CT_BASE_TEXT_H
#define CT_BASE_TEXT_H

#include <stddef.h>

#include "cortado/status.h"

/* Embedded; zero-initialised is empty.  A failed append sets `failed` and
 * later appends do nothing, so a writer checks once, at the end. */
struct ct_text {
    char  *s; /* always terminated when not NULL */
    size_t n_bytes, capacity;
    int    failed;
};

void ct_text_add(struct ct_text *t, const char *s);
void ct_text_add_bytes(struct ct_text *t, const void *s, size_t n);
CT_PRINTF(2, 3) void ct_text_addf(struct ct_text *t, const char *fmt, ...);
/* Adds the words of a list: "a", "a or b", "a, b or c". */
void ct_text_add_choices(struct ct_text *t, const char *const *words, int n);
void ct_text_fini(struct ct_text *t);

#endif
