/* test.c - runs the test nets and prints scores in Caffe's words.
 *
 * With peers, all ranks divide the batches of a test if the nets allow it.
 * Otherwise rank 0 tests, and the others continue. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cortado/log.h"
#include "net/training.h"
#include "solver/detect.h"
#include "solver/score.h"
#include "solver/solver_inner.h"

enum ct_solver_action solver_requested(struct ct_solver *s)
{
    enum ct_solver_action act = s->options.action
                                    ? s->options.action(s->options.arg)
                                    : CT_ACTION_NONE;

    return act == CT_ACTION_NONE && solver_snapshot_due(s)
               ? CT_ACTION_SNAPSHOT
               : act;
}

void solver_print_outputs(const struct ct_net *net, const char *which,
                          const double *mean, const char *note)
{
    float *room = NULL;
    int k       = 0;

    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);
        double weight           = (double)ct_net_blob_loss_weight(net, id);
        const float *value      = NULL;

        if (!mean && ct_blob_read(b, &room, &value) != CT_OK) {
            CT_ERROR("%s cannot be read: %s", ct_net_blob_name(net, id),
                     ct_last_error());
            k += (int)b->count;
            continue;
        }
        for (int64_t j = 0; j < b->count; j++, k++) {
            double v = mean ? mean[k] : (double)value[j];

            if (weight != 0)
                CT_INFO("    %s net output #%d: %s = %g (* %g = %g loss)%s",
                        which, k, ct_net_blob_name(net, id), v, weight,
                        weight * v, note);
            else
                CT_INFO("    %s net output #%d: %s = %g%s", which, k,
                        ct_net_blob_name(net, id), v, note);
        }
    }
    ct_free(room);
}

struct between {
    struct ct_solver *solver;
    enum ct_status    status; /* of a snapshot between two batches */
};

/* Without peers a request takes effect between test batches.  With peers it
 * waits for the next exchange, which tells it to all ranks. */
static bool pause_for_requests(void *arg)
{
    struct between *b         = arg;
    struct ct_solver *s       = b->solver;
    enum ct_solver_action act = solver_requested(s);

    if (s->options.exchange)
        s->peers.pending = act != CT_ACTION_NONE ? act : s->peers.pending;
    else if (act == CT_ACTION_SNAPSHOT)
        b->status = solver_snapshot_aside(s);
    else
        s->stop |= act == CT_ACTION_STOP;
    return s->stop || b->status != CT_OK;
}

enum ct_status solver_test_seek(struct ct_solver *s, int i, uint64_t n_batches)
{
    const struct ct_exchange *x = s->tests.deals ? s->options.exchange : NULL;

    s->tests.n_batches[i] = n_batches;
    return ct_net_seek(
        s->tests.net[i],
        x ? ct_scores_passes(n_batches, x->facts.rank, x->facts.size)
          : n_batches);
}

/* A score that is not a number means that training has failed.  Before training
 * it is only a warning, because statistics of a deep net that has seen no data
 * can overflow. */
static enum ct_status check_means(const struct ct_solver *s, int i,
                                  const double *mean)
{
    const struct ct_net *net = s->tests.net[i];
    const bool goes_on = s->iter == 0 ||
                         strcmp(s->param->on_nan, "continue") == 0;

    for (int k = 0; k < ct_net_n_outputs(net); k++) {
        int id                  = ct_net_output_id(net, k);
        const struct ct_blob *b = ct_net_blob(net, id);
        const bool is_loss      = ct_net_blob_loss_weight(net, id) != 0;

        for (int64_t j = 0; j < b->count; j++, mean++) {
            if (!isnan(*mean) && (!is_loss || isfinite(*mean)))
                continue;
            if (!goes_on)
                return ct_fail(CT_ENAN, "iteration %d: output %s of test net "
                               "#%d is %g.  Lower base_lr, set "
                               "clip_gradients, or use --on_nan=continue",
                               s->iter, ct_net_blob_name(net, id), i, *mean);
            CT_WARN("Iteration %d: output %s of test net #%d is %g", s->iter,
                    ct_net_blob_name(net, id), i, *mean);
        }
    }
    return CT_OK;
}

static enum ct_status print_means(struct ct_solver *s, int i,
                                  const struct ct_scores *scores,
                                  double seconds)
{
    enum ct_status st;
    double *mean;

    CT_TRY(ct_alloc((size_t)scores->n + 1, sizeof(*mean), "test scores",
                    &mean));
    for (int64_t j = 0; j < scores->n; j++)
        mean[j] = ct_scores_mean(scores, j);
    if (s->param->test_compute_loss)
        CT_INFO("Test loss: %g", ct_scores_mean(scores, -1));
    solver_print_outputs(s->tests.net[i], "Test", mean, "");
    st = solver_tell_test(s, i, mean, false, seconds);
    if (st == CT_OK)
        st = check_means(s, i, mean);
    ct_free(mean);
    return st;
}

static enum ct_status print_detections(struct ct_solver *s, int i,
                                       const struct ct_detections *d,
                                       double seconds)
{
    const struct ct_net *net = s->tests.net[i];
    const int n              = ct_net_n_outputs(net);
    enum ct_status st;
    double *map;

    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*map), "test scores", &map));
    if (s->param->test_compute_loss)
        CT_INFO("Test loss: %g", ct_detections_loss(d));
    for (int k = 0; k < n; k++) {
        map[k] = ct_detections_map(d, k, s->param->ap_version,
                                   s->param->show_per_class_result);
        CT_INFO("    Test net output #%d: %s = %g", k,
                ct_net_blob_name(net, ct_net_output_id(net, k)), map[k]);
    }
    st = solver_tell_test(s, i, map, true, seconds);
    ct_free(map);
    return st;
}

/* Runs the batches of a test, then prints the means. */
static enum ct_status run_test(struct ct_solver *s, int i, struct between *b)
{
    struct ct_exchange *x      = s->tests.deals ? s->options.exchange : NULL;
    const int n           = s->param->test_iter[i];
    const double begun    = ct_now();
    const bool detects = strcmp(s->param->eval_type, "detection") == 0;
    struct ct_detections found = { 0 };
    struct ct_scores scores    = { 0 };
    enum ct_status st;

    if (detects)
        st = ct_detections_run(&found, s->tests.net[i], x,
                               s->tests.n_batches[i], n, pause_for_requests, b);
    else
        st = ct_scores_run(&scores, s->tests.net[i], x, s->tests.n_batches[i],
                           n, pause_for_requests, b);
    if (st != CT_ECOMM) /* otherwise the test is repeated in the next view */
        s->tests.n_batches[i] = s->tests.deals
                                    ? s->tests.n_batches[i] + (uint64_t)n
                                    : ct_net_n_passes(s->tests.net[i]);
    if (b->status != CT_OK)
        st = b->status;
    if (st == CT_OK)
        st = detects ? print_detections(s, i, &found, ct_now() - begun)
                     : print_means(s, i, &scores, ct_now() - begun);
    ct_detections_fini(&found);
    ct_scores_fini(&scores);
    return st;
}

static enum ct_status test_one(struct ct_solver *s, int i)
{
    struct between b = { s, CT_OK };
    enum ct_status st;

    CT_INFO("Iteration %d, Testing net (#%d)", s->iter, i);
    CT_TRY(ct_net_share_weights(s->tests.net[i], s->net));
    if (!s->tests.deals) /* a program may have run the net outside of tests */
        s->tests.n_batches[i] = ct_net_n_passes(s->tests.net[i]);
    st = run_test(s, i, &b);
    if (st == CT_ESTOP)
        CT_INFO("Test interrupted.");
    else if (st != CT_OK)
        st = ct_fail_in(st, "test net #%d", i);
    return s->stop && st == CT_ESTOP ? CT_OK : st;
}

/* Copies rank 0's values to all ranks. */
static enum ct_status spread(struct ct_exchange *x, struct ct_blob *b)
{
    const size_t n = (size_t)b->count * sizeof(float);
    size_t *bytes  = NULL;
    float *values  = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc((size_t)x->facts.size, sizeof(*bytes), "spread",
                         &bytes), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)b->count + 1, sizeof(*values), "spread",
                         &values), st, out);
    bytes[0] = n;
    CT_TRY_GOTO(ct_blob_get(b, false, values), st, out);
    CT_TRY_GOTO(x->job->gather(x, values, bytes, values), st, out);
    st = ct_blob_put(b, false, values);
out:
    ct_free(values);
    ct_free(bytes);
    return st;
}

/* A BatchNorm with use_global_stats: false updates its statistics in tests,
 * too.  If rank 0 tests alone, all ranks get its statistics, so that the result
 * is that of a single rank. */
static enum ct_status spread_statistics(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    for (int i = 0; i < ct_net_n_layers(s->net); i++) {
        const struct ct_layer *l = ct_net_layer(s->net, i);

        for (int b = 0; b < l->n_blob; b++)
            if (ct_layer_is_statistic(l, b))
                CT_TRY(spread(x, l->blob[b]));
    }
    return CT_OK;
}

/* Rank 0 tests alone.  Another rank knows how far the tests are: it may be rank
 * 0 in the next view. */
static void count_tests(struct ct_solver *s)
{
    for (size_t i = 0; s->tests.n_batches && i < s->param->n_test_iter; i++)
        s->tests.n_batches[i] += (uint64_t)s->param->test_iter[i];
}

enum ct_status ct_solver_test_all(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;
    const uint64_t start  = ct_trace_begin();

    CT_TRY(solver_update_all(s));
    CT_TRY(solver_unpack(s));
    if (x)
        CT_TRY(x->ops->settle(x, s->iter, CT_SETTLE_TEST));
    for (int i = 0; i < s->tests.n && !s->stop; i++)
        CT_TRY(test_one(s, i));
    if (s->tests.n == 0)
        count_tests(s);
    if (s->tests.count)
        CT_TRY(spread_statistics(s));
    ct_trace_end(start, CT_TRACE_TEST, "test");
    return CT_OK;
}
