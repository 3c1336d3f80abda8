/* solver_test.h - solvers on a problem that can be followed by hand.
 *
 * One weight w, input 1, target 0: loss w^2 / 2, gradient w.  With
 * CORTADO_TEST_DEVICE they train on a GPU. */
#ifndef CT_TESTS_SOLVER_SOLVER_TEST_H
#define CT_TESTS_SOLVER_SOLVER_TEST_H

#include "cortado/solver.h"
#include "testing/test.h"

#define ONE_WEIGHT                                                           \
    "net_param { name: 'one' layer { name: 'd' type: 'DummyData' top: 'x' "  \
    "  top: 't' dummy_data_param { shape { dim: 1 dim: 1 } "                 \
    "  data_filler { value: 1 } data_filler { value: 0 } } }"                \
    "layer { name: 'w' type: 'InnerProduct' bottom: 'x' top: 'y' "           \
    "  inner_product_param { num_output: 1 bias_term: false "                \
    "  weight_filler { value: 2 } } }"                                       \
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' "       \
    "  top: 'loss' } } "

static inline void solver_test_free(void *s)
{
    ct_solver_destroy(s);
}

static inline enum ct_status solver_try(const char *text,
                                        struct ct_solver **out)
{
    Caffe__SolverParameter *p = NULL;
    struct ct_solver_options o = { .device = test_device() };
    enum ct_status st;

    CT_TRY(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                         strlen(text), "test", &p));
    st = ct_upgrade_solver(p, "test.prototxt");
    if (st == CT_OK)
        st = ct_solver_create(p, &o, out);
    ct_message_free(p);
    return st;
}

static inline struct ct_solver *solver_of(const char *text)
{
    struct ct_solver *s = NULL;

    ASSERT_OK(solver_try(text, &s));
    test_defer(solver_test_free, s);
    return s;
}

static inline void solver_test_close(void *d)
{
    ct_device_close(d);
}

/* A GPU of this precision until the test ends; skips where there is none. */
static inline const struct ct_device *solver_test_gpu(
    enum ct_precision precision)
{
    const struct ct_device *d = NULL;

    if (ct_device_cuda_count() == 0)
        test_skip("there is no GPU");
    ASSERT_OK(ct_device_cuda_open(0, precision, &d));
    test_defer(solver_test_close, (void *)(uintptr_t)d);
    return d;
}

static inline float weight(const struct ct_solver *s)
{
    if (test_device()->kind != CT_CPU)
        ASSERT_OK(test_device()->ops->sync(test_device()));
    return ct_data(ct_net_param(ct_solver_net(s), 0)->blob)[0];
}

#endif
