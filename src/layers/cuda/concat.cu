/* concat.cu - Concat and Slice on a GPU; shapes as in their .c files.  A copy
 * moves the widest words that its rows are made of; a Concat of channels in
 * NHWC works on all bottoms at once (branches.h). */
#include "device/cuda/branches.h"
#include "device/cuda/elementwise.h"
#include "layers/concat.h"
#include "layers/cuda/slots.h"
#include "layers/slice.h"

template <typename W>
__global__ static void copy_rows(int64_t n, int64_t width, const W *x,
                                 int64_t x_step, W *y, int64_t y_step)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t r = i / width, c = i % width;

        y[r * y_step + c] = x[r * x_step + c];
    }
}

template <typename W>
static enum ct_status copy_by(const struct ct_device *d, int64_t rows,
                              int64_t width, const void *x, int64_t x_step,
                              void *y, int64_t y_step)
{
    const int64_t w = (int64_t)sizeof(W), n = rows * (width / w);

    return CT_LAUNCH(d, n, copy_rows<W>, n, width / w, (const W *)x,
                     x_step / w, (W *)y, y_step / w);
}

/* Rows of `width` bytes from x to y, which begin `step` bytes apart. */
static enum ct_status copy(const struct ct_device *d, int64_t rows,
                           int64_t width, const void *x, int64_t x_step,
                           void *y, int64_t y_step)
{
    const uintptr_t all = (uintptr_t)width | (uintptr_t)x_step |
                          (uintptr_t)y_step | (uintptr_t)x | (uintptr_t)y;

    if (rows * width == 0)
        return CT_OK;
    if (rows == 1)
        return ct_cuda_check(d, cudaMemcpyAsync(y, x, (size_t)width,
                                                cudaMemcpyDefault,
                                                ct_cuda_stream(d)), "copy");
    if (all % 16 == 0)
        return copy_by<uint4>(d, rows, width, x, x_step, y, y_step);
    if (all % 4 == 0)
        return copy_by<uint32_t>(d, rows, width, x, x_step, y, y_step);
    return copy_by<uint16_t>(d, rows, width, x, x_step, y, y_step);
}

/* A part of a blob along an axis: rows of some width. */
struct rows {
    int64_t outer, inner, bytes;
};

/* NHWC: channels are the last axis, and images as they were. */
static struct rows rows_of(const struct ct_blob *b, int axis)
{
    const int64_t bytes = (int64_t)ct_dtype_bytes(b->data.dtype);

    if (b->data.layout == CT_NHWC && axis == 1)
        return { b->shape.dim[0] * ct_count(b, 2, CT_END), 1, bytes };
    return { ct_count(b, 0, axis), ct_count(b, axis + 1, CT_END), bytes };
}

/* What joins or parts the bottoms at once; false where it does not fit. */
static bool branches_of(const struct ct_layer *l, const struct ct_io *io,
                        struct ct_branches *b)
{
    const struct concat *c    = (const struct concat *)l->state;
    const struct ct_tensor *y = &io->top[0]->data;
    const enum ct_dtype dtype = y->dtype;

    if (!c->whole || c->axis != 1 || y->layout != CT_NHWC ||
        io->n_bottom > CT_BRANCHES)
        return false;
    b->dtype = dtype;
    b->rows  = io->top[0]->shape.dim[0] * ct_count(io->top[0], 2, CT_END);
    b->n     = io->n_bottom;
    for (int i = 0; i < io->n_bottom; i++) {
        const struct ct_blob *x = io->bottom[i];

        if (x->data.layout != CT_NHWC || x->data.dtype != dtype)
            return false;
        b->of[i].channels = x->shape.dim[1];
    }
    return true;
}

extern "C" enum ct_status ct_cuda_concat_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct concat *c   = (const struct concat *)l->state;
    const struct rows r      = rows_of(io->top[0], c->axis);
    const int64_t step = io->top[0]->shape.dim[c->axis] * r.inner * r.bytes;
    char *y                  = (char *)ct_data(io->top[0]);
    struct ct_branches b     = {};
    enum ct_status st        = CT_ENOTSUP;

    if (branches_of(l, io, &b)) {
        b.y = y;
        for (int i = 0; i < b.n; i++)
            b.of[i].x = ct_data(io->bottom[i]);
        st = ct_cuda_branches_forward(l->dev, &b);
    }
    for (int i = 0; st == CT_ENOTSUP && i < io->n_bottom; i++) {
        const int64_t width =
            io->bottom[i]->shape.dim[c->axis] * r.inner * r.bytes;

        CT_TRY(copy(l->dev, r.outer, width, ct_data(io->bottom[i]), width, y,
                    step));
        y += width;
    }
    return st == CT_ENOTSUP ? CT_OK : st;
}

/* The diffs of tops; one that nobody writes counts as zero. */
struct diffs {
    const void *of[CONCAT_TOPS];
    int         n;
};

template <typename T>
__global__ static void sum_rows(int64_t n, int64_t width, struct diffs dy,
                                int64_t first, int64_t step, T *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const int64_t at = first + i / width * step + i % width;
        float sum        = 0;

        for (int k = 0; k < dy.n; k++)
            sum += ct_load((const T *)dy.of[k] + at);
        ct_store(dx + i, sum);
    }
}

/* Each bottom by itself. */
static enum ct_status backward_parts(const struct ct_layer *l,
                                     const struct ct_io *io,
                                     const struct diffs *dy)
{
    const struct concat *c = (const struct concat *)l->state;
    const struct rows r    = rows_of(io->top[0], c->axis);
    const int64_t step     = io->top[0]->shape.dim[c->axis] * r.inner;
    int64_t first          = 0;

    for (int i = 0; i < io->n_bottom; i++) {
        const int64_t width = io->bottom[i]->shape.dim[c->axis] * r.inner;
        const int64_t n     = r.outer * width;
        void *dx            = ct_diff(io->bottom[i]);

        if (io->want_grad[i] && dy->n == 1)
            CT_TRY(copy(l->dev, r.outer, width * r.bytes,
                        (const char *)dy->of[0] + first * r.bytes,
                        step * r.bytes, dx, width * r.bytes));
        else if (io->want_grad[i] && n > 0)
            CT_BY_TYPE(io->bottom[i]->diff.dtype, T,
                       CT_TRY(CT_LAUNCH(l->dev, n, sum_rows<T>, n, width, *dy,
                                        first, step, (T *)dx)));
        first += width;
    }
    return CT_OK;
}

/* All bottoms at once, with the masks of convolutions before them. */
static enum ct_status backward_whole(const struct ct_layer *l,
                                     const struct ct_io *io,
                                     const struct diffs *dy)
{
    bool masks[CT_BRANCHES] = {};
    struct ct_branches b    = {};

    if (!branches_of(l, io, &b) || dy->n < 1 || dy->n > CT_BRANCH_DIFFS)
        return CT_ENOTSUP;
    b.n_dy = dy->n;
    for (int i = 0; i < dy->n; i++)
        b.dy[i] = dy->of[i];
    for (int i = 0; i < b.n; i++) {
        struct ct_branch *of = &b.of[i];

        masks[i] = ct_concat_masks(l, io, i, &of->db);
        of->mask = masks[i] ? ct_data(io->bottom[i]) : NULL;
        of->dx   = io->want_grad[i] ? ct_diff(io->bottom[i]) : NULL;
    }
    CT_TRY(ct_cuda_branches_backward(l->dev, &b));
    for (int i = 0; i < b.n; i++)
        if (masks[i])
            ct_concat_masked(l, i);
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_concat_backward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    struct diffs dy = {};
    enum ct_status st;

    CT_ASSERT(io->n_top <= CONCAT_TOPS);
    for (int t = 0; t < io->n_top; t++)
        if (ct_diff(io->top[t]))
            dy.of[dy.n++] = ct_diff(io->top[t]);
    st = backward_whole(l, io, &dy);
    return st == CT_ENOTSUP ? backward_parts(l, io, &dy) : st;
}

extern "C" enum ct_status ct_cuda_slice_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct slice *s = (const struct slice *)l->state;
    const struct rows r   = rows_of(io->bottom[0], s->axis);
    const int64_t step = io->bottom[0]->shape.dim[s->axis] * r.inner * r.bytes;
    const char *x = (const char *)ct_data(io->bottom[0]);

    for (int i = 0; i < io->n_top; i++) {
        const int64_t width =
            io->top[i]->shape.dim[s->axis] * r.inner * r.bytes;

        CT_TRY(copy(l->dev, r.outer, width, x, step, ct_data(io->top[i]),
                    width));
        x += width;
    }
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_slice_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct slice *s = (const struct slice *)l->state;
    const struct rows r   = rows_of(io->bottom[0], s->axis);
    const int64_t step = io->bottom[0]->shape.dim[s->axis] * r.inner * r.bytes;
    char *dx = (char *)ct_diff(io->bottom[0]);

    for (int i = 0; io->want_grad[0] && i < io->n_top; i++) {
        const int64_t width =
            io->top[i]->shape.dim[s->axis] * r.inner * r.bytes;

        CT_TRY(copy(l->dev, r.outer, width, ct_diff(io->top[i]), width, dx,
                    step));
        dx += width;
    }
    return CT_OK;
}
