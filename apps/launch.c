/* launch.c - the same command line again, N times, by the right launcher.
 *
 * This process stays and passes signals on to the ranks that are on this host;
 * what one rank is asked for all do.  A launcher does that
 * for some signals only, and answers SIGTERM by ending its ranks within a
 * second, which is not enough for a snapshot.
 *
 * A machine may have several MPIs, and `mpirun` is only one of theirs.  Each
 * program that is found says who it belongs to; one of another MPI would start
 * N processes that know nothing of each other. */
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command.h"
#include "comm/transport/transports.h"
#include "passed_on.h"

enum { MOST_NAMES = 4 };

struct launcher {
    const char *mpi;     /* in the version of transport mpi */
    const char *says;    /* in what the launcher says of itself */
    const char *package;
    const char *name[MOST_NAMES];
    const char *flags[MOST_NAMES];
    const char *hosts; /* the flag before HOST:RANKS,... */
    /* How to map ranks to HOST,... with a name for each rank.  NULL: the first
     * host of a list has rank 0 in any case; else this host has, where it is
     * in it. */
    const char *in_order;
};

static const struct launcher launchers[] = {
    { "Open MPI", "Open", "openmpi-bin",
      { "mpirun.openmpi", "mpirun", "mpiexec", NULL },
      { "--oversubscribe", "--bind-to", "none", NULL }, "--host",
      "seq" },
    { "MPICH", "HYDRA", "mpich",
      { "mpiexec.mpich", "mpiexec.hydra", "mpirun", "mpiexec" },
      { NULL }, "-hosts", NULL },
};

/* Does this program exist, and belong to that MPI? */
static bool belongs(const char *program, const char *says)
{
    char command[128], line[256];
    bool found = false;
    FILE *p;

    snprintf(command, sizeof(command), "%s --version 2>/dev/null", program);
    p = popen(command, "r");
    if (!p)
        return false;
    while (fgets(line, sizeof(line), p))
        found |= strstr(line, says) != NULL;
    return pclose(p) == 0 && found;
}

static enum ct_status find_launcher(const struct launcher **out,
                                    const char **program)
{
    char mpi[256];

    ct_transport_version(ct_transport_find("mpi"), mpi, sizeof(mpi));
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct launcher *l = &launchers[i];

        if (!strstr(mpi, l->mpi))
            continue;
        for (int k = 0; k < MOST_NAMES && l->name[k]; k++)
            if (belongs(l->name[k], l->says)) {
                *out     = l;
                *program = l->name[k];
                return CT_OK;
            }
        return ct_fail(CT_ENOTFOUND, "there is no launcher of %s; install %s, "
                       "or leave --ranks and --mpi out to use one rank",
                       mpi, l->package);
    }
    return ct_fail(CT_ENOTSUP, "this build has no MPI whose launcher is known "
                   "(%s); start the ranks yourself", mpi);
}

void launch_await_turn(void)
{
    const int rank    = ct_launched_size() > 1 ? ct_launched_rank() : 0;
    const int tenths  = rank > 10 ? 10 : rank;
    struct timespec t = { 3, tenths * 90000000L };

    if (rank > 0)
        nanosleep(&t, NULL);
}

/* ---- signals, to the ranks */

/* Seconds: those between two requests that are not one, those that one waits
 * for ranks to come, and those that a launcher has to end. */
static const double apart = 1, most_wait = 10, most_end = 5;

static const struct signal_flags *effects;
static bool pending[NSIG]; /* for the ranks */
static bool asked_to_end, insisted;
static int asked_by; /* which signal */
static double asked_at;

void launch_begin(const struct signal_flags *f)
{
    effects = f;
    passed_on_catch();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static bool asks_for_end(int number)
{
    return signal_flags_stop(effects, number);
}

/* Some parents send the same signal to a process and to its group; another one
 * may be the next step of those who stop jobs, as Slurm's SIGTERM behind
 * SIGUSR1, and gives ranks the time that they need. */
static void take_signals(void)
{
    for (int i = 0; i < N_PASSED_ON; i++) {
        const int number = passed_on[i];

        if (!passed_on_take(number))
            continue;
        pending[number] = true;
        if (!asks_for_end(number))
            continue;
        if (!asked_to_end) {
            asked_at = ct_now();
            asked_by = number;
        }
        insisted |= number == asked_by && ct_now() - asked_at > apart;
        asked_to_end = true;
    }
}

/* For a signal, some milliseconds at most. */
static void wait_for_signal(int ms)
{
    poll(NULL, 0, ms);
    take_signals();
}

bool launch_is_asked_to_end(void)
{
    take_signals();
    return asked_to_end;
}

void launch_pause(int seconds)
{
    const double end = ct_now() + seconds;

    while (!launch_is_asked_to_end() && ct_now() < end)
        wait_for_signal(100);
}

/* The parent of a process; 0: it is gone. */
static pid_t parent_of(pid_t pid)
{
    char path[64], line[512], *end;
    FILE *f;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    f = fopen(path, "r");
    if (!f)
        return 0;
    if (fgets(line, sizeof(line), f) && (end = strrchr(line, ')')) &&
        sscanf(end + 1, " %*c %d", &parent) != 1)
        parent = 0;
    fclose(f);
    return parent;
}

static bool descends(pid_t pid, pid_t from)
{
    for (int depth = 0; pid > 1 && depth < 16; depth++) {
        if (pid == from)
            return true;
        pid = parent_of(pid);
    }
    return false;
}

/* The file that a process runs, also where another has taken its place, as
 * after an upgrade; false: it is not known. */
static bool program_of(const char *link, char *out, size_t room)
{
    static const char gone[] = " (deleted)";
    const ssize_t bytes      = readlink(link, out, room - 1);
    const size_t n           = sizeof(gone) - 1;

    if (bytes < 0)
        return false;
    out[bytes] = '\0';
    if ((size_t)bytes > n && strcmp(out + bytes - n, gone) == 0)
        out[(size_t)bytes - n] = '\0';
    return true;
}

enum ct_status launch_self(char *out, size_t bytes)
{
    return program_of("/proc/self/exe", out, bytes)
               ? CT_OK
               : ct_fail(CT_EIO, "cannot find this program's own file");
}

/* Ranks run this very program, somewhere below the launcher. */
static bool is_rank(pid_t pid, pid_t launcher, const char *self)
{
    char path[64], program[4096];

    snprintf(path, sizeof(path), "/proc/%ld/exe", (long)pid);
    return pid != getpid() && program_of(path, program, sizeof(program)) &&
           strcmp(program, self) == 0 && descends(pid, launcher);
}

/* To all ranks of this host that are ready for it; returns how many. */
static int pass_on(int number, pid_t launcher, const char *self)
{
    DIR *dir = opendir("/proc");
    int n    = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        const long pid = strtol(e->d_name, NULL, 10);

        if (pid > 0 && is_rank((pid_t)pid, launcher, self) &&
            passed_on_is_taken((pid_t)pid, number))
            n += kill((pid_t)pid, number) == 0;
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Where all ranks are on other hosts, launchers pass two signals on. */
static int tell_launcher(int number, pid_t launcher)
{
    if (number != SIGUSR2 &&
        (!asks_for_end(number) || !asks_for_end(SIGUSR1)))
        CT_WARN("Signal %d does not reach the ranks, of which none is on this "
                "host", number);
    else
        kill(launcher, number == SIGUSR2 ? SIGUSR2 : SIGUSR1);
    return 1;
}

/* A signal that comes before the ranks waits for them. */
static void deliver(const struct hosts *h, pid_t launcher, const char *self)
{
    bool any_here = false;

    for (int i = 0; i < h->n; i++)
        any_here |= h->host[i].is_here;
    for (int i = 0; i < N_PASSED_ON; i++) {
        const int number = passed_on[i];

        if (pending[number])
            pending[number] = (any_here ? pass_on(number, launcher, self)
                                        : tell_launcher(number, launcher)) == 0;
    }
}

/* Is there no sense in waiting for the ranks to end by themselves? */
static bool must_end(void)
{
    bool waits = false;

    for (int i = 0; i < N_PASSED_ON; i++)
        waits |= pending[passed_on[i]] && asks_for_end(passed_on[i]);
    return insisted || (waits && ct_now() - asked_at > most_wait);
}

/* First it may end its ranks.  *since: when it was told so; 0: not yet. */
static void end_launcher(pid_t launcher, double *since)
{
    if (*since == 0) {
        CT_WARN("%s: the job is ended at once",
                insisted ? "A second signal asks for the end"
                         : "No rank has come that a signal could ask to end");
        *since = ct_now();
        kill(launcher, SIGTERM);
    } else if (ct_now() - *since > most_end) {
        kill(launcher, SIGKILL);
    }
}

static int stay(const struct hosts *h, pid_t launcher, const char *self)
{
    double ending = 0;
    int status    = 0;

    for (;;) {
        const pid_t done = waitpid(-1, &status, WNOHANG);

        if (done == launcher)
            break;
        if (done > 0)
            continue; /* somebody whose parent is gone */
        deliver(h, launcher, self);
        if (ending > 0 || must_end())
            end_launcher(launcher, &ending);
        wait_for_signal(100);
    }
    if (ending > 0)
        launch_tidy();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What a launcher starts stays in this session.  Who has gone into another one,
 * as daemons do, means to stay. */
static bool is_left_behind(pid_t pid, const char *self)
{
    return pid != getpid() && descends(pid, getpid()) &&
           (getsid(pid) == getsid(0) || is_rank(pid, getpid(), self));
}

void launch_tidy(void)
{
    const double end = ct_now() + 5;
    char self[4096];

    if (!program_of("/proc/self/exe", self, sizeof(self)))
        return;
    while (ct_now() < end) {
        DIR *dir = opendir("/proc");
        int n    = 0;

        for (struct dirent *e; dir && (e = readdir(dir));) {
            const long pid = strtol(e->d_name, NULL, 10);

            if (pid > 0 && is_left_behind((pid_t)pid, self))
                n += kill((pid_t)pid, SIGKILL) == 0;
        }
        if (dir)
            closedir(dir);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (n == 0)
            return;
        wait_for_signal(20);
    }
}

/* ---- the launcher */

void launch_become(const char *program, char **call, pid_t parent)
{
    const int nothing = open("/dev/null", O_RDONLY);

    passed_on_reset();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_RUNTIME);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    execvp(program, call);
    _exit(127);
}

/* As root Open MPI refuses to run unless it is told that this is meant. */
static void allow_root(const struct launcher *l)
{
    if (geteuid() != 0 || strcmp(l->mpi, "Open MPI") != 0 ||
        getenv("OMPI_ALLOW_RUN_AS_ROOT"))
        return;
    CT_INFO("Running Open MPI as root: OMPI_ALLOW_RUN_AS_ROOT is set");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

/* Notice within half a minute, not in eight, that a host is lost. */
static void mind_hosts(const struct launcher *l)
{
    if (strcmp(l->mpi, "Open MPI") != 0)
        return;
    setenv("OMPI_MCA_oob_tcp_keepalive_time", "10", 0);
    setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "5", 0);
    setenv("OMPI_MCA_oob_tcp_keepalive_probes", "3", 0);
}

/* This host alone needs no list, which some batch systems would not like. */
static bool is_list(const struct hosts *h)
{
    return h->n > 1 || !h->host[0].is_here;
}

static bool needs_order(const struct hosts *h, const struct launcher *l)
{
    bool any_here = false;

    for (int i = 1; i < h->n; i++)
        any_here |= h->host[i].is_here;
    return l->in_order && any_here && !h->host[0].is_here;
}

/* HOST:RANKS,... or a name for each rank. */
static enum ct_status list_hosts(const struct hosts *h, bool in_order,
                                 struct ct_text *out)
{
    for (int i = 0; i < h->n; i++) {
        if (!in_order)
            ct_text_addf(out, "%s%s:%d", i > 0 ? "," : "", h->host[i].name,
                         h->host[i].n_ranks);
        else
            for (int k = 0; k < h->host[i].n_ranks; k++)
                ct_text_addf(out, "%s%s", i + k > 0 ? "," : "",
                             h->host[i].name);
    }
    return out->failed ? ct_fail(CT_ENOMEM, "no memory for a list of hosts")
                       : CT_OK;
}

/* The call as a list that ends with NULL; its words are borrowed. */
static enum ct_status build_call(const struct launch_call *c,
                                 const struct launcher *l, const char *program,
                                 const char *count, const char *list,
                                 const char *self, const char ***out)
{
    size_t n = MOST_NAMES + 11, k = 0;

    for (char *const *w = c->words; *w; w++)
        n++;
    CT_TRY(ct_alloc(n, sizeof(**out), "command line", out));
    (*out)[k++] = program;
    for (int i = 0; i < MOST_NAMES && l->flags[i]; i++)
        (*out)[k++] = l->flags[i];
    if (needs_order(c->hosts, l)) {
        (*out)[k++] = "--map-by";
        (*out)[k++] = l->in_order;
    }
    if (is_list(c->hosts)) {
        (*out)[k++] = l->hosts;
        (*out)[k++] = list;
    }
    (*out)[k++] = "-n";
    (*out)[k++] = count;
    (*out)[k++] = self;
    for (char *const *w = c->words; *w; w++)
        (*out)[k++] = *w;
    if (c->snapshot)
        (*out)[k++] = c->snapshot;
    return CT_OK;
}

static enum ct_status run_launcher(const struct hosts *h, const char *program,
                                   const char **call, const char *self,
                                   int *code)
{
    const pid_t parent = getpid();
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        launch_become(program, (char **)(uintptr_t)call, parent);
    if (pid < 0)
        return ct_fail(CT_EIO, "cannot start %s: %s", program,
                       strerror(errno));
    *code = stay(h, pid, self);
    return CT_OK;
}

enum ct_status launch_run(const struct launch_call *c, int *code)
{
    const struct launcher *l = NULL;
    const char *program = NULL, **call = NULL;
    struct ct_text list = { 0 };
    char count[16], self[4096];
    enum ct_status st;

    CT_TRY(launch_self(self, sizeof(self)));
    CT_TRY(find_launcher(&l, &program));
    CT_TRY(list_hosts(c->hosts, needs_order(c->hosts, l), &list));
    snprintf(count, sizeof(count), "%d", c->hosts->n_ranks);
    st = build_call(c, l, program, count, list.s, self, &call);
    if (st == CT_OK) {
        allow_root(l);
        if (is_list(c->hosts))
            mind_hosts(l);
        st = run_launcher(c->hosts, program, call, self, code);
    }
    ct_free(call);
    ct_text_fini(&list);
    return st;
}

enum ct_status launch_here(int n_ranks, char *const *words, int *code)
{
    static const struct signal_flags all = { "stop", "stop", "stop", "stop" };
    struct hosts *here                   = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*here), "hosts", &here));
    hosts_here(here, n_ranks);
    launch_begin(&all);
    st = launch_run(&(struct launch_call){ here, words, NULL }, code);
    ct_free(here);
    return st;
}
