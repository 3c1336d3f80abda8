/* db_lmdb.c - LMDB behind db.h.
 *
 * A cursor owns a read transaction, so what it shows is one state of the
 * database and every key and value stays where it is in the map until the
 * cursor is destroyed.  Puts wait in memory until commit, because a full map
 * can grow only while no transaction is open: commit then doubles it and
 * starts over. */
#ifdef CT_HAVE_LMDB
#include "data/db_backend.h"

#include <errno.h>
#include <lmdb.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"

struct pending {
    size_t n_key, n_value; /* the bytes follow one another in lmdb.bytes */
};

struct lmdb {
    struct ct_db    base;
    MDB_env        *env;
    struct pending *put;
    size_t          n_put, put_room;
    struct ct_text  bytes;
};

struct lmdb_cursor {
    struct ct_cursor base;
    MDB_txn         *txn;
    MDB_cursor      *cursor;
};

static enum ct_status lmdb_error(const char *path, const char *what, int rc)
{
    enum ct_status code = rc == ENOENT                         ? CT_ENOTFOUND
                          : rc == ENOMEM                       ? CT_ENOMEM
                          : rc == MDB_INVALID || rc == MDB_CORRUPTED ||
                                rc == MDB_VERSION_MISMATCH ||
                                rc == MDB_PAGE_NOTFOUND        ? CT_EPARSE
                                                               : CT_EIO;

    return ct_fail(code, "LMDB %s: cannot %s: %s", path, what,
                   mdb_strerror(rc));
}

/* A map that is longer than its file ends the process at the first touch of
 * a missing page, so a truncated file is turned away here. */
static enum ct_status lmdb_check_size(MDB_env *env, const char *path)
{
    struct ct_text file = { 0 };
    MDB_envinfo info;
    MDB_stat stat_;
    struct stat st;
    unsigned long long need;
    int rc;

    mdb_env_info(env, &info);
    mdb_env_stat(env, &stat_);
    need = ((unsigned long long)info.me_last_pgno + 1) * stat_.ms_psize;
    ct_text_addf(&file, "%s/data.mdb", path);
    rc = file.failed ? ENOMEM : stat(file.s, &st) == 0 ? 0 : errno;
    ct_text_fini(&file);
    if (rc)
        return lmdb_error(path, "open", rc);
    if ((unsigned long long)st.st_size < need)
        return ct_fail(CT_EPARSE, "LMDB %s is truncated: it has %llu of %llu "
                       "bytes", path, (unsigned long long)st.st_size, need);
    return CT_OK;
}

static int lmdb_try_open(const char *path, unsigned flags, MDB_env **out)
{
    int rc = mdb_env_create(out);

    if (rc)
        return rc;
    mdb_env_set_maxreaders(*out, 1024);
    rc = mdb_env_open(*out, path, flags, 0664);
    if (rc) {
        mdb_env_close(*out);
        *out = NULL;
    }
    return rc;
}

/* Readers are known by their process's number.  Two in containers of their own
 * may have the same, and the second cannot be entered. */
static bool lmdb_is_mistaken(MDB_env *env)
{
    MDB_txn *txn = NULL;
    const int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

    if (rc == 0)
        mdb_txn_abort(txn);
    return rc == EAGAIN || rc == EACCES;
}

static int lmdb_open_to_read(const char *path, MDB_env **out)
{
    const unsigned reading = MDB_RDONLY | MDB_NOTLS;
    const char *why        = "no permission to lock it";
    int rc                 = lmdb_try_open(path, reading, out);

    if (rc == 0 && lmdb_is_mistaken(*out)) {
        why = "a reader in another container has this process's number";
        mdb_env_close(*out);
        rc = EACCES;
    }
    if (rc != EACCES && rc != EROFS && rc != EPERM)
        return rc;
    CT_WARN("LMDB %s: %s; reading without a lock, so nobody may write to it "
            "meanwhile", path, why);
    return lmdb_try_open(path, reading | MDB_NOLOCK, out);
}

static enum ct_status lmdb_open_env(const char *path, enum ct_db_mode mode,
                                    MDB_env **out)
{
    enum ct_status st = CT_OK;
    int rc, dead;

    if (mode == CT_DB_READ) {
        rc = lmdb_open_to_read(path, out);
    } else {
        if (mode == CT_DB_NEW && mkdir(path, 0744) != 0)
            return ct_fail(errno == EEXIST ? CT_EEXIST : CT_EIO,
                           "cannot create database %s: %s", path,
                           strerror(errno));
        rc = lmdb_try_open(path, MDB_NOTLS, out);
    }
    if (rc)
        st = lmdb_error(path, "open", rc);
    else if (mode != CT_DB_NEW)
        st = lmdb_check_size(*out, path);
    if (st == CT_OK && mode != CT_DB_READ)
        mdb_reader_check(*out, &dead); /* killed readers would hold pages */
    if (st != CT_OK && *out)
        mdb_env_close(*out);
    if (st != CT_OK && mode == CT_DB_NEW)
        rmdir(path);
    return st;
}

static enum ct_status lmdb_open(const char *path, enum ct_db_mode mode,
                                struct ct_db **out)
{
    struct lmdb *m;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*m), "LMDB", &m));
    m->base.ops = &ct_db_lmdb;
    st          = lmdb_open_env(path, mode, &m->env);
    if (st != CT_OK) {
        ct_free(m);
        return st;
    }
    *out = &m->base;
    return CT_OK;
}

static void lmdb_close(struct ct_db *db)
{
    struct lmdb *m = (struct lmdb *)db;

    mdb_env_close(m->env);
    ct_text_fini(&m->bytes);
    ct_free(m->put);
    ct_free(m);
}

static enum ct_status lmdb_count(struct ct_db *db, int64_t *out)
{
    MDB_stat s;
    int rc = mdb_env_stat(((struct lmdb *)db)->env, &s);

    if (rc)
        return lmdb_error(db->path, "count", rc);
    *out = (int64_t)s.ms_entries;
    return CT_OK;
}

static enum ct_status lmdb_put(struct ct_db *db, struct ct_bytes key,
                               struct ct_bytes value)
{
    struct lmdb *m = (struct lmdb *)db;
    size_t longest = (size_t)mdb_env_get_maxkeysize(m->env);

    if (key.n > longest)
        return ct_fail(CT_EINVAL, "LMDB %s: a key of %zu bytes; at most %zu "
                       "are allowed", db->path, key.n, longest);
    if (m->n_put == m->put_room) {
        size_t room          = m->put_room ? 2 * m->put_room : 1024;
        struct pending *more = ct_realloc(m->put, room * sizeof(*more),
                                          "LMDB puts");

        if (!more)
            return CT_ENOMEM;
        m->put      = more;
        m->put_room = room;
    }
    ct_text_add_bytes(&m->bytes, key.ptr, key.n);
    if (value.n)
        ct_text_add_bytes(&m->bytes, value.ptr, value.n);
    if (m->bytes.failed)
        return CT_ENOMEM;
    m->put[m->n_put++] = (struct pending){ key.n, value.n };
    return CT_OK;
}

static int lmdb_try_commit(struct lmdb *m)
{
    const char *at = m->bytes.s;
    MDB_txn *txn;
    MDB_dbi dbi;
    int rc = mdb_txn_begin(m->env, NULL, 0, &txn);

    if (rc)
        return rc;
    rc = mdb_dbi_open(txn, NULL, 0, &dbi);
    for (size_t i = 0; i < m->n_put && !rc; i++) {
        MDB_val key   = { m->put[i].n_key, (void *)(uintptr_t)at };
        MDB_val value = { m->put[i].n_value,
                          (void *)(uintptr_t)(at + m->put[i].n_key) };

        rc = mdb_put(txn, dbi, &key, &value, 0);
        at += m->put[i].n_key + m->put[i].n_value;
    }
    if (!rc)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static enum ct_status lmdb_commit(struct ct_db *db)
{
    struct lmdb *m = (struct lmdb *)db;
    int rc;

    while ((rc = lmdb_try_commit(m)) == MDB_MAP_FULL) {
        MDB_envinfo info;

        if (atomic_load(&db->n_cursors) > 0)
            return ct_fail(CT_EINVAL, "LMDB %s must grow: destroy the cursors "
                           "of this process before committing", db->path);
        mdb_env_info(m->env, &info);
        rc = mdb_env_set_mapsize(m->env, 2 * info.me_mapsize);
        if (rc)
            break;
    }
    if (rc)
        return lmdb_error(db->path, "write", rc);
    m->n_put         = 0;
    m->bytes.n_bytes = 0;
    return CT_OK;
}

static void lmdb_cursor_destroy(struct ct_cursor *base)
{
    struct lmdb_cursor *c = (struct lmdb_cursor *)base;

    if (c->cursor)
        mdb_cursor_close(c->cursor);
    if (c->txn)
        mdb_txn_abort(c->txn);
    ct_free(c);
}

static enum ct_status lmdb_cursor_create(struct ct_db *db,
                                         struct ct_cursor **out)
{
    struct lmdb *m = (struct lmdb *)db;
    struct lmdb_cursor *c;
    MDB_dbi dbi;
    int rc;

    CT_TRY(ct_alloc(1, sizeof(*c), "LMDB cursor", &c));
    rc = mdb_txn_begin(m->env, NULL, MDB_RDONLY, &c->txn);
    if (rc == MDB_MAP_RESIZED && atomic_load(&db->n_cursors) == 0) {
        /* Another process grew the file: map what it is today. */
        rc = mdb_env_set_mapsize(m->env, 0);
        if (!rc)
            rc = mdb_txn_begin(m->env, NULL, MDB_RDONLY, &c->txn);
    }
    if (!rc)
        rc = mdb_dbi_open(c->txn, NULL, 0, &dbi);
    if (!rc)
        rc = mdb_cursor_open(c->txn, dbi, &c->cursor);
    if (rc) {
        lmdb_cursor_destroy(&c->base);
        return lmdb_error(db->path, "read", rc);
    }
    *out = &c->base;
    return CT_OK;
}

/* The value's pages are not touched: only their place is computed. */
static enum ct_status lmdb_move(struct ct_cursor *base, MDB_cursor_op op,
                                MDB_val *key)
{
    struct lmdb_cursor *c = (struct lmdb_cursor *)base;
    MDB_val value;
    int rc = mdb_cursor_get(c->cursor, key, &value, op);

    base->valid = rc == 0;
    if (rc == MDB_NOTFOUND)
        return CT_OK;
    if (rc)
        return lmdb_error(base->db->path, "read", rc);
    base->key   = (struct ct_bytes){ key->mv_data, key->mv_size };
    base->value = (struct ct_bytes){ value.mv_data, value.mv_size };
    return CT_OK;
}

static enum ct_status lmdb_first(struct ct_cursor *base)
{
    MDB_val key;

    return lmdb_move(base, MDB_FIRST, &key);
}

static enum ct_status lmdb_next(struct ct_cursor *base)
{
    MDB_val key;

    return lmdb_move(base, MDB_NEXT, &key);
}

static enum ct_status lmdb_find(struct ct_cursor *base, struct ct_bytes key)
{
    MDB_val k = { key.n, (void *)(uintptr_t)key.ptr };

    return lmdb_move(base, MDB_SET_RANGE, &k);
}

static struct ct_bytes lmdb_value(const struct ct_cursor *base)
{
    return base->value;
}

const struct ct_db_ops ct_db_lmdb = {
    .name           = "lmdb",
    .stable         = true,
    .open           = lmdb_open,
    .close          = lmdb_close,
    .count          = lmdb_count,
    .put            = lmdb_put,
    .commit         = lmdb_commit,
    .cursor_create  = lmdb_cursor_create,
    .cursor_destroy = lmdb_cursor_destroy,
    .first          = lmdb_first,
    .next           = lmdb_next,
    .find           = lmdb_find,
    .value          = lmdb_value,
};
#endif
