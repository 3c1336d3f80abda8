/* gradient.c - central differences in double precision.
 *
 * Hooks keep what each layer is given and what it makes, so that work in place
 * hides nothing.  The definitions (define.h) then run the whole net in double,
 * with one value of a parameter a little larger and a little smaller.  Where
 * the loss bends in between (a ReLU at its edge, two equal maxima) no
 * derivative is there to compare, and another value is tried.
 *
 * How far rounding may lead a gradient is found as in judge.c: weights that
 * differ by a few units in the last place show it, parameter by parameter.  A
 * gradient that is far smaller than others is compared as closely as they. */
#include "gradient.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/net.h"
#include "define.h"
#include "edges.h"
#include "train_steps.h"

enum { MOST_TOPS = 64, VALUES = 3, TRIES = 12, NUDGES = 2 };
static const double step    = 1e-5;
static const double share   = 3e-4; /* of the largest gradient of a blob */
static const double allowed = 40;   /* times what a nudge moves */
/* A sum of some hundred products that should be 0 is off by 6e-8 of one, some
 * ten times; products are like gradients of other parameters. */
static const double rounding = 1e-6;
/* Probabilities near 1 are known to 6e-8, and so is what losses hand down,
 * which a weight's gradient has times its layer's bottom. */
static const double smallest = 1e-7;
/* Of a sum over all values of a weighted top, where they cancel. */
static const double cancelled = 2e-7;

/* What a layer was given and made, by the engine and by definition. */
struct seen {
    struct tensor bottom[MOST_TOPS], top[MOST_TOPS]; /* the engine's */
    struct tensor blob[MOST_TOPS];                   /* parameters */
    struct tensor made[MOST_TOPS]; /* by definition, in the pass at hand */
    struct tensor base[MOST_TOPS]; /* bottoms of the pass with no change */
    struct tensor drawn;           /* Dropout's factors */
    double minimised; /* what the gradient is of; NaN: its weighted tops */
};

struct gradient {
    struct ct_net *net;
    struct seen   *seen; /* one a layer */
    double        *noise; /* a parameter's: what a nudge moves; owned */
    bool           edge;  /* a layer stands at one: nothing to compare */
    bool           noted; /* base is there */
    double         mid;   /* the loss, by definition */
    double         largest; /* gradient of all */
    double         weighted; /* values of a top times its loss weight; 0: no
                                top of many values has one */
    int            param; /* the one that is changed */
    int64_t        at;
    char          *why;
    size_t         size;
};

static enum ct_status keep(const struct ct_blob *b, struct tensor *out)
{
    if (!out->v || out->n != b->count) {
        ct_free(out->v);
        CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(double), "tensor",
                        &out->v));
    }
    out->shape = b->shape;
    out->n     = b->count;
    for (int64_t i = 0; i < b->count; i++)
        out->v[i] = (double)ct_data(b)[i];
    return CT_OK;
}

static enum ct_status keep_bottoms(struct ct_net *net, int layer, void *arg)
{
    struct gradient *g    = arg;
    const struct ct_io io = ct_net_io(net, layer);
    const struct ct_layer *l = ct_net_layer(net, layer);

    if (io.n_bottom > MOST_TOPS || io.n_top > MOST_TOPS ||
        l->n_blob > MOST_TOPS)
        return ct_fail(CT_ENOTSUP, "layer %s has too many blobs", l->name);
    g->edge = g->edge || edge_is_near(net, layer);
    for (int i = 0; i < io.n_bottom; i++)
        CT_TRY(keep(io.bottom[i], &g->seen[layer].bottom[i]));
    for (int i = 0; i < l->n_blob; i++)
        CT_TRY(keep(l->blob[i], &g->seen[layer].blob[i]));
    return CT_OK;
}

/* What Dropout draws depends on the layer, the pass and the place alone, so a
 * second forward of ones shows it, also where the bottom is 0. */
static enum ct_status keep_drawn(struct ct_layer *l, const struct ct_blob *x,
                                 struct tensor *out)
{
    struct ct_blob *ones = NULL, *y = NULL;
    const struct ct_io io = { &ones, &y, 1, 1, NULL };
    enum ct_status st;

    CT_TRY_GOTO(ct_blob_create(x->dev, &ones), st, out);
    CT_TRY_GOTO(ct_blob_create(x->dev, &y), st, out);
    CT_TRY_GOTO(ct_reshape(ones, x->shape), st, out);
    CT_TRY_GOTO(ct_reshape(y, x->shape), st, out);
    CT_TRY_GOTO(ct_fill(x->dev, x->count, 1, ct_data(ones)), st, out);
    CT_TRY_GOTO(ct_layer_forward(l, &io), st, out);
    st = keep(y, out);
out:
    ct_blob_destroy(ones);
    ct_blob_destroy(y);
    return st;
}

static enum ct_status keep_tops(struct ct_net *net, int layer, void *arg)
{
    struct gradient *g    = arg;
    const struct ct_io io = ct_net_io(net, layer);

    for (int i = 0; i < io.n_top; i++) {
        CT_TRY(keep(io.top[i], &g->seen[layer].top[i]));
        CT_TRY(keep(io.top[i], &g->seen[layer].made[i]));
    }
    if (strcmp(ct_net_layer(net, layer)->type->name, "Dropout") == 0)
        CT_TRY(keep_drawn(ct_net_layer(net, layer), io.top[0],
                          &g->seen[layer].drawn));
    return CT_OK;
}

static struct definition definition_of(struct gradient *g, int layer,
                                       const struct tensor *bottom)
{
    const struct ct_layer *l = ct_net_layer(g->net, layer);
    const struct ct_io io    = ct_net_io(g->net, layer);
    struct seen *s           = &g->seen[layer];

    s->minimised = NAN;
    return (struct definition){ .param       = l->param,
                                .n_bottom    = io.n_bottom,
                                .n_top       = io.n_top,
                                .n_blob      = l->n_blob,
                                .bottom      = bottom,
                                .blob        = s->blob,
                                .seen_bottom = s->bottom,
                                .seen_top    = s->top,
                                .drawn       = &s->drawn,
                                .top         = s->made,
                                .minimised   = &s->minimised };
}

/* ---- forward, layer by layer ---- */

static bool top_holds(struct gradient *g, int layer, int top)
{
    const struct tensor *want = &g->seen[layer].made[top];
    const struct tensor *got  = &g->seen[layer].top[top];
    double most = 0.1;

    for (int64_t i = 0; i < want->n; i++)
        most = fmax(most, fabs(want->v[i]));
    for (int64_t i = 0; i < want->n; i++)
        if (!(fabs(want->v[i] - got->v[i]) <= 1e-5 * most)) {
            snprintf(g->why, g->size, "forward of layer %s: value %lld of top "
                     "%d is %.7g, by definition %.7g",
                     ct_net_layer(g->net, layer)->name, (long long)i, top,
                     got->v[i], want->v[i]);
            return false;
        }
    return true;
}

static bool forward_holds(struct gradient *g)
{
    for (int l = 0; l < ct_net_n_layers(g->net); l++) {
        const struct ct_layer *layer = ct_net_layer(g->net, l);
        const define_fn fn           = define_find(layer->type->name);
        const struct ct_io io        = ct_net_io(g->net, l);

        if (layer->type->flags & CT_LAYER_SOURCE)
            continue;
        if (!fn) {
            snprintf(g->why, g->size, "type %s has no definition in "
                     "tests/random/define.c", layer->type->name);
            return false;
        }
        const struct definition d = definition_of(g, l, g->seen[l].bottom);

        fn(&d);
        for (int t = 0; t < io.n_top; t++)
            if (!top_holds(g, l, t))
                return false;
    }
    return true;
}

/* ---- the loss of the whole net, by definition ---- */

/* The newest tensor of this blob, from layers before. */
static const struct tensor *made_before(const struct gradient *g, int layer,
                                        int blob)
{
    for (int l = layer - 1; l >= 0; l--)
        for (int t = 0; t < ct_net_io(g->net, l).n_top; t++)
            if (ct_net_top_id(g->net, l, t) == blob)
                return &g->seen[l].made[t];
    return NULL;
}

/* Gradients stop here, so the layer sees the unchanged value.  force_backward
 * lets none stop, as in Caffe. */
static bool stops(const struct gradient *g, const struct ct_layer *l,
                  int bottom)
{
    return !ct_net_param_message(g->net)->force_backward &&
           (size_t)bottom < l->param->n_propagate_down &&
           !l->param->propagate_down[bottom];
}

static enum ct_status note(struct tensor *to, const struct tensor *from)
{
    if (!to->v)
        CT_TRY(ct_alloc((size_t)from->n + 1, sizeof(double), "tensor",
                        &to->v));
    to->shape = from->shape;
    to->n     = from->n;
    memcpy(to->v, from->v, (size_t)from->n * sizeof(double));
    return CT_OK;
}

static double layer_loss(const struct gradient *g, int layer)
{
    const struct ct_layer *l = ct_net_layer(g->net, layer);
    double sum = 0;

    if (!isnan(g->seen[layer].minimised) && l->param->n_loss_weight > 0)
        return g->seen[layer].minimised * (double)l->param->loss_weight[0];
    for (size_t t = 0; t < l->param->n_loss_weight; t++) {
        const struct tensor *y = &g->seen[layer].made[t];

        for (int64_t i = 0; i < y->n; i++)
            sum += y->v[i] * (double)l->param->loss_weight[t];
    }
    return sum;
}

static enum ct_status define_layer(struct gradient *g, int layer)
{
    const struct ct_layer *l = ct_net_layer(g->net, layer);
    const struct ct_io io    = ct_net_io(g->net, layer);
    struct tensor bottom[MOST_TOPS];

    if (l->type->flags & CT_LAYER_SOURCE)
        return CT_OK;
    for (int i = 0; i < io.n_bottom; i++) {
        const struct tensor *from =
            made_before(g, layer, ct_net_bottom_id(g->net, layer, i));

        if (!from)
            return ct_fail(CT_ENOTFOUND, "a bottom of %s is not there",
                           l->name);
        if (!g->noted)
            CT_TRY(note(&g->seen[layer].base[i], from));
        bottom[i] = stops(g, l, i) ? g->seen[layer].base[i] : *from;
    }
    const struct definition d = definition_of(g, layer, bottom);

    define_find(l->type->name)(&d);
    return CT_OK;
}

/* With value g->at of parameter g->param changed by g->change, in every layer
 * that shares it. */
static enum ct_status loss_with(struct gradient *g, double change,
                                double *out)
{
    const struct ct_blob *which = ct_net_param(g->net, g->param)->blob;
    double sum = 0;

    for (int l = 0; l < ct_net_n_layers(g->net); l++) {
        const struct ct_layer *layer = ct_net_layer(g->net, l);

        for (int b = 0; b < layer->n_blob; b++)
            if (ct_data(layer->blob[b]) == ct_data(which))
                g->seen[l].blob[b].v[g->at] += change;
        CT_TRY(define_layer(g, l));
        for (int b = 0; b < layer->n_blob; b++)
            if (ct_data(layer->blob[b]) == ct_data(which))
                g->seen[l].blob[b].v[g->at] -= change;
        sum += layer_loss(g, l);
    }
    g->noted = true;
    *out     = sum;
    return CT_OK;
}

/* ---- gradients ---- */

/* Sums of many weights may be 0, as behind MVN, and then they are rounding and
 * so is every gradient. */
static double weighted_values(const struct gradient *g)
{
    double most = 0;

    for (int l = 0; l < ct_net_n_layers(g->net); l++) {
        const Caffe__LayerParameter *p = ct_net_layer(g->net, l)->param;

        for (size_t t = 0; t < p->n_loss_weight; t++) {
            const double n = (double)g->seen[l].top[t].n;

            if (n > 1)
                most = fmax(most, n * fabs((double)p->loss_weight[t]));
        }
    }
    return most;
}

/* At least 1. */
static double largest_bottom(const struct gradient *g)
{
    const struct ct_net_param *p = ct_net_param(g->net, g->param);
    const struct tensor *x       = &g->seen[p->layer].bottom[0];
    double most = 1;

    for (int64_t i = 0; i < x->n; i++)
        most = fmax(most, fabs(x->v[i]));
    return most;
}

/* 1: holds; 0: does not; -1: the loss bends here. */
static int value_holds(struct gradient *g, double most)
{
    const struct ct_net_param *p = ct_net_param(g->net, g->param);
    const double got = (double)ct_diff(p->blob)[g->at];
    double low = 0, high = 0, want, bend, limit;

    if (loss_with(g, step, &high) != CT_OK ||
        loss_with(g, -step, &low) != CT_OK) {
        snprintf(g->why, g->size, "%s", ct_last_error());
        return 0;
    }
    want  = (high - low) / (2 * step);
    bend  = fabs(high - 2 * g->mid + low) / step;
    limit = share * fmax(fabs(want), most) + allowed * g->noise[g->param] +
            rounding * g->largest + cancelled * g->weighted +
            smallest * largest_bottom(g);
    if (!(bend <= limit))
        return -1;
    if (fabs(want - got) <= limit)
        return 1;
    snprintf(g->why, g->size, "gradient of %s[%d]: value %lld is %.7g, by "
             "central differences %.7g, allowed %.2g",
             ct_net_layer(g->net, p->layer)->name, p->index, (long long)g->at,
             got, want, limit);
    return 0;
}

/* Whether the engine makes this gradient: of what learns, and of what is
 * frozen where force_backward asks for it or a recurrent layer runs back; of
 * one that is shared and frozen, as in Caffe, only that layer's part is made.
 * BatchNorm's parameters are statistics, and CenterLoss's take a step that is
 * no gradient of the loss. */
static bool is_made(const struct gradient *g, const struct ct_net_param *p)
{
    const char *type = ct_net_layer(g->net, p->layer)->type->name;

    if (strcmp(type, "BatchNorm") == 0 || strcmp(type, "CenterLoss") == 0)
        return false;
    return p->lr_mult != 0 || ct_net_param_message(g->net)->force_backward ||
           ((strcmp(type, "LSTM") == 0 || strcmp(type, "RNN") == 0) &&
            p->n_sharers == 1 &&
            ct_net_layer_needs_backward(g->net, p->layer));
}

static bool param_holds(struct gradient *g, struct stream *r)
{
    const struct ct_blob *b = ct_net_param(g->net, g->param)->blob;
    double most = 0;

    for (int64_t k = 0; k < b->count; k++)
        most = fmax(most, fabs((double)ct_diff(b)[k]));
    for (int n = 0, tries = 0; n < VALUES && tries < TRIES; tries++) {
        int holds;

        g->at = stream_below(r, (int)b->count);
        holds = value_holds(g, most);
        if (holds == 0)
            return false;
        n += holds > 0;
    }
    return true;
}

static bool gradients_hold(struct gradient *g, uint64_t seed)
{
    struct stream r = { .key = ct_key(seed, "gradient") };

    for (int i = 0; i < ct_net_n_params(g->net); i++) {
        const struct ct_blob *b = ct_net_param(g->net, i)->blob;

        for (int64_t k = 0; k < b->count; k++)
            g->largest = fmax(g->largest, fabs((double)ct_diff(b)[k]));
    }
    g->weighted = weighted_values(g);
    g->param    = 0;
    g->at       = 0;
    if (ct_net_n_params(g->net) > 0 && loss_with(g, 0, &g->mid) != CT_OK) {
        snprintf(g->why, g->size, "%s", ct_last_error());
        return false;
    }
    for (int i = 0; i < ct_net_n_params(g->net); i++) {
        g->param = i;
        if (is_made(g, ct_net_param(g->net, i)) && !param_holds(g, &r))
            return false;
    }
    return true;
}

static void gradient_fini(struct gradient *g)
{
    for (int l = 0; g->seen && l < ct_net_n_layers(g->net); l++)
        for (int i = 0; i < MOST_TOPS; i++) {
            ct_free(g->seen[l].bottom[i].v);
            ct_free(g->seen[l].top[i].v);
            ct_free(g->seen[l].blob[i].v);
            ct_free(g->seen[l].made[i].v);
            ct_free(g->seen[l].base[i].v);
            if (i == 0)
                ct_free(g->seen[l].drawn.v);
        }
    ct_free(g->seen);
    ct_free(g->noise);
    ct_net_destroy(g->net);
}

static bool has_type(const struct ct_net *net, const char *type)
{
    for (int i = 0; i < ct_net_n_layers(net); i++)
        if (strcmp(ct_net_layer(net, i)->type->name, type) == 0)
            return true;
    return false;
}

static enum ct_status pass(struct ct_net *net)
{
    CT_TRY(ct_net_clear_diffs(net));
    CT_TRY(ct_net_forward(net, NULL));
    return ct_net_backward(net);
}

/* The pass that counts is the second: the first must leave nothing behind that
 * changes it, such as a gradient in the place of a loss weight.  Definitions of
 * recurrent layers begin with no state, so there it is the first. */
static enum ct_status first_pass(const struct drawn *c, struct ct_net *net)
{
    CT_TRY(data_feed(c, net));
    return has_type(net, "LSTM") || has_type(net, "RNN") ? CT_OK : pass(net);
}

/* Widens the noise by what one nudge moves. */
static enum ct_status feel(const struct drawn *c, struct gradient *g,
                           const struct ct_net_options *o, int nudge)
{
    struct ct_net *net = NULL;
    enum ct_status st;

    CT_TRY(ct_net_create(c->solver->net_param, o, &net));
    train_nudge(net, nudge);
    st = first_pass(c, net);
    if (st == CT_OK)
        st = pass(net);
    for (int i = 0; st == CT_OK && i < ct_net_n_params(net); i++) {
        const struct ct_blob *a = ct_net_param(net, i)->blob;
        const struct ct_blob *b = ct_net_param(g->net, i)->blob;

        for (int64_t k = 0; k < a->count; k++)
            g->noise[i] = fmax(g->noise[i], fabs((double)ct_diff(a)[k] -
                                                 (double)ct_diff(b)[k]));
    }
    ct_net_destroy(net);
    return st;
}

/* The gradient, with everything that led to it. */
static enum ct_status run(const struct drawn *c, struct gradient *g)
{
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN,
                                      .seed = c->seed, .quiet = true,
                                      .keep_blobs = true };
    const struct ct_net_hooks hooks = { .before_forward = keep_bottoms,
                                        .after_forward = keep_tops,
                                        .arg = g };
    enum ct_status st;

    CT_TRY(ct_net_create(c->solver->net_param, &o, &g->net));
    g->seen  = ct_calloc((size_t)ct_net_n_layers(g->net), sizeof(*g->seen),
                         "seen");
    g->noise = ct_calloc((size_t)ct_net_n_params(g->net) + 1,
                         sizeof(*g->noise), "noise");
    if (!g->seen || !g->noise)
        return CT_ENOMEM;
    /* From the start, because a net with other hooks gets other memory. */
    ct_net_set_hooks(g->net, &hooks);
    CT_TRY(first_pass(c, g->net));
    g->edge = false;
    st      = pass(g->net);
    /* A Filter may select too few items for the layers behind it. */
    if (st != CT_OK && has_type(g->net, "Filter")) {
        g->edge = true;
        return CT_OK;
    }
    CT_TRY(st);
    for (int i = 1; i <= NUDGES; i++)
        CT_TRY(feel(c, g, &o, i));
    return CT_OK;
}

bool gradient_holds(const struct drawn *c, char *why, size_t size)
{
    struct gradient g = { .why = why, .size = size };
    bool holds;

    setenv("CORTADO_IMPL", draw_plainest, 1);
    if (run(c, &g) != CT_OK) {
        snprintf(why, size, "%s", ct_last_error());
        holds = false;
    } else {
        holds = g.edge || (forward_holds(&g) && gradients_hold(&g, c->seed));
    }
    gradient_fini(&g);
    return holds;
}
