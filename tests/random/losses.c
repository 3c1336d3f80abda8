/* losses.c - a loss on top of what is there, and what only tests look at. */
#include <stdio.h>

#include "drawing.h"

/* Scores for the classes of y, made from any blob. */
static struct value *scores(struct drawing *d)
{
    struct value *b = pick(d, 0);
    struct ct_text *t;

    if (!b || b->shape.n_axes < 1 || dim(b, 0) != d->out->batch)
        return NULL;
    if (b->shape.n_axes == 2 && dim(b, 1) >= d->data.classes &&
        stream_chance(&d->r, 50))
        return b;
    t = open_layer(d, "InnerProduct");
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_addf(t, "inner_product_param { num_output: %d "
                 "weight_filler { type: 'xavier' } } ", d->data.classes);
    return close_layer(d) ? &d->blob[d->n_blobs - 1] : NULL;
}

static void add_weight(struct drawing *d, struct ct_text *t)
{
    if (stream_chance(&d->r, 25))
        ct_text_addf(t, "loss_weight: %g ",
                     stream_chance(&d->r, 15) ? 0.0
                                              : stream_between(&d->r, 0.2, 2));
}

bool close_loss(struct drawing *d, struct ct_text *t)
{
    add_top(d, false);
    d->blob[d->n_blobs - 1].label = d->blob[d->n_blobs - 1].steps = true;
    add_weight(d, t);
    if (!close_layer(d))
        return false;
    d->n_losses++;
    return true;
}

static bool add_accuracy(struct drawing *d, struct value *s, struct value *y)
{
    struct ct_text *t;

    if (!d->out->has_test)
        return true;
    t = open_layer(d, "Accuracy");
    add_bottom(d, s);
    add_bottom(d, y);
    add_top(d, false);
    d->blob[d->n_blobs - 1].label = true;
    d->blob[d->n_blobs - 1].steps = true;
    ct_text_add(t, "include { phase: TEST } ");
    /* The net is tried in TRAIN, so the layer is added unseen. */
    d->n_blobs--;
    d->n_layers++;
    return true;
}

static bool of_classes(struct drawing *d)
{
    static const char *const type[] = { "SoftmaxWithLoss", "SoftmaxWithLoss",
                                        "SoftmaxWithLossOHEM", "HingeLoss",
                                        "FocalLoss" };
    static const char *const words[] = {
        "", "", "", "loss_param { normalization: BATCH_SIZE } ",
        "loss_param { normalization: NONE } ",
        "loss_param { ignore_label: 1 } ",
        "loss_param { normalization: FULL } ",
    };
    struct value *s = scores(d), *y = pick_label(d);
    const int kind = stream_below(&d->r, 5), how = stream_below(&d->r, 7);
    struct ct_text *t;

    if (!s || !y || dim(y, 0) != dim(s, 0) || y->shape.n_axes != 1)
        return false;
    t = open_layer(d, type[kind]);
    add_bottom(d, s);
    add_bottom(d, y);
    add_top(d, false);
    d->blob[d->n_blobs - 1].label = d->blob[d->n_blobs - 1].steps = true;
    if (kind < 3) {
        ct_text_add(t, words[how]);
        d->deals_next = how != 4 && how != 5;
    } else if (kind == 3 && stream_chance(&d->r, 50)) {
        ct_text_add(t, "hinge_loss_param { norm: L2 } ");
    }
    add_weight(d, t);
    if (!close_layer(d))
        return false;
    d->n_losses++;
    return add_accuracy(d, s, y);
}

/* The image of labels that the source gives, or NULL. */
static struct value *label_map(struct drawing *d)
{
    for (int i = 0; i < d->n_blobs; i++)
        if (d->blob[i].label && !d->blob[i].steps &&
            d->blob[i].shape.n_axes == 4)
            return &d->blob[i];
    return NULL;
}

/* A class for each place of an image. */
static bool of_places(struct drawing *d, struct value *y)
{
    static const char *const words[] = {
        "", "loss_param { normalization: BATCH_SIZE } ",
        "loss_param { normalization: FULL } ",
        "loss_param { ignore_label: 1 } ",
    };
    struct value *b = pick(d, 4);
    const int how   = stream_below(&d->r, 4);
    struct ct_text *t;

    if (!b || dim(b, 0) != dim(y, 0) || dim(b, 2) != dim(y, 2) ||
        dim(b, 3) != dim(y, 3))
        return false;
    t = open_layer(d, "Convolution");
    add_bottom(d, b);
    add_top(d, b->batch);
    ct_text_addf(t, "convolution_param { num_output: %d kernel_size: 1 "
                 "weight_filler { type: 'xavier' } } ", d->data.classes);
    if (!close_layer(d))
        return false;
    b = &d->blob[d->n_blobs - 1];
    y = label_map(d);
    t = open_layer(d, "SoftmaxWithLoss");
    add_bottom(d, b);
    add_bottom(d, y);
    ct_text_add(t, words[how]);
    d->deals_next = how != 3;
    return close_loss(d, t);
}

/* Softmax by itself, then a loss on probabilities. */
static bool of_probabilities(struct drawing *d)
{
    struct value *s = scores(d), *y = pick_label(d);
    struct ct_text *t;

    if (!s || !y || dim(y, 0) != dim(s, 0) || y->shape.n_axes != 1)
        return false;
    (void)open_layer(d, "Softmax");
    add_bottom(d, s);
    add_top(d, s->batch);
    if (!close_layer(d))
        return false;
    s = &d->blob[d->n_blobs - 1];
    t = open_layer(d, "MultinomialLogisticLoss");
    add_bottom(d, s);
    add_bottom(d, y);
    return close_loss(d, t);
}

static bool of_two(struct drawing *d)
{
    static const char *const type[] = { "EuclideanLoss", "SmoothL1LossOHEM",
                                        "ContrastiveLoss", "L1Loss",
                                        "SmoothL1Loss" };
    struct value *a = pick(d, 0), *b, *y = pick_label(d);
    const int kind = stream_below(&d->r, 5);
    struct ct_text *t;

    if (!a || a->shape.n_axes < 2)
        return false;
    b = pick_like(d, a);
    if (!b || (kind == 2 && (!y || dim(y, 0) != dim(a, 0) ||
                             y->shape.n_axes != 1 || d->data.classes != 2)))
        return false;
    t = open_layer(d, type[kind]);
    add_bottom(d, a);
    add_bottom(d, b);
    if (kind == 2)
        add_bottom(d, y);
    return close_loss(d, t);
}

static bool of_sigmoid(struct drawing *d)
{
    struct value *a = pick(d, 0), *b;
    struct ct_text *t;

    if (!a || a->shape.n_axes < 2)
        return false;
    b = pick_like(d, a);
    if (!b)
        return false;
    /* Targets between 0 and 1, which no gradient reaches. */
    t = open_layer(d, "Threshold");
    add_bottom(d, b);
    add_top(d, b->batch);
    if (!close_layer(d))
        return false;
    b = &d->blob[d->n_blobs - 1];
    t = open_layer(d, "SigmoidCrossEntropyLoss");
    add_bottom(d, a);
    add_bottom(d, b);
    return close_loss(d, t);
}

/* Each class costs something where another was right. */
static bool of_infogain(struct drawing *d)
{
    struct value *s = scores(d), *y = pick_label(d), *h;
    struct ct_text *t;

    if (!s || !y || dim(y, 0) != dim(s, 0) || y->shape.n_axes != 1 ||
        s->shape.n_axes != 2)
        return false;
    t = open_layer(d, "DummyData");
    add_top(d, false);
    ct_text_addf(t, "dummy_data_param { shape { dim: 1 dim: 1 dim: %d "
                 "dim: %d } data_filler { value: 0.4 } } ", (int)dim(s, 1),
                 (int)dim(s, 1));
    if (!close_layer(d))
        return false;
    h        = &d->blob[d->n_blobs - 1];
    h->label = h->steps = true;
    t = open_layer(d, "InfogainLoss");
    add_bottom(d, s);
    add_bottom(d, y);
    add_bottom(d, h);
    return close_loss(d, t);
}

/* Any number counts as a loss when it has a weight. */
static bool of_numbers(struct drawing *d)
{
    static const char *const how[] = { "SUM", "ASUM", "SUMSQ", "MEAN" };
    struct value *b = pick(d, 0);
    const int64_t n = b ? ct_shape_count(&b->shape, 0, CT_END) : 0;
    struct ct_text *t;

    if (!b)
        return false;
    t = open_layer(d, stream_chance(&d->r, 70) ? "Reduction" : "TanH");
    add_bottom(d, b);
    add_top(d, false);
    d->blob[d->n_blobs - 1].label = d->blob[d->n_blobs - 1].steps = true;
    if (d->layer[d->n_layers].type[0] == 'R')
        ct_text_addf(t, "reduction_param { operation: %s } ",
                     how[stream_below(&d->r, 4)]);
    ct_text_addf(t, "loss_weight: %g ", 0.5 / (double)(n + 1));
    d->deals_next = false;
    if (!close_layer(d))
        return false;
    d->n_losses++;
    return true;
}

/* Centres of classes, which ranks count by themselves. */
static bool of_centres(struct drawing *d)
{
    struct value *b = pick(d, 2), *y = pick_label(d);
    struct ct_text *t;

    if (!b || !y || dim(y, 0) != dim(b, 0) || y->shape.n_axes != 1)
        return false;
    t = open_layer(d, "CenterLoss");
    add_bottom(d, b);
    add_bottom(d, y);
    ct_text_addf(t, "center_loss_param { num_output: %d center_filler { "
                 "type: 'gaussian' std: 0.5 } } ", d->data.classes);
    d->deals_next = false;
    return close_loss(d, t);
}

bool draw_loss(struct drawing *d)
{
    const int kind    = stream_below(&d->r, 12);
    struct value *map = label_map(d);

    if (d->n_layers > MOST_LAYERS - 4 || d->n_blobs > MOST_BLOBS - 8)
        return false;
    if (kind < 8 && can_find_boxes(d))
        return draw_box_loss(d);
    if (map && kind < 8)
        return of_places(d, map);
    if (kind == 11)
        return of_centres(d);
    if (kind == 10)
        return of_infogain(d);
    if (kind < 5)
        return of_classes(d);
    if (kind == 5)
        return of_probabilities(d);
    if (kind < 8)
        return stream_chance(&d->r, 10) ? draw_python_loss(d) : of_two(d);
    return kind == 8 ? of_sigmoid(d) : of_numbers(d);
}
