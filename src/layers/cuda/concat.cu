/* concat.cu - Concat and Slice on a GPU; shapes as in their .c files.  A copy
 * moves the widest words that its rows are made of. */
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

extern "C" enum ct_status ct_cuda_concat_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct concat *c   = (const struct concat *)l->state;
    const struct rows r      = rows_of(io->top[0], c->axis);
    const int64_t step = io->top[0]->shape.dim[c->axis] * r.inner * r.bytes;
    char *y = (char *)ct_data(io->top[0]);

    for (int i = 0; i < io->n_bottom; i++) {
        const int64_t width =
            io->bottom[i]->shape.dim[c->axis] * r.inner * r.bytes;

        CT_TRY(copy(l->dev, r.outer, width, ct_data(io->bottom[i]), width, y,
                    step));
        y += width;
    }
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_concat_backward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct concat *c   = (const struct concat *)l->state;
    const struct rows r      = rows_of(io->top[0], c->axis);
    const int64_t step = io->top[0]->shape.dim[c->axis] * r.inner * r.bytes;
    const char *dy = (const char *)ct_diff(io->top[0]);

    for (int i = 0; i < io->n_bottom; i++) {
        const int64_t width =
            io->bottom[i]->shape.dim[c->axis] * r.inner * r.bytes;

        if (io->want_grad[i])
            CT_TRY(copy(l->dev, r.outer, width, dy, step,
                        ct_diff(io->bottom[i]), width));
        dy += width;
    }
    return CT_OK;
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
