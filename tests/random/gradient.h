/* gradient.h - the plainest way against definitions in double precision. */
#ifndef CT_TESTS_RANDOM_GRADIENT_H
#define CT_TESTS_RANDOM_GRADIENT_H

#include "random_draw.h"

/* One pass of the case's train net in the plainest way: every top must be
 * what its layer's definition makes of what the layer was given, and the
 * gradient of a sample of every parameter must be the central difference of
 * the loss that the definitions give.  False: `why` says where not. */
bool gradient_holds(const struct drawn *c, char *why, size_t size);

#endif
