/* impl.h - which implementation of an operation runs.
 *
 * An operation has an ordered list of implementations; the first one that
 * accepts a description does the work, and the reference, last, accepts all.
 * Each pass has an order of its own, fastest first, because what is fast
 * forward may be slow backward.  The environment can force one, to compare or
 * to find a fault:
 *
 *     CORTADO_IMPL=conv:gemm,pool:ref                                      */
#ifndef CT_DEVICE_IMPL_H
#define CT_DEVICE_IMPL_H

#include <stdbool.h>

#include "cortado/status.h"

/* Operations without weights have the first CT_PASSES. */
enum ct_pass { CT_FORWARD, CT_BACKWARD, CT_BACKWARD_WEIGHTS };
enum { CT_PASSES = 2, CT_WEIGHTED_PASSES = 3 };

/* The head of every implementation; its functions follow in a struct of the
 * operation's own.  `op` is the operation's description. */
struct ct_impl {
    const char *name;
    bool (*takes)(const void *op); /* NULL: everything */
    /* Sets *state, which the pass keeps.  CT_ENOTSUP: not this description;
     * the next one may.  destroy() follows in every case.  NULL: no state. */
    enum ct_status (*create)(const void *op, enum ct_pass pass, void **state);
    void (*destroy)(void *state);
    /* Optional: what create() found is slow, so that a place in a list which
     * is for speed passes it by. */
    bool (*slow)(const void *state);
};

/* What runs one pass of an operation, and what it keeps.  Embedded; zeroed is
 * not chosen yet, and fini takes it. */
struct ct_impl_pass {
    const struct ct_impl *impl; /* lives for ever */
    void                 *state;
};

/* One place in a pass's list: `impl`, where `when` holds (NULL: always).  An
 * implementation that is the fastest for some descriptions and possible for
 * more stands there twice: with `when`, which is for speed, and without. */
struct ct_impl_choice {
    const struct ct_impl *impl;
    bool (*when)(const void *op);
};

/* The first of a list, ended by a zeroed choice, that takes `op`. */
CT_MUST_CHECK enum ct_status ct_impl_choose(const char *operation,
                                            const struct ct_impl_choice *list,
                                            const void *op, enum ct_pass pass,
                                            struct ct_impl_pass *out);
/* This one, or CT_ENOTSUP, without an error text. */
CT_MUST_CHECK enum ct_status ct_impl_try(const struct ct_impl *impl,
                                         const void *op, enum ct_pass pass,
                                         struct ct_impl_pass *out);
void ct_impl_fini(struct ct_impl_pass *p);

/* False when the environment asks for another implementation of `operation`
 * than `name`, or for others, with a + between them.  Read when an object is
 * created, not while it runs. */
bool ct_impl_allowed(const char *operation, const char *name);

/* Whether it asks for any at all. */
bool ct_impl_forced(const char *operation);

/* The number that it gives in place of a name; 0: none. */
int ct_impl_number(const char *operation);

/* " (CORTADO_IMPL=...)" for a message that says nothing was left to run, ""
 * when the variable is not set.  Valid until the environment changes. */
const char *ct_impl_hint(void);

#endif
