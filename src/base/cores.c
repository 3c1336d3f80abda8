/* cores.c - how many cores this process may use.
 *
 * A line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH, where version 2 names
 * no controllers.  A limit is so much time in each period:
 *
 *     version 2   ROOT/PATH/cpu.max            "max 100000" or "250000 100000"
 *     version 1   ROOT/cpu/PATH/cpu.cfs_quota_us, cpu.cfs_period_us
 *
 * It holds for all groups below.  In a container the path may be that of the
 * host and not be there; then those above it are, up to the root. */
#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool read_text(const char *folder, const char *name, char *out,
                      size_t bytes)
{
    char path[PATH_MAX];
    FILE *file;
    bool good;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    good = file && fgets(out, (int)bytes, file);
    if (file)
        fclose(file);
    return good;
}

/* In cores; 0: none. */
static double limit_of(const char *folder)
{
    char text[64], more[64];
    double quota, period;

    if (read_text(folder, "cpu.max", text, sizeof(text)))
        return sscanf(text, "%lf %lf", &quota, &period) == 2 && quota > 0 &&
                       period > 0
                   ? quota / period
                   : 0;
    if (read_text(folder, "cpu.cfs_quota_us", text, sizeof(text)) &&
        read_text(folder, "cpu.cfs_period_us", more, sizeof(more)) &&
        sscanf(text, "%lf", &quota) == 1 &&
        sscanf(more, "%lf", &period) == 1 && quota > 0 && period > 0)
        return quota / period;
    return 0;
}

static double lesser(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* Of the group `path` below `root`, and of all above it. */
static double limit_up(const char *root, const char *path)
{
    const size_t top = strlen(root);
    char folder[PATH_MAX];
    double least = 0;
    char *slash;

    if (snprintf(folder, sizeof(folder), "%s%s", root, path) >=
        (int)sizeof(folder))
        return 0;
    while ((slash = strrchr(folder, '/')) && strlen(folder) > top) {
        least  = lesser(limit_of(folder), least);
        *slash = '\0';
    }
    return lesser(limit_of(root), least);
}

/* Is "cpu" among words with commas between them? */
static bool names_cpu(const char *words)
{
    const size_t n = strcspn(words, ",");

    return (n == 3 && strncmp(words, "cpu", n) == 0) ||
           (words[n] && names_cpu(words + n + 1));
}

double ct_cores_quota(const char *groups, const char *root)
{
    FILE *file   = fopen(groups, "r");
    double least = 0;
    char line[PATH_MAX], cpu[PATH_MAX];

    snprintf(cpu, sizeof(cpu), "%s/cpu", root);
    while (file && fgets(line, sizeof(line), file)) {
        char *words = strchr(line, ':');
        char *path  = words ? strchr(words + 1, ':') : NULL;

        if (!path)
            continue;
        *path++                   = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (words[1] == '\0')
            least = lesser(limit_up(root, path), least);
        else if (names_cpu(words + 1))
            least = lesser(limit_up(cpu, path), least);
    }
    if (file)
        fclose(file);
    return least;
}

int ct_cores_of(int n)
{
    const double quota = ct_cores_quota("/proc/self/cgroup", "/sys/fs/cgroup");

    if (quota > 0 && quota < n)
        n = (int)quota;
    return n < 1 ? 1 : n;
}

int ct_cores(void)
{
    cpu_set_t set;

    return ct_cores_of(sched_getaffinity(0, sizeof(set), &set) == 0
                           ? CPU_COUNT(&set)
                           : 1);
}
