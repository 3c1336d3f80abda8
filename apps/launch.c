/* launch.c - the same command line again, N times, by the right launcher.
 *
 * This process stays and passes signals on to the ranks.  A launcher does that
 * for some signals only, and answers SIGTERM by ending its ranks within a
 * second, which is not enough for a snapshot.
 *
 * A machine may have several MPIs, and `mpirun` is only one of theirs.  Each
 * program that is found says who it belongs to; one of another MPI would start
 * N processes that know nothing of each other. */
#include "launch.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "command.h"
#include "comm/transport/transports.h"

enum { MOST_NAMES = 4 };

struct launcher {
    const char *mpi;     /* in the version of transport mpi */
    const char *says;    /* in what the launcher says of itself */
    const char *package;
    const char *name[MOST_NAMES];
    const char *flags[MOST_NAMES];
};

static const struct launcher launchers[] = {
    { "Open MPI", "Open", "openmpi-bin",
      { "mpirun.openmpi", "mpirun", "mpiexec", NULL },
      { "--oversubscribe", "--bind-to", "none", NULL } },
    { "MPICH", "HYDRA", "mpich",
      { "mpiexec.mpich", "mpiexec.hydra", "mpirun", "mpiexec" },
      { NULL } },
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
        return ct_fail(CT_ENOTFOUND, "--ranks: there is no launcher of %s; "
                       "install %s, or leave the flag out to use one rank",
                       mpi, l->package);
    }
    return ct_fail(CT_ENOTSUP, "--ranks: this build has no MPI whose launcher "
                   "is known (%s); start the ranks yourself", mpi);
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

static volatile sig_atomic_t wanted[NSIG];

static void note_signal(int number)
{
    wanted[number] = 1;
}

static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
enum { N_PASSED = sizeof(passed_on) / sizeof(passed_on[0]) };

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

/* Ranks run this very program, somewhere below the launcher. */
static bool is_rank(pid_t pid, pid_t launcher, const char *self)
{
    char path[64], program[4096];
    ssize_t bytes;

    snprintf(path, sizeof(path), "/proc/%ld/exe", (long)pid);
    bytes = readlink(path, program, sizeof(program) - 1);
    if (bytes < 0 || pid == getpid())
        return false;
    program[bytes] = '\0';
    return strcmp(program, self) == 0 && descends(pid, launcher);
}

static void pass_on(int number, pid_t launcher, const char *self)
{
    DIR *dir = opendir("/proc");

    for (struct dirent *e; dir && (e = readdir(dir));) {
        const long pid = strtol(e->d_name, NULL, 10);

        if (pid > 0 && is_rank((pid_t)pid, launcher, self))
            kill((pid_t)pid, number);
    }
    if (dir)
        closedir(dir);
}

/* Signals wait while nothing else does, so that none is missed. */
static int stay(pid_t launcher, const char *self, const sigset_t *before)
{
    int status = 0;

    for (;;) {
        pid_t done = waitpid(launcher, &status, WNOHANG);

        if (done == launcher)
            break;
        for (int i = 0; i < N_PASSED; i++)
            if (wanted[passed_on[i]]) {
                wanted[passed_on[i]] = 0;
                pass_on(passed_on[i], launcher, self);
            }
        sigsuspend(before);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* SIGCHLD only has to end a wait. */
static void catch_all(sigset_t *before)
{
    struct sigaction sa = { .sa_handler = note_signal };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaction(SIGCHLD, &sa, NULL);
    for (int i = 0; i < N_PASSED; i++) {
        sigaction(passed_on[i], &sa, NULL);
        sigaddset(&set, passed_on[i]);
    }
    sigprocmask(SIG_BLOCK, &set, before);
}

/* ---- the launcher */

/* In the child: a group of its own, so that Ctrl-C reaches this program alone;
 * it ends with us. */
static void become(const char *program, char **call, pid_t parent,
                   const sigset_t *before)
{
    const int nothing = open("/dev/null", O_RDONLY);

    for (int i = 0; i < N_PASSED; i++)
        signal(passed_on[i], SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_SETMASK, before, NULL);
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

/* The call as a list that ends with NULL; its words are borrowed. */
static enum ct_status build_call(const struct launcher *l, const char *program,
                                 const char *count, const char *self,
                                 const char *words, size_t n_bytes,
                                 const char ***out)
{
    size_t n = MOST_NAMES + 6, k = 0;

    for (size_t i = 0; i < n_bytes; i++)
        n += words[i] == '\0';
    CT_TRY(ct_alloc(n, sizeof(**out), "command line", out));
    (*out)[k++] = program;
    for (int i = 0; i < MOST_NAMES && l->flags[i]; i++)
        (*out)[k++] = l->flags[i];
    (*out)[k++] = "-n";
    (*out)[k++] = count;
    (*out)[k++] = self;
    for (size_t i = strlen(words) + 1; i < n_bytes;
         i += strlen(words + i) + 1)
        (*out)[k++] = words + i;
    return CT_OK;
}

static enum ct_status run_launcher(const char *program, const char **call,
                                   const char *self, int *code)
{
    const pid_t parent = getpid();
    sigset_t before;
    pid_t pid;

    catch_all(&before);
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        become(program, (char **)(uintptr_t)call, parent, &before);
    if (pid < 0)
        return ct_fail(CT_EIO, "--ranks: cannot start %s", program);
    *code = stay(pid, self, &before);
    return CT_OK;
}

enum ct_status launch_ranks(int n, int *code)
{
    const struct launcher *l = NULL;
    const char *program = NULL, **call = NULL;
    char count[16], self[4096], *words = NULL;
    ssize_t bytes  = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t n_bytes = 0;
    enum ct_status st;

    if (bytes < 0)
        return ct_fail(CT_EIO, "cannot find this program's own file");
    self[bytes] = '\0';
    CT_TRY(find_launcher(&l, &program));
    CT_TRY(ct_file_read("/proc/self/cmdline", &words, &n_bytes));
    snprintf(count, sizeof(count), "%d", n);
    st = build_call(l, program, count, self, words, n_bytes, &call);
    if (st == CT_OK) {
        allow_root(l);
        st = run_launcher(program, call, self, code);
    }
    ct_free(call);
    ct_free(words);
    return st;
}
