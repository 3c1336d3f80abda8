/* exchange.c - what ranks tell each other besides gradients. */
#include "solver/exchange.h"

#include "base/mem.h"

enum ct_status ct_exchange_gather(struct ct_exchange *x, const void *mine,
                                  size_t each, void *out)
{
    size_t *bytes = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)x->size, sizeof(*bytes), "gather", &bytes));
    for (int r = 0; r < x->size; r++)
        bytes[r] = each;
    st = x->gather(x, mine, bytes, out);
    ct_free(bytes);
    return st;
}

enum ct_status ct_exchange_mean(struct ct_exchange *x, double *value)
{
    double *all = NULL, sum = 0;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)x->size, sizeof(*all), "mean", &all));
    st = ct_exchange_gather(x, value, sizeof(*value), all);
    for (int r = 0; r < x->size; r++)
        sum += all[r];
    if (st == CT_OK)
        *value = sum / x->size;
    ct_free(all);
    return st;
}
