/* test_ends.c - gradients where residual blocks end, made by the convolution
 * behind them (conv_ends.h), in every form.
 *
 * Runs where CORTADO_TEST_DEVICE names a GPU, but what cuts the product and
 * says where values lie, which needs none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/cuda/ends_cut.h"
#include "points_test.h"
#include "testing/gpu.h"
#ifdef CT_HAVE_CUDA
#include "device/conv_ahead.h"
#include "device/cuda/conv_ends.h"
#endif

/* `channels` of the block's end; the convolution makes `outputs` of them. */
static const struct shape shapes[] = {
    { 1, { 1, 1 }, 64, 8 },       { 1, { 8, 8 }, 64, 64 },
    { 3, { 7, 7 }, 192, 72 },     { 5, { 16, 8 }, 128, 136 },
    { 2, { 13, 11 }, 512, 264 },  { 40, { 25, 29 }, 256, 64 },
    { 9, { 56, 56 }, 64, 64 },    { 60, { 7, 7 }, 1024, 40 },
    { 6, { 7, 7 }, 2048, 512 },   { 31, { 14, 14 }, 1024, 256 },
    { 17, { 28, 28 }, 512, 128 },
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

TEST(ends, every_tile_has_one_block_and_blocks_have_room)
{
    static const struct ct_points_form forms[] = { { 2, 1 }, { 1, 2 },
                                                   { 1, 1 } };
    int n = 0;

    for (int i = 0; i < N_SHAPES; i++)
        for (int f = 0; f < 3; f++) {
            const struct shape *s = &shapes[i];
            const int slabs       = forms[f].slabs;
            struct ct_ends p;

            if (!ct_ends_cut(rows_of(s), s->outputs, s->channels, &forms[f],
                             132, &p))
                continue;
            n++;
            ASSERT((int64_t)p.down * CT_POINTS_ROWS >= rows_of(s));
            ASSERT(p.across * slabs * CT_POINTS_SLAB == s->channels);
            ASSERT(p.steps * CT_POINTS_SLAB >= s->outputs);
            ASSERT(p.shares * p.across <= 132 * forms[f].resident);
            ASSERT(p.stages >= 2 && p.ahead >= 1 && p.ahead <= CT_ENDS_BOTH);
            ASSERT((1 << 10) + CT_ENDS_EXTRA + ct_ends_weights(&p, slabs) +
                       p.ahead * ct_ends_others(slabs) +
                       p.stages * ct_ends_stage() <=
                   CT_POINTS_SHARED / forms[f].resident);
            ASSERT_INT(0, ct_ends_first(&p, 0));
            ASSERT_INT(p.down, ct_ends_first(&p, p.shares));
            for (int b = 0; b < p.shares; b++)
                ASSERT(ct_ends_first(&p, b + 1) > ct_ends_first(&p, b));
        }
    ASSERT(n > 2 * N_SHAPES);
}

/* As the copy engine does it: bits 4 to 6 of an address get bits 7 to 9. */
static int swizzled(int row, int column)
{
    const int at = (column / CT_POINTS_SLAB * CT_POINTS_ROWS + row) *
                       CT_POINTS_SLAB * 2 +
                   column % CT_POINTS_SLAB * 2;

    return at ^ (at >> 7 & 7) << 4;
}

TEST(ends, threads_of_a_half_have_each_pair_once_where_it_lies)
{
    enum { SLABS = 2, ROWS = 64, COLUMNS = SLABS * CT_POINTS_SLAB };
    uint8_t seen[ROWS][COLUMNS] = { { 0 } };

    for (int thread = 128; thread < 256; thread++)
        for (int i = 0; i < 8 * SLABS; i++)
            for (int h = 0; h < 2; h++) {
                const int row    = ct_ends_row(thread, h);
                const int column = ct_ends_column(thread, i);

                ASSERT(row >= 0 && row < ROWS);
                ASSERT(column >= 0 && column + 1 < COLUMNS);
                ASSERT_INT(i * 8 + ct_ends_column(thread, 0), column);
                ASSERT_INT(swizzled(row, column), ct_ends_place(row, column));
                ASSERT_INT(swizzled(row, column + 1),
                           ct_ends_place(row, column) + 2);
                seen[row][column]++;
                seen[row][column + 1]++;
            }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            ASSERT_INT(1, seen[r][c]);
}

#ifdef CT_HAVE_CUDA

/* Whole numbers, whose products and sums are exact; e rounded to bfloat16. */
struct problem {
    struct ct_conv_desc d;
    int64_t             rows, n, k; /* channels of the end, and outputs */
    float              *dy, *w, *other, *x, *e, *mean;
    uint8_t            *above;
    double             *s, *t, *size; /* sums, and of absolute values of t */
};

static void solve_row(struct problem *p, int64_t r)
{
    float *e = p->e + r * p->n;

    memcpy(e, p->other + r * p->n, (size_t)p->n * sizeof(*e));
    for (int64_t o = 0; o < p->k; o++)
        for (int64_t c = 0; c < p->n; c++)
            e[c] += p->dy[r * p->k + o] * p->w[o * p->n + c];
    for (int64_t c = 0; c < p->n; c++) {
        const int64_t i = r * p->n + c;
        double t;

        e[c] = p->above[i / 8] >> i % 8 & 1 ? rounded((double)e[c]) : 0;
        t    = (double)e[c] * ((double)p->x[i] - (double)p->mean[c]);
        p->s[c] += (double)e[c];
        p->t[c] += t;
        p->size[c] += fabs(t) + fabs((double)e[c]);
    }
}

static float *draw(uint64_t key, int64_t n, int most)
{
    float *v = test_values(n, sizeof(*v));

    for (int64_t i = 0; i < n; i++)
        v[i] = floorf((float)(2 * most + 1) *
                      ct_uniform(3, key, (uint64_t)i)) - (float)most;
    return v;
}

static void problem_make(const struct shape *s, struct problem *p)
{
    const int64_t n = rows_of(s) * s->channels;

    *p = (struct problem){
        .d    = desc_of(s),
        .rows = rows_of(s), .n = s->channels, .k = s->outputs,
    };
    p->d.ends = true;
    p->dy    = draw(0, p->rows * p->k, 8);
    p->w     = draw(1, p->n * p->k, 4);
    p->other = draw(2, n, 100);
    p->x     = draw(3, n, 60);
    p->mean  = draw(4, p->n, 30);
    p->e     = test_values(n, sizeof(float));
    p->above = test_values(n / 8, 1);
    p->s     = test_values(p->n, sizeof(double));
    p->t     = test_values(p->n, sizeof(double));
    p->size  = test_values(p->n, sizeof(double));
    for (int64_t i = 0; i < n / 8; i++)
        p->above[i] = (uint8_t)(256 * ct_uniform(3, 5, (uint64_t)i));
    for (int64_t c = 0; c < p->n; c++) {
        p->mean[c] += 0.25f;
        p->s[c] = p->t[c] = 0;
        p->size[c]        = 1e-6;
    }
    for (int64_t r = 0; r < p->rows; r++)
        solve_row(p, r);
}

static void problem_free(struct problem *p)
{
    void *all[] = { p->dy, p->w, p->other, p->x, p->e, p->mean, p->above,
                    p->s, p->t, p->size };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ct_free(all[i]);
}

/* Skips the test where there is none, or one without these instructions. */
static const struct ct_device *open_gpu(void)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_conv *c         = NULL;
    struct problem p;
    int64_t slots;
    bool takes;

    problem_make(&shapes[1], &p);
    ASSERT_OK(ct_conv_create(g, &p.d, NULL, &c));
    takes = ct_cuda_ends_takes(c, 1, &slots);
    ct_conv_destroy(c);
    problem_free(&p);
    if (!takes)
        test_skip("a GPU without Hopper's tensor cores");
    return g;
}

/* 0: as it should be. */
static int wrong_sums(const struct problem *p, int64_t slots,
                      const float *part)
{
    for (int64_t q = 0; q < p->n; q++) {
        double s = 0, t = 0;

        for (int64_t i = 0; i < slots; i++) {
            s += (double)part[2 * (q * slots + i)];
            t += (double)part[2 * (q * slots + i) + 1];
        }
        if (!(fabs(s - p->s[q]) <= 1e-5 * p->size[q] && /* NaN is wrong */
              fabs(t - p->t[q]) <= 1e-5 * p->size[q])) {
            printf("channel %lld: %.9g and %.9g, wanted %.9g and %.9g\n",
                   (long long)q, s, t, p->s[q], p->t[q]);
            return 1;
        }
    }
    return 0;
}

/* The arrays of a problem on the GPU. */
struct there {
    void              *dy, *w;
    void              *other, *x, *above, *mean, *e;
    struct ct_conv_end end;
};

static void there_make(const struct ct_device *g, const struct problem *p,
                       int64_t beyond, struct there *t)
{
    const int64_t n = p->rows * p->n;
    char *nan       = test_values(n + beyond, 2);

    memset(nan, 0xff, (size_t)(n + beyond) * 2);
    t->dy    = gpu_bring(g, p->rows * p->k, CT_BF16, p->dy);
    t->w     = gpu_bring(g, p->n * p->k, CT_BF16, p->w);
    t->other = gpu_bring(g, n, CT_BF16, p->other);
    t->x     = gpu_bring(g, n, CT_BF16, p->x);
    t->above = gpu_send(g, n / 8, p->above);
    t->mean  = gpu_send(g, p->n * 4, p->mean);
    t->e     = gpu_send(g, (n + beyond) * 2, nan);
    t->end   = (struct ct_conv_end){ t->other, t->above, t->x, t->mean, t->e };
    ct_free(nan);
}

static void there_free(const struct ct_device *g, struct there *t)
{
    void *all[] = { t->dy, t->w, t->other, t->x, t->above, t->mean, t->e };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        g->ops->free(g, all[i]);
}

static int run_form(const struct ct_device *g, const struct problem *p,
                    int form)
{
    const int64_t beyond = 256 * p->n, n = p->rows * p->n;
    struct ct_conv *c    = NULL;
    int64_t slots        = 0;
    float *got, *part, *sums;
    struct there t;
    int wrong;

    ASSERT_OK(ct_conv_create(g, &p->d, NULL, &c));
    if (!ct_cuda_ends_takes(c, form, &slots)) {
        ct_conv_destroy(c);
        return -1;
    }
    there_make(g, p, beyond, &t);
    sums = gpu_room(g, p->n * slots * 8);
    got  = test_values(n + beyond, sizeof(float));
    part = test_values(p->n * slots, 8);
    ASSERT_OK(g->ops->fill(g, p->n * slots * 2, NAN, sums));
    ASSERT_OK(ct_cuda_ends_data(c, form, t.dy, t.w, &t.end, sums));
    ASSERT_OK(g->ops->to_host(g, (size_t)(p->n * slots) * 8, sums, part));
    gpu_fetch(g, n + beyond, CT_BF16, t.e, got);
    wrong = wrong_rows(p->rows, p->n, p->e, beyond, got) +
            wrong_sums(p, slots, part);
    there_free(g, &t);
    g->ops->free(g, sums);
    ct_free(got);
    ct_free(part);
    ct_conv_destroy(c);
    return wrong;
}

TEST(ends, every_form_gives_exact_gradients_and_their_sums)
{
    const struct ct_device *g = open_gpu();
    int n_wrong = 0, n = 0;

    for (int i = 0; i < N_SHAPES; i++) {
        struct problem p;

        problem_make(&shapes[i], &p);
        for (int form = 0; form < CT_ENDS_FORMS; form++) {
            const int wrong = run_form(g, &p, form);

            if (wrong > 0)
                printf("shape %d, form %d\n", i, form);
            n_wrong += wrong > 0;
            n += wrong >= 0;
        }
        problem_free(&p);
    }
    ASSERT_INT(0, n_wrong);
    ASSERT(n > 2 * N_SHAPES);
}

/* Through the object, after a forward pass and without one; and dx by itself,
 * before and after that. */
TEST(ends, a_convolution_ends_a_block_or_gives_its_own_gradient)
{
    const struct ct_device *g = open_gpu();
    struct ct_moments m       = { NULL, 0 };
    struct ct_conv *c         = NULL;
    int64_t n;
    struct problem p;
    struct there t;
    float *part, *got, *w;
    void *y;

    problem_make(&shapes[3], &p);
    n = p.rows * p.n;
    ASSERT(setenv("CORTADO_IMPL", "ends:conv", 1) == 0);
    ASSERT_OK(ct_conv_create(g, &p.d, NULL, &c));
    there_make(g, &p, 0, &t);
    w   = gpu_send(g, p.n * p.k * 4, p.w);
    y   = gpu_room(g, p.rows * p.k * 2);
    got = test_values(n, sizeof(float));
    for (int turn = 0; turn < 3; turn++) {
        if (turn > 0)
            ASSERT_OK(ct_conv_forward(c, t.x, w, NULL, y));
        ASSERT_OK(ct_conv_backward_end(c, w, t.dy, &t.end, &m));
        ASSERT(m.part != NULL);
        part = test_values(p.n * m.slots, 8);
        ASSERT_OK(g->ops->to_host(g, (size_t)(p.n * m.slots) * 8, m.part,
                                  part));
        ASSERT_INT(0, wrong_sums(&p, m.slots, part));
        gpu_fetch(g, n, CT_BF16, t.e, got);
        ASSERT_INT(0, wrong_rows(p.rows, p.n, p.e, 0, got));
        ct_free(part);
    }
    memset(p.other, 0, (size_t)n * sizeof(float));
    memset(p.above, 0xff, (size_t)n / 8);
    for (int64_t r = 0; r < p.rows; r++)
        solve_row(&p, r);
    for (int turn = 0; turn < 2; turn++) {
        ASSERT_OK(ct_conv_forward(c, t.x, w, NULL, y));
        ASSERT_OK(ct_conv_backward_data(c, w, t.dy, t.e));
        gpu_fetch(g, n, CT_BF16, t.e, got);
        ASSERT_INT(0, wrong_rows(p.rows, p.n, p.e, 0, got));
        ASSERT_OK(ct_conv_backward_end(c, w, t.dy, &t.end, &m));
        ASSERT(m.part == NULL);
    }
    there_free(g, &t);
    g->ops->free(g, w);
    g->ops->free(g, y);
    ct_free(got);
    ct_conv_destroy(c);
    problem_free(&p);
}

/* dx after all, when weights have their form for the end of a block. */
TEST(ends, weights_made_ahead_for_an_end_do_not_serve_dx)
{
    const struct ct_device *g = open_gpu();
    struct ct_moments m       = { NULL, 0 };
    struct ct_conv *c         = NULL;
    struct problem p;
    struct there t;
    float *got, *w;
    int64_t n;

    problem_make(&shapes[3], &p);
    n = p.rows * p.n;
    memset(p.other, 0, (size_t)n * sizeof(float));
    memset(p.above, 0xff, (size_t)n / 8);
    for (int64_t r = 0; r < p.rows; r++)
        solve_row(&p, r);
    ASSERT(setenv("CORTADO_IMPL", "ends:conv", 1) == 0);
    ASSERT_OK(ct_conv_create(g, &p.d, NULL, &c));
    there_make(g, &p, 0, &t);
    w   = gpu_send(g, p.n * p.k * 4, p.w);
    got = test_values(n, sizeof(float));
    ASSERT_OK(ct_conv_backward_end(c, w, t.dy, &t.end, &m));
    ASSERT(m.part != NULL);
    ASSERT_OK(ct_conv_weights_ahead(c, CT_BACKWARD, w));
    ASSERT_OK(ct_conv_backward_data(c, w, t.dy, t.e));
    ASSERT_OK(ct_conv_weights_ahead(c, CT_BACKWARD, NULL));
    gpu_fetch(g, n, CT_BF16, t.e, got);
    ASSERT_INT(0, wrong_rows(p.rows, p.n, p.e, 0, got));
    there_free(g, &t);
    g->ops->free(g, w);
    ct_free(got);
    ct_conv_destroy(c);
    problem_free(&p);
}

#endif
