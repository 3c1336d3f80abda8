/* sums.c - servers add gradients up, and every rank updates. */
#include "dist/codec/residuals.h"
#include "dist/engine.h"
#include "dist/nothing.h"

static enum ct_status sum_wait(struct ct_exchange *x, int param,
                               const float **sum)
{
    struct ct_dist *d            = dist_of(x);
    const struct ct_net_param *p = ct_net_param(d->net, param);
    const struct ct_ps_table *t  = &d->ps.table;
    size_t end                   = p->offset + (size_t)p->blob->count;

    *sum = ct_diff(p->blob);
    for (int i = 0; i < t->n; i++)
        if (t->slice[i].first < end &&
            t->slice[i].first + t->slice[i].n > p->offset)
            CT_TRY(dist_ps_await(d, i, d->ps.clock + 1));
    return CT_OK;
}

static enum ct_status sum_finish(struct ct_exchange *x, struct ct_answer *out)
{
    struct ct_dist *d = dist_of(x);

    d->under_way = false;
    CT_TRY(dist_ps_await(d, 0, d->ps.clock + 1));
    *out = ct_answer_of(x, dist_diff(d, d->net));
    return CT_OK;
}

static enum ct_status sum_updated(struct ct_exchange *x, int iter, float rate)
{
    (void)iter, (void)rate;
    dist_of(x)->ps.clock++;
    return CT_OK;
}

static enum ct_status sum_settle(struct ct_exchange *x, int iter,
                                 enum ct_settle why)
{
    struct ct_dist *d = dist_of(x);

    if (why == CT_SETTLE_CHECK)
        return dist_guard_check(d, iter);
    d->ps.ended |= why == CT_SETTLE_END;
    return d->view.serves || why == CT_SETTLE_END || why == CT_SETTLE_WRITTEN
               ? CT_OK
               : dist_settle_statistics(d);
}

static enum ct_status sum_keep(struct ct_exchange *x,
                               const struct ct_keep *keep)
{
    return keep->put ? dist_wires_save(dist_of(x), keep)
                     : dist_wires_restore(dist_of(x), keep);
}

const struct ct_exchange_ops dist_servers_sum = {
    .name       = "servers that add up",
    .attach     = dist_ps_attach,
    .detach     = dist_ps_detach,
    .fetch      = dist_none,
    .begin      = dist_ps_begin,
    .fold       = dist_ps_fold,
    .queued     = dist_none,
    .layer_done = dist_ps_layer_done,
    .finish     = sum_finish,
    .ready      = dist_always_ready,
    .wait       = sum_wait,
    .updated    = sum_updated,
    .settle     = sum_settle,
    .keep       = sum_keep,
    .serve      = dist_ps_serve,
};
