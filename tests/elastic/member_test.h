/* member_test.h - makes members of a job in one process, for tests. */
#ifndef CT_TESTS_ELASTIC_MEMBER_TEST_H
#define CT_TESTS_ELASTIC_MEMBER_TEST_H

#include <time.h>

#include "base/clock.h"
#include "comm/transport/address.h"
#include "elastic/member.h"
#include "elastic/seal.h"
#include "testing/test.h"

static const uint8_t secret[SEAL_SECRET_BYTES] = "of the test";

static inline void nap(void)
{
    const struct timespec t = { 0, 1000000 };

    nanosleep(&t, NULL);
}

static inline struct member_config usual(bool founds, int least)
{
    return (struct member_config){ .secret = secret, .door = -1, .will = -1,
                                   .founds = founds, .least = least,
                                   .most = 4, .last = 100, .suspect = 30,
                                   .orphan = 60 };
}

static inline struct elastic_member *make_like(struct member_config c,
                                               uint16_t *port, bool founds)
{
    struct elastic_member *m = NULL;

    if (founds)
        c.door = ct_listen(port);
    c.knock[0] = (struct elastic_door){ ct_loopback_address(), *port };
    c.n_knock  = !founds;
    ASSERT_OK(member_create(&c, &m));
    return m;
}

static inline struct elastic_member *make_of(uint16_t *port, bool founds,
                                             int least)
{
    return make_like(usual(founds, least), port, founds);
}

static inline struct elastic_member *make(uint16_t *port, bool founds)
{
    return make_of(port, founds, 1);
}

static inline struct elastic_member *make_preparing(uint16_t *port,
                                                    bool founds)
{
    struct member_config c = usual(founds, 1);

    c.prepares = true;
    return make_like(c, port, founds);
}

/* The hint that a member has yet to take, of so many ranks. */
static inline struct elastic_place await_hint(
    const struct elastic_membership *by, int size)
{
    struct elastic_place p = { .size = -1 };
    const double end       = ct_now() + 30;

    while (p.size != size) {
        while (!by->expects(by->arg, &p) && ct_now() < end)
            nap();
        ASSERT(ct_now() < end);
        ASSERT_INT(0, p.view);
    }
    return p;
}

#endif
