/* residuals.h - what wires keep between iterations, into snapshots and back.
 *
 *     wire.residual.R   what rank R holds back, laid out as the arena; with
 *                       groups, what the first rank of group R does
 *     wire.velocity.R   topk: the momentum of it
 *     wire.owner        residuals of sums, each part from its owner
 *     wire.basis        powersgd: Q, in the place of its parameter
 *
 * Resumed on the same number of ranks each takes its own, and training goes
 * on bit for bit.  On another number all take an equal share of the sum, so
 * that nothing held back is lost.  Buckets may change in between. */
#ifndef CT_DIST_CODEC_RESIDUALS_H
#define CT_DIST_CODEC_RESIDUALS_H

#include "solver/exchange.h"

struct ct_dist;

/* What codecs hold back, in memory: as it was when an iteration began that may
 * have to be done again, or what goes over into another view. */
enum { DIST_HELD_KINDS = 4 };
struct dist_held_back {
    float *kept[DIST_HELD_KINDS]; /* laid out as the arena; owned; or NULL */
    bool   pending;               /* this view's wires have yet to get it */
};

CT_MUST_CHECK enum ct_status dist_wires_save(struct ct_dist *d,
                                             const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status dist_wires_restore(struct ct_dist *d,
                                                const struct ct_keep *keep);

/* Takes what this rank's wires hold, and in another view gives it to them: what
 * a rank holds back stays its own, a rank that is new has nothing, and what
 * belongs to sums goes to who owns them now.  All ranks call put. */
CT_MUST_CHECK enum ct_status dist_held_back_take(struct ct_dist *d);
CT_MUST_CHECK enum ct_status dist_held_back_put(struct ct_dist *d);
void dist_held_back_fini(struct ct_dist *d);

#endif
