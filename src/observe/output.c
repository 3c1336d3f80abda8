/* output.c - files that grow while others read them. */
#include "observe/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* Leaves errno as it is. */
static enum ct_status refused(const char *path)
{
    const int why           = errno;
    const enum ct_status st = ct_fail(CT_EIO, "cannot write %s: %s", path,
                                      strerror(why));

    errno = why;
    return st;
}

bool ct_disk_is_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EROFS;
}

char *ct_path_join(const char *folder, const char *name)
{
    struct ct_text t = { 0 };
    char *out;

    ct_text_addf(&t, "%s/%s", folder, name);
    out = t.failed ? NULL : ct_strdup(t.s, "path");
    ct_text_fini(&t);
    return out;
}

static bool ends_in_newline(int fd)
{
    char last      = '\n';
    off_t n_bytes  = lseek(fd, 0, SEEK_END);

    return n_bytes <= 0 || pread(fd, &last, 1, n_bytes - 1) != 1 ||
           last == '\n';
}

enum ct_status ct_output_open(struct ct_output *o, const char *folder,
                              const char *name, int lines)
{
    o->fd   = -1;
    o->path = ct_path_join(folder, name);
    if (!o->path)
        return CT_ENOMEM;
    o->fd = open(o->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (o->fd < 0)
        return refused(o->path);
    if (lines && !ends_in_newline(o->fd))
        ct_text_add(&o->pending, "\n");
    return CT_OK;
}

enum ct_status ct_output_flush(struct ct_output *o)
{
    off_t start = o->fd >= 0 ? lseek(o->fd, 0, SEEK_END) : -1;
    size_t done = 0;

    if (o->pending.failed)
        return ct_fail(CT_ENOMEM, "no memory to write %s", o->path);
    while (o->fd >= 0 && done < o->pending.n_bytes) {
        ssize_t n = write(o->fd, o->pending.s + done,
                          o->pending.n_bytes - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            enum ct_status st = refused(o->path);

            if (start >= 0 && ftruncate(o->fd, start) != 0)
                st = CT_EIO; /* then an unfinished record stays */
            return st;
        }
        done += (size_t)n;
    }
    o->pending.n_bytes = 0;
    return CT_OK;
}

void ct_output_close(struct ct_output *o)
{
    if (o->path && o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    ct_free(o->path);
    o->path = NULL;
    ct_text_fini(&o->pending);
}

static enum ct_status put(const char *path, const char *data, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    size_t done = 0;

    if (fd < 0)
        return refused(path);
    while (done < n) {
        ssize_t k = write(fd, data + done, n - done);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            enum ct_status st = refused(path);

            close(fd);
            unlink(path);
            return st;
        }
        done += (size_t)k;
    }
    return close(fd) == 0 ? CT_OK : refused(path);
}

enum ct_status ct_output_replace(const char *folder, const char *name,
                                 struct ct_text *text)
{
    struct ct_text temp = { 0 }, path = { 0 };
    enum ct_status st   = CT_ENOMEM;

    ct_text_addf(&path, "%s/%s", folder, name);
    ct_text_addf(&temp, "%s/.%s.new", folder, name);
    if (!text->failed && !temp.failed && !path.failed) {
        st = put(temp.s, text->s ? text->s : "", text->n_bytes);
        if (st == CT_OK && rename(temp.s, path.s) != 0)
            st = refused(path.s);
    }
    ct_text_fini(&temp);
    ct_text_fini(&path);
    ct_text_fini(text);
    return st;
}
