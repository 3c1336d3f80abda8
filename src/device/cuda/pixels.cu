/* pixels.cu - crop, mirror, mean and scale of whole batches of bytes.
 *
 * The arithmetic is that of data/transform.c, to the bit: a difference and a
 * product of float32.  Threads follow the output, so that writes are in full
 * lines whatever its layout. */
#include "device/cuda/kernel.h"

extern "C" {
#include "device/staging.h"
}

/* Places of the output, in 32 bits: a division costs more than the rest. */
struct place {
    unsigned image, channel, row, column;
};

__device__ static struct place place_of(const struct ct_pixel_batch &b,
                                        bool nhwc, unsigned i)
{
    const unsigned c = (unsigned)b.channels, h = (unsigned)b.out_height;
    const unsigned w = (unsigned)b.out_width;
    struct place p;

    if (nhwc) {
        p.channel = i % c;
        i /= c;
    }
    p.column = i % w;
    i /= w;
    p.row = i % h;
    i /= h;
    if (!nhwc) {
        p.channel = i % c;
        i /= c;
    }
    p.image = i;
    return p;
}

template <typename T>
__global__ static void transform(struct ct_pixel_batch b, bool nhwc,
                                 int64_t first, int64_t n, T *y)
{
    CT_TURN();
    const int64_t c = b.channels, h = b.height, w = b.width;

    CT_KERNEL_EACH (i, n) {
        const struct place p     = place_of(b, nhwc, (unsigned)i);
        const int64_t image      = first + p.image;
        const struct ct_crop k = b.window[image];
        const int64_t in = k.mirror ? b.out_width - 1 - (int)p.column
                                    : (int)p.column;
        const int64_t row = k.row + (int)p.row, column = k.column + in;
        const int64_t at  = b.planar ? (p.channel * h + row) * w + column
                                     : (row * w + column) * c + p.channel;
        const float x     = (float)b.x[image * c * h * w + at];
        const float mean =
            b.mean ? b.mean[(p.channel * (int64_t)b.mean_height + k.mean_row +
                             p.row) * b.mean_width + k.mean_column + in]
                   : b.values[p.channel];

        ct_store(y + i, __fmul_rn(__fsub_rn(x, mean), b.scale));
    }
}

extern "C" enum ct_status ct_pixels_transform(const struct ct_device *d,
                                              const struct ct_pixel_batch *b,
                                              enum ct_layout layout,
                                              enum ct_dtype dtype, void *y)
{
    const int64_t each = (int64_t)b->channels * b->out_height * b->out_width;
    const int64_t most = each ? ((int64_t)1 << 30) / each : 1; /* a launch */

    for (int64_t i = 0; i < b->n && each; i += most) {
        const int64_t n = (b->n - i < most ? b->n - i : most) * each;

        CT_BY_TYPE(dtype, T,
                   CT_TRY(CT_LAUNCH(d, n, transform<T>, *b,
                                    layout == CT_NHWC, i, n,
                                    (T *)y + i * each)));
    }
    return CT_OK;
}
