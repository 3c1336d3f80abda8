/* golden_random.c - trains whole nets that BVLC Caffe has trained.
 *
 *     build/tests/golden_random DIR
 *
 * Each folder in DIR holds solver.prototxt, init.caffemodel,
 * expected.caffemodel and expected.solverstate.  Parameters pass when |ours -
 * theirs| <= 0.02 |theirs - init| over their blob, histories when they are as
 * near to theirs.  Folders in which Caffe's gradients are not those of the net
 * have a net of a few lines in tests/compat, and must differ.
 * Ends "N passed, M failed". */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "solver/solver_inner.h"
#include "testing/test.h"

/* Decided by central differences in double precision. */
static const struct {
    const char *folder, *net; /* tests/compat/NET.prototxt */
} on_purpose[] = {
    { "1075", "propagate_down_batch_norm" },
    { "20010", "in_place_elu" },
    { "2458", "loss_weight_0_hinge" },
    { "25", "iter_size_scale" },
    { "40009", "reshape_flatten" },
    { "5007", "in_place_power" },
    { "5024", "in_place_power" },
    { "6", "iter_size_parameter" },
};

static bool differs_on_purpose(const char *folder)
{
    for (size_t i = 0; i < sizeof(on_purpose) / sizeof(on_purpose[0]); i++)
        if (strcmp(on_purpose[i].folder, folder) == 0)
            return true;
    return false;
}

/* The largest difference; equal infinities have none. */
static double most(size_t n, const float *a, const float *b)
{
    double m = 0;

    for (size_t i = 0; i < n; i++) {
        const double d = b && a[i] == b[i]
                             ? 0
                             : fabs((double)a[i] - (b ? (double)b[i] : 0));

        m = d > m || d != d ? d : m;
    }
    return m;
}

static const Caffe__BlobProto *blob_of(const Caffe__NetParameter *net,
                                       const char *layer, int i)
{
    for (size_t l = 0; l < net->n_layer; l++)
        if (strcmp(net->layer[l]->name, layer) == 0)
            return (size_t)i < net->layer[l]->n_blobs
                       ? net->layer[l]->blobs[i]
                       : NULL;
    return NULL;
}

/* n values of ours against recorded ones; moved: how far those went. */
static enum ct_status near(const char *what, int i, size_t n,
                           const float *ours, const Caffe__BlobProto *theirs,
                           double moved)
{
    double off, limit;

    if (!theirs || theirs->n_data != n)
        return ct_fail(CT_ESHAPE, "%s, blob %d: %zu values are recorded, ours "
                       "are %zu", what, i, theirs ? theirs->n_data : 0, n);
    off   = most(n, ours, theirs->data);
    limit = 0.02 * moved + 1e-6 * most(n, theirs->data, NULL) + 1e-9;
    if (off <= limit)
        return CT_OK;
    return ct_fail(CT_EINVAL, "%s, blob %d: off by %g, allowed %g", what, i,
                   off, limit);
}

static enum ct_status check_params(struct ct_solver *s,
                                   const Caffe__NetParameter *init,
                                   const Caffe__NetParameter *expected)
{
    for (int p = 0; p < ct_net_n_params(s->net); p++) {
        const struct ct_net_param *at = ct_net_param(s->net, p);
        const char *layer             = ct_net_layer(s->net, at->layer)->name;
        const Caffe__BlobProto *from  = blob_of(init, layer, at->index);
        const Caffe__BlobProto *to    = blob_of(expected, layer, at->index);
        const size_t n                = (size_t)at->blob->count;
        float *ours                   = NULL;
        enum ct_status st;

        if (!from || !to || from->n_data != n || to->n_data != n)
            return ct_fail(CT_ESHAPE, "layer %s: blob %d is not as recorded",
                           layer, at->index);
        CT_TRY(ct_alloc(n + 1, sizeof(*ours), "values", &ours));
        st = ct_blob_get(at->blob, false, ours);
        if (st == CT_OK)
            st = near(layer, at->index, n, ours, to,
                      most(n, to->data, from->data));
        ct_free(ours);
        CT_TRY(st);
    }
    return CT_OK;
}

static enum ct_status check_histories(struct ct_solver *s,
                                      const Caffe__SolverState *state)
{
    const int n_params = ct_net_n_params(s->net);

    if (state->n_history != (size_t)(n_params * s->rule->n_history))
        return ct_fail(CT_ESHAPE, "%zu histories are recorded",
                       state->n_history);
    for (int k = 0; k < (int)state->n_history; k++) {
        const struct ct_net_param *at = ct_net_param(s->net, k % n_params);
        const struct ct_layer *l      = ct_net_layer(s->net, at->layer);
        const struct ct_device *dev   = s->options.device;
        const size_t n                = (size_t)at->blob->count;
        float *ours                   = NULL;
        enum ct_status st;

        if (ct_layer_is_statistic(l, at->index))
            continue;
        CT_TRY(ct_alloc(n + 1, sizeof(*ours), "values", &ours));
        st = dev->ops->to_host(dev, n * sizeof(float),
                               s->history[k / n_params]->ptr + at->offset,
                               ours);
        if (st == CT_OK)
            st = near("history", k, n, ours, state->history[k],
                      most(state->history[k]->n_data, state->history[k]->data,
                           NULL));
        ct_free(ours);
        CT_TRY(st);
    }
    return CT_OK;
}

/* In the folder.  *equal: ours and theirs arrived at the same place. */
static enum ct_status train(bool *equal)
{
    struct ct_solver_options o    = { .device = test_device() };
    Caffe__SolverParameter *param = NULL;
    Caffe__NetParameter *init = NULL, *expected = NULL;
    Caffe__SolverState *state = NULL;
    struct ct_solver *s       = NULL;
    enum ct_status st;

    *equal = false;
    CT_TRY_GOTO(ct_solver_param_read("solver.prototxt", &param), st, out);
    CT_TRY_GOTO(ct_net_param_read_binary("init.caffemodel", &init), st, out);
    CT_TRY_GOTO(ct_net_param_read_binary("expected.caffemodel", &expected), st,
                out);
    CT_TRY_GOTO(ct_binary_read(&caffe__solver_state__descriptor,
                               "expected.solverstate", &state), st, out);
    param->snapshot             = 0; /* the folder stays as it is */
    param->snapshot_after_train = false;
    param->has_snapshot_after_train = true;
    CT_TRY_GOTO(ct_solver_create(param, &o, &s), st, out);
    CT_TRY_GOTO(ct_net_load(s->net, "init.caffemodel"), st, out);
    CT_TRY_GOTO(ct_solver_step(s, param->max_iter), st, out);
    *equal = check_params(s, init, expected) == CT_OK &&
             check_histories(s, state) == CT_OK;
out:
    ct_solver_destroy(s);
    ct_message_free(param);
    ct_message_free(init);
    ct_message_free(expected);
    ct_message_free(state);
    return st;
}

static bool passes(const char *folder)
{
    const bool apart = differs_on_purpose(folder);
    bool equal;

    if (train(&equal) != CT_OK || (!equal && !apart))
        printf("FAILED %s: %s\n", folder, ct_last_error());
    else if (equal && apart)
        printf("FAILED %s: is said to differ, and does not\n", folder);
    else
        return true;
    return false;
}

static int is_case(const struct dirent *e)
{
    return e->d_name[0] != '.' && !strchr(e->d_name, '.');
}

int main(int argc, char **argv)
{
    struct dirent **entry = NULL;
    char *home = argc == 2 ? realpath(argv[1], NULL) : NULL;
    int n = home ? scandir(home, &entry, is_case, alphasort) : 0;
    int passed = 0;

    ct_log_set_level(getenv("CORTADO_TEST_LOG") ? CT_LOG_INFO : CT_LOG_NONE);
    for (int i = 0; i < n; i++) {
        if (chdir(home) == 0 && chdir(entry[i]->d_name) == 0)
            passed += passes(entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    free(home);
    printf("%d passed, %d failed\n", passed, n - passed);
    return passed < n || n <= 0;
}
