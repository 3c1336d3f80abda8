/* deal.h - which batches are this rank's, and what its random draws are keyed
 * by.
 *
 * Batches are numbered over all ranks, in the order of the data.  A step deals
 * out the next P m of them, each rank takes m in a row (ct_run.share):
 *
 *     pass p of rank r has batch  (p / m) P m  +  r m  +  p mod m
 *
 * In the TEST phase every rank has all of them, unless ct_run.deal_tests. */
#ifndef CT_LAYERS_DEAL_H
#define CT_LAYERS_DEAL_H

#include "cortado/layer.h"
#include "data/order.h"

/* The number of this pass's batch. */
uint64_t ct_deal_batch(const struct ct_layer *l);
/* The number, over all ranks and passes, of the first of this pass's `rows`
 * rows: what draws for samples are keyed by, so that they do not depend on
 * the ranks. */
uint64_t ct_deal_row(const struct ct_layer *l, int64_t rows);
/* Where a source with this batch size reads. */
struct ct_shard ct_deal_shard(const struct ct_layer *l, int64_t batch);

#endif
