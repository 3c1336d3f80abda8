/* residuals.h - saves and restores what codecs keep between iterations.
 *
 *     wire.residual.R   what rank R holds back, laid out as the arena; with
 *                       groups, what the first rank of group R does
 *     wire.velocity.R   topk: the momentum of it
 *     wire.owner        residuals of sums, each part from its owner
 *     wire.basis        powersgd: Q, in the place of its parameter
 *
 * On the same number of ranks each rank gets its own values back, and training
 * continues bit for bit.  On another number each rank gets an equal share of
 * the sum, so nothing is lost.  Buckets may differ from those that were
 * saved. */
#ifndef CT_DIST_CODEC_RESIDUALS_H
#define CT_DIST_CODEC_RESIDUALS_H

#include "solver/exchange.h"

struct ct_dist;

/* A copy of what codecs hold back: from the start of an iteration that may have
 * to be repeated, or from the previous view. */
enum { DIST_HELD_KINDS = 4 };
struct dist_held_back {
    float *kept[DIST_HELD_KINDS]; /* laid out as the arena; owned; or NULL */
    bool   pending;               /* the wires of this view do not have it
                                   * yet */
};

CT_MUST_CHECK enum ct_status dist_wires_save(struct ct_dist *d,
                                             const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status dist_wires_restore(struct ct_dist *d,
                                                const struct ct_keep *keep);

/* take: copies what this rank's wires hold back. put: gives it to the wires of
 * another view; all ranks call it.  A rank keeps its own values, a new rank has
 * none, and residuals of sums go to their new owners. */
CT_MUST_CHECK enum ct_status dist_held_back_take(struct ct_dist *d);
CT_MUST_CHECK enum ct_status dist_held_back_put(struct ct_dist *d);
void dist_held_back_fini(struct ct_dist *d);

#endif
