/* cmd_train.c - `cortado train`: trains, finetunes or resumes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "choose_ranks.h"
#include "dist/engine.h"
#include "hosts.h"
#include "log_lines.h"
#include "measure.h"
#include "observe/trace_file.h"
#include "peers.h"
#include "proto/edit.h"
#include "signals.h"
#include "solver/solver_inner.h"
#include "status_line.h"
#include "supervise.h"
#include "train.h"

/* Whoever may ask a training for something between two iterations. */
struct askers {
    const struct train_job *job;
    struct observe         *observe; /* NULL: nobody looks on */
};

static enum ct_solver_action poll_askers(void *arg)
{
    const struct askers *a         = arg;
    enum ct_solver_action action = train_signals_action();

    if (action != CT_ACTION_NONE)
        return action;
    if (a->job->member && member_ends_job(a->job->member))
        return CT_ACTION_STOP;
    return observe_action(a->observe);
}

static const struct ct_solver_events terminal_events = {
    .iteration = status_line_draw,
};

/* The solver as it is in force: its file's words and the flags'. */
static enum ct_status read_solver(const struct train_flags *f,
                                  Caffe__SolverParameter **out)
{
    Caffe__DistributedParameter *dist = NULL;
    Caffe__SolverParameter *p = NULL;
    int64_t since;

    CT_TRY(ct_solver_param_read(f->solver, &p));
    *out = p;
    CT_TRY(dist_flags_merge(&f->dist, p->distributed, &dist));
    ct_message_free(p->distributed);
    p->distributed = dist;
    if (protobuf_c_message_get_packed_size(&dist->base) == 0) {
        ct_message_free(dist);
        p->distributed = NULL;
    }
    if (f->on_nan) {
        /* The schema's own text is not ours to free. */
        if (p->on_nan == caffe__solver_parameter__on_nan__default_value)
            p->on_nan = NULL;
        CT_TRY(ct_edit_string(&p->on_nan, f->on_nan));
    }
    /* The flag's weights take the place of the solver's own, and a snapshot
     * brings its own. */
    if (f->net.weights ||
        (f->snapshot && !snapshot_is_auto(f->snapshot, &since)))
        while (p->n_weights > 0)
            ct_edit_free(p->weights[--p->n_weights]);
    if (f->net.weights)
        CT_TRY(ct_edit_add_string(&p->weights, &p->n_weights,
                                  f->net.weights));
    if (f->measure > 0)
        measure_solver(p);
    return CT_OK;
}

static enum ct_status say_solver(const Caffe__SolverParameter *p)
{
    char *text = NULL;

    CT_TRY(ct_text_print(p, &text));
    CT_INFO("Initializing solver from parameters: \n%s", text);
    ct_free(text);
    return CT_OK;
}

static enum ct_status resume(struct ct_solver *s, const char *snapshot)
{
    enum ct_status st;
    int64_t since;

    if (!snapshot_is_auto(snapshot, &since)) {
        CT_INFO("Resuming from %s", snapshot);
        return ct_solver_restore(s, snapshot);
    }
    st = solver_resume_newest(s, (struct snapshot_origin){ .since = since });
    if (st == CT_ENOTFOUND) {
        CT_INFO("--snapshot=%s: %s; starting anew", snapshot, ct_last_error());
        return CT_OK;
    }
    return st;
}

/* Ranks started alike draw alike: rank 0's seed, and one solver for all. */
static enum ct_status agree(struct ct_dist *d, Caffe__SolverParameter *p)
{
    char *text = NULL;
    enum ct_status st;

    if (!d)
        return CT_OK;
    if (!p->has_random_seed || p->random_seed < 0) {
        p->has_random_seed = true;
        p->random_seed     = (int64_t)solver_seed_of(ct_entropy());
    }
    CT_TRY(ct_dist_broadcast(d, &p->random_seed, sizeof(p->random_seed)));
    CT_TRY(ct_text_print(p, &text));
    st = ct_dist_same(d, "solver prototxt",
                      ct_crc32c(0, text, strlen(text)));
    ct_free(text);
    CT_TRY(st);
    return ct_dist_same_inputs(d, p);
}

static void report_dist(struct ct_dist *d)
{
    struct ct_dist_stats stats = ct_dist_stats(d);

    if (!d || stats.n_exchanges == 0)
        return;
    CT_INFO("Sent %.3g MB an iteration; exchanges took %.3g ms, of which "
            "%.3g ms were waited for", (double)stats.bytes_sent / 1e6 /
            (double)stats.n_exchanges,
            1e3 * stats.comm_seconds / (double)stats.n_exchanges,
            1e3 * stats.wait_seconds / (double)stats.n_exchanges);
}

/* All ranks get ready to train, and rank 0 says what they would do. */
static enum ct_status explain(struct ct_dist *d, struct ct_solver *s)
{
    struct ct_text text = { 0 };
    enum ct_status st;

    CT_TRY(ct_solver_attach(s));
    dist_explain(d, &text);
    st = text.failed ? CT_ENOMEM : CT_OK;
    if (st == CT_OK && ct_dist_rank(d) == 0)
        fputs(text.s, stdout);
    ct_text_fini(&text);
    return st;
}

/* What they had is in the newest snapshot of this job; without any, they begin
 * as they were asked to. */
static enum ct_status begin_again(const struct train_job *j,
                                  struct ct_solver *s,
                                  const struct ct_exchange *x)
{
    const int64_t began = member_began(j->member);
    enum ct_status st   = solver_resume_newest(s, solver_own_origin(x, began));
    const bool found    = st == CT_OK;

    if (st == CT_ENOTFOUND)
        st = j->flags->snapshot ? resume(s, j->flags->snapshot) : CT_OK;
    CT_TRY(st);
    if (x->facts.commits)
        CT_WARN("All ranks that had the parameters are gone; %s: training goes "
                "on from iteration %d", found ? "the newest snapshot is left"
                : "the job had written no snapshot", ct_solver_iter(s));
    if (j->reached > ct_solver_iter(s))
        CT_WARN("Training goes back from iteration %d to %d, the newest "
                "snapshot: %d are done again", j->reached, ct_solver_iter(s),
                j->reached - ct_solver_iter(s));
    return CT_OK;
}

/* Who comes to a job gets all that the others have; who begins it waits until
 * there are enough. */
static enum ct_status begin_among(const struct train_job *j,
                                  struct ct_solver *s,
                                  const struct ct_exchange *x)
{
    const bool has_all = x->facts.rank < x->facts.n_full;

    if (x->facts.n_full == 0 || (has_all && member_founds_again(j->member)))
        CT_TRY(begin_again(j, s, x));
    else if (has_all && j->flags->snapshot)
        CT_TRY(resume(s, j->flags->snapshot));
    if (x->facts.n_full < x->facts.size)
        CT_TRY(solver_enter_view(s, true));
    return member_begin(j->member, ct_solver_iter(s));
}

/* A solver as it stands when training begins; *out also when this fails. */
static enum ct_status make_solver(struct train_job *j, struct ct_dist *d,
                                  const struct ct_solver_options *o,
                                  struct ct_solver **out)
{
    struct solver_preparation *p = j->prepared;
    const struct train_flags *f  = j->flags;
    enum ct_status st;

    CT_TRY(say_solver(j->param));
    if (!j->member)
        CT_TRY(agree(d, j->param));
    j->prepared = NULL;
    st          = solver_create_prepared(j->param, o, p, out);
    if (st != CT_OK)
        return ct_fail_in(st, "%s", f->solver);
    if (j->member)
        return begin_among(j, *out, o->exchange);
    return f->snapshot ? resume(*out, f->snapshot) : CT_OK;
}

/* With the line of a terminal, where rank 0 has one. */
static enum ct_status solve(struct ct_solver *s, struct ct_dist *d)
{
    struct status_line line = { .dist = d, .slowest = -1 };
    const bool is_terminal  = isatty(STDERR_FILENO) && ct_dist_rank(d) == 0;
    enum ct_status st;

    if (is_terminal) {
        CT_TRY(ct_solver_listen(s, &terminal_events, &line));
        log_lines_over_progress(true);
    }
    CT_INFO("Starting Optimization");
    st = ct_solver_solve(s);
    log_lines_over_progress(false);
    if (is_terminal)
        status_line_end(&line);
    report_dist(d);
    return st;
}

static enum ct_status say_end(const struct train_job *j, enum ct_status st)
{
    const Caffe__SolverParameter *p = j->param;

    /* What was asked for is done, or is with the ranks that this one serves:
     * SIGTERM ends neither from here on. */
    if (st != CT_OK && st != CT_ESTOP)
        peers_set_accept(NULL);
    if (st == CT_ESTOP && !j->member && !p->snapshot_after_train &&
        p->snapshot == 0 && p->snapshot_seconds == 0)
        return CT_OK; /* as asked, and there is nothing to go on from; who
                       * leaves others has not finished their job, though */
    if (st == CT_OK)
        CT_INFO("Optimization Done.");
    return st;
}

enum ct_status train_as_rank(struct train_job *j, struct ct_dist *d)
{
    const struct train_flags *f = j->flags;
    struct askers askers         = { .job = j };
    struct ct_solver_watch watch = { NULL };
    struct ct_solver_options o   = {
        .device = f->net.device, .level = f->net.level, .stage = f->net.stages,
        .n_stage = f->net.n_stages, .action = poll_askers, .arg = &askers,
        .rank = ct_dist_rank(d), .size = ct_dist_size(d),
        .exchange = ct_dist_exchange(d), .watch = &watch,
    };
    const uint64_t job   = j->member ? member_seed(j->member) : 0;
    struct ct_trace_file trace;
    struct ct_solver *s  = NULL;
    struct observe *look = NULL;
    char why[2048];
    enum ct_status st;

    CT_TRY(ct_trace_file_init(&trace, f->trace, f->observe.run));
    watch.tracing = &trace.tracing;
    CT_TRY_GOTO(train_signals_read(&f->signals, j->member), st, out);
    CT_TRY_GOTO(observe_start(&f->observe, j->param, j->member ? &job : NULL, d,
                              &look), st, out);
    watch.pulse    = observe_pulse(look);
    askers.observe = look;
    CT_TRY_GOTO(make_solver(j, d, &o, &s), st, out);
    if (f->explain) {
        st = explain(d, s);
        goto out;
    }
    if (f->measure > 0) {
        st = measure_steps(s, d, f->measure);
        goto out;
    }
    CT_TRY_GOTO(observe_follow(&f->observe, look, d, s), st, out);
    train_signals_ask(&trace, d);
    observe_trace(look, &trace, d);
    st = solve(s, d);
    observe_trace(look, NULL, NULL);
    train_signals_ask(NULL, NULL);
    st = say_end(j, st);
out:
    /* The comm thread may be at work on what the solver has, and whoever sees
     * it leave would speak before this rank has said why: the job ends
     * first. */
    if (st != CT_OK && st != CT_ESTOP && ct_dist_size(d) > 1 && !j->member) {
        observe_last_words(look);
        return st;
    }
    snprintf(why, sizeof(why), "%s", ct_last_error());
    observe_end(look);
    if (s && !(d && ct_dist_exchange(d)->facts.serves))
        j->reached = ct_solver_iter(s);
    ct_solver_destroy(s);
    return st == CT_OK ? CT_OK : ct_fail(st, "%s", why); /* not the end's */
}

static enum ct_status train_joined(struct ct_dist *d, void *arg)
{
    struct train_job *j = arg;

    j->flags->net.local  = ct_dist_local_rank(d);
    j->flags->net.solver = j->param;
    CT_TRY(net_flags_apply(&j->flags->net));
    return train_as_rank(j, d);
}

/* `solver_mode: GPU` asks for the GPU that there is; several of them get a
 * rank each. */
static enum ct_status choose_gpus(struct train_flags *f,
                                  const Caffe__SolverParameter *p)
{
    bool wants = p->has_solver_mode &&
                 p->solver_mode == CAFFE__SOLVER_PARAMETER__SOLVER_MODE__GPU;
    int n;

    if (wants && !f->net.gpu && ct_device_cuda_count() > 0)
        f->net.gpu = ct_dist_launched() ? "all" : "0";
    else if (wants && !f->net.gpu)
        CT_WARN("solver_mode is GPU, but there is no GPU that this build can "
                "use: training on the CPU");
    CT_TRY(net_flags_n_gpus(&f->net, &n));
    if (n > 1 && f->ranks == 0)
        f->ranks = n;
    return CT_OK;
}

/* The same, in a process of its own: a GPU that this one has used is of no use
 * to processes that it forks. */
static enum ct_status choose_gpus_aside(struct train_flags *f,
                                        const Caffe__SolverParameter *p)
{
    enum { ON_GPUS = 128, FAILED = 255 };
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        const enum ct_status st = choose_gpus(f, p);

        _exit(st == CT_OK ? f->ranks % ON_GPUS + (f->net.gpu ? ON_GPUS : 0)
                          : FAILED);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return ct_fail(CT_EIO, "cannot start a process to look for GPUs: %s",
                       strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) == FAILED)
        return choose_gpus(f, p); /* which says why */
    if (f->ranks == 0)
        f->ranks = WEXITSTATUS(status) % ON_GPUS;
    if (WEXITSTATUS(status) >= ON_GPUS && !f->net.gpu)
        f->net.gpu = "all"; /* a rank takes the one of its number */
    return CT_OK;
}

/* The same command again, by MPI, on other hosts or on this one. */
static enum ct_status train_supervised(const struct train_flags *f,
                                       const Caffe__SolverParameter *p,
                                       int *code)
{
    struct supervised s = { .hosts = f->hosts, .words = f->words,
                            .prefix = p->snapshot_prefix ? p->snapshot_prefix
                                                         : "snapshot",
                            .snapshot = f->snapshot, .signals = &f->signals,
                            .restarts  = f->elastic.restarts,
                            .min_ranks = f->min_ranks };
    struct hosts *here  = NULL;
    enum ct_status st;

    if (!s.hosts) {
        CT_TRY(ct_alloc(1, sizeof(*here), "hosts", &here));
        hosts_here(here, f->ranks);
        s.hosts = here;
    }
    st = supervise(&s, code);
    ct_free(here);
    return st;
}

static int train_with_peers(struct train_flags *f)
{
    struct train_job job = { .flags = f };
    enum ct_status st    = read_solver(f, &job.param);
    int code             = EXIT_DONE;

    if (st == CT_OK && f->auto_seconds > 0)
        st = choose_ranks_check(f);
    if (st == CT_OK && !f->hosts)
        st = f->elastic.elastic ? choose_gpus_aside(f, job.param)
                                : choose_gpus(f, job.param);
    if (st == CT_OK && f->auto_seconds > 0)
        st = choose_ranks(f, job.param, &code);
    if (st != CT_OK || code != EXIT_DONE) {
        code = st == CT_OK ? code : command_failed(st);
    } else if (f->elastic.elastic) {
        if (job.param->distributed)
            f->elastic.stall = job.param->distributed->stall;
        code = train_elastic(&job);
    } else if (f->hosts || (f->ranks > 1 && !ct_dist_launched())) {
        st = train_supervised(f, job.param, &code);
        if (st != CT_OK)
            code = command_failed(st);
    } else {
        st = train_signals_read(&f->signals, NULL);
        if (st == CT_OK) {
            train_signals_catch();
            signals_aside(!ct_dist_launched());
        }
        code = st == CT_OK ? peers_run(job.param->distributed, train_joined,
                                       &job)
                           : command_failed(st);
    }
    ct_message_free(job.param);
    return code;
}

static int print_combinations(void)
{
    struct ct_text text     = { 0 };
    const enum ct_status st = dist_combinations(&text);

    if (st == CT_OK)
        fputs(text.s, stdout);
    ct_text_fini(&text);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}

/* false: stderr says why. */
static bool make_sense(struct train_flags *f, int n_words)
{
    int64_t since;

    /* Of weights and the newest snapshot, the snapshot counts once there is
     * one. */
    if (n_words != 1 || !f->solver ||
        (f->snapshot && f->net.weights &&
         !snapshot_is_auto(f->snapshot, &since))) {
        fprintf(stderr, "cortado train: %s\n",
                n_words != 1 ? "takes flags only"
                : !f->solver ? "needs --solver, a solver definition"
                             : "give a snapshot to resume from or weights to "
                               "finetune from, not both");
        return false;
    }
    if (f->hosts && (f->elastic.elastic || ct_dist_launched())) {
        fprintf(stderr, "cortado launch: --mpi is for jobs of fixed size, and "
                "starts mpirun itself: leave --elastic, mpirun or --mpi out\n");
        return false;
    }
    return measure_makes_sense(f) && choose_ranks_read(f);
}

static int train_by_words(const struct hosts *hosts, int min_ranks,
                          int restarts, int argc, char **argv, char **words)
{
    struct train_flags f = { .hosts = hosts, .min_ranks = min_ranks,
                             .elastic = ELASTIC_DEFAULTS };
    const struct flag flags[] = {
        FLAG("solver", &f.solver),
        FLAG("snapshot", &f.snapshot),
        FLAG("weights", &f.net.weights),
        NET_FLAGS(f.net),
        SIGNAL_FLAGS(f.signals),
        FLAG("on_nan", &f.on_nan),
        FLAG("trace", &f.trace),
        FLAG("ranks", &f.ranks_word),
        FLAG("measure", &f.measure),
        FLAG("explain", &f.explain),
        DIST_FLAGS(f.dist),
        ELASTIC_FLAGS(f.elastic),
        OBSERVE_FLAGS(f.observe),
        FLAG_END,
    };
    bool helped;
    int code;

    f.words         = words;
    f.elastic.words = words + 1;
    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (f.explain && !f.solver && argc == 1)
        return print_combinations();
    if (!make_sense(&f, argc))
        return EXIT_USAGE;
    if (restarts >= 0)
        f.elastic.restarts = restarts;
    if (f.elastic.restarts < 0)
        f.elastic.restarts = f.elastic.elastic || hosts ? ELASTIC_RESTARTS : 0;
    signal_flags_default(&f.signals, f.elastic.elastic != NULL);
    f.elastic.signals = &f.signals;
    if (f.measure > 0)
        measure_flags(&f);
    train_signals_catch_requests(); /* one that comes too early ends nothing */
    code = train_with_peers(&f);
    net_flags_fini(&f.net);
    ct_free(f.chosen_words);
    return code;
}

static int train(const struct hosts *hosts, int min_ranks, int restarts,
                 int argc, char **argv)
{
    char **words            = NULL;
    const enum ct_status st = flags_keep_words(argc, argv, &words);
    int code;

    if (st != CT_OK)
        return command_failed(st);
    code = train_by_words(hosts, min_ranks, restarts, argc, argv, words);
    ct_free(words);
    return code;
}

int train_on_hosts(const char *list, int min_ranks, int restarts,
                   char **words)
{
    struct hosts *hosts = NULL;
    int argc = 0, code;
    enum ct_status st = ct_alloc(1, sizeof(*hosts), "hosts", &hosts);

    while (words[argc])
        argc++;
    if (st == CT_OK)
        st = hosts_read(hosts, list);
    if (st == CT_OK && min_ranks > hosts->n_ranks)
        st = ct_fail(CT_EINVAL, "--min_ranks=%d is more than the %d rank(s) of "
                     "--hosts", min_ranks, hosts->n_ranks);
    code = st == CT_OK ? train(hosts, min_ranks, restarts, argc, words)
                       : command_failed(st);
    ct_free(hosts);
    return code;
}

int cmd_train(int argc, char **argv)
{
    return train(NULL, 1, -1, argc, argv);
}
