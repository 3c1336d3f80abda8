/* deal.c - which batches are this rank's. */
#include "layers/deal.h"

const struct ct_dealing *ct_dealing_of(const struct ct_run *run)
{
    static const struct ct_dealing none = { 0 };

    return run->dealing ? run->dealing : &none;
}

static bool deals(const struct ct_layer *l)
{
    return l->run->size > 1 &&
           (l->phase == CAFFE__PHASE__TRAIN || l->run->deal_tests);
}

static bool own_data(const struct ct_layer *l)
{
    return l->run->own_data && l->phase == CAFFE__PHASE__TRAIN;
}

static bool uneven(const struct ct_layer *l)
{
    return ct_dealing_of(l->run)->batch_step > 0 &&
           l->phase == CAFFE__PHASE__TRAIN;
}

struct ct_deal ct_deal_of(const struct ct_layer *l)
{
    const struct ct_run *run         = l->run;
    const struct ct_dealing *dealing = ct_dealing_of(run);
    struct ct_deal d                 = { .share = 1, .all = 1 };

    if (deals(l) && run->share > 0) {
        d.share = (uint64_t)run->share;
        d.all   = (uint64_t)dealing->share_all;
        d.from  = (uint64_t)dealing->share_first;
    } else if (deals(l)) {
        d.all  = (uint64_t)run->size;
        d.from = (uint64_t)run->rank;
    }
    if (uneven(l)) {
        d.mine  = (uint64_t)dealing->batch_mine;
        d.first = (uint64_t)dealing->batch_first;
        d.step  = (uint64_t)dealing->batch_step;
    }
    return d;
}

uint64_t ct_deal_batch(const struct ct_layer *l)
{
    return ct_deal_number(ct_deal_of(l), l->run->pass);
}

uint64_t ct_deal_row(const struct ct_layer *l, int64_t rows)
{
    return ct_deal_number_row(ct_deal_of(l), l->run->pass, (uint64_t)rows);
}

struct ct_shard ct_deal_shard(const struct ct_layer *l, int64_t batch)
{
    const struct ct_run *run         = l->run;
    const struct ct_dealing *dealing = ct_dealing_of(run);

    if (uneven(l) && batch == dealing->batch_mine && !own_data(l))
        return (struct ct_shard){ .step  = dealing->batch_step,
                                  .first = dealing->batch_first,
                                  .count = batch, .share = 1 };
    if (!deals(l) || own_data(l))
        return ct_shard_even(0, 1, batch, 1);
    return run->share > 0
               ? (struct ct_shard){ .step  = dealing->share_all * batch,
                                    .first = dealing->share_first * batch,
                                    .count = batch, .share = run->share }
               : ct_shard_even(run->rank, run->size, batch, 1);
}

int64_t ct_deal_skew(const struct ct_layer *l, const struct ct_shard *s)
{
    const struct ct_dealing *dealing = ct_dealing_of(l->run);
    int64_t whole, rest;

    if (l->phase != CAFFE__PHASE__TRAIN || dealing->skew == 0 ||
        dealing->skew_step <= 0)
        return 0;
    /* skew * step / skew_step, which may not fit before the division. */
    whole = dealing->skew / dealing->skew_step;
    rest  = dealing->skew % dealing->skew_step;
    return whole * s->step + rest * s->step / dealing->skew_step;
}
