/* layer_test.h - one layer under test: feed it, run it, compare, check its
 * gradient against finite differences.
 *
 *     struct layer_case *c = layer_case(dev, "type: 'ReLU'");
 *     case_bottom(c, 0, CT_SHAPE(2, 3), x);
 *     ASSERT_OK(case_setup(c));
 *     ASSERT_OK(case_forward(c));
 *     ASSERT_NEAR(c, "top[0].data", 1e-6f, 1, 0, 3, 0, 5, 6);
 *
 * Cases are freed and leak-checked by the harness.  From the second run on a
 * forward or backward pass that allocates fails the test. */
#ifndef CT_TESTING_LAYER_TEST_H
#define CT_TESTING_LAYER_TEST_H

#include "cortado/layer.h"
#include "testing/test.h"

struct layer_case;

struct layer_case *layer_case(enum ct_device_kind dev, const char *prototxt);

/* Before case_setup().  Phase is TRAIN, and there is one top for each `top`
 * in the prototxt or else the type's least number (but one). */
void case_phase(struct layer_case *c, Caffe__Phase phase);
void case_tops(struct layer_case *c, int n);
void case_in_place(struct layer_case *c); /* top[0] is bottom[0] */

/* Shape and values of bottom i; NULL values: distinct ones in (-1, 1) that
 * stay clear of 0, the same in every run.  Again after case_setup() it feeds
 * new values, and a new shape with case_reshape(). */
void case_bottom(struct layer_case *c, int i, struct ct_shape shape,
                 const float *values);
/* case_bottom() with values spread over (lo, hi), or integers in [0, n). */
void case_bottom_range(struct layer_case *c, int i, struct ct_shape shape,
                       float lo, float hi);
void case_bottom_labels(struct layer_case *c, int i, struct ct_shape shape,
                        int n);

CT_MUST_CHECK enum ct_status case_setup(struct layer_case *c);
CT_MUST_CHECK enum ct_status case_reshape(struct layer_case *c);

/* After case_setup(). */
void case_blob(struct layer_case *c, int i, const float *values);
void case_top_diff(struct layer_case *c, int i, const float *values);
void case_want_grad(struct layer_case *c, int bottom, bool wanted);
struct ct_layer *case_layer(struct layer_case *c);
struct ct_io case_io(struct layer_case *c);
struct ct_run *case_run(struct layer_case *c); /* seed, pass, rank, size */

/* Backward runs a forward pass first, so that a layer's state fits. */
CT_MUST_CHECK enum ct_status case_forward(struct layer_case *c);
CT_MUST_CHECK enum ct_status case_backward(struct layer_case *c);

/* "top[0].data", "blob[1].diff", "bottom[0].diff": the blob's numbers. */
const struct ct_blob *case_find(struct layer_case *c, const char *what);

void case_near(struct layer_case *c, const char *file, int line,
               const char *what, float tol, const float *want, int64_t n);
void case_shape(struct layer_case *c, const char *file, int line,
                const char *what, struct ct_shape want);
void case_gradient(struct layer_case *c, const char *file, int line,
                   float step, float tol);

#define ASSERT_NEAR(c, what, tol, ...)                                       \
    case_near(c, __FILE__, __LINE__, what, tol,                              \
              (const float[]){ __VA_ARGS__ },                                \
              (int64_t)(sizeof((const float[]){ __VA_ARGS__ }) /             \
                        sizeof(float)))

#define ASSERT_SHAPE(c, what, ...)                                           \
    case_shape(c, __FILE__, __LINE__, what, CT_SHAPE(__VA_ARGS__))

/* Every gradient the layer is asked for (bottoms with want_grad, all blobs
 * that want one) against central differences of  sum_j r_j . top_j  with
 * fixed random r.  Passes when |analytic - numeric| <= tol max(1, |either|). */
#define ASSERT_GRADIENT(c, step, tol)                                        \
    case_gradient(c, __FILE__, __LINE__, step, tol)

/* The body takes `dev`, the kind of test_device(): the CPU, or with
 * CORTADO_TEST_DEVICE=cuda in the environment a GPU. */
#define TEST_EACH_DEVICE(suite, name)                                        \
    static void suite##_##name(enum ct_device_kind dev);                     \
    static void suite##_##name##_on_device(void)                             \
    {                                                                        \
        suite##_##name(test_device()->kind);                                 \
    }                                                                        \
    TEST_AS(suite, #name, suite##_##name##_on_device)                        \
    static void suite##_##name(enum ct_device_kind dev)

#endif
