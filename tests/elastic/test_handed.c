/* test_handed.c - what an agent hands down to a rank that is another
 * program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elastic/handed.h"
#include "testing/test.h"

static const uint8_t secret[SEAL_SECRET_BYTES] = { 1, 2, 3 };

static struct member_config full(void)
{
    struct member_config c = {
        .secret = secret, .door = -1, .will = -1, .founds = true,
        .before = { 4 }, .seeks = { 5 }, .agent = 77, .agent_port = 1234,
        .least = 2, .most = 8, .suspect = 3, .orphan = 60, .n_knock = 2,
        .description = "/work\ntrain\n", .file = "/meet/a.address",
    };

    c.knock[0] = (struct elastic_door){ { AF_INET, { 127, 0, 0, 1 } }, 99 };
    c.knock[1] = (struct elastic_door){ { AF_INET6, { 1, 2 } }, 98 };
    return c;
}

TEST(handed, all_of_it_arrives_once)
{
    const struct member_config c = full();
    struct handed h;

    ASSERT(!handed_is_there());
    ASSERT_OK(handed_give(&c));
    ASSERT(handed_is_there());
    ASSERT_OK(handed_take(&h));
    ASSERT(!handed_is_there());
    ASSERT_INT(0, memcmp(secret, h.config.secret, sizeof(secret)));
    ASSERT(h.config.founds);
    ASSERT_INT(-1, h.config.door);
    ASSERT_INT(-1, h.config.will);
    ASSERT_INT(4, h.config.before[0]);
    ASSERT_INT(5, h.config.seeks[0]);
    ASSERT_INT(77, (int)h.config.agent);
    ASSERT_INT(1234, h.config.agent_port);
    ASSERT_INT(2, h.config.least);
    ASSERT_INT(8, h.config.most);
    ASSERT_FLOAT(3, h.config.suspect, 1e-5);
    ASSERT_FLOAT(60, h.config.orphan, 1e-5);
    ASSERT_INT(2, h.config.n_knock);
    for (int i = 0; i < 2; i++)
        ASSERT_INT(0, memcmp(&c.knock[i], &h.config.knock[i],
                             sizeof(c.knock[i])));
    ASSERT_HAS("/work\ntrain\n", h.config.description);
    ASSERT_HAS("/meet/a.address", h.config.file);
    handed_fini(&h);
    ASSERT_STATUS(CT_ENOTFOUND, handed_take(&h));
}

/* The file that was given, of which `n` bytes are left. */
static enum ct_status take_cut(off_t n)
{
    struct handed h;
    enum ct_status st;

    ASSERT_INT(0, ftruncate(atoi(getenv("CORTADO_HANDED")), n));
    st = handed_take(&h);
    handed_fini(&h);
    return st;
}

TEST(handed, what_is_cut_off_or_damaged_is_refused)
{
    struct member_config c = full();
    struct stat about;
    int fd;

    c.description = "";
    ASSERT_OK(handed_give(&c));
    fd = atoi(getenv("CORTADO_HANDED"));
    ASSERT_INT(0, fstat(fd, &about));
    for (off_t n = about.st_size - 1; n >= 12; n--)
        ASSERT_STATUS(CT_EPARSE, take_cut(n));
    ASSERT_STATUS(CT_EINVAL, take_cut(8)); /* it is of no process */
    ASSERT_STATUS(CT_ENOTFOUND, take_cut(7));
    close(fd);
    c.knock[1].at.family = 1000;
    ASSERT_OK(handed_give(&c));
    ASSERT_STATUS(CT_EPARSE, take_cut(about.st_size));
    close(atoi(getenv("CORTADO_HANDED")));
    unsetenv("CORTADO_HANDED");
}
