/* conv_few.c - convolutions of images of up to four channels to bfloat16.
 *
 * The first layer of most nets.  oneDNN's kernels want sixteen channels, and
 * the images come as plain floats.  Here an image is rounded to bfloat16 with
 * its channels last and its padding around it, once; all products are read
 * from there (few_bf16.h).
 *
 *     forward            8 positions x 32 outputs, over the kernel
 *     backward weights   8 taps x 32 outputs, over a band of rows of dy
 *
 * A core takes every n-th image.  Nobody wants the gradient of an image, as a
 * rule: it is made plainly. */
#include "device/cpu/few_bf16.h"

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/amx_pack.h"
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/wino_bf16.h"
#include "device/kernels.h"

enum {
    MOST_CHANNELS = 4, ROWS = CT_FEW_ROWS, COLUMNS = CT_FEW_COLUMNS,
    BAND_BYTES = 1 << 17 /* of dy in pairs, 32 outputs */
};

struct few {
    int64_t  workers, chunks;   /* chunks of 32 outputs */
    int64_t  width, line, size; /* of the image: values under a row of the
                                 * kernel, of a row, of all */
    int64_t  pairs, taps;       /* of a kernel; taps in eights */
    int64_t  band, half;        /* rows of dy, pairs of positions of one */
    int32_t *offset;            /* of each pair, then of each tap; owned */
};

static int64_t up_to(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

static bool takes(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    if (d->n_spatial != 2 || d->group != 1 || d->batch == 0 || d->packed ||
        d->untuned || /* bits must not depend on the number of threads */
        d->in_channels > MOST_CHANNELS || d->src_type != CT_F32 ||
        d->dst_type != CT_BF16 || d->src_layout != CT_PLAIN ||
        d->dst_layout != CT_NHWC || c->in_spatial == 0)
        return false;
    for (int i = 0; i < 2; i++)
        if (d->dilation[i] != 1 || d->in[i] > INT16_MAX ||
            d->pad[i] > INT16_MAX || d->stride[i] > INT16_MAX ||
            d->kernel[i] > INT16_MAX)
            return false;
    return ct_short_runs() && !ct_cpu_has_amx();
}

/* Floats of a worker: the image and its pairs, or those of dy and dU. */
static int64_t image_floats(const struct few *f)
{
    return up_to(f->size, 32) / 2;
}

static int64_t own_floats(const struct few *f)
{
    return image_floats(f) + up_to(f->size, 16) +
           f->band * f->half * COLUMNS + f->chunks * f->taps * COLUMNS;
}

static int64_t u_floats(const struct few *f)
{
    return f->chunks * f->pairs * COLUMNS;
}

static void set_offsets(const struct ct_conv *c, struct few *f)
{
    const int64_t per_row = (f->width + 1) / 2, real = c->taps * c->in_group;

    for (int64_t i = 0; i < f->pairs; i++)
        f->offset[i] = (int32_t)(i / per_row * f->line + i % per_row * 2);
    for (int64_t i = 0; i < f->taps; i++) {
        const int64_t k = i < real ? i : 0; /* the others are not read */

        f->offset[f->pairs + i] =
            (int32_t)(k / f->width * f->line + k % f->width);
    }
}

static enum ct_status few_create(struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    struct few *f;
    int64_t slack;

    if (!takes(c))
        return CT_ENOTSUP;
    CT_TRY(ct_alloc(1, sizeof(*f), "convolution of few channels", &f));
    c->state   = f;
    f->workers = ct_device_cpu_threads();
    f->workers = f->workers < d->batch ? f->workers : d->batch;
    f->chunks  = (d->out_channels + COLUMNS - 1) / COLUMNS;
    f->width   = d->kernel[1] * d->in_channels;
    f->line    = (d->in[1] + 2 * d->pad[1]) * d->in_channels;
    /* Eight positions are read where the last row has fewer. */
    slack      = (ROWS + 1) * d->stride[1] * d->in_channels + f->width;
    f->size    = (d->in[0] + 2 * d->pad[0]) * f->line + slack;
    f->pairs   = d->kernel[0] * ((f->width + 1) / 2);
    f->taps    = up_to(c->taps * c->in_group, ROWS);
    f->half    = (c->out[1] + 1) / 2;
    f->band    = BAND_BYTES / (f->half * COLUMNS * 4);
    f->band    = f->band < 1 ? 1 : f->band > c->out[0] ? c->out[0] : f->band;
    if (f->size > INT32_MAX)
        return CT_ENOTSUP;
    CT_TRY(ct_alloc((size_t)(f->pairs + f->taps), sizeof(*f->offset),
                    "places of a kernel", &f->offset));
    set_offsets(c, f);
    return ct_workspace_need(
        c->work, (size_t)(f->chunks * COLUMNS + u_floats(f) +
                          f->workers * own_floats(f)) * sizeof(float));
}

static void few_destroy(struct ct_conv *c)
{
    struct few *f = c->state;

    if (f)
        ct_free(f->offset);
    ct_free(f);
}

/* Parts of the workspace: bias, U, and each worker's. */
static uint16_t *u_of(const struct ct_conv *c)
{
    const struct few *f = c->state;

    return ct_bf16_out(c->work->ptr + f->chunks * COLUMNS);
}

static float *own_of(const struct ct_conv *c, int64_t worker)
{
    const struct few *f = c->state;

    return c->work->ptr + f->chunks * COLUMNS + u_floats(f) +
           worker * own_floats(f);
}

/* The weight of output o at tap k, counted as the image lies. */
static int64_t weight_at(const struct ct_conv *c, int64_t o, int64_t k)
{
    const struct few *f = c->state;
    const int64_t y = k / f->width, x = k % f->width / c->in_group;
    const int64_t channel = k % f->width % c->in_group;

    return (o * c->in_group + channel) * c->taps +
           y * c->desc.kernel[1] + x;
}

static void make_u(const struct ct_conv *c, const float *w)
{
    const struct few *f   = c->state;
    const int64_t per_row = (f->width + 1) / 2;
    uint16_t *u           = u_of(c);

    memset(u, 0, (size_t)u_floats(f) * sizeof(float));
    for (int64_t o = 0; o < c->desc.out_channels; o++)
        for (int64_t k = 0; k < c->taps * c->in_group; k++) {
            const int64_t x = k % f->width;
            const int64_t j = k / f->width * per_row + x / 2;

            u[((o / COLUMNS * f->pairs + j) * COLUMNS + o % COLUMNS) * 2 +
              x % 2] = ct_narrow(w[weight_at(c, o, k)]);
        }
}

/* One image in bfloat16, channels last, padding around it. */
static void make_image(const struct ct_conv *c, const float *x, uint16_t *to)
{
    const struct ct_conv_desc *d = &c->desc;
    const struct few *f          = c->state;
    const int64_t n              = d->in_channels;

    memset(to, 0, (size_t)f->size * sizeof(*to));
    for (int64_t i = 0; i < d->in[0]; i++)
        ct_amx_merge(d->in[1], n, x + i * d->in[1], c->in_spatial,
                     to + (i + d->pad[0]) * f->line + d->pad[1] * n);
}

static void forward_image(const struct ct_conv *c, const uint16_t *image,
                          uint16_t *y)
{
    const struct ct_conv_desc *d = &c->desc;
    const struct few *f          = c->state;
    const int64_t row = d->stride[1] * d->in_channels, out = d->out_channels;
    float sums[ROWS * COLUMNS] __attribute__((aligned(64)));

    for (int64_t i = 0; i < c->out[0]; i++)
        for (int64_t j = 0; j < c->out[1]; j += ROWS) {
            const uint16_t *from = image + i * d->stride[0] * f->line +
                                   j * row;
            const int64_t left   = c->out[1] - j;

            for (int64_t k = 0; k < f->chunks; k++) {
                ct_few_forward(f->pairs, f->offset, from, row,
                               u_of(c) + k * f->pairs * COLUMNS * 2, sums);
                ct_few_finish(left < ROWS ? left : ROWS, out - k * COLUMNS,
                              sums, c->work->ptr + k * COLUMNS, d->sum,
                              d->relu, out,
                              y + (i * c->out[1] + j) * out + k * COLUMNS);
            }
        }
}

static enum ct_status few_forward(struct ct_conv *c, const float *x,
                                  const float *w, const float *b, float *y)
{
    const struct few *f   = c->state;
    const int64_t in      = c->in_spatial * c->desc.in_channels;
    const int64_t out     = c->out_spatial * c->desc.out_channels;

    for (int64_t i = 0; i < f->chunks * COLUMNS; i++)
        c->work->ptr[i] = b && i < c->desc.out_channels ? b[i] : 0;
    make_u(c, w);
    CT_FOR_ROWS (i, f->workers, CT_GRAIN) {
        uint16_t *image = ct_bf16_out(own_of(c, i));

        for (int64_t n = i; n < c->desc.batch; n += f->workers) {
            make_image(c, x + n * in, image);
            forward_image(c, image, ct_bf16_out(y) + n * out);
        }
    }
    return CT_OK;
}

/* The parts of a worker in the gradient of the weights. */
struct parts {
    uint16_t *image;
    uint32_t *pairs;
    uint16_t *dy;
    float    *du;
};

static struct parts parts_of(const struct ct_conv *c, int64_t worker)
{
    const struct few *f = c->state;
    float *at           = own_of(c, worker);
    struct parts p      = { .image = ct_bf16_out(at) };

    at += image_floats(f);
    p.pairs = (uint32_t *)(void *)at;
    at += up_to(f->size, 16);
    p.dy = ct_bf16_out(at);
    p.du = at + f->band * f->half * COLUMNS;
    return p;
}

/* dU += what rows [from, from + band) of dy make with all taps. */
static void gradient_band(const struct ct_conv *c, const struct parts *p,
                          int64_t from, int64_t rows, const uint16_t *dy)
{
    const struct ct_conv_desc *d  = &c->desc;
    const struct few *f           = c->state;
    const int64_t next            = d->stride[1] * d->in_channels;
    const struct ct_few_area area = { rows, f->half, 2 * next,
                                      d->stride[0] * f->line };

    for (int64_t k = 0; k < f->chunks; k++) {
        for (int64_t i = 0; i < rows; i++)
            ct_few_weave(c->out[1], d->out_channels - k * COLUMNS,
                         dy + (from + i) * c->out[1] * d->out_channels +
                             k * COLUMNS,
                         d->out_channels,
                         p->dy + i * f->half * COLUMNS * 2);
        for (int64_t t = 0; t < f->taps; t += ROWS)
            ct_few_gradient(&area, f->offset + f->pairs + t,
                            p->pairs + from * d->stride[0] * f->line, p->dy,
                            p->du + (k * f->taps + t) * COLUMNS);
    }
}

static void gradient_image(const struct ct_conv *c, const struct parts *p,
                           const float *x, const uint16_t *dy)
{
    const struct few *f = c->state;
    const int64_t next  = c->desc.stride[1] * c->desc.in_channels;

    make_image(c, x, p->image);
    ct_few_pair(f->size - next, next, p->image, p->pairs);
    for (int64_t i = 0; i < c->out[0]; i += f->band) {
        const int64_t left = c->out[0] - i;

        gradient_band(c, p, i, left < f->band ? left : f->band, dy);
    }
}

static enum ct_status few_backward_weights(struct ct_conv *c, const float *x,
                                           const float *dy, float *dw,
                                           float *db)
{
    const struct few *f = c->state;
    const int64_t in    = c->in_spatial * c->desc.in_channels;
    const int64_t out   = c->out_spatial * c->desc.out_channels;

    CT_FOR_ROWS (i, f->workers, CT_GRAIN) {
        const struct parts p = parts_of(c, i);

        memset(p.du, 0,
               (size_t)(f->chunks * f->taps * COLUMNS) * sizeof(*p.du));
        for (int64_t n = i; n < c->desc.batch; n += f->workers)
            gradient_image(c, &p, x + n * in, ct_bf16(dy) + n * out);
    }
    for (int64_t o = 0; o < c->desc.out_channels; o++)
        for (int64_t k = 0; k < c->taps * c->in_group; k++) {
            float *to = dw + weight_at(c, o, k);
            float sum = c->write ? 0 : *to;

            for (int64_t i = 0; i < f->workers; i++)
                sum += parts_of(c, i).du[(o / COLUMNS * f->taps + k) *
                                             COLUMNS + o % COLUMNS];
            *to = sum;
        }
    return ct_conv_bias_gradient(c, dy, db);
}

CT_SIMD static float dot(int64_t n, const uint16_t *dy, const float *w)
{
    float sum = 0;

    CT_SIMD_SUM (i, n, sum)
        sum += ct_widen(dy[i]) * w[i];
    return sum;
}

/* dx of one image; `turned` has the outputs of each tap together. */
static void data_image(const struct ct_conv *c, const float *turned,
                       const uint16_t *dy, float *dx)
{
    const struct ct_conv_desc *d = &c->desc;
    const struct few *f          = c->state;
    const int64_t out            = d->out_channels;

    memset(dx, 0, (size_t)(c->in_spatial * d->in_channels) * sizeof(*dx));
    for (int64_t p = 0; p < c->out_spatial; p++)
        for (int64_t k = 0; k < c->taps * c->in_group; k++) {
            const int64_t i = p / c->out[1] * d->stride[0] - d->pad[0] +
                              k / f->width;
            const int64_t j = p % c->out[1] * d->stride[1] - d->pad[1] +
                              k % f->width / c->in_group;

            if (i >= 0 && i < d->in[0] && j >= 0 && j < d->in[1])
                dx[(k % c->in_group * d->in[0] + i) * d->in[1] + j] +=
                    dot(out, dy + p * out, turned + k * out);
        }
}

static enum ct_status few_backward_data(struct ct_conv *c, const float *w,
                                        const float *dy, float *dx)
{
    const int64_t in  = c->in_spatial * c->desc.in_channels;
    const int64_t out = c->out_spatial * c->desc.out_channels;
    const int64_t n   = c->desc.out_channels;
    float *turned     = c->work->ptr;

    for (int64_t k = 0; k < c->taps * c->in_group; k++)
        for (int64_t o = 0; o < n; o++)
            turned[k * n + o] = ct_widen(ct_narrow(w[weight_at(c, o, k)]));
    CT_FOR_ROWS (i, c->desc.batch, CT_GRAIN)
        data_image(c, turned, ct_bf16(dy) + i * out, dx + i * in);
    return CT_OK;
}

const struct ct_conv_impl ct_conv_few = {
    .name             = "few",
    .shorts           = true,
    .create           = few_create,
    .destroy          = few_destroy,
    .forward          = few_forward,
    .backward_data    = few_backward_data,
    .writes           = true,
    .backward_weights = few_backward_weights,
};

#endif
