/* points_test.h - convolutions with a kernel of one point, of whole numbers:
 * products and sums are exact, results rounded to bfloat16 once. */
#ifndef CT_TESTS_DEVICE_POINTS_TEST_H
#define CT_TESTS_DEVICE_POINTS_TEST_H

#include <math.h>
#include <string.h>

#include "device/conv.h"
#include "testing/test.h"

struct shape {
    int64_t batch, in[2], channels, outputs;
};

static inline int64_t rows_of(const struct shape *s)
{
    return s->batch * s->in[0] * s->in[1];
}

#ifdef CT_HAVE_CUDA

static inline struct ct_conv_desc desc_of(const struct shape *s)
{
    return (struct ct_conv_desc){
        .n_spatial = 2, .batch = s->batch, .in_channels = s->channels,
        .out_channels = s->outputs, .group = 1, .in = { s->in[0], s->in[1] },
        .kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 },
        .src_layout = CT_NHWC, .dst_layout = CT_NHWC, .src_type = CT_BF16,
        .dst_type = CT_BF16,
    };
}

/* To the nearest, and of two to the even one. */
static inline float rounded(double exact)
{
    float v = (float)exact;
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Rows of channels, behind which `beyond` values are NaN still; 0: as they
 * should be. */
static inline int wrong_rows(int64_t rows, int64_t channels,
                             const float *want, int64_t beyond,
                             const float *got)
{
    const int64_t n = rows * channels;

    for (int64_t i = 0; i < n + beyond; i++)
        if (i < n ? !(got[i] == want[i]) : !isnan(got[i])) {
            printf("row %lld, channel %lld is %.9g, wanted %.9g\n",
                   (long long)(i / channels), (long long)(i % channels),
                   (double)got[i], i < n ? (double)want[i] : (double)NAN);
            return 1;
        }
    return 0;
}

#endif
#endif
