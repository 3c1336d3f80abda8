/* kinds_shapes.c - kinds of layers that look at windows, change shapes, or
 * bring several bottoms together. */
#include <stdio.h>
#include <string.h>

#include "drawing.h"

/* ---- over channels, places and windows ---- */

static bool pooling(struct drawing *d)
{
    static const char *const method[] = { "MAX", "MAX", "AVE" };
    struct value *b = pick(d, 4);
    struct ct_text *t;
    const char *how;
    int k;
    bool mask;

    if (!b)
        return false;
    how  = method[stream_below(&d->r, 3)];
    k    = 1 + stream_below(&d->r, 4);
    mask = strcmp(how, "MAX") == 0 && stream_chance(&d->r, 10);
    t    = open_layer(d, "Pooling");
    add_bottom(d, b);
    add_top(d, b->batch);
    if (mask)
        add_top(d, b->batch);
    ct_text_addf(t, "pooling_param { pool: %s ", how);
    if (stream_chance(&d->r, 15)) {
        ct_text_add(t, "global_pooling: true ");
    } else {
        ct_text_addf(t, "kernel_size: %d ", k);
        if (stream_chance(&d->r, 70))
            ct_text_addf(t, "stride: %d ", 1 + stream_below(&d->r, 3));
        if (k > 1 && stream_chance(&d->r, 30))
            ct_text_addf(t, "pad: %d ", 1 + stream_below(&d->r, k - 1));
        if (stream_chance(&d->r, 15))
            ct_text_add(t, "round_mode: FLOOR ");
    }
    ct_text_add(t, "} ");
    if (mask) /* positions: nothing that a layer should compute with */
        d->blob[d->n_blobs - 1].label = d->blob[d->n_blobs - 1].steps = true;
    return close_layer(d);
}

static bool lrn(struct drawing *d)
{
    static const char *const words[] = {
        "lrn_param { local_size: 3 alpha: 0.5 } ",
        "lrn_param { local_size: 5 alpha: 0.1 beta: 0.5 k: 2 } ",
        "lrn_param { local_size: 3 alpha: 0.3 norm_region: WITHIN_CHANNEL } ",
    };

    return one_to_one(d, "LRN", 4, words[stream_below(&d->r, 3)]);
}

static bool mvn(struct drawing *d)
{
    static const char *const words[] = {
        "mvn_param { normalize_variance: false } ", "",
        "mvn_param { across_channels: true } ",
    };

    return one_to_one(d, "MVN", 4, words[stream_below(&d->r, 3)]);
}

static bool group_norm(struct drawing *d)
{
    struct value *b = pick(d, 4);
    char words[64];

    if (!b || ct_shape_count(&b->shape, 2, CT_END) < 2)
        return false;
    snprintf(words, sizeof(words), "group_norm_param { group_num: %d "
             "eps: 0.01 } ", dim(b, 1) % 2 == 0 ? 2 : 1);
    return reshaping(d, "GroupNorm", b, words);
}

static bool normalize(struct drawing *d)
{
    static const char *const words[] = {
        "norm_param { eps: 0.1 } ",
        "norm_param { eps: 0.1 across_spatial: false channel_shared: false "
        "scale_filler { type: 'uniform' min: 0.5 max: 2 } } ",
    };

    return one_to_one(d, "Normalize", 4, words[stream_below(&d->r, 2)]);
}

static bool softmax(struct drawing *d)
{
    struct value *b = pick(d, 0);
    char words[64];

    if (!b || b->shape.n_axes < 2)
        return false;
    snprintf(words, sizeof(words), "softmax_param { axis: %d } ",
             1 + stream_below(&d->r, b->shape.n_axes - 1));
    return reshaping(d, "Softmax", b, words);
}

static bool shuffle_channel(struct drawing *d)
{
    struct value *b = pick(d, 4);
    char words[64];

    if (!b || dim(b, 1) < 2)
        return false;
    snprintf(words, sizeof(words), "shuffle_channel_param { group: %d } ",
             dim(b, 1) % 2 == 0 ? 2 : (int)dim(b, 1));
    return reshaping(d, "ShuffleChannel", b, words);
}

static bool resize(struct drawing *d)
{
    static const char *const words[] = {
        "interp_param { zoom_factor: 2 } ",
        "interp_param { height: 4 width: 3 } ",
        "interp_param { shrink_factor: 2 } ",
        "interp_param { height: 5 width: 5 pad_beg: -1 } ",
    };

    if (stream_chance(&d->r, 30))
        return reshaping(d, "Upsample", pick(d, 4),
                         "upsample_param { scale: 2 } ");
    return reshaping(d, "Interp", pick(d, 4), words[stream_below(&d->r, 4)]);
}

static bool spp(struct drawing *d)
{
    return reshaping(d, "SPP", pick(d, 4), stream_chance(&d->r, 50)
                     ? "spp_param { pyramid_height: 2 pool: MAX } "
                     : "spp_param { pyramid_height: 2 pool: AVE } ");
}

static bool im2col(struct drawing *d)
{
    return reshaping(d, "Im2col", pick(d, 4), "convolution_param { "
                     "kernel_size: 2 stride: 2 pad: 1 } ");
}

/* ---- shapes ---- */

static bool flatten(struct drawing *d)
{
    return reshaping(d, "Flatten", pick(d, 0), "");
}

static bool reshape(struct drawing *d)
{
    struct value *b = pick(d, 0);
    char words[128];
    int64_t rest;

    if (!b || b->shape.n_axes < 2)
        return false;
    rest = ct_shape_count(&b->shape, 1, CT_END);
    if (rest % 2 == 0 && stream_chance(&d->r, 60))
        snprintf(words, sizeof(words), "reshape_param { shape { dim: 0 "
                 "dim: -1 dim: 2 dim: 1 } } ");
    else if (rest % 3 == 0 && stream_chance(&d->r, 60))
        snprintf(words, sizeof(words), "reshape_param { shape { dim: 3 "
                 "dim: -1 } axis: 1 } ");
    else
        snprintf(words, sizeof(words), "reshape_param { shape { dim: 0 "
                 "dim: 1 dim: %d dim: -1 } } ", (int)dim(b, 1));
    return reshaping(d, "Reshape", b, words);
}

static bool pad(struct drawing *d)
{
    return reshaping(d, "Pad", pick(d, 4), "pad_param { pad: 1 } ");
}

static bool reorg(struct drawing *d)
{
    struct value *b = pick(d, 4);

    if (!b || dim(b, 1) % 4 || dim(b, 2) % 2 || dim(b, 3) % 2)
        return false;
    return reshaping(d, "Reorg", b, "reorg_param { stride: 2 } ");
}

static bool permute(struct drawing *d)
{
    static const char *const order[] = {
        "order: 0 order: 2 order: 3 order: 1",
        "order: 0 order: 1 order: 3 order: 2",
        "order: 0 order: 3 order: 1 order: 2"
    };
    char words[96];

    snprintf(words, sizeof(words), "permute_param { %s } ",
             order[stream_below(&d->r, 3)]);
    return reshaping(d, "Permute", pick(d, 4), words);
}

static bool tile(struct drawing *d)
{
    struct value *b = pick(d, 0);
    char words[64];

    if (!b || b->shape.n_axes < 2)
        return false;
    snprintf(words, sizeof(words), "tile_param { axis: %d tiles: %d } ",
             1 + stream_below(&d->r, b->shape.n_axes - 1),
             1 + stream_below(&d->r, 3));
    return reshaping(d, "Tile", b, words);
}

static bool slice(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct ct_text *t;
    int axis;

    if (!b || b->shape.n_axes < 2)
        return false;
    axis = 1 + stream_below(&d->r, b->shape.n_axes - 1);
    if (dim(b, axis) < 2)
        return false;
    t = open_layer(d, "Slice");
    add_bottom(d, b);
    add_top(d, b->batch);
    add_top(d, b->batch);
    ct_text_addf(t, "slice_param { axis: %d slice_point: %d } ", axis,
                 1 + stream_below(&d->r, (int)dim(b, axis) - 1));
    return close_layer(d);
}

static bool concat(struct drawing *d)
{
    struct value *b = pick(d, 0), *c;
    struct ct_text *t;
    int axis;

    if (!b || b->shape.n_axes < 2)
        return false;
    c = pick_like(d, b);
    if (!c && stream_chance(&d->r, 50))
        c = b;
    if (!c)
        return false;
    axis = 1 + stream_below(&d->r, b->shape.n_axes - 1);
    if (stream_chance(&d->r, 8))
        axis = 0;
    t = open_layer(d, "Concat");
    add_bottom(d, b);
    add_bottom(d, c);
    add_top(d, b->batch && axis > 0);
    ct_text_addf(t, "concat_param { axis: %d } ", axis);
    d->deals_next = axis > 0;
    return close_layer(d);
}

static bool split(struct drawing *d)
{
    struct value *b = pick(d, 0);

    if (!b)
        return false;
    (void)open_layer(d, "Split");
    add_bottom(d, b);
    add_top(d, b->batch);
    add_top(d, b->batch);
    return close_layer(d);
}

static bool crop(struct drawing *d)
{
    struct value *b = pick(d, 4), *c = pick(d, 4);
    struct ct_text *t;

    if (!b || !c || b == c)
        return false;
    t = open_layer(d, "Crop");
    add_bottom(d, b);
    add_bottom(d, c);
    add_top(d, b->batch);
    ct_text_addf(t, "crop_param { axis: 2 offset: %d } ",
                 stream_below(&d->r, 2));
    return close_layer(d);
}

/* ---- several bottoms ---- */

static bool eltwise(struct drawing *d)
{
    static const char *const words[] = {
        "", "", "eltwise_param { operation: PROD } ",
        "eltwise_param { operation: MAX } ",
        "eltwise_param { coeff: 0.5 coeff: -1 } ",
    };
    struct value *b = pick(d, 0), *c = b ? pick_like(d, b) : NULL, *e;
    struct ct_text *t;
    const int how = stream_below(&d->r, 5);

    if (b && !c && how < 3 && stream_chance(&d->r, 30))
        c = b;
    if (!c)
        return false;
    t = open_layer(d, "Eltwise");
    add_bottom(d, b);
    add_bottom(d, c);
    e = stream_chance(&d->r, 20) && how < 4 ? pick_like(d, b) : NULL;
    if (e)
        add_bottom(d, e);
    add_top_or_in_place(d, b);
    ct_text_add(t, words[how]);
    return with_relu(d, close_layer(d));
}

/* A matrix of each sample with the transpose of another's. */
static bool matmul(struct drawing *d)
{
    struct value *a = pick(d, 4), *b = a ? pick_like(d, a) : NULL;
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, "MatMul");
    add_bottom(d, a);
    add_bottom(d, b);
    add_top(d, a->batch);
    ct_text_add(t, stream_chance(&d->r, 50)
                ? "matmul_param { transpose_b: true } "
                : "matmul_param { transpose_a: true } ");
    return close_layer(d);
}

static bool axpy(struct drawing *d)
{
    struct value *x = pick(d, 4), *y = x ? pick_like(d, x) : NULL, *a;
    struct ct_text *t;

    if (!y)
        return false;
    t = open_layer(d, "Pooling");
    add_bottom(d, x);
    add_top(d, x->batch);
    ct_text_add(t, "pooling_param { pool: AVE global_pooling: true } ");
    if (!close_layer(d))
        return false;
    a = &d->blob[d->n_blobs - 1];
    (void)open_layer(d, "Axpy");
    add_bottom(d, a);
    add_bottom(d, x);
    add_bottom(d, y);
    add_top(d, x->batch);
    return close_layer(d);
}

static bool reduction(struct drawing *d)
{
    static const char *const how[] = { "SUM", "ASUM", "SUMSQ", "MEAN" };
    struct value *b = pick(d, 0);
    char words[96];

    if (!b || b->shape.n_axes < 2)
        return false;
    snprintf(words, sizeof(words), "reduction_param { operation: %s axis: %d "
             "coeff: 0.3 } ", how[stream_below(&d->r, 4)],
             1 + stream_below(&d->r, b->shape.n_axes - 1));
    return reshaping(d, "Reduction", b, words);
}

static bool filter(struct drawing *d)
{
    struct value *b = pick(d, 0), *y = pick_label(d);

    if (!b || !y || dim(b, 0) != dim(y, 0) || y->shape.n_axes != 1)
        return false;
    (void)open_layer(d, "Filter");
    add_bottom(d, b);
    add_bottom(d, y);
    add_top(d, false);
    d->deals_next = false;
    return close_layer(d);
}

static bool batch_reindex(struct drawing *d)
{
    struct value *b = pick(d, 0), *y = pick_label(d);

    if (!b || !y || y->shape.n_axes != 1 || dim(b, 0) < d->data.classes)
        return false;
    (void)open_layer(d, "BatchReindex");
    add_bottom(d, b);
    add_bottom(d, y);
    add_top(d, false);
    d->deals_next = false;
    return close_layer(d);
}

/* What has no gradient: dead ends, and values that steer others. */
static bool dead_end(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct ct_text *t;

    if (!b)
        return false;
    if (stream_chance(&d->r, 50)) {
        (void)open_layer(d, "Silence");
        add_bottom(d, b);
        return close_layer(d);
    }
    t = open_layer(d, "Threshold");
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_add(t, "threshold_param { threshold: 0.1 } ");
    return close_layer(d);
}

const struct kind kinds_shapes[] = {
    { 8, pooling }, { 4, lrn }, { 2, mvn }, { 2, normalize }, { 3, softmax },
    { 2, shuffle_channel }, { 3, resize }, { 1, spp }, { 1, im2col },
    { 3, flatten }, { 4, reshape }, { 3, permute }, { 2, tile }, { 4, slice },
    { 5, concat }, { 2, split }, { 2, crop }, { 9, eltwise }, { 2, axpy },
    { 2, reduction }, { 2, filter }, { 2, batch_reindex }, { 2, dead_end },
    { 2, group_norm }, { 1, pad }, { 2, reorg }, { 2, matmul },
    { 0, NULL },
};
