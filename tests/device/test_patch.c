/* test_patch.c - small convolutions by patches (conv_patch.h): every form of
 * every pass, in every precision, against sums in double.
 *
 * Runs where CORTADO_TEST_DEVICE names a GPU, but what cuts the work, which
 * needs none. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/conv.h"
#include "device/cuda/patch_cut.h"
#include "testing/gpu.h"
#ifdef CT_HAVE_CUDA
#include "device/cuda/conv_patch.h"
#endif

/* Those of small nets, and odd ones; kernels larger than an image, padding
 * beyond a kernel, one row, one column. */
static const struct ct_patch_shape shapes[] = {
    { 3, 3, 32, { 32, 32 }, { 0, 0 }, { 5, 5 }, { 2, 2 } },
    { 3, 32, 32, { 16, 16 }, { 0, 0 }, { 5, 5 }, { 2, 2 } },
    { 3, 32, 64, { 8, 8 }, { 0, 0 }, { 5, 5 }, { 2, 2 } },
    { 3, 1, 20, { 28, 28 }, { 0, 0 }, { 5, 5 }, { 0, 0 } },
    { 3, 20, 50, { 12, 12 }, { 0, 0 }, { 5, 5 }, { 0, 0 } },
    { 2, 64, 64, { 9, 11 }, { 0, 0 }, { 3, 3 }, { 1, 1 } },
    { 2, 9, 7, { 5, 13 }, { 0, 0 }, { 2, 4 }, { 0, 3 } },
    { 5, 2, 33, { 7, 3 }, { 0, 0 }, { 3, 3 }, { 4, 5 } },
    { 1, 17, 1, { 1, 40 }, { 0, 0 }, { 1, 7 }, { 0, 3 } },
    { 2, 6, 10, { 30, 1 }, { 0, 0 }, { 5, 1 }, { 2, 0 } },
    { 4, 8, 16, { 3, 3 }, { 0, 0 }, { 5, 5 }, { 2, 2 } },
    { 1, 5, 40, { 6, 6 }, { 0, 0 }, { 1, 1 }, { 0, 0 } },
};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]), N_DRAWN = 20 };

static int between(uint64_t draw, uint64_t what, int least, int most)
{
    return least + (int)((float)(most + 1 - least) *
                         ct_uniform(11, draw, what));
}

/* Shape i; those behind the last one of the list are drawn. */
static struct ct_patch_shape shape_of(int i)
{
    const uint64_t n = (uint64_t)i;
    struct ct_patch_shape s;

    if (i < N_SHAPES) {
        s = shapes[i];
    } else {
        s = (struct ct_patch_shape){ .batch    = between(n, 0, 1, 4),
                                     .channels = between(n, 1, 1, 40),
                                     .outputs  = between(n, 2, 1, 70) };
        for (int k = 0; k < 2; k++) {
            const uint64_t a = 3 + 3 * (uint64_t)k;

            s.kernel[k] = between(n, a, 1, 6);
            s.pad[k]    = between(n, a + 1, 0, s.kernel[k]);
            s.in[k]     = between(n, a + 2, s.kernel[k], 19);
        }
    }
    for (int k = 0; k < 2; k++)
        s.out[k] = s.in[k] + 2 * s.pad[k] - s.kernel[k] + 1;
    return s;
}

TEST(patch, strips_cover_every_row_and_fit_into_shared_memory)
{
    static const struct ct_patch_form forms[] = { { 4, 1 }, { 2, 4 },
                                                  { 8, 1 } };
    static const struct ct_sums_form sums[]   = { { 4, 2, 1 }, { 8, 1, 1 },
                                                  { 1, 8, 2 } };

    for (int i = 0; i < N_SHAPES + N_DRAWN; i++)
        for (int f = 0; f < 3; f++) {
            const struct ct_patch_shape s = shape_of(i);
            struct ct_patch p             = { .rows = 0 };
            struct ct_sums q              = { .rows = 0 };

            ASSERT(ct_patch_cut(&s, f == 0 ? 4 : 2, f == 0, &forms[f], &p));
            ASSERT(p.rows * p.each >= s.out[0] &&
                   p.rows * (p.each - 1) < s.out[0]);
            ASSERT(p.warps * CT_PATCH_TILE >= p.rows * s.out[1]);
            ASSERT(p.splits >= 1 && p.warps * p.splits <= CT_PATCH_WARPS);
            ASSERT(p.parts * CT_PATCH_TILE >= s.outputs);
            ASSERT(p.inside * 2 * p.cell >= s.channels ||
                   s.channels <= p.cell);
            ASSERT_INT(0, p.stage % 16);
            ASSERT_INT(16, p.pitch % 32);
            ASSERT(ct_patch_bytes(&p) <= CT_PATCH_SHARED);
            ASSERT(ct_sums_cut(&s, &sums[f], 132, &q));
            ASSERT(q.rows * q.each >= s.out[0]);
            ASSERT(q.parts * q.warps * CT_SUMS_TILES >= q.tiles);
            ASSERT(q.warps * q.splits <= CT_PATCH_WARPS);
            ASSERT(q.pitch == s.channels || q.pitch % 32 == 8);
            ASSERT(q.pitch >= s.channels && q.columns >= s.out[1]);
            ASSERT(q.shares >= 1 && q.shares <= s.batch * q.each);
            ASSERT(ct_sums_bytes(&q) <= CT_SUMS_SHARED);
        }
}

#ifdef CT_HAVE_CUDA

enum { X, W, B, DY, Y, DX, DW, N_ARRAYS };

static const struct precision {
    const char       *name;
    enum ct_precision value;
    double            limit; /* of errors, against the sum of magnitudes */
} precisions[] = {
    { "fp32", CT_FP32, 2e-6 },
    { "tf32", CT_TF32, 1e-3 },
    { "bf16", CT_BF16_MIXED, 1.2e-2 },
    { "fp16", CT_FP16_MIXED, 2e-3 },
};

/* Plain arrays; of results, what they should be and the sums of magnitudes. */
struct problem {
    struct ct_patch_shape s;
    int64_t               n[N_ARRAYS];
    float                *v[N_ARRAYS];
    double               *want[N_ARRAYS], *all[N_ARRAYS];
};

static void add(struct problem *p, int array, int64_t at, double v)
{
    p->want[array][at] += v;
    p->all[array][at] += fabs(v);
}

/* All that one weight has a part in. */
static void add_weight(struct problem *p, int64_t at, int o, int c,
                       const int *tap)
{
    const struct ct_patch_shape *s = &p->s;

    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t y = 0; y < s->out[0]; y++)
            for (int64_t x = 0; x < s->out[1]; x++) {
                const int64_t i = y + tap[0] - s->pad[0];
                const int64_t j = x + tap[1] - s->pad[1];
                const int64_t from = ((n * s->channels + c) * s->in[0] + i) *
                                         s->in[1] + j;
                const int64_t to = ((n * s->outputs + o) * s->out[0] + y) *
                                       s->out[1] + x;
                const double w = (double)p->v[W][at];

                if (i < 0 || j < 0 || i >= s->in[0] || j >= s->in[1])
                    continue;
                add(p, Y, to, w * (double)p->v[X][from]);
                add(p, DX, from, w * (double)p->v[DY][to]);
                add(p, DW, at, (double)p->v[DY][to] * (double)p->v[X][from]);
            }
}

static void problem_make(const struct ct_patch_shape *s, struct problem *p)
{
    const int64_t plane = s->out[0] * s->out[1];

    *p = (struct problem){ .s = *s };
    p->n[X] = p->n[DX] = (int64_t)s->batch * s->channels * s->in[0] * s->in[1];
    p->n[Y] = p->n[DY] = s->batch * s->outputs * plane;
    p->n[W] = p->n[DW] = (int64_t)s->outputs * s->channels * s->kernel[0] *
                         s->kernel[1];
    p->n[B] = s->outputs;
    for (int i = 0; i < N_ARRAYS; i++) {
        const size_t n = (size_t)p->n[i];

        p->v[i]    = ct_malloc(n * sizeof(float), "test values");
        p->want[i] = ct_malloc(n * sizeof(double), "test values");
        p->all[i]  = ct_malloc(n * sizeof(double), "test values");
        ASSERT(p->v[i] && p->want[i] && p->all[i]);
        for (size_t j = 0; j < n; j++) {
            p->v[i][j]    = 2 * ct_uniform(3, (uint64_t)i, j) - 1;
            p->want[i][j] = p->all[i][j] = 0;
        }
    }
    for (int64_t j = 0; j < p->n[Y]; j++)
        add(p, Y, j, (double)p->v[B][j / plane % s->outputs]);
    for (int64_t j = 0; j < p->n[W]; j++) {
        const int64_t line = j / s->kernel[1], of = line / s->kernel[0];
        const int tap[]    = { (int)(line % s->kernel[0]),
                               (int)(j % s->kernel[1]) };

        add_weight(p, j, (int)(of / s->channels), (int)(of % s->channels),
                   tap);
    }
    for (int64_t j = 0; j < p->n[DW]; j++) /* it is added to ones */
        add(p, DW, j, 1);
}

static void problem_free(struct problem *p)
{
    for (int i = 0; i < N_ARRAYS; i++) {
        ct_free(p->v[i]);
        ct_free(p->want[i]);
        ct_free(p->all[i]);
    }
}

/* A description, and its arrays on the GPU, `flat` is room. */
struct trial {
    const struct ct_device *g;
    const struct problem   *p;
    struct ct_conv         *c;
    struct ct_conv_desc     d;
    char                    what[96];
    double                  limit;
    void                   *a[N_ARRAYS], *flat, *inside;
    float                  *got;
};

static int n_wrong;

static bool is_image(int i)
{
    return i != W && i != B && i != DW;
}

static void convert(const struct trial *t, int i, bool in)
{
    const struct ct_conv_desc *d = &t->d;
    const bool x    = i == X || i == DX;
    const int64_t n = t->p->n[i];
    const int64_t c = x ? d->in_channels : d->out_channels;
    enum ct_layout layout = x ? d->src_layout : d->dst_layout;
    enum ct_dtype type    = x ? d->src_type : d->dst_type;
    const int64_t batch   = is_image(i) ? d->batch : 1;
    const int64_t channels = is_image(i) ? c : 1;

    layout = is_image(i) ? layout : CT_PLAIN;
    type   = is_image(i) ? type : CT_F32;
    ASSERT_OK(t->g->ops->convert(t->g, batch, channels, n / batch / channels,
                                 in ? CT_PLAIN : layout, in ? CT_F32 : type,
                                 in ? t->flat : t->a[i],
                                 in ? layout : CT_PLAIN, in ? type : CT_F32,
                                 in ? t->a[i] : t->flat));
}

/* NaN where a pass must write everything, ones where it adds. */
static void spoil(const struct trial *t, int i)
{
    ASSERT_OK(t->g->ops->fill(t->g, t->p->n[i], i == DW ? 1 : NAN, t->a[i]));
}

static void check(const struct trial *t, int form, int i)
{
    const struct problem *p = t->p;
    const bool relu         = i == Y && t->d.relu;

    convert(t, i, false);
    ASSERT_OK(t->g->ops->to_host(t->g, (size_t)p->n[i] * sizeof(float),
                                 t->flat, t->got));
    for (int64_t j = 0; j < p->n[i]; j++) {
        const double want = relu && p->want[i][j] < 0 ? 0 : p->want[i][j];

        if (!(fabs((double)t->got[j] - want) <=
              t->limit * (p->all[i][j] + 0.01))) {
            printf("%s, form %d, array %d, value %lld is %.9g, wanted %.9g\n",
                   t->what, form, i, (long long)j, (double)t->got[j], want);
            n_wrong++;
            return;
        }
    }
}

/* Every form of every pass; how many there were. */
static int run_forms(struct trial *t)
{
    int n = 0;

    for (int form = 0; form < CT_PATCH_FORMS + CT_SUMS_FORMS; form++)
        for (int pass = 0; pass < CT_WEIGHTED_PASSES; pass++) {
            int64_t words = 0;
            size_t bytes  = 0;
            void *part    = NULL;

            if (form >= ct_patch_forms((enum ct_pass)pass) ||
                !ct_cuda_patch_takes(t->c, (enum ct_pass)pass, form, &words,
                                     &bytes))
                continue;
            n |= 1 << pass;
            spoil(t, Y + pass);
            if (pass == CT_FORWARD) {
                ASSERT_OK(ct_cuda_patch_forward(t->c, form, t->a[X], t->inside,
                                                t->a[B], t->a[Y]));
            } else if (pass == CT_BACKWARD) {
                ASSERT_OK(ct_cuda_patch_data(t->c, form, t->a[DY], t->inside,
                                             t->a[DX]));
            } else {
                ASSERT_OK(t->g->ops->alloc(t->g, bytes, "test", &part));
                ASSERT_OK(t->g->ops->fill(
                    t->g, (int64_t)(bytes / sizeof(float)), NAN, part));
                ASSERT_OK(ct_cuda_sums_gradient(t->c, form, t->a[X], t->a[DY],
                                                part, t->a[DW]));
            }
            check(t, form, Y + pass);
            t->g->ops->free(t->g, part);
        }
    return n;
}

static void run(struct trial *t)
{
    const struct ct_device_ops *ops = t->g->ops;
    int64_t most = 0, words = 0;
    size_t bytes = 0;

    ASSERT_OK(ct_conv_create(t->g, &t->d, NULL, &t->c));
    for (int i = 0; i < N_ARRAYS; i++)
        most = t->p->n[i] > most ? t->p->n[i] : most;
    t->got = ct_malloc((size_t)most * sizeof(float), "test values");
    ASSERT(t->got != NULL);
    ASSERT_OK(ops->alloc(t->g, (size_t)most * sizeof(float), "test",
                         &t->flat));
    for (int i = 0; i < N_ARRAYS; i++) {
        ASSERT_OK(ops->alloc(t->g, (size_t)t->p->n[i] * sizeof(float), "test",
                             &t->a[i]));
        ASSERT_OK(ops->from_host(t->g, (size_t)t->p->n[i] * sizeof(float),
                                 t->p->v[i], t->flat));
        convert(t, i, true);
    }
    for (int i = 0; i < CT_PATCH_FORMS && words == 0; i++)
        if (!ct_cuda_patch_takes(t->c, CT_FORWARD, i, &words, &bytes))
            words = 0;
    ASSERT(words > 0);
    ASSERT_OK(ops->alloc(t->g, (size_t)words * 4, "test", &t->inside));
    ASSERT_OK(ops->fill(t->g, words, NAN, t->inside));
    ASSERT_OK(ct_cuda_patch_weights(t->c, t->a[W], t->inside));
    ASSERT_INT(7, run_forms(t));
    for (int i = 0; i < N_ARRAYS; i++)
        ops->free(t->g, t->a[i]);
    ops->free(t->g, t->flat);
    ops->free(t->g, t->inside);
    ct_free(t->got);
    ct_conv_destroy(t->c);
}

static struct ct_conv_desc desc_of(const struct ct_patch_shape *s)
{
    struct ct_conv_desc d = { .n_spatial = 2, .batch = s->batch,
                              .in_channels  = s->channels,
                              .out_channels = s->outputs, .group = 1,
                              .has_bias = true };

    for (int k = 0; k < 2; k++) {
        d.in[k]     = s->in[k];
        d.kernel[k] = s->kernel[k];
        d.pad[k]    = s->pad[k];
        d.stride[k] = d.dilation[k] = 1;
    }
    return d;
}

TEST(patch, every_form_of_every_pass_gives_what_sums_in_double_do)
{
    n_wrong = 0;
    for (int i = 0; i < 4; i++) {
        const struct ct_device *g = test_gpu(precisions[i].value);

        for (int j = 0; j < N_SHAPES + N_DRAWN; j++) {
            const struct ct_patch_shape s = shape_of(j);
            struct problem p;

            problem_make(&s, &p);
            /* Plain float32; then y, then x as the device likes it. */
            for (int form = 0; form < 3; form++) {
                struct trial t = { .g = g, .p = &p, .d = desc_of(&s),
                                   .limit = precisions[i].limit };

                t.d.relu = j % 2 == 1;
                if (form > 0) {
                    t.d.dst_layout = CT_NHWC;
                    t.d.dst_type   = ct_device_dtype(g);
                }
                if (form > 1) {
                    t.d.src_layout = CT_NHWC;
                    t.d.src_type   = ct_device_dtype(g);
                }
                snprintf(t.what, sizeof(t.what), "%s, shape %d, layouts %d",
                         precisions[i].name, j, form);
                run(&t);
            }
            problem_free(&p);
        }
    }
    ASSERT_INT(0, n_wrong);
}

#endif
