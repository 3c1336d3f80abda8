/* layer.c - one layer's life: create, set up, run, destroy. */
#include "cortado/layer.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "core/filler.h"
#include "layers/twin.h"
#include "proto/nearest.h"

static enum ct_status layer_grow(struct ct_layer *l, struct ct_blob ***list,
                                 int *n, struct ct_blob **out)
{
    struct ct_blob **more =
        ct_realloc(*list, ((size_t)*n + 1) * sizeof(*more), "layer blobs");

    if (!more)
        return CT_ENOMEM;
    *list = more;
    CT_TRY(ct_blob_create(l->dev, &more[*n]));
    more[*n]->name = l->name;
    *out           = more[(*n)++];
    return CT_OK;
}

/* Fillers run on the host, wherever the blob is. */
static enum ct_status fill_blob(const Caffe__FillerParameter *fill,
                                uint64_t key, uint64_t stream,
                                struct ct_blob *b)
{
    struct ct_blob *host = NULL;
    enum ct_status st;

    if (b->dev->kind == CT_CPU)
        return ct_filler_run(fill, key, stream, b);
    CT_TRY(ct_blob_create(ct_device_cpu(), &host));
    host->no_diff = true;
    CT_TRY_GOTO(ct_reshape(host, b->shape), st, out);
    CT_TRY_GOTO(ct_filler_run(fill, key, stream, host), st, out);
    st = ct_blob_put(b, false, ct_data(host));
out:
    ct_blob_destroy(host);
    return st;
}

enum ct_status ct_layer_add_blob(struct ct_layer *l, struct ct_shape shape,
                                 const Caffe__FillerParameter *fill)
{
    struct ct_blob *b;
    bool *wants;

    wants = ct_realloc(l->blob_wants_grad,
                       ((size_t)l->n_blob + 1) * sizeof(*wants), "layer blobs");
    if (!wants)
        return CT_ENOMEM;
    l->blob_wants_grad  = wants;
    wants[l->n_blob]    = true;
    CT_TRY(layer_grow(l, &l->blob, &l->n_blob, &b));
    b->planned = l->twin != NULL; /* then the caller has its memory */
    if (l->twin)
        return ct_reshape(b, shape);
    if (ct_reshape(b, shape) != CT_OK ||
        (!l->run->unfilled &&
         fill_blob(fill, l->key, (uint64_t)l->n_blob, b) != CT_OK))
        return ct_fail_in(CT_EINVAL, "layer %s: parameter %d", l->name,
                          l->n_blob - 1);
    return CT_OK;
}

enum ct_status ct_layer_add_scratch(struct ct_layer *l, struct ct_blob **out)
{
    CT_TRY(layer_grow(l, &l->scratch, &l->n_scratch, out));
    (*out)->no_diff = true;
    return CT_OK;
}

static enum ct_status unknown_type(const char *layer, const char *type)
{
    struct ct_nearest near = ct_nearest(type, strlen(type));

    if (strcmp(type, "VideoData") == 0)
        return ct_fail(CT_ENOTSUP, "layer %s: videos and cameras are not read "
                       "here (VideoData); store the frames as images and name "
                       "them to an ImageData layer, or feed an Input layer "
                       "from a program", layer);
    for (int i = 0; i < ct_layer_n_types(); i++)
        ct_nearest_try(&near, ct_layer_at(i)->name,
                       strlen(ct_layer_at(i)->name));
    return ct_fail(CT_EINVAL, "layer %s: unknown type \"%s\"%s%s%s", layer,
                   type, near.best ? "; did you mean \"" : "",
                   near.best ? near.best : "", near.best ? "\"?" : "");
}

enum ct_status ct_layer_create(const Caffe__LayerParameter *param,
                               const struct ct_device *dev,
                               const struct ct_run *run, Caffe__Phase phase,
                               struct ct_layer **out)
{
    const char *name = param->name ? param->name : "";
    const struct ct_layer_type *type =
        ct_layer_find(param->type ? param->type : "");
    struct ct_layer *l;

    if (!type)
        return unknown_type(name, param->type ? param->type : "");
    CT_TRY(ct_alloc(1, sizeof(*l), "layer", &l));
    l->type  = type;
    l->param = param;
    l->name  = name;
    l->dev   = dev;
    l->run   = run;
    l->phase = phase;
    l->flags = type->flags;
    l->key   = ct_key(run->seed, name);
    l->state = ct_calloc(1, type->state_size, "layer state");
    if (!l->state) {
        ct_free(l);
        return CT_ENOMEM;
    }
    *out = l;
    return CT_OK;
}

void ct_layer_destroy(struct ct_layer *l)
{
    if (!l)
        return;
    if (l->type->teardown)
        l->type->teardown(l);
    for (int i = 0; i < l->n_blob; i++)
        ct_blob_destroy(l->blob[i]);
    for (int i = 0; i < l->n_scratch; i++)
        ct_blob_destroy(l->scratch[i]);
    ct_free(l->blob);
    ct_free(l->scratch);
    ct_free(l->blob_wants_grad);
    ct_free(l->state);
    ct_free(l);
}

static enum ct_status layer_check(const struct ct_layer *l, const char *what,
                                  struct ct_range r, int n)
{
    if (n >= r.min && (r.max < 0 || n <= r.max))
        return CT_OK;
    if (r.min == r.max)
        return ct_fail(CT_EINVAL, "layer %s: %s takes %d %s blob(s), not %d",
                       l->name, l->type->name, r.min, what, n);
    if (n < r.min)
        return ct_fail(CT_EINVAL, "layer %s: %s takes at least %d %s blob(s), "
                       "not %d", l->name, l->type->name, r.min, what, n);
    return ct_fail(CT_EINVAL, "layer %s: %s takes at most %d %s blob(s), "
                   "not %d", l->name, l->type->name, r.max, what, n);
}

enum ct_status ct_layer_setup(struct ct_layer *l, const struct ct_io *io)
{
    CT_TRY(layer_check(l, "bottom", l->type->bottoms, io->n_bottom));
    CT_TRY(layer_check(l, "top", l->type->tops, io->n_top));
    if ((l->type->flags & CT_LAYER_EQUAL_NUM) && io->n_bottom != io->n_top)
        return ct_fail(CT_EINVAL, "layer %s: %s takes as many tops as "
                       "bottoms, not %d and %d", l->name, l->type->name,
                       io->n_top, io->n_bottom);
    for (int i = 0; i < io->n_bottom; i++)
        for (int j = 0; j < io->n_top; j++)
            if (io->bottom[i] == io->top[j] &&
                (i != j || !(l->type->flags & CT_LAYER_INPLACE)))
                return ct_fail(CT_EINVAL, "layer %s: %s cannot work in place",
                               l->name, l->type->name);
    if (l->type->setup)
        CT_TRY(l->type->setup(l, io));
    return l->type->reshape(l, io);
}

static enum ct_status twin_setup(struct ct_layer *l,
                                 const struct ct_layer *const *then, int n,
                                 const struct ct_io *io)
{
    if (l->type->setup)
        CT_TRY(l->type->setup(l, io));
    for (int i = 0; i < n; i++)
        if (!l->type->absorb(l, then[i]))
            return ct_fail(CT_EINTERNAL, "layer %s: a twin does not absorb %s",
                           l->name, then[i]->name);
    for (int i = 0; i < l->n_blob; i++)
        l->blob_wants_grad[i] = l->twin->blob_wants_grad[i];
    l->flags = l->twin->flags;
    return l->type->reshape(l, io);
}

enum ct_status ct_layer_twin(const struct ct_layer *of,
                             const struct ct_layer *const *then, int n,
                             const struct ct_run *run, const struct ct_io *io,
                             struct ct_layer **out)
{
    struct ct_layer *l;
    enum ct_status st;

    CT_TRY(ct_layer_create(of->param, of->dev, run, of->phase, &l));
    l->twin = of;
    l->key  = of->key;
    st      = twin_setup(l, then, n, io);
    if (st != CT_OK) {
        ct_layer_destroy(l);
        return st;
    }
    *out = l;
    return CT_OK;
}

enum ct_status ct_layer_forward(struct ct_layer *l, const struct ct_io *io)
{
    ct_layer_fn fn = l->type->forward[l->dev->kind];

    return (fn ? fn : l->type->forward[CT_CPU])(l, io);
}

/* Whether backward makes the diff of blob b; a sink takes blob 0's. */
static bool makes_diff(const struct ct_layer *l, int b)
{
    return l->blob_wants_grad[b] && !(b == 0 && l->sink);
}

/* A layer has one word for all its diffs, so either all of them are stale, or
 * those that are become zeros.  No other code reads the marks to write. */
static enum ct_status begin_diffs(struct ct_layer *l)
{
    l->overwrites = l->flags & CT_LAYER_OVERWRITES;
    for (int b = 0; b < l->n_blob; b++)
        if (makes_diff(l, b) && !l->blob[b]->stale)
            l->overwrites = false;
    for (int b = 0; b < l->n_blob; b++) {
        struct ct_blob *blob = l->blob[b];

        if (!makes_diff(l, b))
            continue;
        if (blob->stale && !l->overwrites)
            CT_TRY(ct_fill(blob->dev, blob->count, 0, ct_diff(blob)));
        blob->stale = false;
    }
    return CT_OK;
}

enum ct_status ct_layer_backward(struct ct_layer *l, const struct ct_io *io)
{
    ct_layer_fn fn = l->type->backward[l->dev->kind];

    fn = fn ? fn : l->type->backward[CT_CPU];
    if (!fn)
        return ct_fail(CT_ENOTSUP, "layer %s: %s has no backward pass", l->name,
                       l->type->name);
    CT_TRY(begin_diffs(l));
    return fn(l, io);
}
