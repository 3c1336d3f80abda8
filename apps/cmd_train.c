/* cmd_train.c - `cortado train`: trains, finetunes or resumes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cortado/access.h"
#include "dist/engine.h"
#include "dist_flags.h"
#include "elastic_run.h"
#include "launch.h"
#include "log_lines.h"
#include "net_flags.h"
#include "observe.h"
#include "observe/trace_file.h"
#include "peers.h"
#include "proto/edit.h"
#include "signals.h"
#include "solver/solver_inner.h"
#include "status_line.h"

struct train_flags {
    struct net_flags       net;
    const char            *solver, *snapshot;
    const char            *sigint_effect, *sighup_effect;
    const char            *sigterm_effect, *sigusr1_effect;
    const char            *on_nan;
    const char            *trace;
    int                    ranks;
    bool                   explain;
    struct dist_flags      dist;
    struct elastic_flags   elastic;
    struct observe_flags   observe;
};

static volatile sig_atomic_t got[NSIG];

/* Where SIGUSR2 asks for a trace and for records. */
static struct ct_trace_file *_Atomic traced;
static struct ct_dist *_Atomic recorded;
/* Who leaves its job at some signals, which are these. */
static struct elastic_member *_Atomic member;
static volatile sig_atomic_t leaves_at[NSIG];

static void on_signal(int number)
{
    struct elastic_member *m = member;

    if (m && leaves_at[number]) {
        member_leave(m);
        return;
    }
    if (m && (number == SIGINT || number == SIGTERM || number == SIGUSR1))
        member_end(m); /* where it only waits to begin */
    got[number] = 1;
    if (number != SIGUSR2)
        return;
    ct_dist_ask_records(recorded);
    if (traced)
        ct_trace_file_want(traced);
}

/* Where a launcher's SIGTERM has a thread that asks (peers.h): once. */
static bool accept_term(void)
{
    got[SIGTERM] = 1;
    return true;
}

/* What a signal asks for; the first of them that came counts. */
struct effect {
    int                   number;
    const char           *flag;
    enum ct_solver_action action;
};
enum { N_EFFECTS = 4 };

struct terminal {
    struct effect         effect[N_EFFECTS];
    bool                  is_terminal;
    struct observe       *observe; /* borrowed; NULL: nobody looks on */
    struct status_line    line;
};

static enum ct_solver_action poll_signals(void *arg)
{
    const struct terminal *t = arg;

    for (int i = 0; i < N_EFFECTS; i++)
        if (got[t->effect[i].number]) {
            got[t->effect[i].number] = 0;
            return t->effect[i].action;
        }
    if (member && member_ends_job(member))
        return CT_ACTION_STOP;
    return observe_action(t->observe);
}

static enum ct_status parse_effect(const char *flag, const char *word,
                                   bool *leaves, enum ct_solver_action *out)
{
    *leaves = strcmp(word, "leave") == 0;
    if (strcmp(word, "stop") == 0)
        *out = CT_ACTION_STOP;
    else if (*leaves && member)
        *out = CT_ACTION_NONE;
    else if (*leaves)
        return ct_fail(CT_EINVAL, "--%s=leave is for --elastic: a job of fixed "
                       "size goes on with all ranks or none", flag);
    else if (strcmp(word, "snapshot") == 0)
        *out = CT_ACTION_SNAPSHOT;
    else if (strcmp(word, "none") == 0)
        *out = CT_ACTION_NONE;
    else
        return ct_fail(CT_EINVAL, "--%s is stop, snapshot, none or, with "
                       "--elastic, leave, not '%s'", flag, word);
    return CT_OK;
}

static enum ct_status read_effects(const struct train_flags *f,
                                   struct effect *out)
{
    const struct effect all[N_EFFECTS] = {
        { SIGTERM, "sigterm_effect", CT_ACTION_NONE },
        { SIGINT, "sigint_effect", CT_ACTION_NONE },
        { SIGUSR1, "sigusr1_effect", CT_ACTION_NONE },
        { SIGHUP, "sighup_effect", CT_ACTION_NONE },
    };
    const char *const word[N_EFFECTS] = { f->sigterm_effect, f->sigint_effect,
                                          f->sigusr1_effect,
                                          f->sighup_effect };

    memcpy(out, all, sizeof(all));
    for (int i = 0; i < N_EFFECTS; i++) {
        bool leaves;

        CT_TRY(parse_effect(all[i].flag, word[i], &leaves, &out[i].action));
        leaves_at[all[i].number] = leaves;
    }
    return CT_OK;
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
    if (f->net.weights || f->snapshot)
        while (p->n_weights > 0)
            ct_edit_free(p->weights[--p->n_weights]);
    if (f->net.weights)
        CT_TRY(ct_edit_add_string(&p->weights, &p->n_weights,
                                  f->net.weights));
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
    char *newest = NULL;
    enum ct_status st;

    if (strcmp(snapshot, "auto") != 0) {
        CT_INFO("Resuming from %s", snapshot);
        return ct_solver_restore(s, snapshot);
    }
    st = ct_solver_newest_snapshot(s, &newest);
    if (st == CT_ENOTFOUND) {
        CT_INFO("--snapshot=auto: %s; starting anew", ct_last_error());
        return CT_OK;
    }
    CT_TRY(st);
    CT_INFO("Resuming from %s", newest);
    st = ct_solver_restore(s, newest);
    ct_free(newest);
    return st;
}

static void catch_signals(const struct terminal *t)
{
    struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    for (int i = 0; i < N_EFFECTS; i++)
        if (t->effect[i].number != SIGTERM || !ct_dist_launched())
            sigaction(t->effect[i].number, &sa, NULL);
    peers_set_accept(accept_term);
}

/* From the start on, so that one that comes too early ends nothing. */
static void catch_requests(void)
{
    struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigaction(SIGUSR2, &sa, NULL);
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
        p->random_seed     = (int64_t)(ct_entropy() >> 1);
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

/* Who comes to a job gets all that the others have; who begins it waits until
 * there are enough. */
static enum ct_status begin_among(struct ct_solver *s,
                                  const struct ct_exchange *x)
{
    if (x->facts.n_full == 0) /* what they had is in the newest snapshot */
        CT_TRY(resume(s, "auto"));
    if (x->facts.n_full < x->facts.size)
        return solver_enter_view(s, true);
    return member_begin(member, ct_solver_iter(s));
}

static enum ct_status train(const struct train_flags *f,
                            Caffe__SolverParameter *param, struct ct_dist *d)
{
    struct terminal t = { .is_terminal = isatty(STDERR_FILENO) &&
                                         ct_dist_rank(d) == 0,
                          .line = { .dist = d, .slowest = -1 } };
    struct ct_solver_options o = {
        .device = f->net.device, .level = f->net.level, .stage = f->net.stages,
        .n_stage = f->net.n_stages, .action = poll_signals, .arg = &t,
        .rank = ct_dist_rank(d), .size = ct_dist_size(d),
        .exchange = ct_dist_exchange(d),
    };
    struct ct_trace_file trace;
    struct ct_solver *s = NULL;
    struct observe *look = NULL;
    enum ct_status st;

    CT_TRY(ct_trace_file_init(&trace, f->trace, f->observe.run));
    o.tracing = &trace.tracing;
    CT_TRY_GOTO(read_effects(f, t.effect), st, out);
    CT_TRY_GOTO(observe_start(&f->observe, param, d, &look), st, out);
    o.pulse   = observe_pulse(look);
    t.observe = look;
    CT_TRY_GOTO(say_solver(param), st, out);
    if (!member)
        CT_TRY_GOTO(agree(d, param), st, out);
    st = ct_solver_create(param, &o, &s);
    if (st != CT_OK)
        st = ct_fail_in(st, "%s", f->solver);
    CT_TRY_GOTO(st, st, out);
    if (f->snapshot && (!member || o.rank < o.exchange->facts.n_full))
        CT_TRY_GOTO(resume(s, f->snapshot), st, out);
    if (member)
        CT_TRY_GOTO(begin_among(s, o.exchange), st, out);
    if (f->explain) {
        st = explain(d, s);
        goto out;
    }
    CT_TRY_GOTO(observe_follow(&f->observe, look, d, s), st, out);
    traced   = &trace;
    recorded = d;
    observe_trace(look, &trace, d);
    catch_signals(&t);
    if (t.is_terminal) {
        CT_TRY_GOTO(ct_solver_listen(s, &terminal_events, &t.line), st,
                    out);
        log_lines_over_progress(true);
    }
    CT_INFO("Starting Optimization");
    st       = ct_solver_solve(s);
    observe_trace(look, NULL, NULL);
    traced   = NULL;
    recorded = NULL;
    log_lines_over_progress(false);
    if (t.is_terminal)
        status_line_end(&t.line);
    report_dist(d);
    /* What was asked for is done, or is with the ranks that this one serves:
     * SIGTERM ends neither from here on. */
    if (st != CT_OK && st != CT_ESTOP)
        peers_set_accept(NULL);
    if (st == CT_ESTOP && !param->snapshot_after_train &&
        param->snapshot == 0 && param->snapshot_seconds == 0)
        st = CT_OK; /* as asked, and there is nothing to go on from */
    else if (st == CT_OK)
        CT_INFO("Optimization Done.");
out:
    /* The comm thread may be at work on what the solver has, and whoever sees
     * it leave would speak before this rank has said why: the job ends
     * first. */
    if (st != CT_OK && st != CT_ESTOP && ct_dist_size(d) > 1 && !member) {
        observe_last_words(look);
        return st;
    }
    observe_end(look);
    ct_solver_destroy(s);
    return st;
}

struct job {
    struct train_flags     *flags;
    Caffe__SolverParameter *param;
};

static enum ct_status train_joined(struct ct_dist *d, void *arg)
{
    const struct job *j = arg;

    j->flags->net.local  = ct_dist_local_rank(d);
    j->flags->net.solver = j->param;
    CT_TRY(net_flags_apply(&j->flags->net));
    return train(j->flags, j->param, d);
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

/* ---- Ranks that come and go. */

/* The batch is that of all ranks together, unless somebody says otherwise, so
 * that the mathematics stays the same whatever their number is. */
static enum ct_status fit_elastic(const struct train_flags *f,
                                  Caffe__SolverParameter *p)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;
    Caffe__DistributedParameter *d = p->distributed;

    if (f->net.precision && strcmp(f->net.precision, "fp16") == 0)
        return ct_fail(CT_ENOTSUP, "--precision=fp16 scales losses by what "
                       "each process has seen; use bf16 with --elastic");
    if (f->observe.run || f->observe.http || f->trace || f->explain)
        return ct_fail(CT_ENOTSUP, "--run, --http, --trace and --explain are "
                       "for jobs of fixed size: leave --elastic out, or them");
    if (ct_dist_launched())
        return ct_fail(CT_EINVAL, "--elastic brings its own processes: start "
                       "it without mpirun");
    if (!d) {
        CT_TRY(ct_message_merge(&none, NULL, &d));
        p->distributed = d;
    }
    if (f->dist.batch ||
        d->batch != caffe__distributed_parameter__batch__default_value)
        return CT_OK;
    d->batch = NULL;
    return ct_edit_string(&d->batch, "global");
}

/* A view may end while this process comes in; then it comes again. */
static enum ct_status train_member(struct elastic_member *m, bool again,
                                   void *arg)
{
    const struct job *j = arg;
    const bool draws    = !j->param->has_random_seed ||
                       j->param->random_seed < 0;
    struct ct_dist *d   = NULL;
    struct terminal t   = { .observe = NULL };
    enum ct_status st;

    signal(SIGPIPE, SIG_IGN);
    signals_aside(true);
    member = m;
    CT_TRY(read_effects(j->flags, t.effect));
    catch_signals(&t); /* who asks it to leave need not wait */
    if (again)
        j->flags->snapshot = "auto";
    do {
        st = dist_create_elastic(member_asks(m), j->param->distributed, &d);
        if (st == CT_OK && draws) { /* they all draw alike */
            j->param->has_random_seed = true;
            j->param->random_seed     = (int64_t)(member_seed(m) >> 1);
        }
        if (st == CT_OK) {
            j->flags->net.local  = ct_dist_local_rank(d);
            j->flags->net.solver = j->param;
            st = net_flags_apply(&j->flags->net);
        }
        if (st == CT_OK)
            st = train(j->flags, j->param, d);
        ct_dist_destroy(d);
        d = NULL;
    } while (st == CT_ECOMM);
    if (st == CT_OK)
        member_done(m);
    member = NULL;
    return st;
}

/* The net is read once: it may change on the disk while views do. */
static enum ct_status take_net(Caffe__SolverParameter *p)
{
    char **path                   = p->net ? &p->net : &p->train_net;
    Caffe__NetParameter **message = p->net ? &p->net_param
                                           : &p->train_net_param;

    if (!*path || *message)
        return CT_OK;
    CT_TRY(ct_net_param_read(*path, message));
    ct_edit_free(*path);
    *path = NULL;
    return CT_OK;
}

/* All that members must have alike.  Weights are the first one's. */
static enum ct_status digest_of(const struct train_flags *f,
                                const Caffe__SolverParameter *p, uint64_t *out)
{
    Caffe__SolverParameter *copy = NULL;
    char *text                   = NULL;
    enum ct_status st;
    uint32_t crc;

    CT_TRY(ct_message_copy(p, &copy));
    while (copy->n_weights > 0)
        ct_edit_free(copy->weights[--copy->n_weights]);
    st = ct_text_print(copy, &text);
    if (st == CT_OK) {
        crc  = ct_crc32c(0, text, strlen(text));
        crc  = ct_crc32c(crc, &f->net.level, sizeof(f->net.level));
        *out = f->net.stage ? ct_crc32c(crc, f->net.stage,
                                        strlen(f->net.stage))
                            : crc;
    }
    ct_free(text);
    ct_message_free(copy);
    return st;
}

static int train_elastic(struct train_flags *f, struct job *j)
{
    enum ct_status st = fit_elastic(f, j->param);
    uint64_t digest   = 0;
    int code;

    if (st == CT_OK)
        st = take_net(j->param);
    if (st == CT_OK)
        st = digest_of(f, j->param, &digest);
    if (st != CT_OK) {
        ct_message_free(j->param);
        return command_failed(st);
    }
    code = elastic_run(&f->elastic, f->ranks, digest, j->param->max_iter,
                       train_member, j);
    ct_message_free(j->param);
    return code;
}

static int train_with_peers(struct train_flags *f)
{
    struct job job = { f, NULL };
    enum ct_status st = read_solver(f, &job.param);
    int code          = EXIT_DONE;

    if (st == CT_OK && f->elastic.elastic)
        return train_elastic(f, &job);
    if (st == CT_OK)
        st = choose_gpus(f, job.param);
    if (st == CT_OK && f->ranks > 1 && !ct_dist_launched()) {
        st = launch_ranks(f->ranks, &code);
    } else if (st == CT_OK) {
        signals_aside(!ct_dist_launched());
        code = peers_run(job.param->distributed, train_joined, &job);
    }
    if (st != CT_OK)
        code = command_failed(st);
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

static int train_by_words(int argc, char **argv, char **words)
{
    struct train_flags f = { .sigint_effect  = "stop",
                             .sighup_effect  = "snapshot",
                             .elastic = ELASTIC_DEFAULTS };
    const struct flag flags[] = {
        FLAG("solver", &f.solver),
        FLAG("snapshot", &f.snapshot),
        FLAG("weights", &f.net.weights),
        NET_FLAGS(f.net),
        FLAG("sigint_effect", &f.sigint_effect),
        FLAG("sighup_effect", &f.sighup_effect),
        FLAG("sigterm_effect", &f.sigterm_effect),
        FLAG("sigusr1_effect", &f.sigusr1_effect),
        FLAG("on_nan", &f.on_nan),
        FLAG("trace", &f.trace),
        FLAG("ranks", &f.ranks),
        FLAG("explain", &f.explain),
        DIST_FLAGS(f.dist),
        ELASTIC_FLAGS(f.elastic),
        OBSERVE_FLAGS(f.observe),
        FLAG_END,
    };
    bool helped;
    int code;

    f.elastic.words = words;
    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (f.explain && !f.solver && argc == 1)
        return print_combinations();
    if (argc != 1 || !f.solver || (f.snapshot && f.net.weights)) {
        fprintf(stderr, "cortado train: %s\n",
                argc != 1   ? "takes flags only"
                : !f.solver ? "needs --solver, a solver definition"
                            : "give a snapshot to resume from or weights to "
                              "finetune from, not both");
        return EXIT_USAGE;
    }
    if (!f.sigterm_effect)
        f.sigterm_effect = f.elastic.elastic ? "leave" : "stop";
    if (!f.sigusr1_effect)
        f.sigusr1_effect = f.elastic.elastic ? "leave" : "stop";
    catch_requests();
    code = train_with_peers(&f);
    net_flags_fini(&f.net);
    return code;
}

int cmd_train(int argc, char **argv)
{
    char **words            = NULL; /* as they stand before they are parsed */
    const enum ct_status st = ct_alloc((size_t)argc, sizeof(*words),
                                       "a command line", &words);
    int code;

    if (st != CT_OK)
        return command_failed(st);
    for (int i = 1; i < argc; i++)
        words[i - 1] = argv[i];
    words[argc - 1] = NULL;
    code            = train_by_words(argc, argv, words);
    ct_free(words);
    return code;
}
