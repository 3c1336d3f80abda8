/* choose_ranks.c - `cortado train --ranks=auto`: measures how ranks and threads
 * divide the cores of this host best.
 *
 * With one batch for all ranks every way computes the same, so that the fastest
 * may be taken.  Each is measured by this program with the same words and
 * --measure, in processes of its own: what a way needs (memory, samples,
 * an MPI) it finds out as a training would, and it ends as one. */
#include "choose_ranks.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/mem.h"
#include "launch.h"

enum { MOST_WAYS = 256, MOST_ADDED = 8, WORD_BYTES = 48 };
static const double usual_seconds = 2;
static const double most_end = 10; /* seconds that a program has to end */

/* Ranks times threads, and what came of it. */
struct way {
    int    ranks, threads;
    int    code; /* that its program exited with */
    double rate; /* samples/s, of all ranks */
    char   why[1024]; /* its last error */
};

bool choose_ranks_read(struct train_flags *f)
{
    char *end = NULL;
    long n;

    if (!f->ranks_word)
        return true;
    if (strcmp(f->ranks_word, "auto") == 0) {
        f->auto_seconds = f->measure > 0 ? f->measure : usual_seconds;
        f->measure      = 0;
        return true;
    }
    errno = 0;
    n     = strtol(f->ranks_word, &end, 0);
    if (end == f->ranks_word || *end || errno || n < 0 || n > INT_MAX) {
        fprintf(stderr, "cortado train: --ranks cannot be '%s': give a number "
                "of ranks, or auto\n", f->ranks_word);
        return false;
    }
    f->ranks = (int)n;
    return true;
}

/* ---- what cannot be chosen for */

/* Other things than the batch that make ranks compute what one would not. */
static enum ct_status check_same(const Caffe__DistributedParameter *d)
{
    const char *what = d->groups > 1                 ? "--groups"
                       : d->deadline > 0             ? "--deadline"
                       : d->patience > 0             ? "--patience"
                       : strcmp(d->sync, "bsp") != 0 ? "--sync other than bsp"
                                                     : NULL;

    if (strcmp(d->batch, "global") != 0)
        return ct_fail(CT_EINVAL, "--ranks=auto takes the number of ranks that "
                       "is fastest on this machine, and with batch %s each "
                       "number trains with another batch: use --batch=global, "
                       "or say --ranks=N", d->batch);
    if (strcmp(d->data, "local") == 0)
        return ct_fail(CT_EINVAL, "--ranks=auto may take any number of ranks, "
                       "and --data=local has data for one number only: say "
                       "--ranks=N");
    if (what)
        return ct_fail(CT_EINVAL, "--ranks=auto needs ranks that compute the "
                       "same whatever their number, and with %s they do not: "
                       "leave it out, or say --ranks=N", what);
    return CT_OK;
}

enum ct_status choose_ranks_check(const struct train_flags *f)
{
    if (ct_dist_launched())
        return ct_fail(CT_EINVAL, "--ranks=auto starts the ranks itself: leave "
                       "mpirun out, or --ranks");
    if (f->hosts)
        return ct_fail(CT_EINVAL, "--ranks=auto is for one host, and launch "
                       "starts the ranks that --hosts names: leave --ranks "
                       "out");
    if (f->elastic.elastic)
        return ct_fail(CT_EINVAL, "--ranks=auto measures ranks that stay, and "
                       "those of --elastic come and go: say --ranks=N");
    if (f->net.gpu)
        return ct_fail(CT_EINVAL, "--ranks=auto divides the cores of CPUs, and "
                       "every GPU has one rank: leave --ranks out");
    if (f->net.threads < 0)
        return ct_fail(CT_EINVAL, "--threads cannot be negative");
    return CT_OK;
}

/* ---- words */

static size_t count(char *const *words)
{
    size_t n = 0;

    while (words[n])
        n++;
    return n;
}

/* The words of a training with so many ranks, for so many seconds or, with 0,
 * to its end; the last of two flags counts.  One block: ct_free it. */
static enum ct_status make_words(const struct train_flags *f,
                                 const struct way *w, double seconds,
                                 char ***out)
{
    /* Errors are for us to read, and no files. */
    static const char *const quiet[] = { "--logtostderr", "--minloglevel=1",
                                         "--log_prefix" };
    const size_t n = count(f->words), list = n + MOST_ADDED + 1;
    char (*room)[WORD_BYTES];
    size_t k = 0;

    CT_TRY(ct_alloc(1, list * sizeof(**out) + MOST_ADDED * WORD_BYTES,
                    "a command line", out));
    room = (char (*)[WORD_BYTES])(*out + list);
    memcpy(*out, f->words, n * sizeof(**out));
    snprintf(room[k++], WORD_BYTES, "--ranks=%d", w->ranks);
    snprintf(room[k++], WORD_BYTES, "--threads=%d", w->threads);
    snprintf(room[k++], WORD_BYTES, "--measure=%g", seconds);
    snprintf(room[k++], WORD_BYTES, "--batch=global");
    for (size_t i = 0; seconds > 0 && i < sizeof(quiet) / sizeof(*quiet); i++)
        snprintf(room[k++], WORD_BYTES, "%s", quiet[i]);
    for (size_t i = 0; i < k; i++)
        (*out)[n + i] = room[i];
    return CT_OK;
}

/* ---- one way */

/* "E1117 13:00:00.000000 1 file.c:1] text": the text; NULL: not of an error. */
static const char *error_of(const char *line)
{
    const char *head = strstr(line, "] ");

    return line[0] == 'E' && line[1] >= '0' && line[1] <= '9' && head
               ? head + 2
               : NULL;
}

/* What it has left of its log: the last error, or without one the last line of
 * one that ended by itself. */
static void read_errors(FILE *f, struct way *w)
{
    char line[sizeof(w->why)];
    bool found = false;

    while (fgets(line, sizeof(line), f)) {
        const char *text = error_of(line);

        line[strcspn(line, "\n")] = '\0';
        if (text || (!found && line[0] && w->code <= 128))
            snprintf(w->why, sizeof(w->why), "%s", text ? text : line);
        found |= text != NULL;
    }
}

static bool read_rate(FILE *f, struct way *w)
{
    char line[256];
    bool found = false;

    while (fgets(line, sizeof(line), f))
        found |= sscanf(line, "%lf samples/s", &w->rate) == 1;
    return found;
}

/* Until its program ends; one that is asked to has some seconds for it. */
static int await(pid_t pid)
{
    double asked = 0;
    int status   = 0;
    pid_t done;

    while ((done = waitpid(pid, &status, WNOHANG)) == 0) {
        if (asked == 0 && launch_is_asked_to_end()) {
            asked = ct_now();
            kill(pid, SIGTERM);
        }
        if (asked > 0 && ct_now() - asked > most_end)
            break;
        poll(NULL, 0, 50);
    }
    launch_tidy();
    if (done != pid)
        return EXIT_RUNTIME;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A file that has no name, for what a child writes. */
static FILE *nameless(const char *what)
{
    const int fd = memfd_create(what, MFD_CLOEXEC);
    FILE *f      = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (fd >= 0 && !f)
        close(fd);
    return f;
}

/* words[0] is the program. */
static enum ct_status run(char **words, struct way *w)
{
    FILE *out = nameless("measured"), *err = nameless("log");
    const pid_t parent = getpid();
    enum ct_status st  = CT_OK;
    pid_t pid          = -1;

    fflush(NULL);
    if (out && err)
        pid = fork();
    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        launch_become(words[0], words, parent);
    }
    if (pid < 0) {
        st = ct_fail(CT_EIO, "--ranks=auto: cannot start a process: %s",
                     strerror(errno));
        goto out;
    }
    w->code = await(pid);
    rewind(out);
    rewind(err);
    snprintf(w->why, sizeof(w->why), "it ended with %s %d",
             w->code > 128 ? "signal" : "status",
             w->code > 128 ? w->code - 128 : w->code);
    read_errors(err, w);
    if (!read_rate(out, w) && w->code == EXIT_DONE)
        w->code = EXIT_RUNTIME;
out:
    if (out)
        fclose(out);
    if (err)
        fclose(err);
    return st;
}

/* "4 ranks x 2 threads" */
static const char *name(const struct way *w, char *room, size_t bytes)
{
    snprintf(room, bytes, "%d rank%s x %d thread%s", w->ranks,
             w->ranks == 1 ? "" : "s", w->threads, w->threads == 1 ? "" : "s");
    return room;
}

/* Behind the point: no more than a measurement is good for. */
static int digits(double rate)
{
    return rate < 10 ? 2 : rate < 100 ? 1 : 0;
}

static enum ct_status try_way(const struct train_flags *f, struct way *w)
{
    char **words = NULL, **call = NULL, room[64], self[PATH_MAX];
    enum ct_status st;
    size_t n;

    CT_TRY(launch_self(self, sizeof(self)));
    CT_TRY(make_words(f, w, f->auto_seconds, &words));
    n = count(words);
    CT_TRY_GOTO(ct_alloc(n + 2, sizeof(*call), "a command line", &call), st,
                out);
    call[0] = self;
    memcpy(call + 1, words, n * sizeof(*call));
    CT_TRY_GOTO(run(call, w), st, out);
    name(w, room, sizeof(room));
    if (w->code == EXIT_DONE)
        CT_INFO("--ranks=auto: %s make%s %.*f samples/s", room,
                w->ranks == 1 ? "s" : "", digits(w->rate), w->rate);
    else if (!launch_is_asked_to_end())
        CT_WARN("--ranks=auto: %s cannot train and is left out: %s", room,
                w->why);
out:
    ct_free(call);
    ct_free(words);
    return st;
}

/* ---- all ways */

/* The fastest; NULL: none, and *code says how to end. */
static enum ct_status try_all(const struct train_flags *f, struct way *way,
                              int n, const struct way **best, int *code)
{
    *best = NULL;
    CT_INFO("--ranks=auto: measures %d ways to use the cores of this host, "
            "about %g s each", n, f->auto_seconds);
    for (int i = 0; i < n; i++) {
        CT_TRY(try_way(f, &way[i]));
        if (launch_is_asked_to_end()) {
            CT_INFO("--ranks=auto: asked to stop while measuring");
            *best = NULL;
            *code = EXIT_STOPPED;
            return CT_OK;
        }
        if (way[i].code == EXIT_DONE &&
            (!*best || way[i].rate > (*best)->rate))
            *best = &way[i];
    }
    if (!*best) {
        CT_ERROR("%s", way[0].why);
        *code = way[0].code;
    }
    return CT_OK;
}

/* Every divisor of the cores is a number of ranks; or --threads is given. */
static enum ct_status list_ways(const struct train_flags *f, struct way *way,
                                int *n)
{
    const int cores = ct_cores(), threads = f->net.threads;

    *n = 0;
    if (threads > cores)
        return ct_fail(CT_EINVAL, "--ranks=auto: --threads=%d is more than the "
                       "%d cores that there are: leave --threads out, or say "
                       "--ranks=N", threads, cores);
    if (threads > 0)
        way[(*n)++] = (struct way){ .ranks   = cores / threads,
                                    .threads = threads };
    for (int r = 1; threads == 0 && r <= cores && *n < MOST_WAYS; r++)
        if (cores % r == 0)
            way[(*n)++] = (struct way){ .ranks = r, .threads = cores / r };
    return CT_OK;
}

/* From here on signals are those of the training, which one rank runs in this
 * process; none that asks for the end is lost between the two. */
static void hand_signals_on(int ranks, int *code)
{
    if (ranks == 1) {
        train_signals_catch();
        train_signals_catch_requests();
    }
    if (launch_is_asked_to_end())
        *code = EXIT_STOPPED;
}

static enum ct_status take(struct train_flags *f, const struct way *w,
                           bool measured)
{
    char room[64];

    if (measured)
        CT_INFO("--ranks=auto: %s make%s %.*f samples/s; taken",
                name(w, room, sizeof(room)), w->ranks == 1 ? "s" : "",
                digits(w->rate), w->rate);
    else
        CT_INFO("--ranks=auto: %s, %s; taken", name(w, room, sizeof(room)),
                f->net.threads > 0 ? "by --threads"
                                   : "there is no other way");
    CT_TRY(make_words(f, w, 0, &f->chosen_words));
    f->words       = f->chosen_words;
    f->ranks       = w->ranks;
    f->net.threads = w->threads;
    return CT_OK;
}

enum ct_status choose_ranks(struct train_flags *f, Caffe__SolverParameter *p,
                            int *code)
{
    struct way *way        = NULL;
    const struct way *best = NULL;
    enum ct_status st;
    int n = 0;

    CT_TRY(choose_ranks_check(f));
    CT_TRY(dist_flags_global_batch(&p->distributed));
    CT_TRY(check_same(p->distributed));
    CT_TRY(train_signals_read(&f->signals, NULL));
    CT_TRY(ct_alloc(MOST_WAYS, sizeof(*way), "ways to divide cores", &way));
    CT_TRY_GOTO(list_ways(f, way, &n), st, out);
    best = way;
    if (n > 1) {
        launch_begin(&f->signals);
        CT_TRY_GOTO(try_all(f, way, n, &best, code), st, out);
    }
    if (best)
        st = take(f, best, n > 1);
    if (best && n > 1)
        hand_signals_on(best->ranks, code);
out:
    ct_free(way);
    return st;
}
