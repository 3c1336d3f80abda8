/* db_writer.c - databases that appear whole. */
#include "data/db_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { COMMIT_EVERY = 1000 };

struct ct_db_writer {
    struct ct_db  *db;
    char          *path, *temp; /* temp NULL: it has its name */
    int64_t        n;
    struct ct_text bytes;
};

static enum ct_status writer_taken(const char *path)
{
    return ct_fail(CT_EEXIST, "%s exists already and is left as it is; remove "
                   "it or give another name", path);
}

enum ct_status ct_db_path_is_free(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 ? writer_taken(path) : CT_OK;
}

/* Databases are folders of plain files. */
static void writer_remove(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
}

static enum ct_status writer_open(struct ct_db_writer *w, const char *backend,
                                  const char *path)
{
    enum ct_status st;
    size_t n;

    w->path = ct_strdup(path, "database path");
    if (!w->path)
        return CT_ENOMEM;
    for (n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        w->path[n - 1] = '\0'; /* the other folder lies beside, not inside */
    CT_TRY(ct_db_path_is_free(w->path));
    CT_TRY(ct_file_temp(w->path, &w->temp));
    st = ct_db_open(backend, w->temp, CT_DB_NEW, &w->db);
    if (st == CT_OK)
        return CT_OK;
    /* Not ours to remove: it may be there for another reason. */
    ct_free(w->temp);
    w->temp = NULL;
    return ct_fail_in(st, "%s", w->path);
}

enum ct_status ct_db_writer_create(const char *backend, const char *path,
                                   struct ct_db_writer **out)
{
    struct ct_db_writer *w;
    enum ct_status st;

    *out = NULL;
    CT_TRY(ct_alloc(1, sizeof(*w), "database writer", &w));
    st = writer_open(w, backend, path);
    if (st == CT_OK)
        *out = w;
    else
        ct_db_writer_destroy(w);
    return st;
}

void ct_db_writer_destroy(struct ct_db_writer *w)
{
    if (!w)
        return;
    ct_db_close(w->db);
    if (w->temp)
        writer_remove(w->temp);
    ct_free(w->temp);
    ct_free(w->path);
    ct_text_fini(&w->bytes);
    ct_free(w);
}

enum ct_status ct_db_writer_put(struct ct_db_writer *w, struct ct_bytes key,
                                struct ct_bytes value)
{
    CT_TRY(ct_db_put(w->db, key, value));
    if (++w->n % COMMIT_EVERY)
        return CT_OK;
    return ct_db_commit(w->db);
}

enum ct_status ct_db_writer_put_datum(struct ct_db_writer *w, int digits,
                                      int64_t number,
                                      const struct ct_datum *d,
                                      unsigned fields, const float *floats)
{
    char key[32];
    int n = snprintf(key, sizeof(key), "%0*" PRId64, digits, number);

    CT_ASSERT(n > 0 && n < (int)sizeof(key));
    CT_TRY(ct_datum_write(d, fields, floats, &w->bytes));
    return ct_db_writer_put(w, (struct ct_bytes){ key, (size_t)n },
                            (struct ct_bytes){ w->bytes.s, w->bytes.n_bytes });
}

enum ct_status ct_db_writer_seal(struct ct_db_writer *w)
{
    if (!w->db)
        return CT_OK;
    CT_TRY(ct_db_commit(w->db));
    ct_db_close(w->db);
    w->db = NULL;
    return CT_OK;
}

/* A name that somebody else has taken meanwhile stays his; file systems that
 * cannot promise that are asked first. */
static enum ct_status writer_rename(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return CT_OK;
    if (errno == EINVAL || errno == ENOSYS) {
        CT_TRY(ct_db_path_is_free(to));
        if (rename(from, to) == 0)
            return CT_OK;
    }
    if (errno == EEXIST)
        return writer_taken(to);
    return ct_fail(CT_EIO, "cannot rename %s to %s: %s", from, to,
                   strerror(errno));
}

enum ct_status ct_db_writer_finish(struct ct_db_writer *w)
{
    char *copy;
    int fd;

    CT_TRY(ct_db_writer_seal(w));
    CT_TRY(writer_rename(w->temp, w->path));
    ct_free(w->temp);
    w->temp = NULL;
    copy    = ct_strdup(w->path, "path");
    fd      = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                   : -1;
    if (fd >= 0) {
        fsync(fd); /* some file systems cannot; the name is there anyway */
        close(fd);
    }
    ct_free(copy);
    return CT_OK;
}

int64_t ct_db_writer_n(const struct ct_db_writer *w)
{
    return w->n;
}
