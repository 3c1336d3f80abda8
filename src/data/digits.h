/* digits.h - digits that look written by hand, made up from a seed.
 *
 * No file and no download: image `index` of a set is a pure function of
 * (seed, index).  White ink on black, one byte a pixel, like MNIST. */
#ifndef CT_DATA_DIGITS_H
#define CT_DATA_DIGITS_H

#include <stdint.h>

#include "cortado/status.h"

enum { CT_DIGIT_SIDE = 28, CT_DIGIT_BYTES = CT_DIGIT_SIDE * CT_DIGIT_SIDE };

/* The digit that image `index` shows: 0..9.  Every run of ten images that
 * starts at a multiple of ten has each digit once, in an order of its own. */
int ct_digit_label(uint64_t seed, uint64_t index);

/* Draw `label` (0..9) as image `index`, row by row from the top left. */
void ct_digit_draw(uint64_t seed, uint64_t index, int label,
                          uint8_t out[CT_DIGIT_BYTES]);

#endif
