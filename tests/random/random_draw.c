/* random_draw.c - draws a net layer by layer, its parameters' specs, its
 * solver. */
#include "random_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/access.h"
#include "cortado/net.h"
#include "drawing.h"
#include "edges.h"

/* Values beyond this make losses that float32 cannot compare. */
static const double widest = 30;

int stream_below(struct stream *s, int n)
{
    return (int)(ct_philox_word(s->key, 0, s->at++) % (uint32_t)n);
}

bool stream_chance(struct stream *s, int percent)
{
    return stream_below(s, 100) < percent;
}

double stream_between(struct stream *s, double low, double high)
{
    double x = low + (high - low) * (double)ct_uniform(s->key, 1, s->at++);

    return round(x * 1000) / 1000;
}

int64_t dim(const struct value *b, int axis)
{
    return axis < b->shape.n_axes ? b->shape.dim[axis] : 1;
}

/* The newest blob of each name is the one that layers see. */
static bool visible(const struct drawing *d, int i)
{
    for (int j = i + 1; j < d->n_blobs; j++)
        if (strcmp(d->blob[i].name, d->blob[j].name) == 0)
            return false;
    return true;
}

/* The one that most layers read already: gradients of many come together. */
static struct value *pick_popular(struct drawing *d, int axes)
{
    struct value *found = NULL;

    for (int i = 0; i < d->n_blobs; i++) {
        struct value *b = &d->blob[i];

        if (!b->label && !b->steps && visible(d, i) && b->name[0] == 'b' &&
            (!axes || b->shape.n_axes == axes) && b->readers > 0 &&
            (!found || b->readers > found->readers))
            found = b;
    }
    return found;
}

struct value *pick(struct drawing *d, int axes)
{
    struct value *found = stream_chance(&d->r, 12) ? pick_popular(d, axes)
                                                   : NULL;
    int n = 0;
    const bool fresh = stream_chance(&d->r, 75);

    for (int turn = fresh ? 0 : 1; turn < 2 && !found; turn++)
        for (int i = 0; i < d->n_blobs; i++) {
            struct value *b = &d->blob[i];

            if (b->label || b->steps || !visible(d, i) ||
                (axes && b->shape.n_axes != axes) ||
                (turn == 0 && b->readers > 0))
                continue;
            if (stream_below(&d->r, ++n) == 0)
                found = b;
        }
    return found;
}

struct value *pick_like(struct drawing *d, const struct value *like)
{
    struct value *found = NULL;
    int n = 0;

    for (int i = 0; i < d->n_blobs; i++) {
        struct value *b = &d->blob[i];

        if (b != like && !b->label && !b->steps && visible(d, i) &&
            ct_shape_equal(&b->shape, &like->shape) &&
            stream_below(&d->r, ++n) == 0)
            found = b;
    }
    return found;
}

struct value *pick_label(struct drawing *d)
{
    struct value *found = NULL;
    int n = 0;

    for (int i = 0; i < d->n_blobs; i++)
        if (d->blob[i].label && !d->blob[i].steps && visible(d, i) &&
            stream_below(&d->r, ++n) == 0)
            found = &d->blob[i];
    return found;
}

struct ct_text *open_layer(struct drawing *d, const char *type)
{
    struct piece *p = &d->layer[d->n_layers];

    memset(p, 0, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "l%d", d->n_layers);
    snprintf(p->type, sizeof(p->type), "%s", type);
    ct_text_addf(&p->text, "name: '%s' type: '%s' ", p->name, type);
    d->deals_next = true;
    d->first_top  = d->n_blobs;
    d->n_bottoms  = 0;
    d->weighs     = 3;
    return &p->text;
}

void add_bottom(struct drawing *d, struct value *b)
{
    struct piece *p = &d->layer[d->n_layers];

    ct_text_addf(&p->text, "bottom: '%s' ", b->name);
    if (d->n_bottoms < MOST_PARAMS)
        d->bottom_is_label[d->n_bottoms++] = b->label || b->steps;
    if (!p->from[0])
        snprintf(p->from, sizeof(p->from), "%s", b->name);
    b->readers++;
}

void name_top(struct drawing *d, const char *name, bool batch)
{
    struct value *b = &d->blob[d->n_blobs++];

    memset(b, 0, sizeof(*b));
    snprintf(b->name, sizeof(b->name), "%s", name);
    b->batch = batch;
    ct_text_addf(&d->layer[d->n_layers].text, "top: '%s' ", name);
}

void add_top(struct drawing *d, bool batch)
{
    char name[16];

    snprintf(name, sizeof(name), "b%d", d->n_names++);
    name_top(d, name, batch);
}

void add_top_or_in_place(struct drawing *d, struct value *b)
{
    char name[16];
    const struct ct_layer_type *type =
        ct_layer_find(d->layer[d->n_layers].type);

    /* Constant DummyData is filled once, so work in place changes what the
     * next pass finds, as in Caffe (tests/compat/in_place_constant.prototxt).
     * Neither a resumed run nor a second net can know of it. */
    if (type && (type->flags & CT_LAYER_INPLACE) &&
        strcmp(b->name, "u") != 0 && stream_chance(&d->r, 50)) {
        snprintf(name, sizeof(name), "%s", b->name);
        name_top(d, name, b->batch);
    } else {
        add_top(d, b->batch);
    }
}

void add_filler(struct drawing *d, struct ct_text *t, const char *field)
{
    switch (stream_below(&d->r, 4)) {
    case 0:
        ct_text_addf(t, "%s { type: 'uniform' min: -0.4 max: 0.5 } ", field);
        break;
    case 1:
        ct_text_addf(t, "%s { type: 'gaussian' std: 0.3 } ", field);
        break;
    default:
        ct_text_addf(t, "%s { type: 'xavier' } ", field);
    }
}

static void print_specs(struct ct_text *t, const struct piece *p)
{
    int last = -1;

    for (int i = 0; i < p->n_params; i++)
        if (p->spec[i].given || p->spec[i].name[0])
            last = i;
    for (int i = 0; i <= last; i++) {
        const struct spec *s = &p->spec[i];

        ct_text_add(t, "param { ");
        if (s->name[0])
            ct_text_addf(t, "name: '%s' ", s->name);
        if (s->permissive)
            ct_text_add(t, "share_mode: PERMISSIVE ");
        if (s->has_lr)
            ct_text_addf(t, "lr_mult: %g ", (double)s->lr);
        if (s->has_decay)
            ct_text_addf(t, "decay_mult: %g ", (double)s->decay);
        ct_text_add(t, "} ");
    }
}

static enum ct_status net_message(const struct drawing *d,
                                  Caffe__NetParameter **out)
{
    struct ct_text t = { 0 };
    enum ct_status st;

    ct_text_add(&t, "name: 'random' ");
    if (d->force_backward)
        ct_text_add(&t, "force_backward: true ");
    for (int i = 0; i < d->n_layers; i++) {
        ct_text_addf(&t, "layer { %s", d->layer[i].text.s);
        print_specs(&t, &d->layer[i]);
        ct_text_add(&t, "}\n");
    }
    st = t.failed ? ct_fail(CT_ENOMEM, "no memory for a net")
                  : ct_text_parse(&caffe__net_parameter__descriptor, t.s,
                                  t.n_bytes, "drawn", out);
    ct_text_fini(&t);
    return st;
}

/* Shapes of the newest layer's tops and parameters; values are in range. */
static bool take_shapes(struct drawing *d, struct ct_net *net, int n_before)
{
    struct piece *p = &d->layer[d->n_layers - 1];
    const int at    = ct_net_find_layer(net, p->name);
    const struct ct_layer *l = ct_net_layer(net, at);

    if (l->n_blob > MOST_PARAMS)
        return false;
    p->n_params = l->n_blob;
    for (int i = 0; i < l->n_blob; i++)
        p->shape[i] = l->blob[i]->shape;
    for (int i = n_before; i < d->n_blobs; i++) {
        const int id = ct_net_find_blob(net, d->blob[i].name);
        const struct ct_blob *b = id < 0 ? NULL : ct_net_blob(net, id);

        if (!b || b->count == 0 || b->count > 6000)
            return false;
        d->blob[i].shape = b->shape;
        for (int64_t k = 0; k < b->count; k++)
            if (!(fabs((double)ct_data(b)[k]) <= widest))
                return false;
    }
    return true;
}

static enum ct_status refuse_edges(struct ct_net *net, int layer, void *arg)
{
    (void)arg;
    return edge_is_near(net, layer)
               ? ct_fail(CT_EINVAL, "layer %s is at an edge",
                         ct_net_layer(net, layer)->name)
               : CT_OK;
}

/* Builds and runs the net so far.  Prefetching sources have threads, so each
 * build costs a little; nets are small. */
static bool try_net(struct drawing *d, int n_before)
{
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN,
                                      .seed = d->out->seed, .quiet = true,
                                      .keep_blobs = true };
    const struct ct_net_hooks hooks = { .before_forward = refuse_edges };
    Caffe__NetParameter *m = NULL;
    struct ct_net *net     = NULL;
    bool ok = net_message(d, &m) == CT_OK &&
              ct_net_create(m, &o, &net) == CT_OK;

    if (ok)
        ct_net_set_hooks(net, &hooks);
    ok = ok && data_feed(d->out, net) == CT_OK &&
         ct_net_forward(net, NULL) == CT_OK &&
         take_shapes(d, net, n_before);

    ct_net_destroy(net);
    ct_message_free(m);
    return ok;
}

static bool fits(const struct ct_shape *a, const struct ct_shape *b,
                 bool loose)
{
    return loose ? ct_shape_count(a, 0, CT_END) == ct_shape_count(b, 0, CT_END)
                 : ct_shape_equal(a, b);
}

/* Statistics and centres of classes are no weights. */
static bool may_share(const char *type)
{
    return strcmp(type, "BatchNorm") != 0 && strcmp(type, "CenterLoss") != 0;
}

/* Parameters of other layers that have the shape of this one, or, with
 * share_mode: PERMISSIVE, as many values. */
static void share(struct drawing *d, int param)
{
    struct piece *mine = &d->layer[d->n_layers - 1];
    struct spec before = mine->spec[param];
    const bool loose   = stream_chance(&d->r, 25);
    int n = 0, layer = -1, index = -1;

    for (int l = 0; l < d->n_layers - 1; l++)
        for (int i = 0; i < d->layer[l].n_params; i++)
            if (fits(&d->layer[l].shape[i], &mine->shape[param], loose) &&
                may_share(d->layer[l].type) &&
                stream_below(&d->r, ++n) == 0) {
                layer = l;
                index = i;
            }
    if (layer < 0)
        return;
    struct spec *theirs = &d->layer[layer].spec[index];
    const struct spec theirs_before = *theirs;

    if (!theirs->name[0])
        snprintf(theirs->name, sizeof(theirs->name), "s%d", d->n_names++);
    mine->spec[param] = *theirs;
    mine->spec[param].permissive = loose;
    /* Multipliers may be left to the owner. */
    if (stream_chance(&d->r, 50))
        mine->spec[param].has_lr = mine->spec[param].has_decay = false;
    if (!try_net(d, d->n_blobs)) {
        mine->spec[param] = before;
        *theirs           = theirs_before;
    }
}

static void draw_specs(struct drawing *d)
{
    static const float rate[] = { 0, 0, 1, 2, 0.5 }, decay[] = { 0, 1, 2 };
    struct piece *p = &d->layer[d->n_layers - 1];
    const bool fixed = strcmp(p->type, "BatchNorm") == 0;

    for (int i = 0; i < p->n_params && !fixed; i++) {
        struct spec *s = &p->spec[i];

        s->has_lr    = stream_chance(&d->r, 25);
        s->has_decay = stream_chance(&d->r, 20);
        s->lr        = rate[stream_below(&d->r, 5)];
        s->decay     = decay[stream_below(&d->r, 3)];
        s->given     = s->has_lr || s->has_decay;
    }
    for (int i = 0; i < p->n_params && may_share(p->type); i++)
        if (stream_chance(&d->r, 35))
            share(d, i);
}

/* Where gradients stop, though they could go on. */
static void draw_propagate_down(struct drawing *d, struct ct_text *t)
{
    if (d->n_bottoms == 0 || strstr(t->s, "propagate_down") ||
        !stream_chance(&d->r, 6))
        return;
    for (int i = 0; i < d->n_bottoms; i++)
        ct_text_addf(t, "propagate_down: %s ",
                     !d->bottom_is_label[i] && stream_chance(&d->r, 40)
                         ? "true" : "false");
}

/* A top may count as a loss and be read all the same.  Its sum is of all
 * samples, so ranks cannot share them. */
static void draw_loss_weight(struct drawing *d, struct ct_text *t)
{
    if (d->n_bottoms == 0 || d->n_blobs == d->first_top ||
        strstr(t->s, "loss_weight") || !stream_chance(&d->r, d->weighs))
        return;
    for (int i = d->first_top; i < d->n_blobs; i++) {
        if (d->blob[i].label || d->blob[i].steps)
            return;
    }
    for (int i = d->first_top; i < d->n_blobs; i++)
        ct_text_addf(t, "loss_weight: %g ",
                     stream_chance(&d->r, 70)
                         ? stream_between(&d->r, 0.001, 0.02) : 0.0);
    d->deals_next = false;
}

bool close_layer(struct drawing *d)
{
    struct ct_text *t = &d->layer[d->n_layers].text;

    draw_propagate_down(d, t);
    draw_loss_weight(d, t);
    d->n_layers++;
    if (t->failed || !try_net(d, d->first_top)) {
        d->n_layers--;
        ct_text_fini(&d->layer[d->n_layers].text);
        d->n_blobs = d->first_top;
        return false;
    }
    d->out->deals = d->out->deals && d->deals_next;
    draw_specs(d);
    return true;
}

/* ---- the solver ---- */

static void add_policy(struct drawing *d, struct ct_text *t)
{
    static const char *const policy[] = {
        "lr_policy: 'fixed'",
        "lr_policy: 'step' gamma: 0.5 stepsize: 2",
        "lr_policy: 'exp' gamma: 0.9",
        "lr_policy: 'inv' gamma: 0.1 power: 0.75",
        "lr_policy: 'multistep' gamma: 0.5 stepvalue: 1 stepvalue: 3",
        "lr_policy: 'poly' power: 1.5",
        "lr_policy: 'sigmoid' gamma: -0.5 stepsize: 2",
        "lr_policy: 'fixed' warmup_iter: 2 warmup_start_lr: 0.001",
    };

    ct_text_addf(t, "%s ", policy[stream_below(&d->r, 8)]);
}

/* Rules that divide by the size of a gradient get a delta that keeps
 * gradients of pure rounding from becoming steps. */
static void add_rule(struct drawing *d, struct ct_text *t)
{
    static const char *const rule[] = {
        "type: 'SGD' momentum: 0.9", "type: 'SGD'",
        "type: 'SGD' momentum: 0.5", "type: 'SGD' momentum: 0.9",
        "type: 'Nesterov' momentum: 0.9",
        "type: 'AdaGrad' delta: 0.05",
        "type: 'RMSProp' delta: 0.05 rms_decay: 0.9",
        "type: 'AdaDelta' delta: 0.01 momentum: 0.9",
        "type: 'Adam' delta: 0.05 momentum: 0.9 momentum2: 0.99",
        "type: 'AdamW' delta: 0.05 momentum: 0.9 momentum2: 0.99",
    };

    ct_text_addf(t, "%s ", rule[stream_below(&d->r, 10)]);
}

/* A bias in front of such a layer has a gradient of nothing but rounding, and
 * L1 takes the sign of what that has made of a bias of 0. */
static bool normalises(const Caffe__NetParameter *net)
{
    static const char *const type[] = { "BatchNorm", "BN", "MVN",
                                        "GroupNorm" };

    for (size_t i = 0; i < net->n_layer; i++)
        for (size_t k = 0; k < sizeof(type) / sizeof(type[0]); k++)
            if (strcmp(net->layer[i]->type, type[k]) == 0)
                return true;
    return false;
}

static enum ct_status draw_solver(struct drawing *d, Caffe__NetParameter *net)
{
    struct ct_text t = { 0 };
    Caffe__SolverParameter *s = NULL;
    enum ct_status st;

    ct_text_addf(&t, "base_lr: %g max_iter: %d random_seed: %d "
                 "snapshot_after_train: false snapshot_prefix: '%s/snap' ",
                 stream_between(&d->r, 0.005, 0.08),
                 2 + stream_below(&d->r, 4), 1 + stream_below(&d->r, 1000),
                 d->folder);
    add_policy(d, &t);
    add_rule(d, &t);
    if (stream_chance(&d->r, 60))
        ct_text_addf(&t, "weight_decay: %g ",
                     stream_between(&d->r, 0.001, 0.1));
    if (stream_chance(&d->r, 20) && !normalises(net))
        ct_text_add(&t, "regularization_type: 'L1' ");
    if (stream_chance(&d->r, 20))
        ct_text_addf(&t, "clip_gradients: %g ",
                     stream_between(&d->r, 0.05, 2));
    if (stream_chance(&d->r, 25))
        ct_text_addf(&t, "iter_size: %d ", 2 + stream_below(&d->r, 2));
    if (stream_chance(&d->r, 50))
        ct_text_add(&t, "snapshot_format: HDF5 ");
    if (stream_chance(&d->r, 5))
        ct_text_add(&t, "debug_info: true ");
    if (d->out->has_test)
        ct_text_addf(&t, "test_iter: %d test_interval: %d "
                     "test_initialization: %s ", 1 + stream_below(&d->r, 3),
                     1 + stream_below(&d->r, 3),
                     stream_chance(&d->r, 50) ? "true" : "false");
    st = ct_text_parse(&caffe__solver_parameter__descriptor, t.s, t.n_bytes,
                       "drawn", &s);
    ct_text_fini(&t);
    CT_TRY(st);
    s->net_param   = net;
    d->out->solver = s;
    return CT_OK;
}

/* ---- a case ---- */

static void draw_data(struct drawing *d)
{
    static const int batch[]    = { 1, 2, 3, 4, 5, 6, 8, 12 };
    static const int channels[] = { 1, 2, 3, 4, 5, 8, 16, 17, 32 };
    const bool flat = stream_chance(&d->r, 20);

    d->out->batch    = batch[stream_below(&d->r, 8)];
    d->data.channels = channels[stream_below(&d->r, stream_chance(&d->r, 70)
                                                        ? 6 : 9)];
    d->data.height   = flat ? 1 : 1 + stream_below(&d->r, 9);
    d->data.width    = flat ? 1 : 1 + stream_below(&d->r, 9);
    d->data.width2   = 1 + stream_below(&d->r, 20);
    d->data.classes  = 2 + stream_below(&d->r, 4);
    d->data.rows     = 2 * d->out->batch + stream_below(&d->r, 7);
    d->data.time     = 1 + stream_below(&d->r, 3);
    d->data.batch    = d->out->batch;
    d->wide          = stream_chance(&d->r, 15);
    if (d->wide && stream_chance(&d->r, 50))
        d->data.channels = 16;
}

/* Any number of ranks for any number of micro-batches, as long as every rank
 * has one. */
static void draw_canonical(struct drawn *c)
{
    struct stream r = { .key = ct_key(c->seed, "canonical") };
    int n = 0;

    c->parts = 1;
    for (int v = 2; v <= c->batch; v++)
        if (c->batch % v == 0 && stream_below(&r, ++n) == 0)
            c->parts = v;
    c->canonical_ranks = c->parts > 1 ? 2 + stream_below(&r, c->parts - 1) : 1;
}

static bool draw_layers(struct drawing *d)
{
    const int wanted = 3 + stream_below(&d->r, 14);

    for (int i = 0; i < 4 * wanted && d->n_layers < wanted &&
                    d->n_layers < MOST_LAYERS - 8; i++)
        (void)draw_layer(d);
    for (int i = 0; i < 12 && d->n_losses < 1; i++)
        (void)draw_loss(d);
    for (int i = 0; i < 2; i++)
        if (stream_chance(&d->r, 30) && d->n_layers < MOST_LAYERS - 3)
            (void)draw_loss(d);
    return d->n_losses > 0;
}

void draw_fini(struct drawn *c)
{
    ct_message_free(c->solver);
    ct_free(c->arrays[0]);
    ct_free(c->arrays[1]);
    *c = (struct drawn){ 0 };
}

enum ct_status draw_case(uint64_t seed, const char *folder, struct drawn *out)
{
    struct drawing *d = ct_calloc(1, sizeof(*d), "drawing");
    Caffe__NetParameter *net = NULL;
    enum ct_status st;

    *out = (struct drawn){ .seed = seed, .deals = true };
    if (!d)
        return ct_fail(CT_ENOMEM, "no memory to draw a net");
    setenv("CORTADO_IMPL", draw_plainest, 1);
    d->r      = (struct stream){ .key = ct_key(seed, "random net") };
    d->out    = out;
    d->folder = folder;
    draw_data(d);
    draw_canonical(out);
    out->has_test     = stream_chance(&d->r, 40);
    d->force_backward = stream_chance(&d->r, 10);
    CT_TRY_GOTO(data_write(seed, folder, &d->data), st, out);
    if (!draw_sources(d) || !draw_layers(d)) {
        st = ct_fail(CT_ENOTFOUND, "seed %llu gives no net: %s",
                     (unsigned long long)seed, ct_last_error());
        goto out;
    }
    CT_TRY_GOTO(net_message(d, &net), st, out);
    st = draw_solver(d, net);
    if (st != CT_OK)
        ct_message_free(net);
out:
    for (int i = 0; i < d->n_layers; i++)
        ct_text_fini(&d->layer[i].text);
    ct_free(d);
    return st;
}
