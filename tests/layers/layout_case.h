/* layout_case.h - a layer that honours layouts gives in each of them what it
 * gives on plain blobs: y, dx, the gradients of its blobs, zeros as padding.
 *
 *     check_layouts("type: 'LRN'", CT_SHAPE(2, 19, 5, 4), false);          */
#ifndef CT_TESTS_LAYERS_LAYOUT_CASE_H
#define CT_TESTS_LAYERS_LAYOUT_CASE_H

#include "base/mem.h"
#include "base/rng.h"
#include "device/layout.h"
#include "testing/layer_test.h"

struct layout_run {
    struct ct_blob *x, *y;
    struct ct_layer *layer;
};

/* Where value i of a blob's plain order lies in the blob's own layout. */
static inline int64_t layout_at(const struct ct_blob *b, int64_t i)
{
    int64_t c = b->shape.dim[1], inner = ct_count(b, 2, CT_END);
    enum ct_layout layout = b->data.layout;

    return ct_layout_at(ct_layout_blocks(layout, c), inner,
                        ct_layout_block(layout, c), i / inner / c,
                        i / inner % c, i % inner);
}

static inline struct ct_blob *layout_blob(enum ct_layout layout,
                                          struct ct_shape shape)
{
    struct ct_blob *b;

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &b));
    b->data.layout = b->diff.layout = layout;
    ASSERT_OK(ct_reshape(b, shape));
    return b;
}

static inline void layout_run(const Caffe__LayerParameter *param,
                              const struct ct_run *run, struct ct_shape shape,
                              enum ct_layout layout, bool in_place,
                              struct layout_run *r)
{
    const bool want = true;
    struct ct_io io = { &r->x, &r->y, 1, 1, &want };

    r->x = layout_blob(layout, shape);
    r->y = in_place ? r->x : layout_blob(layout, CT_SHAPE(0));
    ASSERT_OK(ct_layer_create(param, ct_device_cpu(), run,
                              CAFFE__PHASE__TRAIN, &r->layer));
    ASSERT_OK(ct_layer_setup(r->layer, &io));
    for (int64_t i = 0; i < r->x->count; i++)
        ct_data(r->x)[layout_at(r->x, i)] =
            2 * ct_uniform(1, 1, (uint64_t)i) - 1;
    ASSERT_OK(ct_layer_forward(r->layer, &io));
    for (int64_t i = 0; i < r->y->count; i++)
        ct_diff(r->y)[layout_at(r->y, i)] =
            2 * ct_uniform(1, 2, (uint64_t)i) - 1;
    ASSERT_OK(ct_layer_backward(r->layer, &io));
}

static inline void layout_run_free(struct layout_run *r, bool in_place)
{
    ct_layer_destroy(r->layer);
    if (!in_place)
        ct_blob_destroy(r->y);
    ct_blob_destroy(r->x);
}

static inline void layout_same(const char *what, const struct ct_blob *want,
                               const struct ct_blob *got, const float *w,
                               const float *g)
{
    double sum = 0, all = 0;

    for (int64_t i = 0; i < want->count; i++) {
        float v = g[layout_at(got, i)];

        if (!(fabsf(w[i] - v) <= 1e-5f * fmaxf(1, fabsf(w[i]))))
            FAIL("%s: value %lld in layout %d is %.9g, plain it is %.9g", what,
                 (long long)i, (int)got->data.layout, (double)v, (double)w[i]);
        sum += fabs(v);
    }
    for (int64_t i = 0; i < ct_elements(got); i++)
        all += fabs(g[i]);
    ASSERT_FLOAT(sum, all, 1e-6 * sum); /* nothing in the padding */
}

static inline void check_layouts(const char *prototxt, struct ct_shape shape,
                                 bool in_place)
{
    static const enum ct_layout layouts[] = { CT_BLOCKED8, CT_BLOCKED16,
                                              CT_NHWC };
    const struct ct_run run = { .seed = 1701, .size = 1 };
    Caffe__LayerParameter *param;

    ASSERT_OK(ct_text_parse(&caffe__layer_parameter__descriptor, prototxt,
                            strlen(prototxt), "test", &param));
    test_defer(ct_message_free, param);
    for (int k = 0; k < 3; k++) {
        struct layout_run a, b;

        layout_run(param, &run, shape, CT_PLAIN, in_place, &a);
        layout_run(param, &run, shape, layouts[k], in_place, &b);
        layout_same("top data", a.y, b.y, ct_data(a.y), ct_data(b.y));
        layout_same("bottom diff", a.x, b.x, ct_diff(a.x), ct_diff(b.x));
        for (int i = 0; i < a.layer->n_blob; i++)
            for (int64_t j = 0; j < a.layer->blob[i]->count; j++) {
                ASSERT_FLOAT(ct_data(a.layer->blob[i])[j],
                             ct_data(b.layer->blob[i])[j], 1e-5);
                ASSERT_FLOAT(ct_diff(a.layer->blob[i])[j],
                             ct_diff(b.layer->blob[i])[j], 1e-4);
            }
        layout_run_free(&b, in_place);
        layout_run_free(&a, in_place);
    }
}

/* The layer on NHWC images of a type, on the GPU under test: y and dx, as plain
 * floats, of plain x and dy; with `plain_top` y is plain float32 there too.
 * Room for y and dx is that device's; `db`, where not NULL, gets the gradient
 * of blob 0. */
static inline void layout_packed(const Caffe__LayerParameter *param,
                                 enum ct_dtype type, bool plain_top,
                                 struct ct_shape shape,
                                 const struct layout_run *plain, float *y,
                                 float *dx, float *db)
{
    const struct ct_device *g = test_device();
    const struct ct_run run   = { .seed = 1701, .size = 1 };
    const int64_t *dim = shape.dim, *to = plain->y->shape.dim;
    const int64_t in = dim[2] * dim[3], out = ct_count(plain->y, 2, CT_END);
    const enum ct_layout top   = plain_top ? CT_PLAIN : CT_NHWC;
    const enum ct_dtype top_as = plain_top ? CT_F32 : type;
    const bool want            = true;
    struct ct_blob *b[2];
    struct ct_io io = { &b[0], &b[1], 1, 1, &want };
    struct ct_layer *layer;

    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ct_blob_create(g, &b[i]));
        b[i]->data.layout = b[i]->diff.layout = i ? top : CT_NHWC;
        b[i]->data.dtype = b[i]->diff.dtype = i ? top_as : type;
    }
    ASSERT_OK(ct_reshape(b[0], shape));
    ASSERT_OK(ct_layer_create(param, g, &run, CAFFE__PHASE__TRAIN, &layer));
    ASSERT_OK(ct_layer_setup(layer, &io));
    ASSERT_INT(top, b[1]->data.layout);
    ASSERT_INT(plain->y->count, b[1]->count);
    memcpy(dx, ct_data(plain->x), (size_t)plain->x->count * sizeof(float));
    memcpy(y, ct_diff(plain->y), (size_t)plain->y->count * sizeof(float));
    ASSERT_OK(g->ops->convert(g, dim[0], dim[1], in, CT_PLAIN, CT_F32, dx,
                              CT_NHWC, type, ct_data(b[0])));
    ASSERT_OK(ct_layer_forward(layer, &io));
    ASSERT_OK(g->ops->convert(g, to[0], to[1], out, CT_PLAIN, CT_F32, y, top,
                              top_as, ct_diff(b[1])));
    ASSERT_OK(ct_layer_backward(layer, &io));
    ASSERT_OK(g->ops->convert(g, to[0], to[1], out, top, top_as,
                              ct_data(b[1]), CT_PLAIN, CT_F32, y));
    ASSERT_OK(g->ops->convert(g, dim[0], dim[1], in, CT_NHWC, type,
                              ct_diff(b[0]), CT_PLAIN, CT_F32, dx));
    ASSERT_OK(g->ops->sync(g));
    if (db)
        memcpy(db, ct_diff(layer->blob[0]),
               (size_t)layer->blob[0]->count * sizeof(float));
    ct_layer_destroy(layer);
    ct_blob_destroy(b[1]);
    ct_blob_destroy(b[0]);
}

static inline void layout_near(const char *what, enum ct_dtype type, int64_t n,
                               const float *want, const float *got)
{
    const float limit = type == CT_F32 ? 1e-5f : type == CT_F16 ? 4e-3f : 3e-2f;
    float most        = 1;

    for (int64_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(want[i] - got[i]) <= limit * most))
            FAIL("%s, type %d: %lld is %.9g, on the CPU it is %.9g", what,
                 (int)type, (long long)i, (double)got[i], (double)want[i]);
}

/* As layout_packed(), in each type, beside what the CPU gives on plain
 * blobs; skips where no GPU is under test. */
static inline void check_packed(const char *prototxt, bool plain_top,
                                struct ct_shape shape)
{
    static const enum ct_dtype types[] = { CT_F32, CT_BF16, CT_F16 };
    const struct ct_device *g = test_device();
    const struct ct_run run   = { .seed = 1701, .size = 1 };
    Caffe__LayerParameter *param;
    float db[1024];

    if (g->kind == CT_CPU)
        test_skip("CORTADO_TEST_DEVICE names no GPU");
    ASSERT_OK(ct_text_parse(&caffe__layer_parameter__descriptor, prototxt,
                            strlen(prototxt), "test", &param));
    test_defer(ct_message_free, param);
    for (int k = 0; k < 3; k++) {
        struct layout_run r;
        void *y, *dx;
        bool has;

        layout_run(param, &run, shape, CT_PLAIN, false, &r);
        has = r.layer->n_blob > 0;
        ASSERT_OK(g->ops->alloc(g, (size_t)r.y->count * sizeof(float), "y",
                                &y));
        ASSERT_OK(g->ops->alloc(g, (size_t)r.x->count * sizeof(float), "dx",
                                &dx));
        layout_packed(param, types[k], plain_top, shape, &r, y, dx,
                      has ? db : NULL);
        layout_near("y", types[k], r.y->count, ct_data(r.y), y);
        layout_near("dx", types[k], r.x->count, ct_diff(r.x), dx);
        if (has)
            layout_near("gradient of blob 0", types[k],
                        r.layer->blob[0]->count, ct_diff(r.layer->blob[0]),
                        db);
        g->ops->free(g, dx);
        g->ops->free(g, y);
        layout_run_free(&r, false);
    }
}

#endif
