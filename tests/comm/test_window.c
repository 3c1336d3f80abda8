/* test_window.c - who can still touch the memory of a window. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm_ranks.h"
#include "comm/transport/tcp.h"
#include "comm/window.h"

static void nap(double seconds)
{
    const struct timespec t = { 0, (long)(1e9 * seconds) };

    nanosleep(&t, NULL);
}

/* ---- Ranks that are threads. */

/* Rank 1 destroys its window, and drops it for good later. */
static enum ct_status keeping_rank(struct ct_comm *c, void *arg)
{
    atomic_int *step = arg;
    struct ct_window *w;
    bool early, late;

    CT_TRY(ct_window_create(c, 100, &w));
    if (c->rank == 1) {
        ct_window_keep(w);
        ct_window_destroy(w);
        atomic_store(step, 1);
        while (atomic_load(step) < 2)
            nap(1e-4);
        ct_window_drop(w);
        atomic_store(step, 3);
        return CT_OK;
    }
    while (atomic_load(step) < 1)
        nap(1e-4);
    early = ct_window_is_free_of(w, 1);
    atomic_store(step, 2);
    while (atomic_load(step) < 3)
        nap(1e-4);
    late = ct_window_is_free_of(w, 1);
    ct_window_destroy(w);
    return !early && late ? CT_OK
                          : ct_fail(CT_EINTERNAL, "%d %d", early, late);
}

TEST(window, is_free_of_a_thread_that_has_dropped_it)
{
    atomic_int step = 0;

    ranks_run(2, NULL, keeping_rank, &step);
}

/* ---- Ranks that are processes. */

/* Rank `rank` of two; the other's address comes by the socket.  Rank 0 has
 * reserved memory for the window. */
static enum ct_status enter(int rank, int fd, struct ct_tcp **end,
                            struct ct_comm **c, size_t bytes, size_t reserved,
                            struct ct_window **w)
{
    enum { MOST = 1024 };
    char theirs[MOST];
    const void *address[2];
    size_t sizes[2];
    struct ct_transport *t;
    ssize_t n;

    CT_TRY(ct_tcp_create(end));
    address[rank]     = ct_tcp_address(*end, &sizes[rank]);
    address[1 - rank] = theirs;
    if (write(fd, address[rank], sizes[rank]) != (ssize_t)sizes[rank] ||
        (n = read(fd, theirs, sizeof(theirs))) <= 0)
        return ct_fail(CT_ECOMM, "the other one is gone");
    sizes[1 - rank] = (size_t)n;
    CT_TRY(ct_tcp_open(*end, &(struct ct_tcp_view){
                                 .number = 1, .rank = rank, .size = 2,
                                 .address = address,
                                 .address_bytes = sizes }, &t));
    CT_TRY(ct_comm_create(t, c));
    if (rank == 0 && reserved > 0 &&
        !((*c)->spare = ct_spare_create(reserved)))
        return ct_fail(CT_ENOMEM, "nothing is reserved");
    return ct_window_create(*c, bytes, w);
}

struct pair {
    pid_t             other;
    struct ct_tcp    *end;
    struct ct_comm   *c;
    struct ct_window *w;
};

/* This process is rank 0; rank 1 waits for its end. */
static struct pair make_pair(size_t bytes, size_t reserved)
{
    struct pair p = { 0 };
    int fd[2];

    ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) == 0);
    p.other = fork();
    ASSERT(p.other >= 0);
    if (p.other == 0) {
        const enum ct_status st = enter(1, fd[1], &p.end, &p.c, bytes, 0,
                                        &p.w);

        alarm(60);
        while (st == CT_OK)
            pause();
        _exit(1);
    }
    ASSERT_OK(enter(0, fd[0], &p.end, &p.c, bytes, reserved, &p.w));
    close(fd[0]);
    close(fd[1]);
    return p;
}

static void drop_pair(struct pair *p)
{
    ct_window_destroy(p->w);
    ct_comm_destroy(p->c);
    ct_tcp_destroy(p->end);
}

TEST(window, is_free_of_a_process_that_was_killed)
{
    struct pair p = make_pair(1000, 0);

    ASSERT(!ct_window_is_free_of(p.w, 0));
    ASSERT(!ct_window_is_free_of(p.w, 1));
    kill(p.other, SIGKILL);
    waitpid(p.other, NULL, 0);
    ASSERT(ct_window_is_free_of(p.w, 1));
    ASSERT(!ct_window_is_free_of(p.w, 0));
    drop_pair(&p);
}

static size_t file_bytes(const struct ct_window *w)
{
    struct stat s;

    return fstat(w->fd, &s) == 0 ? (size_t)s.st_blocks * 512 : 0;
}

/* What is left of it stays as it is. */
static void discards(bool reaches)
{
    enum { MB = 1 << 20, SIZE = 15 * MB }; /* at once: it is not large */
    struct pair p = make_pair(SIZE, 0);
    char *x       = p.w->memory;

    if (reaches)
        ct_window_reach(p.w, x, SIZE, true);
    memset(x, 1, SIZE);
    ASSERT(file_bytes(p.w) >= SIZE);
    ct_window_discard(p.w, x + MB, SIZE - 2 * MB);
    ASSERT(file_bytes(p.w) <= 3 * MB);
    for (int i = 0; i < MB; i++)
        ASSERT(x[i] == 1 && x[SIZE - MB + i] == 1);
    ASSERT(x[SIZE / 2] == 0);
    kill(p.other, SIGKILL);
    waitpid(p.other, NULL, 0);
    drop_pair(&p);
}

TEST(window, gives_back_what_is_discarded)
{
    discards(false);
}

TEST(window, gives_back_large_pages_that_are_discarded)
{
    discards(true);
}

/* Some of the bytes: they and no others get memory, but for the blocks of large
 * pages in which they begin and end. */
TEST(window, memory_is_there_once_it_is_reached)
{
    enum { MB = 1 << 20, SIZE = 15 * MB };
    struct pair p = make_pair(SIZE, 0);
    char *x       = p.w->memory;

    x[5 * MB] = 7;
    ASSERT(file_bytes(p.w) < MB);
    ct_window_reach(p.w, x + 4 * MB, 4 * MB, true);
    ASSERT(file_bytes(p.w) > 4 * MB);
    ASSERT(file_bytes(p.w) <= 9 * MB);
    for (int i = 0; i < SIZE; i++)
        ASSERT_INT(i == 5 * MB ? 7 : 0, x[i]);
    kill(p.other, SIGKILL);
    waitpid(p.other, NULL, 0);
    drop_pair(&p);
}

/* What is reserved for a window is there, in whatever size the window comes. */
TEST(window, takes_what_is_reserved_for_it)
{
    enum { MB = 1 << 20 };
    static const size_t sizes[] = { 5 * MB + 100, 9 * MB, 13 * MB + 5000 };

    for (int i = 0; i < 3; i++) {
        struct pair p = make_pair(sizes[i], 9 * MB);
        char *x       = p.w->memory;

        ASSERT(file_bytes(p.w) >= (sizes[i] < 9 * MB ? sizes[i] : 9 * MB));
        for (size_t k = 0; k < sizes[i]; k++)
            ASSERT_INT(0, x[k]);
        memset(x, 1, sizes[i]);
        kill(p.other, SIGKILL);
        waitpid(p.other, NULL, 0);
        drop_pair(&p);
    }
}
