/* test_kills.c - processes that add up numbers over sockets while they are
 * killed, stopped and replaced.
 *
 * This process is the coordinator: it starts the members, tells them their
 * views, and ends them.  A member has one end for its whole life.  It sums in
 * rings until its view is over, checks every sum, and says how many there were.
 * A kill leaves three members, who go on in the next view; then a new one joins
 * them. */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "comm/coll/coll.h"
#include "comm/transport/tcp_parts.h"
#include "testing/test.h"

enum { MOST = 4, ADDRESS = 1024, LONGEST = 100000, ENOUGH = 5 };

/* From the coordinator: a view that opens, or (size 0) the end of one. */
struct order {
    uint32_t view;
    int      rank, size;
    int      way;        /* to sum */
    int      host[MOST]; /* of each rank */
    bool     no_window;  /* they share no memory */
    size_t   bytes[MOST];
    char     address[MOST][ADDRESS];
};

enum { HELLO, SUMMED, LEFT, WRONG };

struct report {
    int      what; /* HELLO carries an address, WRONG a text */
    uint32_t view;
    size_t   bytes;
    char     text[ADDRESS];
};

/* ---- a member */

struct member {
    int             fd;
    pthread_mutex_t lock;
    pthread_cond_t  news;
    struct order    next;  /* a view that is to be opened */
    bool            has_next;
    struct ct_transport *t; /* of the open view */
    uint32_t        view, ended; /* the newest that is over */
};

static void say(const struct member *m, int what, uint32_t view,
                const void *text, size_t bytes)
{
    struct report r = { .what = what, .view = view, .bytes = bytes };

    memcpy(r.text, text, bytes);
    if (write(m->fd, &r, sizeof(r)) != sizeof(r))
        _exit(0); /* the coordinator is gone */
}

/* Hears orders, and ends views while the other thread waits in them. */
static void *listen_to_orders(void *arg)
{
    struct member *m = arg;
    struct order o;

    while (read(m->fd, &o, sizeof(o)) == sizeof(o)) {
        pthread_mutex_lock(&m->lock);
        if (o.size > 0) {
            m->next     = o;
            m->has_next = true;
        } else {
            m->ended = o.view;
            if (m->t && m->view == o.view)
                m->t->ops->over(m->t);
        }
        pthread_cond_signal(&m->news);
        pthread_mutex_unlock(&m->lock);
    }
    _exit(0);
}

/* Whole numbers, other ones in every view and step. */
static float number(const struct order *o, int rank, int step)
{
    return (float)(rank + 1 + (int)(o->view % 100) * 16 + step % 7);
}

static enum ct_status sum_once(const struct order *o, struct ct_comm *c,
                               int step, float *x)
{
    const struct ct_allreduce_type *way = ct_allreduce_at(o->way);
    const int64_t n =
        1 + (int64_t)(ct_philox_word(3, o->view, (uint64_t)step) % LONGEST);
    float wanted = 0;

    for (int r = 0; r < o->size; r++)
        wanted += number(o, r, step);
    for (int64_t i = 0; i < n; i++)
        x[i] = number(o, o->rank, step);
    CT_TRY(way->run(c, x, n));
    for (int64_t i = 0; i < n; i++)
        if (x[i] != wanted)
            return ct_fail(CT_EINTERNAL, "view %u, step %d, %s: sum %lld of "
                           "%lld is %g, not %g", o->view, step, way->name,
                           (long long)i, (long long)n, (double)x[i],
                           (double)wanted);
    return CT_OK;
}

static void stay(struct member *m, struct ct_tcp *end, const struct order *o,
                 float *x)
{
    const void *address[MOST];
    struct ct_transport *t;
    struct ct_comm *c;
    enum ct_status st;
    char text[ADDRESS];

    for (int r = 0; r < o->size; r++)
        address[r] = o->address[r];
    if (ct_tcp_open(end, &(struct ct_tcp_view){
                             .number = o->view, .rank = o->rank,
                             .size = o->size, .address = address,
                             .address_bytes = o->bytes,
                             .host = o->host }, &t) != CT_OK ||
        ct_comm_create(t, &c) != CT_OK)
        _exit(1);
    c->place.no_window = o->no_window;
    pthread_mutex_lock(&m->lock);
    m->t    = t;
    m->view = o->view;
    if (m->ended >= o->view) /* already */
        t->ops->over(t);
    pthread_mutex_unlock(&m->lock);
    for (int step = 0; (st = sum_once(o, c, step, x)) == CT_OK; step++)
        if (step == ENOUGH)
            say(m, SUMMED, o->view, "", 0);
    snprintf(text, sizeof(text), "%s", ct_last_error());
    pthread_mutex_lock(&m->lock);
    while (m->ended < o->view) /* a peer was lost, and nobody has said so */
        pthread_cond_wait(&m->news, &m->lock);
    m->t = NULL;
    pthread_mutex_unlock(&m->lock);
    ct_comm_destroy(c);
    say(m, st == CT_ECOMM ? LEFT : WRONG, o->view, text, strlen(text) + 1);
}

static void be_member(int fd)
{
    struct member m = { .fd = fd };
    float *x        = ct_calloc(LONGEST, sizeof(*x), "numbers");
    struct ct_tcp *end;
    pthread_t listener;
    const void *address;
    size_t bytes;

    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.news, NULL);
    if (!x || ct_tcp_create(&end) != CT_OK ||
        pthread_create(&listener, NULL, listen_to_orders, &m) != 0)
        _exit(1);
    address = ct_tcp_address(end, &bytes);
    say(&m, HELLO, 0, address, bytes);
    for (;;) {
        struct order o;

        pthread_mutex_lock(&m.lock);
        while (!m.has_next)
            pthread_cond_wait(&m.news, &m.lock);
        o          = m.next;
        m.has_next = false;
        pthread_mutex_unlock(&m.lock);
        stay(&m, end, &o, x);
    }
}

/* ---- the coordinator */

struct process {
    pid_t  id; /* 0: none */
    int    fd;
    size_t bytes;
    char   address[ADDRESS];
};

struct job {
    struct process member[MOST];
    uint32_t       view;
    uint64_t       draws;
    unsigned       seed;
    int            way;      /* to sum, in all views from now on */
    int            per_host; /* members */
};

static void end_all(void *arg)
{
    struct job *j = arg;

    for (int i = 0; i < MOST; i++)
        if (j->member[i].id > 0) {
            kill(j->member[i].id, SIGKILL);
            waitpid(j->member[i].id, NULL, 0);
            close(j->member[i].fd);
        }
}

static unsigned draw(struct job *j, unsigned below)
{
    return (unsigned)(ct_philox_word(j->seed, 0, j->draws++) % below);
}

/* The next report of that kind; reports of members that are gone are lost. */
static void hear(struct process *p, int what, uint32_t view,
                 struct report *out)
{
    const double end = ct_now() + 60;

    for (;;) {
        struct pollfd fd = { .fd = p->fd, .events = POLLIN };

        if (poll(&fd, 1, (int)(1000 * (end - ct_now()))) != 1)
            FAIL("member %d says nothing of view %u", (int)p->id, view);
        ASSERT(read(p->fd, out, sizeof(*out)) == sizeof(*out));
        if (out->what == WRONG)
            FAIL("member %d: %s", (int)p->id, out->text);
        if (out->what == what && out->view == view)
            return;
    }
}

/* With CORTADO_TEST_HOSTS each member is on a host of its own: in the network
 * namespaces h0, h1, ... of tests/cluster. */
static bool has_hosts(void)
{
    return getenv("CORTADO_TEST_HOSTS") != NULL;
}

static void enter_host(int number)
{
    char path[64];
    int fd;

    if (!has_hosts())
        return;
    snprintf(path, sizeof(path), "/run/netns/h%d", number);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        _exit(1);
    close(fd);
}

static void start_member(struct job *j, struct process *p)
{
    struct report hello;
    int pair[2];

    ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    p->id = fork();
    if (p->id == 0) {
        close(pair[0]);
        for (int i = 0; i < MOST; i++)
            if (j->member[i].id > 0 && &j->member[i] != p)
                close(j->member[i].fd);
        enter_host((int)(p - j->member));
        be_member(pair[1]);
    }
    close(pair[1]);
    ASSERT(p->id > 0);
    p->fd = pair[0];
    hear(p, HELLO, 0, &hello);
    p->bytes = hello.bytes;
    memcpy(p->address, hello.text, hello.bytes);
}

/* The next view, of those that `in` names. */
static void open_view(struct job *j, const bool *in)
{
    struct order o = { .view = ++j->view, .way = j->way,
                       .no_window = has_hosts() };

    for (int i = 0; i < MOST; i++)
        if (in[i]) {
            o.host[o.size]  = i / j->per_host;
            o.bytes[o.size] = j->member[i].bytes;
            memcpy(o.address[o.size++], j->member[i].address,
                   j->member[i].bytes);
        }
    for (int i = 0; i < MOST; i++)
        if (in[i]) {
            ASSERT(write(j->member[i].fd, &o, sizeof(o)) == sizeof(o));
            o.rank++;
        }
}

/* Every member of the view has added up some numbers. */
static void see_sums(struct job *j, const bool *in)
{
    struct report r;

    for (int i = 0; i < MOST; i++)
        if (in[i])
            hear(&j->member[i], SUMMED, j->view, &r);
}

static double end_view(struct job *j, const bool *in)
{
    const struct order o = { .view = j->view };
    const double start   = ct_now();
    struct report r;

    for (int i = 0; i < MOST; i++)
        if (in[i])
            ASSERT(write(j->member[i].fd, &o, sizeof(o)) == sizeof(o));
    for (int i = 0; i < MOST; i++)
        if (in[i])
            hear(&j->member[i], LEFT, j->view, &r);
    return ct_now() - start;
}

static void kill_member(struct process *p)
{
    kill(p->id, SIGKILL);
    ASSERT(waitpid(p->id, NULL, 0) == p->id);
    close(p->fd);
    p->id = 0;
}

static int number_of(const char *way)
{
    int i = 0;

    while (ct_allreduce_at(i) != ct_allreduce_find(way))
        i++;
    return i;
}

static void job_start(struct job *j, unsigned seed)
{
    *j = (struct job){ .seed = seed, .way = number_of("ring"),
                       .per_host = MOST };
    test_defer(end_all, j);
    for (int i = 0; i < MOST; i++)
        start_member(j, &j->member[i]);
}

/* Survivors leave when they are told, whomever they waited for. */
static double lose_and_replace(struct job *j, int victim, bool stop)
{
    bool in[MOST] = { true, true, true, true };
    double took;

    open_view(j, in);
    if (draw(j, 4) > 0) /* sometimes while they connect */
        see_sums(j, in);
    usleep(draw(j, 20000));
    if (stop)
        kill(j->member[victim].id, SIGSTOP);
    else
        kill_member(&j->member[victim]);
    usleep(draw(j, 3000));
    in[victim] = false;
    took       = end_view(j, in);
    open_view(j, in);
    see_sums(j, in);
    (void)end_view(j, in);
    if (stop) { /* it wakes, hears that its view is over, and is welcome */
        const struct order late = { .view = j->view - 1 };
        struct report r;

        kill(j->member[victim].id, SIGCONT);
        ASSERT(write(j->member[victim].fd, &late, sizeof(late)) ==
               sizeof(late));
        hear(&j->member[victim], LEFT, j->view - 1, &r);
    } else {
        start_member(j, &j->member[victim]);
    }
    return took;
}

static void storm(unsigned seed, int n, bool stop)
{
    static struct job j;
    double worst = 0;

    signal(SIGPIPE, SIG_IGN);
    job_start(&j, seed);
    for (int i = 0; i < n; i++) {
        const double took = lose_and_replace(&j, (int)draw(&j, MOST), stop);

        worst = took > worst ? took : worst;
    }
    if (worst > 30)
        FAIL("leaving a view took %.1f s", worst);
}

/* ---- strangers */

/* Connects to a member's port, which stands behind two numbers and the key. */
static int knock(const struct process *p)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(&at.sin_port, p->address + 32, sizeof(at.sin_port));
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
        FAIL("member %d does not listen", (int)p->id);
    return fd;
}

static void write_some(int fd, const void *x, size_t bytes)
{
    (void)!send(fd, x, bytes, MSG_NOSIGNAL); /* it may be closed by then */
}

/* Is it closed, without a word? */
static bool is_refused(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char x;

    return poll(&p, 1, 60000) == 1 && read(fd, &x, 1) <= 0;
}

static long memory_kb(pid_t id)
{
    char path[64], line[256];
    long kb = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)id);
    f = fopen(path, "r");
    ASSERT(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    fclose(f);
    return kb;
}

/* A hello that knows the key: what it claims must be right as well. */
static void claim(const struct process *p, uint32_t view, uint32_t rank)
{
    struct tcp_hello hello = { .magic = tcp_hello_magic, .view = view,
                               .rank = rank };
    int fd                 = knock(p);

    hello.tag = tcp_tag((const uint8_t *)p->address + 16, TCP_HELLO, &hello,
                        NULL);
    write_some(fd, &hello, sizeof(hello));
    ASSERT(is_refused(fd));
    close(fd);
}

static void flood(struct job *j, struct process *p, int n)
{
    int open[300] = { 0 };

    for (int i = 0; i < n; i++) {
        char noise[4096];
        const size_t bytes = draw(j, 3) ? draw(j, sizeof(noise)) : 7;
        int fd             = knock(p);

        for (size_t k = 0; k < bytes; k++)
            noise[k] = (char)draw(j, 256);
        write_some(fd, noise, bytes);
        if (open[i % 300] > 0)
            close(open[i % 300]);
        open[i % 300] = fd;
    }
    for (int i = 0; i < 300; i++)
        if (open[i] > 0)
            close(open[i]);
}

TEST(kills, strangers_at_the_ports_change_nothing)
{
    const bool in[MOST] = { true, true, true, true };
    static struct job j;
    long before;

    signal(SIGPIPE, SIG_IGN);
    job_start(&j, 3);
    open_view(&j, in);
    see_sums(&j, in);
    before = memory_kb(j.member[3].id);
    for (int i = 0; i < MOST; i++)
        flood(&j, &j.member[i], 500);
    claim(&j.member[3], j.view, 0); /* that seat is taken */
    claim(&j.member[3], j.view, 3);
    claim(&j.member[3], j.view, 0xffffffff);
    claim(&j.member[3], j.view - 1, 0);
    claim(&j.member[0], j.view, 1); /* rank 0 calls, nobody calls it */
    ASSERT(memory_kb(j.member[3].id) - before < 16 * 1024);
    (void)end_view(&j, in);
    open_view(&j, in);
    see_sums(&j, in);
    (void)end_view(&j, in);
}

/* All of them on one host, two on each, and each on its own.  On several hosts
 * nobody shares memory with all. */
TEST(kills, every_way_sums_between_processes)
{
    const bool in[MOST] = { true, true, true, true };
    static struct job j;

    signal(SIGPIPE, SIG_IGN);
    job_start(&j, 4);
    for (j.way = 0; ct_allreduce_at(j.way); j.way++)
        for (j.per_host = 1; j.per_host <= MOST; j.per_host *= 2) {
            const struct ct_allreduce_type *way = ct_allreduce_at(j.way);

            if (way->foreign ||
                (way == ct_allreduce_find("shared") &&
                 (j.per_host < MOST || has_hosts())))
                continue;
            open_view(&j, in);
            see_sums(&j, in);
            (void)end_view(&j, in);
        }
}

TEST(kills, survivors_of_forty_kills_go_on_with_right_sums)
{
    storm(1, 40, false);
}

TEST(kills, members_that_hang_are_left_behind_and_come_back)
{
    storm(2, 10, true);
}
