/* test_thin_map.c - every position of an image has one cell of a thin array,
 * and places on a GPU are quotients of any divider (thin_map.h, divide.h). */
#include <string.h>

#include "base/mem.h"
#include "device/cuda/thin_map.h"
#include "testing/test.h"

static void divides(int64_t d, int64_t most, int64_t n)
{
    const struct ct_divider v = ct_divider_of(d, most);
    int64_t rest              = -1;

    ASSERT_INT(n / d, ct_divide(v, n, &rest));
    ASSERT_INT(n % d, rest);
    if (!v.wide)
        ASSERT_INT(n / d, ct_quotient(v, (int)n));
}

TEST(thin_map, dividers_give_quotients_up_to_the_largest_numbers)
{
    static const int64_t limits[] = { INT32_MAX, (int64_t)1 << 40 };

    for (int k = 0; k < 2; k++)
        for (int64_t d = 1; d < 70; d++) {
            const int64_t by[] = { d, d * d * 1013, INT32_MAX - d };

            for (int b = 0; b < 3; b++)
                for (int64_t i = 0; i < 12; i++) {
                    const int64_t most = limits[k] / by[b];

                    divides(by[b], limits[k], i * by[b] < limits[k]
                                                  ? i * by[b] : limits[k]);
                    divides(by[b], limits[k], most * by[b]);
                    divides(by[b], limits[k], most * by[b] - 1);
                    divides(by[b], limits[k], limits[k] - i);
                }
        }
}

struct shape {
    int64_t images, channels, in[2], stride[2];
};

/* Values of a cell in images that are not thin, `pack` of them at a time. */
static void mark(const struct ct_thin *t, const struct ct_thin_cell *cell,
                 int64_t n, int64_t pack, uint8_t *seen)
{
    ASSERT(cell->rows >= 1 && cell->columns >= 1);
    for (int y = 0; y < cell->rows; y++)
        for (int x = 0; x < cell->columns; x++)
            for (int64_t k = 0; k < pack; k++) {
                const int64_t at = cell->place + ct_thin_offset(t, y, x) + k;

                ASSERT(at >= 0 && at < n);
                seen[at]++;
            }
}

/* The value of a thin array at (y, x) is that of the image at their multiples,
 * and all cells together are the images. */
static void covers(const struct shape *s, int64_t pack)
{
    const struct ct_thin t = ct_thin_of(s->images, s->channels, s->in,
                                        s->stride);
    const int64_t n        = s->images * s->in[0] * s->in[1] * s->channels;
    uint8_t *seen          = ct_calloc((size_t)n, 1, "test values");
    int64_t i              = 0;

    ASSERT(seen != NULL);
    for (int64_t image = 0; image < s->images; image++)
        for (int64_t y = 0; y < s->in[0]; y += s->stride[0])
            for (int64_t x = 0; x < s->in[1]; x += s->stride[1])
                for (int64_t c = 0; c < s->channels; c += pack, i += pack) {
                    const struct ct_thin_cell cell = ct_thin_find(&t, i);

                    ASSERT_INT(((image * s->in[0] + y) * s->in[1] + x) *
                                   s->channels + c, cell.place);
                    mark(&t, &cell, n, pack, seen);
                }
    ASSERT_INT(s->images * ct_thin_size(s->in[0], s->stride[0]) *
                   ct_thin_size(s->in[1], s->stride[1]) * s->channels, i);
    for (i = 0; i < n; i++)
        ASSERT_INT(1, seen[i]);
    ct_free(seen);
}

TEST(thin_map, every_position_has_one_cell)
{
    static const struct shape shapes[] = {
        { 6, 64, { 9, 7 }, { 2, 2 } },   { 2, 72, { 8, 8 }, { 2, 2 } },
        { 5, 16, { 13, 10 }, { 3, 2 } }, { 9, 8, { 5, 12 }, { 1, 2 } },
        { 3, 8, { 1, 1 }, { 2, 2 } },    { 1, 24, { 3, 4 }, { 5, 7 } },
        { 4, 8, { 6, 1 }, { 4, 3 } },    { 2, 8, { 7, 9 }, { 3, 3 } },
    };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        covers(&shapes[i], 1);
        covers(&shapes[i], 4);
        covers(&shapes[i], 8);
    }
}

/* Images of more values than 32 bits count. */
TEST(thin_map, large_arrays_have_places_beyond_32_bits)
{
    const int64_t in[2] = { 1024, 1024 }, stride[2] = { 2, 2 };
    const struct ct_thin t = ct_thin_of(64, 256, in, stride);
    const int64_t last     = (int64_t)64 * 512 * 512 * 256 - 1;
    const struct ct_thin_cell cell = ct_thin_find(&t, last);

    ASSERT_INT((((int64_t)63 * 1024 + 1022) * 1024 + 1022) * 256 + 255,
               cell.place);
    ASSERT_INT(2, cell.rows);
    ASSERT_INT(2, cell.columns);
}
