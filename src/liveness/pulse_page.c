/* pulse_page.c - a rank's pulse in memory that other processes map. */
#include "liveness/pulse_page.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"

enum ct_status live_page_create(int *fd, struct live_page **out)
{
    void *p;

    *fd = memfd_create("cortado pulse", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, sizeof(**out)) != 0)
        return ct_fail(CT_EIO, "cannot make memory for this rank's pulse");
    p = mmap(NULL, sizeof(**out), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED)
        return ct_fail(CT_EIO, "cannot map this rank's pulse");
    *out          = p;
    (*out)->nonce = ct_entropy();
    ct_pulse_init(&(*out)->pulse);
    return CT_OK;
}

void live_page_destroy(int fd, struct live_page *p)
{
    live_page_unmap(p);
    if (fd >= 0)
        close(fd);
}

struct live_page *live_page_map(int pid, int fd)
{
    char path[64];
    void *p;
    int mine;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    mine = open(path, O_RDONLY | O_CLOEXEC);
    if (mine < 0)
        return NULL;
    /* The number may belong to another, shorter file now. */
    p = lseek(mine, 0, SEEK_END) >= (off_t)sizeof(struct live_page)
            ? mmap(NULL, sizeof(struct live_page), PROT_READ, MAP_SHARED, mine,
                   0)
            : MAP_FAILED;
    close(mine);
    return p == MAP_FAILED ? NULL : p;
}

void live_page_unmap(struct live_page *p)
{
    if (p)
        munmap(p, sizeof(*p));
}
