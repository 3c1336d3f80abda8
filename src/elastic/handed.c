/* handed.c - what an agent hands down to a rank that is another program. */
#include "elastic/handed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "elastic/bytes.h"

/* The first bytes of the file; the last one counts its forms. */
static const char magic[8] = { 'c', 'o', 'r', 't', 'r', 'a', 'n', 4 };
static const char variable[] = "CORTADO_HANDED";

enum {
    DOOR_BYTES  = 2 + 16 + 2,
    FILE_BYTES  = 4096, /* no name of a file is longer */
    FIXED_BYTES = sizeof(magic) + 4 + SEAL_SECRET_BYTES + 4 + 4 + 1 +
                  2 * POST_JOB_BYTES + 8 + 2 + 4 + 4 + 8 + 8 + 8 + 2 +
                  MEMBER_DOORS * DOOR_BYTES + 2 + FILE_BYTES,
    MOST_BYTES  = 1 << 20
};

static const double micro = 1e-6; /* seconds are handed down in these */

/* ---- Giving. */

static size_t write_config(const struct member_config *c, uint8_t *out)
{
    const size_t n  = c->file ? strlen(c->file) : 0;
    struct writer w = { out };

    put_bytes(&w, magic, sizeof(magic));
    put(&w, (uint64_t)getpid(), 4);
    put_bytes(&w, c->secret, SEAL_SECRET_BYTES);
    put(&w, (uint32_t)c->door, 4);
    put(&w, (uint32_t)c->will, 4);
    put(&w, c->founds, 1);
    put_bytes(&w, c->before, sizeof(c->before));
    put_bytes(&w, c->seeks, sizeof(c->seeks));
    put(&w, c->agent, 8);
    put(&w, c->agent_port, 2);
    put(&w, (uint32_t)c->least, 4);
    put(&w, (uint32_t)c->most, 4);
    put(&w, (uint64_t)(c->suspect / micro), 8);
    put(&w, (uint64_t)(c->orphan / micro), 8);
    put(&w, (uint64_t)(c->stall / micro), 8);
    put(&w, (uint64_t)c->n_knock, 2);
    for (int i = 0; i < c->n_knock; i++) {
        put(&w, (uint64_t)c->knock[i].at.family, 2);
        put_bytes(&w, c->knock[i].at.ip, 16);
        put_bytes(&w, &c->knock[i].port, 2);
    }
    put(&w, n < FILE_BYTES ? n : 0, 2);
    if (n > 0 && n < FILE_BYTES)
        put_bytes(&w, c->file, n);
    return (size_t)(w.at - out);
}

/* Programs inherit it. */
static bool keep_open(int fd)
{
    return fd < 0 || fcntl(fd, F_SETFD, 0) == 0;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    return write(fd, data, bytes) == (ssize_t)bytes;
}

enum ct_status handed_give(const struct member_config *c)
{
    const char *more  = c->description ? c->description : "";
    const int fd      = memfd_create("cortado rank", 0);
    uint8_t bytes[FIXED_BYTES];
    const size_t n = write_config(c, bytes);
    char number[16];

    snprintf(number, sizeof(number), "%d", fd);
    return fd >= 0 && write_all(fd, bytes, n) &&
                   write_all(fd, more, strlen(more)) && keep_open(c->door) &&
                   keep_open(c->will) && setenv(variable, number, 1) == 0
               ? CT_OK
               : ct_fail(CT_EIO, "what a rank is handed: %s", strerror(errno));
}

/* ---- Taking. */

/* -1: there is none.  Children of a rank have the variable, too. */
static int find_file(void)
{
    const char *text = getenv(variable);
    char start[sizeof(magic)], *end;
    long fd;

    if (!text || !*text)
        return -1;
    fd = strtol(text, &end, 10);
    if (*end || fd < 0 || fd > INT32_MAX ||
        pread((int)fd, start, sizeof(start), 0) != sizeof(start) ||
        memcmp(start, magic, sizeof(magic)) != 0)
        return -1;
    return (int)fd;
}

bool handed_is_there(void)
{
    return find_file() >= 0;
}

/* NULL: there is none. */
static enum ct_status read_name(struct reader *r, char **out)
{
    const size_t n = (size_t)take(r, 2);

    if (n >= FILE_BYTES)
        r->short_of = true;
    if (n == 0 || r->short_of)
        return CT_OK;
    CT_TRY(ct_alloc(n + 1, 1, "a file of addresses", out));
    take_bytes(r, (uint8_t *)*out, n);
    return CT_OK;
}

static bool is_family(int family)
{
    return family == AF_INET || family == AF_INET6;
}

static enum ct_status read_config(struct reader *r, struct handed *out)
{
    struct member_config *c = &out->config;
    uint8_t start[sizeof(magic)];

    take_bytes(r, start, sizeof(start));
    if ((pid_t)take(r, 4) != getpid())
        return ct_fail(CT_EINVAL, "this process is not the one that its agent "
                       "started but a child of that: let the program be the "
                       "rank itself (in a shell: exec python3 ...)");
    take_bytes(r, out->secret, sizeof(out->secret));
    c->door    = (int32_t)take(r, 4);
    c->will    = (int32_t)take(r, 4);
    c->founds  = take(r, 1) != 0;
    take_bytes(r, c->before, sizeof(c->before));
    take_bytes(r, c->seeks, sizeof(c->seeks));
    c->agent      = take(r, 8);
    c->agent_port = (uint16_t)take(r, 2);
    c->least   = (int32_t)take(r, 4);
    c->most    = (int32_t)take(r, 4);
    c->suspect = (double)take(r, 8) * micro;
    c->orphan  = (double)take(r, 8) * micro;
    c->stall   = (double)take(r, 8) * micro;
    c->n_knock = (int)take(r, 2);
    if (c->n_knock > MEMBER_DOORS)
        r->short_of = true;
    for (int i = 0; i < c->n_knock && !r->short_of; i++) {
        c->knock[i].at.family = (uint16_t)take(r, 2);
        take_bytes(r, c->knock[i].at.ip, 16);
        take_bytes(r, &c->knock[i].port, 2);
        r->short_of |= !is_family(c->knock[i].at.family);
    }
    CT_TRY(read_name(r, &out->file));
    return r->short_of ? ct_fail(CT_EPARSE, "what the agent handed down is of "
                                 "another version of this program")
                       : CT_OK;
}

static enum ct_status take_file(int fd, struct handed *out)
{
    struct reader r = { 0 };
    uint8_t *bytes  = NULL;
    struct stat about;
    enum ct_status st;

    if (fstat(fd, &about) != 0 || about.st_size > MOST_BYTES)
        return ct_fail(CT_EIO, "what the agent handed down cannot be read");
    CT_TRY(ct_alloc((size_t)about.st_size + 1, 1, "a rank's part", &bytes));
    if (pread(fd, bytes, (size_t)about.st_size, 0) != about.st_size) {
        ct_free(bytes);
        return ct_fail(CT_EIO, "what the agent handed down cannot be read");
    }
    r.at  = bytes;
    r.end = bytes + about.st_size;
    st    = read_config(&r, out);
    if (st == CT_OK) {
        out->description = ct_strdup((const char *)r.at, "a description");
        st = out->description ? CT_OK : CT_ENOMEM;
    }
    ct_free(bytes);
    return st;
}

/* What this process starts has nothing to do with the job. */
static void keep_to_itself(int fd)
{
    if (fd >= 0)
        (void)!fcntl(fd, F_SETFD, FD_CLOEXEC);
}

enum ct_status handed_take(struct handed *out)
{
    const int fd = find_file();
    enum ct_status st;

    memset(out, 0, sizeof(*out));
    if (fd < 0)
        return ct_fail(CT_ENOTFOUND, "no agent has started this process");
    st = take_file(fd, out);
    if (st != CT_OK)
        return st;
    close(fd);
    unsetenv(variable);
    keep_to_itself(out->config.door);
    keep_to_itself(out->config.will);
    out->config.secret      = out->secret;
    out->config.description = out->description;
    out->config.file        = out->file;
    return CT_OK;
}

void handed_fini(struct handed *h)
{
    ct_free(h->description);
    ct_free(h->file);
    memset(h, 0, sizeof(*h));
}
