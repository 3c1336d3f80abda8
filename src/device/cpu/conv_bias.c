/* conv_bias.c - a value a channel, added to and summed over a whole array.
 *
 * The loops follow the layout: a plain array has long runs of one channel, the
 * others have channels innermost.  Padded channels stay zero. */
#include <math.h>
#include <string.h>

#include "device/conv_impl.h"
#include "device/cpu/bf16.h"
#include "device/cpu/bias_bf16.h"
#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "device/layout.h"
#ifdef CT_HAVE_CUDA
#include "device/cuda/conv_kernels.h"
#endif

/* Channels that lie side by side at one position; 1 in a plain array. */
static int64_t block_of(const struct ct_bias_desc *d)
{
    switch (d->layout) {
    case CT_BLOCKED8:
        return 8;
    case CT_BLOCKED16:
        return 16;
    case CT_NHWC:
        return d->channels;
    default:
        return 1;
    }
}

enum ct_status ct_bias_forward(const struct ct_device *dev,
                               const struct ct_bias_desc *d, const float *b,
                               float *y)
{
    int64_t block = block_of(d), blocks = (d->channels + block - 1) / block;
    int64_t row = d->spatial * block;

#ifdef CT_HAVE_CUDA
    if (dev->kind == CT_CUDA)
        return ct_cuda_conv_finish(dev, d, b, false, y);
#endif
    (void)dev;
    CT_FOR_ROWS (r, d->batch * blocks, row) {
        int64_t first = r % blocks * block;
        int64_t n = first + block < d->channels ? block : d->channels - first;
        float *to = y + r * row;

        if (block == 1)
            for (int64_t s = 0; s < d->spatial; s++)
                to[s] += b[first];
        else
            for (int64_t s = 0; s < d->spatial; s++)
                for (int64_t c = 0; c < n; c++)
                    to[s * block + c] += b[first + c];
    }
    return CT_OK;
}

CT_SIMD static void relu_row(int64_t n, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = y[i] < 0 ? 0 : y[i]; /* NaN stays */
}

CT_SIMD static void relu_row_bf16(int64_t n, uint16_t *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ct_widen(y[i]) < 0 ? 0 : y[i];
}

static int64_t y_count(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    return d->batch * c->out_spatial *
           ct_layout_block(d->dst_layout, d->out_channels) *
           ct_layout_blocks(d->dst_layout, d->out_channels);
}

void ct_conv_relu(const struct ct_conv *c, float *y)
{
    const int64_t row = c->out_spatial, rows = y_count(c) / row;

    CT_FOR_ROWS (r, rows, row)
        if (c->desc.dst_type == CT_BF16)
            relu_row_bf16(row, ct_bf16_out(y) + r * row);
        else
            relu_row(row, y + r * row);
}

CT_SIMD static bool finite_row(int64_t n, const float *x)
{
    const float most = 3.402823466e38f;
    int32_t bad      = 0;

    CT_SIMD_EACH (i, n)
        bad |= !(fabsf(x[i]) <= most);
    return !bad;
}

bool ct_conv_finite(int64_t n, const float *w)
{
    return finite_row(n, w);
}

void ct_conv_spoil(const struct ct_conv *c, float *y)
{
    for (int64_t i = 0; i < y_count(c); i++)
        if (c->desc.dst_type == CT_BF16)
            ct_bf16_out(y)[i] = ct_narrow(NAN);
        else
            y[i] = NAN;
}

/* The sum of n values; eight partial sums, so that it vectorises. */
static double sum_of(const float *x, int64_t n)
{
    double part[8] = { 0 }, sum = 0;
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            part[j] += (double)x[i + j];
    for (; i < n; i++)
        sum += (double)x[i];
    for (int j = 0; j < 8; j++)
        sum += part[j];
    return sum;
}

/* One block of at most 16 channels that start at `dy`, `step` apart. */
static void sum_block(const struct ct_bias_desc *d, const float *dy,
                      int64_t step, int64_t sample, int64_t n, float *db)
{
    double sum[16] = { 0 };

    for (int64_t i = 0; i < d->batch; i++)
        for (int64_t s = 0; s < d->spatial; s++)
            for (int64_t c = 0; c < n; c++)
                sum[c] += (double)dy[i * sample + s * step + c];
    for (int64_t c = 0; c < n; c++)
        db[c] += (float)sum[c];
}

/* Channels [from, to) of NHWC: each position's in a row. */
CT_SIMD static void sum_channels_bf16(const struct ct_bias_desc *d,
                                      const uint16_t *dy, int64_t from,
                                      int64_t to, float *db)
{
    double sum[16] = { 0 };

    for (int64_t s = 0; s < d->batch * d->spatial; s++)
        for (int64_t c = from; c < to; c++)
            sum[c - from] += (double)ct_widen(dy[s * d->channels + c]);
    for (int64_t c = from; c < to; c++)
        db[c] += (float)sum[c - from];
}

enum ct_status ct_bias_backward(const struct ct_device *dev,
                                const struct ct_bias_desc *d, const float *dy,
                                float *db)
{
    int64_t block = block_of(d), blocks = (d->channels + block - 1) / block;
    int64_t sample = blocks * block * d->spatial;

#ifdef CT_HAVE_CUDA
    if (dev->kind == CT_CUDA)
        return ct_cuda_conv_bias_backward(dev, d, dy, db);
#endif
    (void)dev;
    if (d->dtype == CT_BF16) {
        CT_ASSERT(d->layout == CT_NHWC);
        if (ct_bias_short_takes(d->channels)) {
            ct_bias_short(d->batch * d->spatial, d->channels, ct_bf16(dy),
                          NULL, NULL, db);
            return CT_OK;
        }
        CT_FOR_ROWS (r, (d->channels + 15) / 16, d->batch * d->spatial * 16)
            sum_channels_bf16(d, ct_bf16(dy), r * 16,
                              r * 16 + 16 < d->channels ? r * 16 + 16
                                                        : d->channels, db);
        return CT_OK;
    }
    if (block == 1) {
        CT_FOR_ROWS (c, d->channels, d->batch * d->spatial) {
            double sum = 0;

            for (int64_t i = 0; i < d->batch; i++)
                sum += sum_of(dy + i * sample + c * d->spatial, d->spatial);
            db[c] += (float)sum;
        }
        return CT_OK;
    }
    CT_FOR_ROWS (r, (d->channels + 15) / 16, d->batch * d->spatial * 16) {
        for (int64_t c = r * 16; c < d->channels && c < r * 16 + 16;) {
            int64_t end = (c / block + 1) * block;

            end = end < r * 16 + 16 ? end : r * 16 + 16;
            end = end < d->channels ? end : d->channels;
            sum_block(d, dy + c / block * block * d->spatial + c % block,
                      block, sample, end - c, db + c);
            c = end;
        }
    }
    return CT_OK;
}

CT_SIMD static void mask_row(int64_t n, const float *y, float *dy)
{
    CT_SIMD_EACH (i, n)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

/* Above zero, up to infinity: NaN is not. */
CT_SIMD static void mask_row_bf16(int64_t n, const uint16_t *y, uint16_t *dy)
{
    CT_SIMD_EACH (i, n)
        dy[i] = y[i] > 0 && y[i] <= 0x7f80 ? dy[i] : 0;
}

/* Each value by itself: in runs of which there are enough for all threads. */
static void mask(const struct ct_bias_desc *d, int64_t n, const float *y,
                 float *dy)
{
    enum { RUN = 1 << 14 };

    CT_FOR_ROWS (r, (n + RUN - 1) / RUN, RUN) {
        const int64_t at  = r * RUN;
        const int64_t run = n - at < RUN ? n - at : RUN;

        if (d->dtype == CT_BF16)
            mask_row_bf16(run, ct_bf16(y) + at, ct_bf16_out(dy) + at);
        else
            mask_row(run, y + at, dy + at);
    }
}

enum ct_status ct_bias_mask(const struct ct_device *dev,
                            const struct ct_bias_desc *d, const float *y,
                            float *dy, float *db)
{
    const int64_t block  = block_of(d);
    const int64_t blocks = (d->channels + block - 1) / block;

#ifdef CT_HAVE_CUDA
    if (dev->kind == CT_CUDA)
        return ct_cuda_conv_mask(dev, d, y, dy, db);
#endif
    if (db && d->dtype == CT_BF16 && d->layout == CT_NHWC &&
        ct_bias_short_takes(d->channels)) {
        ct_bias_short(d->batch * d->spatial, d->channels, ct_bf16(dy),
                      ct_bf16(y), ct_bf16_out(dy), db);
        return CT_OK;
    }
    mask(d, d->batch * blocks * block * d->spatial, y, dy);
    return db ? ct_bias_backward(dev, d, dy, db) : CT_OK;
}
