/* cmd_partition_data.c - `cortado partition_data`: a database dealt out, one
 * part for each rank's own disk. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "data/partition.h"
#include "tool.h"

static enum ct_status partition(const char *backend, const char *db, int n,
                                const char *prefix)
{
    int64_t *count = NULL;
    struct progress p;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)(n > 0 ? n : 1), sizeof(*count), "part sizes",
                    &count));
    progress_start(&p, 10000);
    st = ct_partition_db(backend, db, n, prefix, &p.watch, count);
    progress_end(&p, st);
    for (int k = 0; st == CT_OK && k < n; k++)
        CT_INFO("%s_%d: %" PRId64 " records", prefix, k, count[k]);
    ct_free(count);
    return st;
}

int cmd_partition_data(int argc, char **argv)
{
    const char *backend = NULL;
    const struct flag flags[] = {
        FLAG("backend", &backend),
        FLAG_END,
    };
    char *end;
    long n;
    int code;

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    n = strtol(argv[2], &end, 10);
    if (*end || n < 1 || n > CT_PARTITION_MAX) {
        enum ct_status st = ct_fail(CT_EINVAL, "N is the number of parts, 1 "
                                    "to %d, not '%s'", (int)CT_PARTITION_MAX,
                                    argv[2]);

        return tool_end(st);
    }
    return tool_end(partition(tool_backend(backend, argv[1]), argv[1], (int)n,
                              argv[3]));
}
