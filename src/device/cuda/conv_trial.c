/* conv_trial.c - what a way through a pass of a convolution takes. */
#include "device/cuda/conv_trial.h"

#include "device/cuda/conv_ends.h"
#include "device/cuda/conv_points.h"
#include "device/recording.h"

static const size_t most_work  = (size_t)4 << 30; /* scratch of a plan */
static const size_t least_work = (size_t)16 << 20;

static size_t round_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Arrays as large as x of bfloat16, bits for it, and floats for channels. */
static size_t end_bytes(const struct ct_conv *c, const struct ct_conv_way *way,
                        size_t x)
{
    return way->problem.pass == CT_BACKWARD && ct_conv_sums_up(c, CT_BACKWARD)
               ? 3 * x + round_up(x / 16) +
                     round_up((size_t)c->desc.in_channels * sizeof(float))
               : 0;
}

static void end_make(char *at, size_t x, struct ct_conv_end *out)
{
    out->other = at;
    out->x     = at + x;
    out->e     = at + 2 * x;
    out->above = at + 3 * x;
    out->mean  = (const float *)(const void *)(at + 3 * x + round_up(x / 16));
}

enum ct_status ct_trial_make(const struct ct_conv *c,
                             const struct ct_conv_way *way,
                             struct ct_trial *t)
{
    const struct ct_conv_desc *d = &c->desc;
    const size_t x = round_up((size_t)(d->batch * d->in_channels *
                                       c->in_spatial) *
                              ct_dtype_bytes(d->src_type));
    const size_t y = round_up((size_t)(d->batch * d->out_channels *
                                       c->out_spatial) *
                              ct_dtype_bytes(d->dst_type));
    const size_t w = round_up((size_t)(d->out_channels * c->in_group *
                                       c->taps) * sizeof(float));
    const size_t b = round_up((size_t)d->out_channels * sizeof(float));
    const size_t inside = round_up((size_t)way->n_w * sizeof(float));
    const size_t stage  = ct_conv_way_bytes(way, NULL, NULL);
    const size_t end    = end_bytes(c, way, x);
    size_t free_bytes = 0, all = 0;
    enum ct_status st;
    char *at;

    CT_TRY(ct_cuda_check(c->dev, cudaMemGetInfo(&free_bytes, &all),
                         "asking for free memory"));
    t->room = free_bytes / 8 < most_work ? free_bytes / 8 : most_work;
    t->room = t->room < least_work ? least_work : round_up(t->room);
    st      = CT_ENOMEM;
    for (; st == CT_ENOMEM && t->room >= least_work; t->room /= 4)
        st = c->dev->ops->alloc(c->dev,
                                x + y + w + b + inside + end + stage +
                                    t->room,
                                "trial of a convolution", &t->block);
    CT_TRY(st);
    t->room *= 4;
    at        = t->block;
    t->x      = at;
    t->y      = at + x;
    t->w      = (float *)(void *)(at + x + y);
    t->b      = (float *)(void *)(at + x + y + w);
    t->inside = at + x + y + w + b;
    t->work   = at + x + y + w + b + inside + end;
    end_make(at + x + y + w + b + inside, x, &t->end);
    return CT_OK;
}

static enum ct_status trial_pass(const struct ct_conv *c,
                                 const struct ct_conv_way *way,
                                 const struct ct_conv_plan *plan,
                                 const struct ct_trial *t)
{
    switch (way->problem.pass) {
    case CT_FORWARD:
        CT_TRY(ct_conv_way_forward(c, way, plan, t->work, t->x, t->inside,
                                   c->desc.has_bias ? t->b : NULL, t->y, NULL,
                                   NULL));
        /* Who leaves no sums makes another pass necessary. */
        return way->slots > 0 || !ct_conv_sums_up(c, CT_FORWARD)
                   ? CT_OK
                   : ct_cuda_points_pass(c, t->y, t->work);
    case CT_BACKWARD:
        if (way->road == CT_CONV_ENDS)
            return ct_conv_way_end(c, way, t->inside, t->y, &t->end, t->work);
        CT_TRY(ct_conv_way_data(c, way, plan, t->work, t->inside, t->y, t->x));
        return ct_conv_sums_up(c, CT_BACKWARD)
                   ? ct_cuda_ends_pass(c, t->x, &t->end, t->work)
                   : CT_OK;
    default:
        return ct_conv_way_gradient(c, way, plan, t->work, t->x, t->y, t->w,
                                    NULL, NULL);
    }
}

/* What `times` runs of a recorded pass take, in milliseconds: as in a step,
 * which is replayed, without the time that launching takes. */
static enum ct_status time_runs(const struct ct_conv *c,
                                const struct ct_conv_way *way,
                                const struct ct_conv_plan *plan,
                                const struct ct_trial *t, int times,
                                const cudaEvent_t *event, float *ms)
{
    cudaStream_t s         = ct_cuda_stream(c->dev);
    struct ct_graph *graph = NULL;
    enum ct_status st      = CT_OK, ended;

    CT_TRY(ct_graph_begin(c->dev));
    for (int i = 0; i < times && st == CT_OK; i++)
        st = trial_pass(c, way, plan, t);
    ended = ct_graph_end(c->dev, &graph);
    st    = st == CT_OK ? ended : st;
    CT_TRY_GOTO(st, st, out);
    CT_TRY_GOTO(ct_graph_launch(graph), st, out);
    CT_TRY_GOTO(ct_cuda_check(c->dev, cudaEventRecord(event[0], s), "timing"),
                st, out);
    CT_TRY_GOTO(ct_graph_launch(graph), st, out);
    CT_TRY_GOTO(ct_cuda_check(c->dev, cudaEventRecord(event[1], s), "timing"),
                st, out);
    CT_TRY_GOTO(c->dev->ops->sync(c->dev), st, out);
    st = ct_cuda_check(c->dev, cudaEventElapsedTime(ms, event[0], event[1]),
                       "timing");
    *ms /= (float)times;
out:
    ct_graph_destroy(graph);
    return st;
}

/* The very first run also loads the kernel. */
enum ct_status ct_trial_time(const struct ct_conv *c,
                             const struct ct_conv_way *way,
                             const struct ct_conv_plan *plan,
                             const struct ct_trial *t,
                             const cudaEvent_t *event, float best, float *ms)
{
    cudaStream_t s = ct_cuda_stream(c->dev);
    float more     = 0;
    int times;

    CT_TRY(ct_cuda_check(c->dev, cudaEventRecord(event[0], s), "timing"));
    CT_TRY(trial_pass(c, way, plan, t));
    CT_TRY(ct_cuda_check(c->dev, cudaEventRecord(event[1], s), "timing"));
    CT_TRY(c->dev->ops->sync(c->dev));
    CT_TRY(ct_cuda_check(c->dev, cudaEventElapsedTime(ms, event[0], event[1]),
                         "timing"));
    if (*ms > 3 * best + 30)
        return CT_OK;
    CT_TRY(time_runs(c, way, plan, t, 1, event, ms));
    if (*ms > 1.3f * best)
        return CT_OK;
    times = *ms > 0.5f ? 2 : *ms > 0.05f ? 5 : 20;
    CT_TRY(time_runs(c, way, plan, t, times, event, &more));
    *ms = more;
    return CT_OK;
}
