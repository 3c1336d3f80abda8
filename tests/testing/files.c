/* files.c - files for tests. */
#include "testing/files.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/hdf5.h"

const char *test_format(const char *fmt, ...)
{
    char *text = ct_malloc(8192, "test text");
    va_list ap;

    test_defer(ct_free, text);
    va_start(ap, fmt);
    ASSERT(vsnprintf(text, 8192, fmt, ap) < 8192);
    va_end(ap);
    return text;
}

const char *test_path(const char *name)
{
    return test_format("%s/%s", test_folder(), name);
}

void test_write(const char *path, const void *data, size_t n)
{
    ASSERT_OK(ct_file_write(path, data, n));
}

struct ct_bytes test_read(const char *path)
{
    struct ct_bytes b = { 0 };
    char *data;

    ASSERT_OK(ct_file_read(path, &data, &b.n));
    test_defer(ct_free, data);
    b.ptr = data;
    return b;
}

static void copy_file(const char *from, const char *to)
{
    struct ct_bytes b = test_read(from);

    test_write(to, b.ptr, b.n);
}

const char *test_copy(const char *below)
{
    const char *from = test_format("%s", test_recorded(below));
    const char *name = strrchr(from, '/') + 1;
    const char *to   = test_path(name);
    struct stat info;
    struct dirent *e;
    DIR *folder;

    ASSERT(stat(from, &info) == 0);
    if (!S_ISDIR(info.st_mode)) {
        copy_file(from, to);
        return to;
    }
    ASSERT(mkdir(to, 0755) == 0);
    folder = opendir(from);
    ASSERT(folder);
    while ((e = readdir(folder)))
        if (e->d_name[0] != '.')
            copy_file(test_format("%s/%s", from, e->d_name),
                      test_format("%s/%s", to, e->d_name));
    closedir(folder);
    return to;
}

void test_h5_equal(const char *file, const char *name, const float *got,
                   int64_t n, float tol)
{
    const char *path = test_format("%s", test_recorded(file));
    float *want      = ct_malloc((size_t)n * sizeof(*want), "test values");
    struct ct_hdf5 *h;

    test_defer(ct_free, want);
    ASSERT_OK(ct_hdf5_open(path, &h));
    ASSERT_OK(ct_hdf5_read(h, name, n, want));
    ASSERT_OK(ct_hdf5_close(h));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= tol))
            FAIL("%s %s: value %lld is %.9g, wanted %.9g", file, name,
                 (long long)i, (double)got[i], (double)want[i]);
}

/* Is `fd` open, and the file with that number?  By its name: it may be that of
 * another thread, and the thread sanitizer takes fstat for a use of it. */
static bool is_open(int fd, unsigned long inode)
{
    char path[64];
    struct stat now;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return stat(path, &now) == 0 && (unsigned long)now.st_ino == inode;
}

static int count_stale(const char *epoll)
{
    char path[300], line[256];
    FILE *f;
    int n = 0;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", epoll);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, "ino:");
        int fd;

        if (at && sscanf(line, "tfd: %d", &fd) == 1)
            n += !is_open(fd, strtoul(at + 4, NULL, 16));
    }
    if (f)
        fclose(f);
    return n;
}

int test_n_stale_events(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *d;
    int n = 0;

    ASSERT(dir);
    while ((d = readdir(dir))) {
        char path[300], what[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%s", d->d_name);
        if (readlink(path, what, sizeof(what) - 1) > 0 &&
            strcmp(what, "anon_inode:[eventpoll]") == 0)
            n += count_stale(d->d_name);
    }
    closedir(dir);
    return n;
}
