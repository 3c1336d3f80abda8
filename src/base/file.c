/* file.c - reading whole files and replacing them atomically. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

static enum ct_status file_refused(const char *verb, const char *path)
{
    int absent = errno == ENOENT || errno == ENOTDIR;

    return ct_fail(absent ? CT_ENOTFOUND : CT_EIO, "cannot %s %s: %s", verb,
                   path, strerror(errno));
}

enum ct_status ct_file_read(const char *path, char **out, size_t *n_bytes)
{
    enum ct_status st = CT_OK;
    struct stat info;
    char *data  = NULL;
    size_t used = 0, room;
    int fd      = open(path, O_RDONLY | O_CLOEXEC);

    *out = NULL;
    if (fd < 0)
        return file_refused("open", path);
    if (fstat(fd, &info) != 0)
        CT_TRY_GOTO(file_refused("read", path), st, out);
    if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        (void)file_refused("read", path);
        CT_TRY_GOTO(CT_EINVAL, st, out);
    }
    /* Pipes and /proc files say zero: grow until read() says the end. */
    room = (size_t)info.st_size + 1;
    CT_TRY_GOTO(ct_alloc(room, 1, "file", &data), st, out);
    for (;;) {
        ssize_t n = read(fd, data + used, room - used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            CT_TRY_GOTO(file_refused("read", path), st, out);
        if (n == 0)
            break;
        used += (size_t)n;
        if (used == room) {
            char *more = ct_realloc(data, 2 * room, "file");

            if (!more)
                CT_TRY_GOTO(CT_ENOMEM, st, out);
            data = more;
            room *= 2;
        }
    }
    data[used] = '\0';
    *n_bytes   = used;
    *out       = data;
    data       = NULL;
out:
    ct_free(data);
    close(fd);
    return st;
}

enum ct_status ct_file_temp(const char *path, char **out)
{
    struct ct_text name = { 0 };

    ct_text_addf(&name, "%s.tmp%ld", path, (long)getpid());
    *out = name.s;
    return name.failed ? CT_ENOMEM : CT_OK;
}

void ct_file_discard(const char *temp)
{
    if (temp)
        unlink(temp);
}

static enum ct_status file_sync(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return file_refused("open", path);
    rc = fsync(fd);
    close(fd);
    /* Some file systems cannot sync a folder; the rename is atomic anyway. */
    if (rc != 0 && !(flags & O_DIRECTORY))
        return file_refused("write", path);
    return CT_OK;
}

enum ct_status ct_file_commit(const char *temp, const char *path)
{
    enum ct_status st;
    char *copy = NULL;

    CT_TRY(file_sync(temp, O_RDWR));
    if (rename(temp, path) != 0)
        return file_refused("replace", path);
    copy = ct_strdup(path, "path");
    if (!copy)
        return CT_ENOMEM;
    st = file_sync(dirname(copy), O_RDONLY | O_DIRECTORY);
    ct_free(copy);
    return st;
}

/* A new file, whatever had the name: never through a link that waits there. */
static int file_create(const char *path)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    int fd = open(path, FLAGS, 0666);

    if (fd < 0 && errno == EEXIST && unlink(path) == 0)
        fd = open(path, FLAGS, 0666);
    return fd;
}

static enum ct_status file_put(const char *path, const char *data, size_t n)
{
    int fd = file_create(path);

    if (fd < 0)
        return file_refused("create", path);
    while (n > 0) {
        ssize_t w = write(fd, data, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0) {
            enum ct_status st = file_refused("write", path);

            close(fd);
            return st;
        }
        data += w;
        n -= (size_t)w;
    }
    return close(fd) == 0 ? CT_OK : file_refused("write", path);
}

enum ct_status ct_file_write(const char *path, const void *data,
                             size_t n_bytes)
{
    enum ct_status st;
    char *temp = NULL;

    CT_TRY_GOTO(ct_file_temp(path, &temp), st, out);
    CT_TRY_GOTO(file_put(temp, data, n_bytes), st, out);
    st = ct_file_commit(temp, path);
out:
    if (st != CT_OK)
        ct_file_discard(temp);
    ct_free(temp);
    return st;
}

int64_t ct_file_clock_behind(const char *folder, int64_t now)
{
    struct ct_text path = { 0 };
    char *temp          = NULL;
    int64_t behind      = 0;
    struct stat s;
    int fd;

    ct_text_addf(&path, "%s/clock", folder);
    if (path.failed || ct_file_temp(path.s, &temp) != CT_OK)
        goto out;
    fd = file_create(temp);
    if (fd < 0)
        goto out;
    if (fstat(fd, &s) == 0)
        behind = now - (int64_t)s.st_mtime;
    close(fd);
    ct_file_discard(temp);
out:
    ct_text_fini(&path);
    ct_free(temp);
    return behind;
}

int ct_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum ct_status ct_file_sum(const char *path, uint32_t *crc)
{
    enum { ROOM = 1 << 20 };
    enum ct_status st = CT_OK;
    char *room        = NULL;
    ssize_t n         = 1;
    int fd            = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return file_refused("open", path);
    CT_TRY_GOTO(ct_alloc(ROOM, 1, "file", &room), st, out);
    *crc = 0;
    while (n != 0) {
        n = read(fd, room, ROOM);
        if (n < 0 && errno != EINTR)
            CT_TRY_GOTO(file_refused("read", path), st, out);
        if (n > 0)
            *crc = ct_crc32c(*crc, room, (size_t)n);
    }
out:
    ct_free(room);
    close(fd);
    return st;
}

enum ct_status ct_file_room(const char *path, uint64_t need)
{
    char *copy = ct_strdup(path, "path");
    struct statvfs fs;
    uint64_t room;
    int known;

    if (!copy)
        return CT_ENOMEM;
    known = statvfs(dirname(copy), &fs) == 0;
    room  = known ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
    ct_free(copy);
    /* Some file systems do not say how large they are. */
    if (!known || fs.f_blocks == 0 || room >= need)
        return CT_OK;
    return ct_fail(CT_EIO, "%s needs %.3g MB, and its disk has %.3g MB left",
                   path, (double)need / 1e6, (double)room / 1e6);
}

/* The process that "<name>.tmp<PID>" belongs to; 0: it is another file. */
static long temp_owner(const char *name)
{
    const char *dot = strrchr(name, '.');
    char *end       = NULL;
    long pid;

    if (!dot || strncmp(dot, ".tmp", 4) != 0 || dot[4] < '0' || dot[4] > '9')
        return 0;
    pid = strtol(dot + 4, &end, 10);
    return *end == '\0' && pid > 0 && pid < INT_MAX ? pid : 0;
}

int ct_file_sweep(const char *folder, const char *start)
{
    enum { FRESH_S = 60 };
    DIR *dir = opendir(folder);
    int n    = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        const long owner = temp_owner(e->d_name);
        struct stat info;

        if (owner == 0 || strncmp(e->d_name, start, strlen(start)) != 0 ||
            kill((pid_t)owner, 0) == 0 || errno != ESRCH)
            continue;
        if (fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && time(NULL) - info.st_mtime > FRESH_S &&
            unlinkat(dirfd(dir), e->d_name, 0) == 0)
            n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

enum ct_status ct_file_expect(const char *path)
{
    const size_t n = strlen(path);
    const char *reason;
    char twin[4096];

    if (ct_file_exists(path))
        return CT_OK;
    reason = strerror(errno);
    if (n > 3 && strcmp(path + n - 3, ".h5") == 0)
        snprintf(twin, sizeof(twin), "%.*s", (int)n - 3, path);
    else
        snprintf(twin, sizeof(twin), "%s.h5", path);
    if (ct_file_exists(twin))
        return ct_fail(CT_ENOTFOUND, "cannot open %s: %s; did you mean %s?",
                       path, reason, twin);
    return ct_fail(CT_ENOTFOUND, "cannot open %s: %s", path, reason);
}

/* Eight bytes a step by tables; built once, read by every thread after. */
static uint32_t crc_table[8][256];

__attribute__((constructor)) static void crc_build(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (0x82F63B78u & (0u - (c & 1)));
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^
                              crc_table[0][crc_table[t - 1][i] & 255];
}

uint32_t ct_crc32c(uint32_t crc, const void *data, size_t n_bytes)
{
    const unsigned char *p = data;

    crc = ~crc;
    for (; n_bytes >= 8; n_bytes -= 8, p += 8) {
        uint32_t lo = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 |
                             (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        crc = crc_table[7][lo & 255] ^ crc_table[6][lo >> 8 & 255] ^
              crc_table[5][lo >> 16 & 255] ^ crc_table[4][lo >> 24] ^
              crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^
              crc_table[0][p[7]];
    }
    for (; n_bytes; n_bytes--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
    return ~crc;
}
