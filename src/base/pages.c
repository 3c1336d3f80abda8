/* pages.c - memory in large pages. */
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Since Linux 6.1, which is newer than some C libraries. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static uintptr_t up(uintptr_t at)
{
    return (at + CT_LARGE_PAGE - 1) / CT_LARGE_PAGE * CT_LARGE_PAGE;
}

/* A large page too much is mapped, and what sticks out at either end is given
 * back. */
void *ct_pages_map(size_t bytes, int protect)
{
    const size_t page  = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    char *p = mmap(NULL, whole + CT_LARGE_PAGE, protect,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (p == MAP_FAILED)
        return NULL;
    before = up((uintptr_t)p) - (uintptr_t)p;
    if (before > 0)
        (void)munmap(p, before);
    (void)munmap(p + before + whole, CT_LARGE_PAGE - before);
    return p + before;
}

void ct_pages_enlarge(const void *at, size_t bytes)
{
    const size_t page     = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = up((uintptr_t)at);
    const uintptr_t end   = ((uintptr_t)at + bytes) / CT_LARGE_PAGE *
                            CT_LARGE_PAGE;

    /* The system joins pages that are there; of a block one is enough. */
    for (uintptr_t p = first; p < end; p += CT_LARGE_PAGE)
        if (madvise((void *)p, page, MADV_POPULATE_READ) != 0)
            return; /* older than large pages of shared memory */
    if (first < end)
        (void)madvise((void *)first, end - first, MADV_COLLAPSE);
}
