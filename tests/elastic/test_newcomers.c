/* test_newcomers.c - who stays of those that came together, by hand. */
#include "elastic/newcomers.h"
#include "testing/test.h"

static int n_said; /* messages to others */

static void count(void *arg, uint64_t to, const struct elastic_message *m)
{
    (void)arg;
    (void)to;
    n_said += m->kind == ELASTIC_LEAVE;
}

/* Member `me` of a view of n, of whom the first n_full had parameters. */
static void place(struct elastic_agreement *a, uint64_t me, int n, int n_full,
                  struct elastic_view *v)
{
    struct elastic_message install = { .kind = ELASTIC_INSTALL, .view = 7 };

    *v = (struct elastic_view){ .number = 7, .n = n, .n_full = n_full,
                                .base = 3 };
    for (int r = 0; r < n; r++)
        v->id[r] = (uint64_t)r + 1;
    install.next = *v;
    elastic_init(a, me, count, NULL);
    elastic_receive(a, 1, &install);
    ASSERT_INT((int)me - 1, a->rank);
    n_said = 0;
}

/* Of a view in which it cannot train; *leaves: it asks to leave that one. */
static bool steps_back(uint64_t me, int n, int n_full, int least, bool *leaves)
{
    static struct elastic_agreement a;
    struct elastic_view v;
    bool yes;

    place(&a, me, n, n_full, &v);
    a.least = least;
    yes     = newcomers_step_back(&a, &v);
    *leaves = a.leaves;
    ASSERT_INT(*leaves, n_said > 0);
    return yes;
}

TEST(newcomers, the_first_stays_and_those_behind_it_leave)
{
    bool leaves;

    ASSERT(!steps_back(3, 3, 2, 1, &leaves)); /* alone: it is meant */
    ASSERT(steps_back(3, 4, 2, 1, &leaves));
    ASSERT(!leaves);
    ASSERT(steps_back(4, 4, 2, 1, &leaves));
    ASSERT(leaves);
    ASSERT(steps_back(4, 5, 2, 4, &leaves)); /* the job needs four */
    ASSERT(!leaves);
    ASSERT(steps_back(5, 5, 2, 4, &leaves));
    ASSERT(leaves);
    ASSERT(!steps_back(4, 4, 0, 1, &leaves)); /* nobody has parameters */
}

/* Who has trained in this job does not fit any more, whatever came since. */
TEST(newcomers, who_trains_is_none)
{
    static struct elastic_agreement a;
    struct elastic_message install = { .kind = ELASTIC_INSTALL, .view = 8 };
    struct elastic_view v;

    place(&a, 3, 4, 2, &v);
    ASSERT(elastic_ready(&a, 3));
    ASSERT(!newcomers_step_back(&a, &v));
    install.next        = v;
    install.next.number = 8;
    install.next.n_full = 3;
    elastic_receive(&a, 1, &install);
    ASSERT_INT(2, a.rank);
    ASSERT(!newcomers_step_back(&a, &v));
    ASSERT(!a.leaves);
}
