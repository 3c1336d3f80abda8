/* test_pages.c - large pages, beside what a file has without them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pages.h"
#include "testing/test.h"

enum { BLOCKS = 4, BYTES = BLOCKS * CT_LARGE_PAGE + 12345 };

/* A file in memory, mapped where large pages may begin; `bytes` of it. */
static unsigned char *map(int fd, size_t bytes)
{
    void *at = ct_pages_map(bytes, PROT_NONE);

    ASSERT(at != NULL);
    ASSERT((uintptr_t)at % CT_LARGE_PAGE == 0);
    at = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    ASSERT(at != MAP_FAILED);
    return at;
}

static int file_of(size_t bytes)
{
    const int fd = memfd_create("pages", MFD_CLOEXEC);

    ASSERT(fd >= 0);
    ASSERT_INT(0, ftruncate(fd, (off_t)bytes));
    return fd;
}

/* KB in large pages of the mapping that begins at `at`. */
static long large_kb(const void *at)
{
    FILE *f   = fopen("/proc/self/smaps", "r");
    bool here = false;
    char line[512];
    long kb = 0;

    ASSERT(f != NULL);
    while (fgets(line, sizeof(line), f)) {
        unsigned long first, end;

        if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
            here = first == (unsigned long)(uintptr_t)at;
        else if (here)
            (void)!sscanf(line, "ShmemPmdMapped: %ld", &kb);
    }
    fclose(f);
    return kb;
}

/* Can this system make them?  Asked as it is done, of one block. */
static bool are_there(void)
{
    const int fd      = file_of(CT_LARGE_PAGE);
    unsigned char *at = map(fd, CT_LARGE_PAGE);
    bool yes;

    at[0] = 1;
    yes   = madvise(at, CT_LARGE_PAGE, 25 /* MADV_COLLAPSE */) == 0;
    munmap(at, CT_LARGE_PAGE);
    close(fd);
    return yes;
}

static unsigned char value(size_t i)
{
    return (unsigned char)(i * 2654435761u >> 13);
}

TEST(pages, private_memory_is_zero_and_begins_where_a_large_page_may)
{
    for (size_t bytes = 1; bytes < 3 * CT_LARGE_PAGE; bytes += 777777) {
        unsigned char *p = ct_pages_map(bytes, PROT_READ | PROT_WRITE);

        ASSERT(p != NULL);
        ASSERT((uintptr_t)p % CT_LARGE_PAGE == 0);
        for (size_t i = 0; i < bytes; i += 4096)
            ASSERT_INT(0, p[i]);
        p[bytes - 1] = 1;
        ASSERT_INT(0, munmap(p, bytes));
    }
}

TEST(pages, blocks_of_a_file_become_large_wherever_they_are_whole)
{
    const int fd      = file_of(BYTES);
    unsigned char *at = map(fd, BYTES), *beside = map(fd, BYTES);

    for (size_t i = 0; i < BYTES; i += 1000)
        at[i] = value(i);
    ct_pages_enlarge(at, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        ASSERT_INT(i % 1000 == 0 ? value(i) : 0, beside[i]);
    if (are_there()) {
        ASSERT_INT(BLOCKS * CT_LARGE_PAGE / 1024, large_kb(at));
        ASSERT_INT(BLOCKS * CT_LARGE_PAGE / 1024, large_kb(beside));
    }
    munmap(at, BYTES);
    munmap(beside, BYTES);
    close(fd);
}

/* Neither is a block begun outside of the bytes, nor are they read. */
TEST(pages, what_lies_outside_stays_as_it_is)
{
    const int fd      = file_of(BYTES);
    unsigned char *at = map(fd, BYTES);

    ct_pages_enlarge(at + 1, 2 * CT_LARGE_PAGE - 1);
    if (are_there())
        ASSERT_INT(CT_LARGE_PAGE / 1024, large_kb(at));
    ct_pages_enlarge(at + 1, CT_LARGE_PAGE - 1); /* no whole block */
    ct_pages_enlarge(at + CT_LARGE_PAGE, 0);
    if (are_there())
        ASSERT_INT(CT_LARGE_PAGE / 1024, large_kb(at));
    munmap(at, BYTES);
    close(fd);
}

struct writer {
    _Atomic uint32_t *at;
    atomic_bool       end;
    uint32_t          n; /* times that it has added 1 in each page */
};

static void *write_on(void *arg)
{
    struct writer *w = arg;

    for (w->n = 0; !atomic_load(&w->end); w->n++)
        for (size_t i = 0; i < BYTES / sizeof(*w->at); i += 1024)
            atomic_fetch_add(&w->at[i], 1);
    return NULL;
}

/* The writer has a mapping of its own, as another rank has. */
TEST(pages, others_write_on_while_blocks_become_large)
{
    for (int k = 0; k < 10; k++) {
        const int fd      = file_of(BYTES);
        unsigned char *at = map(fd, BYTES), *beside = map(fd, BYTES);
        struct writer w   = { .at = (void *)beside };
        pthread_t thread;

        ASSERT_INT(0, pthread_create(&thread, NULL, write_on, &w));
        ct_pages_enlarge(at, BYTES);
        atomic_store(&w.end, true);
        pthread_join(thread, NULL);
        for (size_t i = 0; i < BYTES / sizeof(*w.at); i++)
            ASSERT_INT(i % 1024 == 0 ? w.n : 0, w.at[i]);
        munmap(at, BYTES);
        munmap(beside, BYTES);
        close(fd);
    }
}
