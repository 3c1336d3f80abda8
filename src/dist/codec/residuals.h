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

CT_MUST_CHECK enum ct_status dist_wires_save(struct ct_dist *d,
                                             const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status dist_wires_restore(struct ct_dist *d,
                                                const struct ct_keep *keep);

#endif
