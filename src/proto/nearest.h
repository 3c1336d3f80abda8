/* nearest.h - "did you mean ...?" */
#ifndef CT_PROTO_NEAREST_H
#define CT_PROTO_NEAREST_H

#include <stddef.h>

/* Start with ct_nearest(), try every known word, then read `best`: the known
 * word with the fewest typing errors, or NULL when none comes close. */
struct ct_nearest {
    const char *word, *best; /* borrowed */
    size_t n_bytes, best_bytes;
    int distance; /* only words below this are closer */
};

struct ct_nearest ct_nearest(const char *word, size_t n_bytes);
void ct_nearest_try(struct ct_nearest *n, const char *known, size_t n_bytes);

#endif
