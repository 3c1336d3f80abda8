/* test_plot.c - training logs read into curves, and curves drawn. */
#include "base/text.h"
#include "observe/plot.h"
#include "testing/test.h"

#define GLOG "I1115 05:20:02.123456  1234 solver.cpp:218] "

static const char short_log[] =
    GLOG "Creating training net from net file: a.prototxt\n"
    GLOG "Iteration 0, Testing net (#0)\n"
    GLOG "    Test net output #0: accuracy = 0.125\n"
    GLOG "    Test net output #1: loss = 2.5 (* 1 = 2.5 loss)\n"
    GLOG "Iteration 0 (-1.4013e-45 iter/s, 0.1s/10 iters), loss = 2.25\n"
    GLOG "    Train net output #0: loss = 2.375 (* 1 = 2.375 loss)\n"
    GLOG "Iteration 0, lr = 0.01\n"
    GLOG "Iteration 10 (50 iter/s, 0.2s/10 iters), loss = 1.5\n"
    GLOG "Iteration 20, Testing net (#0)\n"
    GLOG "    Test net output #0: accuracy = 0.75\n"
    GLOG "    Test net output #1: loss = 0.5 (* 1 = 0.5 loss)\n"
    GLOG "Iteration 20, loss = 0.0625";

static struct ct_training_log read_log(const char *text)
{
    struct ct_training_log log = { .n_curves = 0 };

    ASSERT_OK(ct_training_log_read(&log, text));
    return log;
}

TEST(plot, a_log_gives_training_loss_test_loss_and_score)
{
    struct ct_training_log log = read_log(short_log);
    const struct ct_curve *train = ct_training_log_find(&log, "training loss");
    const struct ct_curve *loss  = ct_training_log_find(&log, "test loss");
    const struct ct_curve *score = ct_training_log_find(&log, "accuracy");

    ASSERT_INT(3, log.n_curves);
    ASSERT(train && loss && score);
    ASSERT_INT(CT_CURVE_TRAIN_LOSS, train->kind);
    ASSERT_INT(CT_CURVE_TEST_LOSS, loss->kind);
    ASSERT_INT(CT_CURVE_SCORE, score->kind);
    ASSERT_INT(3, train->n);
    ASSERT_INT(10, train->x[1]);
    ASSERT_FLOAT(1.5, train->y[1], 0);
    ASSERT_FLOAT(.0625, train->y[2], 0);
    ASSERT_INT(2, score->n);
    ASSERT_INT(20, score->x[1]);
    ASSERT_FLOAT(.75, score->y[1], 0);
    ASSERT_FLOAT(.5, loss->y[1], 0);
    ct_training_log_fini(&log);
}

TEST(plot, a_resumed_run_replaces_what_came_after_its_snapshot)
{
    struct ct_training_log log = read_log("] Iteration 0, loss = 4\n"
                                          "] Iteration 10, loss = 3\n"
                                          "] Iteration 20, loss = 2\n"
                                          "] Iteration 10, loss = 2.5\n");

    ASSERT_INT(2, log.curve[0].n);
    ASSERT_FLOAT(2.5, log.curve[0].y[1], 0);
    ct_training_log_fini(&log);
}

TEST(plot, test_nets_and_outputs_keep_apart)
{
    struct ct_training_log log =
        read_log("] Iteration 5, Testing net (#0)\n"
                 "]     Test net output #0: top-1 = 0.5\n"
                 "]     Test net output #1: top-5 = 0.75\n"
                 "] Iteration 5, Testing net (#1)\n"
                 "]     Test net output #0: top-1 = 0.25\n");

    ASSERT_INT(3, log.n_curves);
    ASSERT_FLOAT(.5, ct_training_log_find(&log, "top-1")->y[0], 0);
    ASSERT_FLOAT(.25, ct_training_log_find(&log, "top-1 (net 1)")->y[0], 0);
    ct_training_log_fini(&log);
}

TEST(plot, broken_lines_and_values_that_are_not_finite_are_passed_over)
{
    struct ct_training_log log =
        read_log("] Iteration\n] Iteration x, loss = 1\n] Iteration 1, loss\n"
                 "] Iteration 2, loss = \n] Iteration 3, loss = nan\n"
                 "] Test net output #\n] Test net output #0: a\n"
                 "] Test net output #0: a = \n] Iteration 4, loss = 1\n");

    ASSERT_INT(1, log.n_curves);
    ASSERT_INT(1, log.curve[0].n);
    ASSERT_INT(4, log.curve[0].x[0]);
    ct_training_log_fini(&log);
}

TEST(plot, the_picture_has_the_points_where_they_belong)
{
    struct ct_training_log log = read_log(short_log);
    struct ct_text svg         = { 0 };

    ASSERT_OK(ct_plot_log(&log, "<LeNet> & digits", &svg));
    ASSERT_HAS("&lt;LeNet> &amp; digits", svg.s);
    ASSERT_HAS("loss (logarithmic)", svg.s); /* 2.5 / 0.0625 is over 20 */
    ASSERT_HAS("accuracy <tspan class='b'>75%</tspan>", svg.s);
    /* From 0 to 80 %: 12.5 % and 75 % of 338 pixels above the bottom, 426;
     * iterations 0 and 20 at the frame's sides. */
    ASSERT_HAS("M76.0 373.2L786.0 109.1'", svg.s);
    ASSERT_HAS("</svg>\n", svg.s);
    ct_text_fini(&svg);
    ct_training_log_fini(&log);
}

TEST(plot, one_point_is_enough_and_none_is_refused)
{
    struct ct_training_log log = read_log("] Iteration 7, loss = 1\n");
    struct ct_text svg         = { 0 };

    ASSERT_OK(ct_plot_log(&log, "one", &svg));
    ASSERT(!strstr(svg.s, "nan") && !strstr(svg.s, "inf"));
    ct_text_fini(&svg);
    ct_training_log_fini(&log);
    log = read_log("a diary\n");
    ASSERT_STATUS(CT_EINVAL, ct_plot_log(&log, "none", &svg));
    ASSERT_HAS("training log", ct_last_error());
    ct_text_fini(&svg);
}

/* On logarithmic axes 1, 10 and 100 stand at equal distances: the middle one
 * in the middle between 76 and 786. */
TEST(plot, any_curves_can_be_drawn_on_logarithmic_axes)
{
    static const double x[] = { 1, 10, 100 }, y[] = { 1, 5, 40 };
    const struct ct_chart_line line[] = { { "up", x, y, 3 },
                                          { "a<b", x, x, 3 } };
    struct ct_chart chart = { "t", "ranks", "speed-up", true, line, 2 };
    struct ct_text svg = { 0 };

    ASSERT_OK(ct_plot_chart(&chart, &svg));
    ASSERT_HAS(">ranks<", svg.s);
    ASSERT_HAS("speed-up (logarithmic)", svg.s);
    ASSERT_HAS(">a&lt;b <", svg.s);
    ASSERT_HAS("L431.0 ", svg.s);
    ASSERT_HAS("L786.0 ", svg.s);
    ct_text_fini(&svg);
    chart.n_lines = 0;
    svg           = (struct ct_text){ 0 };
    ASSERT_STATUS(CT_EINVAL, ct_plot_chart(&chart, &svg));
    ct_text_fini(&svg);
}
