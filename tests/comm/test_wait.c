/* test_wait.c - what peers see of a rank whose threads both wait. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/pulse.h"
#include "comm/transport/transports.h"
#include "comm/wait.h"
#include "testing/test.h"

/* Long enough that it is told of, by a look that comes after that time. */
static void wait_a_while(struct ct_wait *w)
{
    while (ct_now() - w->start < 0.02)
        ASSERT_OK(ct_wait_on(w));
    ASSERT_OK(ct_wait_on(w));
}

TEST(wait, a_wait_that_ends_hides_no_other_threads)
{
    struct ct_pulse pulse;
    struct ct_transport *t = NULL;
    struct ct_comm *c      = NULL;
    struct ct_wait compute, comm;

    ASSERT_OK(ct_transport_alone.create(&t));
    ASSERT_OK(ct_comm_create(t, &c));
    ct_pulse_init(&pulse);
    c->pulse = &pulse;
    compute  = (struct ct_wait){ .comm = c, .peer = 3 };
    comm     = (struct ct_wait){ .comm = c, .peer = 1, .owner = true };
    ct_wait_begin(&compute);
    wait_a_while(&compute);
    ct_wait_begin(&comm);
    wait_a_while(&comm);
    ASSERT_INT(3, ct_pulse_view(&pulse).peer);
    (void)ct_wait_end(&comm);
    ASSERT(ct_pulse_view(&pulse).waiting > 0);
    ASSERT_INT(3, ct_pulse_view(&pulse).peer);
    (void)ct_wait_end(&compute);
    ASSERT(ct_pulse_view(&pulse).waiting == 0);
    ct_comm_destroy(c);
}

/* ---- Two threads on one core. */

static atomic_bool stop;

static void *compute(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop))
        ;
    return NULL;
}

static void count_nap(void *arg)
{
    ++*(int *)arg;
}

/* The core that this thread is on; both stay there. */
static void stay_here(cpu_set_t *before)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    ASSERT_INT(0, sched_getaffinity(0, sizeof(*before), before));
    ASSERT_INT(0, sched_setaffinity(0, sizeof(here), &here));
}

/* It would wait by yields for ever. */
TEST(wait, who_shares_its_core_naps)
{
    const double end       = ct_now() + 60;
    struct ct_transport *t = NULL;
    struct ct_comm *c      = NULL;
    int n_naps             = 0;
    struct ct_wait w;
    cpu_set_t before;
    pthread_t other;

    ASSERT_OK(ct_transport_alone.create(&t));
    ASSERT_OK(ct_comm_create(t, &c));
    w = (struct ct_wait){ .comm = c, .peer = 1, .own = true,
                          .pace = { .yield_s = 1e9 }, .sleep = count_nap,
                          .arg = &n_naps };
    stay_here(&before);
    atomic_store(&stop, false);
    ASSERT_INT(0, pthread_create(&other, NULL, compute, NULL));
    ct_wait_begin(&w);
    while (n_naps == 0 && ct_now() < end)
        ASSERT_OK(ct_wait_on(&w));
    (void)ct_wait_end(&w);
    atomic_store(&stop, true);
    pthread_join(other, NULL);
    ASSERT_INT(0, sched_setaffinity(0, sizeof(before), &before));
    ASSERT_INT(1, n_naps);
    ct_comm_destroy(c);
}
