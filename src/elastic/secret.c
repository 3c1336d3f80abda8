/* secret.c - what the processes of a job know, and nobody else. */
#include "elastic/secret.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

enum { DIGITS = 2 * SEAL_SECRET_BYTES };

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static enum ct_status parse(const char *text, const char *from,
                            uint8_t out[SEAL_SECRET_BYTES])
{
    size_t n = 0;

    while (n < DIGITS && digit(text[n]) >= 0)
        n++;
    if (n < DIGITS || (text[DIGITS] != '\0' &&
                       !isspace((unsigned char)text[DIGITS])))
        return ct_fail(CT_EPARSE, "%s: a secret is %d digits, 0 to 9 and a to "
                       "f; remove the file to have one made", from, DIGITS);
    for (int i = 0; i < SEAL_SECRET_BYTES; i++)
        out[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
    return CT_OK;
}

enum ct_status secret_default_path(char **out)
{
    const char *home    = getenv("HOME");
    struct ct_text text = { 0 };

    if (!home || !home[0])
        return ct_fail(CT_EINVAL, "HOME is not set: say where the job's "
                       "secret is by --secret_file");
    ct_text_addf(&text, "%s/.cortado/secret", home);
    if (text.failed)
        return CT_ENOMEM;
    *out = text.s;
    return CT_OK;
}

/* Whole or not at all: written beside it, then linked. */
static enum ct_status make_secret(const char *path)
{
    uint8_t secret[SEAL_SECRET_BYTES];
    char text[DIGITS + 2];
    struct ct_text temp = { 0 };
    uint64_t own;
    enum ct_status st   = CT_OK;
    bool well           = false;
    int fd;

    seal_draw(secret, sizeof(secret));
    for (int i = 0; i < SEAL_SECRET_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", secret[i]);
    text[DIGITS] = '\n';
    seal_draw(&own, sizeof(own));
    ct_text_addf(&temp, "%s.%016llx", path, (unsigned long long)own);
    if (temp.failed)
        return CT_ENOMEM;
    fd = open(temp.s, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
              0600);
    if (fd >= 0) {
        well = write(fd, text, DIGITS + 1) == DIGITS + 1 && fsync(fd) == 0;
        close(fd);
        well = well && (link(temp.s, path) == 0 || errno == EEXIST);
    }
    if (!well)
        st = ct_fail(CT_EIO, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        unlink(temp.s);
    ct_text_fini(&temp);
    return st;
}

/* The folder that it lies in, for its owner alone. */
static void make_folder(const char *path)
{
    const char *end = strrchr(path, '/');
    char *folder    = NULL;

    if (!end || end == path ||
        ct_alloc((size_t)(end - path) + 1, 1, "a folder", &folder) != CT_OK)
        return;
    memcpy(folder, path, (size_t)(end - path));
    (void)!mkdir(folder, 0700); /* whoever cannot hears of it soon */
    ct_free(folder);
}

enum ct_status secret_read_line(uint8_t out[SEAL_SECRET_BYTES], char *more,
                                size_t bytes)
{
    char text[4 * DIGITS] = "";
    size_t n              = 0;

    while (n < sizeof(text) - 1 && read(STDIN_FILENO, text + n, 1) == 1 &&
           text[n] != '\n')
        n++;
    text[n] = '\0';
    if (bytes > 0)
        snprintf(more, bytes, "%s", n > DIGITS ? text + DIGITS + 1 : "");
    return parse(text, "standard input", out);
}

enum ct_status secret_read(const char *path, bool make,
                           uint8_t out[SEAL_SECRET_BYTES])
{
    char text[DIGITS + 2] = "";
    struct stat info;
    ssize_t n;
    int fd;

    if (strcmp(path, "-") == 0)
        return secret_read_line(out, NULL, 0);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make) {
        make_folder(path);
        CT_TRY(make_secret(path));
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        return ct_fail(CT_EIO, "%s: %s", path, strerror(errno));
    /* What another user hands us through a group, as Kubernetes does, cannot be
     * ours alone. */
    if (fstat(fd, &info) != 0 ||
        (info.st_mode & (info.st_uid == geteuid() ? 077u : 07u)) != 0) {
        close(fd);
        return ct_fail(CT_EINVAL, "%s: others may read this secret; "
                       "chmod 600 it, or remove it to have another one made",
                       path);
    }
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n < 0 ? ct_fail(CT_EIO, "%s: %s", path, strerror(errno))
                 : parse(text, path, out);
}
