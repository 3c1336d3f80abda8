/* batch.c - batch sizes that are the whole job's, divided among ranks.
 *
 * With `batch: global` the batch_size of the prototxt is what all ranks take
 * in an iteration.  Rank r gets b_r of it, the first ones one more where it
 * does not divide evenly, and its loss is weighted with b_r P / B, so that the
 * mean over ranks is the one over samples.  In canonical training every one
 * of the V micro-batches gets B / V. */
#include <string.h>

#include "base/mem.h"
#include "data/order.h"
#include "proto/edit.h"
#include "solver/solver.h"

static enum ct_status whole_batch(const Caffe__NetParameter *net, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < net->n_layer; i++) {
        uint32_t *size = ct_batch_size(net->layer[i]);

        if (!size)
            continue;
        if (*out && *out != (int64_t)*size)
            return ct_fail(CT_EINVAL, "batch: global needs one batch_size; "
                           "layer %s has %u, another %lld",
                           net->layer[i]->name, *size, (long long)*out);
        *out = (int64_t)*size;
    }
    return *out ? CT_OK
                : ct_fail(CT_EINVAL, "batch: global finds no batch_size to "
                          "divide");
}

enum ct_status solver_divide_batch(const struct ct_exchange *x,
                                   Caffe__NetParameter *net,
                                   struct ct_net_options *o)
{
    const int n = x->micro ? x->micro * x->size : x->size;
    int64_t whole, mine, rest;

    if (!x->global_batch)
        return CT_OK;
    CT_TRY(whole_batch(net, &whole));
    mine = whole / n;
    rest = whole % n;
    if (mine == 0 || (x->micro && rest))
        return ct_fail(CT_EINVAL, "a batch of %lld cannot be divided by %d%s",
                       (long long)whole, n,
                       x->micro ? " micro-batches evenly" : " ranks");
    if (!x->micro && rest) {
        o->batch_step  = whole;
        o->batch_first = x->rank * mine + (x->rank < rest ? x->rank : rest);
        mine += x->rank < rest;
        o->batch_mine = mine;
        o->loss_scale = (float)((double)mine * n / (double)whole);
    }
    for (size_t i = 0; i < net->n_layer; i++) {
        uint32_t *size = ct_batch_size(net->layer[i]);

        if (size)
            *size = (uint32_t)mine;
    }
    return CT_OK;
}

static char **source_of(Caffe__LayerParameter *l)
{
    if (l->data_param && strcmp(l->type, "Data") == 0)
        return l->data_param->mode == CAFFE__DATA_PARAMETER__MODE__LOCAL
                   ? NULL /* it does so by itself */
                   : &l->data_param->source;
    if (l->image_data_param && strcmp(l->type, "ImageData") == 0)
        return &l->image_data_param->source;
    if (l->hdf5_data_param && strcmp(l->type, "HDF5Data") == 0)
        return &l->hdf5_data_param->source;
    if (l->window_data_param && strcmp(l->type, "WindowData") == 0)
        return &l->window_data_param->source;
    return NULL;
}

enum ct_status solver_place_data(const struct ct_exchange *x,
                                 Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layer; i++) {
        Caffe__LayerParameter *l = net->layer[i];
        char **source            = source_of(l), *own = NULL;
        enum ct_status st;

        if (x->root_data && source && strcmp(l->type, "Data") != 0)
            return ct_fail(CT_EINVAL, "layer %s: data: root sends the records "
                           "of Data layers; type %s reads by itself: use "
                           "shared or local", l->name, l->type);
        if (!x->own_data || !source || !*source)
            continue;
        CT_TRY(ct_order_source(CT_DATA_LOCAL, *source, x->rank, &own));
        st = ct_edit_string(source, own);
        ct_free(own);
        CT_TRY(st);
    }
    return CT_OK;
}
