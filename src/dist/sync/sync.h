/* sync.h - kinds of synchronisation besides bsp and servers, by --sync=NAME.
 *
 * A kind is one const struct in one file and one line of syncs.def.  Its state,
 * its options and its description are part of that struct; no other code knows
 * them. */
#ifndef CT_DIST_SYNC_SYNC_H
#define CT_DIST_SYNC_SYNC_H

#include "base/text.h"
#include "cortado/proto.h"
#include "solver/exchange.h"

struct dist_sync_type {
    const char *name;  /* what --sync= takes */
    const char *about; /* a few words for --help */
    const char *does;  /* what it does, for monitoring */
    struct ct_exchange_ops ops;
    bool keeps_history; /* it changes the solver's histories */
    /* Size of the state that a rank keeps during training (ct_dist.sync_state),
     * zeroed at first. */
    size_t state_bytes;
    /* The functions below may be NULL. */

    /* Checks its options, whatever --sync says.  `value` is the text after the
     * colon, as in --sync=NAME:VALUE; NULL: there is none, or another kind was
     * chosen.  A kind without this function takes no value. */
    enum ct_status (*check)(const Caffe__DistributedParameter *o,
                            const char *value);
    /* Describes in a sentence what it does with these options.  NULL: `does` is
     * used. */
    void (*describe)(const Caffe__DistributedParameter *o,
                     struct ct_text *out);
    /* See struct ct_job_ops.  NULL: no iteration counts. */
    int (*counts)(struct ct_exchange *x);
};

/* The kind of a --sync word, NAME or NAME:VALUE; NULL: unknown. */
const struct dist_sync_type *dist_sync_find(const char *word);
/* The VALUE of a --sync word; NULL: none. */
const char *dist_sync_value(const char *word);
/* Checks the options of all kinds. */
CT_MUST_CHECK enum ct_status dist_sync_check(
    const Caffe__DistributedParameter *o);
/* Describes what a kind does in this job. */
void dist_sync_describe(const struct dist_sync_type *t,
                        const Caffe__DistributedParameter *o,
                        struct ct_text *out);
/* "bsp: ...; ssp: ...; ..."; only the names. */
void dist_sync_list(struct ct_text *out);
void dist_sync_choices(struct ct_text *out);

#endif
