/* layer_test.c - one layer under test. */
#include "testing/layer_test.h"

#include "base/mem.h"
#include "base/rng.h"

enum { MAX_BLOBS = 16 };

struct case_bottom_values {
    float  *values; /* fed before every forward pass */
    int64_t count;
};

struct layer_case {
    const struct ct_device   *dev;
    Caffe__LayerParameter    *param;
    struct ct_layer          *layer;
    struct ct_run             run;
    Caffe__Phase              phase;
    struct ct_blob           *bottom[MAX_BLOBS], *top[MAX_BLOBS];
    struct case_bottom_values fed[MAX_BLOBS];
    float                    *top_diff[MAX_BLOBS];
    bool                      want_grad[MAX_BLOBS];
    int                       n_bottom, n_top, n_runs;
    bool                      in_place;
};

static void case_free(void *arg)
{
    struct layer_case *c = arg;

    ct_layer_destroy(c->layer);
    for (int i = 0; i < MAX_BLOBS; i++) {
        if (!(c->in_place && i == 0))
            ct_blob_destroy(c->top[i]);
        ct_blob_destroy(c->bottom[i]);
        ct_free(c->fed[i].values);
        ct_free(c->top_diff[i]);
    }
    ct_message_free(c->param);
    ct_free(c);
}

struct layer_case *layer_case(enum ct_device_kind dev, const char *prototxt)
{
    struct layer_case *c = ct_calloc(1, sizeof(*c), "layer case");

    c->dev = dev == CT_CPU ? ct_device_cpu() : test_device();
    test_defer(case_free, c);
    ASSERT_OK(ct_text_parse(&caffe__layer_parameter__descriptor, prototxt,
                            strlen(prototxt), "test", &c->param));
    c->phase    = CAFFE__PHASE__TRAIN;
    c->run.seed = 1701;
    c->run.size = 1;
    c->n_top    = -1;
    for (int i = 0; i < MAX_BLOBS; i++)
        c->want_grad[i] = true;
    return c;
}

void case_phase(struct layer_case *c, Caffe__Phase phase)
{
    c->phase = phase;
}

void case_tops(struct layer_case *c, int n)
{
    ASSERT(n <= MAX_BLOBS);
    c->n_top = n;
}

void case_in_place(struct layer_case *c)
{
    c->in_place = true;
}

static float *case_feed(struct layer_case *c, int i, struct ct_shape shape)
{
    ASSERT(i < MAX_BLOBS);
    if (!c->bottom[i])
        ASSERT_OK(ct_blob_create(c->dev, &c->bottom[i]));
    ASSERT_OK(ct_reshape(c->bottom[i], shape));
    if (i >= c->n_bottom)
        c->n_bottom = i + 1;
    c->fed[i].count = c->bottom[i]->count;
    ct_free(c->fed[i].values);
    c->fed[i].values = ct_calloc((size_t)c->fed[i].count + 1, sizeof(float),
                                 "case values");
    return c->fed[i].values;
}

void case_bottom(struct layer_case *c, int i, struct ct_shape shape,
                 const float *values)
{
    float *to = case_feed(c, i, shape);

    for (int64_t j = 0; j < c->fed[i].count; j++) {
        float u = ct_uniform(42, (uint64_t)i, (uint64_t)j);

        to[j] = values   ? values[j]
                : j % 2  ? 0.05f + 0.9f * u
                         : -0.05f - 0.9f * u;
    }
}

void case_bottom_range(struct layer_case *c, int i, struct ct_shape shape,
                       float lo, float hi)
{
    float *to = case_feed(c, i, shape);

    for (int64_t j = 0; j < c->fed[i].count; j++)
        to[j] = lo + (hi - lo) * ct_uniform(43, (uint64_t)i, (uint64_t)j);
}

void case_bottom_labels(struct layer_case *c, int i, struct ct_shape shape,
                        int n)
{
    float *to = case_feed(c, i, shape);

    for (int64_t j = 0; j < c->fed[i].count; j++)
        to[j] = (float)(ct_philox_word(44, (uint64_t)i, (uint64_t)j) %
                        (uint32_t)n);
}

struct ct_io case_io(struct layer_case *c)
{
    return (struct ct_io){ c->bottom, c->top, c->n_bottom, c->n_top,
                           c->want_grad };
}

static void case_fill_bottoms(struct layer_case *c)
{
    for (int i = 0; i < c->n_bottom; i++)
        memcpy(ct_data(c->bottom[i]), c->fed[i].values,
               (size_t)c->fed[i].count * sizeof(float));
}

enum ct_status case_setup(struct layer_case *c)
{
    struct ct_io io;

    CT_TRY(ct_layer_create(c->param, c->dev, &c->run, c->phase,
                           &c->layer));
    if (c->n_top < 0) {
        int least = c->layer->type->tops.min;

        c->n_top = c->param->n_top  ? (int)c->param->n_top
                   : least > 0      ? least
                   : c->layer->type->tops.max == 0 ? 0 : 1;
    }
    for (int i = 0; i < c->n_top; i++) {
        if (i == 0 && c->in_place)
            c->top[0] = c->bottom[0];
        else
            ASSERT_OK(ct_blob_create(c->dev, &c->top[i]));
    }
    io           = case_io(c);
    io.want_grad = NULL;
    case_fill_bottoms(c);
    return ct_layer_setup(c->layer, &io);
}

enum ct_status case_reshape(struct layer_case *c)
{
    struct ct_io io = case_io(c);

    io.want_grad = NULL;
    c->n_runs    = 0;
    return c->layer->type->reshape(c->layer, &io);
}

void case_blob(struct layer_case *c, int i, const float *values)
{
    ASSERT(i < c->layer->n_blob);
    memcpy(ct_data(c->layer->blob[i]), values,
           (size_t)c->layer->blob[i]->count * sizeof(float));
}

void case_top_diff(struct layer_case *c, int i, const float *values)
{
    size_t bytes = (size_t)c->top[i]->count * sizeof(float);

    ct_free(c->top_diff[i]);
    c->top_diff[i] = ct_malloc(bytes, "case top diff");
    memcpy(c->top_diff[i], values, bytes);
}

void case_want_grad(struct layer_case *c, int bottom, bool wanted)
{
    c->want_grad[bottom] = wanted;
}

struct ct_layer *case_layer(struct layer_case *c)
{
    return c->layer;
}

struct ct_run *case_run(struct layer_case *c)
{
    return &c->run;
}

enum ct_status case_forward(struct layer_case *c)
{
    struct ct_io io  = case_io(c);
    uint64_t n_calls = ct_mem_stats().n_calls; /* a GPU keeps plans */

    case_fill_bottoms(c);
    CT_TRY(ct_layer_forward(c->layer, &io));
    CT_TRY(c->dev->ops->sync(c->dev));
    if (c->n_runs++ > 0 && ct_mem_stats().n_calls != n_calls &&
        c->dev->kind == CT_CPU)
        FAIL("a forward pass after the first allocated memory");
    return CT_OK;
}

enum ct_status case_backward(struct layer_case *c)
{
    struct ct_io io = case_io(c);
    uint64_t n_calls;

    CT_TRY(case_forward(c));
    for (int i = 0; i < c->n_top; i++)
        if (c->top_diff[i])
            memcpy(ct_diff(c->top[i]), c->top_diff[i],
                   (size_t)c->top[i]->count * sizeof(float));
    n_calls = ct_mem_stats().n_calls;
    CT_TRY(ct_layer_backward(c->layer, &io));
    CT_TRY(c->dev->ops->sync(c->dev));
    if (c->n_runs > 1 && ct_mem_stats().n_calls != n_calls &&
        c->dev->kind == CT_CPU)
        FAIL("a backward pass after the first allocated memory");
    return CT_OK;
}

const struct ct_blob *case_find(struct layer_case *c, const char *what)
{
    int i;

    if (sscanf(what, "top[%d]", &i) == 1 && i < c->n_top)
        return c->top[i];
    if (sscanf(what, "bottom[%d]", &i) == 1 && i < c->n_bottom)
        return c->bottom[i];
    if (sscanf(what, "blob[%d]", &i) == 1 && i < c->layer->n_blob)
        return c->layer->blob[i];
    FAIL("there is no %s", what);
}

void case_near(struct layer_case *c, const char *file, int line,
               const char *what, float tol, const float *want, int64_t n)
{
    const struct ct_blob *b = case_find(c, what);
    const float *got = strstr(what, ".diff") ? ct_diff(b) : ct_data(b);

    if (b->count != n)
        test_fail(file, line, "%s has %lld values, wanted %lld", what,
                  (long long)b->count, (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= tol) && !(got[i] == want[i]))
            test_fail(file, line, "%s: value %lld is %.9g, wanted %.9g", what,
                      (long long)i, (double)got[i], (double)want[i]);
}

void case_shape(struct layer_case *c, const char *file, int line,
                const char *what, struct ct_shape want)
{
    const struct ct_blob *b = case_find(c, what);
    char w[256], g[256];

    if (!ct_shape_equal(&b->shape, &want))
        test_fail(file, line, "%s is %s, wanted %s", what,
                  ct_shape_text(&b->shape, g, sizeof(g)),
                  ct_shape_text(&want, w, sizeof(w)));
}

/* sum_j r_j . top_j for the r in c->top_diff. */
static double case_objective(struct layer_case *c)
{
    double sum = 0;

    ASSERT_OK(case_forward(c));
    for (int i = 0; i < c->n_top; i++)
        for (int64_t j = 0; j < c->top[i]->count; j++)
            sum += (double)c->top_diff[i][j] * (double)ct_data(c->top[i])[j];
    return sum;
}

static void case_check(struct layer_case *c, const char *file, int line,
                       const char *what, int which, float *values,
                       const float *analytic, int64_t n, float step, float tol)
{
    for (int64_t i = 0; i < n; i++) {
        float kept = values[i];
        double up, down, numeric, a = analytic[i], scale;

        values[i] = kept + step;
        up        = case_objective(c);
        values[i] = kept - step;
        down      = case_objective(c);
        values[i] = kept;
        numeric   = (up - down) / (2 * (double)step);
        scale     = fmax(1, fmax(fabs(a), fabs(numeric)));
        if (!(fabs(a - numeric) <= (double)tol * scale))
            test_fail(file, line, "%s[%d].diff[%lld] is %.7g, finite "
                      "differences give %.7g", what, which, (long long)i, a,
                      numeric);
    }
}

static float *case_kept(const float *from, int64_t n)
{
    float *kept = ct_malloc((size_t)n * sizeof(float), "case gradient");

    memcpy(kept, from, (size_t)n * sizeof(float));
    test_defer(ct_free, kept);
    return kept;
}

void case_gradient(struct layer_case *c, const char *file, int line,
                   float step, float tol)
{
    struct ct_layer *l = c->layer;
    float *of_bottom[MAX_BLOBS] = { 0 }, *of_blob[MAX_BLOBS] = { 0 };

    ASSERT_OK(case_forward(c));
    for (int i = 0; i < c->n_top; i++) {
        int64_t n = c->top[i]->count;

        ct_free(c->top_diff[i]);
        c->top_diff[i] = ct_malloc((size_t)n * sizeof(float), "case top diff");
        for (int64_t j = 0; j < n; j++)
            c->top_diff[i][j] =
                2 * ct_uniform(77, (uint64_t)i, (uint64_t)j) - 1;
    }
    for (int i = 0; i < l->n_blob; i++)
        memset(ct_diff(l->blob[i]), 0,
               (size_t)l->blob[i]->count * sizeof(float));
    ASSERT_OK(case_backward(c));
    for (int i = 0; i < c->n_bottom; i++)
        if (c->want_grad[i])
            of_bottom[i] = case_kept(ct_diff(c->bottom[i]),
                                     c->bottom[i]->count);
    for (int i = 0; i < l->n_blob; i++)
        if (l->blob_wants_grad[i])
            of_blob[i] = case_kept(ct_diff(l->blob[i]), l->blob[i]->count);
    for (int i = 0; i < c->n_bottom; i++)
        if (of_bottom[i])
            case_check(c, file, line, "bottom", i, c->fed[i].values,
                       of_bottom[i], c->fed[i].count, step, tol);
    for (int i = 0; i < l->n_blob; i++)
        if (of_blob[i])
            case_check(c, file, line, "blob", i, ct_data(l->blob[i]),
                       of_blob[i], l->blob[i]->count, step, tol);
}
