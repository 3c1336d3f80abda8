/* main.c - trials ENGINE FAULT FIRST N: a member is lost, the others
 * go on, and one comes back; N times, with seeds from FIRST on.
 *
 * ENGINE: tcp (ours), or keep, same or new (ucx.h).  FAULT: kill (SIGKILL, and
 * a new process comes), stop (SIGSTOP for longer than anyone waits, and the
 * process comes back), view (nobody is lost, but a view ends at any moment).
 *
 * This process starts three members and tells them their views.  View 1 ends
 * in the midst of messages; the two that are left go on in the next one; then
 * all three do in two more.  Prints a line for each trial that did not go well,
 * and how many ended in which way. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "trials.h"

/* For any answer, and for a failure to be noticed. */
static const double answer_seconds = 25, notice_seconds = 5;

enum outcome {
    WELL,
    ABORTED, /* a living member ended by a signal or an exit */
    HUNG,
    LOST,    /* a message */
    WRONG,   /* bytes, also in a buffer that was given up */
    BROKE,   /* a connection between two living members of a view */
    AT_END,  /* all went well, but a member crashed or hung in its clean-up */
    N_OUTCOMES
};

static const char *const outcome_name[N_OUTCOMES] = {
    "well", "aborted", "hung", "lost", "garbled", "broke", "at_end",
};

struct process {
    pid_t  id; /* 0: none */
    int    fd;
    size_t bytes;
    char   address[ADDRESS];
    bool   is_in; /* the view */
    int    rank;
    struct report stuck; /* what it said when it was */
};

struct trial {
    const char    *engine;
    uint64_t       seed, draws;
    struct process member[MEMBERS];
    uint32_t       view;
    int            n_kept;
    int            victim;  /* NOBODY: none */
    bool           is_busy; /* view 1 ends after its first rounds */
    enum outcome   outcome;
    char           text[512];
};

struct count {
    int    n[2][N_OUTCOMES]; /* view 1 ends while it connects, or later */
    int    n_asked, n_noticed, n_kept;
    double slowest; /* notice, in seconds */
};

static unsigned draw(struct trial *t, unsigned below)
{
    return ct_philox_word(t->seed, 0, t->draws++) % below;
}

__attribute__((format(printf, 3, 4)))
static bool fail(struct trial *t, enum outcome o, const char *format, ...)
{
    va_list args;

    if (t->outcome == WELL) {
        va_start(args, format);
        vsnprintf(t->text, sizeof(t->text), format, args);
        va_end(args);
        t->outcome = o;
    }
    return false;
}

static bool gone(struct trial *t, struct process *p)
{
    int status = 0;

    waitpid(p->id, &status, 0);
    close(p->fd);
    p->id = 0;
    return fail(t, ABORTED, "view %u: member %d, %s: %s %d", t->view,
                (int)(p - t->member),
                p - t->member == t->victim ? "back again" : "a survivor",
                WIFSIGNALED(status) ? "signal" : "exit",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* A connection broke in an open view: because its other end is gone? */
static bool broke(struct trial *t, const struct process *p,
                  const struct report *r)
{
    usleep(200000);
    for (int i = 0; i < MEMBERS; i++) {
        siginfo_t end = { 0 };

        if (t->member[i].id > 0 &&
            waitid(P_PID, (id_t)t->member[i].id, &end,
                   WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid > 0)
            return gone(t, &t->member[i]);
    }
    return fail(t, BROKE, "view %u: member %d: %.200s", t->view,
                (int)(p - t->member), r->text);
}

/* The next report of a member, if there is one in time; it may be gone. */
static bool read_report(struct trial *t, struct process *p, double until,
                        struct report *out)
{
    struct pollfd fd  = { .fd = p->fd, .events = POLLIN };
    const double left = until - ct_now();

    if (poll(&fd, 1, left > 0 ? (int)(1000 * left) : 0) != 1)
        return false;
    if (read(p->fd, out, sizeof(*out)) != sizeof(*out))
        return gone(t, p);
    if (out->what == GARBLED)
        return fail(t, WRONG, "view %u: member %d: %.200s", out->view,
                    (int)(p - t->member), out->text);
    t->n_kept += out->n_kept;
    return true;
}

/* A message is lost if its sender has done with it, and its receiver waits. */
static bool judge_stuck(struct trial *t)
{
    const double until = ct_now() + 12;
    struct report r;

    for (int i = 0; i < MEMBERS; i++)
        while (t->member[i].is_in && t->member[i].stuck.what != STUCK &&
               read_report(t, &t->member[i], until, &r))
            if (r.what == STUCK && r.view == t->view)
                t->member[i].stuck = r;
    for (int i = 0; i < MEMBERS; i++)
        for (int k = 0; k < MEMBERS; k++) {
            const struct report *to   = &t->member[i].stuck;
            const struct report *from = &t->member[k].stuck;

            if (to->what == STUCK && from->what == STUCK && i != k &&
                (to->not_received >> from->rank & 1) &&
                (from->round > to->round ||
                 (from->round == to->round &&
                  !(from->not_sent >> to->rank & 1))))
                return fail(t, LOST, "view %u, round %d: member %d has sent "
                            "to member %d, where nothing came", t->view,
                            to->round, k, i);
        }
    return fail(t, HUNG, "view %u: no message moves", t->view);
}

/* A report of that kind about this view; none other may come before, but what
 * is said of a view that the coordinator has ended. */
static bool hear(struct trial *t, struct process *p, enum report_kind what,
                 uint32_t view, double seconds, struct report *out)
{
    const double until = ct_now() + seconds;

    while (read_report(t, p, until, out)) {
        if (out->view != view)
            continue;
        if (out->what == what)
            return true;
        if (out->what == STUCK && what != LEFT) {
            p->stuck = *out;
            return judge_stuck(t);
        }
        if (out->what == FAILED && what == ROUNDS)
            return broke(t, p, out);
    }
    return fail(t, HUNG, "view %u: member %d does not answer", view,
                (int)(p - t->member));
}

static bool hear_address(struct trial *t, struct process *p, uint32_t view)
{
    struct report r;

    if (!hear(t, p, LEFT, view, answer_seconds, &r))
        return false;
    p->bytes = r.bytes;
    memcpy(p->address, r.text, r.bytes);
    return true;
}

static bool start_member(struct trial *t, struct process *p)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        exit(1);
    p->id = fork();
    if (p->id == 0) {
        close(pair[0]);
        for (int i = 0; i < MEMBERS; i++)
            if (t->member[i].id > 0 && &t->member[i] != p)
                close(t->member[i].fd);
        member_live(pair[1], t->engine, t->seed);
    }
    close(pair[1]);
    p->fd = pair[0];
    return hear_address(t, p, 0);
}

static void tell(struct process *p, const struct order *o)
{
    if (p->id > 0 && write(p->fd, o, sizeof(*o)) != sizeof(*o))
        fprintf(stderr, "member %d does not listen\n", (int)p->id);
}

/* The next view, of all members or all but one. */
static bool open_view(struct trial *t, int but)
{
    static struct order o;

    o = (struct order){ .view = ++t->view };
    for (int i = 0; i < MEMBERS; i++) {
        struct process *p = &t->member[i];

        p->is_in      = i != but;
        p->stuck.what = LEFT;
        if (!p->is_in)
            continue;
        p->rank         = o.size;
        o.bytes[o.size] = p->bytes;
        memcpy(o.address[o.size++], p->address, p->bytes);
    }
    for (int i = 0; i < MEMBERS; i++) {
        o.rank = t->member[i].rank;
        if (t->member[i].is_in)
            tell(&t->member[i], &o);
    }
    return true;
}

static bool see_rounds(struct trial *t)
{
    struct report r;

    for (int i = 0; i < MEMBERS; i++)
        if (t->member[i].is_in &&
            !hear(t, &t->member[i], ROUNDS, t->view, answer_seconds, &r))
            return false;
    return true;
}

static bool end_view(struct trial *t, int lost)
{
    static struct order o;

    o = (struct order){ .view = t->view,
                        .lost = lost == NOBODY ? lost : t->member[lost].rank };
    for (int i = 0; i < MEMBERS; i++)
        if (t->member[i].is_in && i != lost)
            tell(&t->member[i], &o);
    for (int i = 0; i < MEMBERS; i++)
        if (t->member[i].is_in && i != lost &&
            !hear_address(t, &t->member[i], t->view))
            return false;
    return true;
}

/* Do the survivors see by themselves that a process is gone? */
static bool see_notice(struct trial *t, int victim, struct count *c)
{
    const double start = ct_now();
    bool noticed       = true;

    for (int i = 0; i < MEMBERS; i++) {
        struct report r;
        bool heard = false;

        while (i != victim && !heard &&
               read_report(t, &t->member[i], start + notice_seconds, &r)) {
            heard = r.what == FAILED && r.view == t->view;
            if (heard && r.peer != victim)
                return broke(t, &t->member[i], &r);
        }
        noticed = noticed && (heard || i == victim);
    }
    if (t->outcome != WELL)
        return false;
    c->n_asked++;
    c->n_noticed += noticed;
    if (noticed && ct_now() - start > c->slowest)
        c->slowest = ct_now() - start;
    return true;
}

static bool come_back(struct trial *t, int victim)
{
    static struct order o;
    struct process *p = &t->member[victim];

    if (p->id == 0)
        return start_member(t, p);
    o = (struct order){ .view = 1, .lost = p->rank }; /* it was left behind */
    kill(p->id, SIGCONT);
    tell(p, &o);
    return hear_address(t, p, 1);
}

static bool strike(struct trial *t, char fault, int victim, struct count *c)
{
    struct process *p = &t->member[victim];

    if (fault == 's') {
        kill(p->id, SIGSTOP);
        usleep(500000 + draw(t, 200000));
    } else if (fault == 'k') {
        kill(p->id, SIGKILL);
        waitpid(p->id, NULL, 0);
        close(p->fd);
        p->id = 0;
        if (draw(t, 2))
            return see_notice(t, victim, c);
        usleep(draw(t, 3000));
    }
    return true;
}

/* View 1 ends while messages are under way, sometimes before the first. */
static bool run(struct trial *t, char fault, struct count *c)
{
    const int victim = fault == 'v' ? NOBODY : (int)draw(t, MEMBERS);
    bool early;

    t->victim = victim;
    for (int i = 0; i < MEMBERS; i++)
        if (!start_member(t, &t->member[i]))
            return false;
    open_view(t, NOBODY);
    t->is_busy = draw(t, 4) > 0;
    if (t->is_busy && !see_rounds(t))
        return false;
    usleep(draw(t, 20000));
    if (!strike(t, fault, victim, c) || !end_view(t, victim))
        return false;
    early = draw(t, 2);
    if (fault != 'v') {
        if (early && !come_back(t, victim))
            return false;
        if (!open_view(t, victim) || !see_rounds(t) || !end_view(t, NOBODY))
            return false;
        if (!early && !come_back(t, victim))
            return false;
    }
    for (int i = 0; i < 2; i++)
        if (!open_view(t, NOBODY) || !see_rounds(t) || !end_view(t, NOBODY))
            return false;
    return true;
}

/* Members that went on well take leave; others are ended. */
static void end_member(struct trial *t, struct process *p)
{
    static const struct order bye;
    struct pollfd fd = { .fd = p->fd, .events = POLLIN };
    int status       = 0;

    if (t->outcome == WELL) {
        tell(p, &bye);
        if (poll(&fd, 1, (int)(1000 * answer_seconds)) != 1)
            fail(t, AT_END, "member %d does not end", (int)(p - t->member));
    }
    if (t->outcome != WELL)
        kill(p->id, SIGKILL);
    waitpid(p->id, &status, 0);
    close(p->fd);
    if (t->outcome == WELL && status != 0)
        fail(t, WIFEXITED(status) && WEXITSTATUS(status) == 3 ? WRONG : AT_END,
             "member %d ends with status %d", (int)(p - t->member), status);
}

static void print(const char *engine, const char *fault, const struct count *c)
{
    for (int busy = 0; busy < 2; busy++) {
        printf("%s %s %s", engine, fault, busy ? "busy" : "connecting");
        for (int o = 0; o < N_OUTCOMES; o++)
            printf(" %s=%d", outcome_name[o], c->n[busy][o]);
        printf("\n");
    }
    printf("%s %s asked=%d noticed=%d slowest=%.2f kept=%d\n", engine, fault,
           c->n_asked, c->n_noticed, c->slowest, c->n_kept);
}

int main(int argc, char **argv)
{
    static struct count c;
    static struct trial t;
    long first, n;

    if (argc != 5)
        return 2;
    first = strtol(argv[3], NULL, 10);
    n     = strtol(argv[4], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    for (long i = 0; i < n; i++) {
        t = (struct trial){ .engine = argv[1], .seed = (uint64_t)(first + i) };
        run(&t, argv[2][0], &c);
        for (int k = 0; k < MEMBERS; k++)
            if (t.member[k].id > 0)
                end_member(&t, &t.member[k]);
        c.n[t.is_busy][t.outcome]++;
        c.n_kept += t.n_kept > 0;
        if (t.outcome != WELL)
            printf("# %s %s %d: %s: %s\n", argv[1], argv[2], (int)t.seed,
                   outcome_name[t.outcome], t.text);
        fflush(stdout);
    }
    print(argv[1], argv[2], &c);
    return 0;
}
