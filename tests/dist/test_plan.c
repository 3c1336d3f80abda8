/* test_plan.c - what one rank takes, as the forecasts of `cortado plan` begin
 * with it. */
#include "base/mem.h"
#include "dist/model/predict.h"
#include "dist/ranks.h"

static double sum_of(const struct dist_timing *t)
{
    double sum = t->update;

    for (int l = 0; l < t->n_layers; l++)
        sum += t->forward[l] + t->backward[l];
    return sum;
}

/* Watched layers may take longer together than a step does, or less. */
TEST(plan, layers_are_made_to_fit_a_whole_step)
{
    static const double whole[] = { 5, 20 };

    for (int i = 0; i < 2; i++) {
        double forward[] = { 1, 2 }, backward[] = { 3, 3 };
        struct dist_timing t = { 2, forward, backward, 1 };

        dist_timing_fit(&t, whole[i]);
        ASSERT_FLOAT(whole[i], sum_of(&t), 1e-9);
        ASSERT_FLOAT(0.3 * whole[i], backward[1], 1e-9);
        ASSERT_FLOAT(0.1 * whole[i], t.update, 1e-9);
    }
}

/* Half of the steps are watched, and no one is afterwards. */
TEST(plan, every_layer_is_timed)
{
    const struct ct_solver_options o = { .device = test_device() };
    Caffe__SolverParameter *p;
    struct dist_timing t;
    struct ct_solver *s;

    ranks_make_data();
    p = ranks_solver(1, "");
    ASSERT_OK(ct_solver_create(p, &o, &s));
    ct_message_free(p);
    ASSERT_OK(dist_timing_take(s, 3, &t));
    ASSERT_INT(2 * (2 + 3), ct_solver_iter(s));
    ASSERT_INT(ct_net_n_layers(ct_solver_net(s)), t.n_layers);
    for (int l = 1; l < t.n_layers; l++)
        ASSERT(t.forward[l] > 0 && t.backward[l] > 0);
    dist_timing_fini(&t);
    ct_solver_destroy(s);
}
