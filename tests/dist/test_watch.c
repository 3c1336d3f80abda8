/* test_watch.c - a rank that keeps others waiting is named, with what it is
 * at; so is one of another host, which tells of itself in messages. */
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/pulse.h"
#include "cortado/log.h"
#include "dist/ranks.h"

struct waiter {
    struct ct_transport *transport;
    struct ct_dist      *dist;
    double               stall;
    void               (*before)(struct ct_pulse *p); /* coming to the sum */
    enum ct_status       st;
    char                 why[512];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char noted[1 << 14];
static bool failed; /* a rank has given up */

static void note(enum ct_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    pthread_mutex_lock(&lock);
    strncat(noted, line, sizeof(noted) - 1 - strlen(noted));
    pthread_mutex_unlock(&lock);
}

/* A moment later: is it in the log, or has a rank given up? */
static bool soon(const char *what)
{
    const struct timespec t = { 0, 20000000 };
    bool yes;

    nanosleep(&t, NULL);
    pthread_mutex_lock(&lock);
    yes = failed || (what && strstr(noted, what));
    pthread_mutex_unlock(&lock);
    return yes;
}

static void until_named(struct ct_pulse *p)
{
    ct_pulse_iter(p, 41);
    ct_pulse_set(p, CT_PULSE_BACKWARD,
                 "conv_with_a_name_of_more_than_40_letters_in_it");
    while (!soon("iteration 41"))
        ;
}

static void until_it_fails(struct ct_pulse *p)
{
    ct_pulse_iter(p, 41);
    ct_pulse_set(p, CT_PULSE_BACKWARD, "conv1");
    while (!soon(NULL))
        ;
}

/* Longer than a stall, and never at rest. */
static void move_on(struct ct_pulse *p)
{
    double end = ct_now() + 4;

    while (ct_now() < end && !soon(NULL))
        ct_pulse_set(p, CT_PULSE_TEST, "conv2");
}

static void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    float x          = 1;
    Caffe__DistributedParameter p = CAFFE__DISTRIBUTED_PARAMETER__INIT;

    p.has_stall = p.has_heartbeat = true;
    p.stall     = w->stall;
    p.heartbeat = 0.3;
    w->st       = dist_create_over(w->transport, &p, &w->dist);
    if (w->st == CT_OK && w->before)
        w->before(ct_dist_exchange(w->dist)->pulse);
    if (w->st == CT_OK)
        w->st = ct_dist_sum(w->dist, &x, 1);
    if (w->st != CT_OK) {
        snprintf(w->why, sizeof(w->why), "%s", ct_last_error());
        pthread_mutex_lock(&lock);
        failed = true;
        pthread_mutex_unlock(&lock);
        ct_dist_abort(w->dist, 1);
    }
    ct_dist_destroy(w->dist);
    return NULL;
}

/* Three ranks meet; rank 2 does something else before. */
static void wait_for_rank_2(struct waiter *w, const int *host, double stall,
                            void (*before)(struct ct_pulse *p))
{
    const struct ct_loopback_options loop = { .host = host };
    struct ct_transport *t[3];
    pthread_t thread[3];

    noted[0] = '\0';
    failed   = false;
    ct_log_set_sink(note, NULL);
    ct_log_set_level(CT_LOG_WARNING);
    ASSERT_OK(ct_loopback_create(3, &loop, t));
    for (int r = 0; r < 3; r++) {
        w[r] = (struct waiter){ .transport = t[r], .stall = stall,
                                .before = r == 2 ? before : NULL };
        pthread_create(&thread[r], NULL, waiter_main, &w[r]);
    }
    for (int r = 0; r < 3; r++)
        pthread_join(thread[r], NULL);
    ct_log_set_level(CT_LOG_NONE);
    ct_log_set_sink(NULL, NULL);
}

TEST(watch, a_rank_that_is_waited_for_is_named_with_its_layer)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 100, until_named);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("for rank 2 (pid ", noted);
    ASSERT_HAS("iteration 41, backward of layer conv_with_a_name", noted);
}

/* Its pulse cannot be mapped, so it comes in messages. */
TEST(watch, a_rank_of_another_host_tells_of_itself)
{
    static const int host[] = { 0, 0, 1 };
    struct waiter w[3];

    wait_for_rank_2(w, host, 100, until_named);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("for rank 2 (pid ", noted);
    ASSERT_HAS("iteration 41, backward of layer conv_with_a_name", noted);
}

TEST(watch, a_stall_ends_the_job_with_that_text)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 1, until_it_fails);
    for (int r = 0; r < 3; r++)
        ASSERT_STATUS(CT_ECOMM, w[r].st);
    ASSERT_HAS("for rank 2 (pid ", w[0].why);
    ASSERT_HAS("iteration 41, backward of layer conv1", w[0].why);
}

TEST(watch, a_rank_that_moves_on_is_waited_for)
{
    struct waiter w[3];

    wait_for_rank_2(w, NULL, 3, move_on);
    for (int r = 0; r < 3; r++)
        ASSERT_OK(w[r].st);
    ASSERT_HAS("test of layer conv2", noted);
}
