/* impl.h - which implementation of an operation runs.
 *
 * An operation has an ordered list of implementations; the first one that
 * accepts a description does the work, and the reference, last, accepts all.
 * Each pass has an order of its own, fastest first, because what is fast
 * forward may be slow backward.  The environment can force one, to compare or
 * to find a fault:
 *
 *     CORTADO_IMPL=conv:gemm,pool:ref
 *
 * The same variable switches parts of the engine off (fuse:none).  All its
 * keys and values stand in impl.def; `cortado impl` prints them.           */
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

/* The table of CORTADO_IMPL (impl.def): a row per key, and behind it a row
 * per value. */
enum ct_impl_group {
    CT_IMPL_OPERATIONS,
    CT_IMPL_NETS,
    CT_IMPL_GPUS,
    CT_IMPL_RANKS,
    CT_IMPL_GROUPS
};

struct ct_impl_row {
    const char        *key;     /* NULL: a value of the key above */
    const char        *value;   /* NULL: a key; "N": any number from 1 */
    const char        *meaning; /* of a key: what it decides */
    const char        *usual;   /* of a key: what happens without it */
    enum ct_impl_group group;   /* of a key */
    bool               built;   /* of a value: this build has it */
    bool               allowed; /* of a value: without CORTADO_IMPL */
};

extern const struct ct_impl_row ct_impl_table[];
extern const int ct_impl_n_rows;

/* CT_EINVAL when CORTADO_IMPL has something that the table has not; the text
 * lists what it has.  Whoever reads the variable is called below a function
 * that has checked it: main(), ct_net_create()
 * and ct_device_cuda_open(). */
CT_MUST_CHECK enum ct_status ct_impl_check(void);

/* Whether `value` may be used: CORTADO_IMPL lists it, or does not name its key
 * and the table allows it.  Key and value stand in the table.  Read when an
 * object is created, not while it runs. */
bool ct_impl_allowed(const char *key, const char *value);

/* Whether CORTADO_IMPL names this key; and any key at all. */
bool ct_impl_forced(const char *key);
bool ct_impl_asked(void);

/* The number that it gives in place of a value; 0: none. */
int ct_impl_number(const char *key);

/* "; CORTADO_IMPL forces one" for a message that says nothing was left to run,
 * "" when the variable is not set. */
const char *ct_impl_hint(void);

#endif
