/* cmd_launch.c - `cortado launch`: an elastic job on several hosts, or the
 * ranks of one of them.
 *
 * On each host one agent (agent.h) is started, by ssh, or by srun inside a
 * Slurm job; this host's by itself.  The secret goes to their standard input,
 * and signals that this process gets follow it there.  Agents and ranks go on
 * when this process is killed.  Ranks go on without their agent, too: a signal
 * that is to end them becomes a request to the job, which ends as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "command.h"
#include "elastic/secret.h"
#include "elastic_run.h"
#include "flags.h"
#include "help.h"
#include "hosts.h"
#include "passed_on.h"
#include "restarts.h"
#include "train.h"
#include "whereabouts.h"

/* Seconds from the end of an agent to the start of the next. */
static const double least_pause = 1, most_pause = 60;
static const double end_pause = 1; /* between requests to end */

struct launch_flags {
    const char          *hosts;
    int                  port, ranks;
    struct elastic_flags elastic; /* of a program */
    struct signal_flags  signals; /* the same */
    bool                 mpi;     /* a job of fixed size (supervise.h) */
    int                  min_ranks;
};

/* The agent of one host. */
struct agent {
    pid_t  pid;  /* its own, or of what started it; 0: it has ended */
    int    to;   /* its standard input */
    struct restarts again;
    double unanswered; /* since when the job has not answered; 0: it has */
    bool   lost; /* the last one was: its ranks may go on */
};

struct launch {
    struct hosts hosts;
    struct agent agent[HOSTS_MOST]; /* one a host */
    uint8_t     key[SEAL_SECRET_BYTES];
    struct whereabouts where;
    struct signal_flags signals; /* what they do to ranks */
    bool        asked;     /* to end */
    double      next_request; /* to the job to end */
    double      unanswered;   /* since when it has not answered one; 0: it
                               * has */
    bool        stopped;   /* the job has answered one: it is to end */
    int         code;      /* of the last agent */
    bool        done;      /* an agent says that the job is */
    char        self[PATH_MAX], folder[PATH_MAX];
    char      **words; /* behind `train`, or a program's; NULL ends them */
    bool        is_program;
    bool        has_size; /* one of them is --elastic */
    const struct elastic_flags *elastic;
};

/* ---- Starting. */

enum { OWN_WORDS = 16, OWN_BYTES = 512 };

/* What signals do to ranks that are a program. */
static int put_signals(const struct launch *l, char own[][OWN_BYTES])
{
    const struct signal_flags *f = &l->signals;
    const char *const word[][2]  = { { "int", f->sigint },
                                     { "hup", f->sighup },
                                     { "term", f->sigterm },
                                     { "usr1", f->sigusr1 } };
    int n = 0;

    for (; n < 4; n++)
        snprintf(own[n], OWN_BYTES, "--sig%s_effect=%s", word[n][0],
                 word[n][1]);
    return n;
}

/* Flags of an agent but for where it meets the others; they lie in `own`. */
static int agent_flags(const struct launch *l, int k, char own[][OWN_BYTES],
                       const char **out)
{
    const struct elastic_flags *f = l->elastic;
    const struct host *h          = &l->hosts.host[k];
    int n = 0;

    snprintf(own[n++], OWN_BYTES, "--ranks=%d", h->n_ranks);
    if (l->is_program) {
        snprintf(own[n++], OWN_BYTES, "--elastic=%s",
                 f->elastic ? f->elastic : "1:1024");
        snprintf(own[n++], OWN_BYTES, "--suspect=%.9g", f->suspect);
        snprintf(own[n++], OWN_BYTES, "--orphan=%.9g", f->orphan);
        snprintf(own[n++], OWN_BYTES, "--restarts=%d", f->restarts);
        n += put_signals(l, own + n);
    } else if (!l->has_size) {
        snprintf(own[n++], OWN_BYTES, "--elastic=1:1024");
    }
    snprintf(own[n++], OWN_BYTES, "--secret_file=-");
    for (int i = 0; i < n; i++)
        out[i] = own[i];
    return n;
}

/* What an agent is started with. */
static void agent_words(const struct launch *l, int k, const char *meet,
                        char own[][OWN_BYTES], const char **out)
{
    int n = 0;

    out[n++] = l->self;
    out[n++] = l->is_program ? "launch" : "train";
    out[n++] = meet;
    n += agent_flags(l, k, own, out + n);
    if (l->is_program)
        out[n++] = "--";
    for (char **w = l->words; *w; w++)
        out[n++] = *w;
    out[n] = NULL;
}

static bool give_orders(struct launch *l, int k)
{
    struct ct_text line = { 0 };
    bool well;

    where_put_line(&l->where, k, &line);
    well = !line.failed && write(l->agent[k].to, line.s, line.n_bytes) ==
                               (ssize_t)line.n_bytes;
    ct_text_fini(&line);
    return well;
}

/* Starts what these words say on the host, and gives it orders. */
static enum ct_status start_words(struct launch *l, int k, const char **words)
{
    const struct host *h = &l->hosts.host[k];
    struct agent *a      = &l->agent[k];
    int ends[2]          = { -1, -1 };

    if (pipe2(ends, O_CLOEXEC) != 0 || (a->pid = fork()) < 0) {
        const int error = errno;

        for (int i = 0; i < 2 && ends[i] >= 0; i++)
            close(ends[i]);
        a->pid = 0;
        return ct_fail(CT_EIO, "%s: cannot start: %s", h->name,
                       strerror(error));
    }
    if (a->pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        setpgid(0, 0); /* signals of a terminal come through us */
        hosts_become(h, l->folder, words);
        fprintf(stderr, "cortado launch: %s: %s\n", h->name, strerror(errno));
        _exit(127);
    }
    restarts_began(&a->again);
    a->lost = false;
    close(ends[0]);
    a->to = ends[1];
    return give_orders(l, k) ? CT_OK
                             : ct_fail(CT_EIO, "%s: %s", h->name,
                                       strerror(errno));
}

static enum ct_status start(struct launch *l, int k, bool again)
{
    struct ct_text meet = { 0 };
    const char **words  = NULL;
    char own[OWN_WORDS][OWN_BYTES];
    size_t n_words = OWN_WORDS + 5;
    enum ct_status st;

    for (char **w = l->words; *w; w++)
        n_words++;
    where_put_flag(&l->where, k, again, &meet);
    st = meet.failed ? CT_ENOMEM
                     : ct_alloc(n_words, sizeof(*words), "a command line",
                                &words);
    if (st == CT_OK) {
        agent_words(l, k, meet.s, own, words);
        st = start_words(l, k, words);
    }
    ct_free(words);
    ct_text_fini(&meet);
    return st;
}

/* ---- While they run. */

/* Hosts that no signal reaches, though their ranks may go on. */
static int count_lost(const struct launch *l)
{
    int n = 0;

    for (int k = 0; k < l->hosts.n; k++)
        n += l->agent[k].lost;
    return n;
}

/* The signal for agents in place of one that is to end their ranks, while there
 * are ranks that it does not reach: one that stops the whole job, if there is
 * one. */
static int signal_for_all(const struct launch *l, int number)
{
    for (int i = 0; i < N_PASSED_ON && count_lost(l) > 0; i++)
        if (signal_flags_stop(&l->signals, passed_on[i]))
            return passed_on[i];
    return number;
}

/* A second signal: hosts that have not heard the first one may be gone without
 * a word, as when they lose their power.  Those that are there go on without
 * this connection, and hear of the end from the job. */
static void hang_up(struct launch *l)
{
    for (int k = 0; k < l->hosts.n; k++) {
        const struct host *h = &l->hosts.host[k];

        if (h->is_here || l->agent[k].pid == 0)
            continue;
        CT_WARN("%s: a second signal ends the connection to its agent",
                h->name);
        kill(l->agent[k].pid, SIGKILL);
    }
}

static void pass_on(struct launch *l)
{
    const bool was_asked = l->asked;
    bool insists         = false;

    for (int i = 0; i < N_PASSED_ON; i++) {
        int n, number = passed_on[i];
        char line[32];

        if (!passed_on_take(number))
            continue;
        if (signal_flags_end(&l->signals, number)) {
            l->asked = true;
            insists  = was_asked;
            number   = signal_for_all(l, number);
        }
        n = snprintf(line, sizeof(line), "signal %d\n", number);
        for (int k = 0; k < l->hosts.n; k++)
            if (l->agent[k].pid > 0)
                (void)!write(l->agent[k].to, line, (size_t)n);
    }
    if (insists)
        hang_up(l);
}

static bool is_done(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE;
}

/* Agents that run, or are to start again. */
static int count_left(const struct launch *l, bool running)
{
    int n = 0;

    for (int k = 0; k < l->hosts.n; k++)
        n += l->agent[k].pid > 0 ||
             (!running && l->agent[k].again.next_start > 0);
    return n;
}

/* Is there a job that an agent can join?  Ranks may go on when all agents are
 * lost. */
static bool job_is_there(struct launch *l)
{
    const bool runs = count_left(l, true) > 0;

    return where_ask(&l->where, runs ? 1 : 0) || runs;
}

/* It was killed, its host or the connection to that was lost, or ranks of the
 * one before it still run.  An agent that gives up by itself has tried to start
 * ranks often enough. */
static bool was_lost(const struct launch *l, int k, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

    return WIFSIGNALED(status) ||
           (!l->hosts.host[k].is_here && code > 128) ||
           (l->agent[k].again.n > 0 && code == EXIT_RUNTIME) ||
           code == EXIT_EARLY;
}

/* An agent that came too early has started nothing, which does not count. */
static void plan_restart(struct launch *l, int k, int code)
{
    struct restarts *r = &l->agent[k].again;
    const char *name   = l->hosts.host[k].name;

    if (code == EXIT_EARLY) {
        restarts_plan(r, least_pause, most_pause);
        CT_WARN("%s: ranks of its last agent still run; another agent starts "
                "in %.0f s", name, r->pause);
        return;
    }
    restarts_plan(r, least_pause, most_pause);
    r->n++;
    if (code == EXIT_ALONE)
        CT_WARN("%s: its ranks have waited for the others in vain; another "
                "agent starts in %.0f s, %d of %d times", name, r->pause, r->n,
                l->elastic->restarts);
    else
        CT_WARN("%s: its agent ended with status %d; another one starts in "
                "%.0f s, %d of %d times", name, code, r->pause, r->n,
                l->elastic->restarts);
}

static void agent_ended(struct launch *l, int k, int status)
{
    struct agent *a = &l->agent[k];
    const int code  = WIFEXITED(status) ? WEXITSTATUS(status)
                                        : 128 + WTERMSIG(status);
    const bool lost = was_lost(l, k, status), alone = code == EXIT_ALONE;

    a->pid  = 0;
    a->lost = lost;
    close(a->to);
    where_end(&l->where, k);
    if (WIFEXITED(status) && code != EXIT_EARLY && !(l->asked && code > 128))
        l->code = alone ? EXIT_RUNTIME : code;
    if (is_done(status))
        return;
    restarts_ended(&a->again);
    if (l->asked || l->done || (!lost && !alone) ||
        (a->again.n >= l->elastic->restarts && code != EXIT_EARLY))
        CT_WARN("%s: its agent ended with status %d", l->hosts.host[k].name,
                code);
    else
        plan_restart(l, k, code);
}

/* The network may be down for a while: then the job is asked again. */
static void await_job(struct launch *l, struct agent *a)
{
    const double now = ct_now();

    if (a->unanswered == 0)
        a->unanswered = now;
    if (l->where.all_here || now - a->unanswered > l->elastic->orphan) {
        CT_WARN("The job does not answer: no other agent is started");
        return;
    }
    if (a->unanswered == now)
        CT_WARN("The job does not answer: it is asked again for %.0f s",
                l->elastic->orphan);
    a->again.next_start = now + least_pause;
}

/* Starts agents that are due, if the job is still there. */
static void start_due(struct launch *l)
{
    for (int k = 0; k < l->hosts.n; k++) {
        struct agent *a = &l->agent[k];

        if (a->again.next_start == 0 ||
            (ct_now() < a->again.next_start && !l->asked && !l->done))
            continue;
        a->again.next_start = 0;
        if (l->asked || l->done)
            continue;
        if (!job_is_there(l) && !where_begins(&l->where, k)) {
            await_job(l, a);
            continue;
        }
        a->unanswered = 0;
        if (start(l, k, true) == CT_OK)
            continue;
        CT_WARN("%s", ct_last_error());
        if (a->pid == 0) /* fork failed, which may pass */
            a->again.next_start = ct_now() + a->again.pause;
    }
}

/* Hosts whose agents were lost have no rank of the job any more (`gone`), or it
 * did not answer for long. */
static void forget_lost(struct launch *l, bool gone)
{
    for (int k = 0; k < l->hosts.n; k++) {
        if (l->agent[k].lost && !gone)
            CT_WARN("%s: its agent was lost, and the job does not answer: "
                    "ranks may still train there", l->hosts.host[k].name);
        l->agent[k].lost = false;
    }
}

/* Is the job to end, while there may be ranks that signals do not reach? */
static bool is_ending_lost(const struct launch *l)
{
    return l->asked && !l->done && count_lost(l) > 0;
}

/* Asks the job to end while there are ranks that signals do not reach, again
 * and again: the rank that hears it may be lost before the others know. */
static void end_lost(struct launch *l)
{
    const double now = ct_now();
    enum ct_status st;

    if (!is_ending_lost(l) || now < l->next_request)
        return;
    if (l->next_request == 0)
        CT_WARN("Signals do not reach the ranks of lost agents: the whole job "
                "is asked to end");
    l->next_request = now + end_pause;
    st = where_end_job(&l->where);
    if (st == CT_OK) {
        l->unanswered = 0;
        l->code       = l->stopped ? l->code : EXIT_STOPPED;
        l->stopped    = true;
        return;
    }
    if (l->unanswered == 0)
        l->unanswered = now;
    if (st == CT_ENOTFOUND || now - l->unanswered > l->elastic->orphan)
        forget_lost(l, st == CT_ENOTFOUND);
}

/* Returns EXIT_DONE if any agent finished the job, otherwise the status of the
 * last agent. */
static int attend(struct launch *l)
{
    l->code = EXIT_RUNTIME;
    while (count_left(l, false) > 0 || is_ending_lost(l)) {
        int status      = 0;
        const pid_t pid = waitpid(-1, &status, WNOHANG);

        for (int k = 0; k < l->hosts.n && pid > 0; k++)
            if (l->agent[k].pid == pid) {
                l->done |= is_done(status);
                agent_ended(l, k, status);
            }
        pass_on(l);
        start_due(l);
        end_lost(l);
        where_look(&l->where);
        if (pid <= 0)
            poll(NULL, 0, 100);
    }
    return l->done ? EXIT_DONE : l->code;
}

/* What signals do, as agents and ranks read it. */
static void read_signals(struct launch *l, const struct launch_flags *f)
{
    if (l->is_program)
        l->signals = f->signals;
    else
        l->signals = (struct signal_flags){
            flags_peek("train", l->words, "sigint_effect"),
            flags_peek("train", l->words, "sighup_effect"),
            flags_peek("train", l->words, "sigterm_effect"),
            flags_peek("train", l->words, "sigusr1_effect"),
        };
    signal_flags_default(&l->signals, true);
}

static enum ct_status prepare(struct launch *l, const struct launch_flags *f)
{
    char *path = NULL;
    ssize_t n  = readlink("/proc/self/exe", l->self, sizeof(l->self) - 1);
    enum ct_status st;

    if (n < 0 || !getcwd(l->folder, sizeof(l->folder)))
        return ct_fail(CT_EIO, "this program's file or folder: %s",
                       strerror(errno));
    CT_TRY(seal_init());
    if (!f->elastic.secret_file)
        CT_TRY(secret_default_path(&path));
    st = secret_read(path ? path : f->elastic.secret_file, true, l->key);
    ct_free(path);
    CT_TRY(st);
    for (char **w = l->words; *w && !l->is_program; w++)
        l->has_size |= strncmp(*w + strspn(*w, "-"), "elastic", 7) == 0;
    read_signals(l, f);
    CT_TRY(hosts_read(&l->hosts, f->hosts));
    return where_choose(&l->where, &l->hosts, l->key, f->port);
}

static int launch(struct launch *l, const struct launch_flags *f)
{
    enum ct_status st = prepare(l, f);
    int code          = EXIT_DONE;

    if (st != CT_OK)
        return command_failed(st);
    passed_on_catch();
    CT_INFO("%d rank(s) on %d host(s) meet at %s", l->hosts.n_ranks,
            l->hosts.n, l->where.meet);
    for (int k = 0; k < l->hosts.n && st == CT_OK; k++)
        st = start(l, k, false);
    if (st != CT_OK) {
        code = command_failed(st);
        passed_on_note(SIGINT); /* those that have started end again */
    }
    for (int k = 0; k < l->hosts.n; k++)
        if (l->agent[k].pid == 0)
            l->hosts.n = k;
    return st == CT_OK ? attend(l) : (attend(l), code);
}

static int launch_on_hosts(const struct launch_flags *f, char **words)
{
    struct launch *l = NULL;
    int code;

    if (ct_alloc(1, sizeof(*l), "hosts", &l) != CT_OK)
        return command_failed(CT_ENOMEM);
    l->is_program = strcmp(words[0], "train") != 0;
    l->words      = words + !l->is_program;
    l->elastic    = &f->elastic;
    code          = launch(l, f);
    ct_free(l);
    return code;
}

/* Below an agent that is this process.  `words` is all of the command line: who
 * joins says the same. */
static int launch_here(struct launch_flags *f, char **words, char **program)
{
    f->elastic.elastic = f->elastic.elastic ? f->elastic.elastic : "";
    f->elastic.words   = words;
    f->elastic.program = program;
    f->elastic.signals = &f->signals;
    return elastic_run(&f->elastic, f->ranks, 0, 0, NULL, NULL);
}

static int launch_by_words(int argc, char **argv, char **words)
{
    struct launch_flags f = { .elastic = ELASTIC_DEFAULTS, .ranks = 1,
                              .min_ranks = 1 };
    const struct flag flags[] = { FLAG("hosts", &f.hosts),
                                  FLAG("port", &f.port),
                                  FLAG("ranks", &f.ranks),
                                  FLAG("mpi", &f.mpi),
                                  FLAG("min_ranks", &f.min_ranks),
                                  ELASTIC_FLAGS(f.elastic),
                                  SIGNAL_FLAGS(f.signals), FLAG_END };
    static char hosts[] = "--hosts";
    int n               = 1, code;
    bool helped;

    while (n < argc && strcmp(argv[n], "--") != 0) {
        if (strcmp(argv[n], "-H") == 0)
            argv[n] = hosts;
        n++;
    }
    code = n;
    if (!flags_parse(flags, &code, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (code != 1 || n + 1 >= argc ||
        (!f.hosts && strcmp(argv[n + 1], "train") == 0) ||
        (f.mpi && (!f.hosts || strcmp(argv[n + 1], "train") != 0))) {
        help_usage(stderr, command_named("launch"));
        return EXIT_USAGE;
    }
    if (strcmp(argv[n + 1], "train") == 0 && signal_flags_given(&f.signals))
        return command_failed(ct_fail(
            CT_EINVAL, "what signals do to training stands behind `train`"));
    if (signal_flags_check(&f.signals) != CT_OK)
        return command_failed(CT_EINVAL);
    if (f.mpi)
        return train_on_hosts(f.hosts, f.min_ranks, f.elastic.restarts,
                              argv + n + 1);
    if (f.hosts && f.elastic.rendezvous)
        return command_failed(ct_fail(
            CT_EINVAL, "--rendezvous is for the ranks of one host: those of "
            "--hosts meet at the first one, on --port"));
    if (f.elastic.restarts < 0)
        f.elastic.restarts = ELASTIC_RESTARTS;
    return f.hosts ? launch_on_hosts(&f, argv + n + 1)
                   : launch_here(&f, words, argv + n + 1);
}

int cmd_launch(int argc, char **argv)
{
    static char name[]      = "launch";
    char **words            = NULL;
    const enum ct_status st = flags_keep_words(argc, argv, &words);
    int code;

    if (st != CT_OK)
        return command_failed(st);
    words[0] = name;
    code     = launch_by_words(argc, argv, words);
    ct_free(words);
    return code;
}
