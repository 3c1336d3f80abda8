/* sync.h - a kind of synchronisation by itself: what --sync=NAME means.
 *
 * Ranks in step (bsp) and servers (ssp, async) have options that go with them;
 * any other kind is one const struct in one file and one line of syncs.def. */
#ifndef CT_DIST_SYNC_SYNC_H
#define CT_DIST_SYNC_SYNC_H

#include "base/text.h"
#include "solver/exchange.h"

struct dist_sync_type {
    const char *name;  /* what --sync= takes */
    const char *about; /* a few words for --help */
    const char *does;  /* what --explain says */
    struct ct_exchange_ops ops;
    bool keeps_history; /* it works on the solver's histories */
};

/* NULL: there is none of that name. */
const struct dist_sync_type *dist_sync_find(const char *name);
/* "bsp: ...; ssp: ...; ..."; and the names alone. */
void dist_sync_describe(struct ct_text *out);
void dist_sync_choices(struct ct_text *out);

#endif
