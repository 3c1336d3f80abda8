/* gradient.c - central differences in double precision.
 *
 * Hooks keep what each layer is given and what it makes, so that work in place
 * hides nothing.  The definitions (define.h) then run the whole net in double,
 * with one value of a parameter a little larger and a little smaller.  Where
 * the loss bends in between (a ReLU at its edge, two equal maxima) no
 * derivative is there to compare, and the value is passed over. */
#include "gradient.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/net.h"
#include "define.h"

enum { MOST_TOPS = 8, VALUES = 3 };
static const double step = 1e-5;

/* What a layer was given and made, by the engine and by definition. */
struct seen {
    struct tensor bottom[MOST_TOPS], top[MOST_TOPS]; /* the engine's */
    struct tensor blob[MOST_TOPS];                   /* parameters */
    struct tensor made[MOST_TOPS]; /* by definition, in the pass at hand */
    struct tensor base[MOST_TOPS]; /* bottoms of the pass with no change */
};

struct gradient {
    struct ct_net *net;
    struct seen   *seen; /* one a layer */
    bool           noted; /* base is there */
    double         largest; /* gradient of all */
    double         change;
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
    for (int i = 0; i < io.n_bottom; i++)
        CT_TRY(keep(io.bottom[i], &g->seen[layer].bottom[i]));
    for (int i = 0; i < l->n_blob; i++)
        CT_TRY(keep(l->blob[i], &g->seen[layer].blob[i]));
    return CT_OK;
}

static enum ct_status keep_tops(struct ct_net *net, int layer, void *arg)
{
    struct gradient *g    = arg;
    const struct ct_io io = ct_net_io(net, layer);

    for (int i = 0; i < io.n_top; i++) {
        CT_TRY(keep(io.top[i], &g->seen[layer].top[i]));
        CT_TRY(keep(io.top[i], &g->seen[layer].made[i]));
    }
    return CT_OK;
}

static struct definition definition_of(struct gradient *g, int layer,
                                       const struct tensor *bottom)
{
    const struct ct_layer *l = ct_net_layer(g->net, layer);
    const struct ct_io io    = ct_net_io(g->net, layer);
    struct seen *s           = &g->seen[layer];

    return (struct definition){ .param    = l->param,
                                .n_bottom = io.n_bottom,
                                .n_top    = io.n_top,
                                .n_blob   = l->n_blob,
                                .bottom   = bottom,
                                .blob     = s->blob,
                                .seen_bottom = s->bottom,
                                .seen_top    = s->top,
                                .top         = s->made };
}

/* ---- forward, layer by layer ---- */

static bool top_holds(struct gradient *g, int layer, int top)
{
    const struct tensor *want = &g->seen[layer].made[top];
    const struct tensor *got  = &g->seen[layer].top[top];
    double most = 0.1;

    for (int64_t i = 0; i < want->n; i++)
        most = fmax(most, fabs(want->v[i]));
    /* SegNet's BN divides by sqrt(1e-9) where values do not differ. */
    if (strcmp(ct_net_layer(g->net, layer)->type->name, "BN") == 0)
        most *= 100;
    for (int64_t i = 0; i < want->n; i++)
        if (!(fabs(want->v[i] - got->v[i]) <= 1e-4 * most)) {
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

/* What a gradient may be off by: one part in two hundred of the largest of its
 * blob, since those near zero are sums of larger parts. */
static bool value_holds(struct gradient *g, double most)
{
    const struct ct_net_param *p = ct_net_param(g->net, g->param);
    const double got = (double)ct_diff(p->blob)[g->at];
    double low = 0, high = 0, mid = 0, up, down, want;

    if (loss_with(g, 0, &mid) != CT_OK ||
        loss_with(g, step, &high) != CT_OK ||
        loss_with(g, -step, &low) != CT_OK) {
        snprintf(g->why, g->size, "%s", ct_last_error());
        return false;
    }
    up   = (high - mid) / step;
    down = (mid - low) / step;
    want = (high - low) / (2 * step);
    if (!(fabs(up - down) <= 1e-3 * (fabs(up) + fabs(down)) + 1e-5))
        return true; /* it bends here */
    if (fabs(want - got) <= 5e-3 * fmax(fabs(want), most) +
                                1e-4 * g->largest + 1e-5)
        return true;
    snprintf(g->why, g->size, "gradient of %s[%d]: value %lld is %.7g, by "
             "central differences %.7g", ct_net_layer(g->net, p->layer)->name,
             p->index, (long long)g->at, got, want);
    return false;
}

/* What Dropout draws is known by what became of its bottom, but not where
 * that is zero.  ContrastiveLoss has a gradient for distances that are a little
 * longer, as Caffe's has, and MVN takes the variance of values that do not
 * differ for 1. */
static bool is_blind(const struct gradient *g)
{
    for (int l = 0; l < ct_net_n_layers(g->net); l++) {
        const struct tensor *x = &g->seen[l].bottom[0];

        const char *type       = ct_net_layer(g->net, l)->type->name;

        if (strcmp(type, "ContrastiveLoss") == 0 || strcmp(type, "MVN") == 0)
            return true;
        if (strcmp(type, "Dropout") != 0)
            continue;
        for (int64_t i = 0; i < x->n; i++)
            if (x->v[i] == 0)
                return true;
    }
    return false;
}

/* Whether the engine makes this gradient: of what learns, and of what is
 * frozen where force_backward asks for it or a recurrent layer runs back.
 * BatchNorm's parameters are statistics. */
static bool is_made(const struct gradient *g, const struct ct_net_param *p)
{
    const char *type = ct_net_layer(g->net, p->layer)->type->name;

    if (strcmp(type, "BatchNorm") == 0)
        return false;
    return p->lr_mult != 0 || ct_net_param_message(g->net)->force_backward ||
           ((strcmp(type, "LSTM") == 0 || strcmp(type, "RNN") == 0) &&
            ct_net_layer_needs_backward(g->net, p->layer));
}

static bool gradients_hold(struct gradient *g, uint64_t seed)
{
    struct stream r = { .key = ct_key(seed, "gradient") };

    for (int i = 0; i < ct_net_n_params(g->net); i++) {
        const struct ct_blob *b = ct_net_param(g->net, i)->blob;

        for (int64_t k = 0; k < b->count; k++)
            g->largest = fmax(g->largest, fabs((double)ct_diff(b)[k]));
    }
    for (int i = 0; i < ct_net_n_params(g->net); i++) {
        const struct ct_net_param *p = ct_net_param(g->net, i);
        double most = 0;

        if (!is_made(g, p))
            continue;
        for (int64_t k = 0; k < p->blob->count; k++)
            most = fmax(most, fabs((double)ct_diff(p->blob)[k]));
        g->param = i;
        for (int k = 0; k < VALUES; k++) {
            g->at = stream_below(&r, (int)p->blob->count);
            if (!value_holds(g, most))
                return false;
        }
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
        }
    ct_free(g->seen);
    ct_net_destroy(g->net);
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

    CT_TRY(ct_net_create(c->solver->net_param, &o, &g->net));
    CT_TRY(ct_alloc((size_t)ct_net_n_layers(g->net), sizeof(*g->seen), "seen",
                    &g->seen));
    memset(g->seen, 0, (size_t)ct_net_n_layers(g->net) * sizeof(*g->seen));
    ct_net_set_hooks(g->net, &hooks);
    CT_TRY(ct_net_clear_diffs(g->net));
    CT_TRY(ct_net_forward(g->net, NULL));
    return ct_net_backward(g->net);
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
        holds = forward_holds(&g) &&
                (is_blind(&g) || gradients_hold(&g, c->seed));
    }
    gradient_fini(&g);
    return holds;
}
