/* norm.h - channel-wise arithmetic: what BatchNorm, Scale, Bias and MVN are
 * made of, on the CPU.
 *
 * An array is seen as n x c x inner, in any layout of those channels.  Values
 * below carry a channel's index c where they differ from channel to channel;
 * arrays of c values are plain and float32.  Padded channels of an output
 * become zero.
 * Nothing is allocated: sums use `scratch`, ct_channel_scratch() floats. */
#ifndef CT_DEVICE_NORM_H
#define CT_DEVICE_NORM_H

#include "cortado/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_channels {
    int64_t        n, c, inner;
    enum ct_layout layout;
    int64_t        all; /* channels in memory when the view is a slice, or 0 */
    enum ct_dtype  dtype; /* of the array; CT_BF16 is for NHWC */
};

int64_t ct_channel_scratch(const struct ct_channels *v);

/* A view cut into slices of its channels that fit the caches: operations that
 * follow each other go faster slice by slice.  Slice i begins with channel
 * `first`, at float `at` of the arrays. */
struct ct_slice {
    struct ct_channels view;
    int64_t            first, at;
};
int64_t ct_channel_slices(const struct ct_channels *v);
struct ct_slice ct_channel_slice(const struct ct_channels *v, int64_t i);

/* mean_c, and var_c = the mean of (x - mean_c)^2.  One pass over memory; the
 * sums do not lose what a large mean would hide. */
void ct_channel_moments(const struct ct_channels *v, const float *x,
                        float *scratch, float *mean, float *var);

/* sum_c = sum of dy, dot_c = sum of dy (x - shift_c).  x NULL: sum alone;
 * shift NULL: zero. */
void ct_channel_sums(const struct ct_channels *v, const float *dy,
                     const float *x, const float *shift, float *scratch,
                     float *sum, float *dot);

/* y = (x - shift_c) scale_c + bias_c.  NULL: shift 0, scale 1, bias 0.
 * y may be x; `kept`, where not NULL, gets x as it was. */
void ct_channel_map(const struct ct_channels *v, const float *x,
                    const float *shift, const float *scale, const float *bias,
                    float *y, float *kept);

/* dx = a_c dy + b_c (x - shift_c) + d_c; dx may be dy or x.  NULL: a 1, the
 * others 0. */
struct ct_channel_line {
    const float *a, *b, *shift, *d;
};
void ct_channel_join(const struct ct_channels *v, const float *dy,
                     const float *x, const struct ct_channel_line *line,
                     float *dx);

/* A small array repeated over a large one, which in plain order is outer x c x
 * inner: coefficient q goes with its middle axis.  In memory the large one lies
 * as `array` says.  Where that allows it these are the functions above. */
struct ct_repeat {
    struct ct_channels array;
    struct ct_channels view; /* outer x c x inner */
    bool               direct;
};

struct ct_repeat ct_repeat_of(const struct ct_channels *array, int64_t outer,
                              int64_t c, int64_t inner);
int64_t ct_repeat_scratch(const struct ct_repeat *r);

/* y = x scale_q + bias_q; NULL and `kept` as in ct_channel_map(). */
void ct_repeat_map(const struct ct_repeat *r, const float *x,
                   const float *scale, const float *bias, float *y,
                   float *kept);

/* sum_q = sum of dy, dot_q = sum of dy x, then dx = dy scale_q.  x NULL: no
 * dot; sum NULL: neither sum; dx NULL: no dx.  dx may be dy. */
struct ct_repeat_grads {
    float *sum, *dot, *dx;
};
void ct_repeat_backward(const struct ct_repeat *r, const float *dy,
                        const float *x, const float *scale, float *scratch,
                        const struct ct_repeat_grads *out);

/* Vectors brought to length one, then scaled, in a plain n x c x inner array:
 *
 *     y = x scale_c / r,    r = sqrt(eps + sum of x^2)
 *     dx = dy scale_c / r - x / r^3 sum of dy scale_c x
 *
 * where a vector, and a sum, is the c values of a position, or all c x inner
 * of an item with `whole`.  `shared`: scale is one value for all channels. */
struct ct_unit {
    int64_t n, c, inner;
    bool    whole, shared;
    float   eps;
};

/* Floats of `inverse` (1 / r, for the backward pass) and of `parts`. */
int64_t ct_unit_vectors(const struct ct_unit *v);
int64_t ct_unit_parts(const struct ct_unit *v);

void ct_unit_forward(const struct ct_unit *v, const float *x,
                     const float *scale, float *parts, float *inverse,
                     float *y);
/* ADDS to dscale; dx or dscale may be NULL. */
void ct_unit_backward(const struct ct_unit *v, const float *x,
                      const float *dy, const float *scale,
                      const float *inverse, float *parts, float *dx,
                      float *dscale);

#ifdef __cplusplus
}
#endif

#endif
