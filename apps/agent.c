/* agent.c - the parent of the ranks of a host. */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_deaths.h"
#include "agent_doors.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/will_page.h"
#include "passed_on.h"
#include "restarts.h"

enum { TICK_MS = 100, SAME_PLACE = 3 };
static const double least_pause = 0.2, most_pause = 30;

struct rank {
    pid_t             pid; /* 0: none runs */
    int               pidfd;
    int               page_file;
    struct will_page *page;
    struct restarts   again;
    bool              gave_up, founds;
    bool              makes_way; /* for one that begins the job anew */
    int               last_iter, last_status, n_same; /* of its ends */
};

struct agent {
    const struct agent_config *config;
    struct post                post;
    struct rank                rank[AGENT_RANKS];
    struct agent_deaths        deaths;
    bool                       founds; /* the next rank begins the job */
    bool                       asked; /* to end, or the job was */
    enum post_end              over;  /* the job is; 0: it is not */
    bool                       hopeless; /* the job will not get any further */
    int                        code;  /* of the last rank that failed */
    bool                       waited; /* that one did, in vain */
    bool                       any_done, any_left;
    struct member_config       member; /* for the next rank */
    struct agent_doors         doors; /* of the job */
};

/* ---- Signals, which go to the ranks. */

static bool asks_for_end(const struct agent *a, int number)
{
    return signal_flags_end(&a->config->signals, number);
}

/* A rank that has no handlers yet would be ended by other signals. */
static void pass_signals_on(struct agent *a)
{
    for (int i = 0; i < N_PASSED_ON; i++) {
        const int number = passed_on[i];

        if (!passed_on_take(number))
            continue;
        a->asked |= asks_for_end(a, number);
        for (int r = 0; r < a->config->n_ranks; r++)
            if (a->rank[r].pid > 0 &&
                (asks_for_end(a, number) ||
                 passed_on_is_taken(a->rank[r].pid, number)))
                kill(a->rank[r].pid, number);
    }
}

/* ---- Starting. */

/* In the child: nothing of the agent's is left but what it was given. */
static void become_rank(struct agent *a, const struct rank *r,
                        const sigset_t *before)
{
    struct member_config m = a->member;
    sigset_t mask          = *before;
    char number[16];
    int code;

    snprintf(number, sizeof(number), "%d", (int)(r - a->rank));
    (void)!setenv("CORTADO_LOCAL_RANK", number, 1); /* for programs */
    passed_on_reset();
    passed_on_add(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    (void)setpgid(0, 0); /* Ctrl-C reaches the agent, which passes it on */
    m.will   = r->page_file;
    m.founds = a->founds;
    if (a->founds)
        memcpy(m.before, a->deaths.job, sizeof(m.before));
    else
        memcpy(m.seeks, a->deaths.job, sizeof(m.seeks));
    post_stop_child(&a->post);
    for (int k = 0; k < a->config->n_ranks; k++) {
        if (a->rank[k].pidfd >= 0)
            close(a->rank[k].pidfd);
        if (&a->rank[k] != r && a->rank[k].page_file >= 0)
            close(a->rank[k].page_file);
    }
    code = a->config->run(a->config->arg, &m);
    fflush(NULL);
    _exit(code);
}

static enum ct_status start_rank(struct agent *a, struct rank *r)
{
    sigset_t all, before;

    will_page_unmap(r->page);
    if (r->page_file >= 0)
        close(r->page_file);
    r->page      = NULL;
    r->page_file = -1;
    CT_TRY(will_page_create(&r->page_file, &r->page));
    fflush(NULL);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* the child's are not ours */
    r->pid = fork();
    if (r->pid == 0)
        become_rank(a, r, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (r->pid < 0) {
        r->pid = 0;
        return ct_fail(CT_EIO, "cannot start a rank: %s", strerror(errno));
    }
    (void)setpgid(r->pid, r->pid);
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->pidfd < 0) {
        const enum ct_status st = ct_fail(CT_EIO, "pidfd_open: %s",
                                          strerror(errno));

        kill(r->pid, SIGKILL);
        waitpid(r->pid, NULL, 0);
        r->pid = 0;
        return st;
    }
    post_watch(&a->post, r->pidfd, r);
    restarts_began(&r->again);
    r->founds = a->founds;
    a->founds = false;
    return CT_OK;
}

/* ---- Again. */

/* Of the processes that the dead knew. */
static void learn_doors(struct agent *a)
{
    for (const struct post_peer *q = a->post.peers; q; q = q->next)
        agent_doors_learn(&a->doors, &a->post.config.card, &q->card);
}

static bool read_will(const struct rank *r, struct elastic_will *out)
{
    const struct will_place *w = r->page ? will_page_last(r->page) : NULL;

    return w && w->will_bytes <= ELASTIC_WIRE_BYTES &&
           elastic_will_read(w->will, w->will_bytes, out) == CT_OK;
}

static bool is_in(const struct elastic_view *v, const struct rank *r)
{
    const uint64_t id = atomic_load(&r->page->id);

    for (int i = 0; i < v->n; i++)
        if (v->id[i] == id)
            return true;
    return false;
}

/* Who has left is in no view. */
static bool is_in_view(const struct rank *r)
{
    struct elastic_will will;

    return read_will(r, &will) && is_in(&will.view, r);
}

/* Who was left out and is stopped has not heard of it. */
static bool holds_job(const struct agent *a, const struct rank *r)
{
    struct elastic_will will;

    return read_will(r, &will) && is_in(&will.view, r) &&
           !deaths_are_newer(&a->deaths, will_page_last(r->page)->job,
                             &will.view);
}

/* Who has left may be at work for itself. */
static bool was_never_in(const struct rank *r)
{
    struct elastic_will will;

    return atomic_load(&r->page->id) == 0 ||
           (read_will(r, &will) && will.view.number == 0);
}

static bool has_members(const struct agent *a)
{
    for (int r = 0; r < a->config->n_ranks; r++)
        if (a->rank[r].pid > 0 && is_in_view(&a->rank[r]))
            return true;
    return false;
}

/* Ranks say which job it is before one of them is lost. */
static void learn_job(struct agent *a)
{
    for (int r = 0; r < a->config->n_ranks; r++)
        if (a->rank[r].pid > 0 && is_in_view(&a->rank[r]))
            deaths_learn_job(&a->deaths, will_page_last(a->rank[r].page)->job);
}

/* While ranks of this agent are in the job, most deaths are of no use. */
static void forget_deaths(struct agent *a)
{
    struct elastic_will will;

    for (int r = 0; r < a->config->n_ranks && a->deaths.first; r++)
        if (a->rank[r].pid > 0 && read_will(&a->rank[r], &will) &&
            is_in(&will.view, &a->rank[r]))
            deaths_outlived(&a->deaths, will_page_last(a->rank[r].page)->job,
                            &will);
}

/* Nobody is in the job any more, it is not over, and this agent is the one to
 * begin it anew.  (A view of one that never began is such a view, too.)  Who
 * left it before that is in none. */
static bool is_deserted(const struct agent *a)
{
    if (a->over || !deaths_leave_job_to_us(&a->deaths))
        return false;
    for (int r = 0; r < a->config->n_ranks; r++)
        if (a->rank[r].pid > 0 && holds_job(a, &a->rank[r]))
            return false;
    return true;
}

/* The next rank begins the job anew where nobody is left of it; otherwise it
 * knocks at those that the dead knew, and at the doors that others share with
 * those who came after them. */
static void plan_start(struct agent *a)
{
    learn_job(a);
    a->member.n_knock = a->config->member.n_knock;
    if (a->config->find)
        a->config->find(a->config->arg, &a->member);
    agent_doors_knock(&a->doors, &a->post, &a->member);
    if (a->founds) /* the first of all has not begun yet */
        return;
    a->founds = is_deserted(a);
    if (a->founds)
        deaths_begin_anew(&a->deaths);
}

static void say_end(const struct rank *r, pid_t pid, int status, bool again)
{
    char how[64];

    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "was ended by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof(how), "ended with status %d",
                 WEXITSTATUS(status));
    if (again)
        CT_WARN("Process %ld %s; another one starts in %.1f s", (long)pid, how,
                r->again.pause);
    else if (r->n_same >= SAME_PLACE)
        CT_ERROR("Process %ld %s after iteration %d, as %d before it: it is "
                 "not started again", (long)pid, how, r->last_iter,
                 r->n_same - 1);
    else
        CT_WARN("Process %ld %s, and is not started again", (long)pid, how);
}

static bool starts_nobody(const struct agent *a)
{
    return a->asked || a->over || a->hopeless;
}

/* The last of the others is heard to be dead while all new ranks wait for them:
 * one that begins the job takes the place of one that waits. */
static void make_way(struct agent *a)
{
    struct rank *one = NULL;

    if (a->founds || starts_nobody(a) || !is_deserted(a))
        return;
    for (int r = 0; r < a->config->n_ranks; r++) {
        struct rank *k = &a->rank[r];

        if (k->makes_way || (k->pid == 0 && !k->gave_up))
            return; /* one is about to start */
        if (k->pid > 0 && was_never_in(k))
            one = k;
    }
    if (!one)
        return;
    CT_WARN("All processes of the job have ended, those of other agents, too: "
            "it begins anew");
    one->makes_way = kill(one->pid, SIGKILL) == 0;
}

/* How often it has ended like that in a row.  Who waits for others, as while a
 * network is down, is at no place. */
static void count_same(struct rank *r, int status)
{
    const int iter  = atomic_load(&r->page->iter);
    const bool same = iter == r->last_iter && status == r->last_status;

    if (atomic_load(&r->page->waited)) {
        r->n_same = 0;
        return;
    }
    r->n_same      = same ? r->n_same + 1 : 1;
    r->last_iter   = iter;
    r->last_status = status;
}

/* Another one in its place would end alike.  While others of this agent are in
 * the job, e.g. because there is no room for one more, the job goes on, and
 * they are still replaced. */
static void plan_again(struct agent *a, struct rank *r, pid_t pid, int status)
{
    const bool in_vain = WIFEXITED(status) &&
                         WEXITSTATUS(status) <= a->config->hopeless;
    bool again;

    count_same(r, status);
    a->hopeless |= in_vain && !has_members(a);
    restarts_ended(&r->again);
    again = !in_vain && !starts_nobody(a) &&
            r->again.n < a->config->restarts && r->n_same < SAME_PLACE;
    restarts_plan(&r->again, least_pause, most_pause);
    say_end(r, pid, status, again);
    r->gave_up = !again;
    r->again.n++;
    if (again)
        return;
    a->waited = atomic_load(&r->page->waited);
    a->code   = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                    : WEXITSTATUS(status);
}

/* Nothing is to come in its place: the job is over, or it left.  A program may
 * end with the status of success long before the job does. */
static bool ended_well(struct agent *a, struct rank *r, pid_t pid, int status)
{
    const int code     = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const bool entered = atomic_load(&r->page->id) != 0;

    if (code == a->config->done && a->over) {
        a->any_done = true;
    } else if (code == a->config->done) {
        CT_WARN("Process %ld ended with status %d %s", (long)pid, code,
                entered ? "before the job was done: it has left it"
                        : "and has not been in the job");
        a->any_left |= entered;
    } else if (code == a->config->stopped) {
        a->asked |= a->over || is_in_view(r);
        a->any_left = true;
    } else if (WIFSIGNALED(status) && a->asked && !entered &&
               asks_for_end(a, WTERMSIG(status))) {
        CT_INFO("Process %ld was asked to end before it was in the job",
                (long)pid);
        a->any_left = true;
    } else {
        return false;
    }
    r->gave_up = true;
    return true;
}

static void rank_ended(struct agent *a, struct rank *r)
{
    const pid_t pid = r->pid;
    int status      = 0;

    if (waitpid(pid, &status, WNOHANG) != pid)
        return;
    close(r->pidfd);
    r->pidfd = -1;
    r->pid   = 0;
    if (r->founds && atomic_load(&r->page->id) == 0)
        a->founds = true; /* it had not even begun */
    deaths_note_own(&a->deaths, &a->post, r->page);
    learn_doors(a);
    if (!a->over)
        a->over = (enum post_end)atomic_load(&r->page->over);
    if (r->makes_way)
        r->makes_way = false;
    else if (!ended_well(a, r, pid, status))
        plan_again(a, r, pid, status);
}

static void on_event(void *arg, void *about)
{
    struct agent *a = arg;

    if (about == a->config->orders && !order_input_read(a->config->orders))
        post_unwatch(&a->post, a->config->orders->fd);
    for (int r = 0; r < a->config->n_ranks; r++)
        if (about == &a->rank[r] && a->rank[r].pid > 0)
            rank_ended(a, &a->rank[r]);
}

/* Of another agent. */
static void on_letter(void *arg, struct post_caller *from, enum post_kind kind,
                      const uint8_t *body, size_t bytes)
{
    struct agent *a = arg;

    if (from->what != POST_AGENT)
        return;
    if (kind == POST_DEAD)
        deaths_take(&a->deaths, body, bytes);
    else if (kind == POST_DONE)
        post_take_done(&a->post, body, bytes);
}

/* ---- The whole. */

static bool is_over(struct agent *a)
{
    bool over = true;

    for (int r = 0; r < a->config->n_ranks; r++)
        over &= a->rank[r].pid == 0 &&
                (a->rank[r].gave_up || starts_nobody(a));
    return over;
}

/* While a death is told of, in the time that a restart waits anyway. */
static void start_due(struct agent *a)
{
    for (int r = 0; r < a->config->n_ranks; r++) {
        struct rank *k = &a->rank[r];

        if (k->pid > 0 || k->gave_up || starts_nobody(a) ||
            ct_now() < k->again.next_start)
            continue;
        plan_start(a);
        if (start_rank(a, k) != CT_OK) { /* memory or processes are short */
            CT_WARN("%s; it is tried again", ct_last_error());
            k->again.next_start = ct_now() + 1;
        }
    }
}

/* The others are told of the last ends, too. */
static void say_goodbye(struct agent *a)
{
    const double end = ct_now() + 1;
    struct post_events events;

    while (a->post.peers && ct_now() < end) {
        post_wait(&a->post, 10, &events);
        post_work(&a->post, &events);
        deaths_tell(&a->deaths, &a->post, a->over);
        if (deaths_are_told(&a->deaths, &a->post))
            return;
    }
}

/* All its ranks may be dead as the others finish the job.  Nobody finishes one
 * that is yet to begin here. */
static void hear_done(struct agent *a)
{
    static const uint8_t none[POST_JOB_BYTES];

    if (a->over || memcmp(a->post.done, none, sizeof(none)) == 0)
        return;
    learn_job(a);
    if (deaths_knows_job(&a->deaths)
            ? !deaths_may_be_of(&a->deaths, a->post.done)
            : a->config->founds)
        return;
    a->over = a->post.end;
    a->asked |= a->over == POST_STOPPED;
    CT_INFO("The others have %s the job",
            a->over == POST_STOPPED ? "stopped" : "finished");
}

static void attend(struct agent *a)
{
    struct post_events events;

    while (!is_over(a)) {
        start_due(a);
        post_wait(&a->post, TICK_MS, &events);
        post_work(&a->post, &events);
        hear_done(a);
        make_way(a);
        forget_deaths(a);
        deaths_tell(&a->deaths, &a->post, a->over);
        pass_signals_on(a);
    }
    say_goodbye(a);
}

static void take_config(struct agent *a, const struct agent_config *c)
{
    a->config = c;
    a->member = c->member;
    a->founds = c->founds;
    if (!c->founds)
        deaths_learn_job(&a->deaths, c->member.seeks);
    for (int r = 0; r < AGENT_RANKS; r++)
        a->rank[r].pidfd = a->rank[r].page_file = -1;
}

static int code_of(const struct agent *a)
{
    if (a->any_done)
        return a->config->done;
    if (a->asked && (a->any_left || a->code == 0))
        return a->config->stopped;
    return a->code == 0 && a->any_left ? a->config->stopped : a->code;
}

static void make_card(const struct agent_config *c, struct elastic_card *out)
{
    card_of_this_process(out);
    out->door = c->member.door >= 0 ? ct_port_of(c->member.door) : 0;
    out->id   = c->member.agent;
    if (out->id == 0) {
        seal_draw(&out->id, sizeof(out->id));
        out->id |= 1;
    }
    out->agent = out->id;
}

enum ct_status agent_run(const struct agent_config *c, int *code,
                         bool *waited)
{
    struct post_config p = { .secret = c->member.secret, .what = POST_AGENT,
                             .door = -1, .take = on_letter,
                             .event = on_event };
    struct agent *a      = NULL;
    enum ct_status st;

    CT_ASSERT(c->n_ranks > 0 && c->n_ranks <= AGENT_RANKS);
    CT_TRY(seal_init());
    CT_TRY(ct_alloc(1, sizeof(*a), "an agent", &a));
    take_config(a, c);
    p.arg = a;
    make_card(c, &p.card);
    st = post_start(&a->post, &p);
    if (st == CT_OK) {
        a->member.agent      = a->post.config.card.id;
        a->member.agent_port = a->post.config.card.port;
        passed_on_catch();
        if (c->orders)
            post_watch(&a->post, c->orders->fd, c->orders);
        attend(a);
        post_stop(&a->post);
    }
    *code   = code_of(a);
    *waited = a->waited && *code == a->code && !a->asked && !a->over;
    deaths_fini(&a->deaths);
    ct_free(a);
    return st;
}
