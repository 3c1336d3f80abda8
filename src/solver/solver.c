/* solver.c - creates and destroys a solver. */
#include "solver/solver_inner.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "solver/detect.h"

/* The largest average_loss: more would take too much memory. */
enum { MOST_LOSSES = 1 << 24 };

static enum ct_status check(struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;

    s->rule = solver_rule_find(p->type);
    if (!s->rule)
        return ct_fail(CT_EINVAL, "unknown solver type \"%s\": use SGD, "
                       "Nesterov, AdaGrad, RMSProp, AdaDelta, Adam, AdamW or "
                       "LARS", p->type);
    if (s->rule->no_momentum && p->momentum != 0)
        return ct_fail(CT_EINVAL, "momentum cannot be used with %s",
                       s->rule->name);
    if (strcmp(s->rule->name, "RMSProp") == 0 &&
        !(p->rms_decay >= 0 && p->rms_decay < 1))
        return ct_fail(CT_EINVAL, "rms_decay is %g; it must lie in [0, 1)",
                       (double)p->rms_decay);
    if (p->average_loss < 1 || p->average_loss > MOST_LOSSES)
        return ct_fail(CT_EINVAL, "average_loss is %d; it must lie in [1, %d]",
                       p->average_loss, MOST_LOSSES);
    if (p->iter_size < 1)
        return ct_fail(CT_EINVAL, "iter_size is %d; it must be at least 1",
                       p->iter_size);
    if (strcmp(p->regularization_type, "L2") != 0 &&
        strcmp(p->regularization_type, "L1") != 0)
        return ct_fail(CT_EINVAL, "unknown regularization_type \"%s\": use L2 "
                       "or L1", p->regularization_type);
    if (strcmp(p->eval_type, "classification") != 0 &&
        strcmp(p->eval_type, "detection") != 0)
        return ct_fail(CT_EINVAL, "eval_type is \"%s\"; use classification or "
                       "detection", p->eval_type);
    CT_TRY(ct_ap_version_check(p->ap_version));
    if (strcmp(p->on_nan, "stop") != 0 && strcmp(p->on_nan, "continue") != 0)
        return ct_fail(CT_EINVAL, "on_nan is \"%s\"; use stop or continue",
                       p->on_nan);
    if (strcmp(p->larc_policy, "scale") != 0 &&
        strcmp(p->larc_policy, "clip") != 0)
        return ct_fail(CT_EINVAL, "larc_policy is \"%s\"; use scale or clip",
                       p->larc_policy);
    if (p->display < 0 || p->snapshot < 0 || p->max_iter < 0)
        return ct_fail(CT_EINVAL, "display, snapshot and max_iter cannot be "
                       "negative");
    if (p->snapshot_seconds < 0 || p->snapshot_keep < 0 ||
        p->snapshot_retry < 0)
        return ct_fail(CT_EINVAL, "snapshot_seconds, snapshot_keep and "
                       "snapshot_retry cannot be negative");
    return solver_check_policy(p);
}

/* Whether this rank gets its weights from ranks that it joins. */
static bool gets_weights(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    return solver_commits(s) && x->facts.n_full > 0 &&
           x->facts.rank >= x->facts.n_full;
}

static enum ct_status load_weights(struct ct_solver *s)
{
    const bool gets = gets_weights(s);

    for (size_t i = 0; i < s->param->n_weights && !gets; i++) {
        char *list = ct_strdup(s->param->weights[i], "weights");
        char *rest = list, *path;
        enum ct_status st = list ? CT_OK : CT_ENOMEM;

        while (st == CT_OK && (path = strsep(&rest, ",")))
            if (*path) {
                CT_INFO("Finetuning from %s", path);
                st = ct_net_load(s->net, path);
            }
        ct_free(list);
        CT_TRY(st);
    }
    return CT_OK;
}

enum ct_status solver_create_histories(struct ct_solver *s)
{
    const size_t bytes = ct_net_arena_count(s->net) * sizeof(float);

    for (int i = 0; i < s->rule->n_history; i++)
        if (!s->history[i])
            CT_TRY(ct_buffer_create(s->options.device, bytes, "history",
                                    &s->history[i]));
    return CT_OK;
}

static enum ct_status init(struct ct_solver *s)
{
    const Caffe__SolverParameter *p = s->param;

    CT_TRY(check(s));
    if ((p->snapshot > 0 || p->snapshot_seconds > 0) && s->options.rank == 0)
        CT_TRY(solver_check_writable(s));
    s->seed = p->random_seed >= 0 ? (uint64_t)p->random_seed
                                  : solver_seed_of(ct_entropy());
    CT_TRY(ct_alloc((size_t)p->average_loss, sizeof(*s->shown.losses), "losses",
                    &s->shown.losses));
    CT_TRY(solver_create_nets(s));
    CT_TRY(solver_create_histories(s));
    for (int i = 0; i < s->rule->n_history; i++)
        s->histories[i] = s->history[i]->ptr;
    s->peers.updater.n_history = s->rule->n_history;
    CT_TRY(ct_alloc((size_t)ct_net_n_params(s->net) + 1, sizeof(*s->due.state),
                    "updates", &s->due.state));
    CT_TRY(solver_device_init(s));
    CT_TRY(solver_early_init(s));
    solver_pack_init(s);
    s->snapshots.iter     = -1;
    s->snapshots.patience = 60;
    CT_TRY(load_weights(s));
    CT_TRY(solver_share_params(s));
    solver_warn_of_sums(s);
    CT_INFO("Solver scaffolding done.");
    return CT_OK;
}

/* Copies the stages of the options, because nets may be built again later. */
static enum ct_status keep_stages(struct ct_solver *s)
{
    const struct ct_solver_options *o = &s->options;
    enum ct_status st;

    st = ct_alloc((size_t)o->n_stage + 1, sizeof(*s->stages), "stages",
                  &s->stages);
    for (int i = 0; i < o->n_stage && st == CT_OK; i++) {
        s->stages[i] = ct_strdup(o->stage[i], "a stage");
        st           = s->stages[i] ? CT_OK : CT_ENOMEM;
    }
    s->options.stage = st == CT_OK ? (const char *const *)s->stages : NULL;
    return st;
}

enum ct_status solver_create_prepared(const Caffe__SolverParameter *param,
                                      const struct ct_solver_options *options,
                                      struct solver_preparation *p,
                                      struct ct_solver **out)
{
    struct ct_solver *s = NULL;
    enum ct_status st   = ct_alloc(1, sizeof(*s), "solver", &s);

    if (st != CT_OK) {
        solver_preparation_destroy(p);
        return st;
    }
    s->ahead.prepared = p;
    s->options = *options;
    if (options->watch)
        s->watch = *options->watch;
    s->options.watch = NULL;
    if (!s->options.device)
        s->options.device = ct_device_cpu();
    st = keep_stages(s);
    if (st == CT_OK)
        st = ct_message_copy(param, &s->param);
    if (st == CT_OK)
        st = init(s);
    if (st != CT_OK) {
        ct_solver_destroy(s);
        return st;
    }
    *out = s;
    return CT_OK;
}

enum ct_status ct_solver_create(const Caffe__SolverParameter *param,
                                const struct ct_solver_options *options,
                                struct ct_solver **out)
{
    return solver_create_prepared(param, options, NULL, out);
}

enum ct_status ct_solver_create_file(const char *path,
                                     const struct ct_solver_options *options,
                                     struct ct_solver **out)
{
    Caffe__SolverParameter *param = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_param_read(path, &param));
    st = ct_solver_create(param, options, out);
    ct_message_free(param);
    return st;
}

void ct_solver_destroy(struct ct_solver *s)
{
    char why[2048]; /* the last error; what happens here must not hide it */

    if (!s)
        return;
    snprintf(why, sizeof(why), "%s", ct_last_error());
    solver_snapshot_fini(s);
    solver_prepare_fini(s);
    s->peers.shares_params = false; /* so that detach makes no private copy */
    if (s->options.exchange)
        s->options.exchange->ops->detach(s->options.exchange, s->net);
    solver_remote_stop(s);
    for (int i = 0; i < s->tests.n; i++)
        ct_net_destroy(s->tests.net[i]);
    ct_free(s->tests.net);
    ct_free(s->tests.n_batches);
    solver_mark_fini(s);
    ct_free(s->shares.weights);
    ct_free(s->shares.batches);
    ct_net_destroy(s->net);
    /* After the net, which may have recorded copies of the mirror. */
    ct_mirror_destroy(s->peers.mirror);
    solver_device_fini(s);
    solver_early_fini(s);
    ct_buffer_drop(s->history[0]);
    ct_buffer_drop(s->history[1]);
    solver_drop_shared(s);
    ct_free(s->shown.losses);
    ct_free(s->due.state);
    ct_message_free(s->param);
    for (int i = 0; s->stages && s->stages[i]; i++)
        ct_free(s->stages[i]);
    ct_free(s->stages);
    ct_free(s);
    (void)!ct_fail(CT_OK, "%s", why);
}

struct ct_net *ct_solver_net(const struct ct_solver *s)
{
    return s->net;
}

int ct_solver_n_test_nets(const struct ct_solver *s)
{
    return s->tests.n;
}

struct ct_net *ct_solver_test_net(const struct ct_solver *s, int i)
{
    return s->tests.net[i];
}

int ct_solver_iter(const struct ct_solver *s)
{
    return s->iter;
}

double ct_solver_loss(const struct ct_solver *s)
{
    return s->shown.smoothed;
}

Caffe__SolverParameter *ct_solver_param(const struct ct_solver *s)
{
    return s->param;
}
