/* define_regions.c - definitions of layers that pool regions of images.
 *
 * Where bins begin and end is float32 arithmetic by definition, as in the
 * forks: in double a third of 3 bins might be rounded to another pixel. */
#include <math.h>

#include "define.h"
#include "proto/params.h"

static int64_t within(double i, int64_t n)
{
    return i < 0 ? 0 : i > (double)n ? n : (int64_t)i;
}

/* Pixels of one bin: rows and columns, from and to. */
struct bin {
    int64_t from[2], to[2];
};

/* The largest of a bin's pixels, or their mean; 0 where it has none. */
static double pooled(const double *x, int64_t width, const struct bin *b,
                     bool mean)
{
    double sum = 0, most = -INFINITY, n = 0;

    for (int64_t h = b->from[0]; h < b->to[0]; h++)
        for (int64_t w = b->from[1]; w < b->to[1]; w++) {
            sum += x[h * width + w];
            most = fmax(most, x[h * width + w]);
            n++;
        }
    return n == 0 ? 0 : mean ? sum / n : most;
}

static const double *plane(const struct definition *d, const double *roi,
                           int64_t c)
{
    const struct tensor *x = d->bottom;

    return x->v + ((int64_t)roi[0] * define_dim(x, 1) + c) *
                      define_dim(x, 2) * define_dim(x, 3);
}

/* A bin goes from floor(i size) to ceil((i + 1) size), behind `first`. */
static void set_bin(struct bin *b, int axis, float first, float size,
                    int64_t i, int64_t n)
{
    b->from[axis] = within(floor((double)((float)i * size + first)), n);
    b->to[axis]   = within(ceil((double)((float)(i + 1) * size + first)), n);
}

static void roi_pooling(const struct definition *d)
{
    const int64_t C = define_dim(d->top, 1), out[2] = {
        define_dim(d->top, 2), define_dim(d->top, 3)
    };

    for (int64_t o = 0; o < d->top->n; o++) {
        const int64_t bins[2] = { o / out[1] % out[0], o % out[1] };
        const double *roi = d->bottom[1].v + o / (C * out[0] * out[1]) * 5;
        struct bin b;

        for (int a = 0; a < 2; a++) {
            const double from = round(roi[2 - a]), to = round(roi[4 - a]);
            const float size = (float)fmax(to - from + 1, 1) / (float)out[a];
            const int64_t n  = define_dim(d->bottom, 2 + a);

            b.from[a] = within(from + floor((double)((float)bins[a] * size)),
                               n);
            b.to[a]   = within(from + ceil((double)((float)(bins[a] + 1) *
                                                    size)), n);
        }
        d->top->v[o] = pooled(plane(d, roi, o / (out[0] * out[1]) % C),
                              define_dim(d->bottom, 3), &b, false);
    }
}

static void psroi_pooling(const struct definition *d)
{
    const Caffe__PSROIPoolingParameter *p = ct_psroi_pooling_param(d->param);
    const int64_t g = p->group_size, D = p->output_dim;

    for (int64_t o = 0; o < d->top->n; o++) {
        const int64_t bins[2] = { o / g % g, o % g };
        const double *roi     = d->bottom[1].v + o / (D * g * g) * 5;
        struct bin b;

        for (int a = 0; a < 2; a++) {
            const float from = (float)round(roi[2 - a]) * p->spatial_scale;
            const float to = (float)(round(roi[4 - a]) + 1) * p->spatial_scale;

            set_bin(&b, a, from, fmaxf(to - from, 0.1f) / (float)g, bins[a],
                    define_dim(d->bottom, 2 + a));
        }
        d->top->v[o] = pooled(plane(d, roi, o % (D * g * g)),
                              define_dim(d->bottom, 3), &b, true);
    }
}

/* Bilinear, at (y, x); what lies beyond the edge is the edge. */
static double sample(const double *v, int64_t H, int64_t W, double y,
                     double x)
{
    const double h = fmin(fmax(y, 0), (double)(H - 1));
    const double w = fmin(fmax(x, 0), (double)(W - 1));
    const int64_t h0 = (int64_t)h, w0 = (int64_t)w;
    const int64_t h1 = h0 + 1 < H ? h0 + 1 : h0;
    const int64_t w1 = w0 + 1 < W ? w0 + 1 : w0;
    const double a = h - (double)h0, b = w - (double)w0;

    if (y < -1 || y > (double)H || x < -1 || x > (double)W)
        return 0;
    return (v[h0 * W + w0] * (1 - b) + v[h0 * W + w1] * b) * (1 - a) +
           (v[h1 * W + w0] * (1 - b) + v[h1 * W + w1] * b) * a;
}

/* Mask R-CNN's, with sampling_ratio above 0. */
static void roi_align(const struct definition *d)
{
    const Caffe__ROIAlignParameter *p = ct_roi_align_param(d->param);
    const int64_t C = define_dim(d->top, 1);
    const int64_t ph = p->pooled_h, pw = p->pooled_w, s = p->sampling_ratio;
    const double scale = (double)p->spatial_scale;

    for (int64_t o = 0; o < d->top->n; o++) {
        const double *roi = d->bottom[1].v + o / (C * ph * pw) * 5;
        const double bin_h = fmax((roi[4] - roi[2]) * scale, 1) / (double)ph;
        const double bin_w = fmax((roi[3] - roi[1]) * scale, 1) / (double)pw;
        double sum = 0;

        for (int64_t k = 0; k < s * s; k++)
            sum += sample(plane(d, roi, o / (ph * pw) % C),
                          define_dim(d->bottom, 2), define_dim(d->bottom, 3),
                          roi[2] * scale + bin_h * ((double)(o / pw % ph) +
                              ((double)(k / s) + 0.5) / (double)s),
                          roi[1] * scale + bin_w * ((double)(o % pw) +
                              ((double)(k % s) + 0.5) / (double)s));
        d->top->v[o] = sum / (double)(s * s);
    }
}

const struct define_entry define_regions[] = {
    { "ROIPooling", roi_pooling },
    { "PSROIPooling", psroi_pooling },
    { "ROIAlign", roi_align },
    { NULL, NULL },
};
