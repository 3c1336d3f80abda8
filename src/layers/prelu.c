/* prelu.c - the rectifier with learned slopes, Caffe type "PReLU"; at least
 * two axes, may work in place.
 *
 *     y  = x > 0 ? x  : a_c x
 *     dx = x > 0 ? dy : a_c dy      da_c += sum of dy x where x <= 0
 *
 * c is the index on axis 1; with channel_shared there is one slope for all, a
 * scalar.
 * Slopes start at 0.25 unless a filler says otherwise.  In place x is copied
 * before it is overwritten.
 * He et al., "Delving deep into rectifiers", 2015. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/prelu.h"
#include "proto/params.h"

/* Channels that one thread takes through all samples: where each holds one
 * value, a cache line of them. */
enum { GROUP = 16 };

static enum ct_status prelu_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__PReLUParameter *p = ct_prelu_param(l->param);
    Caffe__FillerParameter quarter = CAFFE__FILLER_PARAMETER__INIT;
    struct prelu *r = l->state;

    if (io->bottom[0]->shape.n_axes < 2)
        return ct_fail(CT_ESHAPE, "layer %s: PReLU takes a bottom of at least "
                       "2 axes", l->name);
    quarter.value = 0.25f;
    r->shared     = p->channel_shared;
    if (io->bottom[0] == io->top[0])
        CT_TRY(ct_layer_add_scratch(l, &r->kept));
    return ct_layer_add_blob(
        l, r->shared ? CT_SCALAR : CT_SHAPE(io->bottom[0]->shape.dim[1]),
        p->filler ? p->filler : &quarter);
}

static enum ct_status prelu_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    struct prelu *r = l->state;

    if (x->shape.n_axes < 2)
        return ct_fail(CT_ESHAPE, "layer %s: PReLU takes a bottom of at least "
                       "2 axes", l->name);
    r->n        = x->shape.dim[0];
    r->channels = x->shape.dim[1];
    r->inner    = ct_count(x, 2, CT_END);
    if (!r->shared && l->blob[0]->count != r->channels)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom has %lld channels, and "
                       "there are %lld slopes", l->name,
                       (long long)r->channels, (long long)l->blob[0]->count);
    if (r->kept)
        CT_TRY(ct_reshape(r->kept, x->shape));
    return ct_layer_same_shape(l, io);
}

CT_SIMD static void prelu_row(int64_t n, float slope, const float *x, float *y)
{
    CT_SIMD_EACH (i, n)
        y[i] = (x[i] > 0 ? x[i] : 0) + slope * (x[i] > 0 ? 0 : x[i]);
}

CT_SIMD static void prelu_grad_row(int64_t n, float slope, const float *x,
                                   const float *dy, float *dx)
{
    CT_SIMD_EACH (i, n) {
        const float d = dy[i];

        dx[i] = (x[i] > 0 ? d : 0) + slope * (x[i] > 0 ? 0 : d);
    }
}

static enum ct_status prelu_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct prelu *r = l->state;
    const int64_t inner = r->inner, channels = r->channels;
    const float *x = ct_data(io->bottom[0]), *a = ct_data(l->blob[0]);
    const int64_t a_step = r->shared ? 0 : 1;
    float *y = ct_data(io->top[0]);

    if (r->kept)
        CT_TRY(ct_copy(l->dev, io->bottom[0]->count, x, ct_data(r->kept)));
    CT_FOR_ROWS (row, r->n * channels, inner)
        prelu_row(inner, a[row % channels * a_step], x + row * inner,
                  y + row * inner);
    return CT_OK;
}

/* dx of channels [c, end), and the sum of each one's slope gradient, which are
 * NULL where they are not asked for.  dx may be dy. */
static void prelu_group(const struct prelu *r, int64_t c, int64_t end,
                        const float *x, const float *dy, const float *a,
                        float *dx, double *sum)
{
    for (int64_t n = 0; n < r->n; n++)
        for (int64_t k = c; k < end; k++) {
            const int64_t from = (n * r->channels + k) * r->inner;
            const float slope  = a[r->shared ? 0 : k];

            if (sum)
                CT_SUM_ROW (i, r->inner, sum[k - c],
                            dy[from + i] * (x[from + i] > 0 ? 0 : x[from + i]));
            if (dx)
                prelu_grad_row(r->inner, slope, x + from, dy + from,
                               dx + from);
        }
}

static enum ct_status prelu_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct prelu *r = l->state;
    const float *x = ct_data(r->kept ? r->kept : io->bottom[0]);
    const float *dy = ct_diff(io->top[0]), *a = ct_data(l->blob[0]);
    float *dx = io->want_grad[0] ? ct_diff(io->bottom[0]) : NULL;
    float *da = l->blob_wants_grad[0] ? ct_diff(l->blob[0]) : NULL;
    const bool each = da && !r->shared;

    if (da && r->shared) {
        double all = 0;

        CT_SUM_EACH (i, io->bottom[0]->count, all)
            all += (double)(dy[i] * (x[i] > 0 ? 0 : x[i]));
        da[0] += (float)all;
    }
    CT_FOR_ROWS (g, (r->channels + GROUP - 1) / GROUP,
                 r->n * r->inner * GROUP) {
        const int64_t c   = g * GROUP;
        const int64_t end = c + GROUP < r->channels ? c + GROUP : r->channels;
        double sum[GROUP] = { 0 };

        prelu_group(r, c, end, x, dy, a, dx, each ? sum : NULL);
        for (int64_t k = c; each && k < end; k++)
            da[k] += (float)sum[k - c];
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_prelu = {
    .name       = "PReLU",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_NO_TOP | CT_LAYER_COPIES,
    .state_size = sizeof(struct prelu),
    .setup      = prelu_setup,
    .reshape    = prelu_reshape,
    .forward    = { prelu_forward, CT_CUDA_FN(prelu_forward) },
    .backward   = { prelu_backward, CT_CUDA_FN(prelu_backward) },
};
