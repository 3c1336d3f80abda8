/* test_rules.c - every update rule for a few steps, by hand; gradient = w. */
#include "core/buffer.h"
#include "solver/solver_inner.h"
#include "solver_test.h"

#define FIXED " lr_policy: 'fixed' snapshot_after_train: false "

static void follow(const char *text, int n, const float *want)
{
    struct ct_solver *s = solver_of(text);

    for (int i = 0; i < n; i++) {
        ASSERT_OK(ct_solver_step(s, 1));
        ASSERT_FLOAT(want[i], weight(s), 1e-6);
    }
}

#define FOLLOW(text, ...)                                                    \
    follow(ONE_WEIGHT text,                                                  \
           (int)(sizeof((float[]){ __VA_ARGS__ }) / sizeof(float)),          \
           (const float[]){ __VA_ARGS__ })

TEST(rules, sgd_keeps_the_rate_inside_the_history)
{
    /* h = .2, w = 1.8; h = .5 .2 + .1 1.8 = .28, w = 1.52 */
    FOLLOW("base_lr: 0.1 momentum: 0.5" FIXED, 1.8f, 1.52f, 1.228f);
}

TEST(rules, a_rate_of_zero_leaves_momentum_at_work)
{
    /* h = .2, w = 1.8; then the rate is 0: h = .1, w = 1.7; h = .05 */
    FOLLOW("base_lr: 0.1 momentum: 0.5 lr_policy: 'step' gamma: 0 "
           "stepsize: 1 snapshot_after_train: false", 1.8f, 1.7f, 1.65f);
}

TEST(rules, nesterov_looks_ahead)
{
    /* h = .2, w = 2 - 1.5 .2; h' = .1 + .17, w -= 1.5 .27 - .5 .2 */
    FOLLOW("type: 'Nesterov' base_lr: 0.1 momentum: 0.5" FIXED, 1.7f, 1.395f);
}

TEST(rules, adagrad_divides_by_the_root_of_the_sum)
{
    /* h = 4: w -= .1 2 / 2; h = 4 + 3.61: w -= .1 1.9 / sqrt(7.61) */
    FOLLOW("type: 'AdaGrad' base_lr: 0.1" FIXED, 1.9f, 1.8311249f);
}

TEST(rules, rmsprop_forgets)
{
    /* h = .5 4 = 2: w -= .1 2 / sqrt(2) */
    FOLLOW("type: 'RMSProp' rms_decay: 0.5 base_lr: 0.1" FIXED, 1.8585786f);
}

TEST(rules, adadelta_scales_by_its_own_steps)
{
    /* h = 2, u = 2 sqrt(.02 / 2.02) = .19900744 */
    FOLLOW("type: 'AdaDelta' momentum: 0.5 delta: 0.02 base_lr: 1" FIXED,
           1.8009926f);
}

TEST(rules, adam_corrects_its_start)
{
    /* m = .2, v = .004; rate sqrt(.001) / .1; step .1 .2 .3162278 / (.0632456
     * + 1e-8) = .1 within 1e-7 */
    FOLLOW("type: 'Adam' momentum: 0.9 momentum2: 0.999 base_lr: 0.1" FIXED,
           1.9f, 1.8001662f);
}

TEST(rules, adamw_decays_apart_from_the_gradient)
{
    /* as Adam without decay, then minus .1 .5 2 */
    FOLLOW("type: 'AdamW' momentum: 0.9 momentum2: 0.999 base_lr: 0.1 "
           "weight_decay: 0.5" FIXED, 1.8f);
}

TEST(rules, weight_decay_is_l2_or_l1)
{
    FOLLOW("base_lr: 0.1 weight_decay: 0.5" FIXED, 2 - 0.1f * 3);
    FOLLOW("base_lr: 0.1 weight_decay: 0.5 regularization_type: 'L1'" FIXED,
           2 - 0.1f * 2.5f);
}

TEST(rules, clipping_comes_before_weight_decay)
{
    FOLLOW("base_lr: 0.1 clip_gradients: 0.5 weight_decay: 0.5" FIXED,
           2 - 0.1f * (0.5f + 1));
}

TEST(rules, iter_size_means_the_mean_of_several_passes)
{
    FOLLOW("base_lr: 0.1 iter_size: 4" FIXED, 1.8f, 1.62f);
}

TEST(rules, lars_scales_by_norms)
{
    /* .1 |w| / (|g| + .5 |w|) = .1 / 1.5, times lr 1, times g + .5 w = 3 */
    FOLLOW("base_lr: 1 local_lr_auto: true local_gw_ratio: 0.1 "
           "weight_decay: 0.5" FIXED, 2 - 0.1f / 1.5f * 3);
}

TEST(rules, larc_scales_or_clips_the_rate)
{
    /* local (1 - 0) .1 |w| / |g| = .1 */
    FOLLOW("base_lr: 0.5 larc: true larc_eta: 0.1" FIXED, 2 - 0.05f * 2);
    FOLLOW("base_lr: 0.5 larc: true larc_eta: 0.1 larc_policy: 'clip'" FIXED,
           2 - 0.1f * 2);
    FOLLOW("base_lr: 0.05 larc: true larc_eta: 0.1 larc_policy: 'clip'" FIXED,
           2 - 0.05f * 2);
}

static void rates(const char *text, int n, const double *want)
{
    struct ct_solver *s = solver_of(text);

    for (int i = 0; i < n; i++) {
        float rate = -1;

        ASSERT_OK(ct_solver_rate(s, &rate));
        ASSERT_FLOAT(want[i], rate, 1e-6);
        ASSERT_OK(ct_solver_apply_update(s));
    }
}

#define RATES(text, ...)                                                     \
    rates(ONE_WEIGHT "snapshot_after_train: false " text,                    \
          (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)),         \
          (const double[]){ __VA_ARGS__ })

TEST(rules, every_policy_gives_its_rates)
{
    RATES("base_lr: 1 lr_policy: 'fixed'", 1, 1, 1);
    RATES("base_lr: 1 lr_policy: 'step' gamma: 0.5 stepsize: 2", 1, 1, 0.5,
          0.5, 0.25);
    RATES("base_lr: 1 lr_policy: 'exp' gamma: 0.5", 1, 0.5, 0.25);
    RATES("base_lr: 1 lr_policy: 'inv' gamma: 1 power: 2", 1, 0.25,
          1.0 / 9);
    RATES("base_lr: 1 lr_policy: 'multistep' gamma: 0.1 stepvalue: 1 "
          "stepvalue: 3", 1, 0.1, 0.1, 0.01);
    RATES("base_lr: 1 lr_policy: 'poly' power: 2 max_iter: 4", 1, 0.5625,
          0.25, 0.0625);
    RATES("base_lr: 1 lr_policy: 'poly' power: 1 max_iter: 4 min_lr: 0.2", 1,
          0.8, 0.6, 0.4);
    RATES("base_lr: 1 lr_policy: 'sigmoid' gamma: 1 stepsize: 1",
          1 / (1 + 2.718281828459045), 0.5);
    RATES("base_lr: 1 lr_policy: 'cosine' max_iter: 2", 1, 0.5, 0);
    RATES("base_lr: 1 lr_policy: 'fixed' warmup_iter: 4 warmup_start_lr: 0.2",
          0.2, 0.4, 0.6, 0.8, 1);
    RATES("base_lr: 1 lr_policy: 'fixed' rampup_interval: 2 rampup_lr: 0.2",
          0.2, 0.4, 1);
}

static void refused(const char *text, const char *because)
{
    struct ct_solver *s = NULL;

    ASSERT_STATUS(CT_EINVAL, solver_try(text, &s));
    ASSERT_HAS(because, ct_last_error());
}

TEST(rules, settings_that_make_no_sense_are_refused)
{
    refused(ONE_WEIGHT "base_lr: 1 lr_policy: 'quick'", "quick");
    refused(ONE_WEIGHT "base_lr: 1", "lr_policy");
    refused(ONE_WEIGHT "type: 'AdaGrad' momentum: 0.9" FIXED, "momentum");
    refused(ONE_WEIGHT "type: 'RMSProp' rms_decay: 1" FIXED, "rms_decay");
    refused(ONE_WEIGHT "type: 'Magic'" FIXED, "Magic");
    refused(ONE_WEIGHT "average_loss: 0" FIXED, "average_loss");
    refused(ONE_WEIGHT "iter_size: 0" FIXED, "iter_size");
    refused(ONE_WEIGHT "regularization_type: 'L3'" FIXED, "L3");
    refused(ONE_WEIGHT "test_iter: 3" FIXED, "test_interval");
    refused("base_lr: 1" FIXED, "net");
    refused(ONE_WEIGHT "lr_policy: 'step' base_lr: 1", "stepsize");
}

/* Half of an update in time: momentum sqrt(.81), and .5 .1 / .19 of the rate,
 * so that a gradient that stays leads as far as in whole ones. */
TEST(rules, shares_of_an_update_have_their_part_of_momentum)
{
    const struct ct_solver *s = solver_of(ONE_WEIGHT "base_lr: 0.1 "
                                          "momentum: 0.81" FIXED);
    const struct solver_update with = solver_update_at(s, 0.1f);
    float w = 1, h[64] = { 0 }, *const history[] = { h, NULL };
    const float g = 1, rate = 0.1f * 0.5f * 0.1f / 0.19f;
    const size_t at = ct_net_param(s->net, 0)->offset;
    const struct ct_update_range u = { .first = at, .n = 1, .value = &w,
                                       .sum = &g, .scale = 1,
                                       .share = 0.5f };

    ASSERT(at < 64);
    solver_apply(s, &with, history, &u);
    ASSERT_FLOAT(1 - rate, w, 1e-6);
    solver_apply(s, &with, history, &u);
    ASSERT_FLOAT(1.9f * rate, h[at], 1e-6);
    ASSERT_FLOAT(1 - 2.9f * rate, w, 1e-6);
}

#define FROZEN                                                               \
    "net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "     \
    "  dummy_data_param { shape { dim: 1 dim: 1 } data_filler { value: 1 } " \
    "  data_filler { value: 0 } } }"                                         \
    "layer { name: 'w' type: 'InnerProduct' bottom: 'x' top: 'y' "           \
    "  param { lr_mult: 0 } inner_product_param { num_output: 1 "            \
    "  bias_term: false weight_filler { value: 2 } } }"                      \
    "layer { name: 'v' type: 'InnerProduct' bottom: 'y' top: 'z' "           \
    "  inner_product_param { num_output: 1 bias_term: false "                \
    "  weight_filler { value: 3 } } }"                                       \
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'z' bottom: 't' "       \
    "  top: 'loss' } "

/* After one step at a decay of 0.5: the first history of w, which is frozen. */
static float frozen_history(const char *text)
{
    struct ct_solver *s = solver_of(text);

    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_FLOAT(2, weight(s), 0);
    return s->history[0]->ptr[ct_net_param(s->net, 0)->offset];
}

TEST(rules, histories_of_frozen_parameters_are_caffes)
{
    /* g = .5 2, and with force_backward 18 more: z = 6, dz = 6, dy = 18 */
    const char *const decay = "} base_lr: 0.1 weight_decay: 0.5 " FIXED;
    static const struct {
        const char *rule;
        float       of_decay, of_both;
    } want[] = {
        { "type: 'SGD' momentum: 0.5", 0, 0 },
        { "type: 'Nesterov' momentum: 0.5", 0, 0 },
        { "type: 'AdaGrad'", 1, 361 },
        { "type: 'RMSProp' rms_decay: 0.75", 0.25f, 90.25f },
        { "type: 'AdaDelta' momentum: 0.75 delta: 1e-3", 0.25f, 90.25f },
        { "type: 'Adam' momentum: 0.5", 0.5f, 9.5f },
    };
    char text[2048];

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        snprintf(text, sizeof(text), FROZEN "%s%s", decay, want[i].rule);
        ASSERT_FLOAT(want[i].of_decay, frozen_history(text), 1e-6);
        snprintf(text, sizeof(text), FROZEN "force_backward: true %s%s", decay,
                 want[i].rule);
        ASSERT_FLOAT(want[i].of_both, frozen_history(text), 1e-4);
    }
}

/* As a snapshot of a time when they were not frozen leaves it. */
TEST(rules, momentum_moves_no_frozen_parameter)
{
    struct ct_solver *s = solver_of(FROZEN "} base_lr: 0.1 momentum: 0.5 "
                                    "type: 'SGD' " FIXED);

    s->history[0]->ptr[ct_net_param(s->net, 0)->offset] = 1;
    ASSERT_OK(ct_solver_step(s, 2));
    ASSERT_FLOAT(2, weight(s), 0);
}

TEST(rules, a_norm_that_clips_has_every_gradient_that_is_made)
{
    /* dv = 6 2 = 12, dw = 18: all of 1 is v's, or 12 / sqrt(144 + 324). */
    const char *const clip = "} base_lr: 0.1 clip_gradients: 1" FIXED;
    char text[2048];

    for (int force = 0; force < 2; force++) {
        struct ct_solver *s;

        snprintf(text, sizeof(text), FROZEN "%s%s",
                 force ? "force_backward: true " : "", clip);
        s = solver_of(text);
        ASSERT_OK(ct_solver_step(s, 1));
        ASSERT_FLOAT(2, weight(s), 0);
        ASSERT_FLOAT(force ? 3 - 0.05547002f : 2.9f,
                     ct_data(ct_net_param(s->net, 1)->blob)[0], 1e-6);
    }
}
