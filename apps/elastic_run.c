/* elastic_run.c - runs trainings whose processes come and go. */
#include "elastic_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent_output.h"
#include "base/mem.h"
#include "elastic/agreement.h"
#include "elastic/handed.h"
#include "elastic/places.h"
#include "elastic/rendezvous.h"
#include "passed_on.h"

/* ---- A process of the job. */

struct running {
    const struct rendezvous *meet;
    const char    *where;
    elastic_run_fn run;
    void          *arg;
    int            level; /* of the log of rank 0 */
    char         **program;
    struct agent_output output; /* of programs */
};

static void placed(void *arg, const struct elastic_place *p)
{
    const struct running *r = arg;

    member_hush(p, r->level);
}

/* Files are not flushed: the thread that hangs may hold one. */
static void hangs(void *arg, const char *why)
{
    (void)arg;
    CT_ERROR("%s", why);
    _exit(EXIT_RUNTIME);
}

static int run_member(void *arg, const struct member_config *given)
{
    struct running *r        = arg;
    struct member_config c   = *given;
    struct elastic_member *m = NULL;
    enum ct_status st;

    c.placed = placed;
    c.hangs  = hangs;
    c.prepares = true;
    c.arg    = r;
    st       = member_create(&c, &m);
    if (st == CT_OK)
        st = r->run(m, r->arg);
    member_destroy(m);
    return st == CT_OK      ? EXIT_DONE
           : st == CT_ESTOP ? EXIT_STOPPED
                            : command_failed(st);
}

/* In a process of its own.  What the program reads is its own, and no order for
 * the agent. */
static int become_program(void *arg, const struct member_config *c)
{
    const struct running *r = arg;
    const int nothing       = open("/dev/null", O_RDONLY);

    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    agent_output_give(&r->output);
    signal(SIGPIPE, SIG_DFL);
    passed_on_unblock();
    if (handed_give(c) != CT_OK)
        return command_failed(CT_EIO);
    execvp(r->program[0], r->program);
    CT_ERROR("%s: %s", r->program[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

/* ---- The agent. */

/* Those who have come since, and the ranks of this agent. */
static void find_doors(void *arg, struct member_config *c)
{
    const struct running *r = arg;
    struct rendezvous now   = *r->meet;

    rendezvous_look(&now, r->where);
    memcpy(c->knock, now.knock, sizeof(now.knock));
    c->n_knock = now.n_knock;
    if (c->n_knock < MEMBER_DOORS)
        c->knock[c->n_knock++] =
            (struct elastic_door){ ct_loopback_address(), now.port };
}

static enum ct_status read_size(const struct elastic_flags *f, int n,
                                int *least, int *most)
{
    const char *text = f->elastic;

    CT_TRY(member_read_size(text, least, most));
    CT_TRY(member_limit_size(f->most, *least, most));
    if (n > *most)
        return ct_fail(CT_EINVAL, "--ranks=%d is more than the %d of "
                       "--elastic=%s%s", n, *most, text,
                       *most == f->most ? ", the batch and --parts" : "");
    return CT_OK;
}

static enum ct_status check_flags(const struct elastic_flags *f, int n)
{
    if (!(f->suspect > 0) || !(f->orphan > 0))
        return ct_fail(CT_EINVAL, "--suspect and --orphan are seconds, more "
                       "than 0");
    if (n < 1 || n > AGENT_RANKS)
        return ct_fail(CT_EINVAL, "--ranks is 1 to %d processes of this "
                       "machine", AGENT_RANKS);
    return CT_OK;
}

/* Each process talks to every other one. */
static void allow_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)!setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void say_where(const struct rendezvous *r)
{
    char host[64] = "";

    (void)!gethostname(host, sizeof(host) - 1);
    CT_INFO("%s an elastic job; others come by 'cortado join %s:%d'",
            r->founds ? "Beginning" : "Joining", host, ntohs(r->port));
}

/* How to start as this process was: its folder, then its words, a line each.
 * For the caller to ct_free. */
static enum ct_status describe(char **words, char **out)
{
    struct ct_text text = { 0 };
    char folder[4096];

    if (!getcwd(folder, sizeof(folder)))
        return ct_fail(CT_EIO, "the working folder: %s", strerror(errno));
    ct_text_addf(&text, "%s\n", folder);
    for (; words && *words; words++) {
        if (strchr(*words, '\n')) {
            ct_text_fini(&text);
            return ct_fail(CT_EINVAL, "a flag has a line break in it");
        }
        ct_text_addf(&text, "%s\n", *words);
    }
    *out = text.s;
    return text.failed ? CT_ENOMEM : CT_OK;
}

/* Before the agent reads its orders: others are asked where the job is. */
static bool is_asked_to_end(void *arg)
{
    const struct agent_config *a = arg;

    return order_input_asks_for_end(a->orders, &a->signals);
}

int elastic_run(const struct elastic_flags *f, int n, uint64_t digest,
                int iterations, elastic_run_fn run, void *arg)
{
    struct rendezvous r    = { .door = -1 };
    struct running running = { &r, f->rendezvous, run, arg,
                               (int)ct_log_level(), f->program,
                               { { -1, -1 }, 0 } };
    struct agent_config a  = { .n_ranks = n > 0 ? n : 1,
                               .restarts = f->restarts,
                               .run = f->program ? become_program : run_member,
                               .find = find_doors, .arg = &running,
                               .done = EXIT_DONE,
                               .stopped = EXIT_STOPPED,
                               .hopeless = f->program ? EXIT_DONE
                                                      : EXIT_INPUT };
    struct order_input orders = { .fd = STDIN_FILENO }; /* behind the secret */
    struct places_patience patience;
    const bool ordered = f->secret_file && strcmp(f->secret_file, "-") == 0;
    char *description  = NULL;
    int code           = EXIT_DONE;
    bool waited        = false;
    enum ct_status st;

    if (f->signals)
        a.signals = *f->signals;
    signal_flags_default(&a.signals, true);
    a.member = (struct member_config){ .suspect = f->suspect,
                                       .orphan = f->orphan,
                                       .stall = f->stall, .will = -1,
                                       .digest = digest,
                                       .last = iterations };
    CT_TRY_GOTO(check_flags(f, a.n_ranks), st, out);
    CT_TRY_GOTO(read_size(f, a.n_ranks, &a.member.least, &a.member.most), st,
                out);
    allow_files();
    if (ordered && f->program)
        CT_TRY_GOTO(agent_output_begin(&running.output), st, out);
    a.orders = ordered ? &orders : NULL;
    patience = (struct places_patience){ f->orphan,
                                         ordered ? is_asked_to_end : NULL,
                                         &a };
    CT_TRY_GOTO(rendezvous_open_while(&r, f->rendezvous, f->secret_file,
                                      &patience), st, out);
    CT_TRY_GOTO(describe(f->words, &description), st, out);
    say_where(&r);
    a.founds          = r.founds;
    a.member.agent    = r.agent;
    memcpy(a.member.seeks, r.job, sizeof(a.member.seeks));
    a.member.secret   = r.secret;
    a.member.door     = r.door;
    a.member.file     = r.file;
    a.member.description = description;
    st = agent_run(&a, &code, &waited);
    /* A program may end with a status that has another meaning for `launch`:
     * that of a lost agent, of ssh, or of an agent. */
    if (ordered && waited)
        code = EXIT_ALONE;
    else if (ordered && (code > 128 || code == EXIT_EARLY ||
                               code == EXIT_ALONE))
        code = EXIT_GAVE_UP;
out:
    rendezvous_close(&r);
    ct_free(description);
    agent_output_end(&running.output);
    if (st == CT_ESTOP)
        code = EXIT_STOPPED;
    else if (st != CT_OK)
        code = command_failed(st);
    return r.is_taken ? EXIT_EARLY : code;
}
