/* test_bias_bf16.c - masks of a ReLU and sums of channels in bfloat16. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv.h"
#include "device/cpu/bf16.h"
#include "device/cpu/loop.h"
#include "testing/test.h"

static uint16_t *values(uint64_t key, int64_t n)
{
    uint16_t *v = ct_calloc((size_t)n + 1, sizeof(*v), "values");

    test_defer(ct_free, v);
    for (int64_t i = 0; i < n; i++)
        v[i] = ct_narrow(ct_normal(key, 1, (uint64_t)i));
    return v;
}

static float *as_floats(uint16_t *v)
{
    return (float *)(void *)v;
}

/* The words of the interface, one value after the other. */
static void plainly(const struct ct_bias_desc *d, const uint16_t *y,
                    uint16_t *dy, double *db)
{
    for (int64_t i = 0; i < d->batch * d->spatial * d->channels; i++) {
        if (y && !(ct_widen(y[i]) > 0))
            dy[i] = 0;
        db[i % d->channels] += (double)ct_widen(dy[i]);
    }
}

static void check(const struct ct_bias_desc *d, uint16_t *y)
{
    const int64_t n = d->batch * d->spatial * d->channels;
    uint16_t *dy    = values(2, n);
    uint16_t *want  = values(2, n);
    double *sums    = ct_calloc((size_t)d->channels, sizeof(*sums), "sums");
    float *db       = ct_calloc((size_t)d->channels, sizeof(*db), "sums");

    test_defer(ct_free, sums);
    test_defer(ct_free, db);
    for (int64_t c = 0; c < d->channels; c++)
        sums[c] = db[c] = (float)c;
    plainly(d, y, want, sums);
    if (y)
        ASSERT_OK(ct_bias_mask(ct_device_cpu(), d, as_floats(y), as_floats(dy),
                               db));
    else
        ASSERT_OK(ct_bias_backward(ct_device_cpu(), d, as_floats(dy), db));
    ASSERT(memcmp(dy, want, (size_t)n * sizeof(*dy)) == 0);
    ASSERT(dy[n] == 0); /* nothing behind it */
    for (int64_t c = 0; c < d->channels; c++)
        if (!(fabs((double)db[c] - sums[c]) < 1e-3))
            FAIL("channel %d of %d: %g, not %g", (int)c, (int)d->channels,
                 (double)db[c], sums[c]);
}

static struct ct_bias_desc drawn(uint64_t i)
{
    const float most = i % 4 == 3 ? 1100 : 100;

    return (struct ct_bias_desc){
        .batch    = 1 + (int64_t)(4 * ct_uniform(3, 1, i)),
        .channels = 1 + (int64_t)(most * ct_uniform(3, 2, i)),
        .spatial  = 1 + (int64_t)(300 * ct_uniform(3, 3, i)),
        .layout   = CT_NHWC, .dtype = CT_BF16
    };
}

TEST(bias_bf16, any_array_is_summed_and_masked)
{
    for (uint64_t i = 0; i < 24; i++) {
        const struct ct_bias_desc d = drawn(i);

        check(&d, NULL);
        check(&d, values(4, d.batch * d.spatial * d.channels));
    }
}

/* Both zeros, the least and the largest values, and none: of those that are not
 * numbers a ReLU passes no gradient. */
TEST(bias_bf16, a_mask_knows_every_kind_of_value)
{
    static const uint16_t kinds[] = { 0,      0x8000, 1,      0x8001, 0x7f80,
                                      0xff80, 0x7f81, 0xffc0, 0x7fff, 0x3f80,
                                      0x7f7f, 0xbf80 };
    const struct ct_bias_desc d = { 3, 40, 7, CT_NHWC, CT_BF16 };
    uint16_t *y = values(4, 3 * 40 * 7);

    for (int i = 0; i < 3 * 40 * 7; i++)
        y[i] = kinds[i % 12];
    check(&d, y);
}

TEST(bias_bf16, threads_do_not_change_the_bits)
{
    const struct ct_bias_desc d = { 5, 50, 1000, CT_NHWC, CT_BF16 };
    float db[2][50]             = { { 0 } };

    for (int i = 0; i < 2; i++) {
        const int team = ct_cpu_team(i ? 3 : 1);

        ASSERT_OK(ct_bias_mask(ct_device_cpu(), &d,
                               as_floats(values(1, 250000)),
                               as_floats(values(2, 250000)), db[i]));
        ct_cpu_team(team);
    }
    ASSERT(memcmp(db[0], db[1], sizeof(db[0])) == 0);
}
