/* copies.cu - layers that move values about, on a GPU: Crop, Permute, Tile,
 * ShuffleChannel, BatchReindex, Filter, Reorg, Pad; shapes as in their .c
 * files.  Each output finds where it comes from, so that nothing is written
 * twice. */
#include "device/cuda/elementwise.h"
#include "layers/batch_reindex.h"
#include "layers/crop.h"
#include "layers/cuda/slots.h"
#include "layers/filter.h"
#include "layers/pad.h"
#include "layers/permute.h"
#include "layers/reorg.h"
#include "layers/shuffle_channel.h"
#include "layers/tile.h"

/* A box of one array in another: value i of the box, which has dimensions
 * dim, stands at `start` and step[a] further for each along axis a. */
struct box {
    int     n_axes;
    int64_t start, dim[CT_MAX_AXES], step[CT_MAX_AXES];

    __device__ int64_t at(int64_t i) const
    {
        int64_t to = start;

        for (int a = n_axes - 1; a > 0; a--) {
            to += i % dim[a] * step[a];
            i /= dim[a];
        }
        return n_axes > 0 ? to + i * step[0] : to;
    }
};

__global__ static void take_box(int64_t n, struct box b, const float *x,
                                float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[i] = x[b.at(i)];
}

__global__ static void put_box(int64_t n, struct box b, const float *x,
                               float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[b.at(i)] = x[i];
}

static struct box crop_box(const struct crop *c, const struct ct_io *io)
{
    struct box b = {};

    b.n_axes = c->n_axes;
    for (int a = 0; a < c->n_axes; a++) {
        b.dim[a]  = io->top[0]->shape.dim[a];
        b.step[a] = ct_count(io->bottom[0], a + 1, CT_END);
        b.start  += c->offset[a] * b.step[a];
    }
    return b;
}

extern "C" enum ct_status ct_cuda_crop_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const struct crop *c = (const struct crop *)l->state;
    const int64_t n      = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, take_box, n, crop_box(c, io),
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_crop_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct crop *c = (const struct crop *)l->state;
    const int64_t n      = io->top[0]->count;

    for (int i = 0; i < 2; i++)
        if (io->want_grad[i])
            CT_TRY(ct_clear_values(l->dev, io->bottom[i]->count, CT_F32,
                                   ct_diff(io->bottom[i])));
    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, put_box, n, crop_box(c, io),
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

static struct box permute_box(const struct permute *m)
{
    struct box b = {};

    b.n_axes = m->n_axes;
    for (int a = 0; a < m->n_axes; a++) {
        b.dim[a]  = m->dim[a];
        b.step[a] = m->step[a];
    }
    return b;
}

/* The same values in the same order; a bottom that is NHWC may hold 16-bit
 * ones. */
static enum ct_status pass_on(const struct ct_device *d, int64_t n,
                              const struct ct_tensor *from,
                              const struct ct_tensor *to)
{
    return from->dtype == to->dtype
               ? ct_copy_values(d, n, to->dtype, from->ptr, to->ptr)
               : ct_cuda_convert(d, n, from->dtype, from->ptr, to->dtype,
                                 to->ptr);
}

extern "C" enum ct_status ct_cuda_permute_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct permute *m = (const struct permute *)l->state;
    const int64_t n         = io->top[0]->count;

    if (m->same || n == 0)
        return pass_on(l->dev, n, &io->bottom[0]->data, &io->top[0]->data);
    return CT_LAUNCH(l->dev, n, take_box, n, permute_box(m),
                     (const float *)ct_data(io->bottom[0]),
                     ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_permute_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct permute *m = (const struct permute *)l->state;
    const int64_t n         = io->top[0]->count;

    if (!io->want_grad[0])
        return CT_OK;
    if (m->same || n == 0)
        return pass_on(l->dev, n, &io->top[0]->diff, &io->bottom[0]->diff);
    return CT_LAUNCH(l->dev, n, put_box, n, permute_box(m),
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

__global__ static void tile_forward(int64_t n, struct tile t, const float *x,
                                    float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        y[i] = x[i / t.inner / t.tiles * t.inner + i % t.inner];
}

__global__ static void tile_backward(int64_t n, struct tile t,
                                     const float *dy, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const float *from =
            dy + i / t.inner * t.inner * t.tiles + i % t.inner;
        float sum = 0;

        for (int64_t k = 0; k < t.tiles; k++)
            sum += from[k * t.inner];
        dx[i] = sum;
    }
}

extern "C" enum ct_status ct_cuda_tile_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const struct tile *t = (const struct tile *)l->state;
    const int64_t n      = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, tile_forward, n, *t,
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_tile_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct tile *t = (const struct tile *)l->state;
    const int64_t n      = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, tile_backward, n, *t,
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

/* x as rows x columns matrices of lines of `inner`, transposed into y. */
__global__ static void shuffle(int64_t n, int64_t rows, int64_t columns,
                               int64_t inner, const float *x, float *y)
{
    CT_TURN();
    const int64_t channels = rows * columns;

    CT_KERNEL_EACH (i, n) {
        const int64_t line = i / inner, c = line % channels;

        y[i] = x[(line - c + c % rows * columns + c / rows) * inner +
                 i % inner];
    }
}

extern "C" enum ct_status ct_cuda_shuffle_channel_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct shuffle_channel *s = (const struct shuffle_channel *)l->state;
    const int64_t n                 = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, shuffle, n, s->group,
                         s->channels / s->group, s->inner,
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_shuffle_channel_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct shuffle_channel *s = (const struct shuffle_channel *)l->state;
    const int64_t n                 = io->top[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, shuffle, n, s->channels / s->group, s->group,
                     s->inner, (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

/* The list as whole numbers; -1 for one that is not in the batch. */
__global__ static void read_list(int64_t m, int64_t n, const float *list,
                                 int32_t *index)
{
    CT_TURN();
    CT_KERNEL_EACH (i, m)
        index[i] = list[i] > -1 && list[i] < (float)n ? (int32_t)list[i] : -1;
}

__global__ static void reindex(int64_t n, int64_t width, const int32_t *index,
                               const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int32_t from = index[i / width];

        y[i] = from < 0 ? NAN : x[from * width + i % width];
    }
}

/* Every item looks for itself in the list. */
__global__ static void reindex_grad(int64_t n, int64_t width, int64_t m,
                                    const int32_t *index, const float *dy,
                                    float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t item = i / width, at = i % width;
        float sum = 0;

        for (int64_t k = 0; k < m; k++)
            if (index[k] == item)
                sum += dy[k * width + at];
        dx[i] = sum;
    }
}

extern "C" enum ct_status ct_cuda_batch_reindex_forward(struct ct_layer *l,
                                                        const struct ct_io *io)
{
    const struct batch_reindex *b = (const struct batch_reindex *)l->state;
    const int64_t m = io->bottom[1]->count, n = io->top[0]->count;
    int32_t *index  = (int32_t *)ct_data(b->index);

    if (n == 0)
        return CT_OK;
    CT_TRY(CT_LAUNCH(l->dev, m, read_list, m, io->bottom[0]->shape.dim[0],
                     (const float *)ct_data(io->bottom[1]), index));
    return CT_LAUNCH(l->dev, n, reindex, n, n / m, (const int32_t *)index,
                     (const float *)ct_data(io->bottom[0]),
                     ct_data(io->top[0]));
}

extern "C" enum ct_status ct_cuda_batch_reindex_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct batch_reindex *b = (const struct batch_reindex *)l->state;
    const int64_t n               = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, reindex_grad, n,
                     ct_count(io->bottom[0], 1, CT_END), b->index->count,
                     (const int32_t *)ct_data(b->index),
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

__global__ static void choose(int64_t n, int64_t width, const int32_t *chosen,
                              const float *x, float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int32_t to = chosen[i / width];

        if (to >= 0)
            y[to * width + i % width] = x[i];
    }
}

__global__ static void choose_grad(int64_t n, int64_t width,
                                   const int32_t *chosen, const float *dy,
                                   float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int32_t from = chosen[i / width];

        dx[i] = from < 0 ? 0 : dy[from * width + i % width];
    }
}

/* The tops' shape is the host's business, which has to see the selector. */
static enum ct_status read_selector(const struct ct_layer *l,
                                    const struct ct_blob *s)
{
    struct filter *f = (struct filter *)l->state;
    const size_t n   = (size_t)s->count;

    f->n_chosen = 0;
    CT_TRY(l->dev->ops->to_host(l->dev, n * sizeof(*f->selector), ct_data(s),
                                f->selector));
    for (size_t i = 0; i < n; i++)
        f->place[i] = f->selector[i] != 0 ? (int32_t)f->n_chosen++ : -1;
    return l->dev->ops->from_host(l->dev, n * sizeof(*f->place), f->place,
                                  ct_data(f->chosen));
}

extern "C" enum ct_status ct_cuda_filter_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    struct filter *f        = (struct filter *)l->state;
    const struct ct_blob *s = io->bottom[io->n_bottom - 1];

    CT_TRY(read_selector(l, s));
    for (int i = 0; i < io->n_top; i++) {
        const int64_t n   = io->bottom[i]->count;
        struct ct_shape y = io->bottom[i]->shape;

        y.dim[0] = f->n_chosen;
        CT_TRY(ct_reshape(io->top[i], y));
        if (n > 0)
            CT_TRY(CT_LAUNCH(l->dev, n, choose, n, n / s->count,
                             (const int32_t *)ct_data(f->chosen),
                             (const float *)ct_data(io->bottom[i]),
                             ct_data(io->top[i])));
    }
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_filter_backward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct filter *f  = (const struct filter *)l->state;
    const struct ct_blob *s = io->bottom[io->n_bottom - 1];

    if (io->want_grad[io->n_bottom - 1])
        CT_TRY(ct_clear_values(l->dev, s->count, CT_F32, ct_diff(s)));
    for (int i = 0; i < io->n_top; i++) {
        const int64_t n = io->bottom[i]->count;

        if (io->want_grad[i] && n > 0)
            CT_TRY(CT_LAUNCH(l->dev, n, choose_grad, n, n / s->count,
                             (const int32_t *)ct_data(f->chosen),
                             (const float *)ct_diff(io->top[i]),
                             ct_diff(io->bottom[i])));
    }
    return CT_OK;
}

/* to[i] = from[q(i)], or with `spread` to[q(i)] = from[i]. */
__global__ static void reorg_move(int64_t n, struct reorg r, bool spread,
                                  const float *from, float *to)
{
    CT_TURN();
    const int64_t item = r.c * r.h * r.w;

    CT_KERNEL_EACH (i, n) {
        const int64_t at = i / item * item + reorg_wide(&r, i % item);

        if (spread)
            to[at] = from[i];
        else
            to[i] = from[at];
    }
}

extern "C" enum ct_status ct_cuda_reorg_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct reorg *r = (const struct reorg *)l->state;
    const int64_t n       = io->bottom[0]->count;

    return n ? CT_LAUNCH(l->dev, n, reorg_move, n, *r, r->reverse,
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_reorg_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct reorg *r = (const struct reorg *)l->state;
    const int64_t n       = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, reorg_move, n, *r, !r->reverse,
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}

__global__ static void pad_border(int64_t n, struct pad p, const float *x,
                                  float *y)
{
    CT_TURN();
    CT_KERNEL_EACH (o, n) {
        const int64_t at = pad_source(&p, o);

        y[o] = at < 0 ? p.value : x[at];
    }
}

__global__ static void pad_gather(int64_t n, struct pad p, const float *dy,
                                  float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        dx[i] = pad_sum(&p, i, dy);
}

extern "C" enum ct_status ct_cuda_pad_forward(struct ct_layer *l,
                                              const struct ct_io *io)
{
    const struct pad *p = (const struct pad *)l->state;
    const int64_t n     = io->top[0]->count;

    return n ? CT_LAUNCH(l->dev, n, pad_border, n, *p,
                         (const float *)ct_data(io->bottom[0]),
                         ct_data(io->top[0]))
             : CT_OK;
}

extern "C" enum ct_status ct_cuda_pad_backward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const struct pad *p = (const struct pad *)l->state;
    const int64_t n     = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, pad_gather, n, *p,
                     (const float *)ct_diff(io->top[0]),
                     ct_diff(io->bottom[0]));
}
