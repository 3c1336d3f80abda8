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

#endif
