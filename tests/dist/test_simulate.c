/* test_simulate.c - small cases worked out by hand. */
#include "dist/model/simulate.h"
#include "testing/test.h"

static struct sim *fresh(void)
{
    struct sim *s = NULL;

    ASSERT_OK(sim_create(&s));
    test_defer((void (*)(void *))sim_destroy, s);
    return s;
}

TEST(simulate, a_resource_does_one_thing_at_a_time)
{
    struct sim *s = fresh();
    int r = sim_resource(s), a = sim_task(s, 2, 0, r, -1);
    int b = sim_task(s, 3, 0, r, -1), c = sim_task(s, 5, 0, -1, -1);

    ASSERT_OK(sim_run(s));
    ASSERT_FLOAT(2, sim_end(s, a), 0);
    ASSERT_FLOAT(2, sim_start(s, b), 0);
    ASSERT_FLOAT(5, sim_end(s, b), 0);
    ASSERT_FLOAT(5, sim_end(s, c), 0);
}

TEST(simulate, a_task_waits_for_those_before_it_and_their_delays)
{
    struct sim *s = fresh();
    int a = sim_task(s, 1, 4, -1, -1), b = sim_task(s, 3, 0, -1, -1);
    int c = sim_task(s, 1, 0, -1, -1);

    sim_after(s, c, a);
    sim_after(s, c, b);
    ASSERT_OK(sim_run(s));
    ASSERT_FLOAT(5, sim_start(s, c), 0); /* a ends at 1, and 4 more */
    ASSERT_FLOAT(6, sim_end(s, c), 0);
}

/* Two workers send 2 s each into one link; the third task needs only the
 * second worker's own link, and passes by. */
TEST(simulate, who_cannot_start_lets_the_next_one_pass)
{
    struct sim *s = fresh();
    int in = sim_resource(s), w1 = sim_resource(s), w2 = sim_resource(s);
    int a = sim_task(s, 2, 0, in, w1), b = sim_task(s, 2, 0, in, w2);
    int c = sim_task(s, 1, 0, w2, -1), d = sim_task(s, 1, 0, w1, -1);

    ASSERT_OK(sim_run(s));
    ASSERT_FLOAT(0, sim_start(s, a), 0);
    ASSERT_FLOAT(0, sim_start(s, c), 0);
    ASSERT_FLOAT(2, sim_start(s, b), 0);
    ASSERT_FLOAT(2, sim_start(s, d), 0);
}

TEST(simulate, who_comes_first_goes_first)
{
    struct sim *s = fresh();
    int r = sim_resource(s), first = sim_task(s, 4, 0, r, -1);
    int early = sim_task(s, 1, 0, -1, -1), late = sim_task(s, 2, 0, -1, -1);
    int b = sim_task(s, 1, 0, r, -1), a = sim_task(s, 1, 0, r, -1);

    sim_after(s, b, late);  /* added first, comes second */
    sim_after(s, a, early);
    ASSERT_OK(sim_run(s));
    ASSERT_FLOAT(4, sim_end(s, first), 0);
    ASSERT_FLOAT(4, sim_start(s, a), 0);
    ASSERT_FLOAT(5, sim_start(s, b), 0);
}

TEST(simulate, a_circle_is_refused)
{
    struct sim *s = fresh();
    int a = sim_task(s, 1, 0, -1, -1), b = sim_task(s, 1, 0, -1, -1);

    sim_task(s, 1, 0, -1, -1);
    sim_after(s, a, b);
    sim_after(s, b, a);
    ASSERT_STATUS(CT_EINVAL, sim_run(s));
    ASSERT_HAS("2 of 3", ct_last_error());
}

TEST(simulate, an_urgent_task_overtakes_those_that_wait)
{
    struct sim *s = fresh();
    int link = sim_resource(s), first = sim_task(s, 2, 0, link, -1);
    int late = sim_task(s, 1, 0, -1, -1), waits[2], urgent;

    for (int i = 0; i < 2; i++) {
        waits[i] = sim_task(s, 2, 0, link, -1);
        sim_urgency(s, waits[i], 5);
    }
    urgent = sim_task(s, 1, 0, link, -1);
    sim_urgency(s, urgent, 1);
    sim_after(s, urgent, late);
    ASSERT_OK(sim_run(s));
    ASSERT_FLOAT(2, sim_end(s, first), 0);
    ASSERT_FLOAT(2, sim_start(s, urgent), 0);
    ASSERT_FLOAT(3, sim_start(s, waits[0]), 0);
    ASSERT_FLOAT(5, sim_start(s, waits[1]), 0);
}
