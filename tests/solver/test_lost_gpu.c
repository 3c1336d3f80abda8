/* test_lost_gpu.c - a GPU that fails in the middle of training.
 *
 * The fault stays with the process, so this runs only where
 * CORTADO_TEST_LOST_GPU is set, and by itself: tests/gpu/run does so. */
#include <stdlib.h>
#include <unistd.h>

#include "solver_test.h"

TEST(lost_gpu, the_error_names_rank_layer_and_gpu_and_snapshots_stay)
{
    const struct ct_device *d  = NULL;
    struct ct_solver_options o = { .rank = 0 };
    Caffe__SolverParameter *p  = NULL;
    Caffe__NetParameter *model = NULL;
    struct ct_solver *s        = NULL;
    char text[4096], path[512];

    if (!getenv("CORTADO_TEST_LOST_GPU"))
        test_skip("CORTADO_TEST_LOST_GPU is not set");
    ASSERT_OK(ct_device_cuda_open(0, CT_FP32, &d));
    snprintf(text, sizeof(text), ONE_WEIGHT "base_lr: 0.1 lr_policy: 'fixed' "
             "snapshot_prefix: '%s/s' snapshot: 4", test_folder());
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    o.device = d;
    ASSERT_OK(ct_solver_create(p, &o, &s));
    ct_message_free(p);
    ASSERT_OK(ct_solver_step(s, 5));
    /* Memory that is nobody's. */
    ASSERT_OK(ct_fill(d, 1 << 20, 1, (float *)(uintptr_t)64));
    ASSERT_STATUS(CT_EDEVICE, ct_solver_step(s, 5));
    ASSERT_HAS("rank 0", ct_last_error());
    ASSERT_HAS("GPU 0", ct_last_error());
    ASSERT_HAS("layer", ct_last_error());
    ct_solver_destroy(s);
    ct_device_close(d);
    snprintf(path, sizeof(path), "%s/s_iter_4.caffemodel", test_folder());
    ASSERT_OK(ct_net_param_read_binary(path, &model));
    ct_message_free(model);
}
