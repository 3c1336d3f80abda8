/* test_wait.c - what peers see of a rank whose threads both wait. */
#include "base/clock.h"
#include "base/pulse.h"
#include "comm/transport/transports.h"
#include "comm/wait.h"
#include "testing/test.h"

/* Long enough that it is told of. */
static void wait_a_while(struct ct_wait *w)
{
    const double end = ct_now() + 0.02;

    while (ct_now() < end)
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
