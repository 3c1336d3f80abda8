/* db_leveldb.c - LevelDB behind db.h, through its C API.
 *
 * A cursor is an iterator with the snapshot it shows; values are borrowed
 * until it moves.  Checksums are verified on every read.
 *
 * LevelDB insists on a lock and on writing a log where it opens a database.
 * For reading a database that is read-only, or that another process (another
 * rank) has open, a shadow folder is opened in its place: links to the
 * tables, copies of the small files that say what the tables are. */
#ifdef CT_HAVE_LEVELDB
#include "data/db_backend.h"

#include <dirent.h>
#include <errno.h>
#include <leveldb/c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"

struct level {
    struct ct_db            base;
    leveldb_t              *db;
    leveldb_cache_t        *cache;
    leveldb_writebatch_t   *batch;
    char                   *shadow; /* a folder of ours, or NULL */
};

struct level_cursor {
    struct ct_cursor          base;
    const leveldb_snapshot_t *snapshot;
    leveldb_readoptions_t    *options;
    leveldb_iterator_t       *it;
};

/* Takes the library's message, which it frees. */
static enum ct_status level_error(const char *path, const char *what,
                                  char *message)
{
    bool corrupt  = strstr(message, "orruption") != NULL;
    bool missing  = strstr(message, "does not exist") != NULL;
    enum ct_status st =
        ct_fail(corrupt   ? CT_EPARSE
                : missing ? CT_ENOTFOUND
                          : CT_EIO,
                "LevelDB %s: cannot %s: %s", path, what, message);

    leveldb_free(message);
    return st;
}

/* The sizes Caffe opens with: 64 KiB blocks, 256 MiB of unsorted writes. */
static char *level_try_open(struct level *m, const char *path,
                            enum ct_db_mode mode)
{
    leveldb_options_t *o = leveldb_options_create();
    char *message        = NULL;

    leveldb_options_set_block_size(o, 65536);
    leveldb_options_set_write_buffer_size(o, (size_t)256 << 20);
    leveldb_options_set_max_open_files(o, 100);
    leveldb_options_set_cache(o, m->cache);
    leveldb_options_set_error_if_exists(o, mode == CT_DB_NEW);
    leveldb_options_set_create_if_missing(o, mode == CT_DB_NEW);
    m->db = leveldb_open(o, path, &message);
    leveldb_options_destroy(o);
    return message;
}

static bool level_ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

static enum ct_status level_shadow_file(const char *from, const char *to,
                                        bool table)
{
    enum ct_status st;
    char whole[PATH_MAX];
    char *data = NULL;
    size_t n;

    if (table)
        return realpath(from, whole) && symlink(whole, to) == 0
                   ? CT_OK
                   : ct_fail(CT_EIO, "cannot link %s to %s: %s", to, from,
                             strerror(errno));
    CT_TRY(ct_file_read(from, &data, &n));
    st = ct_file_write(to, data, n);
    ct_free(data);
    return st;
}

static enum ct_status level_shadow_fill(const char *path, const char *shadow,
                                        DIR *folder)
{
    struct dirent *e;

    while ((e = readdir(folder))) {
        const char *name    = e->d_name;
        struct ct_text from = { 0 }, to = { 0 };
        bool table = level_ends(name, ".ldb") || level_ends(name, ".sst");
        enum ct_status st;

        if (!table && strcmp(name, "CURRENT") != 0 &&
            strncmp(name, "MANIFEST-", 9) != 0 && !level_ends(name, ".log"))
            continue;
        ct_text_addf(&from, "%s/%s", path, name);
        ct_text_addf(&to, "%s/%s", shadow, name);
        st = from.failed || to.failed
                 ? CT_ENOMEM
                 : level_shadow_file(from.s, to.s, table);
        ct_text_fini(&from);
        ct_text_fini(&to);
        CT_TRY(st);
    }
    return CT_OK;
}

static void level_shadow_remove(char *shadow)
{
    DIR *folder = shadow ? opendir(shadow) : NULL;
    struct dirent *e;

    while (folder && (e = readdir(folder)))
        if (e->d_name[0] != '.')
            unlinkat(dirfd(folder), e->d_name, 0);
    if (folder)
        closedir(folder);
    if (shadow)
        rmdir(shadow);
    ct_free(shadow);
}

static enum ct_status level_open_shadow(struct level *m, const char *path)
{
    const char *tmp     = getenv("TMPDIR");
    struct ct_text name = { 0 };
    DIR *folder         = NULL;
    enum ct_status st   = CT_OK;
    char *message;

    ct_text_addf(&name, "%s/cortado-leveldb-XXXXXX", tmp ? tmp : "/tmp");
    if (name.failed)
        return CT_ENOMEM;
    if (!mkdtemp(name.s)) {
        st = ct_fail(CT_EIO, "cannot create %s: %s", name.s, strerror(errno));
        ct_text_fini(&name);
        return st;
    }
    m->shadow = name.s;
    folder    = opendir(path);
    if (!folder)
        return ct_fail(CT_EIO, "cannot read %s: %s", path, strerror(errno));
    st = level_shadow_fill(path, m->shadow, folder);
    closedir(folder);
    CT_TRY(st);
    message = level_try_open(m, m->shadow, CT_DB_READ);
    return message ? level_error(path, "open", message) : CT_OK;
}

static void level_close(struct ct_db *db)
{
    struct level *m = (struct level *)db;

    if (m->batch)
        leveldb_writebatch_destroy(m->batch);
    if (m->db)
        leveldb_close(m->db);
    if (m->cache)
        leveldb_cache_destroy(m->cache);
    level_shadow_remove(m->shadow);
    ct_free(m);
}

static enum ct_status level_open(const char *path, enum ct_db_mode mode,
                                 struct ct_db **out)
{
    struct level *m;
    enum ct_status st = CT_OK;
    char *message;

    CT_TRY(ct_alloc(1, sizeof(*m), "LevelDB", &m));
    m->base.ops = &ct_db_leveldb;
    m->cache    = leveldb_cache_create_lru((size_t)8 << 20);
    message     = level_try_open(m, path, mode);
    if (message && mode == CT_DB_READ && strncmp(message, "IO error", 8) == 0) {
        CT_INFO("LevelDB %s: %s; reading through links", path, message);
        leveldb_free(message);
        message = NULL;
        st      = level_open_shadow(m, path);
    }
    if (message)
        st = level_error(path, "open", message);
    if (st != CT_OK) {
        level_close(&m->base);
        return st;
    }
    m->batch = leveldb_writebatch_create();
    *out     = &m->base;
    return CT_OK;
}

static enum ct_status level_put(struct ct_db *db, struct ct_bytes key,
                                struct ct_bytes value)
{
    leveldb_writebatch_put(((struct level *)db)->batch, key.ptr, key.n,
                           value.ptr, value.n);
    return CT_OK;
}

static enum ct_status level_commit(struct ct_db *db)
{
    struct level *m           = (struct level *)db;
    leveldb_writeoptions_t *o = leveldb_writeoptions_create();
    char *message             = NULL;

    leveldb_writeoptions_set_sync(o, 1);
    leveldb_write(m->db, o, m->batch, &message);
    leveldb_writeoptions_destroy(o);
    if (message)
        return level_error(db->path, "write", message);
    leveldb_writebatch_clear(m->batch);
    return CT_OK;
}

static enum ct_status level_cursor_create(struct ct_db *db,
                                          struct ct_cursor **out)
{
    struct level *m = (struct level *)db;
    struct level_cursor *c;

    CT_TRY(ct_alloc(1, sizeof(*c), "LevelDB cursor", &c));
    c->snapshot = leveldb_create_snapshot(m->db);
    c->options  = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(c->options, 1);
    leveldb_readoptions_set_fill_cache(c->options, 0);
    leveldb_readoptions_set_snapshot(c->options, c->snapshot);
    c->it = leveldb_create_iterator(m->db, c->options);
    *out  = &c->base;
    return CT_OK;
}

static void level_cursor_destroy(struct ct_cursor *base)
{
    struct level_cursor *c = (struct level_cursor *)base;

    leveldb_iter_destroy(c->it);
    leveldb_readoptions_destroy(c->options);
    leveldb_release_snapshot(((struct level *)base->db)->db, c->snapshot);
    ct_free(c);
}

/* What every move ends with: an iterator stops for an error as it does for
 * the end, and only the error tells. */
static enum ct_status level_moved(struct level_cursor *c)
{
    char *message = NULL;

    c->base.valid = leveldb_iter_valid(c->it) != 0;
    if (c->base.valid) {
        c->base.key.ptr = leveldb_iter_key(c->it, &c->base.key.n);
        return CT_OK;
    }
    leveldb_iter_get_error(c->it, &message);
    return message ? level_error(c->base.db->path, "read", message) : CT_OK;
}

static enum ct_status level_first(struct ct_cursor *base)
{
    struct level_cursor *c = (struct level_cursor *)base;

    leveldb_iter_seek_to_first(c->it);
    return level_moved(c);
}

static enum ct_status level_next(struct ct_cursor *base)
{
    struct level_cursor *c = (struct level_cursor *)base;

    leveldb_iter_next(c->it);
    return level_moved(c);
}

static enum ct_status level_find(struct ct_cursor *base, struct ct_bytes key)
{
    struct level_cursor *c = (struct level_cursor *)base;

    leveldb_iter_seek(c->it, key.ptr, key.n);
    return level_moved(c);
}

static struct ct_bytes level_value(const struct ct_cursor *base)
{
    struct ct_bytes v;

    v.ptr = leveldb_iter_value(((const struct level_cursor *)base)->it, &v.n);
    return v;
}

static enum ct_status level_read(struct ct_cursor *hold, struct ct_bytes key,
                                 struct ct_room *room, struct ct_bytes *out)
{
    struct level *m = (struct level *)hold->db;
    char *message   = NULL, *value;
    enum ct_status st;
    size_t n;

    value = leveldb_get(m->db, ((struct level_cursor *)hold)->options, key.ptr,
                        key.n, &n, &message);
    if (message)
        return level_error(hold->db->path, "read", message);
    if (!value)
        return ct_fail(CT_ENOTFOUND, "LevelDB %s has lost a key",
                       hold->db->path);
    st = ct_room_keep(room, (struct ct_bytes){ value, n }, out);
    leveldb_free(value);
    return st;
}

const struct ct_db_ops ct_db_leveldb = {
    .name           = "leveldb",
    .stable         = false,
    .open           = level_open,
    .close          = level_close,
    .put            = level_put,
    .commit         = level_commit,
    .cursor_create  = level_cursor_create,
    .cursor_destroy = level_cursor_destroy,
    .first          = level_first,
    .next           = level_next,
    .find           = level_find,
    .value          = level_value,
    .read           = level_read,
};
#endif
