/* exchange.c - what ranks tell each other besides gradients. */
#include "solver/exchange.h"

#include "base/mem.h"

enum ct_status ct_exchange_gather(struct ct_exchange *x, const void *mine,
                                  size_t each, void *out)
{
    size_t *bytes = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)x->facts.size, sizeof(*bytes), "gather", &bytes));
    for (int r = 0; r < x->facts.size; r++)
        bytes[r] = each;
    st = x->job->gather(x, mine, bytes, out);
    ct_free(bytes);
    return st;
}

enum ct_status ct_exchange_mean(struct ct_exchange *x, double *value)
{
    double *all = NULL, sum = 0;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)x->facts.size, sizeof(*all), "mean", &all));
    st = ct_exchange_gather(x, value, sizeof(*value), all);
    for (int r = 0; r < x->facts.size; r++)
        sum += all[r];
    if (st == CT_OK)
        *value = sum / x->facts.size;
    ct_free(all);
    return st;
}

struct ct_answer ct_answer_of(const struct ct_exchange *x, const float *rider)
{
    return (struct ct_answer){
        .loss     = (double)rider[CT_RIDER_LOSS] * x->facts.loss_scale,
        .snapshot = rider[CT_RIDER_SNAPSHOT] > 0,
        .trace    = rider[CT_RIDER_TRACE] > 0,
        .stop     = rider[CT_RIDER_STOP] > 0,
    };
}
