/* deal.c - which batches are this rank's. */
#include "layers/deal.h"

static bool deals(const struct ct_layer *l)
{
    return l->run->size > 1 &&
           (l->phase == CAFFE__PHASE__TRAIN || l->run->deal_tests);
}

static bool uneven(const struct ct_layer *l)
{
    return l->run->batch_step > 0 && l->phase == CAFFE__PHASE__TRAIN;
}

static int64_t share_of(const struct ct_run *run)
{
    return run->share > 0 ? run->share : 1;
}

uint64_t ct_deal_batch(const struct ct_layer *l)
{
    const struct ct_run *run = l->run;
    const uint64_t m         = (uint64_t)share_of(run);

    if (!deals(l))
        return run->pass;
    return run->pass / m * m * (uint64_t)run->size + (uint64_t)run->rank * m +
           run->pass % m;
}

uint64_t ct_deal_row(const struct ct_layer *l, int64_t rows)
{
    const struct ct_run *run = l->run;

    if (uneven(l) && rows % run->batch_mine == 0)
        return (run->pass * (uint64_t)run->batch_step +
                (uint64_t)run->batch_first) *
               (uint64_t)(rows / run->batch_mine);
    return ct_deal_batch(l) * (uint64_t)rows;
}

struct ct_shard ct_deal_shard(const struct ct_layer *l, int64_t batch)
{
    const struct ct_run *run = l->run;

    if (uneven(l) && batch == run->batch_mine)
        return (struct ct_shard){ run->batch_step, run->batch_first, batch,
                                  1 };
    return deals(l) ? ct_shard_even(l->run->rank, l->run->size, batch,
                                    share_of(l->run))
                    : ct_shard_even(0, 1, batch, 1);
}
