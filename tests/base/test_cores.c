/* test_cores.c - limits of control groups, in a made-up /sys/fs/cgroup. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cores.h"
#include "base/file.h"
#include "testing/test.h"

/* A file of it. */
static void put(const char *name, const char *text)
{
    char path[600], *slash;

    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    for (slash = path + strlen(test_folder()) + 1;
         (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0700);
    }
    ASSERT_OK(ct_file_write(path, text, strlen(text)));
}

static double quota(void)
{
    char groups[600];

    snprintf(groups, sizeof(groups), "%s/groups", test_folder());
    return ct_cores_quota(groups, test_folder());
}

TEST(cores, the_least_limit_of_all_groups_above_counts)
{
    put("groups", "3:memory:/m\n0::/a/b\n");
    ASSERT_FLOAT(0, quota(), 0);
    put("a/b/cpu.max", "max 100000\n");
    ASSERT_FLOAT(0, quota(), 0);
    put("a/cpu.max", "250000 100000\n");
    ASSERT_FLOAT(2.5, quota(), 1e-6);
    put("cpu.max", "400000 100000\n");
    ASSERT_FLOAT(2.5, quota(), 1e-6);
    put("a/b/cpu.max", "50000 100000\n");
    ASSERT_FLOAT(0.5, quota(), 1e-6);
}

TEST(cores, groups_of_version_1_have_limits_too)
{
    put("groups", "4:cpuset:/x\n2:cpuacct,cpu:/docker/abc\n");
    put("cpuset/x/cpu.cfs_quota_us", "1\n");
    ASSERT_FLOAT(0, quota(), 0);
    /* In the container the group is the root of what it sees. */
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    ASSERT_FLOAT(0, quota(), 0);
    put("cpu/cpu.cfs_quota_us", "150000\n");
    ASSERT_FLOAT(1.5, quota(), 1e-6);
}

TEST(cores, there_is_one_at_least)
{
    ASSERT(ct_cores() >= 1);
    ASSERT_INT(1, ct_cores_of(0));
}
