/* shrink.h - a failing case as small as it can be and still fail. */
#ifndef CT_TESTS_RANDOM_SHRINK_H
#define CT_TESTS_RANDOM_SHRINK_H

#include "judge.h"

/* Whether the case still fails; it may also fail in another way, as long as
 * it is one that counts. */
typedef bool (*shrink_fn)(const struct drawn *c, void *arg);

/* Changes c->solver in place, for at most `seconds`. */
void shrink(struct drawn *c, shrink_fn fails, void *arg, double seconds);

#endif
