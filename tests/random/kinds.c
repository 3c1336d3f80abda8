/* kinds.c - one layer of a random kind on top of what is there.
 *
 * Every type that can stand in a net that trains has a line in the table at
 * the end, or in those of the other kinds_*.c; types.c sees to that.  What
 * divides a batch among ranks must take samples one by one: a layer that does
 * not clears d->deals_next. */
#include <stdio.h>
#include <string.h>

#include "drawing.h"

bool one_to_one(struct drawing *d, const char *type, int axes,
                const char *words)
{
    struct value *b = pick(d, axes);
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, type);
    add_bottom(d, b);
    add_top_or_in_place(d, b);
    ct_text_add(t, words);
    return close_layer(d);
}

bool reshaping(struct drawing *d, const char *type, struct value *b,
               const char *words)
{
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, type);
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_add(t, words);
    return close_layer(d);
}

/* Behind the layer drawn last. */
static void add_relu(struct drawing *d)
{
    struct value *b = &d->blob[d->n_blobs - 1];

    (void)open_layer(d, "ReLU");
    d->weighs = 20;
    add_bottom(d, b);
    add_top_or_in_place(d, b);
    (void)close_layer(d);
}

bool with_relu(struct drawing *d, bool drawn)
{
    if (drawn && stream_chance(&d->r, 30))
        add_relu(d);
    return drawn;
}

/* ---- element by element ---- */

static bool activation(struct drawing *d)
{
    static const char *const type[] = { "AbsVal", "BNLL", "Sigmoid", "TanH",
                                        "ReLU", "ReLU", "ReLU", "ELU",
                                        "ReLU6", "Swish", "Mish" };

    return one_to_one(d, type[stream_below(&d->r, 11)], 0, "");
}

static bool leaky_relu(struct drawing *d)
{
    return one_to_one(d, "ReLU", 0, "relu_param { negative_slope: 0.2 } ");
}

static bool elu(struct drawing *d)
{
    return one_to_one(d, "ELU", 0, "elu_param { alpha: 0.6 } ");
}

static bool clip(struct drawing *d)
{
    return one_to_one(d, "Clip", 0, "clip_param { min: -0.6 max: 0.9 } ");
}

static bool power(struct drawing *d)
{
    static const char *const words[] = {
        "power_param { scale: 0.7 shift: 0.2 } ",
        "power_param { power: 2 scale: 0.5 } ",
        "power_param { power: 3 scale: 0.4 shift: 0.1 } ",
        "power_param { power: 0 shift: 0.4 } ",
        "power_param { power: 1 scale: -0.5 } ",
    };

    return one_to_one(d, "Power", 0, words[stream_below(&d->r, 5)]);
}

static bool exponential(struct drawing *d)
{
    return one_to_one(d, "Exp", 0, stream_chance(&d->r, 50)
                      ? "exp_param { scale: 0.4 shift: 0.1 } "
                      : "exp_param { base: 2 scale: 0.5 } ");
}

/* Of something that is surely positive. */
static bool logarithm(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct ct_text *t;

    if (!b)
        return false;
    (void)open_layer(d, "Sigmoid");
    add_bottom(d, b);
    add_top(d, b->batch);
    if (!close_layer(d))
        return false;
    b = &d->blob[d->n_blobs - 1];
    t = open_layer(d, "Log");
    add_bottom(d, b);
    add_top_or_in_place(d, b);
    ct_text_add(t, stream_chance(&d->r, 50)
                ? "log_param { scale: 2 shift: 0.5 } "
                : "log_param { base: 3 shift: 0.3 } ");
    return close_layer(d);
}

static bool dropout(struct drawing *d)
{
    return one_to_one(d, "Dropout", 0, stream_chance(&d->r, 50)
                      ? "" : "dropout_param { dropout_ratio: 0.3 } ");
}

/* ---- with parameters ---- */

static bool prelu(struct drawing *d)
{
    return one_to_one(d, "PReLU", 0, stream_chance(&d->r, 50)
                      ? "prelu_param { channel_shared: true } " : "");
}

static bool scale_or_bias(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct value *factor;
    struct ct_text *t;
    const bool scale = stream_chance(&d->r, 70);
    const char *name = scale ? "scale_param" : "bias_param";
    int axis;

    if (!b || b->shape.n_axes < 2)
        return false;
    factor = stream_chance(&d->r, 20) ? pick_like(d, b) : NULL;
    axis   = factor ? 0 : 1 + stream_below(&d->r, b->shape.n_axes - 1);
    t = open_layer(d, scale ? "Scale" : "Bias");
    add_bottom(d, b);
    if (factor)
        add_bottom(d, factor);
    add_top_or_in_place(d, b);
    ct_text_addf(t, "%s { axis: %d ", name, axis);
    if (!factor && stream_chance(&d->r, 30))
        ct_text_addf(t, "num_axes: %d ",
                     1 + stream_below(&d->r, b->shape.n_axes - axis));
    if (scale && !factor && stream_chance(&d->r, 50))
        ct_text_add(t, "bias_term: true ");
    if (scale && !factor)
        ct_text_add(t, "filler { type: 'uniform' min: 0.5 max: 1.5 } ");
    ct_text_add(t, "} ");
    return close_layer(d);
}

static bool batch_norm(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct ct_text *t;

    if (!b || b->shape.n_axes < 2 || dim(b, 0) * dim(b, 2) * dim(b, 3) < 3)
        return false;
    t = open_layer(d, "BatchNorm");
    add_bottom(d, b);
    add_top_or_in_place(d, b);
    ct_text_addf(t, "batch_norm_param { eps: 0.01 moving_average_fraction: "
                 "%g %s} ", stream_between(&d->r, 0.5, 0.99),
                 stream_chance(&d->r, 15) ? "use_global_stats: true " : "");
    if (!close_layer(d))
        return false;
    d->out->batch_norm = true;
    if (stream_chance(&d->r, 60)) {
        b = &d->blob[d->n_blobs - 1];
        t = open_layer(d, "Scale");
        add_bottom(d, b);
        add_top_or_in_place(d, b);
        ct_text_addf(t, "scale_param { bias_term: %s } ",
                     stream_chance(&d->r, 70) ? "true" : "false");
        (void)close_layer(d);
        if (stream_chance(&d->r, 60))
            add_relu(d);
    }
    return true;
}

/* SegNet's dialect, the batch's statistics; or PSPNet's, which keeps running
 * ones, with specs for some of its blobs. */
static bool bn(struct drawing *d)
{
    struct value *b = pick(d, 4);
    struct ct_text *t;

    if (!b || dim(b, 0) * dim(b, 2) * dim(b, 3) < 3)
        return false;
    t = open_layer(d, "BN");
    add_bottom(d, b);
    add_top_or_in_place(d, b);
    if (stream_chance(&d->r, 50)) {
        ct_text_add(t, "bn_param { scale_filler { type: 'uniform' min: 0.5 "
                    "max: 1.5 } shift_filler { type: 'uniform' min: -0.2 "
                    "max: 0.2 } } ");
    } else {
        for (int i = stream_below(&d->r, 5); i > 0; i--)
            ct_text_add(t, "param { } ");
        ct_text_add(t, "bn_param { slope_filler { type: 'uniform' min: 0.5 "
                    "max: 1.5 } bias_filler { type: 'uniform' min: -0.2 "
                    "max: 0.2 } momentum: 0.7 } ");
    }
    if (!close_layer(d))
        return false;
    d->out->batch_norm = true;
    return true;
}

static void conv_words(struct drawing *d, struct ct_text *t,
                       const struct value *b, bool many)
{
    static const int outputs[] = { 1, 2, 3, 4, 6, 8, 16, 17, 32 };
    const int64_t c = dim(b, 1);
    int groups = 1;
    int n = d->wide && many ? 16 + 16 * stream_below(&d->r, 2)
                            : outputs[stream_below(&d->r, many ? 9 : 6)];
    const int k = 1 + stream_below(&d->r, 5);

    if (c > 1 && stream_chance(&d->r, 25))
        for (int g = 2; g <= c; g++)
            if (c % g == 0 && stream_chance(&d->r, 50)) {
                groups = g;
                break;
            }
    n = (n + groups - 1) / groups * groups;
    ct_text_addf(t, "convolution_param { num_output: %d ", n);
    if (stream_chance(&d->r, 15))
        ct_text_addf(t, "kernel_h: %d kernel_w: %d ", k,
                     1 + stream_below(&d->r, 3));
    else
        ct_text_addf(t, "kernel_size: %d ", k);
    if (stream_chance(&d->r, 50))
        ct_text_addf(t, "pad: %d ", k / 2);
    if (stream_chance(&d->r, 25))
        ct_text_addf(t, "stride: %d ", 1 + stream_below(&d->r, 3));
    if (stream_chance(&d->r, 15))
        ct_text_add(t, "dilation: 2 ");
    if (groups > 1)
        ct_text_addf(t, "group: %d ", groups);
    if (stream_chance(&d->r, 25))
        ct_text_add(t, "bias_term: false ");
    else if (stream_chance(&d->r, 50))
        ct_text_add(t, "bias_filler { type: 'uniform' min: -0.2 max: 0.3 } ");
    add_filler(d, t, "weight_filler");
    ct_text_add(t, "} ");
}

static bool convolution(struct drawing *d)
{
    struct value *b = pick(d, 4);
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, "Convolution");
    add_bottom(d, b);
    add_top(d, b->batch);
    conv_words(d, t, b, true);
    return with_relu(d, close_layer(d));
}

static bool convolution_of_two(struct drawing *d)
{
    struct value *b = pick(d, 4), *c = b ? pick_like(d, b) : NULL;
    struct ct_text *t;

    if (!c)
        return false;
    t = open_layer(d, stream_chance(&d->r, 70) ? "Convolution"
                                               : "Deconvolution");
    add_bottom(d, b);
    add_bottom(d, c);
    add_top(d, b->batch);
    add_top(d, c->batch);
    conv_words(d, t, b, false);
    return close_layer(d);
}

static bool deconvolution(struct drawing *d)
{
    struct value *b = pick(d, 4);
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, "Deconvolution");
    add_bottom(d, b);
    add_top(d, b->batch);
    conv_words(d, t, b, false);
    return close_layer(d);
}

static bool depthwise(struct drawing *d)
{
    struct value *b = pick(d, 4);
    char words[128];

    if (!b)
        return false;
    snprintf(words, sizeof(words), "convolution_param { num_output: %d "
             "kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } %s} ",
             (int)dim(b, 1), stream_chance(&d->r, 30) ? "stride: 2 " : "");
    return reshaping(d, stream_chance(&d->r, 70) ? "DepthwiseConvolution"
                                                 : "ConvolutionDepthwise",
                     b, words);
}

static bool inner_product(struct drawing *d)
{
    static const int outputs[] = { 1, 2, 3, 5, 8, 16, 20, 33, 64 };
    struct value *b = pick(d, 0);
    struct ct_text *t;
    int axis = 1;

    if (!b || b->shape.n_axes < 1)
        return false;
    if (b->shape.n_axes > 2 && stream_chance(&d->r, 15))
        axis = 2 + stream_below(&d->r, b->shape.n_axes - 2);
    t = open_layer(d, "InnerProduct");
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_addf(t, "inner_product_param { num_output: %d ",
                 outputs[stream_below(&d->r, 9)]);
    if (axis != 1)
        ct_text_addf(t, "axis: %d ", axis);
    if (stream_chance(&d->r, 20))
        ct_text_add(t, "transpose: true ");
    if (stream_chance(&d->r, 20))
        ct_text_add(t, "bias_term: false ");
    else if (stream_chance(&d->r, 50))
        ct_text_add(t, "bias_filler { type: 'uniform' min: -0.2 max: 0.3 } ");
    add_filler(d, t, "weight_filler");
    ct_text_add(t, "} ");
    return with_relu(d, close_layer(d));
}

static bool embed(struct drawing *d)
{
    struct value *b = pick_label(d);
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, "Embed");
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_addf(t, "embed_param { num_output: %d input_dim: %d "
                 "weight_filler { type: 'gaussian' std: 0.5 } %s} ",
                 1 + stream_below(&d->r, 8), d->data.classes,
                 stream_chance(&d->r, 30) ? "bias_term: false " : "");
    return close_layer(d);
}

/* A layer that is there, once more, on another blob that it can take: the way
 * to nets that share all, or a part, of their parameters. */
static bool twin(struct drawing *d)
{
    const struct piece *p = NULL;
    struct value *b, *from = NULL;
    int n = 0;
    struct ct_text *t;
    const char *words;

    for (int i = 0; i < d->n_layers; i++)
        if (d->layer[i].n_params > 0 && d->layer[i].from[0] &&
            strcmp(d->layer[i].type, "LSTM") != 0 &&
            strcmp(d->layer[i].type, "RNN") != 0 &&
            stream_below(&d->r, ++n) == 0)
            p = &d->layer[i];
    if (!p)
        return false;
    for (int i = d->n_blobs - 1; i >= 0 && !from; i--)
        if (strcmp(d->blob[i].name, p->from) == 0)
            from = &d->blob[i];
    b = from ? pick_like(d, from) : NULL;
    b = b ? b : from;
    words = strrchr(p->text.s, '\'');
    if (!b || b->label || b->steps || !words || !strchr(words, '{'))
        return false;
    words = strstr(p->text.s, "_param {");
    while (words > p->text.s && words[-1] != ' ')
        words--;
    t = open_layer(d, p->type);
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_add(t, words);
    d->deals_next = !strstr(words, "loss_weight"); /* of all samples */
    return close_layer(d);
}

static bool parameter(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct ct_text *t;

    if (!b || b->shape.n_axes < 1 || b->shape.n_axes > 4)
        return false;
    t = open_layer(d, "Parameter");
    add_top(d, false);
    ct_text_add(t, "parameter_param { shape { ");
    for (int i = 0; i < b->shape.n_axes; i++)
        ct_text_addf(t, "dim: %d ", (int)b->shape.dim[i]);
    ct_text_add(t, "} } ");
    d->deals_next = false;
    return close_layer(d);
}

static const struct kind kinds_params[] = {
    { 14, activation }, { 3, leaky_relu }, { 2, elu }, { 2, clip },
    { 3, power }, { 2, exponential }, { 2, logarithm }, { 4, dropout },
    { 4, prelu }, { 5, scale_or_bias }, { 6, batch_norm }, { 2, bn },
    { 16, convolution },
    { 3, convolution_of_two }, { 4, deconvolution }, { 3, depthwise },
    { 12, inner_product }, { 3, embed }, { 14, twin }, { 2, parameter },
    { 0, NULL },
};

bool draw_layer(struct drawing *d)
{
    const struct kind *const lists[] = { kinds_params, kinds_shapes,
                                         kinds_steps, kinds_python };
    const int n_lists = 4;
    int sum = 0, at;

    if (d->n_blobs > MOST_BLOBS - 8)
        return false;
    for (int l = 0; l < n_lists; l++)
        for (const struct kind *k = lists[l]; k->draw; k++)
            sum += k->weight;
    at = stream_below(&d->r, sum);
    for (int l = 0; l < n_lists; l++)
        for (const struct kind *k = lists[l]; k->draw; k++) {
            at -= k->weight;
            if (at < 0)
                return k->draw(d);
        }
    return false;
}
