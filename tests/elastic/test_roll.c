/* test_roll.c - jobs that have the same secret are told apart by their numbers,
 * also by who asks one of them to end. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "elastic/member_inner.h"
#include "elastic/member_test.h"
#include "elastic/rendezvous.h"
#include "elastic/roll.h"

/* A job of one member. */
static struct elastic_member *found(const uint8_t *before, uint16_t *port)
{
    struct member_config c = usual(true, 1);
    const struct elastic_membership *by;
    struct elastic_place p;
    struct elastic_member *m;

    c.agent = 77;
    if (before)
        memcpy(c.before, before, sizeof(c.before));
    m  = make_like(c, port, true);
    by = member_asks(m);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_OK(member_begin(m, 0));
    return m;
}

static enum ct_status ask(const char *list, const uint8_t *job, int what,
                          struct elastic_roll *out)
{
    struct elastic_roll *roll = NULL;
    enum ct_status st = rendezvous_call_roll(list, secret, job, what, 5, &roll);

    if (st == CT_OK)
        *out = *roll;
    ct_free(roll);
    return st;
}

static enum ct_status ask_at(uint16_t port, const uint8_t *job, int what,
                             struct elastic_roll *out)
{
    char list[64];

    snprintf(list, sizeof(list), "127.0.0.1:%d", ntohs(port));
    return ask(list, job, what, out);
}

static enum ct_status call_roll(uint16_t port, const uint8_t *job,
                                struct elastic_roll *out)
{
    return ask_at(port, job, MEMBER_ASK_ROLL, out);
}

TEST(roll, says_which_job_it_is_and_where_its_agents_are)
{
    static struct elastic_roll roll, again;
    uint16_t port = 0, other = 0;
    struct elastic_member *m;
    uint8_t job[POST_JOB_BYTES];

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    m = found(NULL, &port);
    ASSERT_OK(call_roll(port, NULL, &roll));
    ASSERT_INT(1, roll.n);
    ASSERT_INT(77, (int)roll.agent[0]);
    ASSERT_INT(ntohs(port), roll.door[0]);
    ASSERT_INT(0, post_job_generation(roll.job));
    ASSERT_OK(call_roll(port, roll.job, &again));
    memcpy(job, roll.job, sizeof(job));
    job[0] ^= 1;
    ASSERT_STATUS(CT_ENOTFOUND, call_roll(port, job, &again));
    member_destroy(m);
    m = found(roll.job, &other); /* the same one begins anew */
    ASSERT_OK(call_roll(other, roll.job, &again));
    ASSERT(memcmp(again.job, roll.job, sizeof(again.job)) != 0);
    ASSERT_INT(1, post_job_generation(again.job));
    member_destroy(m);
}

/* It waits where it knocks, and says so. */
TEST(roll, who_seeks_another_job_is_not_taken_in)
{
    static struct elastic_roll roll;
    uint16_t port = 0;
    struct elastic_member *m;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    m = found(NULL, &port);
    ASSERT_OK(call_roll(port, NULL, &roll));
    for (int same = 0; same < 2; same++) {
        struct member_config c = usual(false, 1);
        const struct elastic_membership *by;
        struct elastic_member *seeker;
        struct elastic_place p = { 0 };

        memcpy(c.seeks, roll.job, sizeof(c.seeks));
        c.seeks[0] ^= (uint8_t)!same;
        c.orphan = same ? 60 : 3;
        seeker   = make_like(c, &port, false);
        by       = member_asks(seeker);
        ASSERT_STATUS(same ? CT_OK : CT_EIO, by->next(by->arg, &p));
        ASSERT_INT(same ? 2 : 0, p.size);
        pthread_mutex_lock(&seeker->lock);
        ASSERT_INT(!same, seeker->post.misled);
        pthread_mutex_unlock(&seeker->lock);
        member_destroy(seeker);
    }
    member_destroy(m);
}

TEST(roll, what_is_no_roll_is_refused)
{
    struct elastic_roll *roll = NULL;

    ASSERT_STATUS(CT_EPARSE, roll_read("", &roll));
    ASSERT_STATUS(CT_EPARSE, roll_read("job 0011", &roll));
    ASSERT_STATUS(CT_EPARSE, roll_read("{\"job\": \"00\"}", &roll));
    ASSERT_OK(roll_read("job 00112233445566778899aabbccddeeff\nagent x\n"
                        "agent 00000000000000ff, door 12\n", &roll));
    ASSERT_INT(0x11, roll->job[1]);
    ASSERT_INT(1, roll->n);
    ASSERT_INT(255, (int)roll->agent[0]);
    ASSERT_INT(12, roll->door[0]);
    ct_free(roll);
}

/* A list of addresses with such a port would be refused as a whole. */
TEST(roll, a_door_is_a_port)
{
    struct elastic_roll *roll = NULL;

    ASSERT_OK(roll_read("job 00112233445566778899aabbccddeeff\n"
                        "agent 00000000000000ff, door 65536\n"
                        "agent 00000000000000ff, door -3\n"
                        "agent 00000000000000ff, door 294001\n"
                        "agent 00000000000000fe, door 29400\n", &roll));
    ASSERT_INT(1, roll->n);
    ASSERT_INT(254, (int)roll->agent[0]);
    ASSERT_INT(29400, roll->door[0]);
    ct_free(roll);
}

TEST(roll, only_the_job_that_is_meant_ends)
{
    static struct elastic_roll roll, again;
    uint8_t other[POST_JOB_BYTES];
    uint16_t port = 0;
    struct elastic_member *m;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    m = found(NULL, &port);
    ASSERT_OK(call_roll(port, NULL, &roll));
    memcpy(other, roll.job, sizeof(other));
    other[0] ^= 1;
    ASSERT_STATUS(CT_ENOTFOUND, ask_at(port, other, MEMBER_ASK_END, &again));
    ASSERT(!member_ends_job(m));
    ASSERT_OK(ask_at(port, roll.job, MEMBER_ASK_END, &again));
    ASSERT_INT(0, memcmp(again.job, roll.job, sizeof(roll.job)));
    ASSERT(member_ends_job(m));
    member_destroy(m);
}

static void close_port(void *fd)
{
    close((int)(intptr_t)fd);
}

/* Nobody listens there, or will while the test runs. */
static int free_port(void)
{
    uint16_t port = 0;
    const int fd  = ct_reserve_port(&port);

    ASSERT(fd >= 0);
    test_defer(close_port, (void *)(intptr_t)fd);
    return ntohs(port);
}

/* The first list has nobody who listens; the others have, beside that, an
 * address of a group, which nobody can call, and a name without an address. */
TEST(roll, a_job_is_gone_when_all_hosts_say_so)
{
    static const uint8_t job[POST_JOB_BYTES] = { 1, 2, 3 };
    static struct elastic_roll roll;
    char list[128];

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(list, sizeof(list), "127.0.0.1:%d,localhost:%d", free_port(),
             free_port());
    ASSERT_STATUS(CT_ENOTFOUND, ask(list, job, MEMBER_ASK_END, &roll));
    snprintf(list, sizeof(list), "127.0.0.1:%d,224.0.0.1:1", free_port());
    ASSERT_STATUS(CT_ECOMM, ask(list, job, MEMBER_ASK_END, &roll));
    snprintf(list, sizeof(list), "no.such.host.invalid:1,127.0.0.1:%d",
             free_port());
    ASSERT_STATUS(CT_ECOMM, ask(list, job, MEMBER_ASK_END, &roll));
}
