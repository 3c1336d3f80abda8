/* step.c - the training loop, in the order Caffe has it.
 *
 *     clear diffs, test if due, iter_size times forward and backward, smooth
 *     the loss, display if due, update, act on requests, snapshot if due
 *
 * With peers the update may be put off, layer by layer, into the next forward
 * pass; it is complete before anything else looks at parameters.           */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "base/trace.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "device/impl.h"
#include "net/training.h"
#include "solver/solver_inner.h"

struct ct_pulse *solver_pulse(const struct ct_solver *s)
{
    return s->options.exchange && s->options.exchange->facts.pulse
               ? s->options.exchange->facts.pulse
               : s->watch.pulse;
}

void solver_smooth(struct ct_solver *s, double loss)
{
    int window = s->param->average_loss;
    int done   = s->iter - s->shown.start_iter;

    if (done < window) {
        s->shown.losses[done] = loss;
        s->shown.smoothed     = (s->shown.smoothed * done + loss) / (done + 1);
    } else {
        double *old = &s->shown.losses[done % window];

        s->shown.smoothed += (loss - *old) / window;
        *old = loss;
    }
}

static void display(struct ct_solver *s)
{
    double now = ct_now(), lapse = now - s->shown.time;
    int done   = s->iter - s->shown.iter;
    double rate = done && lapse > 0 ? done / lapse : 0;
    const struct ct_exchange *x = s->options.exchange;
    char note[64] = "";

    CT_INFO("Iteration %d (%g iter/s, %gs/%d iters), loss = %g", s->iter, rate,
            done ? lapse : 0, s->param->display, s->shown.smoothed);
    s->shown.time = now;
    s->shown.iter = s->iter;
    if (x && x->facts.size > 1) /* the loss above is that of all ranks */
        snprintf(note, sizeof(note), " (rank %d of %d)", x->facts.rank,
                 x->facts.size);
    solver_print_outputs(s->net, "Train", NULL, note);
}

enum ct_status solver_check_loss(struct ct_solver *s, double loss)
{
    int layer;

    if (isfinite(loss))
        return CT_OK;
    CT_TRY(ct_net_find_nan(s->net, &layer));
    if (strcmp(s->param->on_nan, "continue") == 0) {
        CT_WARN("Iteration %d: the loss is %g; first seen in layer %s", s->iter,
                loss, layer < 0 ? "(none)"
                                : ct_net_layer(s->net, layer)->name);
        return CT_OK;
    }
    return ct_fail(CT_ENAN, "iteration %d: the loss is %g; layer %s is the "
                   "first to produce a value that is not finite.  Lower "
                   "base_lr, set clip_gradients, or train on with "
                   "--on_nan=continue", s->iter, loss,
                   layer < 0 ? "(none)" : ct_net_layer(s->net, layer)->name);
}

/* An iteration that cannot count any more is given up between two layers; a
 * GPU's is queued as a whole. */
static enum ct_status check_view(const struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    return solver_commits(s) && s->options.device->kind == CT_CPU
               ? x->job->check(x)
               : CT_OK;
}

/* After each layer's backward pass. */
static enum ct_status layer_done(struct ct_net *net, int layer, void *arg)
{
    struct ct_solver *s   = arg;
    struct ct_exchange *x = s->options.exchange;

    CT_TRY(check_view(s));
    if (!s->last_pass || (s->peers.after_backward && layer > 0))
        return CT_OK;
    for (int i = s->peers.after_backward ? ct_net_n_layers(net) - 1 : layer;
         i >= layer; i--)
        CT_TRY(x->ops->layer_done(x, i));
    return CT_OK;
}

/* The gradient arena as peers see it. */
static float *peer_diffs(const struct ct_solver *s)
{
    return s->peers.mirror ? s->peers.mirror->diff : ct_net_arena_diff(s->net);
}

/* On a GPU, while the pass is queued: behind each layer's backward. */
static enum ct_status layer_queued(struct ct_net *net, int layer, void *arg)
{
    struct ct_solver *s   = arg;
    struct ct_exchange *x = s->options.exchange;

    (void)net;
    CT_TRY(x->ops->queued(x, layer));
    return ct_mirror_queue(s->peers.mirror, layer);
}

/* Before each layer's forward pass. */
static enum ct_status layer_start(struct ct_net *net, int layer, void *arg)
{
    (void)net;
    CT_TRY(check_view(arg));
    return solver_update_layer(arg, layer);
}

/* Before the last backward pass: gradients leave during it, and this rank's
 * loss and requests with them. */
static enum ct_status begin_exchange(struct ct_solver *s, double loss)
{
    struct ct_exchange *x     = s->options.exchange;
    enum ct_solver_action act = solver_requested(s);
    float *rider;

    s->last_pass = true;
    if (!x) {
        s->peers.agreed       = act;
        s->peers.trace_agreed = solver_trace_wanted(s);
        return CT_OK;
    }
    act              = act != CT_ACTION_NONE ? act : s->peers.pending;
    s->peers.pending = CT_ACTION_NONE;
    if (act != CT_ACTION_NONE || !x->facts.apart)
        s->standing.mark.asked = act;
    rider                    = peer_diffs(s);
    rider[CT_RIDER_LOSS]     = (float)loss;
    rider[CT_RIDER_SNAPSHOT] = act == CT_ACTION_SNAPSHOT;
    rider[CT_RIDER_STOP]     = act == CT_ACTION_STOP;
    rider[CT_RIDER_TRACE]    = solver_trace_wanted(s);
    s->peers.exchanged       = true;
    if (s->peers.shares_params) /* parts of it begin during the backward pass */
        CT_TRY(solver_update_rate(s));
    ct_net_set_layer_done(s->net, s->peers.mirror ? layer_queued : layer_done,
                          s);
    return x->ops->begin(x, s->iter);
}

/* The mean loss over ranks, and what any of them asked for. */
static enum ct_status finish_exchange(struct ct_solver *s)
{
    struct ct_exchange *x   = s->options.exchange;
    struct ct_answer answer = { 0 };

    s->last_pass = false;
    if (!x)
        return CT_OK;
    ct_pulse_set(x->facts.pulse, CT_PULSE_EXCHANGE, NULL);
    CT_TRY(x->ops->finish(x, &answer));
    if (answer.again) /* back to before the passes that did not count */
        CT_TRY(ct_net_seek(s->net, ct_net_n_passes(s->net) -
                                       (uint64_t)s->param->iter_size));
    if (answer.ahead > 0)
        s->iter = answer.ahead - 1; /* the update adds one */
    s->loss   = answer.loss;
    s->peers.agreed       = answer.stop       ? CT_ACTION_STOP
                            : answer.snapshot ? CT_ACTION_SNAPSHOT
                                              : CT_ACTION_NONE;
    s->peers.trace_agreed = answer.trace;
    return CT_OK;
}

static bool on_gpu(const struct ct_solver *s)
{
    return s->options.device->kind != CT_CPU;
}

/* The last pass of an iteration whose gradients come out by the mirror: all of
 * it is queued, and then they are followed, layer by layer.  *loss has what
 * the passes before made; 1 / n of this one's comes to it. */
static enum ct_status mirrored_pass(struct ct_solver *s, bool fresh, int n,
                                    double *loss)
{
    struct ct_exchange *x = s->options.exchange;
    double part;

    CT_TRY(begin_exchange(s, 0));
    ct_mirror_expect(s->peers.mirror);
    CT_TRY(ct_net_forward_backward(s->net, fresh, &part));
    CT_TRY(solver_check_loss(s, part));
    *loss += part / n;
    s->peers.mirror->diff[CT_RIDER_LOSS] = (float)*loss;
    for (int l = ct_net_n_layers(s->net) - 1; l >= 0; l--) {
        ct_pulse_set(x->facts.pulse, CT_PULSE_BACKWARD,
                     ct_net_layer(s->net, l)->name);
        if (!s->peers.attached.queues_sums)
            CT_TRY(ct_mirror_wait(s->peers.mirror, l));
        CT_TRY(x->ops->layer_done(x, l));
    }
    return CT_OK;
}

/* A pass after which nobody is told anything, or all at once. */
static enum ct_status whole_pass(struct ct_solver *s, bool fresh, int n,
                                 double *loss)
{
    double part;

    ct_net_set_layer_done(s->net, NULL, NULL);
    CT_TRY(ct_net_forward_backward(s->net, fresh, &part));
    CT_TRY(solver_check_loss(s, part));
    *loss += part / n;
    return CT_OK;
}

/* Canonical training: the loss and the gradient of each micro-batch are added
 * up by themselves; the exchange takes all but the last. */
static enum ct_status micro_pass(struct ct_solver *s, int i, double *loss)
{
    struct ct_exchange *x = s->options.exchange;
    const bool last       = i == x->facts.micro - 1;

    *loss = 0;
    if (s->peers.mirror && last)
        return mirrored_pass(s, true, 1, loss);
    if (s->peers.mirror) {
        CT_TRY(whole_pass(s, true, 1, loss));
    } else {
        CT_TRY(ct_net_forward(s->net, loss));
        CT_TRY(solver_check_loss(s, *loss));
        if (last)
            CT_TRY(begin_exchange(s, *loss));
        CT_TRY(ct_net_backward(s->net));
        if (last)
            return CT_OK;
    }
    peer_diffs(s)[CT_RIDER_LOSS] = (float)*loss;
    return x->ops->fold(x, i);
}

static enum ct_status compute_gradients(struct ct_solver *s, double *loss)
{
    struct ct_exchange *x = s->options.exchange;
    const bool canonical  = x && x->facts.micro;
    const int n           = canonical ? x->facts.micro : s->param->iter_size;

    *loss = 0;
    if (x)
        CT_TRY(x->ops->fetch(x, s->iter));
    /* A pending update clears them one by one, when it has read them. */
    if (!solver_is_due(s) && !s->peers.mirror && (x || !on_gpu(s)))
        CT_TRY(ct_net_begin_diffs(s->net));
    for (int i = 0; i < n; i++) {
        double part;

        if (canonical)
            CT_TRY(micro_pass(s, i, loss));
        else if (s->peers.mirror && i == n - 1)
            CT_TRY(mirrored_pass(s, i == 0, n, loss));
        else if (s->peers.mirror || (on_gpu(s) && !x)) {
            CT_TRY(whole_pass(s, i == 0, n, loss));
            if (i == n - 1)
                CT_TRY(begin_exchange(s, *loss));
        } else {
            CT_TRY(ct_net_forward_paired(s->net, &part));
            CT_TRY(solver_check_loss(s, part));
            *loss += part / n;
            if (i == n - 1)
                CT_TRY(begin_exchange(s, *loss));
            CT_TRY(ct_net_backward(s->net));
        }
    }
    return CT_OK;
}

enum ct_status solver_complete(struct ct_solver *s)
{
    const bool show = solver_due(s->iter, s->param->display);

    solver_smooth(s, s->loss);
    if (show)
        display(s);
    CT_TRY(solver_update_begin(s));
    if (!s->peers.attached.lazy || s->peers.after_backward)
        CT_TRY(solver_update_all(s));
    s->standing.loose_ends = true;
    CT_TRY(solver_updated(s));
    solver_tell_iteration(s, s->loss, show);
    return solver_tell_inspect(s);
}

/* What may follow an iteration that counts. */
static enum ct_status tie_up(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    if (x && solver_due(s->iter, x->facts.guard_interval)) {
        CT_TRY(solver_update_all(s));
        CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_CHECK));
    }
    if (solver_due(s->iter, s->param->snapshot) ||
        s->peers.agreed == CT_ACTION_SNAPSHOT)
        CT_TRY(solver_snapshot_aside(s));
    s->stop                = s->peers.agreed == CT_ACTION_STOP;
    s->standing.loose_ends = false;
    return CT_OK;
}

static enum ct_status run_iteration(struct ct_solver *s, int end)
{
    const Caffe__SolverParameter *p = s->param;
    enum ct_status st;

    ct_pulse_iter(solver_pulse(s), s->iter);
    if (solver_due(s->iter, p->test_interval) && !s->standing.mark.tested &&
        (s->iter > 0 || p->test_initialization))
        CT_TRY(ct_solver_test_all(s));
    if (s->stop)
        return CT_OK;
    s->standing.mark.tested = solver_commits(s);
    solver_tell_begin(s);
    ct_net_set_debug_info(s->net, p->debug_info &&
                                      solver_due(s->iter, p->display));
    solver_prepare(s);
    CT_TRY(solver_pack(s, end));
    CT_TRY(solver_mark(s));
    CT_TRY(solver_early_begin(s));
    st = compute_gradients(s, &s->loss);
    solver_early_end(s);
    CT_TRY(st);
    /* With peers the loss comes with the first gradients; the rest is still
     * under way while the update begins. */
    CT_TRY(finish_exchange(s));
    CT_TRY(solver_commit(s));
    CT_TRY(solver_complete(s));
    return tie_up(s);
}

static enum ct_status one_iteration(struct ct_solver *s, int end)
{
    char name[32];
    uint64_t start;

    if (s->standing.loose_ends) /* the view ended before they were done */
        return tie_up(s);
    CT_TRY(solver_trace_iteration(s));
    start = ct_trace_begin();
    if (start)
        snprintf(name, sizeof(name), "iteration %d", s->iter);
    CT_TRY(run_iteration(s, end));
    ct_trace_end(start, CT_TRACE_ITERATION, name);
    return CT_OK;
}

/* CORTADO_IMPL=mirror:copy has a CPU's net mirrored, too: for tests. */
bool solver_wants_mirror(const struct ct_solver *s)
{
    return on_gpu(s) || !ct_impl_allowed("mirror", "none");
}

/* Where the exchange finds histories; the first time, its copies of all. */
static enum ct_status attach_memory(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const int n           = s->rule->n_history;
    float *history[2]     = { NULL, NULL };

    for (int h = 0; h < n; h++)
        history[h] = s->history[h]->ptr;
    if (!s->peers.mirror && solver_wants_mirror(s))
        CT_TRY(ct_mirror_create(
            s->net, s->options.device, x->facts.bucket_bytes, history,
            x->facts.keeps_history ? n : 0, &s->peers.mirror));
    for (int h = 0; h < n; h++)
        s->peers.updater.history[h] =
            s->peers.mirror ? s->peers.mirror->history[h] : history[h];
    return CT_OK;
}

enum ct_status solver_attach(struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;
    struct ct_exchange *x           = s->options.exchange;
    struct ct_trainer t             = {
        .iter_size = p->iter_size,
        .iter      = s->iter,
        .max_iter  = p->max_iter,
        .seed      = s->seed,
        .momentum  = s->rule->n_history == 1 ? p->momentum : 0,
        .clip      = p->clip_gradients > 0 ? p->clip_gradients : 0,
        .batches   = s->shares.dealt,
    };

    if (!x)
        return CT_OK;
    s->due.next.t = 0; /* rates may have changed */
    if (x->facts.micro && p->iter_size > 1)
        return ct_fail(CT_EINVAL, "canonical training has its own "
                       "micro-batches: leave iter_size out");
    CT_TRY(attach_memory(s));
    if (x->facts.remote)
        CT_TRY(solver_remote_start(s, &s->peers.updater));
    t.mirror  = s->peers.mirror;
    t.updater = s->peers.updater;
    return x->ops->attach(x, s->net, &t, &s->peers.attached);
}

enum ct_status solver_engage(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    CT_TRY(solver_be_alone(s));
    CT_TRY(solver_attach(s));
    if (x)
        ct_net_set_layer_start(s->net, layer_start, s);
    return solver_commits(s) ? x->job->hold(x, s->iter) : CT_OK;
}

/* What ranks train apart has come together before. */
static enum ct_status meet_once(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_END));
    return x->job->meet(x);
}

enum ct_status solver_try_to_meet(struct ct_solver *s)
{
    CT_TRY(meet_once(s));
    s->standing.n_met++;
    s->standing.has_come = false;
    return CT_OK;
}

enum ct_status solver_meet_again(struct ct_solver *s)
{
    if (s->standing.owes_ends)
        CT_TRY(tie_up(s));
    s->standing.owes_ends = false;
    if (s->standing.owes)
        CT_TRY(meet_once(s));
    s->standing.owes = false;
    return CT_OK;
}

/* After the last iteration. */
static enum ct_status wrap_up(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    solver_snapshot_wait(s);
    CT_TRY(solver_update_all(s));
    CT_TRY(solver_trace_over(s));
    CT_TRY(solver_unpack(s));
    if (s->peers.shared.next[0]) /* swapped many times since */
        CT_TRY(solver_share_with_tests(s));
    CT_TRY(solver_device_report(s));
    if (!x)
        return CT_OK;
    return s->standing.meets && solver_commits(s)
               ? solver_try_to_meet(s)
               : x->ops->settle(x, s->iter, CT_SETTLE_END);
}

enum ct_status solver_go_on(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const int n_met       = s->standing.n_met;
    enum ct_status st     = CT_OK;
    bool done             = false;

    CT_TRY(solver_or_follow(s, solver_engage(s)));
    done = s->standing.meets && s->standing.n_met > n_met;
    if (x && x->facts.serves)
        return x->ops->serve(x, s->standing.end, &s->iter);
    s->shown.start_iter = s->iter;
    s->shown.iter       = s->iter;
    s->shown.smoothed   = 0;
    s->shown.start_time = s->shown.time = ct_now();
    if (s->snapshots.time == 0)
        s->snapshots.time = s->shown.start_time;
    while (st == CT_OK && !done) {
        const int end   = s->standing.end; /* the others', where it rejoins */
        const bool more = (s->iter < end && !s->stop) || s->standing.loose_ends;

        st   = more ? one_iteration(s, end) : wrap_up(s);
        done = st == CT_OK && !more;
        st   = solver_or_follow(s, st);
        done |= s->standing.meets && s->standing.n_met > n_met;
    }
    if (st == CT_OK)
        return CT_OK;
    solver_snapshot_wait(s);
    solver_update_drop(s); /* it will not come any more */
    if (solver_unpack(s) != CT_OK)
        CT_WARN("parameters are not in Caffe's order: %s", ct_last_error());
    return st;
}

enum ct_status solver_meet(struct ct_solver *s)
{
    const struct solver_shown shown = s->shown;
    enum ct_status st;

    if (!solver_commits(s))
        return CT_OK;
    s->standing.end   = s->iter;
    s->standing.meets = true;
    st                = solver_go_on(s);
    s->standing.meets = false;
    s->shown          = shown;
    return st;
}

/* Who has come does what the others do now, and ends it where they do. */
enum ct_status solver_step(struct ct_solver *s, int n)
{
    if (s->standing.has_come && s->standing.snapshot)
        CT_TRY(solver_snapshot_among(s));
    if (!s->standing.has_come)
        s->stop = s->standing.loose_ends = false;
    if (!s->standing.has_come || s->standing.others == SOLVER_OTHERS_BEGIN)
        s->standing.end = s->iter + n;
    s->standing.was_asked = true;
    s->standing.has_come  = false;
    s->standing.over      = false;
    s->standing.stops     = false;
    return solver_go_on(s);
}

bool solver_comes_late(struct ct_solver *s, enum ct_status *st)
{
    const enum solver_others others = s->standing.others;

    if (!s->standing.has_come ||
        (others != SOLVER_OTHERS_END && others != SOLVER_OTHERS_STOP))
        return false;
    s->standing.has_come = false;
    *st = others == SOLVER_OTHERS_END
              ? CT_OK
              : ct_fail(CT_ESTOP, "the job was asked to end");
    return true;
}

enum ct_status ct_solver_step(struct ct_solver *s, int n)
{
    enum ct_status st;

    if (s->standing.has_come && s->standing.others == SOLVER_OTHERS_SOLVE)
        return ct_fail(CT_EINVAL, "the others of this job are inside a whole "
                       "training (solve()), and this process asked for single "
                       "steps: all of them have to run the same program");
    return solver_comes_late(s, &st) ? st : solver_step(s, n);
}
