/* db_records.h - databases as lists of records, for tests that make them. */
#ifndef CT_TESTS_DB_RECORDS_H
#define CT_TESTS_DB_RECORDS_H

#include <dirent.h>

#include "base/mem.h"
#include "data/datum.h"
#include "data/db.h"
#include "testing/files.h"

struct records {
    int             n;
    struct ct_bytes key[200], value[200]; /* each with a zero behind it */
    struct ct_room  pool;                 /* where they lie */
};

static inline void records_free(void *records)
{
    ct_room_fini(&((struct records *)records)->pool);
    ct_free(records);
}

static inline struct ct_bytes records_copy(struct ct_bytes b, char **at)
{
    struct ct_bytes copy = { *at, b.n };

    memcpy(*at, b.ptr, b.n);
    (*at)[b.n] = '\0';
    *at += b.n + 1;
    return copy;
}

/* All records of a small database; they live until the test ends. */
static inline const struct records *records_of(const char *backend,
                                               const char *path)
{
    struct records *r = ct_calloc(1, sizeof(*r), "test records");
    struct ct_cursor *c;
    struct ct_db *db;
    size_t n = 0;
    char *at;

    test_defer(records_free, r);
    ASSERT_OK(ct_db_open(backend, path, CT_DB_READ, &db));
    ASSERT_OK(ct_cursor_create(db, &c));
    for (; ct_cursor_valid(c); r->n++) {
        n += ct_cursor_key(c).n + ct_cursor_value(c).n + 2;
        ASSERT_OK(ct_cursor_next(c));
    }
    ASSERT(r->n <= 200);
    ASSERT_OK(ct_room_grow(&r->pool, n));
    at = r->pool.ptr;
    ASSERT_OK(ct_cursor_first(c));
    for (int i = 0; i < r->n; i++) {
        r->key[i]   = records_copy(ct_cursor_key(c), &at);
        r->value[i] = records_copy(ct_cursor_value(c), &at);
        ASSERT_OK(ct_cursor_next(c));
    }
    ct_cursor_destroy(c);
    ct_db_close(db);
    return r;
}

static inline bool records_same(struct ct_bytes a, struct ct_bytes b)
{
    return a.n == b.n && memcmp(a.ptr, b.ptr, a.n) == 0;
}

/* Puts datums "%04d" of 1 x 1 x n bytes, each byte `first + i`, label i. */
static inline const char *records_made(const char *backend, const char *name,
                                       int n_records, int n, int first)
{
    const char *path = test_path(name);
    struct ct_text t = { 0 };
    struct ct_db *db;

    ASSERT_OK(ct_db_open(backend, path, CT_DB_NEW, &db));
    for (int i = 0; i < n_records; i++) {
        unsigned char bytes[64];
        struct ct_datum d = { .channels = 1, .height = 1, .width = n,
                              .label = i, .data = { bytes, (size_t)n } };
        const char *key   = test_format("%04d", i);

        memset(bytes, first + i, sizeof(bytes));
        ASSERT_OK(ct_datum_write(&d, CT_DATUM_SHAPE | CT_DATUM_LABEL, NULL,
                                 &t));
        ASSERT_OK(ct_db_put(db, (struct ct_bytes){ key, 4 },
                            (struct ct_bytes){ t.s, t.n_bytes }));
    }
    ASSERT_OK(ct_db_commit(db));
    ct_db_close(db);
    ct_text_fini(&t);
    return path;
}

/* How many files and folders the test's folder has. */
static inline int records_n_files(void)
{
    DIR *d = opendir(test_folder());
    struct dirent *e;
    int n = 0;

    ASSERT(d);
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

#endif
