/* test_points.c - convolutions of one point that add up their output's channels
 * (conv_points.h), in every form.
 *
 * Runs where CORTADO_TEST_DEVICE names a GPU, but what cuts the product, which
 * needs none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/cuda/points_cut.h"
#include "points_test.h"
#include "testing/gpu.h"
#ifdef CT_HAVE_CUDA
#include "device/cuda/conv_points.h"
#endif

static const struct shape shapes[] = {
    { 1, { 1, 1 }, 8, 8 },        { 1, { 8, 8 }, 64, 64 },
    { 3, { 7, 7 }, 72, 200 },     { 5, { 16, 8 }, 128, 136 },
    { 2, { 13, 11 }, 264, 512 },  { 40, { 25, 29 }, 64, 256 },
    { 9, { 56, 56 }, 64, 64 },    { 128, { 7, 7 }, 40, 1032 },
    { 6, { 7, 7 }, 2048, 512 },
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void check_cut(const struct ct_points *p, const struct ct_points_form *f,
                      const struct shape *s)
{
    const int strips = p->tiles / p->down;
    int at           = 0;

    ASSERT((int64_t)p->down * CT_POINTS_ROWS >= rows_of(s));
    ASSERT(strips * f->slabs * CT_POINTS_SLAB >= s->outputs);
    ASSERT(p->steps * CT_POINTS_SLAB >= s->channels);
    ASSERT(f->resident * (ct_points_out(f->slabs) + CT_POINTS_EXTRA +
                          p->stages * ct_points_stage(f->slabs)) <=
           CT_POINTS_SHARED);
    for (int b = 0; b < p->blocks; b++) {
        ASSERT_INT(at, ct_points_first(p, b));
        ASSERT(ct_points_first(p, b + 1) > at);
        for (; at < ct_points_first(p, b + 1); at++)
            ASSERT_INT(b, ct_points_owner(p, at));
    }
    ASSERT_INT(p->tiles, at);
    for (int i = 0; i < strips; i++)
        ASSERT(ct_points_blocks(p, i) * CT_POINTS_HALVES <= p->slots);
}

TEST(points, every_tile_has_one_block_and_every_block_its_slots)
{
    static const struct ct_points_form forms[] = { { 4, 1 }, { 2, 2 },
                                                   { 1, 3 } };
    int n = 0;

    for (int i = 0; i < N_SHAPES; i++)
        for (int f = 0; f < 3; f++) {
            struct ct_points p;

            if (!ct_points_cut(rows_of(&shapes[i]), shapes[i].channels,
                               shapes[i].outputs, &forms[f], 132, &p))
                continue;
            check_cut(&p, &forms[f], &shapes[i]);
            n++;
        }
    ASSERT(n > 2 * N_SHAPES - 1);
}

#ifdef CT_HAVE_CUDA

/* Of values whose products and sums are exact, y rounded to bfloat16, and the
 * sums of its channels. */
struct problem {
    struct ct_conv_desc d;
    int64_t             rows;
    float              *x, *w, *y;
    double             *mean, *var;
};

static void solve(struct problem *p)
{
    const int64_t k = p->d.in_channels, n = p->d.out_channels;

    for (int64_t o = 0; o < n; o++) {
        double s = 0, t = 0;

        for (int64_t r = 0; r < p->rows; r++) {
            float sum = 0; /* of whole numbers below 2^24 */

            for (int64_t i = 0; i < k; i++)
                sum += p->x[r * k + i] * p->w[o * k + i];
            p->y[r * n + o] = rounded((double)sum);
            s += (double)p->y[r * n + o];
        }
        p->mean[o] = s / (double)p->rows;
        for (int64_t r = 0; r < p->rows; r++)
            t += pow((double)p->y[r * n + o] - p->mean[o], 2);
        p->var[o] = t / (double)p->rows;
    }
}

/* With `far` channels are far from zero, in the measure of what they vary. */
static void problem_make(const struct shape *s, bool far, struct problem *p)
{
    *p = (struct problem){
        .d    = desc_of(s),
        .rows = rows_of(s),
    };
    p->d.moments = true;
    p->x    = test_values(p->rows * s->channels, sizeof(float));
    p->w    = test_values(s->outputs * s->channels, sizeof(float));
    p->y    = test_values(p->rows * s->outputs, sizeof(float));
    p->mean = test_values(s->outputs, sizeof(double));
    p->var  = test_values(s->outputs, sizeof(double));
    for (int64_t i = 0; i < p->rows * s->channels; i++)
        p->x[i] = far ? 8 + floorf(2 * ct_uniform(1, 0, (uint64_t)i))
                      : floorf(17 * ct_uniform(1, 0, (uint64_t)i)) - 8;
    for (int64_t i = 0; i < s->outputs * s->channels; i++)
        p->w[i] = far ? 1 : floorf(9 * ct_uniform(1, 1, (uint64_t)i)) - 4;
    solve(p);
}

static void problem_free(struct problem *p)
{
    ct_free(p->x);
    ct_free(p->w);
    ct_free(p->y);
    ct_free(p->mean);
    ct_free(p->var);
}

/* Skips the test where there is none, or one without these instructions. */
static const struct ct_device *open_gpu(void)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_conv *c         = NULL;
    struct problem p;
    int64_t slots;
    bool takes;

    problem_make(&shapes[1], false, &p);
    ASSERT_OK(ct_conv_create(g, &p.d, NULL, &c));
    takes = ct_cuda_points_takes(c, 3, &slots);
    ct_conv_destroy(c);
    problem_free(&p);
    if (!takes)
        test_skip("a GPU without Hopper's tensor cores");
    return g;
}

/* What the slots say of all channels; 0: as it should be. */
static int wrong_sums(const struct problem *p, int64_t slots,
                      const float *part)
{
    for (int64_t q = 0; q < p->d.out_channels; q++) {
        double n = 0, s = 0, t = 0, scale;

        for (int64_t i = 0; i < slots; i++) {
            const float *v = part + 4 * (q * slots + i);

            n += (double)v[0];
            s += (double)v[0] * (double)v[1] + (double)v[2];
        }
        s /= (double)p->rows;
        for (int64_t i = 0; i < slots; i++) {
            const float *v = part + 4 * (q * slots + i);
            const double d = (double)v[1] - s;

            t += (double)v[0] * d * d + 2 * d * (double)v[2] + (double)v[3];
        }
        t /= (double)p->rows;
        scale = p->var[q] + 1e-6;
        if (!(n == (double)p->rows && /* NaN is wrong, too */
              fabs(s - p->mean[q]) <= 1e-4 * sqrt(scale) &&
              fabs(t - p->var[q]) <= 1e-4 * scale)) {
            printf("channel %lld: %g values, mean %.9g, variance %.9g, wanted "
                   "%lld, %.9g, %.9g\n", (long long)q, n, s, t,
                   (long long)p->rows, p->mean[q], p->var[q]);
            return 1;
        }
    }
    return 0;
}

static int run_form(const struct ct_device *g, const struct problem *p,
                    int form)
{
    const int64_t n = p->rows * p->d.out_channels;
    const int64_t beyond = 256 * p->d.out_channels;
    struct ct_conv *c    = NULL;
    int64_t slots        = 0;
    float *got, *part;
    void *x, *w, *y, *there;
    int wrong;

    ASSERT_OK(ct_conv_create(g, &p->d, NULL, &c));
    if (!ct_cuda_points_takes(c, form, &slots)) {
        ct_conv_destroy(c);
        return -1;
    }
    x     = gpu_bring(g, p->rows * p->d.in_channels, CT_BF16, p->x);
    w     = gpu_bring(g, p->d.out_channels * p->d.in_channels, CT_BF16,
                      p->w);
    y     = gpu_room(g, (n + beyond) * 2);
    there = gpu_room(g, p->d.out_channels * slots * 16);
    got   = test_values(n + beyond, sizeof(float));
    part  = test_values(p->d.out_channels * slots, 16);
    /* NaN throughout. */
    memset(got, 0xff, (size_t)(n + beyond) * 2);
    ASSERT_OK(g->ops->from_host(g, (size_t)(n + beyond) * 2, got, y));
    ASSERT_OK(g->ops->fill(g, p->d.out_channels * slots * 4, NAN, there));
    ASSERT_OK(ct_cuda_points_forward(c, form, x, w, y, there));
    ASSERT_OK(g->ops->to_host(g, (size_t)(p->d.out_channels * slots) * 16,
                              there, part));
    gpu_fetch(g, n + beyond, CT_BF16, y, got);
    wrong = wrong_rows(p->rows, p->d.out_channels, p->y, beyond, got) +
            wrong_sums(p, slots, part);
    g->ops->free(g, x);
    g->ops->free(g, w);
    g->ops->free(g, y);
    g->ops->free(g, there);
    ct_free(got);
    ct_free(part);
    ct_conv_destroy(c);
    return wrong;
}

TEST(points, every_form_gives_exact_values_and_their_sums)
{
    const struct ct_device *g = open_gpu();
    int n_wrong = 0, n = 0;

    for (int i = 0; i < N_SHAPES; i++)
        for (int far = 0; far < 2; far++) {
            struct problem p;

            problem_make(&shapes[i], far, &p);
            for (int form = 0; form < CT_POINTS_FORMS; form++) {
                const int wrong = run_form(g, &p, form);

                if (wrong > 0)
                    printf("shape %d, form %d%s\n", i, form,
                           far ? ", far from zero" : "");
                n_wrong += wrong > 0;
                n += wrong >= 0;
            }
            problem_free(&p);
        }
    ASSERT_INT(0, n_wrong);
    ASSERT(n > 6 * N_SHAPES);
}

/* Through the object: the sums are there for one who asks, of that y alone. */
TEST(points, a_convolution_leaves_sums_for_one_who_asks)
{
    const struct ct_device *g = open_gpu();
    struct ct_moments m       = { NULL, 0 };
    struct ct_conv *c         = NULL;
    struct problem p;
    float *part, *w;
    void *x, *y;

    problem_make(&shapes[3], false, &p);
    ASSERT(setenv("CORTADO_IMPL", "moments:conv", 1) == 0);
    ASSERT_OK(ct_conv_create(g, &p.d, NULL, &c));
    x = gpu_bring(g, p.rows * p.d.in_channels, CT_BF16, p.x);
    y = gpu_room(g, p.rows * p.d.out_channels * 2);
    w = gpu_send(g, p.d.out_channels * p.d.in_channels * 4, p.w);
    ASSERT(!ct_conv_moments(c, y, &m));
    ASSERT_OK(ct_conv_forward(c, x, w, NULL, y));
    ASSERT(!ct_conv_moments(c, x, &m));
    ASSERT_OK(ct_conv_forward(c, x, w, NULL, y));
    ASSERT(ct_conv_moments(c, y, &m));
    part = test_values(p.d.out_channels * m.slots, 16);
    ASSERT_OK(g->ops->to_host(g, (size_t)(p.d.out_channels * m.slots) * 16,
                              m.part, part));
    ASSERT_INT(0, wrong_sums(&p, m.slots, part));
    ASSERT(!ct_conv_moments(c, y, &m));
    g->ops->free(g, x);
    g->ops->free(g, y);
    g->ops->free(g, w);
    ct_free(part);
    ct_conv_destroy(c);
    problem_free(&p);
}

#endif
