/* dummy_data.c - tops filled by fillers, Caffe type "DummyData".
 *
 * One data_filler for all tops or one for each; none is constant 0.  Shapes
 * come from `shape`, or from num, channels, height and width, again one for
 * all tops or one for each.  A constant top is filled once, so values that the
 * caller writes over it stay; the others are drawn anew in every pass, and
 * ranks draw differently. */
#include "cortado/layer.h"

#include <string.h>

#include "base/mem.h"
#include "core/filler.h"
#include "layers/deal.h"
#include "layers/source.h"
#include "proto/params.h"

struct dummy_data {
    const float **filled; /* where each constant top has been filled */
    uint32_t     *version;
};

static enum ct_status dummy_count(const struct ct_layer *l, const char *what,
                                  size_t n, int n_top)
{
    if (n == 1 || n == (size_t)n_top)
        return CT_OK;
    return ct_fail(CT_EINVAL, "layer %s: %zu `%s` for %d tops: give one, or "
                   "one for each top", l->name, n, what, n_top);
}

static enum ct_status dummy_shape(const struct ct_layer *l, int i,
                                  struct ct_shape *out)
{
    const Caffe__DummyDataParameter *p = ct_dummy_data_param(l->param);

    if (p->n_shape > 0)
        return ct_source_shape(l, p->shape[p->n_shape > 1 ? i : 0], out);
    *out = CT_SHAPE(p->num[p->n_num > 1 ? i : 0],
                    p->channels[p->n_channels > 1 ? i : 0],
                    p->height[p->n_height > 1 ? i : 0],
                    p->width[p->n_width > 1 ? i : 0]);
    return CT_OK;
}

static bool all_constant(const Caffe__DummyDataParameter *p)
{
    for (size_t i = 0; i < p->n_data_filler; i++)
        if (strcmp(p->data_filler[i]->type, "constant") != 0)
            return false;
    return true;
}

static enum ct_status dummy_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__DummyDataParameter *p = ct_dummy_data_param(l->param);
    struct dummy_data *d               = l->state;
    size_t n_top                       = (size_t)io->n_top;

    if (p->n_data_filler > 0)
        CT_TRY(dummy_count(l, "data_filler", p->n_data_filler, io->n_top));
    if (p->n_num + p->n_channels + p->n_height + p->n_width > 0) {
        if (p->n_shape > 0)
            return ct_fail(CT_EINVAL, "layer %s: give `shape`, or num, "
                           "channels, height and width, not both", l->name);
        CT_TRY(dummy_count(l, "num", p->n_num, io->n_top));
        CT_TRY(dummy_count(l, "channels", p->n_channels, io->n_top));
        CT_TRY(dummy_count(l, "height", p->n_height, io->n_top));
        CT_TRY(dummy_count(l, "width", p->n_width, io->n_top));
    } else {
        CT_TRY(dummy_count(l, "shape", p->n_shape, io->n_top));
    }
    if (all_constant(p))
        l->flags |= CT_LAYER_STEADY;
    CT_TRY(ct_alloc(n_top, sizeof(*d->filled), "dummy data", &d->filled));
    return ct_alloc(n_top, sizeof(*d->version), "dummy data", &d->version);
}

static enum ct_status dummy_forward(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__DummyDataParameter *p = ct_dummy_data_param(l->param);
    struct dummy_data *d               = l->state;
    uint64_t draw = ct_deal_batch(l);

    for (int i = 0; i < io->n_top; i++) {
        struct ct_blob *y = io->top[i];
        const Caffe__FillerParameter *f =
            p->n_data_filler == 0 ? NULL
                                  : p->data_filler[p->n_data_filler > 1 ? i
                                                                        : 0];
        bool constant = !f || strcmp(f->type, "constant") == 0;

        if (constant && d->filled[i] == ct_data(y) &&
            d->version[i] == y->version)
            continue;
        if (ct_filler_run(f, l->key, draw * (uint64_t)io->n_top + (uint64_t)i,
                          y) != CT_OK)
            return ct_fail_in(CT_EINVAL, "layer %s: top %d", l->name, i);
        d->filled[i]  = ct_data(y);
        d->version[i] = y->version;
    }
    return CT_OK;
}

/* Fills the tops too: what the user writes over a constant before the first
 * pass stays. */
static enum ct_status dummy_reshape(struct ct_layer *l, const struct ct_io *io)
{
    for (int i = 0; i < io->n_top; i++) {
        struct ct_shape shape;

        CT_TRY(dummy_shape(l, i, &shape));
        CT_TRY(ct_reshape(io->top[i], shape));
    }
    return dummy_forward(l, io);
}

static void dummy_teardown(struct ct_layer *l)
{
    struct dummy_data *d = l->state;

    ct_free(d->filled);
    ct_free(d->version);
}

const struct ct_layer_type ct_layer_dummy_data = {
    .name       = "DummyData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_NO_GRAD,
    .state_size = sizeof(struct dummy_data),
    .setup      = dummy_setup,
    .reshape    = dummy_reshape,
    .forward    = { [CT_CPU] = dummy_forward },
    .teardown   = dummy_teardown,
};
