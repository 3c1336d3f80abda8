/* conv_ref.c - convolution by its definition: any axes, any layout, sums in
 * double.  What the other implementations are compared with. */
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/loop.h"

enum { NOWHERE = -1 };

/* Channels of an array and how they lie. */
struct view {
    int64_t        channels, padded, spatial, block;
    enum ct_layout layout;
};

static struct view view_of(int64_t channels, int64_t spatial,
                           enum ct_layout layout)
{
    int64_t block = layout == CT_BLOCKED8    ? 8
                    : layout == CT_BLOCKED16 ? 16
                                             : 1;

    return (struct view){ channels, (channels + block - 1) / block * block,
                          spatial, block, layout };
}

static int64_t at(const struct view *v, int64_t n, int64_t c, int64_t s)
{
    if (v->layout == CT_NHWC)
        return (n * v->spatial + s) * v->channels + c;
    return ((n * v->padded + c / v->block * v->block) * v->spatial +
            s * v->block) + c % v->block;
}

/* Where in x output position p reads under kernel tap k, both flat. */
static int64_t source(const struct ct_conv *c, int64_t p, int64_t k)
{
    const struct ct_conv_desc *d = &c->desc;
    int64_t s = 0, below = 1;

    for (int i = d->n_spatial - 1; i >= 0; i--) {
        int64_t x = p % c->out[i] * d->stride[i] +
                    k % d->kernel[i] * d->dilation[i] - d->pad[i];

        if (x < 0 || x >= d->in[i])
            return NOWHERE;
        s += x * below;
        below *= d->in[i];
        p /= c->out[i];
        k /= d->kernel[i];
    }
    return s;
}

/* The state is room for one channel's sums. */
static enum ct_status ref_create(struct ct_conv *c)
{
    return ct_alloc((size_t)c->in_spatial, sizeof(double), "reference sums",
                    &c->state);
}

static void ref_destroy(struct ct_conv *c)
{
    ct_free(c->state);
}

static void ref_views(const struct ct_conv *c, struct view *x, struct view *y)
{
    const struct ct_conv_desc *d = &c->desc;

    *x = view_of(d->in_channels, c->in_spatial, d->src_layout);
    *y = view_of(d->out_channels, c->out_spatial, d->dst_layout);
}

static enum ct_status ref_forward(struct ct_conv *c, const float *x,
                                  const float *w, const float *b, float *y)
{
    struct view vx, vy;

    ref_views(c, &vx, &vy);
    CT_FOR_ROWS (r, c->desc.batch * vy.padded,
                 c->out_spatial * c->in_group * c->taps) {
        int64_t n = r / vy.padded, o = r % vy.padded;
        const float *wo = w + o * c->in_group * c->taps;

        for (int64_t p = 0; p < c->out_spatial; p++) {
            float *to  = &y[at(&vy, n, o, p)];
            double sum = b && o < vy.channels ? (double)b[o] : 0;

            for (int64_t k = 0; o < vy.channels && k < c->taps; k++) {
                int64_t s = source(c, p, k);

                for (int64_t i = 0; s >= 0 && i < c->in_group; i++)
                    sum += (double)wo[i * c->taps + k] *
                           (double)x[at(&vx, n,
                                        o / c->out_group * c->in_group + i,
                                        s)];
            }
            if (c->desc.sum)
                sum += (double)*to;
            *to = c->desc.relu && sum < 0 ? 0 : (float)sum;
        }
    }
    return CT_OK;
}

/* dx[s] of one sample and channel, summed into `sum`. */
static void ref_scatter(const struct ct_conv *c, const struct view *vy,
                        const float *w, const float *dy, int64_t n, int64_t i,
                        double *sum)
{
    int64_t g = i / c->in_group;

    for (int64_t o = g * c->out_group; o < (g + 1) * c->out_group; o++)
        for (int64_t k = 0; k < c->taps; k++)
            for (int64_t p = 0; p < c->out_spatial; p++) {
                int64_t s = source(c, p, k);

                if (s >= 0)
                    sum[s] += (double)w[(o * c->in_group + i % c->in_group) *
                                            c->taps + k] *
                              (double)dy[at(vy, n, o, p)];
            }
}

static enum ct_status ref_backward_data(struct ct_conv *c, const float *w,
                                        const float *dy, float *dx)
{
    struct view vx, vy;
    double *sum = c->state;

    ref_views(c, &vx, &vy);
    for (int64_t n = 0; n < c->desc.batch; n++)
        for (int64_t i = 0; i < vx.padded; i++) {
            memset(sum, 0, (size_t)c->in_spatial * sizeof(*sum));
            if (i < vx.channels)
                ref_scatter(c, &vy, w, dy, n, i, sum);
            for (int64_t s = 0; s < c->in_spatial; s++)
                dx[at(&vx, n, i, s)] = (float)sum[s];
        }
    return CT_OK;
}

static enum ct_status ref_backward_weights(struct ct_conv *c, const float *x,
                                           const float *dy, float *dw,
                                           float *db)
{
    struct view vx, vy;

    ref_views(c, &vx, &vy);
    CT_FOR_ROWS (r, c->desc.out_channels * c->in_group * c->taps,
                 c->desc.batch * c->out_spatial) {
        int64_t k = r % c->taps, i = r / c->taps % c->in_group;
        int64_t o = r / c->taps / c->in_group;
        double sum = 0;

        i += o / c->out_group * c->in_group;
        for (int64_t p = 0; p < c->out_spatial; p++) {
            int64_t s = source(c, p, k);

            for (int64_t n = 0; s >= 0 && n < c->desc.batch; n++)
                sum += (double)x[at(&vx, n, i, s)] *
                       (double)dy[at(&vy, n, o, p)];
        }
        dw[r] += (float)sum;
    }
    return ct_conv_bias_gradient(c, dy, db);
}

const struct ct_conv_impl ct_conv_ref = {
    .name             = "ref",
    .create           = ref_create,
    .destroy          = ref_destroy,
    .forward          = ref_forward,
    .backward_data    = ref_backward_data,
    .backward_weights = ref_backward_weights,
};
