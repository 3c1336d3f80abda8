/* test_schedule.c - steps of a net of two matrices, worked out by hand.
 *
 * Layers 0 data, 1 ip1 (20 x 10), 2 ip2 (5 x 20), 3 loss; each takes 1 s
 * forward and 2 s backward, so backward of layers 3 2 1 0 ends at 6 8 10 12,
 * and the update takes half a second.  Bucket 0 is 16 riders and ip2 in 112
 * floats, bucket 1 is ip1 in 208. */
#include <string.h>

#include "cortado/solver.h"
#include "dist/bsp/factors.h"
#include "dist/model/predict.h"
#include "testing/test.h"

static const double one[] = { 1, 1, 1, 1 }, two[] = { 2, 2, 2, 2 };

static struct ct_net *net_of(const char *text)
{
    const struct ct_net_options o = { .quiet = true };
    Caffe__NetParameter *p = NULL;
    struct ct_net *net     = NULL;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, text,
                            strlen(text), "test", &p));
    st = ct_net_create(p, &o, &net);
    ct_message_free(p);
    ASSERT_OK(st);
    test_defer((void (*)(void *))ct_net_destroy, net);
    return net;
}

static struct dist_model model(void)
{
    static const char text[] =
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 4 dim: 10 } "
        "  shape { dim: 4 dim: 5 } } }"
        "layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'h' "
        "  inner_product_param { num_output: 20 bias_term: false } }"
        "layer { name: 'ip2' type: 'InnerProduct' bottom: 'h' top: 'y' "
        "  inner_product_param { num_output: 5 bias_term: false } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' "
        "  top: 'loss' }";
    struct ct_net *net = net_of(text);

    ASSERT_INT(16 + 112 + 208, (int64_t)ct_net_arena_count(net));
    return (struct dist_model){ net, one, two, .5, 1 };
}

static struct dist_options options(double alpha, double beta, bool overlap)
{
    return (struct dist_options){
        .machine = { alpha, beta, 0, 1e12, 1, 0, 0 }, .overlap = overlap
    };
}

static double formula(const struct dist_model *m, const struct dist_options *o,
                      enum dist_road road, int size)
{
    struct dist_step s;

    ASSERT_OK(dist_step_formula(m, o, road, size, &s));
    ASSERT_FLOAT(12.5, s.compute, 1e-9);
    return s.seconds;
}

static double simulated(const struct dist_model *m,
                        const struct dist_options *o, enum dist_road road,
                        int size)
{
    struct dist_step s;

    ASSERT_OK(dist_step_simulate(m, o, road, size, 1000000, &s));
    return s.seconds;
}

/* A tree of two sends a bucket once up and once down: 1024 bytes a second
 * make that 1 s and 1.625 s. */
TEST(schedule, what_backward_hides_is_free)
{
    struct dist_model m   = model();
    struct dist_options o = options(0, 1.0 / 1024, true);

    /* Ready at 8 and 10, in at 9 and 11.625; backward ends at 12. */
    ASSERT_FLOAT(12.5, formula(&m, &o, DIST_ROAD_ALLREDUCE, 2), 1e-9);
    /* Four times slower: in at 8 + 4, 12 + 6.5. */
    o.machine.beta *= 4;
    ASSERT_FLOAT(19, formula(&m, &o, DIST_ROAD_ALLREDUCE, 2), 1e-9);
    ASSERT_FLOAT(19, simulated(&m, &o, DIST_ROAD_ALLREDUCE, 2), 1e-9);
    o = options(0, 1.0 / 1024, false);
    ASSERT_FLOAT(12 + 2.625 + .5, formula(&m, &o, DIST_ROAD_ALLREDUCE, 2),
                 1e-9);
}

/* Four ranks, a byte a second.  Buckets of 512 and 832 bytes go through two
 * levels of the tree twice, and 2 3/4 times around the ring. */
TEST(schedule, a_sum_that_is_named_is_the_one_predicted)
{
    struct dist_model m   = model();
    struct dist_options o = options(0, 1, false);

    ASSERT_FLOAT(12.5 + 4 * 1344, formula(&m, &o, DIST_ROAD_ALLREDUCE, 4),
                 1e-9);
    o.reduce = ct_allreduce_find("ring");
    ASSERT_FLOAT(12.5 + 1.5 * 1344, formula(&m, &o, DIST_ROAD_ALLREDUCE, 4),
                 1e-9);
}

TEST(schedule, formula_and_simulation_agree_where_nothing_overlaps)
{
    struct dist_model m = model();

    for (int size = 1; size <= 9; size += 2) {
        struct dist_options o = options(.125, 1.0 / 700, false);

        o.machine.gamma = 1e-3;
        o.bucket_bytes = o.first_bytes = 1 << 20; /* one bucket */
        for (int r = 0; r < DIST_N_ROADS; r++)
            ASSERT_FLOAT(formula(&m, &o, (enum dist_road)r, size),
                         simulated(&m, &o, (enum dist_road)r, size), 1e-9);
    }
}

/* Two workers push 1344 bytes, 1 s each, one after the other through rank
 * 0's link, and pull as long: 10 + 2 + 2, and twice the latency. */
TEST(schedule, a_server_has_one_link_for_all)
{
    struct dist_model m   = model();
    struct dist_options o = options(.25, 1.0 / 1344, true);

    o.bucket_bytes = o.first_bytes = 1 << 20;
    ASSERT_FLOAT(10 + 4.5 + .5, formula(&m, &o, DIST_ROAD_PS, 3), 1e-9);
    ASSERT_FLOAT(10 + 4.5 + .5, simulated(&m, &o, DIST_ROAD_PS, 3), 1e-9);
    /* Two buckets: what goes in need not wait for what comes out. */
    o = options(0, 1.0 / 512, true);
    for (int size = 4; size < 10; size++)
        ASSERT_FLOAT(formula(&m, &o, DIST_ROAD_PS, size),
                     simulated(&m, &o, DIST_ROAD_PS, size), 1e-9);
    /* in: 8 + 3, 11 + 4.875; out: 11 + 3, 15.875 + 4.875 */
    ASSERT_FLOAT(21.25, formula(&m, &o, DIST_ROAD_PS, 4), 1e-9);
    /* in: 8 + 4, 12 + 6.5; out, two copies: 12 + 2, 18.5 + 3.25 */
    ASSERT_FLOAT(22.25, formula(&m, &o, DIST_ROAD_PS, 5), 1e-9);
}

/* ip2's bucket waits for 4 s, in at 12; ip1's is in at 18.5, when layer 1
 * wants it: its forward would begin at 14 (12.5, layer 0 until 13.5). */
TEST(schedule, a_layer_may_wait_for_its_own_parameters_alone)
{
    struct dist_model m   = model();
    struct dist_options o = options(0, 4.0 / 1024, true);

    o.next_forward = true;
    /* Layer 0 runs while ip1 is under way: one second saved, and the half
     * of the update. */
    ASSERT_FLOAT(19 - 1.5, simulated(&m, &o, DIST_ROAD_ALLREDUCE, 2), 1e-9);
}

TEST(schedule, auto_is_never_slower_than_a_fixed_choice)
{
    struct dist_model m = model();

    for (int size = 2; size < 40; size *= 3)
        for (int i = 0; i < 4; i++) {
            struct dist_options o = options(i * 1e-2, i % 2 ? 1e-2 : 1e-4,
                                            true);
            double best;

            o.machine.flops = i < 2 ? 1e12 : 1e3;
            best = fmin(formula(&m, &o, DIST_ROAD_ALLREDUCE, size),
                        formula(&m, &o, DIST_ROAD_FACTORS, size));
            ASSERT(formula(&m, &o, DIST_ROAD_AUTO, size) <= best + 1e-9);
        }
}

/* On a slow link 4 samples of 30 numbers beat 200 weights on two ranks, and
 * lose on forty. */
TEST(schedule, factors_are_chosen_while_they_are_few)
{
    struct dist_model m   = model();
    struct dist_options o = options(0, 1, true);
    int apart[2];

    ASSERT_OK(dist_model_choose(&m, &o, 2, apart));
    ASSERT_INT(0, apart[0]);
    ASSERT_OK(dist_model_choose(&m, &o, 40, apart));
    ASSERT_INT(-1, apart[0]);
}

TEST(schedule, a_forecast_marks_the_best_road)
{
    const struct dist_timing t = { 4, (double *)(uintptr_t)one,
                                   (double *)(uintptr_t)two, .5 };
    struct dist_model m   = model();
    struct dist_options o = options(0, 1.0 / 1024, true);
    struct dist_forecast f[2];
    struct ct_text text = { 0 };

    for (int i = 0; i < 2; i++)
        ASSERT_OK(dist_forecast(&t, m.net, &o, false, 1 + 7 * i, &f[i]));
    ASSERT_FLOAT(1, f[0].speedup[DIST_ROAD_PS], 1e-9);
    ASSERT(f[1].speedup[f[1].best] > f[1].speedup[DIST_ROAD_PS]);
    ASSERT(f[1].best != DIST_ROAD_PS);
    dist_forecast_text(f, 2, &text);
    ASSERT_HAS("1.25e+04*", text.s);
    ct_text_fini(&text);
    text = (struct ct_text){ 0 };
    dist_forecast_json(f, 2, &text);
    ASSERT_HAS("\"ranks\": 8", text.s);
    ct_text_fini(&text);
    /* Of one batch for all, a rank has an eighth. */
    ASSERT_OK(dist_forecast(&t, m.net, &o, true, 8, &f[1]));
    ASSERT_FLOAT(12.0 / 8 + .5, f[1].step[0].compute, 1e-9);
}

/* The ReLU runs as one with the product and writes to a blob of its own, whose
 * gradient is masked there. */
TEST(schedule, factors_of_a_product_and_its_relu_multiply_to_the_gradient)
{
    static const char text[] =
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { data_filler { type: 'gaussian' } "
        "  shape { dim: 4 dim: 10 } shape { dim: 4 dim: 20 } } }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'h' "
        "  inner_product_param { num_output: 20 "
        "  weight_filler { type: 'gaussian' } } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'h' top: 'y' }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'y' bottom: 't' "
        "  top: 'loss' }";
    struct ct_net *net = net_of(text);
    const float *dw    = ct_diff(ct_net_param(net, 0)->blob);
    struct ct_factors f;

    ASSERT_OK(ct_net_clear_diffs(net));
    ASSERT_OK(ct_net_forward(net, NULL));
    ASSERT_OK(ct_net_backward(net));
    ASSERT_INT(ct_net_find_layer(net, "r"), ct_net_group_last(net, 1));
    ASSERT_OK(dist_factors_of(net, 0, &f));
    for (int64_t i = 0; i < 20; i++)
        for (int64_t j = 0; j < 10; j++) {
            double sum = 0;

            for (int64_t r = 0; r < 4; r++)
                sum += (double)f.u[r * 20 + i] * f.v[r * 10 + j];
            ASSERT_FLOAT(sum, dw[i * 10 + j], 1e-5);
        }
}
