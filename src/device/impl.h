/* impl.h - which implementation of an operation may run.
 *
 * An operation has an ordered list of implementations; the first one that
 * accepts a description does the work, and the reference, last, accepts all.
 * The environment can force one, to compare or to find a fault:
 *
 *     CORTADO_IMPL=conv:gemm,pool:ref                                      */
#ifndef CT_DEVICE_IMPL_H
#define CT_DEVICE_IMPL_H

#include <stdbool.h>

/* False when the environment asks for another implementation of `operation`
 * than `name`.  Read when an object is created, not while it runs. */
bool ct_impl_allowed(const char *operation, const char *name);

/* " (CORTADO_IMPL=...)" for a message that says nothing was left to run, ""
 * when the variable is not set.  Valid until the environment changes. */
const char *ct_impl_hint(void);

#endif
