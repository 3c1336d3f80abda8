/* db.c - the part that LMDB and LevelDB have in common.
 *
 * The list of open databases is the one piece of process-wide state here:
 * both libraries lose their locks when a process opens a database twice, and
 * a train net and a test net on one source do just that. */
#include "data/db.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/db_backend.h"

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
CT_FORK_SAFE(open_lock, CT_FORK_FILES)
static struct ct_db *open_list;

static const struct ct_db_ops *const backends[] = {
#ifdef CT_HAVE_LMDB
    &ct_db_lmdb,
#endif
#ifdef CT_HAVE_LEVELDB
    &ct_db_leveldb,
#endif
    NULL
};

enum ct_status ct_room_grow(struct ct_room *r, size_t bytes)
{
    size_t more = bytes + bytes / 4 + 64;

    if (bytes <= r->bytes)
        return CT_OK;
    ct_free(r->ptr);
    *r     = (struct ct_room){ 0 };
    r->ptr = ct_malloc(more, "data room");
    if (!r->ptr)
        return CT_ENOMEM;
    r->bytes = more;
    return CT_OK;
}

enum ct_status ct_room_keep(struct ct_room *r, struct ct_bytes from,
                            struct ct_bytes *out)
{
    CT_TRY(ct_room_grow(r, from.n));
    if (from.n)
        memcpy(r->ptr, from.ptr, from.n);
    *out = (struct ct_bytes){ r->ptr, from.n };
    return CT_OK;
}

void ct_room_fini(struct ct_room *r)
{
    ct_free(r->ptr);
    *r = (struct ct_room){ 0 };
}

const char *ct_key_text(struct ct_bytes key, char *buf, size_t size)
{
    const unsigned char *p = key.ptr;
    size_t n = key.n < size - 1 ? key.n : size - 1;

    for (size_t i = 0; i < n; i++)
        buf[i] = isprint(p[i]) ? (char)p[i] : '?';
    buf[n] = '\0';
    return buf;
}

static enum ct_status db_backend(const char *name,
                                 const struct ct_db_ops **out)
{
    for (int i = 0; backends[i]; i++)
        if (strcasecmp(name, backends[i]->name) == 0) {
            *out = backends[i];
            return CT_OK;
        }
    if (strcasecmp(name, "lmdb") == 0 || strcasecmp(name, "leveldb") == 0)
        return ct_fail(CT_ENOTSUP, "this build has no %s: install its "
                       "development package and build again", name);
    return ct_fail(CT_EINVAL, "unknown database backend \"%s\": use lmdb or "
                   "leveldb", name);
}

/* With open_lock held. */
static struct ct_db *db_find(const struct stat *info)
{
    for (struct ct_db *db = open_list; db; db = db->next)
        if (db->device == info->st_dev && db->inode == info->st_ino)
            return db;
    return NULL;
}

static enum ct_status db_open_new(const struct ct_db_ops *ops,
                                  const char *path, enum ct_db_mode mode,
                                  struct ct_db **out)
{
    char *copy       = ct_strdup(path, "database path");
    struct ct_db *db = NULL;
    enum ct_status st;
    struct stat info;

    if (!copy)
        return CT_ENOMEM;
    st = ops->open(path, mode, &db);
    if (st == CT_OK && stat(path, &info) != 0) {
        st = ct_fail(CT_EIO, "database %s: %s", path, strerror(errno));
        ops->close(db);
    }
    if (st != CT_OK) {
        ct_free(copy);
        return st;
    }
    db->path      = copy;
    db->mode      = mode;
    db->n_users   = 1;
    db->n_records = -1;
    db->device    = info.st_dev;
    db->inode     = info.st_ino;
    db->next      = open_list;
    open_list     = db;
    *out          = db;
    return CT_OK;
}

/* Both kinds are folders, and prototxts name the wrong one often enough:
 * `backend` is LEVELDB where it is not given. */
static enum ct_status db_check_kind(const struct ct_db_ops *ops,
                                    const char *path)
{
    bool lmdb           = strcmp(ops->name, "lmdb") == 0;
    struct ct_text mark = { 0 };
    bool other;

    ct_text_addf(&mark, "%s/%s", path, lmdb ? "CURRENT" : "data.mdb");
    if (mark.failed)
        return CT_ENOMEM;
    other = access(mark.s, F_OK) == 0;
    ct_text_fini(&mark);
    if (other)
        return ct_fail(CT_EINVAL, "database %s is %s, not %s: set the backend "
                       "to %s", path, lmdb ? "a LevelDB" : "an LMDB",
                       lmdb ? "an LMDB" : "a LevelDB",
                       lmdb ? "LEVELDB" : "LMDB");
    return CT_OK;
}

/* With open_lock held. */
static enum ct_status db_open(const struct ct_db_ops *ops, const char *path,
                              enum ct_db_mode mode, struct ct_db **out)
{
    struct ct_db *db;
    struct stat info;
    bool there = stat(path, &info) == 0;

    if (mode == CT_DB_NEW && there)
        return ct_fail(CT_EEXIST, "database %s exists: remove it or choose "
                       "another name", path);
    if (mode == CT_DB_NEW)
        return db_open_new(ops, path, mode, out);
    if (!there)
        return ct_fail(CT_ENOTFOUND, "cannot open database %s: %s", path,
                       strerror(errno));
    CT_TRY(db_check_kind(ops, path));
    db = db_find(&info);
    if (!db)
        return db_open_new(ops, path, mode, out);
    if (mode != CT_DB_READ)
        return ct_fail(CT_EEXIST, "database %s is open in this process: "
                       "close it before writing", path);
    if (db->ops != ops)
        return ct_fail(CT_EINVAL, "database %s is open as %s, not %s", path,
                       db->ops->name, ops->name);
    db->n_users++;
    *out = db;
    return CT_OK;
}

enum ct_status ct_db_open(const char *backend, const char *path,
                          enum ct_db_mode mode, struct ct_db **out)
{
    const struct ct_db_ops *ops = NULL;
    enum ct_status st;

    *out = NULL;
    CT_TRY(db_backend(backend, &ops));
    pthread_mutex_lock(&open_lock);
    st = db_open(ops, path, mode, out);
    pthread_mutex_unlock(&open_lock);
    return st;
}

void ct_db_close(struct ct_db *db)
{
    char *path;

    if (!db)
        return;
    pthread_mutex_lock(&open_lock);
    if (--db->n_users == 0) {
        struct ct_db **at = &open_list;

        while (*at != db)
            at = &(*at)->next;
        *at  = db->next;
        path = db->path;
        db->ops->close(db);
        ct_free(path);
    }
    pthread_mutex_unlock(&open_lock);
}

const char *ct_db_path(const struct ct_db *db)
{
    return db->path;
}

bool ct_db_stable(const struct ct_db *db)
{
    return db->ops->stable;
}

enum ct_status ct_db_count(struct ct_db *db, int64_t *out)
{
    struct ct_cursor *c = NULL;
    enum ct_status st   = CT_OK;
    int64_t n           = 0;

    if (db->ops->count)
        return db->ops->count(db, out);
    if (__atomic_load_n(&db->n_records, __ATOMIC_ACQUIRE) < 0) {
        CT_TRY(ct_cursor_create(db, &c));
        for (; ct_cursor_valid(c); n++)
            CT_TRY_GOTO(ct_cursor_next(c), st, out);
        __atomic_store_n(&db->n_records, n, __ATOMIC_RELEASE);
    }
    *out = __atomic_load_n(&db->n_records, __ATOMIC_ACQUIRE);
out:
    ct_cursor_destroy(c);
    return st;
}

static enum ct_status db_check_writer(const struct ct_db *db)
{
    if (db->mode == CT_DB_READ)
        return ct_fail(CT_EINVAL, "database %s is open for reading only",
                       db->path);
    return CT_OK;
}

enum ct_status ct_db_put(struct ct_db *db, struct ct_bytes key,
                         struct ct_bytes value)
{
    CT_TRY(db_check_writer(db));
    if (key.n == 0)
        return ct_fail(CT_EINVAL, "database %s: an empty key", db->path);
    return db->ops->put(db, key, value);
}

enum ct_status ct_db_commit(struct ct_db *db)
{
    CT_TRY(db_check_writer(db));
    __atomic_store_n(&db->n_records, -1, __ATOMIC_RELEASE);
    return db->ops->commit(db);
}

enum ct_status ct_cursor_create(struct ct_db *db, struct ct_cursor **out)
{
    enum ct_status st;

    *out = NULL;
    CT_TRY(db->ops->cursor_create(db, out));
    (*out)->db = db;
    atomic_fetch_add(&db->n_cursors, 1);
    st = ct_cursor_first(*out);
    if (st != CT_OK) {
        ct_cursor_destroy(*out);
        *out = NULL;
    }
    return st;
}

void ct_cursor_destroy(struct ct_cursor *c)
{
    if (!c)
        return;
    atomic_fetch_sub(&c->db->n_cursors, 1);
    c->db->ops->cursor_destroy(c);
}

bool ct_cursor_valid(const struct ct_cursor *c)
{
    return c->valid;
}

enum ct_status ct_cursor_first(struct ct_cursor *c)
{
    return c->db->ops->first(c);
}

enum ct_status ct_cursor_next(struct ct_cursor *c)
{
    CT_ASSERT(c->valid);
    return c->db->ops->next(c);
}

enum ct_status ct_cursor_find(struct ct_cursor *c, struct ct_bytes key)
{
    return c->db->ops->find(c, key);
}

enum ct_status ct_cursor_seek(struct ct_cursor *c, int64_t n)
{
    CT_TRY(ct_cursor_first(c));
    for (int64_t i = 0; i < n && c->valid; i++)
        CT_TRY(c->db->ops->next(c));
    if (!c->valid)
        return ct_fail(CT_ENOTFOUND, "database %s has no record number %lld",
                       c->db->path, (long long)n);
    return CT_OK;
}

struct ct_bytes ct_cursor_key(const struct ct_cursor *c)
{
    CT_ASSERT(c->valid);
    return c->key;
}

struct ct_bytes ct_cursor_value(const struct ct_cursor *c)
{
    CT_ASSERT(c->valid);
    return c->db->ops->value(c);
}

/* The keys move when their room grows, so until the end each record keeps
 * the offset of its key in place of the pointer. */
static enum ct_status index_copy_key(struct ct_db_index *x,
                                     struct ct_record_at *r)
{
    size_t need = x->keys_used + r->n_key;

    if (need > x->keys.bytes) {
        char *more = ct_realloc(x->keys.ptr, 2 * need, "database keys");

        if (!more)
            return CT_ENOMEM;
        x->keys = (struct ct_room){ more, 2 * need };
    }
    memcpy((char *)x->keys.ptr + x->keys_used, r->key, r->n_key);
    r->key       = (const void *)(uintptr_t)x->keys_used;
    x->keys_used = need;
    return CT_OK;
}

static enum ct_status index_add(struct ct_db_index *x, struct ct_cursor *c)
{
    struct ct_record_at r = { .key = c->key.ptr, .n_key = (uint32_t)c->key.n };

    if (x->n == x->capacity) {
        int64_t room = x->capacity ? 2 * x->capacity : 1024;
        struct ct_record_at *more =
            ct_realloc(x->at, (size_t)room * sizeof(*more), "database index");

        if (!more)
            return CT_ENOMEM;
        x->at       = more;
        x->capacity = room;
    }
    if (x->db->ops->stable) {
        struct ct_bytes v = ct_cursor_value(c);

        if (v.n > UINT32_MAX)
            return ct_fail(CT_ENOMEM, "database %s: a record of %zu bytes",
                           x->db->path, v.n);
        r.value   = v.ptr;
        r.n_value = (uint32_t)v.n;
    } else {
        CT_TRY(index_copy_key(x, &r));
    }
    x->at[x->n++] = r;
    return CT_OK;
}

enum ct_status ct_db_index_create(struct ct_db *db, struct ct_db_index **out)
{
    struct ct_db_index *x = NULL;
    enum ct_status st;

    *out = NULL;
    CT_TRY(ct_alloc(1, sizeof(*x), "database index", &x));
    x->db = db;
    CT_TRY_GOTO(ct_cursor_create(db, &x->hold), st, out);
    while (ct_cursor_valid(x->hold)) {
        CT_TRY_GOTO(index_add(x, x->hold), st, out);
        CT_TRY_GOTO(ct_cursor_next(x->hold), st, out);
    }
    for (int64_t i = 0; x->keys.ptr && i < x->n; i++)
        x->at[i].key = (char *)x->keys.ptr + (uintptr_t)x->at[i].key;
    *out = x;
    x    = NULL;
out:
    ct_db_index_destroy(x);
    return st;
}

void ct_db_index_destroy(struct ct_db_index *x)
{
    if (!x)
        return;
    ct_cursor_destroy(x->hold);
    ct_room_fini(&x->keys);
    ct_free(x->at);
    ct_free(x);
}

int64_t ct_db_index_n(const struct ct_db_index *x)
{
    return x->n;
}

struct ct_bytes ct_db_index_key(const struct ct_db_index *x, int64_t i)
{
    CT_ASSERT(i >= 0 && i < x->n);
    return (struct ct_bytes){ x->at[i].key, x->at[i].n_key };
}

enum ct_status ct_db_index_read(const struct ct_db_index *x, int64_t i,
                                struct ct_room *room, struct ct_bytes *out)
{
    CT_ASSERT(i >= 0 && i < x->n);
    if (!x->db->ops->stable)
        return x->db->ops->read(x->hold, ct_db_index_key(x, i), room, out);
    *out = (struct ct_bytes){ x->at[i].value, x->at[i].n_value };
    return CT_OK;
}
