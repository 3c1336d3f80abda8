/* partition.c - a database dealt out to several.
 *
 * One pass for each part: memory stays that of one writer, and LMDB does not
 * touch the values that a pass leaves out. */
#include "data/partition.h"

#include <inttypes.h>

#include "base/mem.h"
#include "data/db_writer.h"
#include "data/order.h"

static enum ct_status part_fill(struct ct_db *db, struct ct_db_writer *w,
                                int part, int n, const struct ct_watch *watch,
                                int64_t *done, int64_t total)
{
    struct ct_cursor *c = NULL;
    enum ct_status st   = CT_OK;

    CT_TRY(ct_cursor_create(db, &c));
    for (int64_t i = 0; ct_cursor_valid(c); i++) {
        if (i % n == part) {
            CT_TRY_GOTO(ct_db_writer_put(w, ct_cursor_key(c),
                                         ct_cursor_value(c)), st, out);
            CT_TRY_GOTO(ct_watch_step(watch, ++*done, total), st, out);
        }
        CT_TRY_GOTO(ct_cursor_next(c), st, out);
    }
    st = ct_db_writer_seal(w);
out:
    ct_cursor_destroy(c);
    return st;
}

static enum ct_status part_create(const char *backend, const char *prefix,
                                  int part, struct ct_db_writer **out)
{
    enum ct_status st;
    char *path = NULL;

    CT_TRY(ct_order_source(CT_DATA_LOCAL, prefix, part, &path));
    st = ct_db_writer_create(backend, path, out);
    ct_free(path);
    return st;
}

/* Before an hour of work rather than after it. */
static enum ct_status parts_are_free(const char *prefix, int n)
{
    for (int k = 0; k < n; k++) {
        enum ct_status st;
        char *path = NULL;

        CT_TRY(ct_order_source(CT_DATA_LOCAL, prefix, k, &path));
        st = ct_db_path_is_free(path);
        ct_free(path);
        CT_TRY(st);
    }
    return CT_OK;
}

static enum ct_status parts_write(struct ct_db *db, const char *backend,
                                  const char *prefix, int n, int64_t total,
                                  const struct ct_watch *watch,
                                  struct ct_db_writer **w)
{
    int64_t done = 0;

    for (int k = 0; k < n; k++) {
        CT_TRY(part_create(backend, prefix, k, &w[k]));
        CT_TRY(part_fill(db, w[k], k, n, watch, &done, total));
    }
    for (int k = 0; k < n; k++)
        CT_TRY(ct_db_writer_finish(w[k]));
    return CT_OK;
}

enum ct_status ct_partition_db(const char *backend, const char *path, int n,
                               const char *prefix,
                               const struct ct_watch *watch, int64_t *counts)
{
    struct ct_db_writer **w = NULL;
    struct ct_db *db        = NULL;
    int64_t total;
    enum ct_status st;

    if (n < 1 || n > CT_PARTITION_MAX)
        return ct_fail(CT_EINVAL, "%d parts: 1 to %d are possible", n,
                       (int)CT_PARTITION_MAX);
    CT_TRY(parts_are_free(prefix, n));
    CT_TRY(ct_alloc((size_t)n, sizeof(*w), "partition writers", &w));
    CT_TRY_GOTO(ct_db_open(backend, path, CT_DB_READ, &db), st, out);
    CT_TRY_GOTO(ct_db_count(db, &total), st, out);
    if (total < n)
        CT_TRY_GOTO(ct_fail(CT_EINVAL, "database %s has %" PRId64 " records, "
                            "too few for %d parts", path, total, n), st, out);
    CT_TRY_GOTO(parts_write(db, backend, prefix, n, total, watch, w), st, out);
    for (int k = 0; k < n; k++)
        counts[k] = ct_db_writer_n(w[k]);
out:
    for (int k = 0; k < n; k++)
        ct_db_writer_destroy(w[k]);
    ct_free(w);
    ct_db_close(db);
    return st;
}
