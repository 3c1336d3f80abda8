/* sync.h - a kind of synchronisation by itself: what --sync=NAME means.
 *
 * Ranks in step (bsp) and servers (ssp, async) have options that go with them;
 * any other kind is one const struct in one file and one line of syncs.def.
 * What a kind keeps, which options it takes and what is said of it stand there,
 * too: nobody else knows. */
#ifndef CT_DIST_SYNC_SYNC_H
#define CT_DIST_SYNC_SYNC_H

#include "base/text.h"
#include "cortado/proto.h"
#include "solver/exchange.h"

struct dist_sync_type {
    const char *name;  /* what --sync= takes */
    const char *about; /* a few words for --help */
    const char *does;  /* what it does, for whoever watches */
    struct ct_exchange_ops ops;
    bool keeps_history; /* it works on the solver's histories */
    /* What a rank keeps as long as it trains, ct_dist.sync_state; zeros at
     * first. */
    size_t state_bytes;
    /* Those that follow may be NULL. */

    /* Are its options sound?  Asked whatever --sync says.  `value` stands
     * behind a colon, as in --sync=NAME:VALUE; NULL: there is none, or this is
     * not the kind that was chosen.  A kind without this takes no value. */
    enum ct_status (*check)(const Caffe__DistributedParameter *o,
                            const char *value);
    /* What it does with these options, in a sentence; else `does` says so. */
    void (*describe)(const Caffe__DistributedParameter *o,
                     struct ct_text *out);
    /* As struct ct_job_ops has it; else no iteration counts. */
    int (*counts)(struct ct_exchange *x);
};

/* The kind that the word of --sync names, NAME or NAME:VALUE; NULL: there is
 * none. */
const struct dist_sync_type *dist_sync_find(const char *word);
/* Its VALUE; NULL: it has none. */
const char *dist_sync_value(const char *word);
/* The options of all kinds by themselves. */
CT_MUST_CHECK enum ct_status dist_sync_check(
    const Caffe__DistributedParameter *o);
/* What a kind does in this job. */
void dist_sync_describe(const struct dist_sync_type *t,
                        const Caffe__DistributedParameter *o,
                        struct ct_text *out);
/* "bsp: ...; ssp: ...; ..."; and the names alone. */
void dist_sync_list(struct ct_text *out);
void dist_sync_choices(struct ct_text *out);

#endif
