/* test_conv_tiles.c - the places that kernels around convolution go to: every
 * thread's walk over its share, without a GPU. */
#include "base/mem.h"
#include "device/cuda/tiles.h"
#include "testing/test.h"

/* What a weight is: its place outside, from 1 on; 0 is a fill value. */
static int64_t inside_value(int64_t outputs, int64_t channels, int64_t taps,
                            int64_t i)
{
    const int64_t c = i % channels, t = i / channels % taps;
    const int64_t o = i / channels / taps;

    return o < outputs ? (o * channels + c) * taps + t + 1 : 0;
}

/* One block of conv_weights.cu's tiles_in(): outside to inside. */
static void tile_in(const struct ct_weight_tiles *m, int each, int tile,
                    int64_t *to)
{
    const int first = ct_weight_first(m, tile), most = m->lines * m->taps;

    ASSERT(most <= CT_TILE_VALUES);
    ASSERT_INT(0, most % 4);
    ASSERT_INT(0, first % 4);
    for (int thread = 0; thread < CT_TILE_THREADS; thread++) {
        struct ct_weight_column c = ct_weight_column_of(m, each, tile, thread);

        for (int t = c.tap; t < m->taps && c.at >= 0; t += c.step)
            for (int k = 0; k < each; k++) {
                const int v  = (c.line + k) * m->taps + t;
                const int at = c.at + t * m->channels + k;

                ASSERT(v < most && at < m->n_lines * m->taps);
                ASSERT_INT(0, c.at % each);
                ASSERT_INT(-1, to[at]);
                to[at] = first + v < m->n ? first + v + 1 : 0;
            }
    }
}

static void check_weights(int64_t outputs, int64_t fill, int64_t channels,
                          int64_t taps, int64_t blocks, int each)
{
    const int64_t n = (outputs + fill) * channels * taps;
    int64_t *to     = ct_malloc((size_t)n * sizeof(*to), "test values");
    struct ct_weight_tiles m;

    ASSERT(to != NULL);
    ASSERT(ct_weight_tiles_make(outputs, outputs + fill, channels, taps,
                                blocks, &m));
    ASSERT_INT(outputs * channels * taps, m.n);
    for (int64_t i = 0; i < n; i++)
        to[i] = -1;
    for (int tile = 0; tile < m.n_tiles; tile++) {
        ASSERT(ct_weight_first(&m, tile) < n);
        tile_in(&m, each, tile, to);
    }
    for (int64_t i = 0; i < n; i++)
        ASSERT_INT(inside_value(outputs, channels, taps, i), to[i]);
    ct_free(to);
}

TEST(conv_tiles, every_weight_is_turned_once)
{
    static const int64_t outputs[] = { 1, 3, 21, 64 };
    static const int64_t channels[] = { 1, 2, 5, 16, 33, 96, 320 };
    static const int64_t taps[] = { 1, 2, 4, 6, 9, 25, 49, 121, 128 };

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 7; j++)
            for (int k = 0; k < 9; k++)
                for (int fill = 0; fill < 4; fill += 3)
                    for (int each = 1; each <= 2; each++) {
                        if (channels[j] % each != 0)
                            continue;
                        check_weights(outputs[i], fill, channels[j], taps[k],
                                      1, each);
                        check_weights(outputs[i], fill, channels[j], taps[k],
                                      264, each);
                    }
}

TEST(conv_tiles, large_weights_have_large_tiles_and_small_ones_many)
{
    struct ct_weight_tiles m;

    ASSERT(ct_weight_tiles_make(512, 512, 512, 9, 264, &m));
    ASSERT_INT(256, m.lines);
    ASSERT(ct_weight_tiles_make(64, 64, 64, 9, 264, &m));
    ASSERT_INT(32, m.lines);
    ASSERT_INT(128, m.n_tiles);
    ASSERT(!ct_weight_tiles_make(64, 64, 3, 169, 264, &m));
    ASSERT(!ct_weight_tiles_make(16384, 16384, 16384, 9, 264, &m));
}

static void check_columns(int64_t rows, int64_t row, int vector)
{
    enum { BLOCKS = 264, AHEAD = 4, TURNS = 4096, ROOM = 1 << 16 };
    uint8_t *seen = ct_calloc((size_t)(rows * row), 1, "test values");
    struct ct_columns m;

    ASSERT(seen != NULL);
    ASSERT(ct_columns_make(rows, row, vector, BLOCKS, AHEAD, ROOM, TURNS, &m));
    ASSERT_INT(row, m.width * m.groups);
    ASSERT(m.width * vector <= 4 * CT_TILE_THREADS);
    ASSERT(m.shares == 1 || m.shares * m.groups <= BLOCKS);
    ASSERT(m.shares * row * vector <= ROOM);
    for (int group = 0; group < m.groups; group++)
        for (int share = 0; share < m.shares; share++)
            for (int t = 0; t < CT_TILE_THREADS; t++) {
                struct ct_column c = ct_column_of(&m, group, share, t);

                for (int64_t r = c.row; r < rows; r += c.step) {
                    ASSERT_INT(0, seen[r * row + c.column]);
                    seen[r * row + c.column] = 1;
                }
            }
    for (int64_t i = 0; i < rows * row; i++)
        ASSERT_INT(1, seen[i]);
    ct_free(seen);
}

TEST(conv_tiles, every_vector_of_a_row_has_one_thread)
{
    static const int64_t rows[] = { 1, 7, 63, 1000, 4099 };

    for (int i = 0; i < 5; i++)
        for (int64_t row = 1; row <= 130; row++) {
            check_columns(rows[i], row, 4);
            if (row <= 128)
                check_columns(rows[i], row, 8);
        }
}

TEST(conv_tiles, columns_are_about_a_line_of_memory_wide)
{
    ASSERT_INT(8, ct_columns_width(48, 8));  /* 384 channels of 16 bits */
    ASSERT_INT(6, ct_columns_width(12, 8));  /* 96 */
    ASSERT_INT(13, ct_columns_width(26, 8)); /* 208 */
    ASSERT_INT(10, ct_columns_width(250, 4)); /* 1000 of 32 bits */
    ASSERT_INT(2, ct_columns_width(2, 8));
    ASSERT_INT(25, ct_columns_width(125, 4));
    ASSERT_INT(251, ct_columns_width(251, 4));
    ASSERT_INT(0, ct_columns_width(251, 8));
    ASSERT_INT(0, ct_columns_width(257, 4));
}
