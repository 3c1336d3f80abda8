/* test_solver.c - the loop: log sentences, tests, snapshots, resuming. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "data/hdf5.h"
#include "solver_test.h"

static char lines[65536];

static void keep_lines(enum ct_log_level level, const char *line, void *arg)
{
    const char *text = strstr(line, "] ");

    (void)level, (void)arg;
    strncat(lines, text ? text + 2 : line, sizeof(lines) - 1 - strlen(lines));
}

static void listen(void)
{
    lines[0] = '\0';
    ct_log_set_level(CT_LOG_INFO);
    ct_log_set_sink(keep_lines, NULL);
}

static void hush(void)
{
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
}

TEST(solver, the_log_has_caffes_sentences)
{
    struct ct_solver *s = solver_of(ONE_WEIGHT
        "base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 display: 2 "
        "test_iter: 3 test_interval: 2 test_compute_loss: true "
        "snapshot_after_train: false");

    listen();
    ASSERT_OK(ct_solver_solve(s));
    hush();
    ASSERT_HAS("Solving one\n", lines);
    ASSERT_HAS("Learning Rate Policy: fixed\n", lines);
    ASSERT_HAS("Iteration 0, Testing net (#0)\n", lines);
    ASSERT_HAS("Test loss: 2\n", lines);
    ASSERT_HAS("    Test net output #0: loss = 2 (* 1 = 2 loss)\n", lines);
    ASSERT_HAS(" iter/s, ", lines);
    ASSERT_HAS("s/2 iters), loss = 2\n", lines);
    ASSERT_HAS("    Train net output #0: loss = 2 (* 1 = 2 loss)\n", lines);
    ASSERT_HAS("Iteration 2, lr = 0.1\n", lines);
    ASSERT_HAS("Iteration 4, loss = ", lines);
    ASSERT_HAS("Iteration 4, Testing net (#0)\n", lines);
    ASSERT_HAS("Optimization Done.\n", lines);
}

TEST(solver, average_loss_is_a_moving_mean)
{
    struct ct_solver *s = solver_of(ONE_WEIGHT
        "base_lr: 1 lr_policy: 'fixed' average_loss: 2 "
        "snapshot_after_train: false");

    /* w: 2 0 0 ..., so losses 2 0 0 and means 2 1 0 */
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_FLOAT(2, ct_solver_loss(s), 1e-6);
    s = solver_of(ONE_WEIGHT "base_lr: 1 lr_policy: 'fixed' average_loss: 2 "
                  "snapshot_after_train: false");
    ASSERT_OK(ct_solver_step(s, 2));
    ASSERT_FLOAT(1, ct_solver_loss(s), 1e-6);
    s = solver_of(ONE_WEIGHT "base_lr: 1 lr_policy: 'fixed' average_loss: 2 "
                  "snapshot_after_train: false");
    ASSERT_OK(ct_solver_step(s, 3));
    ASSERT_FLOAT(0, ct_solver_loss(s), 1e-6);
}

TEST(solver, a_window_of_losses_that_fits_no_memory_is_refused)
{
    struct ct_solver *s = NULL;

    ASSERT_STATUS(CT_EINVAL, solver_try(ONE_WEIGHT "base_lr: 1 lr_policy: "
                  "'fixed' average_loss: 2147483647", &s));
    ASSERT_HAS("average_loss", ct_last_error());
}

/* Random data, dropout, momentum: everything a resume must continue. */
static const char *const lively =
    "net_param { name: 'lively' layer { name: 'd' type: 'DummyData' top: 'x' "
    "  top: 't' dummy_data_param { shape { dim: 4 dim: 6 } "
    "  shape { dim: 4 dim: 3 } data_filler { type: 'gaussian' } "
    "  data_filler { type: 'uniform' } } }"
    "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
    "  inner_product_param { num_output: 8 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'drop' type: 'Dropout' bottom: 'a' top: 'a' }"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 't' "
    "  top: 'loss' } } "
    "base_lr: 0.05 lr_policy: 'multistep' gamma: 0.5 stepvalue: 3 "
    "stepvalue: 12 momentum: 0.9 weight_decay: 0.01 iter_size: 2 "
    "snapshot_after_train: false warmup_iter: 8 warmup_start_lr: 0.01 ";

/* Sequences that go on from pass to pass. */
static const char *const sequences =
    "net_param { name: 'sequences' layer { name: 'd' type: 'DummyData' "
    "  top: 'x' top: 'cont' top: 't' dummy_data_param { "
    "  shape { dim: 3 dim: 2 dim: 4 } shape { dim: 3 dim: 2 } "
    "  shape { dim: 3 dim: 2 dim: 5 } data_filler { type: 'gaussian' } "
    "  data_filler { value: 1 } data_filler { type: 'uniform' } } }"
    "layer { name: 'a/1' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'a' "
    "  recurrent_param { num_output: 4 "
    "  weight_filler { type: 'uniform' min: -1 } } }"
    "layer { name: 'b' type: 'RNN' bottom: 'a' bottom: 'cont' top: 'b' "
    "  recurrent_param { num_output: 5 "
    "  weight_filler { type: 'uniform' min: -1 } } }"
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 't' "
    "  top: 'loss' } } base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 "
    "snapshot_after_train: false random_seed: 5 ";

static struct ct_solver *one_with(const char *solver, const char *more)
{
    char text[4096];

    snprintf(text, sizeof(text), "%s snapshot_prefix: '%s/s' %s", solver,
             test_folder(), more);
    return solver_of(text);
}

static struct ct_solver *lively_with(const char *more)
{
    return one_with(lively, more);
}

static void resumes_exactly(const char *solver, const char *more,
                            const char *suffix)
{
    struct ct_solver *whole = one_with(solver, more), *first, *second;
    size_t n = ct_net_arena_count(ct_solver_net(whole));
    char path[512];

    ASSERT_OK(ct_solver_step(whole, 20));
    first = one_with(solver, more);
    ASSERT_OK(ct_solver_step(first, 7));
    ASSERT_OK(ct_solver_snapshot(first));
    second = one_with(solver, more);
    snprintf(path, sizeof(path), "%s/s_iter_7.solverstate%s", test_folder(),
             suffix);
    ASSERT_OK(ct_solver_restore(second, path));
    ASSERT_INT(7, ct_solver_iter(second));
    ASSERT_OK(ct_solver_step(second, 13));
    ASSERT_INT(0, memcmp(ct_net_arena_data(ct_solver_net(whole)),
                         ct_net_arena_data(ct_solver_net(second)),
                         n * sizeof(float)));
}

static void resume_is_exact(const char *more, const char *suffix)
{
    resumes_exactly(lively, more, suffix);
}

TEST(solver, sequences_go_on_after_a_resume)
{
    resumes_exactly(sequences, "", "");
    resumes_exactly(sequences, "snapshot_format: HDF5", ".h5");
}

TEST(solver, a_resumed_run_ends_in_the_same_bits)
{
    resume_is_exact("random_seed: 3", "");
}

TEST(solver, a_resumed_run_without_a_seed_takes_it_from_the_snapshot)
{
    struct ct_solver *first = lively_with(""), *second;
    char path[512];

    ASSERT_OK(ct_solver_step(first, 3));
    ASSERT_OK(ct_solver_snapshot(first));
    second = lively_with("");
    snprintf(path, sizeof(path), "%s/s_iter_3.solverstate", test_folder());
    ASSERT_OK(ct_solver_restore(second, path));
    ASSERT_OK(ct_solver_step(first, 3));
    ASSERT_OK(ct_solver_step(second, 3));
    ASSERT_FLOAT(weight(first), weight(second), 0);
}

TEST(solver, a_resumed_run_from_hdf5_ends_in_the_same_bits)
{
    resume_is_exact("random_seed: 3 snapshot_format: HDF5", ".h5");
}

TEST(solver, adam_resumes_both_histories)
{
    resume_is_exact("random_seed: 3 type: 'Adam'", "");
}

TEST(solver, a_state_of_another_solver_is_refused)
{
    struct ct_solver *sgd = lively_with(""), *adam;
    char path[512];

    ASSERT_OK(ct_solver_snapshot(sgd));
    adam = lively_with("type: 'Adam'");
    snprintf(path, sizeof(path), "%s/s_iter_0.solverstate", test_folder());
    ASSERT_STATUS(CT_EINVAL, ct_solver_restore(adam, path));
    ASSERT_HAS("4 histories", ct_last_error());
}

TEST(solver, auto_takes_the_newest_snapshot_that_is_whole)
{
    struct ct_solver *s = lively_with("");
    char path[512], *found = NULL;

    ASSERT_STATUS(CT_ENOTFOUND, ct_solver_newest_snapshot(s, &found));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(ct_solver_step(s, 9));
        ASSERT_OK(ct_solver_snapshot(s));
    }
    ASSERT_OK(ct_solver_newest_snapshot(s, &found));
    ASSERT_HAS("s_iter_27.solverstate", found);
    ct_free(found);
    /* The newest loses its model, the one before is cut short. */
    snprintf(path, sizeof(path), "%s/s_iter_27.caffemodel", test_folder());
    ASSERT_INT(0, unlink(path));
    snprintf(path, sizeof(path), "%s/s_iter_18.solverstate", test_folder());
    ASSERT_INT(0, truncate(path, 100));
    ASSERT_OK(ct_solver_newest_snapshot(s, &found));
    ASSERT_HAS("s_iter_9.solverstate", found);
    ct_free(found);
}

TEST(solver, auto_passes_over_an_hdf5_snapshot_that_is_cut_short)
{
    struct ct_solver *s = lively_with("snapshot_format: HDF5");
    char path[512], *found = NULL;

    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ct_solver_step(s, 1));
        ASSERT_OK(ct_solver_snapshot(s));
    }
    snprintf(path, sizeof(path), "%s/s_iter_2.caffemodel.h5", test_folder());
    ASSERT_INT(0, truncate(path, 600));
    ASSERT_OK(ct_solver_newest_snapshot(s, &found));
    ASSERT_HAS("s_iter_1.solverstate.h5", found);
    ct_free(found);
}

/* `edit` damages a state as a flipped bit would; it is refused by name. */
static void damaged(void (*edit)(Caffe__SolverState *m), const char *because)
{
    struct ct_solver *s = lively_with("");
    Caffe__SolverState *m = NULL;
    char path[512];

    ASSERT_OK(ct_solver_snapshot(s));
    snprintf(path, sizeof(path), "%s/s_iter_0.solverstate", test_folder());
    ASSERT_OK(ct_binary_read(&caffe__solver_state__descriptor, path, &m));
    edit(m);
    m->has_crc = m->has_own_crc = false; /* as older versions wrote it */
    ASSERT_OK(ct_binary_write(m, path));
    ct_message_free(m);
    ASSERT_STATUS(CT_EPARSE, ct_solver_restore(s, path));
    ASSERT_HAS(path, ct_last_error());
    ASSERT_HAS(because, ct_last_error());
}

static void turn_back(Caffe__SolverState *m)
{
    m->iter = INT32_MIN;
}

static void step_back(Caffe__SolverState *m)
{
    m->current_step = -1;
}

static void unpass(Caffe__SolverState *m)
{
    m->n_passes[0] = INT64_MIN;
}

static void pass_for_ever(Caffe__SolverState *m)
{
    m->n_passes[0] = INT64_MAX;
}

TEST(solver, a_state_with_impossible_counts_is_refused)
{
    damaged(turn_back, "iteration -2147483648");
    damaged(step_back, "step -1");
    damaged(unpass, "passes of net 0");
    damaged(pass_for_ever, "passes of net 0");
}

/* A file-size limit stands in for a full disk: write() fails half-way. */
TEST(solver, a_full_disk_leaves_the_snapshot_before_intact)
{
    struct ct_solver *s = lively_with(""), *after;
    struct rlimit kept, tiny;
    char path[512];

    ASSERT_OK(ct_solver_step(s, 2));
    ASSERT_OK(ct_solver_snapshot(s));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &kept);
    tiny          = kept;
    tiny.rlim_cur = 64;
    setrlimit(RLIMIT_FSIZE, &tiny);
    ASSERT_STATUS(CT_EIO, ct_solver_snapshot(s));
    setrlimit(RLIMIT_FSIZE, &kept);
    ASSERT_HAS("iteration 2", ct_last_error());
    after = lively_with("");
    snprintf(path, sizeof(path), "%s/s_iter_2.solverstate", test_folder());
    ASSERT_OK(ct_solver_restore(after, path));
    ASSERT_INT(2, ct_solver_iter(after));
}

TEST(solver, a_prefix_that_cannot_be_written_is_refused_at_the_start)
{
    struct ct_solver *s = NULL;

    ASSERT_STATUS(CT_EIO, solver_try(ONE_WEIGHT "base_lr: 1 lr_policy: "
                  "'fixed' snapshot: 1 snapshot_prefix: '/no/such/dir/s'",
                  &s));
    ASSERT_HAS("/no/such/dir/s", ct_last_error());
    /* One snapshot, at the end, is told of before the first iteration. */
    s = solver_of(ONE_WEIGHT "base_lr: 1 lr_policy: 'fixed' max_iter: 5 "
                  "snapshot_prefix: '/no/such/dir/s'");
    ASSERT_STATUS(CT_EIO, ct_solver_solve(s));
    ASSERT_HAS("/no/such/dir/s", ct_last_error());
    ASSERT_INT(0, ct_solver_iter(s));
}

TEST(solver, a_loss_that_is_not_finite_stops_and_names_the_layer)
{
    struct ct_solver *s = solver_of(ONE_WEIGHT
        "base_lr: 1e30 lr_policy: 'fixed' snapshot_after_train: false");

    ASSERT_STATUS(CT_ENAN, ct_solver_step(s, 10));
    ASSERT_HAS("layer ", ct_last_error());
    ASSERT_HAS("base_lr", ct_last_error());
    s = solver_of(ONE_WEIGHT "base_lr: 1e30 lr_policy: 'fixed' "
                  "snapshot_after_train: false on_nan: 'continue'");
    ASSERT_OK(ct_solver_step(s, 10));
}

TEST(solver, a_training_step_allocates_nothing_after_the_first)
{
    struct ct_solver *s = lively_with("");
    uint64_t n_calls;

    ASSERT_OK(ct_solver_step(s, 1));
    n_calls = ct_mem_stats().n_calls;
    ASSERT_OK(ct_solver_step(s, 5));
    ASSERT_INT(n_calls, ct_mem_stats().n_calls);
}

static enum ct_solver_action stop_at_once(void *arg)
{
    int *n = arg;

    return ++*n == 3 ? CT_ACTION_STOP : CT_ACTION_NONE;
}

TEST(solver, a_request_to_stop_takes_a_snapshot_and_ends)
{
    Caffe__SolverParameter *p = NULL;
    struct ct_solver *s = NULL;
    char text[4096], path[512];
    int n = 0;
    struct ct_solver_options o = { .action = stop_at_once, .arg = &n };

    snprintf(text, sizeof(text), ONE_WEIGHT "base_lr: 0.1 lr_policy: 'fixed' "
             "max_iter: 100 snapshot_prefix: '%s/s'", test_folder());
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_solver_create(p, &o, &s));
    ct_message_free(p);
    test_defer(solver_test_free, s);
    ASSERT_STATUS(CT_ESTOP, ct_solver_solve(s));
    ASSERT_INT(3, ct_solver_iter(s));
    snprintf(path, sizeof(path), "%s/s_iter_3.solverstate", test_folder());
    ASSERT(ct_file_exists(path));
}

/* |ours - theirs| <= atol + rtol max|theirs| for every parameter recorded. */
static void same_parameters(const struct ct_solver *s, struct ct_hdf5 *h)
{
    double rtol = 0, atol = 0;
    int n = 0;

    ASSERT_OK(ct_hdf5_get_number(h, "/", "rtol", &rtol));
    ASSERT_OK(ct_hdf5_get_number(h, "/", "atol", &atol));
    for (int l = 0; l < ct_net_n_layers(ct_solver_net(s)); l++) {
        const struct ct_layer *layer = ct_net_layer(ct_solver_net(s), l);

        for (int i = 0; i < layer->n_blob; i++, n++) {
            static float theirs[100000];
            const struct ct_blob *b = layer->blob[i];
            char name[256];
            double most = 0;

            snprintf(name, sizeof(name), "/param/%s/%d", layer->name, i);
            ASSERT(b->count <= 100000);
            ASSERT_OK(ct_hdf5_read(h, name, b->count, theirs));
            for (int64_t k = 0; k < b->count; k++)
                most = fmax(most, fabs((double)theirs[k]));
            for (int64_t k = 0; k < b->count; k++)
                ASSERT_FLOAT(theirs[k], ct_data(b)[k], atol + rtol * most);
        }
    }
    ASSERT(n > 0);
}

/* Snapshots that the reference implementation wrote after 12 steps; 12 more
 * by us give the parameters that it got. */
static void resume_reference(const char *run, const char *state)
{
    char folder[4096], home[4096];
    struct ct_solver *s = NULL;
    struct ct_hdf5 *h = NULL;
    struct ct_solver_options o = { 0 };
    enum ct_status st;

    snprintf(folder, sizeof(folder), "caffe_files/%s", run);
    snprintf(folder, sizeof(folder), "%s", test_recorded(folder));
    ASSERT(getcwd(home, sizeof(home)) && chdir(folder) == 0);
    st = ct_solver_create_file("solver.prototxt", &o, &s);
    if (st == CT_OK)
        st = ct_solver_restore(s, state);
    if (st == CT_OK && ct_solver_iter(s) != 12)
        st = ct_fail(CT_EINVAL, "%s is not of iteration 12", state);
    if (st == CT_OK)
        st = ct_solver_step(s, 12);
    if (st == CT_OK)
        st = ct_hdf5_open("expect.h5", &h);
    ASSERT_INT(0, chdir(home));
    test_defer(solver_test_free, s);
    ASSERT_OK(st);
    same_parameters(s, h);
    ASSERT_OK(ct_hdf5_close(h));
}

TEST(solver, reference_snapshots_resume_to_the_references_numbers)
{
    static const char *const run[] = { "sgd", "adam", "multistep" };

    for (int i = 0; i < 3; i++) {
        char folder[256];

        snprintf(folder, sizeof(folder), "resume_solver_%s_binaryproto",
                 run[i]);
        resume_reference(folder, "s_iter_12.solverstate");
        snprintf(folder, sizeof(folder), "resume_solver_%s_hdf5", run[i]);
        resume_reference(folder, "s_iter_12.solverstate.h5");
    }
}
