/* test_whereabouts.c - how `cortado launch` knows the job of its agents. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "elastic/member_test.h"

#include "../../apps/whereabouts.h"

/* The first agent was lost before launch had asked for its job, and one that
 * came in its place has not started a rank. */
TEST(whereabouts, an_agent_that_was_lost_says_which_job_it_is)
{
    struct member_config c       = usual(true, 1);
    static struct hosts hosts    = { .n = 1 };
    static struct whereabouts w;
    struct elastic_place p       = { 0 };
    struct ct_text line          = { 0 };
    uint16_t port                = 0;
    struct elastic_member *m;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    w = (struct whereabouts){ .hosts = &hosts, .key = secret,
                              .all_here = true };
    where_put_line(&w, 0, &line);
    ASSERT(!line.failed);
    ASSERT_INT(1, sscanf(line.s, "%*s %" SCNx64, &c.agent));
    m = make_like(c, &port, true);
    ASSERT_OK(member_asks(m)->next(member_asks(m)->arg, &p));
    ASSERT_OK(member_begin(m, 0));
    w.agent[0].port = ntohs(port);
    where_put_line(&w, 0, &line);
    ASSERT(w.agent[0].number != c.agent);
    ASSERT_OK(where_end_job(&w));
    ASSERT(member_ends_job(m));
    ct_text_fini(&line);
    member_destroy(m);
}

/* It has the same secret, and the port of an agent that was lost. */
TEST(whereabouts, another_job_is_no_answer)
{
    struct member_config c       = usual(true, 1);
    static struct hosts hosts    = { .n = 1 };
    static struct whereabouts w;
    struct elastic_place p       = { 0 };
    struct ct_text line          = { 0 };
    uint16_t port                = 0;
    struct elastic_member *m;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    w = (struct whereabouts){ .hosts = &hosts, .key = secret,
                              .all_here = true };
    where_put_line(&w, 0, &line);
    ct_text_fini(&line);
    c.agent = w.agent[0].number ^ (uint64_t)1 << 63;
    m       = make_like(c, &port, true);
    ASSERT_OK(member_asks(m)->next(member_asks(m)->arg, &p));
    ASSERT_OK(member_begin(m, 0));
    w.agent[0].port = ntohs(port);
    ASSERT(!where_ask(&w, 10));
    ASSERT_STATUS(CT_ENOTFOUND, where_end_job(&w));
    ASSERT(!member_ends_job(m));
    member_destroy(m);
}
