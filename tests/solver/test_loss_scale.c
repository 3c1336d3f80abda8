/* test_loss_scale.c - fp16 with a loss scale, and clipping, on a GPU. */
#include <stdlib.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "solver_test.h"

#define NET(scale)                                                           \
    "net_param { name: 'two' " scale                                         \
    "layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "                 \
    "  dummy_data_param { shape { dim: 4 dim: 6 } shape { dim: 4 dim: 3 } "  \
    "  data_filler { type: 'gaussian' } data_filler { type: 'uniform' } } }" \
    "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "           \
    "  inner_product_param { num_output: 8 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }"                  \
    "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "           \
    "  inner_product_param { num_output: 3 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 't' "       \
    "  top: 'loss' } } "

#define SOLVER                                                               \
    "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 "     \
    "iter_size: 2 random_seed: 7 snapshot_after_train: false "

static struct ct_solver *solver_on(const struct ct_device *d, const char *text)
{
    struct ct_solver_options o = { .device = d };
    Caffe__SolverParameter *p  = NULL;
    struct ct_solver *s        = NULL;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    st = ct_solver_create(p, &o, &s);
    ct_message_free(p);
    ASSERT_OK(st);
    test_defer(solver_test_free, s);
    return s;
}

static void params_are_near(const struct ct_solver *a,
                            const struct ct_solver *b, float tol)
{
    for (int i = 0; i < ct_net_n_params(ct_solver_net(a)); i++) {
        struct ct_blob *x = ct_net_param(ct_solver_net(a), i)->blob;
        struct ct_blob *y = ct_net_param(ct_solver_net(b), i)->blob;
        float p[64], q[64];

        ASSERT(x->count <= 64);
        ASSERT_OK(ct_blob_get(x, false, p));
        ASSERT_OK(ct_blob_get(y, false, q));
        for (int64_t j = 0; j < x->count; j++)
            if (!(fabsf(p[j] - q[j]) <= tol))
                FAIL("parameter %d, value %lld: %g and %g", i, (long long)j,
                     (double)p[j], (double)q[j]);
    }
}

static float scale_of(const struct ct_solver *s)
{
    float scale;

    ASSERT_OK(ct_solver_loss_scale(s, &scale));
    return scale;
}

static char lines[65536];

static void keep_lines(enum ct_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    strncat(lines, line, sizeof(lines) - 1 - strlen(lines));
}

static void listen(bool on)
{
    if (on)
        lines[0] = '\0';
    ct_log_set_level(on ? CT_LOG_INFO : CT_LOG_NONE);
    ct_log_set_sink(on ? keep_lines : NULL, NULL);
}

static int n_times(const char *what)
{
    int n = 0;

    for (const char *at = lines; (at = strstr(at, what)); at++)
        n++;
    return n;
}

TEST(loss_scale, the_cpu_has_none)
{
    struct ct_solver *s = solver_of(ONE_WEIGHT "base_lr: 0.1 "
                                    "lr_policy: 'fixed'");

    ASSERT_FLOAT(0, scale_of(s), 0);
}

TEST(loss_scale, training_in_fp16_follows_that_in_float32)
{
    struct ct_solver *here  = solver_of(NET("") SOLVER);
    struct ct_solver *there = solver_on(solver_test_gpu(CT_FP16_MIXED),
                                        NET("") SOLVER);

    ASSERT_OK(ct_solver_step(here, 20));
    ASSERT_OK(ct_solver_step(there, 20));
    params_are_near(here, there, 5e-3f);
    ASSERT_FLOAT(4096, scale_of(there), 0);
}

/* dw = w = 2; 2e9 is beyond float16, and so are its halves down to 30517. */
TEST(loss_scale, a_scale_that_is_too_large_is_halved_and_steps_left_out)
{
    static const char text[] =
        "net_param { global_grad_scale: 1e9 "
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 1 dim: 1 } "
        "  data_filler { value: 1 } data_filler { value: 0 } } }"
        "layer { name: 'w' type: 'InnerProduct' bottom: 'x' top: 'y' "
        "  inner_product_param { num_output: 1 bias_term: false "
        "  weight_filler { value: 2 } } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' "
        "  top: 'loss' } } base_lr: 0.1 lr_policy: 'fixed' "
        "snapshot_after_train: false ";
    struct ct_solver *s = solver_on(solver_test_gpu(CT_FP16_MIXED), text);
    struct ct_blob *b   = ct_net_param(ct_solver_net(s), 0)->blob;
    float w;

    listen(true);
    ASSERT_OK(ct_solver_step(s, 1));
    listen(false);
    ASSERT_HAS("Iteration 0: gradients are not finite", lines);
    ASSERT_FLOAT(5e8, scale_of(s), 0);
    ASSERT_OK(ct_blob_get(b, false, &w));
    ASSERT_FLOAT(2, w, 0);
    ASSERT_OK(ct_solver_step(s, 14));
    ASSERT_OK(ct_blob_get(b, false, &w));
    ASSERT_FLOAT(2, w, 0);
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_OK(ct_blob_get(b, false, &w));
    ASSERT_FLOAT(1.8, w, 2e-3);
    ASSERT_FLOAT(1e9 / 32768, scale_of(s), 1);
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_OK(ct_blob_get(b, false, &w));
    ASSERT_FLOAT(1.62, w, 2e-3);
}

TEST(loss_scale, many_good_steps_double_it)
{
    struct ct_solver *s = solver_on(solver_test_gpu(CT_FP16_MIXED), ONE_WEIGHT
        "base_lr: 0.001 lr_policy: 'fixed' snapshot_after_train: false");

    ASSERT_OK(ct_solver_step(s, 999));
    ASSERT_FLOAT(4096, scale_of(s), 0);
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_FLOAT(8192, scale_of(s), 0);
    ASSERT_OK(ct_solver_step(s, 999));
    ASSERT_FLOAT(8192, scale_of(s), 0);
}

static void clips_like_the_cpu(enum ct_precision precision, float tol)
{
    static const char text[] = NET("") SOLVER "clip_gradients: 0.1 ";
    struct ct_solver *there  = solver_on(solver_test_gpu(precision), text);
    struct ct_solver *here   = solver_of(text);
    int n;

    listen(true);
    ASSERT_OK(ct_solver_step(here, 10));
    n = n_times("Gradient clipping: scaling down");
    ASSERT(n > 0);
    listen(true);
    ASSERT_OK(ct_solver_step(there, 10));
    listen(false);
    ASSERT_INT(n, n_times("Gradient clipping: scaling down"));
    params_are_near(here, there, tol);
}

TEST(loss_scale, gradients_are_clipped_on_the_gpu)
{
    clips_like_the_cpu(CT_FP32, 1e-5f);
}

TEST(loss_scale, clipping_sees_gradients_without_their_scale)
{
    clips_like_the_cpu(CT_FP16_MIXED, 2e-3f);
}

TEST(loss_scale, lars_sees_gradients_without_their_scale)
{
    static const char text[] = NET("") SOLVER "type: 'LARS' "
                                              "local_gw_ratio: 0.1 ";
    struct ct_solver *there = solver_on(solver_test_gpu(CT_FP16_MIXED), text);
    struct ct_solver *here  = solver_of(text);

    ASSERT_OK(ct_solver_step(here, 5));
    ASSERT_OK(ct_solver_step(there, 5));
    params_are_near(here, there, 5e-3f);
}

static void resumes(const char *format, const char *suffix)
{
    const struct ct_device *d = solver_test_gpu(CT_FP16_MIXED);
    struct ct_solver *whole, *first, *second;
    char text[4096], path[512];

    snprintf(text, sizeof(text), NET("global_grad_scale: 1e7 ") SOLVER
             "snapshot_prefix: '%s/s' %s", test_folder(), format);
    whole  = solver_on(d, text);
    first  = solver_on(d, text);
    second = solver_on(d, text);
    ASSERT_OK(ct_solver_step(whole, 12));
    ASSERT_OK(ct_solver_step(first, 6));
    ASSERT_OK(ct_solver_snapshot(first));
    snprintf(path, sizeof(path), "%s/s_iter_6.solverstate%s", test_folder(),
             suffix);
    ASSERT_OK(ct_solver_restore(second, path));
    ASSERT_FLOAT(scale_of(first), scale_of(second), 0);
    ASSERT_OK(ct_solver_step(second, 6));
    ASSERT(scale_of(whole) < 1e7f);
    ASSERT_FLOAT(scale_of(whole), scale_of(second), 0);
    params_are_near(whole, second, 0);
}

TEST(loss_scale, a_snapshot_keeps_it)
{
    resumes("", "");
}

TEST(loss_scale, a_snapshot_in_hdf5_keeps_it)
{
    resumes("snapshot_format: HDF5", ".h5");
}
