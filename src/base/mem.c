/* mem.c - named allocations.
 *
 * Each block is preceded by one 64-byte header that links it into a list, so
 * that a leak can be reported by name.  Allocation is rare by design (a net
 * allocates at build and reshape only), so one lock is enough.
 *
 *     | name bytes prev next ... (64 bytes) | the caller's bytes ... |
 *
 * Large blocks are mapped on their own, in huge pages where the system has
 * them.  Such memory comes zeroed, costs nothing until it is touched and goes
 * back to the system when it is freed.  Under the address sanitizer all comes
 * from the heap, which it watches. */
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/pages.h"
#include "cortado/log.h"

struct header {
    const char    *name;
    size_t         bytes;
    struct header *prev, *next;
    size_t         mapped_bytes; /* 0: from the heap */
};

#if !defined(__SANITIZE_ADDRESS__) && defined(__has_feature)
#if __has_feature(address_sanitizer) /* clang's word for it */
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
enum { MAP_LARGE = 0 };
#else
enum { MAP_LARGE = 1 };
#endif

static pthread_mutex_t mem_lock = PTHREAD_MUTEX_INITIALIZER;
CT_FORK_SAFE(mem_lock, CT_FORK_MEMORY)
static struct header mem_list   = { NULL, 0, &mem_list, &mem_list, 0 };
static struct ct_mem_stats mem_stats;

_Static_assert(sizeof(struct header) <= CT_ALIGN, "the header fits its slot");

static void mem_link(struct header *h)
{
    pthread_mutex_lock(&mem_lock);
    h->prev       = mem_list.prev;
    h->next       = &mem_list;
    h->prev->next = h;
    h->next->prev = h;
    mem_stats.n_calls++;
    mem_stats.n_live++;
    mem_stats.live_bytes += h->bytes;
    if (mem_stats.live_bytes > mem_stats.peak_bytes)
        mem_stats.peak_bytes = mem_stats.live_bytes;
    pthread_mutex_unlock(&mem_lock);
}

static void mem_unlink(struct header *h)
{
    pthread_mutex_lock(&mem_lock);
    h->prev->next = h->next;
    h->next->prev = h->prev;
    mem_stats.n_live--;
    mem_stats.live_bytes -= h->bytes;
    pthread_mutex_unlock(&mem_lock);
}

static struct header *mem_header(void *p)
{
    return (struct header *)((char *)p - CT_ALIGN);
}

/* Blocks of at least a large page are mapped. */
static struct header *mem_map(size_t whole)
{
    struct header *h = ct_pages_map(whole, PROT_READ | PROT_WRITE);

    if (!h)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(h, whole, MADV_HUGEPAGE); /* a wish, not a condition */
#endif
    h->mapped_bytes = whole;
    return h;
}

static struct header *mem_take(size_t bytes)
{
    enum { PAGE = 4096 };
    size_t whole = bytes + CT_ALIGN;
    struct header *h;

    if (bytes > PTRDIFF_MAX - 2 * CT_LARGE_PAGE)
        return NULL;
    if (MAP_LARGE && whole >= CT_LARGE_PAGE)
        return mem_map((whole + PAGE - 1) / PAGE * PAGE);
    h = aligned_alloc(CT_ALIGN, (whole + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN);
    if (h)
        h->mapped_bytes = 0;
    return h;
}

void *ct_malloc(size_t bytes, const char *name)
{
    struct header *h = mem_take(bytes);

    if (!h) {
        (void)ct_fail(CT_ENOMEM, "no memory for %zu bytes (%s)", bytes, name);
        return NULL;
    }
    h->name  = name;
    h->bytes = bytes;
    mem_link(h);
    return (char *)h + CT_ALIGN;
}

void *ct_calloc(size_t n, size_t size, const char *name)
{
    size_t bytes;
    void *p;

    if (!ct_mul_fits(n, size, &bytes)) {
        (void)ct_fail(CT_ENOMEM, "no memory for %zu x %zu bytes (%s)", n, size,
                      name);
        return NULL;
    }
    p = ct_malloc(bytes, name);
    if (p && !mem_header(p)->mapped_bytes)
        memset(p, 0, bytes);
    return p;
}

void *ct_realloc(void *p, size_t bytes, const char *name)
{
    void *q = ct_malloc(bytes, name);

    if (q && p) {
        size_t old = mem_header(p)->bytes;

        memcpy(q, p, old < bytes ? old : bytes);
        ct_free(p);
    }
    return q;
}

void ct_mem_clear(void *p, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)p, end = from + bytes;
    const uintptr_t first = (from + page - 1) / page * page;
    const uintptr_t last  = end / page * page;

    if (first >= last ||
        madvise((void *)first, last - first, MADV_DONTNEED) != 0) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, first - from);
    memset((void *)last, 0, end - last);
}

void ct_free(void *p)
{
    struct header *h;

    if (!p)
        return;
    h = mem_header(p);
    mem_unlink(h);
    if (h->mapped_bytes)
        (void)munmap(h, h->mapped_bytes);
    else
        free(h);
}

char *ct_strdup(const char *s, const char *name)
{
    size_t bytes = strlen(s) + 1;
    char *copy   = ct_malloc(bytes, name);

    if (copy)
        memcpy(copy, s, bytes);
    return copy;
}

enum ct_status ct_alloc(size_t n, size_t size, const char *name, void *out)
{
    void *p = ct_calloc(n, size, name);

    memcpy(out, &p, sizeof(p));
    return p ? CT_OK : CT_ENOMEM;
}

struct ct_mem_stats ct_mem_stats(void)
{
    struct ct_mem_stats s;

    pthread_mutex_lock(&mem_lock);
    s = mem_stats;
    pthread_mutex_unlock(&mem_lock);
    return s;
}

uint64_t ct_mem_report_leaks(void)
{
    uint64_t n = 0;

    pthread_mutex_lock(&mem_lock);
    for (struct header *h = mem_list.next; h != &mem_list; h = h->next, n++)
        CT_WARN("leak: %zu bytes (%s)", h->bytes, h->name);
    pthread_mutex_unlock(&mem_lock);
    return n;
}
