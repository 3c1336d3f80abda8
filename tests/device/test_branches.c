/* test_branches.c - branches that are joined, and parted again with the masks
 * of ReLUs and the gradients of biases (branches.h).
 *
 * Values are small whole numbers, so every sum is exact in every type and in
 * every order.  Runs where CORTADO_TEST_DEVICE names a GPU. */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "testing/gpu.h"

#ifdef CT_HAVE_CUDA
#include "device/cuda/branches.h"

enum { ONES = 3 }; /* what gradients of biases are added to */

static uint64_t draw(uint64_t turn, uint64_t i, uint64_t below)
{
    return (uint64_t)(ct_uniform(13, turn, i) * (float)below) % below;
}

static float *whole_numbers(uint64_t stream, int64_t n)
{
    float *v = test_values(n, sizeof(*v));

    for (int64_t i = 0; i < n; i++)
        v[i] = floorf(9 * ct_uniform(14, stream, (uint64_t)i)) - 4;
    return v;
}

static void take(const struct ct_device *g, int64_t n, enum ct_dtype type,
                 void *from, float *to)
{
    gpu_fetch(g, n, type, from, to);
    g->ops->free(g, from);
}

/* Drawn branches, and what is known of them on the host. */
struct drawn {
    struct ct_branches b;
    int64_t            all; /* channels */
    float             *x[CT_BRANCHES], *dy[CT_BRANCH_DIFFS];
    bool               wanted[CT_BRANCHES], masked[CT_BRANCHES];
    bool               summed[CT_BRANCHES];
};

static void draw_branches(uint64_t turn, struct drawn *d)
{
    static const enum ct_dtype types[] = { CT_F32, CT_BF16, CT_F16 };
    struct ct_branches *b = &d->b;

    *d = (struct drawn){ 0 };
    b->dtype = types[turn % 3];
    b->rows  = 1 + (int64_t)draw(turn, 0, turn % 4 ? 400 : 40000);
    b->n     = 1 + (int)draw(turn, 1, turn % 4 ? CT_BRANCHES : 3);
    b->n_dy  = 1 + (int)draw(turn, 2, CT_BRANCH_DIFFS);
    for (int i = 0; i < b->n; i++) {
        const uint64_t at = 10 + (uint64_t)i;

        b->of[i].channels = 8 * (1 + (int64_t)draw(turn, at, 12));
        d->all += b->of[i].channels;
        d->x[i] = whole_numbers(turn * 20 + (uint64_t)i,
                                b->rows * b->of[i].channels);
        d->wanted[i] = draw(turn, at + 20, 6) > 0;
        d->masked[i] = draw(turn, at + 40, 3) > 0;
        d->summed[i] = draw(turn, at + 60, 3) > 0;
    }
    for (int i = 0; i < b->n_dy; i++)
        d->dy[i] = whole_numbers(turn * 20 + 10 + (uint64_t)i,
                                 b->rows * d->all);
}

static void drawn_free(struct drawn *d)
{
    for (int i = 0; i < CT_BRANCHES; i++)
        ct_free(d->x[i]);
    for (int i = 0; i < CT_BRANCH_DIFFS; i++)
        ct_free(d->dy[i]);
}

static void check_forward(const struct ct_device *g, uint64_t turn,
                          struct drawn *d)
{
    struct ct_branches *b = &d->b;
    const int64_t n       = b->rows * d->all;
    float *got            = test_values(n, sizeof(*got));
    int64_t first         = 0;

    b->y = gpu_bring(g, n, b->dtype, NULL);
    for (int i = 0; i < b->n; i++)
        b->of[i].x = gpu_bring(g, b->rows * b->of[i].channels, b->dtype,
                               d->x[i]);
    ASSERT_OK(ct_cuda_branches_forward(g, b));
    take(g, n, b->dtype, b->y, got);
    b->y = NULL;
    for (int i = 0; i < b->n; i++) {
        const int64_t c = b->of[i].channels;

        for (int64_t k = 0; k < b->rows * c; k++)
            if (!(got[k / c * d->all + first + k % c] == d->x[i][k]))
                FAIL("turn %d, branch %d, value %lld", (int)turn, i,
                     (long long)k);
        first += c;
        g->ops->free(g, (void *)(uintptr_t)b->of[i].x);
        b->of[i].x = NULL;
    }
    ct_free(got);
}

/* dx and db of a branch whose channels begin at `first`. */
static void check_branch(const struct ct_device *g, uint64_t turn,
                         const struct drawn *d, int i, int64_t first)
{
    const struct ct_branches *b = &d->b;
    const int64_t c             = b->of[i].channels;
    float *dx  = test_values(b->rows * c, sizeof(*dx));
    float *db  = test_values(c, sizeof(*db));
    float *sum = test_values(c, sizeof(*sum));

    take(g, b->rows * c, b->dtype, b->of[i].dx, dx);
    for (int64_t k = 0; k < c; k++)
        sum[k] = ONES;
    for (int64_t k = 0; k < b->rows * c; k++) {
        float want = 0;

        for (int t = 0; t < b->n_dy; t++)
            want += d->dy[t][k / c * d->all + first + k % c];
        want = d->masked[i] && !(d->x[i][k] > 0) ? 0 : want;
        sum[k % c] += want;
        if (!(dx[k] == want))
            FAIL("turn %d, branch %d, value %lld is %g, wanted %g", (int)turn,
                 i, (long long)k, (double)dx[k], (double)want);
    }
    if (d->summed[i]) {
        take(g, c, CT_F32, b->of[i].db, db);
        for (int64_t k = 0; k < c; k++)
            if (!(db[k] == sum[k]))
                FAIL("turn %d, branch %d, sum %lld is %g, wanted %g",
                     (int)turn, i, (long long)k, (double)db[k],
                     (double)sum[k]);
    }
    ct_free(dx);
    ct_free(db);
    ct_free(sum);
}

static void check_backward(const struct ct_device *g, uint64_t turn,
                           struct drawn *d)
{
    struct ct_branches *b = &d->b;
    int64_t first         = 0;

    for (int i = 0; i < b->n_dy; i++)
        b->dy[i] = gpu_bring(g, b->rows * d->all, b->dtype, d->dy[i]);
    for (int i = 0; i < b->n; i++) {
        const int64_t c      = b->of[i].channels;
        struct ct_branch *of = &b->of[i];

        of->dx   = d->wanted[i] ? gpu_bring(g, b->rows * c, b->dtype, NULL)
                                : NULL;
        of->mask = d->masked[i] ? gpu_bring(g, b->rows * c, b->dtype, d->x[i])
                                : NULL;
        of->db   = NULL;
        if (d->summed[i]) {
            of->db = gpu_bring(g, c, CT_F32, NULL);
            ASSERT_OK(g->ops->fill(g, c, ONES, of->db));
        }
    }
    ASSERT_OK(ct_cuda_branches_backward(g, b));
    for (int i = 0; i < b->n; i++) {
        if (d->wanted[i])
            check_branch(g, turn, d, i, first);
        else
            g->ops->free(g, b->of[i].db);
        g->ops->free(g, (void *)(uintptr_t)b->of[i].mask);
        first += b->of[i].channels;
    }
    for (int i = 0; i < b->n_dy; i++)
        g->ops->free(g, (void *)(uintptr_t)b->dy[i]);
}

TEST(branches, are_joined_and_parted_with_masks_and_sums)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);

    for (uint64_t turn = 0; turn < 60; turn++) {
        struct drawn d;

        draw_branches(turn, &d);
        check_forward(g, turn, &d);
        check_backward(g, turn, &d);
        drawn_free(&d);
    }
}

TEST(branches, what_does_not_fit_is_refused)
{
    const struct ct_device *g = test_gpu(CT_BF16_MIXED);
    struct ct_branches b      = { .dtype = CT_BF16, .rows = 10, .n = 1,
                                  .of = { { .channels = 12 } } };

    ASSERT_INT(CT_ENOTSUP, ct_cuda_branches_forward(g, &b));
    b.of[0].channels = 16; /* no dy */
    ASSERT_INT(CT_ENOTSUP, ct_cuda_branches_backward(g, &b));
    b.rows = 0;
    ASSERT_INT(CT_ENOTSUP, ct_cuda_branches_forward(g, &b));
}

#else

TEST(branches, are_for_gpus)
{
    test_skip("a build without CUDA");
}

#endif
