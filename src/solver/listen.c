/* listen.c - tells listeners what happens (cortado/events.h). */
#include "base/clock.h"
#include "base/mem.h"
#include "solver/solver_inner.h"

enum ct_status ct_solver_listen(struct ct_solver *s,
                                const struct ct_solver_events *events,
                                void *arg)
{
    if (s->listeners.n == SOLVER_MOST_LISTENERS)
        return ct_fail(CT_EINVAL, "a solver has %d listeners at most",
                       (int)SOLVER_MOST_LISTENERS);
    s->listeners.list[s->listeners.n++] =
        (struct solver_listener){ .events = events, .arg = arg };
    return CT_OK;
}

const char *ct_mark_name(enum ct_mark_kind kind)
{
    static const char *const names[CT_MARK_N_KINDS] = {
        "joined", "lost", "suspect", "back", "view"
    };

    return kind < CT_MARK_N_KINDS ? names[kind] : "unknown";
}

void solver_tell_begin(struct ct_solver *s)
{
    s->listeners.inspecting = false;
    if (s->listeners.n == 0)
        return;
    s->listeners.iter_time = ct_now();
    for (int i = 0; i < s->listeners.n; i++) {
        struct solver_listener *l = &s->listeners.list[i];

        l->inspects = l->events->wants_inspect && l->events->inspect &&
                      l->events->wants_inspect(s->iter, l->arg);
        s->listeners.inspecting |= l->inspects;
    }
}

/* Samples of one iteration over all ranks. */
static int64_t samples(const struct ct_solver *s)
{
    int64_t mine, all;

    solver_count_samples(s, &mine, &all);
    return all;
}

static void tell_marks(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    struct ct_mark mark;

    while (x && x->job->next_mark(x, &s->peers.n_marks, &mark))
        for (int i = 0; i < s->listeners.n; i++)
            if (s->listeners.list[i].events->mark)
                s->listeners.list[i].events->mark(&mark,
                                                  s->listeners.list[i].arg);
}

void solver_tell_view(struct ct_solver *s, bool begins)
{
    for (int i = 0; i < s->listeners.n; i++)
        if (s->listeners.list[i].events->view)
            s->listeners.list[i].events->view(begins, s->listeners.list[i].arg);
}

/* The update has begun, and s->iter counts it; the updates of some parameters
 * may still wait for peers. */
void solver_tell_iteration(struct ct_solver *s, double loss, bool displayed)
{
    struct ct_iteration e = { .iter      = s->iter - 1,
                              .max_iter  = s->param->max_iter,
                              .loss      = loss,
                              .smoothed  = s->shown.smoothed,
                              .rate      = (double)s->last_rate,
                              .displayed = displayed };
    int done = s->iter - s->shown.start_iter;
    double now;

    if (s->listeners.n == 0)
        return;
    now       = ct_now();
    e.samples = samples(s);
    e.seconds = now - s->listeners.iter_time;
    if (done > 0 && e.max_iter > s->iter)
        e.seconds_left =
            (now - s->shown.start_time) / done * (e.max_iter - s->iter);
    for (int i = 0; i < s->listeners.n; i++)
        if (s->listeners.list[i].events->iteration)
            s->listeners.list[i].events->iteration(&e,
                                                   s->listeners.list[i].arg);
    tell_marks(s);
}

enum ct_status solver_tell_inspect(struct ct_solver *s)
{
    if (!s->listeners.inspecting)
        return CT_OK;
    CT_TRY(solver_update_all(s));
    for (int i = 0; i < s->listeners.n; i++)
        if (s->listeners.list[i].inspects)
            s->listeners.list[i].events->inspect(s, s->iter - 1,
                                                 s->listeners.list[i].arg);
    s->listeners.inspecting = false;
    return CT_OK;
}

/* Ranks that share parameters update them from sums that are not stored in the
 * net's gradients. */
float ct_solver_gradient_scale(const struct ct_solver *s, int i)
{
    const struct ct_net_param *p  = ct_net_param(s->net, i);
    const struct ct_layer *layer  = ct_net_layer(s->net, p->layer);
    struct ct_exchange *x         = s->options.exchange;
    const float own               = 1 / (float)s->param->iter_size;

    if (p->lr_mult == 0 || ct_layer_is_statistic(layer, p->index))
        return 0;
    if (!x)
        return own;
    if (!layer->blob_wants_grad[p->index]) /* sent as factors */
        return s->peers.shares_params ? 0 : x->facts.scale * own;
    if (s->peers.shares_params || x->facts.remote)
        return own;
    if (s->peers.attached.sums_apart && !s->peers.mirror)
        return own;
    return x->facts.scale * own;
}

void solver_tell_snapshot(struct ct_solver *s, int iter, const char *model,
                          const char *state)
{
    const struct ct_snapshot_files e = { iter, model, state };

    for (int i = 0; i < s->listeners.n; i++)
        if (s->listeners.list[i].events->snapshot)
            s->listeners.list[i].events->snapshot(&e, s->listeners.list[i].arg);
}

static int count_outputs(const struct ct_net *net)
{
    int64_t n = 0;

    for (int i = 0; i < ct_net_n_outputs(net); i++)
        n += ct_net_blob(net, ct_net_output_id(net, i))->count;
    return (int)n;
}

enum ct_status solver_tell_test(struct ct_solver *s, int net,
                                const double *mean, bool one_each,
                                double seconds)
{
    const struct ct_net *test = s->tests.net[net];
    struct ct_test_result e   = { .iter = s->iter, .net = net,
                                  .seconds = seconds };
    struct ct_test_output *out = NULL;

    if (s->listeners.n == 0)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)(one_each ? ct_net_n_outputs(test)
                                      : count_outputs(test)) + 1,
                    sizeof(*out), "test outputs", &out));
    for (int i = 0; i < ct_net_n_outputs(test); i++) {
        int id          = ct_net_output_id(test, i);
        const int64_t n = one_each ? 1 : ct_net_blob(test, id)->count;

        for (int64_t j = 0; j < n; j++) {
            out[e.n_outputs] = (struct ct_test_output){
                ct_net_blob_name(test, id), mean[e.n_outputs],
                (double)ct_net_blob_loss_weight(test, id)
            };
            e.n_outputs++;
        }
    }
    e.output = out;
    for (int i = 0; i < s->listeners.n; i++)
        if (s->listeners.list[i].events->test)
            s->listeners.list[i].events->test(&e, s->listeners.list[i].arg);
    ct_free(out);
    return CT_OK;
}

void solver_tell_stop(struct ct_solver *s, enum ct_status why)
{
    tell_marks(s);
    for (int i = 0; i < s->listeners.n; i++)
        if (s->listeners.list[i].events->stop)
            s->listeners.list[i].events->stop(s->iter, why,
                                              s->listeners.list[i].arg);
}
