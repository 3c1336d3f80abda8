/* kinds_steps.c - kinds of layers that go step by step or region by region,
 * which need bottoms of a shape of their own. */
#include <stdio.h>
#include <string.h>

#include "drawing.h"

static struct value *named(struct drawing *d, const char *name)
{
    for (int i = d->n_blobs - 1; i >= 0; i--)
        if (strcmp(d->blob[i].name, name) == 0)
            return &d->blob[i];
    return NULL;
}

/* Numbers that nothing learns from: `dims` of them. */
static bool add_numbers(struct drawing *d, const char *dims,
                        const char *filler)
{
    struct ct_text *t = open_layer(d, "DummyData");

    add_top(d, false);
    ct_text_addf(t, "dummy_data_param { shape { %s } data_filler { %s } } ",
                 dims, filler);
    if (!close_layer(d))
        return false;
    d->blob[d->n_blobs - 1].label = d->blob[d->n_blobs - 1].steps = true;
    return true;
}

/* No layer may read them, and none may count as a loss: gradients stop there,
 * which differences do not see. */
static void hide_last(struct drawing *d, int n)
{
    for (int i = 1; i <= n; i++)
        d->blob[d->n_blobs - i].label = d->blob[d->n_blobs - i].steps = true;
}

static struct value *sequence(struct drawing *d)
{
    struct value *found = NULL;

    for (int i = 0; i < d->n_blobs; i++)
        if (d->blob[i].steps && !d->blob[i].label &&
            d->blob[i].shape.n_axes == 3 &&
            (!found || stream_chance(&d->r, 50)))
            found = &d->blob[i];
    return found;
}

static struct value *static_input(struct drawing *d, const struct value *seq)
{
    struct value *found = NULL;

    for (int i = 0; i < d->n_blobs; i++)
        if (dim(&d->blob[i], 0) == dim(seq, 1) &&
            d->blob[i].shape.n_axes == 2 && !d->blob[i].label &&
            !d->blob[i].steps && stream_chance(&d->r, 60))
            found = &d->blob[i];
    return found;
}

static bool recurrent(struct drawing *d)
{
    struct value *seq = sequence(d), *cont = named(d, "cont"), *rest;
    const bool lstm = stream_chance(&d->r, 60);
    const int n_states = !stream_chance(&d->r, 30) ? 0 : lstm ? 2 : 1;
    const int outputs  = 1 + stream_below(&d->r, 6);
    const int at       = d->n_blobs;
    struct ct_text *t;
    char dims[64];

    if (!seq || !cont)
        return false;
    rest = static_input(d, seq);
    snprintf(dims, sizeof(dims), "dim: 1 dim: %d dim: %d", (int)dim(seq, 1),
             outputs);
    for (int i = 0; i < n_states; i++)
        if (!add_numbers(d, dims, "type: 'gaussian' std: 0.5"))
            return false;
    t = open_layer(d, lstm ? "LSTM" : "RNN");
    add_bottom(d, seq);
    add_bottom(d, cont);
    if (rest)
        add_bottom(d, rest);
    for (int i = 0; i < n_states; i++)
        add_bottom(d, &d->blob[at + i]);
    for (int i = 0; i < 1 + n_states; i++)
        add_top(d, false);
    d->blob[d->n_blobs - 1 - n_states].steps = stream_chance(&d->r, 40);
    ct_text_addf(t, "recurrent_param { num_output: %d %s"
                 "weight_filler { type: 'uniform' min: -0.4 max: 0.4 } "
                 "bias_filler { type: 'uniform' min: -0.1 max: 0.2 } } ",
                 outputs, n_states ? "expose_hidden: true " : "");
    d->deals_next = false;
    hide_last(d, n_states);
    return close_layer(d);
}

/* A product of b, as 1 x batch x n. */
static struct value *as_step(struct drawing *d, struct value *b, int n)
{
    struct ct_text *t = open_layer(d, "InnerProduct");

    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_addf(t, "inner_product_param { num_output: %d "
                 "weight_filler { type: 'xavier' } } ", n);
    if (!close_layer(d))
        return NULL;
    t = open_layer(d, "Reshape");
    add_bottom(d, &d->blob[d->n_blobs - 1]);
    add_top(d, false);
    ct_text_addf(t, "reshape_param { shape { dim: 1 dim: %d dim: %d } } ",
                 d->out->batch, n);
    d->deals_next = false;
    return close_layer(d) ? &d->blob[d->n_blobs - 1] : NULL;
}

static bool lstm_unit(struct drawing *d)
{
    struct value *b = pick(d, 0), *c = pick(d, 0), *gates;
    const int n = 1 + stream_below(&d->r, 4);
    char dims[64];

    if (!b || !c || dim(b, 0) != d->out->batch || b->shape.n_axes < 2 ||
        dim(c, 0) != d->out->batch || c->shape.n_axes < 2)
        return false;
    snprintf(dims, sizeof(dims), "dim: 1 dim: %d", d->out->batch);
    gates = as_step(d, b, 4 * n);
    c     = gates ? as_step(d, c, n) : NULL;
    if (!c || !add_numbers(d, dims, stream_chance(&d->r, 70) ? "value: 1"
                                                             : "value: 0"))
        return false;
    (void)open_layer(d, "LSTMUnit");
    add_bottom(d, c);
    add_bottom(d, gates);
    add_bottom(d, &d->blob[d->n_blobs - 1]);
    add_top(d, false);
    add_top(d, false);
    d->deals_next = false;
    return close_layer(d);
}

/* Regions of images; and with channels for each of their parts. */
static bool regions(struct drawing *d)
{
    struct value *b = pick(d, 4), *rois = named(d, "rois");
    int kind = stream_below(&d->r, 3);
    struct ct_text *t;

    if (!b || !rois || dim(b, 0) < d->out->batch)
        return false;
    if (dim(b, 1) % 4 == 0 && stream_chance(&d->r, 50))
        kind = 1;
    else if (kind == 1)
        kind = 2;
    t = open_layer(d, kind == 0   ? "ROIPooling"
                      : kind == 1 ? "PSROIPooling"
                                  : "ROIAlign");
    add_bottom(d, b);
    add_bottom(d, rois);
    add_top(d, false);
    if (kind == 0)
        ct_text_add(t, "roi_pooling_param { pooled_h: 2 pooled_w: 3 } ");
    else if (kind == 1)
        ct_text_addf(t, "psroi_pooling_param { output_dim: %d group_size: 2 "
                     "spatial_scale: 1 } ", (int)dim(b, 1) / 4);
    else
        ct_text_add(t, "roi_align_param { pooled_h: 2 pooled_w: 2 "
                    "spatial_scale: 0.75 sampling_ratio: 2 } ");
    d->deals_next = false;
    return close_layer(d);
}

const struct kind kinds_steps[] = {
    { 8, recurrent }, { 2, lstm_unit }, { 8, regions },
    { 0, NULL },
};
