/* conv_cudnn.c - convolution by cuDNN, and without it where that is faster.
 *
 * Each pass goes its own way (conv_way.h), the one that measures fastest
 * (conv_pick.h).  Weights are brought into a way's form by forward, or before
 * it (conv_ahead.h); the data gradient that follows it takes what it finds
 * there.  So does the weights' gradient with an x that forward folded, where
 * memory is plenty. */
#include "base/mem.h"
#include "device/conv_ahead.h"
#include "device/cuda/conv_pick.h"

struct cudnn_conv {
    struct ct_conv_pick *pick[CT_WEIGHTED_PASSES];
    enum ct_conv_road    road; /* forced, or CT_CONV_ROADS */
    void        *inside[CT_PASSES]; /* weights of forward, and of data */
    bool         shared;            /* both in the one that is there */
    const float *made;              /* the weights that lie in `inside` */
    const float *ahead[CT_PASSES];  /* those that lay there before the pass */
    void        *folded;            /* room for a folded x, or NULL */
    const void  *folds;             /* the x that lies there */
    void        *scales; /* of images, by the last gradient; or NULL */
    float       *sums;              /* of y's channels, where forward leaves
                                     * them, or NULL */
    float       *end_sums;          /* of the end of a block, or NULL */
    bool         plain_end;         /* dx was asked for by itself */
    const void  *summed;            /* the y whose sums lie there */
};

enum { FOLDED_PART = 256 }; /* of the GPU's memory, that a folded x may take */

static void conv_destroy(struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;

    if (!s)
        return;
    for (int i = 0; i < CT_WEIGHTED_PASSES; i++)
        ct_conv_pick_put(c->dev, s->pick[i]);
    for (int i = 0; i < CT_PASSES; i++)
        c->dev->ops->free(c->dev, s->inside[i]);
    c->dev->ops->free(c->dev, s->folded);
    c->dev->ops->free(c->dev, s->scales);
    c->dev->ops->free(c->dev, s->sums);
    c->dev->ops->free(c->dev, s->end_sums);
    ct_free(s);
}

/* Empty batches never reach us, and indices are 32 bits in places. */
static bool fits(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    if (d->n_spatial < 1 || d->n_spatial > 3 || d->batch == 0 ||
        d->batch * d->in_channels * c->in_spatial > INT32_MAX ||
        d->batch * d->out_channels * c->out_spatial > INT32_MAX ||
        d->out_channels * c->in_group * c->taps > INT32_MAX)
        return false;
    for (int i = 0; i < d->n_spatial; i++)
        if (d->dilation[i] < 1)
            return false;
    return true;
}

/* Room for a folded x, where both passes that read it fold it alike.  In a
 * deconvolution, which has no bias here, forward runs after the gradient. */
static enum ct_status keep_folded(const struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;
    const struct ct_conv_pick *p = s->pick[CT_FORWARD];
    const struct ct_conv_pick *q = s->pick[CT_BACKWARD_WEIGHTS];
    size_t bytes;

    if (s->folded || !c->desc.has_bias || !p || !q ||
        !ct_conv_way_same_cells(&p->way, &q->way))
        return CT_OK;
    bytes = (size_t)p->way.n_x * ct_dtype_bytes(p->way.dtype);
    if (bytes > ct_device_memory(c->dev).all / FOLDED_PART)
        return CT_OK;
    return c->dev->ops->alloc(c->dev, bytes, "folded images", &s->folded);
}

/* Room for what the weights' gradient knows of the images of its last pass. */
static enum ct_status keep_scales(const struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;
    const size_t n = ct_conv_way_scales(&s->pick[CT_BACKWARD_WEIGHTS]->way);

    if (n == 0)
        return CT_OK;
    CT_TRY(c->dev->ops->alloc(c->dev, n * sizeof(uint32_t), "scales of images",
                              &s->scales));
    return ct_cuda_check(c->dev, cudaMemsetAsync(s->scales, 0,
                                                 n * sizeof(uint32_t),
                                                 ct_cuda_stream(c->dev)),
                         "clear");
}

static enum ct_status keep_sums(const struct ct_conv *c, enum ct_pass pass)
{
    struct cudnn_conv *s          = c->state;
    const struct ct_conv_way *way = &s->pick[pass]->way;
    void *room                    = NULL;

    if (way->slots == 0)
        return CT_OK;
    CT_TRY(c->dev->ops->alloc(c->dev, way->scratch, "sums of channels",
                              &room));
    *(pass == CT_FORWARD ? &s->sums : &s->end_sums) = room;
    return CT_OK;
}

/* Finds the way of a pass, and room for its weights and scratch.  Forward's
 * and data's weights lie in one place where they lie alike. */
static enum ct_status ready(const struct ct_conv *c, enum ct_pass pass)
{
    struct cudnn_conv *s = c->state;
    struct ct_conv_pick *p, *other;
    void *unused;

    if (s->pick[pass])
        return CT_OK;
    if (ct_cuda(c->dev)->capturing)
        return ct_fail(CT_EINTERNAL, "a convolution is recorded before it has "
                       "run");
    CT_TRY(ct_conv_pick_get(c, pass,
                            pass == CT_BACKWARD && s->plain_end
                                ? CT_CONV_WHOLE
                                : s->road, &p));
    s->pick[pass] = p;
    CT_TRY(ct_cuda_workspace(c->dev, p->bytes, &unused));
    if (pass == CT_BACKWARD_WEIGHTS) {
        CT_TRY(keep_scales(c));
        return keep_folded(c);
    }
    CT_TRY(keep_sums(c, pass));
    other     = s->pick[pass == CT_FORWARD ? CT_BACKWARD : CT_FORWARD];
    s->shared = other && ct_conv_way_same_weights(&p->way, &other->way);
    if (s->shared)
        return CT_OK;
    return c->dev->ops->alloc(c->dev, (size_t)p->way.n_w *
                                          ct_dtype_bytes(p->way.dtype),
                              "weights", &s->inside[pass]);
}

/* A net is built in plain float32 before its layouts are planned, and many
 * never run backward: so ways are measured when a pass runs first.  They are
 * found at once where that takes no measuring, where one is forced, and where
 * cuDNN may have none. */
static enum ct_status create_on(struct ct_conv *c, enum ct_conv_road road)
{
    const bool at_once = ct_cuda(c->dev)->host_memory ||
                         road != CT_CONV_ROADS || c->desc.n_spatial != 2;
    bool taken         = road == CT_CONV_ROADS;
    struct cudnn_conv *s;

    if (!fits(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*s), "convolution", &s));
    s->road  = road;
    c->state = s;
    for (int i = 0; i < CT_WEIGHTED_PASSES && at_once; i++) {
        CT_TRY(ready(c, (enum ct_pass)i));
        taken = taken || s->pick[i]->way.road == road;
    }
    return taken ? CT_OK : CT_ENOTSUP;
}

static enum ct_status create_any(struct ct_conv *c)
{
    return create_on(c, CT_CONV_ROADS);
}

static enum ct_status create_whole(struct ct_conv *c)
{
    return create_on(c, CT_CONV_WHOLE);
}

static enum ct_status create_apart(struct ct_conv *c)
{
    return create_on(c, CT_CONV_APART);
}

static enum ct_status create_strided(struct ct_conv *c)
{
    return create_on(c, CT_CONV_STRIDED);
}

static enum ct_status create_fold(struct ct_conv *c)
{
    return create_on(c, CT_CONV_FOLD);
}

static enum ct_status create_wide(struct ct_conv *c)
{
    return create_on(c, CT_CONV_WIDE);
}

static enum ct_status create_direct(struct ct_conv *c)
{
    return create_on(c, CT_CONV_DIRECT);
}

static enum ct_status create_slabs(struct ct_conv *c)
{
    return create_on(c, CT_CONV_SLABS);
}

static enum ct_status create_patch(struct ct_conv *c)
{
    return create_on(c, CT_CONV_PATCH);
}

/* Where the weights of a pass lie as its way has them; NULL: plain float32 ones
 * are taken where they lie, unless that is askew. */
static void *room_for(const struct cudnn_conv *s, enum ct_pass pass,
                      const float *w)
{
    if (!s->pick[pass]->way.stage_w && (uintptr_t)w % CT_CONV_ALIGN == 0)
        return NULL;
    return s->inside[s->inside[pass] ? pass
                     : pass == CT_FORWARD ? CT_BACKWARD
                                          : CT_FORWARD];
}

static enum ct_status weights_for(const struct ct_conv *c, enum ct_pass pass,
                                  const float *w, const void **out)
{
    const struct cudnn_conv *s = c->state;
    void *inside               = room_for(s, pass, w);

    *out = inside ? inside : w;
    if (!inside || s->ahead[pass] == w ||
        (pass == CT_BACKWARD && s->shared && s->made == w))
        return CT_OK;
    return ct_conv_way_weights(c, &s->pick[pass]->way, w, inside);
}

static enum ct_status scratch(const struct ct_conv *c, enum ct_pass pass,
                              const void *x, const void *y, void **out)
{
    const struct cudnn_conv *s = c->state;
    const struct ct_conv_pick *p;

    CT_TRY(ready(c, pass));
    p = s->pick[pass];
    return ct_cuda_workspace(c->dev, ct_conv_way_bytes(&p->way, x, y) +
                                         p->plan.bytes, out);
}

static enum ct_status conv_forward(struct ct_conv *c, const float *x,
                                   const float *w, const float *b, float *y)
{
    struct cudnn_conv *s = c->state;
    const struct ct_conv_pick *p;
    const void *inside;
    void *work;

    CT_TRY(scratch(c, CT_FORWARD, x, y, &work));
    p = s->pick[CT_FORWARD];
    CT_TRY(weights_for(c, CT_FORWARD, w, &inside));
    /* Behind a deconvolution's last pass the weights change. */
    s->made  = c->desc.transposed ? NULL : w;
    s->folds = s->folded ? x : NULL;
    s->summed = s->sums ? y : NULL;
    return ct_conv_way_forward(c, &p->way, &p->plan, work, x, inside, b, y,
                               s->folded, s->sums);
}

/* They serve one who asks: y may change after that. */
static bool conv_moments(struct ct_conv *c, const float *y,
                         struct ct_moments *out)
{
    struct cudnn_conv *s = c->state;
    const bool left      = s->summed && s->summed == y;

    s->summed = NULL;
    if (left)
        *out = (struct ct_moments){ s->sums, s->pick[CT_FORWARD]->way.slots };
    return left;
}

/* A way that ends a block has no other result: who asks for dx by itself gets
 * the next best from now on. */
static enum ct_status take_plain(const struct ct_conv *c)
{
    struct cudnn_conv *s = c->state;

    CT_TRY(ready(c, CT_BACKWARD));
    if (s->pick[CT_BACKWARD]->way.road != CT_CONV_ENDS)
        return CT_OK;
    ct_conv_pick_put(c->dev, s->pick[CT_BACKWARD]);
    s->pick[CT_BACKWARD] = NULL;
    if (!s->shared)
        c->dev->ops->free(c->dev, s->inside[CT_BACKWARD]);
    else if (!s->inside[CT_FORWARD])
        s->inside[CT_FORWARD] = s->inside[CT_BACKWARD];
    s->inside[CT_BACKWARD] = NULL;
    s->ahead[CT_BACKWARD]  = NULL; /* they are gone */
    s->plain_end           = true;
    return ready(c, CT_BACKWARD);
}

/* Whether the copy engine cannot take it. */
static bool askew(const void *p)
{
    return (uintptr_t)p % 16 != 0;
}

static enum ct_status conv_backward_end(struct ct_conv *c, const float *w,
                                        const float *dy,
                                        const struct ct_conv_end *end,
                                        struct ct_moments *sums)
{
    struct cudnn_conv *s = c->state;
    const struct ct_conv_pick *p;
    const void *inside;

    CT_TRY(ready(c, CT_BACKWARD));
    p = s->pick[CT_BACKWARD];
    if (p->way.road != CT_CONV_ENDS || askew(dy) || askew(end->other) ||
        askew(end->x) || askew(end->e) || askew(end->above))
        return CT_OK;
    CT_TRY(weights_for(c, CT_BACKWARD, w, &inside));
    s->made = NULL;
    CT_TRY(ct_conv_way_end(c, &p->way, inside, dy, end, s->end_sums));
    *sums = (struct ct_moments){ s->end_sums, p->way.slots };
    return CT_OK;
}

/* What forward made serves one pass: who comes without it may have changed
 * the weights. */
static enum ct_status conv_backward_data(struct ct_conv *c, const float *w,
                                         const float *dy, float *dx)
{
    struct cudnn_conv *s = c->state;
    const struct ct_conv_pick *p;
    const void *inside;
    void *work;

    CT_TRY(take_plain(c));
    CT_TRY(scratch(c, CT_BACKWARD, dx, dy, &work));
    p = s->pick[CT_BACKWARD];
    CT_TRY(weights_for(c, CT_BACKWARD, w, &inside));
    s->made = NULL;
    return ct_conv_way_data(c, &p->way, &p->plan, work, inside, dy, dx);
}

static enum ct_status conv_backward_weights(struct ct_conv *c, const float *x,
                                            const float *dy, float *dw,
                                            float *db)
{
    struct cudnn_conv *s = c->state;
    const struct ct_conv_pick *p;
    const void *folded   = s->folds == x ? s->folded : NULL;
    void *work;

    CT_TRY(scratch(c, CT_BACKWARD_WEIGHTS, x, dy, &work));
    p        = s->pick[CT_BACKWARD_WEIGHTS];
    s->folds = NULL;
    CT_TRY(ct_conv_way_gradient(c, &p->way, &p->plan, work, x, dy, dw,
                                folded, s->scales));
    return ct_conv_bias_gradient(c, dy, db);
}

/* A pass whose way is not known yet brings its weights itself; data finds those
 * of forward where they are shared. */
enum ct_status ct_conv_weights_ahead(struct ct_conv *c, enum ct_pass pass,
                                     const float *w)
{
    struct cudnn_conv *s = c->state;
    void *inside;

    if (!c->impl || c->impl->forward != conv_forward || !s)
        return CT_OK;
    s->ahead[pass] = NULL;
    if (!w || !s->pick[pass] || c->desc.transposed ||
        (pass == CT_BACKWARD && s->shared))
        return CT_OK;
    inside = room_for(s, pass, w);
    if (!inside)
        return CT_OK;
    CT_TRY(ct_conv_way_weights(c, &s->pick[pass]->way, w, inside));
    s->ahead[pass] = w;
    return CT_OK;
}

#define CUDNN_IMPL(word, how)                                                \
    {                                                                        \
        .name = (word), .create = (how), .destroy = conv_destroy,            \
        .forward = conv_forward, .backward_data = conv_backward_data,        \
        .backward_weights = conv_backward_weights, .moments = conv_moments,  \
        .backward_end = conv_backward_end,                                   \
    }

/* The best of all ways, and one kind at a time, to be forced. */
const struct ct_conv_impl ct_conv_cudnn   = CUDNN_IMPL("cudnn", create_any);
const struct ct_conv_impl ct_conv_whole   = CUDNN_IMPL("whole", create_whole);
const struct ct_conv_impl ct_conv_apart   = CUDNN_IMPL("apart", create_apart);
const struct ct_conv_impl ct_conv_strided = CUDNN_IMPL("strided",
                                                       create_strided);
const struct ct_conv_impl ct_conv_fold    = CUDNN_IMPL("fold", create_fold);
const struct ct_conv_impl ct_conv_wide    = CUDNN_IMPL("wide", create_wide);
const struct ct_conv_impl ct_conv_direct  = CUDNN_IMPL("direct",
                                                       create_direct);
const struct ct_conv_impl ct_conv_slabs   = CUDNN_IMPL("slabs", create_slabs);
const struct ct_conv_impl ct_conv_patch   = CUDNN_IMPL("patch", create_patch);
