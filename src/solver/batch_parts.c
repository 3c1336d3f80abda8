/* batch_parts.c - the samples of a rank: how many, and from which source.
 *
 * All P ranks together take B samples per pass.  With `batch: global` B is the
 * batch_size of the prototxt, otherwise P times that.  Rank r takes b_r of them
 * (shares.c).  If these differ, the loss of rank r is multiplied by b_r P / B,
 * so that the mean over ranks is the mean over samples.  In canonical training
 * each of the V micro-batches has B / V samples. */
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/order.h"
#include "proto/batch_size.h"
#include "proto/edit.h"
#include "proto/params.h"
#include "solver/solver_inner.h"

/* The batch_size of all sources.  `net` has only the layers that are
 * trained. */
static enum ct_status batch_of(const Caffe__NetParameter *net, int64_t *out)
{
    *out = ct_batch_of(net);
    for (size_t i = 0; i < net->n_layer; i++) {
        const uint32_t *size = ct_batch_size(net->layer[i]);

        if (size && *size > 0 && *out != (int64_t)*size)
            return ct_fail(CT_EINVAL, "a batch that is divided among ranks "
                           "needs one batch_size; layer %s has %u, another "
                           "%lld", net->layer[i]->name, *size,
                           (long long)*out);
    }
    return *out ? CT_OK
                : ct_fail(CT_EINVAL, "finds no batch_size to divide among "
                          "ranks");
}

/* A Python layer without bottoms reads samples, and only the layer knows how
 * many. */
static enum ct_status check_python(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];

        if (strcmp(l->type, "Python") == 0 && l->n_bottom == 0 &&
            !(l->data_param && l->data_param->has_batch_size))
            return ct_fail(CT_EINVAL, "layer %s: a batch that is divided among "
                           "ranks has to be known: write data_param { "
                           "batch_size: N } into this Python layer, 0 if it "
                           "brings in no samples, and let the class use "
                           "self.batch_size, a rank's part", l->name);
    }
    return CT_OK;
}

static enum ct_status divide_evenly(int64_t whole, int n, int64_t *out)
{
    *out = whole / n;
    return whole % n == 0 && whole > 0
               ? CT_OK
               : ct_fail(CT_EINVAL, "a batch of %lld cannot be divided by %d "
                         "micro-batches evenly", (long long)whole, n);
}

enum ct_status solver_divide_batch(struct ct_solver *s,
                                   Caffe__NetParameter *net,
                                   struct ct_net_training *t)
{
    struct ct_exchange *x = s->options.exchange;
    /* A rank that serves builds the same net and reads no samples. */
    const int rank = x->facts.rank < x->facts.size ? x->facts.rank : 0;
    int64_t each, whole, mine;

    if (!x->facts.global_batch && !solver_has_shares(s))
        return CT_OK;
    CT_TRY(check_python(net));
    CT_TRY(batch_of(net, &each));
    whole = x->facts.global_batch ? each : each * x->facts.size;
    if (x->facts.parts) {
        CT_TRY(divide_evenly(whole, x->facts.parts, &mine));
    } else {
        CT_TRY(solver_deal_shares(s, whole));
        mine = s->shares.batches[rank];
    }
    if (s->shares.dealt && rank == x->facts.rank) {
        t->dealing.batch_step = whole;
        t->dealing.batch_mine = mine;
        for (int r = 0; r < rank; r++)
            t->dealing.batch_first += s->shares.dealt[r];
        t->loss_scale = (float)solver_weight(s);
    }
    ct_batch_set(net, each, mine);
    return CT_OK;
}

/* The first source of the train net: samples per pass of this rank, and records
 * in an epoch; 0: unknown. */
static void look_at_source(const struct ct_net *net, int64_t *batch,
                           int64_t *records)
{
    *batch = *records = 0;
    for (int i = 0; i < ct_net_n_layers(net) && *batch == 0; i++) {
        const struct ct_layer *l = ct_net_layer(net, i);
        const struct ct_io io    = ct_net_io(net, i);

        if (!(l->type->flags & CT_LAYER_SOURCE) || !io.n_top ||
            !io.top[0]->shape.n_axes)
            continue;
        *batch   = io.top[0]->shape.dim[0];
        *records = l->type->records ? l->type->records(l) : 0;
    }
}

void solver_count_samples(const struct ct_solver *s, int64_t *mine,
                          int64_t *all)
{
    const struct ct_exchange *x = s->options.exchange;
    const int iter_size         = s->param->iter_size;
    int64_t records;

    look_at_source(s->net, mine, &records);
    if (x && x->facts.parts) {
        *all = *mine * x->facts.parts;
        *mine *= x->facts.micro;
        return;
    }
    *mine *= iter_size;
    *all = *mine * (x ? x->facts.size : 1);
    for (int r = 0; x && s->shares.dealt && r < x->facts.size; r++)
        *all = (r ? *all : 0) + s->shares.dealt[r] * iter_size;
}

/* Why a layer's loss is a sum over samples and not a mean; NULL: it is a
 * mean. */
static const char *sum_of(const struct ct_layer *l)
{
    const Caffe__LossParameter *loss = l->param->loss_param;

    if (strcmp(l->type->name, "Reduction") == 0)
        return ct_reduction_param(l->param)->operation !=
                       CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN
                   ? "its operation is not MEAN"
                   : NULL;
    return loss && loss->has_normalization &&
                   loss->normalization ==
                       CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__NONE
               ? "its normalization is NONE"
               : NULL;
}

void solver_warn_of_sums(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    if (!x || x->facts.size < 2 || x->facts.rank != 0)
        return;
    for (int i = 0; i < ct_net_n_layers(s->net); i++) {
        const struct ct_layer *l = ct_net_layer(s->net, i);
        const struct ct_io io    = ct_net_io(s->net, i);
        bool weighs              = false;

        for (int k = 0; k < io.n_top; k++)
            weighs |= ct_net_blob_loss_weight(
                          s->net, ct_net_top_id(s->net, i, k)) != 0;
        if (weighs && sum_of(l))
            CT_WARN("The loss of layer %s is a sum over samples (%s), and %d "
                    "ranks take the mean of theirs: that is 1/%d of what one "
                    "process with all the samples has. Multiply its "
                    "loss_weight by %d for the same training", l->name,
                    sum_of(l), x->facts.size, x->facts.size, x->facts.size);
    }
}

void solver_say_samples(const struct ct_solver *s)
{
    const struct ct_exchange *x     = s->options.exchange;
    const Caffe__SolverParameter *p = s->param;
    int64_t mine, records, all;

    if (!x || x->facts.size < 2 || x->facts.serves)
        return;
    look_at_source(s->net, &mine, &records);
    solver_count_samples(s, &mine, &all);
    if (mine == 0)
        return;
    CT_INFO("An iteration takes %lld samples of %d ranks, %lld of them here; "
            "the learning rate is the solver's, base_lr %g, for any number",
            (long long)all, x->facts.size, (long long)mine, (double)p->base_lr);
    if (records > 0) /* with own data, an epoch is one of this rank's source */
        CT_INFO("%lld records%s: %d iterations are %.3g epochs",
                (long long)records, x->facts.own_data ? " here" : "",
                p->max_iter,
                (double)p->max_iter * (double)(x->facts.own_data ? mine : all) /
                    (double)records);
}

/* Whether rank 0 can read the records of this source for all ranks. */
static bool has_records(const Caffe__LayerParameter *l)
{
    return l->data_param && (strcmp(l->type, "Data") == 0 ||
                             strcmp(l->type, "AnnotatedData") == 0);
}

static char **source_of(Caffe__LayerParameter *l)
{
    if (has_records(l))
        return l->data_param->mode == CAFFE__DATA_PARAMETER__MODE__LOCAL
                   ? NULL /* the layer finds its own file */
                   : &l->data_param->source;
    if (l->image_data_param && (strcmp(l->type, "ImageData") == 0 ||
                                strcmp(l->type, "ImageSegData") == 0))
        return &l->image_data_param->source;
    if (l->dense_image_data_param && strcmp(l->type, "DenseImageData") == 0)
        return &l->dense_image_data_param->source;
    if (l->hdf5_data_param && strcmp(l->type, "HDF5Data") == 0)
        return &l->hdf5_data_param->source;
    if (l->window_data_param && strcmp(l->type, "WindowData") == 0)
        return &l->window_data_param->source;
    return NULL;
}

enum ct_status solver_place_data(const struct ct_exchange *x,
                                 Caffe__NetParameter *net)
{
    /* A rank that serves builds the net of rank 0 and reads nothing. */
    const int rank = x->facts.serves ? 0 : x->facts.rank;

    for (size_t i = 0; i < net->n_layer; i++) {
        Caffe__LayerParameter *l = net->layer[i];
        char **source            = source_of(l), *own = NULL;
        enum ct_status st;

        if (x->facts.root_data && source && !has_records(l))
            return ct_fail(CT_EINVAL, "layer %s: data: root sends the records "
                           "of Data layers; type %s reads by itself: use "
                           "shared or local", l->name, l->type);
        if (!x->facts.own_data || !source || !*source)
            continue;
        CT_TRY(ct_order_source(CT_DATA_LOCAL, *source, rank, &own));
        st = ct_edit_string(source, own);
        ct_free(own);
        CT_TRY(st);
    }
    return CT_OK;
}
