/* types.h - whether every type of layer is drawn. */
#ifndef CT_TESTS_RANDOM_TYPES_H
#define CT_TESTS_RANDOM_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* Draws nets from `seed` on, at most `count`, until every type that is there
 * has been drawn, but for those of a short list that says why not.  `print`:
 * draws all of them and says how often each type came.  Returns 1 where a type
 * is missing or should not be in the list. */
int check_types(uint64_t seed, double count, bool print);

#endif
