/* cmd_launch.c - `cortado launch`: an elastic job on several hosts, or the
 * ranks of one of them.
 *
 * On each host one agent (agent.h) is started, by ssh, or by srun inside a
 * Slurm job; this host's by itself.  The secret goes to their standard input,
 * and signals that this process gets follow it there.  Agents and ranks go on
 * when this process is killed. */
#include <arpa/inet.h>
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

#include "base/mem.h"
#include "command.h"
#include "comm/transport/address.h"
#include "elastic/secret.h"
#include "elastic_run.h"
#include "flags.h"
#include "help.h"
#include "hosts.h"
#include "passed_on.h"
#include "train.h"

enum { USUAL_PORT = 29400 };

struct launch_flags {
    const char          *hosts;
    int                  port, ranks;
    struct elastic_flags elastic; /* of a program */
    bool                 mpi;     /* a job of fixed size (supervise.h) */
    int                  min_ranks;
};

/* Of one host. */
struct agent {
    pid_t pid; /* its own, or of what started it; 0: it has ended */
    int   to;  /* its standard input */
};

struct launch {
    struct hosts hosts;
    struct agent agent[HOSTS_MOST]; /* one a host */
    char        secret[2 * SEAL_SECRET_BYTES + 2]; /* as a line */
    char        meet[300];
    char        self[PATH_MAX], folder[PATH_MAX];
    char      **words; /* behind `train`, or a program's; NULL ends them */
    bool        is_program;
    bool        has_size; /* one of them is --elastic */
    const struct elastic_flags *elastic;
};

/* Where they meet: at the first host.  There, here, any free port will do. */
static enum ct_status choose_meeting(struct launch *l, int port)
{
    bool all_here    = true;
    uint16_t free_one = 0;

    for (int i = 0; i < l->hosts.n; i++)
        all_here &= l->hosts.host[i].is_here;
    if (port == 0 && l->hosts.host[0].is_here) {
        const int fd = ct_listen(&free_one);

        if (fd < 0)
            return ct_fail(CT_ECOMM, "there is no free port: %s",
                           strerror(errno));
        close(fd);
        port = ntohs(free_one);
    }
    snprintf(l->meet, sizeof(l->meet), "%s:%d",
             all_here ? "127.0.0.1" : l->hosts.host[0].name,
             port ? port : USUAL_PORT);
    return CT_OK;
}

/* ---- Starting. */

enum { OWN_WORDS = 16, OWN_BYTES = 512 };

/* Flags of an agent; those with numbers lie in `own`. */
static int agent_flags(const struct launch *l, const struct host *h,
                       char own[][OWN_BYTES], const char **out)
{
    const struct elastic_flags *f = l->elastic;
    int n = 0;

    snprintf(own[n++], OWN_BYTES, "--ranks=%d", h->n_ranks);
    snprintf(own[n++], OWN_BYTES, "--rendezvous=%s", l->meet);
    if (l->is_program) {
        snprintf(own[n++], OWN_BYTES, "--elastic=%s",
                 f->elastic ? f->elastic : "1:1024");
        snprintf(own[n++], OWN_BYTES, "--suspect=%.9g", f->suspect);
        snprintf(own[n++], OWN_BYTES, "--orphan=%.9g", f->orphan);
        snprintf(own[n++], OWN_BYTES, "--restarts=%d", f->restarts);
    } else if (!l->has_size) {
        snprintf(own[n++], OWN_BYTES, "--elastic=1:1024");
    }
    snprintf(own[n++], OWN_BYTES, "--secret_file=-");
    for (int i = 0; i < n; i++)
        out[i] = own[i];
    return n;
}

/* What an agent is started with. */
static void agent_words(const struct launch *l, const struct host *h,
                        char own[][OWN_BYTES], const char **out)
{
    int n = 0;

    out[n++] = l->self;
    out[n++] = l->is_program ? "launch" : "train";
    n += agent_flags(l, h, own, out + n);
    if (l->is_program)
        out[n++] = "--";
    for (char **w = l->words; *w; w++)
        out[n++] = *w;
    out[n] = NULL;
}

static enum ct_status start(const struct launch *l, const struct host *h,
                            struct agent *a)
{
    const char **words = NULL;
    char own[OWN_WORDS][OWN_BYTES];
    size_t n_words = OWN_WORDS + 4;
    int ends[2];

    for (char **w = l->words; *w; w++)
        n_words++;
    CT_TRY(ct_alloc(n_words, sizeof(*words), "a command line", &words));
    agent_words(l, h, own, words);
    if (pipe2(ends, O_CLOEXEC) != 0 || (a->pid = fork()) < 0) {
        ct_free(words);
        a->pid = 0;
        return ct_fail(CT_EIO, "%s: cannot start: %s", h->name,
                       strerror(errno));
    }
    if (a->pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        setpgid(0, 0); /* signals of a terminal come through us */
        hosts_become(h, l->folder, words);
        fprintf(stderr, "cortado launch: %s: %s\n", h->name, strerror(errno));
        _exit(127);
    }
    ct_free(words);
    close(ends[0]);
    a->to = ends[1];
    return write(a->to, l->secret, strlen(l->secret)) ==
                   (ssize_t)strlen(l->secret)
               ? CT_OK
               : ct_fail(CT_EIO, "%s: %s", h->name, strerror(errno));
}

/* ---- While they run. */

static void pass_on(struct launch *l)
{
    for (int i = 0; i < N_PASSED_ON; i++) {
        char line[32];
        int n;

        if (!passed_on_take(passed_on[i]))
            continue;
        n = snprintf(line, sizeof(line), "signal %d\n", passed_on[i]);
        for (int k = 0; k < l->hosts.n; k++)
            if (l->agent[k].pid > 0)
                (void)!write(l->agent[k].to, line, (size_t)n);
    }
}

static bool is_done(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE;
}

/* The best that an agent came to: a job that one of them finished is done. */
static int attend(struct launch *l)
{
    int left = l->hosts.n, code = EXIT_RUNTIME;
    bool done = false;

    while (left > 0) {
        int status      = 0;
        const pid_t pid = waitpid(-1, &status, WNOHANG);

        for (int k = 0; k < l->hosts.n && pid > 0; k++) {
            struct agent *a = &l->agent[k];

            if (a->pid != pid)
                continue;
            a->pid = 0;
            left--;
            close(a->to);
            done |= is_done(status);
            if (WIFEXITED(status) && !done)
                code = WEXITSTATUS(status);
            if (!is_done(status))
                CT_WARN("%s: its agent ended with status %d",
                        l->hosts.host[k].name,
                        WIFEXITED(status) ? WEXITSTATUS(status)
                                          : 128 + WTERMSIG(status));
        }
        pass_on(l);
        if (pid <= 0)
            poll(NULL, 0, 100);
    }
    return done ? EXIT_DONE : code;
}

static enum ct_status prepare(struct launch *l, const struct launch_flags *f)
{
    uint8_t secret[SEAL_SECRET_BYTES];
    char *path = NULL;
    ssize_t n  = readlink("/proc/self/exe", l->self, sizeof(l->self) - 1);
    enum ct_status st;

    if (n < 0 || !getcwd(l->folder, sizeof(l->folder)))
        return ct_fail(CT_EIO, "this program's file or folder: %s",
                       strerror(errno));
    CT_TRY(seal_init());
    if (!f->elastic.secret_file)
        CT_TRY(secret_default_path(&path));
    st = secret_read(path ? path : f->elastic.secret_file, true, secret);
    ct_free(path);
    CT_TRY(st);
    for (int i = 0; i < SEAL_SECRET_BYTES; i++)
        snprintf(l->secret + 2 * i, 3, "%02x", secret[i]);
    strcat(l->secret, "\n");
    for (char **w = l->words; *w && !l->is_program; w++)
        l->has_size |= strncmp(*w + strspn(*w, "-"), "elastic", 7) == 0;
    CT_TRY(hosts_read(&l->hosts, f->hosts));
    return choose_meeting(l, f->port);
}

static int launch(struct launch *l, const struct launch_flags *f)
{
    enum ct_status st = prepare(l, f);
    int code          = EXIT_DONE;

    if (st != CT_OK)
        return command_failed(st);
    passed_on_catch();
    CT_INFO("%d rank(s) on %d host(s) meet at %s", l->hosts.n_ranks,
            l->hosts.n, l->meet);
    for (int k = 0; k < l->hosts.n && st == CT_OK; k++)
        st = start(l, &l->hosts.host[k], &l->agent[k]);
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
                                  ELASTIC_FLAGS(f.elastic), FLAG_END };
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
