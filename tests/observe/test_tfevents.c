/* test_tfevents.c - records as TensorBoard's format has them.
 *
 * The bytes of the first test were put together by another program, from the
 * format's description alone. */
#include "observe/tfevents.h"

#include "base/file.h"
#include "observe/histogram.h"
#include "testing/test.h"

TEST(tfevents, a_scalar_is_this_record)
{
    static const unsigned char want[] = {
        0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe7, 0xce, 0xf8,
        0x1e, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0x3f, 0x10,
        0x03, 0x2a, 0x0a, 0x0a, 0x08, 0x0a, 0x01, 0x61, 0x15, 0x00, 0x00,
        0x00, 0x40, 0xe8, 0x1c, 0x3a, 0x9d,
    };
    struct ct_text t = { 0 };

    ct_tf_scalar(&t, 1.5, 3, "a", 2);
    ASSERT_INT((int)sizeof(want), (int)t.n_bytes);
    for (size_t i = 0; i < sizeof(want); i++)
        if (want[i] != (unsigned char)t.s[i])
            FAIL("byte %zu is %02x, not %02x", i, (unsigned char)t.s[i],
                 want[i]);
    ct_text_fini(&t);
}

/* Every record's length and sums; how many there are. */
static int walk(const struct ct_text *t)
{
    size_t at = 0;
    int n     = 0;

    while (at < t->n_bytes) {
        uint64_t length;
        uint32_t sum, crc;

        ASSERT(t->n_bytes - at >= 16);
        memcpy(&length, t->s + at, 8);
        memcpy(&sum, t->s + at + 8, 4);
        crc = ct_crc32c(0, t->s + at, 8);
        ASSERT_INT((int)(((crc >> 15) | (crc << 17)) + 0xa282ead8u), (int)sum);
        ASSERT(length <= t->n_bytes - at - 16);
        crc = ct_crc32c(0, t->s + at + 12, length);
        memcpy(&sum, t->s + at + 12 + length, 4);
        ASSERT_INT((int)(((crc >> 15) | (crc << 17)) + 0xa282ead8u), (int)sum);
        at += 16 + length;
        n++;
    }
    return n;
}

TEST(tfevents, a_file_begins_with_its_version_and_a_start)
{
    struct ct_text t = { 0 };

    ct_tf_begin(&t, 1, 40);
    ASSERT_INT(2, walk(&t));
    ASSERT(memcmp(t.s + 12 + 9, "\x1a\x0d" "brain.Event:2", 15) == 0);
    ct_text_fini(&t);
}

TEST(tfevents, histograms_count_every_finite_value_once)
{
    const float x[]       = { -1, 0, 0.5f, 3, (float)NAN, 3 };
    struct ct_histogram h;
    struct ct_text t      = { 0 };
    int64_t sum           = 0;

    ct_histogram_make(&h, 6, x, 2);
    for (int i = 0; i < CT_HISTOGRAM_BINS; i++)
        sum += h.count[i];
    ASSERT_INT(5, (int)sum);
    ASSERT_INT(5, (int)h.n);
    ASSERT_INT(1, (int)h.n_not_finite);
    ASSERT_FLOAT(-2, h.min, 0);
    ASSERT_FLOAT(6, h.max, 0);
    ASSERT_FLOAT(11, h.sum, 1e-9);
    ASSERT_FLOAT(77, h.squares, 1e-9);
    ASSERT_INT(1, (int)h.count[0]);
    ASSERT_INT(1, (int)h.count[10]); /* 0 is a quarter of the way */
    ASSERT_INT(1, (int)h.count[15]); /* 1 */
    ASSERT_INT(2, (int)h.count[CT_HISTOGRAM_BINS - 1]);
    ASSERT_FLOAT(6, ct_histogram_limit(&h, CT_HISTOGRAM_BINS - 1), 0);
    ASSERT_FLOAT(-1.8, ct_histogram_limit(&h, 0), 1e-9);
    ct_tf_histogram(&t, 1, 2, "weights/a", &h);
    ASSERT_INT(1, walk(&t));
    ct_text_fini(&t);
}

TEST(tfevents, one_value_over_and_over_is_one_bin)
{
    const float x[] = { 2, 2, 2 };
    struct ct_histogram h;

    ct_histogram_make(&h, 3, x, 1);
    ASSERT_INT(3, (int)h.count[0]);
    ASSERT(ct_histogram_limit(&h, 0) > 2);
    ct_histogram_make(&h, 0, x, 1);
    ASSERT_INT(0, (int)h.n);
    ASSERT_FLOAT(0, h.max, 0);
}
