/* window.c - shared memory without a name, and waiting in it.
 *
 *     memory:  head | a line a rank | the caller's bytes
 *
 * The first rank of a host makes the file and tells the others its process
 * and descriptor; they open it as /proc/PROCESS/fd/DESCRIPTOR and know it by
 * a random number in its head.  Each rank holds a lock on one byte of the
 * file; the kernel lets go of it when the process ends, which is how a dead
 * rank shows. */
#include "comm/window.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/mem.h"
#include "base/pages.h"
#include "base/rng.h"
#include "comm/coll/coll.h"
#include "comm/wait.h"
#include "device/impl.h"

/* With a core for each rank, waiting costs nobody anything and waking costs
 * time: a virtual core that sleeps may get its real one back milliseconds
 * late.  On crowded cores a rank that waits gives its turn away at once. */
static const struct ct_pace roomy = { .spin_s = 20e-6, .yield_s = 50e-3 },
                            tight = { .spin_s = 0, .yield_s = 50e-6 };

enum { NAP_NS = 5000000, LARGE = 16 << 20 };

struct window_rank {
    _Alignas(64) atomic_bool left;
    atomic_bool dropped; /* ranks that are threads: it has dropped the window,
                          * which ct_window_is_free_of() asks */
    cpu_set_t cores; /* that this rank may run on */
};

struct window_head {
    uint64_t   token;
    struct window_head *next; /* of those of threads */
    int        n_users;       /* threads of one process: the last one frees */
    atomic_int aborted_by; /* a rank + 1; 0: nobody */
    _Alignas(64) atomic_uint bell;
    atomic_uint n_asleep;
    struct window_rank rank[];
};

/* What the first rank of a host tells the others. */
struct card {
    uint64_t token;
    int64_t  process, descriptor;
};

/* The windows of ranks that are threads.  A card may come when the one that
 * wrote it has failed and freed its window: then it is not here any more. */
static struct {
    pthread_mutex_t     lock;
    struct window_head *first;
} of_threads = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool threads_make(struct ct_window *w)
{
    w->head = ct_calloc(1, w->mapped_bytes, "window");
    if (!w->head)
        return false;
    w->head->n_users = 1;
    w->head->token   = ct_entropy() | 1;
    pthread_mutex_lock(&of_threads.lock);
    w->head->next    = of_threads.first;
    of_threads.first = w->head;
    pthread_mutex_unlock(&of_threads.lock);
    return true;
}

static bool threads_open(struct ct_window *w, const struct card *card)
{
    struct window_head *h;

    pthread_mutex_lock(&of_threads.lock);
    h = of_threads.first;
    while (h && h->token != card->token)
        h = h->next;
    if (h)
        h->n_users++;
    pthread_mutex_unlock(&of_threads.lock);
    w->head = h;
    return h != NULL;
}

static void threads_drop(struct window_head *h)
{
    struct window_head **at = &of_threads.first;
    bool last;

    pthread_mutex_lock(&of_threads.lock);
    last = --h->n_users == 0;
    while (last && *at != h)
        at = &(*at)->next;
    if (last)
        *at = h->next;
    pthread_mutex_unlock(&of_threads.lock);
    if (last)
        ct_free(h);
}

static size_t head_bytes(int n_ranks)
{
    return sizeof(struct window_head) +
           (size_t)n_ranks * sizeof(struct window_rank);
}

/* Large pages of the file are large ones here, too, if it begins where one
 * may. */
static void *map_file(int fd, size_t bytes)
{
    void *at = ct_pages_map(bytes, PROT_NONE), *p;

    if (!at)
        return MAP_FAILED;
    p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (p != MAP_FAILED)
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* where it can be had */
    return p;
}

static bool window_map(struct ct_window *w)
{
    void *p = map_file(w->fd, w->mapped_bytes);

    if (p == MAP_FAILED)
        return false;
    w->head = p;
    return true;
}

/* Finds all pages of the bytes from `first` to `end` of a mapping of `bytes` at
 * once.  False: the system does not know how, and finds each as it is used. */
static bool find_pages(void *mapping, size_t bytes, size_t first, size_t end,
                       int advice)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t from = first / CT_LARGE_PAGE * CT_LARGE_PAGE;
    const size_t to   = (end + CT_LARGE_PAGE - 1) / CT_LARGE_PAGE *
                        CT_LARGE_PAGE;

    if (ct_impl_allowed("pages", "large"))
        ct_pages_enlarge((char *)mapping + from,
                         (to < bytes ? to : bytes) - from);
    first = first / page * page;
    return madvise((char *)mapping + first, end - first, advice) == 0;
}

struct ct_spare *ct_spare_create(size_t bytes)
{
    struct ct_spare *s = ct_calloc(1, sizeof(*s), "a window to come");

    if (!s)
        return NULL;
    s->bytes  = bytes;
    s->memory = MAP_FAILED;
    s->fd     = memfd_create("cortado", MFD_CLOEXEC);
    if (s->fd >= 0 && ftruncate(s->fd, (off_t)bytes) == 0)
        s->memory = map_file(s->fd, bytes);
    if (s->memory != MAP_FAILED &&
        find_pages(s->memory, bytes, 0, bytes, MADV_POPULATE_WRITE))
        return s;
    ct_spare_destroy(s);
    return NULL;
}

void ct_spare_destroy(struct ct_spare *s)
{
    if (!s)
        return;
    if (s->memory != MAP_FAILED)
        munmap(s->memory, s->bytes);
    if (s->fd >= 0)
        close(s->fd);
    ct_free(s);
}

/* What is mapped already needs not be so again, page by page. */
static bool window_take(struct ct_window *w, struct ct_spare *s)
{
    void *p;

    if (!s || ftruncate(s->fd, (off_t)w->mapped_bytes) != 0)
        return false;
    p = ct_pages_map(w->mapped_bytes, PROT_NONE);
    if (p)
        p = mremap(s->memory, s->bytes, w->mapped_bytes,
                   MREMAP_MAYMOVE | MREMAP_FIXED, p);
    if (!p || p == MAP_FAILED)
        return false;
    w->fd     = s->fd;
    w->head   = p;
    s->fd     = -1;
    s->memory = MAP_FAILED;
    return true;
}

static bool files_make(struct ct_window *w, struct ct_spare *spare)
{
    if (window_take(w, spare))
        return true;
    w->fd = memfd_create("cortado", MFD_CLOEXEC);
    return w->fd >= 0 && ftruncate(w->fd, (off_t)w->mapped_bytes) == 0 &&
           window_map(w);
}

/* The first rank makes what the others will open. */
static bool window_make(struct ct_window *w, bool threads,
                        struct ct_spare *spare, struct card *card)
{
    if (!(threads ? threads_make(w) : files_make(w, spare)))
        return false;
    if (!threads)
        w->head->token = ct_entropy() | 1;
    *card = (struct card){ w->head->token, getpid(), w->fd };
    return true;
}

static bool window_open(struct ct_window *w, bool threads,
                        const struct card *card)
{
    char path[64];
    struct stat about;

    if (card->token == 0)
        return false;
    if (threads)
        return threads_open(w, card);
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld",
             (long long)card->process, (long long)card->descriptor);
    w->fd = open(path, O_RDWR | O_CLOEXEC);
    return w->fd >= 0 && fstat(w->fd, &about) == 0 &&
           about.st_size == (off_t)w->mapped_bytes && window_map(w) &&
           w->head->token == card->token;
}

/* Held until the process ends or the window is destroyed. */
static bool window_lock(const struct ct_window *w)
{
    struct flock mine = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
                          .l_start = w->local.me, .l_len = 1 };

    return w->fd < 0 || fcntl(w->fd, F_SETLK, &mine) == 0;
}

static bool has_died(const struct ct_window *w, int i)
{
    struct flock theirs = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
                            .l_start = i, .l_len = 1 };

    return w->fd >= 0 && i != w->local.me &&
           fcntl(w->fd, F_GETLK, &theirs) == 0 && theirs.l_type == F_UNLCK;
}

/* The first rank's card to the others of its host. */
static enum ct_status window_join(struct ct_window *w, struct ct_comm *c,
                                  bool *joined)
{
    const struct ct_group *g = &c->local;
    const bool threads       = c->transport->threads;
    const int tag            = ct_comm_tag(c, 0);
    struct card card         = { 0 };
    struct ct_request r;

    if (g->me == 0)
        *joined = window_make(w, threads, c->spare, &card);
    for (int i = 1; i < g->size && g->me == 0; i++) {
        CT_TRY(ct_comm_send(c, g->rank[i], tag, &card, sizeof(card), &r));
        CT_TRY(ct_comm_wait(c, g->rank[i], &r));
    }
    if (g->me == 0)
        return CT_OK;
    CT_TRY(ct_comm_receive(c, g->rank[0], tag, &card, sizeof(card), &r));
    CT_TRY(ct_comm_wait(c, g->rank[0], &r));
    *joined = window_open(w, threads, &card);
    return CT_OK;
}

/* All ranks have it, or none. */
static enum ct_status window_agree(struct ct_comm *c, bool joined)
{
    float n = joined;

    CT_TRY(ct_allreduce_find("tree")->run(c, &n, 1));
    if (n != (float)c->size)
        return ct_fail(CT_ENOTSUP, "%d of %d ranks cannot share memory with "
                       "their host's others: sum by messages, with "
                       "--reduce=ring", c->size - (int)n, c->size);
    return CT_OK;
}

/* Are there fewer cores than ranks?  Each rank says where it may run. */
static enum ct_status window_count_cores(struct ct_window *w,
                                         struct ct_comm *c)
{
    cpu_set_t all;

    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof(cpu_set_t), &w->head->rank[w->local.me].cores);
    CT_TRY(ct_barrier(c));
    for (int i = 0; i < w->local.size; i++)
        CPU_OR(&all, &all, &w->head->rank[i].cores);
    w->crowded = ct_cores_of(CPU_COUNT(&all)) < w->local.size;
    return CT_OK;
}

enum ct_status ct_window_create(struct ct_comm *c, size_t bytes,
                                struct ct_window **out)
{
    const size_t head = head_bytes(c->local.size);
    const uint64_t sent = atomic_load(&c->bytes_sent);
    struct ct_window *w;
    bool joined = false;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*w), "window", &w));
    atomic_init(&w->n_keepers, 1);
    w->local        = c->local;
    w->comm         = c;
    w->owner        = pthread_self();
    w->fd           = -1;
    w->bytes        = bytes;
    w->mapped_bytes = head + bytes;
    ct_comm_begin(c, "share memory", bytes);
    CT_TRY_GOTO(window_join(w, c, &joined), st, out);
    CT_TRY_GOTO(window_agree(c, joined && window_lock(w)), st, out);
    w->memory = (char *)w->head + head;
    CT_TRY_GOTO(window_count_cores(w, c), st, out);
    *out = w;
    w    = NULL;
    atomic_store(&c->bytes_sent, sent); /* counted are sums, not their setup */
out:
    ct_spare_destroy(c->spare);
    c->spare = NULL;
    ct_window_destroy(w);
    return st;
}

void ct_window_reach(struct ct_window *w, const void *at, size_t bytes,
                     bool writes)
{
    const size_t first = (size_t)((const char *)at - (char *)w->head);

    if (w->fd >= 0)
        (void)!find_pages(w->head, w->mapped_bytes, first, first + bytes,
                          writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

void ct_window_keep(struct ct_window *w)
{
    atomic_fetch_add(&w->n_keepers, 1);
}

static void *unmap(void *window)
{
    struct ct_window *w = window;

    if (w->head)
        munmap(w->head, w->mapped_bytes);
    close(w->fd);
    ct_free(w);
    return NULL;
}

/* Giving large memory back to the system takes a while, and other ranks may
 * wait for this one: then another thread does it. */
static void aside(void *(*work)(void *arg), void *arg, size_t bytes)
{
    pthread_t thread;

    if (bytes >= LARGE && pthread_create(&thread, NULL, work, arg) == 0)
        pthread_detach(thread);
    else
        work(arg);
}

void ct_window_drop(void *window)
{
    struct ct_window *w = window;

    if (atomic_fetch_sub(&w->n_keepers, 1) > 1)
        return;
    if (w->fd >= 0) {
        aside(unmap, w, w->mapped_bytes);
        return;
    }
    if (w->head) {
        atomic_store(&w->head->rank[w->local.me].dropped, true);
        threads_drop(w->head);
    }
    ct_free(w);
}

uint64_t ct_window_number(const struct ct_window *w)
{
    return w->head->token;
}

/* A process that ends gives its memory back before its locks. */
bool ct_window_is_free_of(const struct ct_window *w, int i)
{
    return w->fd >= 0 ? has_died(w, i)
                      : atomic_load(&w->head->rank[i].dropped);
}

struct discarded {
    struct ct_window *window;
    void             *at;
    size_t            bytes;
};

static void *discard(void *arg)
{
    struct discarded *d = arg;

    (void)madvise(d->at, d->bytes, MADV_REMOVE);
    ct_window_drop(d->window);
    ct_free(d);
    return NULL;
}

void ct_window_discard(struct ct_window *w, const void *at, size_t bytes)
{
    const uintptr_t page  = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = ((uintptr_t)at + page - 1) / page * page;
    const uintptr_t end   = ((uintptr_t)at + bytes) / page * page;
    struct discarded *d;

    if (w->fd < 0 || end <= first ||
        ct_alloc(1, sizeof(*d), "discarded memory", &d) != CT_OK)
        return;
    *d = (struct discarded){ w, (void *)first, end - first };
    ct_window_keep(w);
    aside(discard, d, d->bytes);
}

void ct_window_destroy(struct ct_window *w)
{
    if (!w)
        return;
    if (w->memory) {
        atomic_store(&w->head->rank[w->local.me].left, true);
        ct_window_ring(w);
    }
    ct_window_drop(w);
}

void ct_window_abort(struct ct_window *w)
{
    int nobody = 0;

    if (!w)
        return;
    atomic_compare_exchange_strong(&w->head->aborted_by, &nobody,
                                   w->comm->rank + 1);
    ct_window_ring(w);
}

bool ct_window_asleep(struct ct_window *w)
{
    return atomic_load(&w->head->n_asleep) > 0;
}

void ct_window_ring(struct ct_window *w)
{
    atomic_fetch_add(&w->head->bell, 1);
    syscall(SYS_futex, &w->head->bell, FUTEX_WAKE, w->local.size, NULL, NULL,
            0);
}

struct waiting {
    struct ct_window *window;
    ct_missing_fn     missing;
    void             *arg;
    int               who; /* an index in `local`; -1: nobody is missing */
};

/* Sleeps until the bell or for a moment.  A peer that tells something after
 * the look at `missing` sees this sleeper and rings. */
static void window_sleep(void *arg)
{
    const struct timespec nap = { 0, NAP_NS };
    struct waiting *x         = arg;
    struct window_head *head  = x->window->head;
    unsigned heard;

    atomic_fetch_add(&head->n_asleep, 1);
    heard  = atomic_load(&head->bell);
    x->who = x->missing(x->arg);
    if (x->who >= 0)
        syscall(SYS_futex, &head->bell, FUTEX_WAIT, heard, &nap, NULL, 0);
    atomic_fetch_sub(&head->n_asleep, 1);
}

static enum ct_status why_not(const struct ct_window *w, int who)
{
    const int rank = w->local.rank[who];
    const int by   = atomic_load(&w->head->aborted_by);

    if (by > 0)
        return ct_fail(CT_ECOMM, "rank %d aborted the job", by - 1);
    if (atomic_load(&w->head->rank[who].left))
        return ct_fail(CT_ECOMM, "rank %d has left", rank);
    if (has_died(w, who))
        return ct_fail(CT_ECOMM, "rank %d has died", rank);
    return CT_OK;
}

/* Can the one that is waited for still come?  Who came and then left was there
 * in time. */
static enum ct_status window_alive(void *arg, int peer)
{
    struct waiting *x = arg;
    const int was     = x->who;
    enum ct_status st;

    (void)peer;
    if (was < 0)
        return CT_OK;
    st     = why_not(x->window, was);
    x->who = x->missing(x->arg);
    return x->who == was ? st : CT_OK;
}

enum ct_status ct_window_wait(struct ct_window *w, ct_missing_fn missing,
                              void *arg)
{
    struct waiting x = { w, missing, arg, missing(arg) };
    struct ct_wait wait = {
        .comm  = w->comm,
        .owner = pthread_equal(pthread_self(), w->owner),
        .pace  = w->crowded ? tight : roomy,
        .sleep = window_sleep,
        .alive = window_alive,
        .arg   = &x,
    };
    enum ct_status st = CT_OK;

    if (x.who < 0)
        return CT_OK;
    ct_wait_begin(&wait);
    while (st == CT_OK && x.who >= 0) {
        wait.peer = w->local.rank[x.who];
        st        = ct_wait_on(&wait);
        if (st == CT_OK && x.who >= 0)
            x.who = missing(arg);
    }
    w->wait_seconds += ct_wait_end(&wait);
    return st;
}
