/* test_journal.c - a run folder tells what the solver told, and costs training
 * nothing when it cannot. */
#include "observe/journal.h"

#include <dirent.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "observe/journal_inner.h"
#include "observe/json.h"
#include "solver/tracing.h"
#include "testing/files.h"
#include "testing/test.h"

/* A small net with `more` layers. */
#define SOLVER(more)                                                         \
    "net_param { name: 'small' "                                             \
    "layer { name: 'x' type: 'DummyData' top: 'x' top: 'y' "                 \
    "  dummy_data_param { shape { dim: 6 dim: 3 dim: 8 dim: 8 } "            \
    "  shape { dim: 6 } data_filler { type: 'gaussian' } "                   \
    "  data_filler { value: 1 } } }"                                         \
    "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "            \
    "  convolution_param { num_output: 4 kernel_size: 3 "                    \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'a' type: 'InnerProduct' bottom: 'c' top: 'a' "           \
    "  inner_product_param { num_output: 3 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'y' "     \
    "  top: 'l' } " more " } "                                               \
    "random_seed: 3 base_lr: 0.01 lr_policy: 'fixed' "                       \
    "display: 1 snapshot_after_train: false test_iter: 1 test_interval: 20 "

static const char plain_solver[] = SOLVER("");
static const char *config        = plain_solver;

static void be_plain(void *arg)
{
    (void)arg;
    config = plain_solver;
}

/* Until this test ends. */
static void use_solver(const char *text)
{
    config = text;
    test_defer(be_plain, NULL);
}

static double losses[256];
static void (*at_iteration)(int iter);

/* Slow enough for the journal's thread to look on. */
static void remember(const struct ct_iteration *e, void *arg)
{
    (void)arg;
    losses[e->iter] = e->loss;
    usleep(30000);
    if (at_iteration)
        at_iteration(e->iter);
}

static const struct ct_solver_events events = { .iteration = remember };

static struct ct_solver *solver(int max_iter, struct ct_journal *j)
{
    const struct ct_solver_watch watch = { .pulse = ct_journal_pulse(j) };
    struct ct_solver_options o = { .watch = &watch };
    Caffe__SolverParameter *p  = NULL;
    struct ct_solver *s        = NULL;
    char text[4096];

    snprintf(text, sizeof(text), "%s max_iter: %d", config, max_iter);
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_upgrade_solver(p, "test.prototxt"));
    ASSERT_OK(ct_solver_create(p, &o, &s));
    ASSERT_OK(ct_solver_listen(s, &events, NULL));
    ct_message_free(p);
    return s;
}

/* As if it had begun so many seconds ago. */
static void train_since(const char *folder, int max_iter, bool clock_layers,
                        double age)
{
    char word[]    = "train";
    char *words[]  = { word };
    struct ct_journal_options o = { .folder = folder, .version = "1.2.3",
                                    .argc = 1, .argv = words,
                                    .clock_layers = clock_layers };
    struct ct_journal *j = NULL;
    struct ct_solver *s;

    ASSERT_OK(ct_journal_create(&o, &j));
    j->begun -= age;
    s = solver(max_iter, j);
    ASSERT_OK(ct_journal_follow(j, s));
    ASSERT_OK(ct_solver_solve(s));
    ct_journal_destroy(j);
    ct_solver_destroy(s);
}

static void train(const char *folder, int max_iter, bool clock_layers)
{
    train_since(folder, max_iter, clock_layers, 0);
}

static struct ct_json *read_json(const char *folder, const char *name)
{
    struct ct_bytes b = test_read(test_format("%s/%s", folder, name));
    struct ct_json *j = NULL;

    ASSERT_OK(ct_json_parse((const char *)b.ptr, b.n, name, &j));
    return j;
}

/* Lines of this kind whose `key` is `value`; -1 for any. */
static int count(const char *folder, const char *kind, const char *key,
                 double value)
{
    struct ct_bytes b  = test_read(test_format("%s/series.jsonl", folder));
    const char *at     = (const char *)b.ptr, *end = at + b.n, *line_end;
    int n              = 0;

    for (; at < end; at = line_end + 1) {
        struct ct_json *j = NULL;

        line_end = memchr(at, '\n', (size_t)(end - at));
        ASSERT(line_end);
        ASSERT_OK(ct_json_parse(at, (size_t)(line_end - at), "line", &j));
        n += strcmp(ct_json_text(ct_json_get(j, "kind"), ""), kind) == 0 &&
             (!key || fabs(ct_json_number(ct_json_get(j, key), 1e30) -
                           value) < 1e-5);
        ct_json_free(j);
    }
    return n;
}

TEST(journal, a_run_is_recorded_with_the_solvers_numbers)
{
    const char *folder = test_path("runs/one");
    struct ct_json *run, *net, *times, *filters;
    struct ct_bytes plan;

    train(folder, 60, false);
    ASSERT_INT(60, count(folder, "iteration", NULL, 0));
    ASSERT_INT(1, count(folder, "iteration", "loss", losses[7]));
    ASSERT_INT(1, count(folder, "iteration", "loss", losses[59]));
    ASSERT_INT(4, count(folder, "test", NULL, 0));
    ASSERT_INT(1, count(folder, "start", "iter", 0));
    ASSERT_INT(1, count(folder, "stop", "iter", 60));
    ASSERT(count(folder, "norms", NULL, 0) >= 1);
    run = read_json(folder, "run.json");
    ASSERT_HAS("done", ct_json_text(ct_json_get(run, "status"), ""));
    ASSERT_HAS("1.2.3", ct_json_text(ct_json_get(run, "version"), ""));
    ASSERT_FLOAT(60, ct_json_number(ct_json_get(run, "max_iter"), 0), 0);
    net = read_json(folder, "net.json");
    ASSERT_INT(4, ct_json_get(net, "layers")->n);
    times = read_json(folder, "times.json");
    ASSERT_INT(4, ct_json_get(times, "layers")->n);
    filters = read_json(folder, "filters.json");
    ASSERT_INT(2 * 4 * 3 * 3 * 3,
               (int)strlen(ct_json_text(ct_json_get(filters, "bytes"), "")));
    plan = test_read(test_format("%s/plan.txt", folder));
    ASSERT(memmem(plan.ptr, plan.n, "because", 7));
    ASSERT(memmem(plan.ptr, plan.n, "conv", 4));
    ASSERT(ct_file_exists(test_format("%s/solver.prototxt", folder)));
    ASSERT(ct_file_exists(test_format("%s/net.prototxt", folder)));
    ct_json_free(run);
    ct_json_free(net);
    ct_json_free(times);
    ct_json_free(filters);
}

/* The two halves of a list [[forward, backward], ...] of times.json. */
static double layer_time(const struct ct_json *times, int layer, int half)
{
    const struct ct_json *one = ct_json_get(times, "layers")->child;

    while (layer-- > 0)
        one = one->next;
    return ct_json_number(half ? one->child->next : one->child, -1);
}

/* As on a GPU, where the pulse says nothing about layers. */
TEST(journal, layers_are_clocked_in_an_iteration)
{
    const char *folder = test_path("runs/clocked");
    struct ct_json *times;
    double plain[64], iter;

    train(test_path("runs/plain"), 60, false);
    memcpy(plain, losses, sizeof(plain));
    train(folder, 60, true);
    for (int i = 0; i < 60; i++)
        ASSERT_FLOAT(plain[i], losses[i], 1e-5 * fabs(plain[i]));
    times = read_json(folder, "times.json");
    iter  = ct_json_number(ct_json_get(times, "clocked_iter"), -1);
    ASSERT(iter > 0 && iter < 60);
    ASSERT_INT(1, count(folder, "norms", "iter", iter));
    for (int i = 0; i < 4; i++)
        ASSERT(layer_time(times, i, 0) > 0 && layer_time(times, i, 1) > 0);
    ct_json_free(times);
    times = read_json(test_path("runs/plain"), "times.json");
    ASSERT(!ct_json_get(times, "clocked_iter"));
    ct_json_free(times);
}

static double latest_seen; /* iteration of ranks_now.json while it trained */

/* Until it shows a late one; half a minute at most. */
static void look_at_ranks(int iter)
{
    if (iter == 0)
        latest_seen = -1;
    for (int i = 0; iter == 100 && i < 300 && latest_seen <= 30; i++) {
        struct ct_json *now = read_json(test_path("old"), "ranks_now.json");

        latest_seen = ct_json_number(
            ct_json_at(ct_json_get(now, "iter"), 0), -1);
        ct_json_free(now);
        usleep(100000);
    }
}

static void look_no_more(void *arg)
{
    (void)arg;
    at_iteration = NULL;
}

static int n_lines(const char *path)
{
    struct ct_bytes b = test_read(path);
    int n             = 0;

    for (size_t i = 0; i < b.n; i++)
        n += ((const char *)b.ptr)[i] == '\n';
    return n;
}

/* Its lines on ranks come every minute: a file has what ranks do now. */
TEST(journal, a_run_of_a_day_still_shows_its_ranks)
{
    const char *folder = test_path("old");

    at_iteration = look_at_ranks;
    test_defer(look_no_more, NULL);
    train_since(folder, 140, false, 120000);
    ASSERT(latest_seen > 30);
    ASSERT(n_lines(test_format("%s/ranks.jsonl", folder)) <= 2);
    ASSERT_INT(1, count(folder, "norms", NULL, 0)); /* the next is far off */
}

static void nobody(enum ct_log_level level, const char *line, void *arg)
{
    (void)level, (void)line, (void)arg;
}

TEST(journal, what_is_logged_is_in_the_folder)
{
    const char *folder = test_path("log");
    struct ct_bytes log;

    ct_log_set_sink(nobody, NULL);
    ct_log_set_level(CT_LOG_INFO);
    train(folder, 3, false);
    ct_log_set_level(CT_LOG_NONE);
    log = test_read(test_format("%s/log.txt", folder));
    ASSERT(memmem(log.ptr, log.n, "Iteration 2", 11));
    ASSERT(memmem(log.ptr, log.n, "Test net output #0", 18));
}

TEST(journal, another_run_in_the_folder_appends)
{
    const char *folder = test_path("twice");

    train(folder, 3, false);
    test_write(test_format("%s/half", folder), "x", 1);
    train(folder, 4, false);
    ASSERT_INT(2, count(folder, "start", NULL, 0));
    ASSERT_INT(7, count(folder, "iteration", NULL, 0));
}

/* The last line of this kind; ct_json_free'd by the caller. */
static struct ct_json *last_of(const char *folder, const char *kind)
{
    struct ct_bytes b    = test_read(test_format("%s/series.jsonl", folder));
    const char *at       = (const char *)b.ptr, *end = at + b.n, *line_end;
    struct ct_json *last = NULL;

    for (; at < end; at = line_end + 1) {
        struct ct_json *j = NULL;

        line_end = memchr(at, '\n', (size_t)(end - at));
        ASSERT_OK(ct_json_parse(at, (size_t)(line_end - at), "line", &j));
        if (strcmp(ct_json_text(ct_json_get(j, "kind"), ""), kind) == 0) {
            ct_json_free(last);
            last = j;
        } else {
            ct_json_free(j);
        }
    }
    ASSERT(last);
    return last;
}

TEST(journal, a_test_of_many_outputs_is_recorded)
{
    const char *folder = test_path("wide");
    struct ct_json *test, *run;

    use_solver(SOLVER("layer { name: 'w' type: 'DummyData' "
                      "top: 'one_of_two_hundred_outputs' "
                      "include { phase: TEST } dummy_data_param { "
                      "shape { dim: 200 } data_filler { value: 5 } } }"));
    train(folder, 2, false);
    test = last_of(folder, "test");
    ASSERT_INT(201, ct_json_get(test, "outputs")->n); /* and the loss */
    ASSERT_FLOAT(5, ct_json_number(
                        ct_json_get(ct_json_get(test, "outputs"),
                                    "one_of_two_hundred_outputs[199]"), 0), 0);
    run = read_json(folder, "run.json");
    ASSERT_FLOAT(0, ct_json_number(ct_json_get(run, "lost_notes"), 1), 0);
    ct_json_free(test);
    ct_json_free(run);
}

#define LONG_NAME                                                            \
    "stage_one/block_two/branch_three/a_convolution_with_a_name_of_more_"    \
    "than_one_hundred_characters_which_generators_of_nets_like_to_write"

/* A file of the folder that begins so, whole. */
static struct ct_bytes read_like(const char *folder, const char *begin)
{
    DIR *d           = opendir(folder);
    const char *path = NULL;
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, begin, strlen(begin)) == 0)
            path = test_format("%s/%s", folder, e->d_name);
    if (d)
        closedir(d);
    ASSERT(path);
    return test_read(path);
}

TEST(journal, layers_with_long_names_have_histograms)
{
    const char *folder = test_path("long");
    static const char whole[] = "\"" LONG_NAME "[0]\"";
    static const char tag[]   = "gradients/" LONG_NAME "[0]";
    struct ct_bytes layers, events_file;

    use_solver(SOLVER("layer { name: '" LONG_NAME "' type: 'InnerProduct' "
                      "bottom: 'c' top: 'b' inner_product_param { "
                      "num_output: 3 weight_filler { type: 'xavier' } } }"
                      "layer { name: 'k' type: 'SoftmaxWithLoss' bottom: 'b' "
                      "bottom: 'y' top: 'k' }"));
    train(folder, 60, false);
    layers = test_read(test_format("%s/layers.jsonl", folder));
    ASSERT(memmem(layers.ptr, layers.n, whole, sizeof(whole) - 1));
    events_file = read_like(folder, "events.out.tfevents.");
    ASSERT(memmem(events_file.ptr, events_file.n, tag, sizeof(tag) - 1));
}

/* A file behind which there is no room. */
TEST(journal, a_full_disk_costs_the_record_and_not_the_run)
{
    const char *folder = test_path("full");
    struct ct_bytes series;

    train(folder, 1, false);
    unlink(test_format("%s/ranks.jsonl", folder));
    ASSERT_INT(0, symlink("/dev/full", test_format("%s/ranks.jsonl",
                                                   folder)));
    train(folder, 40, false);
    series = test_read(test_format("%s/series.jsonl", folder));
    ASSERT(series.n > 0 &&
           ((const char *)series.ptr)[series.n - 1] == '\n');
    ASSERT(count(folder, "iteration", NULL, 0) < 41);
    unlink(test_format("%s/series.jsonl", folder));
    ASSERT_INT(0, symlink("/dev/full", test_format("%s/series.jsonl",
                                                   folder)));
    train(folder, 2, false); /* there is none from the start */
}

TEST(journal, a_folder_that_cannot_be_made_is_named)
{
    char *words[] = { NULL };
    struct ct_journal_options o = { .folder = "/proc/no/such", .version = "",
                                    .argv = words };
    struct ct_journal *j = NULL;

    ASSERT_STATUS(CT_EIO, ct_journal_create(&o, &j));
    ASSERT_HAS("/proc/no", ct_last_error());
}

/* A tick takes 0.1 ms; the process gets `share` of a processor. */
static double share_of_ticks(double share)
{
    double now = 0, spent = 0, tick = 0.05;

    while (now < 600) {
        tick = journal_next_tick(tick, spent, share * now);
        now += tick;
        spent += 1e-4;
    }
    return spent / (share * now);
}

TEST(journal, its_thread_takes_a_part_of_the_processors_at_most)
{
    ASSERT(share_of_ticks(2) > 0.0007); /* nothing keeps it from looking */
    ASSERT(share_of_ticks(2) < 0.0013);
    ASSERT(share_of_ticks(1) < 0.0013);
    ASSERT(share_of_ticks(0.3) < 0.0013);
}
