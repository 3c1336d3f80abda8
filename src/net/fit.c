/* fit.c - predicts the memory of a net at any batch, and finds the largest
 * batch that fits.
 *
 * The net is built twice, with small batches.  Each tensor of the memory plan
 * takes a + b N bytes; the two nets give a and b.  A batch of N then takes
 *
 *     plan(N)          activations, planned by lifetime with these sizes
 *   + rest(N)          parameters, gradients, scratch: linear in N, measured
 *                      on the device while the small nets were built
 *   + histories        of the solver                                      */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/device_inner.h"
#include "net/net_inner.h"
#include "proto/batch_size.h"

enum { SMALL = 4 }; /* the small batches are 4 and 8, or 1 and 2 */

struct net_fit {
    struct ct_net *net;      /* the first net, for lifetimes; owned */
    int64_t        at[2];    /* the two batches */
    size_t        *bytes[2]; /* per batch: sizes of tensors; owned */
    double         rest[2];
    double         histories;
    size_t         used;     /* of the device, before the net was built */
};

static enum ct_status build_small(const Caffe__NetParameter *param,
                                  const struct ct_net_options *options,
                                  int64_t batch, struct ct_net **out)
{
    const struct ct_net_training alone = {
        .more_come   = options->training && options->training->more_come,
        .own_data    = options->training && options->training->own_data,
        .loss_scale  = options->training ? options->training->loss_scale : 0,
        .n_histories = options->training ? options->training->n_histories : 0,
        .trial       = true,
    };
    struct ct_net_options o  = *options;
    Caffe__NetParameter *own = NULL;
    enum ct_status st;

    /* Built without peers, because the other ranks do not take part. */
    o.rank = o.size = 0;
    o.quiet    = true;
    o.training = &alone;
    CT_TRY(ct_message_copy(param, &own));
    ct_batch_set(own, ct_batch_of(param), batch);
    st = ct_net_create(own, &o, out);
    ct_message_free(own);
    return st;
}

/* Builds net number k and measures it. */
static enum ct_status measure(struct net_fit *f,
                              const Caffe__NetParameter *param,
                              const struct ct_net_options *options, int k,
                              struct ct_net **out)
{
    const struct ct_device *d = options->device;
    const size_t before       = d ? ct_device_memory(d).used : 0;

    f->used = before;
    CT_TRY(build_small(param, options, f->at[k], out));
    CT_TRY(ct_alloc(2 * (size_t)(*out)->n_blob + 1, sizeof(*f->bytes[k]),
                    "memory plan", &f->bytes[k]));
    if (d && d->kind != CT_CPU) {
        f->rest[k] = (double)(ct_device_memory(d).used - before) -
                     (double)(*out)->activation_bytes;
        if (f->rest[k] < 0)
            f->rest[k] = 0;
    }
    return net_plan_sizes(*out, f->bytes[k]);
}

enum ct_status net_fit_create(const Caffe__NetParameter *param,
                              const struct ct_net_options *options,
                              struct net_fit **out)
{
    const int64_t batch = ct_batch_of(param);
    struct ct_net *second = NULL;
    struct net_fit *f;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*f), "memory plan", &f));
    f->at[0] = batch > 2 * SMALL ? SMALL : 1;
    f->at[1] = 2 * f->at[0];
    if (batch <= 2)
        CT_TRY_GOTO(ct_fail(CT_ENOTSUP, "no source has a batch to make "
                            "smaller"), st, out);
    /* The larger net is built first and destroyed before the other is built,
     * because scratch memory never shrinks. */
    CT_TRY_GOTO(measure(f, param, options, 1, &second), st, out);
    ct_net_destroy(second);
    second = NULL;
    if (options->device)
        ct_device_trim(options->device);
    CT_TRY_GOTO(measure(f, param, options, 0, &f->net), st, out);
    f->histories = (double)f->net->training.n_histories * sizeof(float) *
                   (double)f->net->arena_count;
out:
    ct_net_destroy(second);
    if (st != CT_OK) {
        net_fit_destroy(f);
        return st;
    }
    *out = f;
    return CT_OK;
}

void net_fit_destroy(struct net_fit *f)
{
    if (!f)
        return;
    ct_net_destroy(f->net);
    ct_free(f->bytes[0]);
    ct_free(f->bytes[1]);
    ct_free(f);
}

/* The value at `batch` on the line through both small batches. */
static double line(const struct net_fit *f, double a, double b, int64_t batch)
{
    const double v = a + (b - a) * (double)(batch - f->at[0]) /
                             (double)(f->at[1] - f->at[0]);

    return v > 0 ? v : 0;
}

static size_t tensor_bytes(const struct net_fit *f, int i, int64_t batch)
{
    return (size_t)line(f, (double)f->bytes[0][i], (double)f->bytes[1][i],
                        batch);
}

enum ct_status net_fit_bytes(const struct net_fit *f, int64_t batch,
                             size_t *out)
{
    const int n = 2 * f->net->n_blob;
    size_t *bytes = NULL, total = 0;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*bytes), "memory plan", &bytes));
    for (int i = 0; i < n; i++)
        bytes[i] = tensor_bytes(f, i, batch);
    st = net_plan_total(f->net, bytes, &total);
    ct_free(bytes);
    *out = total + (size_t)(line(f, f->rest[0], f->rest[1], batch) +
                            f->histories);
    return st;
}

enum ct_status net_fit_largest(const struct net_fit *f, size_t room,
                               int64_t batch, int64_t *out)
{
    int64_t fits = 0, too_large = batch;

    while (too_large - fits > 1) {
        const int64_t middle = fits + (too_large - fits) / 2;
        size_t bytes;

        CT_TRY(net_fit_bytes(f, middle, &bytes));
        *(bytes <= room ? &fits : &too_large) = middle;
    }
    *out = fits;
    return CT_OK;
}

/* The largest blob at this batch, and the layer that writes it. */
static const char *largest_blob(const struct net_fit *f, int64_t batch,
                                const char **layer, size_t *bytes)
{
    const struct ct_net *net = f->net;
    int best                 = 0;

    *bytes = 0;
    *layer = "";
    for (int i = 0; i < 2 * net->n_blob; i++)
        if (tensor_bytes(f, i, batch) > *bytes) {
            *bytes = tensor_bytes(f, i, batch);
            best   = i / 2;
        }
    for (int i = net->n_layer - 1; i >= 0; i--)
        for (int t = 0; t < net->layer[i].n_top; t++)
            if (net->layer[i].top_id[t] == best)
                *layer = net->layer[i].layer->name;
    return net->n_blob ? net->blob[best].name : "";
}

static enum ct_status explain(const struct net_fit *f,
                              const struct ct_net_options *o, int64_t batch,
                              const char *why)
{
    const struct ct_device_memory m = ct_device_memory(o->device);
    const size_t room               = m.free + m.used - f->used;
    const double apart = (double)(f->at[1] - f->at[0]);
    size_t need, one, two, most;
    const char *layer, *blob = largest_blob(f, batch, &layer, &most);
    char advice[160];
    int64_t fits;

    CT_TRY(net_fit_bytes(f, batch, &need));
    CT_TRY(net_fit_bytes(f, f->at[0], &one));
    CT_TRY(net_fit_bytes(f, f->at[1], &two));
    CT_TRY(net_fit_largest(f, room, batch, &fits));
    if (fits > 0)
        snprintf(advice, sizeof(advice), "the largest batch_size that fits is "
                 "about %lld", (long long)fits);
    else
        snprintf(advice, sizeof(advice), "not even a batch of 1 fits");
    return ct_fail(CT_ENOMEM, "rank %d, GPU %d (%s): a batch of %lld needs "
                   "about %.0f MB, %.2f MB an image; the GPU has %.0f MB, "
                   "%.0f MB of them for others.  Blob %s of layer %s alone "
                   "takes %.0f MB; %s (%s)", o->rank, o->device->id,
                   ct_device_name(o->device), (long long)batch,
                   (double)need / 1e6,
                   ((double)two - (double)one) / 1e6 / apart,
                   (double)m.all / 1e6, (double)(m.all - room) / 1e6, blob,
                   layer, (double)most / 1e6, advice, why);
}

enum ct_status net_explain_memory(const Caffe__NetParameter *param,
                                  const struct ct_net_options *options)
{
    struct net_fit *f = NULL;
    char why[512];

    snprintf(why, sizeof(why), "%s", ct_last_error());
    if (!options->device || options->device->kind == CT_CPU)
        return CT_ENOMEM;
    ct_device_trim(options->device);
    if (net_fit_create(param, options, &f) == CT_OK)
        (void)explain(f, options, ct_batch_of(param), why);
    else
        (void)ct_fail(CT_ENOMEM, "rank %d: %s", options->rank, why);
    net_fit_destroy(f);
    ct_device_trim(options->device);
    return CT_ENOMEM;
}
