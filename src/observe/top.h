/* top.h - a run folder as a table of ranks, for a terminal. */
#ifndef CT_OBSERVE_TOP_H
#define CT_OBSERVE_TOP_H

#include <stdbool.h>

#include "base/text.h"

/* Adds the run's state and up to `most` rows, one per rank: all by their
 * number, or, where there are more, those first that the others wait for.
 * `now` is the time since 1970.  *running: the run goes on. */
CT_MUST_CHECK enum ct_status ct_top(const char *folder, int most, double now,
                                    struct ct_text *out, bool *running);

#endif
