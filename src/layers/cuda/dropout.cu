/* dropout.cu - Dropout on a GPU; formulas and draws as in dropout.c.
 *
 * A thread takes four neighbours of a sample, which is what one draw of Philox
 * decides on; in NHWC these lie apart, and a thread takes one value. */
#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "layers/cuda/pass_draws.h"
#include "layers/dropout.h"

struct masks {
    struct draws draws;
    int64_t      samples, per; /* values of a sample */
    float        scale;
    uint32_t     threshold;
};

/* FULL: samples are made of whole fours. */
template <bool FULL, typename T>
__global__ static void dropout(struct masks d, const T *x, T *y, uint8_t *mask)
{
    CT_TURN();
    const uint64_t first = d.draws.first(d.samples);
    const int64_t fours  = (d.per + 3) / 4;

    CT_KERNEL_EACH (u, d.samples * fours) {
        const int64_t sample = u / fours, i = u % fours;
        const int64_t at = sample * d.per + i * 4;
        const struct ct_philox r =
            ct_philox(d.draws.key, first + (uint64_t)sample, (uint64_t)i);

        if (FULL) {
            const ct_pack<4, T> v = ct_load_pack<4>(x + at);
            ct_pack<4, T> out;
            ct_pack<4, uint8_t> keep;

#pragma unroll
            for (int k = 0; k < 4; k++) {
                keep.v[k] = r.v[k] >= d.threshold;
                ct_store(out.v + k,
                         ct_load(v.v + k) * (keep.v[k] ? d.scale : 0));
            }
            ct_store_pack<4>(y + at, out);
            ct_store_pack<4>(mask + at, keep);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (i * 4 + k < d.per) {
                    mask[at + k] = r.v[k] >= d.threshold;
                    ct_store(y + at + k, ct_load(x + at + k) *
                                             (mask[at + k] ? d.scale : 0));
                }
        }
    }
}

template <typename T>
__global__ static void dropout_nhwc(struct masks d, int64_t channels,
                                    const T *x, T *y, uint8_t *mask)
{
    CT_TURN();
    const uint64_t first = d.draws.first(d.samples);
    const int64_t inner  = d.per / channels;

    CT_KERNEL_EACH (u, d.samples * d.per) {
        const int64_t sample = u / d.per, at = u % d.per;
        const int64_t i      = at % channels * inner + at / channels;
        const struct ct_philox r =
            ct_philox(d.draws.key, first + (uint64_t)sample,
                      (uint64_t)i / 4);
        const uint32_t drawn = i % 4 == 0   ? r.v[0]
                               : i % 4 == 1 ? r.v[1]
                               : i % 4 == 2 ? r.v[2]
                                            : r.v[3];

        mask[u] = drawn >= d.threshold;
        ct_store(y + u, ct_load(x + u) * (mask[u] ? d.scale : 0));
    }
}

struct masked {
    float scale;
    __device__ float operator()(float dy, float mask) const
    {
        return dy * (mask != 0 ? scale : 0);
    }
};

template <typename T>
static enum ct_status forward(const struct ct_layer *l, const struct masks *d,
                              int64_t channels, const T *x, T *y,
                              uint8_t *mask)
{
    const int64_t n = d->samples * ((d->per + 3) / 4);

    if (channels > 1 && channels < d->per)
        return CT_LAUNCH(l->dev, d->samples * d->per, dropout_nhwc<T>, *d,
                         channels, x, y, mask);
    if (d->per % 4 == 0 && ct_aligned(x) && ct_aligned(y) && ct_aligned(mask))
        return CT_LAUNCH(l->dev, n, (dropout<true, T>), *d, x, y, mask);
    return CT_LAUNCH(l->dev, n, (dropout<false, T>), *d, x, y, mask);
}

extern "C" enum ct_status ct_cuda_dropout_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const struct dropout *s   = (const struct dropout *)l->state;
    const struct ct_tensor *x = &io->bottom[0]->data, *y = &io->top[0]->data;
    const int64_t n       = ct_elements(io->top[0]);
    const int64_t samples = ct_shape_legacy(&io->top[0]->shape, 0);
    const struct masks d  = { draws_of(l), samples,
                              samples > 0 ? n / samples : 0, s->scale,
                              s->threshold };
    const int64_t channels =
        x->layout == CT_NHWC ? io->bottom[0]->shape.dim[1] : 1;

    if (l->phase != CAFFE__PHASE__TRAIN)
        return ct_copy_values(l->dev, n, x->dtype, x->ptr, y->ptr);
    if (n == 0)
        return CT_OK;
    CT_BY_TYPE(x->dtype, T,
               return forward(l, &d, channels, (const T *)x->ptr, (T *)y->ptr,
                              (uint8_t *)ct_data(s->mask)));
}

extern "C" enum ct_status ct_cuda_dropout_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct dropout *s    = (const struct dropout *)l->state;
    const struct ct_tensor *dx = &io->bottom[0]->diff;
    const struct ct_tensor *dy = &io->top[0]->diff;
    const int64_t n            = ct_elements(io->top[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (l->phase != CAFFE__PHASE__TRAIN)
        return ct_copy_values(l->dev, n, dy->dtype, dy->ptr, dx->ptr);
    CT_BY_TYPE(dy->dtype, T,
               return ct_map(l->dev, n, masked{ s->scale }, (T *)dx->ptr,
                             (const T *)dy->ptr,
                             (const uint8_t *)ct_data(s->mask)));
}
