/* test_rendezvous.c - who begins a job, and who must not. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "elastic/places.h"
#include "elastic/rendezvous.h"
#include "elastic/seal.h"
#include "testing/files.h"

/* Of a group: nobody can be called there. */
#define AWAY "224.0.0.1"

static char folder[256], where[300], file[300];

static void close_port(void *fd)
{
    close((int)(intptr_t)fd);
}

/* Nobody else gets this port while the test runs, and nobody answers there:
 * who wants it in particular has it. */
static uint16_t free_port(void)
{
    const int on  = 1;
    uint16_t port = 0;
    const int fd  = ct_reserve_port(&port);

    ASSERT(fd >= 0);
    ASSERT_INT(0, setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    test_defer(close_port, (void *)(intptr_t)fd);
    return ntohs(port);
}

/* What a process has left in the folder so many seconds ago. */
static void leave_text(const char *name, const char *text, int seconds)
{
    struct timeval t[2] = { { time(NULL) - seconds, 0 },
                            { time(NULL) - seconds, 0 } };

    snprintf(file, sizeof(file), "%s/%s.address", folder, name);
    ASSERT_OK(ct_file_write(file, text, strlen(text)));
    ASSERT_INT(0, utimes(file, t));
}

/* The same of another host. */
static void leave_file(int seconds)
{
    snprintf(folder, sizeof(folder), "%s", test_path("meet"));
    ASSERT_INT(0, mkdir(folder, 0700));
    snprintf(where, sizeof(where), "file:%s", folder);
    leave_text("other-7", AWAY " 29400\n127.0.0.1 29400\n", seconds);
}

/* So many processes of this machine were killed so many seconds ago.  Each had
 * as many addresses as a process can have. */
static void leave_dead(int n, int seconds)
{
    const int port = free_port();
    char text[9 * 32], name[32];

    text[0] = '\0';
    for (int i = 0; i < 9; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "127.0.0.1 %d\n", port);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "dead-%d", i);
        leave_text(name, text, seconds);
    }
}

TEST(rendezvous, nobody_begins_a_job_beside_one_that_it_does_not_reach)
{
    struct rendezvous r;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    leave_file(0);
    ASSERT_STATUS(CT_EIO, rendezvous_open_within(&r, where, NULL, 0.1));
    ASSERT_HAS("other-7.address may be in the job", ct_last_error());
    ASSERT_INT(0, access(file, F_OK));
    rendezvous_close(&r);
}

TEST(rendezvous, what_nobody_touches_any_more_is_no_job)
{
    struct rendezvous r;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    leave_file(100);
    ASSERT_OK(rendezvous_open_within(&r, where, NULL, 0.1));
    ASSERT(r.founds);
    ASSERT(access(file, F_OK) != 0);
    ASSERT_INT(0, access(r.file, F_OK));
    rendezvous_close(&r);
}

/* More than can be asked at a time: one of the others may be in the job. */
TEST(rendezvous, nobody_begins_a_job_beside_those_that_it_did_not_ask)
{
    struct rendezvous r;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    leave_file(100);
    leave_dead(8, 0);
    ASSERT_STATUS(CT_EIO, rendezvous_open_within(&r, where, NULL, 0.1));
    ASSERT_HAS("more processes than can be asked", ct_last_error());
    ASSERT_INT(0, access(file, F_OK));
    rendezvous_close(&r);
}

TEST(rendezvous, a_door_is_of_its_own_place_or_of_none)
{
    const struct elastic_door door = { ct_loopback_address(), 7 };
    struct places p;

    memset(&p, 0, sizeof(p));
    for (int i = 0; i < MEMBER_DOORS; i++)
        places_add(&p, "one that says nothing", false);
    places_add_door(&p, &door);
    ASSERT_INT(1, p.n_doors);
    places_add(&p, "an old one", false);
    places_add_door(&p, &door);
    ASSERT_INT(1, p.n_doors);
    ASSERT(!p.is_more);
    places_add(&p, "one that lives", true);
    places_add_door(&p, &door);
    ASSERT_INT(1, p.n_doors);
    ASSERT(p.is_more);
}

TEST(rendezvous, the_first_of_a_list_waits_for_word_of_the_others)
{
    char secret[300];
    struct rendezvous r;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "127.0.0.1:%d," AWAY ":29400", free_port());
    ASSERT_STATUS(CT_EIO, rendezvous_open_within(&r, where, secret, 0.1));
    ASSERT_HAS(AWAY ":29400 may be in the job", ct_last_error());
    rendezvous_close(&r);
    snprintf(where, sizeof(where), "127.0.0.1:%d,127.0.0.1:%d", free_port(),
             free_port());
    ASSERT_OK(rendezvous_open_within(&r, where, secret, 0.1));
    ASSERT(r.founds);
    rendezvous_close(&r);
}

/* Those who wait for the job keep nobody from beginning it. */
TEST(rendezvous, who_has_another_address_is_no_job_before_it_is_in_one)
{
    char secret[300];
    struct rendezvous second, first;
    const int ports[2] = { free_port(), free_port() };
    const int taken    = ct_listen(&(uint16_t){ htons((uint16_t)ports[0]) });

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "127.0.0.1:%d,127.0.0.1:%d", ports[0],
             ports[1]);
    ASSERT_OK(rendezvous_open_within(&second, where, secret, 0.1));
    ASSERT(!second.founds);
    ASSERT_INT(ports[1], ntohs(second.port));
    close(taken);
    ASSERT_OK(rendezvous_open_within(&first, where, secret, 0.1));
    ASSERT(first.founds);
    rendezvous_close(&second);
    rendezvous_close(&first);
}

/* In place of an agent that was lost. */
TEST(rendezvous, who_comes_again_begins_nothing)
{
    char secret[300];
    struct rendezvous r, other;
    const int port = free_port();

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "again::%d,no.such.host.invalid:1,127.0.0.1:"
             "%d", port, free_port());
    ASSERT_OK(rendezvous_open_within(&r, where, secret, 0.1));
    ASSERT(!r.founds);
    ASSERT_INT(port, ntohs(r.port));
    ASSERT_INT(2, r.n_knock);
    ASSERT_INT(0, listen(r.door, 8)); /* its ranks train */
    ASSERT_STATUS(CT_EIO, rendezvous_open_within(&other, where, secret, 0.1));
    ASSERT_HAS("may still run", ct_last_error());
    rendezvous_close(&other);
    rendezvous_close(&r);
}

/* The same, and nobody has heard of the job. */
TEST(rendezvous, who_comes_again_begins_a_job_that_nobody_has)
{
    char secret[300];
    struct rendezvous r, other;
    const int port = free_port();

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "first::%d," AWAY ":29400", port);
    ASSERT_STATUS(CT_EIO, rendezvous_open_within(&r, where, secret, 0.1));
    ASSERT_HAS("may be in the job", ct_last_error());
    rendezvous_close(&r);
    snprintf(where, sizeof(where), "first::%d,127.0.0.1:%d", port,
             free_port());
    ASSERT_OK(rendezvous_open_within(&r, where, secret, 0.1));
    ASSERT(r.founds);
    ASSERT_INT(port, ntohs(r.port));
    ASSERT_STATUS(CT_EIO, rendezvous_open_within(&other, where, secret, 0.1));
    ASSERT_HAS("may still run", ct_last_error());
    rendezvous_close(&other);
    rendezvous_close(&r);
}

/* A connection of another program has the port as its end here. */
TEST(rendezvous, a_port_that_others_have_keeps_nobody_away)
{
    struct sockaddr_in own = { .sin_family = AF_INET }, to;
    char secret[300];
    struct rendezvous r;
    uint16_t far = 0;
    socklen_t n  = sizeof(own);
    const int there = ct_listen(&far), fd = socket(AF_INET, SOCK_STREAM, 0);

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT(there >= 0 && fd >= 0);
    ASSERT_INT(0, bind(fd, (struct sockaddr *)&own, n));
    ASSERT_INT(0, getsockname(fd, (struct sockaddr *)&own, &n));
    to          = own;
    to.sin_port = far;
    ASSERT_INT(0, connect(fd, (struct sockaddr *)&to, n));
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "again::%d,127.0.0.1:%d",
             ntohs(own.sin_port), free_port());
    ASSERT_OK(rendezvous_open_within(&r, where, secret, 0.1));
    ASSERT(!r.founds);
    ASSERT(r.door >= 0 && r.port != own.sin_port);
    rendezvous_close(&r);
    close(fd);
    close(there);
}

/* Two who take calls, and do not answer. */
struct silent {
    int         fd[2];
    bool        together; /* both had a call at the same time */
    atomic_bool gone;     /* and were called again; then they went */
};

/* The call that it has, or -1: a newer one, where there is one. */
static int take_call(int listener, int call)
{
    struct pollfd p = { .fd = listener, .events = POLLIN };

    if (poll(&p, 1, 100) != 1)
        return call;
    close(call);
    return accept(listener, NULL, NULL);
}

static bool is_open(int call)
{
    struct pollfd p = { .fd = call, .events = POLLRDHUP };

    return call >= 0 && poll(&p, 1, 0) == 0;
}

static void *say_nothing(void *arg)
{
    struct silent *s = arg;
    const double end = ct_now() + 60;
    int call[2]      = { -1, -1 };
    struct pollfd p  = { .fd = s->fd[0], .events = POLLIN };

    while (!s->together && ct_now() < end) {
        for (int i = 0; i < 2; i++)
            call[i] = take_call(s->fd[i], call[i]);
        s->together = is_open(call[0]) && is_open(call[1]);
    }
    atomic_store(&s->gone, poll(&p, 1, 60000) == 1);
    for (int i = 0; i < 2; i++) {
        close(call[i]);
        close(s->fd[i]);
    }
    return NULL;
}

/* Two that take calls and do not answer are asked at the same time, and again:
 * there is no job once they are gone. */
TEST(rendezvous, doors_are_asked_together_and_waited_for)
{
    char secret[300];
    uint16_t port[2] = { 0, 0 };
    struct silent s  = { .fd = { ct_listen(&port[0]), ct_listen(&port[1]) } };
    pthread_t thread;
    struct rendezvous r;
    enum ct_status st;
    bool gone;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
             free_port(), ntohs(port[0]), ntohs(port[1]));
    pthread_create(&thread, NULL, say_nothing, &s);
    st   = rendezvous_open_within(&r, where, secret, 60);
    gone = atomic_load(&s.gone);
    pthread_join(thread, NULL);
    ASSERT_OK(st);
    ASSERT(r.founds);
    ASSERT(s.together && gone);
    rendezvous_close(&r);
}

/* Takes two calls, and hangs up before it answers. */
static void *hang_up_twice(void *arg)
{
    const int *listener = arg;
    struct pollfd p     = { .fd = *listener, .events = POLLIN };
    intptr_t n          = 0;

    for (; n < 2 && poll(&p, 1, 60000) == 1; n++)
        close(accept(*listener, NULL, NULL));
    close(*listener);
    return (void *)n;
}

/* A rank that ends as it is asked says nothing of its job, whose other ranks
 * may go on: its door is asked again. */
TEST(rendezvous, a_door_of_this_machine_that_hangs_up_is_asked_again)
{
    char secret[300];
    uint16_t port = 0;
    int listener  = ct_listen(&port);
    void *n_calls;
    pthread_t thread;
    struct rendezvous r;
    enum ct_status st;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(secret, sizeof(secret), "%s", test_path("secret"));
    snprintf(where, sizeof(where), "127.0.0.1:%d,127.0.0.1:%d", free_port(),
             ntohs(port));
    pthread_create(&thread, NULL, hang_up_twice, &listener);
    st = rendezvous_open_within(&r, where, secret, 60);
    pthread_join(thread, &n_calls);
    ASSERT_OK(st);
    ASSERT(r.founds); /* nobody is there any more */
    ASSERT_INT(2, (intptr_t)n_calls);
    rendezvous_close(&r);
}

/* The disk is full, and the job was found: that is enough. */
TEST(rendezvous, who_finds_the_job_joins_it_though_it_cannot_write)
{
    struct member_config c   = { .will = -1, .founds = true, .least = 1,
                                 .most = 4, .last = 9, .suspect = 30,
                                 .orphan = 60 };
    struct rlimit limit, none;
    struct elastic_member *m = NULL;
    struct rendezvous first, second;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(where, sizeof(where), "file:%s", test_path("full"));
    ASSERT_OK(rendezvous_open_within(&first, where, NULL, 60));
    ASSERT(first.founds && first.file);
    c.secret = first.secret;
    c.door   = first.door;
    c.file   = first.file;
    ASSERT_OK(member_create(&c, &m));
    ASSERT_INT(0, getrlimit(RLIMIT_FSIZE, &limit));
    none = (struct rlimit){ 0, limit.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    ASSERT_INT(0, setrlimit(RLIMIT_FSIZE, &none));
    ASSERT_OK(rendezvous_open_within(&second, where, NULL, 60));
    ASSERT_INT(0, setrlimit(RLIMIT_FSIZE, &limit));
    ASSERT(!second.founds && second.n_knock > 0);
    ASSERT(!second.file);
    rendezvous_close(&second);
    member_destroy(m);
    rendezvous_close(&first);
}

/* Agents that are killed leave their files.  Those of the job are newer. */
TEST(rendezvous, what_the_dead_left_hides_no_job)
{
    struct member_config c   = { .will = -1, .founds = true, .least = 1,
                                 .most = 4, .last = 9, .suspect = 30,
                                 .orphan = 60 };
    struct elastic_member *m = NULL;
    struct rendezvous first, second, third;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    snprintf(folder, sizeof(folder), "%s", test_path("meet"));
    snprintf(where, sizeof(where), "file:%s", folder);
    ASSERT_OK(rendezvous_open_within(&first, where, NULL, 1));
    ASSERT(first.founds && first.file);
    c.secret = first.secret;
    c.door   = first.door;
    c.file   = first.file;
    ASSERT_OK(member_create(&c, &m));
    leave_dead(200, 100);
    ASSERT_OK(rendezvous_open_within(&second, where, NULL, 1));
    ASSERT(!second.founds && second.n_knock > 0);
    ASSERT_INT(0, access(first.file, F_OK));
    ASSERT_OK(rendezvous_find(&third, where, NULL));
    ASSERT(third.knock[0].port == first.port ||
           third.knock[0].port == second.port);
    rendezvous_close(&third);
    rendezvous_close(&second);
    member_destroy(m);
    rendezvous_close(&first);
}
