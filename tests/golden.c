/* golden.c - replays recorded results of the reference implementation.
 *
 *     build/tests/golden DIR...
 *
 * Each is a folder of one case, or of such folders.  A case holds
 * net.prototxt, perhaps weights.caffemodel, and blobs.h5 with /input, /output,
 * /output_diff, /input_diff and /param_diff; or a solver run: solver.prototxt,
 * init.caffemodel and expect.h5 with /loss and /param.  A value passes when
 * |ours - theirs| <= atol + rtol max|theirs| over its blob.
 * Ends "N passed, M failed". */
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "cortado/solver.h"
#include "data/hdf5.h"
#include "testing/test.h"

struct golden {
    struct ct_hdf5 *file;
    double          rtol, atol;
};

/* Compares dataset `name` with n values of ours. */
static enum ct_status compare(struct golden *g, const char *name, int64_t n,
                              const float *ours)
{
    struct ct_shape shape;
    float *theirs = NULL;
    double most = 0, limit, worst = -1;
    int64_t at = 0;
    enum ct_status st = CT_OK;

    CT_TRY(test_device()->ops->sync(test_device()));
    CT_TRY(ct_hdf5_shape(g->file, name, &shape));
    if (ct_shape_count(&shape, 0, CT_END) != n)
        return ct_fail(CT_ESHAPE, "%s has %lld values, ours %lld", name,
                       (long long)ct_shape_count(&shape, 0, CT_END),
                       (long long)n);
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*theirs), "golden", &theirs));
    CT_TRY_GOTO(ct_hdf5_read(g->file, name, n, theirs), st, out);
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)theirs[i]));
    limit = g->atol + g->rtol * most;
    for (int64_t i = 0; i < n; i++) {
        double off = fabs((double)ours[i] - (double)theirs[i]);

        if (!(off <= limit) && !(off <= worst)) {
            worst = off;
            at    = i;
        }
    }
    if (worst >= 0 || worst != worst)
        st = ct_fail(CT_EINVAL, "%s[%lld] is %.9g, recorded %.9g, allowed "
                     "difference %g", name, (long long)at, (double)ours[at],
                     (double)theirs[at], limit);
out:
    ct_free(theirs);
    return st;
}

enum part { FEED_DATA, FEED_DIFF, CHECK_DATA, CHECK_DIFF };

/* Walks the blobs named in a group and feeds or checks each. */
static enum ct_status each_blob(struct golden *g, struct ct_net *net,
                                const char *group, enum part part)
{
    char **names = NULL, path[512];
    int n = 0;
    enum ct_status st = CT_OK;

    if (!ct_hdf5_has(g->file, group))
        return CT_OK;
    CT_TRY(ct_hdf5_list(g->file, group, CT_HDF5_DATASETS, &names, &n));
    for (int i = 0; i < n && st == CT_OK; i++) {
        int id = ct_net_find_blob(net, names[i]);
        struct ct_blob *b;

        snprintf(path, sizeof(path), "%s/%s", group, names[i]);
        if (id < 0) {
            st = ct_fail(CT_ENOTFOUND, "the net has no blob %s", names[i]);
            break;
        }
        b = ct_net_blob(net, id);
        if (part == FEED_DATA)
            st = ct_hdf5_read_blob(g->file, path, b);
        else if (part == FEED_DIFF)
            st = ct_hdf5_read(g->file, path, b->count, ct_diff(b));
        else
            st = compare(g, path, b->count,
                         part == CHECK_DATA ? ct_data(b) : ct_diff(b));
    }
    ct_hdf5_list_free(names, n);
    return st;
}

static enum ct_status check_params(struct golden *g, struct ct_net *net,
                                   const char *group, bool diff)
{
    for (int l = 0; l < ct_net_n_layers(net); l++) {
        const struct ct_layer *layer = ct_net_layer(net, l);

        for (int i = 0; i < layer->n_blob; i++) {
            char path[512];

            snprintf(path, sizeof(path), "%s/%s/%d", group, layer->name, i);
            if (ct_hdf5_has(g->file, path))
                CT_TRY(compare(g, path, layer->blob[i]->count,
                               diff ? ct_diff(layer->blob[i])
                                    : ct_data(layer->blob[i])));
        }
    }
    return CT_OK;
}

static enum ct_status open_golden(struct golden *g, const char *path)
{
    const char *times = getenv("CORTADO_TEST_TOLERANCE");

    CT_TRY(ct_hdf5_open(path, &g->file));
    CT_TRY(ct_hdf5_get_number(g->file, "/", "rtol", &g->rtol));
    CT_TRY(ct_hdf5_get_number(g->file, "/", "atol", &g->atol));
    /* Coarser precisions than float32 are held to coarser limits. */
    g->rtol *= times ? atof(times) : 1;
    g->atol *= times ? atof(times) : 1;
    return CT_OK;
}

static enum ct_status run_net(struct golden *g, struct ct_net *net)
{
    CT_TRY(each_blob(g, net, "/input", FEED_DATA));
    CT_TRY(ct_net_forward(net, NULL));
    CT_TRY(each_blob(g, net, "/output", CHECK_DATA));
    if (!ct_hdf5_has(g->file, "/output_diff") &&
        !ct_hdf5_has(g->file, "/input_diff") &&
        !ct_hdf5_has(g->file, "/param_diff"))
        return CT_OK;
    CT_TRY(ct_net_clear_diffs(net));
    CT_TRY(each_blob(g, net, "/output_diff", FEED_DIFF));
    CT_TRY(ct_net_backward(net));
    CT_TRY(each_blob(g, net, "/input_diff", CHECK_DIFF));
    return check_params(g, net, "/param_diff", true);
}

static enum ct_status run_case(void)
{
    struct golden g = { 0 };
    struct ct_net *net = NULL;
    struct ct_net_options o = { .device = test_device(), .quiet = true,
                                .seed = 1 };
    char *phase = NULL;
    enum ct_status st;

    CT_TRY_GOTO(open_golden(&g, "blobs.h5"), st, out);
    CT_TRY_GOTO(ct_hdf5_get_string(g.file, "/", "phase", &phase), st, out);
    o.phase = strcmp(phase, "TRAIN") == 0 ? CAFFE__PHASE__TRAIN
                                          : CAFFE__PHASE__TEST;
    CT_TRY_GOTO(ct_net_create_file("net.prototxt", &o, &net), st, out);
    if (ct_file_exists("weights.caffemodel"))
        CT_TRY_GOTO(ct_net_load(net, "weights.caffemodel"), st, out);
    st = run_net(&g, net);
out:
    ct_free(phase);
    ct_net_destroy(net);
    (void)ct_hdf5_close(g.file);
    return st;
}

static enum ct_status run_steps(struct golden *g, struct ct_solver *s)
{
    struct ct_net *net = ct_solver_net(s);
    double steps;
    float loss[4096];
    int id = ct_net_find_blob(net, "loss");

    CT_TRY(ct_hdf5_get_number(g->file, "/", "steps", &steps));
    if (id < 0 || steps > 4096)
        return ct_fail(CT_EINVAL, "no blob named loss, or too many steps");
    CT_TRY(ct_net_load(net, "init.caffemodel"));
    for (int i = 0; i < (int)steps; i++) {
        CT_TRY(ct_solver_step(s, 1));
        loss[i] = ct_data(ct_net_blob(net, id))[0];
    }
    CT_TRY(compare(g, "/loss", (int64_t)steps, loss));
    return check_params(g, net, "/param", false);
}

static enum ct_status run_solver(void)
{
    struct golden g = { 0 };
    struct ct_solver *s = NULL;
    struct ct_solver_options o = { .device = test_device() };
    enum ct_status st;

    CT_TRY_GOTO(open_golden(&g, "expect.h5"), st, out);
    CT_TRY_GOTO(ct_solver_create_file("solver.prototxt", &o, &s), st, out);
    st = run_steps(&g, s);
out:
    ct_solver_destroy(s);
    (void)ct_hdf5_close(g.file);
    return st;
}

struct tally {
    char *home;
    int   passed, failed;
};

static void run_one(struct tally *t, const char *path)
{
    enum ct_status st;

    if (chdir(t->home) != 0 || chdir(path) != 0)
        st = ct_fail(CT_ENOTFOUND, "no such folder");
    else if (ct_file_exists("solver.prototxt"))
        st = run_solver();
    else
        st = run_case();
    if (st == CT_OK)
        t->passed++;
    else
        printf("FAILED %s: %s\n", path, ct_last_error());
    t->failed += st != CT_OK;
}

static int is_case(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Folders of the one at `path`, in the order of names. */
static void run_all(struct tally *t, const char *path)
{
    struct dirent **entry = NULL;
    int n = chdir(t->home) == 0 ? scandir(path, &entry, is_case, alphasort)
                                : 0;

    for (int i = 0; i < n; i++) {
        char below[4096];

        snprintf(below, sizeof(below), "%s/%s", path, entry[i]->d_name);
        run_one(t, below);
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    struct tally t = { getcwd(NULL, 0), 0, 0 };

    ct_log_set_level(getenv("CORTADO_TEST_LOG") ? CT_LOG_INFO : CT_LOG_NONE);
    for (int i = 1; i < argc; i++) {
        char net[4096];

        snprintf(net, sizeof(net), "%s/net.prototxt", argv[i]);
        if (chdir(t.home) == 0 && ct_file_exists(net))
            run_one(&t, argv[i]);
        else
            run_all(&t, argv[i]);
    }
    free(t.home);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed > 0 || t.passed == 0;
}
