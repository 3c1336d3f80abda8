/* test_detect.c - average precision, worked out by hand. */
#include "solver/detect.h"

#include "cortado/log.h"
#include "solver_test.h"

/* Detections best first: `text` has r for right, w for wrong. */
static double ap(const char *version, const char *text, int n_truths)
{
    struct ct_detection best[16] = { 0 };
    const int n                  = (int)strlen(text);

    for (int i = 0; i < n; i++)
        best[i].right = text[i] == 'r';
    return ct_average_precision(version, n, best, n_truths);
}

/* rwr of 3: precision 1, 1/2, 2/3 at recall 1/3, 1/3, 2/3.
 * wrr of 3: precision 0, 1/2, 2/3 at recall 0, 1/3, 2/3. */
TEST(detect, each_version_has_its_own_area)
{
    ASSERT_FLOAT((1 + 2.0 / 3) / 3, ap("Integral", "rwr", 3), 1e-9);
    ASSERT_FLOAT((1 + 2.0 / 3) / 3, ap("MaxIntegral", "rwr", 3), 1e-9);
    ASSERT_FLOAT((4 + 3 * 2.0 / 3) / 11, ap("11point", "rwr", 3), 1e-9);
    ASSERT_FLOAT((.5 + 2.0 / 3) / 3, ap("Integral", "wrr", 3), 1e-9);
    ASSERT_FLOAT(4.0 / 9, ap("MaxIntegral", "wrr", 3), 1e-9);
    ASSERT_FLOAT(7 * 2.0 / 3 / 11, ap("11point", "wrr", 3), 1e-9);
}

TEST(detect, all_or_nothing)
{
    static const char *const version[] = { "Integral", "MaxIntegral",
                                           "11point" };

    for (int i = 0; i < 3; i++) {
        ASSERT_FLOAT(1, ap(version[i], "rrrr", 4), 1e-9);
        ASSERT_FLOAT(0, ap(version[i], "ww", 4), 0);
        ASSERT_FLOAT(0, ap(version[i], "", 4), 0);
        ASSERT_FLOAT(0, ap(version[i], "ww", 0), 0);
    }
}

/* As ct_detections_run() leaves them: class 1 has two truths in two batches
 * and one right detection, class 2 a truth and nothing found, class 3 a truth
 * that was found. */
TEST(detect, the_mean_is_over_classes_and_output_by_output)
{
    struct ct_detection at[] = {
        { .score = 3, .output = -1 },
        { .score = 5, .output = -1, .batch = 1 },
        { .label = 1, .right = -1, .n_truths = 1 },
        { .label = 1, .right = -1, .n_truths = 1, .batch = 1 },
        { .label = 1, .right = 1, .score = .9 },
        { .label = 2, .right = -1, .n_truths = 1 },
        { .label = 3, .right = -1, .n_truths = 1 },
        { .label = 3, .right = 1, .score = .1 },
        { .label = 9, .right = 0, .score = .1 },
        { .output = 1, .label = 1, .right = -1, .n_truths = 1 },
        { .output = 1, .label = 1, .right = 1, .score = .2 },
    };
    struct ct_detections d = { at, sizeof(at) / sizeof(at[0]), 0 };

    ASSERT_FLOAT((.5 + 0 + 1) / 3, ct_detections_map(&d, 0, "Integral", false),
                 1e-9);
    ASSERT_FLOAT(1, ct_detections_map(&d, 1, "Integral", false), 1e-9);
    ASSERT_FLOAT(4, ct_detections_loss(&d), 1e-9);
}

TEST(detect, words_that_nobody_knows_are_refused)
{
    struct ct_solver *s = NULL;

    ASSERT_STATUS(CT_EINVAL, solver_try(ONE_WEIGHT "base_lr: 1 "
        "lr_policy: 'fixed' eval_type: 'segmentation'", &s));
    ASSERT_HAS("eval_type is \"segmentation\"", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, solver_try(ONE_WEIGHT "base_lr: 1 "
        "lr_policy: 'fixed' ap_version: '12point'", &s));
    ASSERT_HAS("11point, MaxIntegral or Integral", ct_last_error());
}

/* Every output must be a DetectionEvaluate's. */
TEST(detect, other_outputs_are_refused_by_name)
{
    struct ct_solver *s = solver_of(ONE_WEIGHT "base_lr: 1 lr_policy: 'fixed' "
        "test_iter: 1 test_interval: 1 eval_type: 'detection' "
        "snapshot_after_train: false");

    ASSERT_STATUS(CT_EINVAL, ct_solver_test_all(s));
    ASSERT_HAS("output loss is not that of a DetectionEvaluate",
               ct_last_error());
}
