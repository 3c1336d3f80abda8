/* will_page.c - what a member is bound by, in memory that outlives it. */
#include "elastic/will_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct will_page *will_page_map(int fd)
{
    void *at = mmap(NULL, sizeof(struct will_page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

enum ct_status will_page_create(int *fd, struct will_page **out)
{
    *fd = memfd_create("cortado will", 0);
    if (*fd < 0 || ftruncate(*fd, sizeof(struct will_page)) != 0 ||
        !(*out = will_page_map(*fd))) {
        const int error = errno;

        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return ct_fail(CT_EIO, "a page of shared memory: %s", strerror(error));
    }
    return CT_OK;
}

struct will_page *will_page_map_of(uint32_t pid, uint32_t fd)
{
    struct will_page *p = NULL;
    char path[64];
    int own;

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", (unsigned)pid,
             (unsigned)fd);
    own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return NULL;
    if (lseek(own, 0, SEEK_END) >= (off_t)sizeof(struct will_page))
        p = will_page_map(own);
    close(own);
    return p;
}

void will_page_unmap(struct will_page *p)
{
    if (p)
        munmap(p, sizeof(*p));
}

struct will_place *will_page_next(struct will_page *p)
{
    return &p->place[(atomic_load(&p->n_written) + 1) % 2];
}

void will_page_publish(struct will_page *p)
{
    atomic_fetch_add(&p->n_written, 1);
}

const struct will_place *will_page_last(const struct will_page *p)
{
    return &p->place[atomic_load(&p->n_written) % 2];
}
