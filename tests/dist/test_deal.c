/* test_deal.c - ranks share out the batches of a test and get one rank's
 * scores, bit for bit. */
#include "dist/ranks.h"

#include <pthread.h>

#include "cortado/log.h"
#include "solver/score.h"

/* The lines of a log about scores, in the order they came. */
struct lines {
    pthread_mutex_t lock;
    char            text[1 << 16];
    int             n_alone;
};

static struct lines lines = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_line(enum ct_log_level level, const char *line, void *arg)
{
    const char *score = strstr(line, "] ");

    (void)level, (void)arg;
    pthread_mutex_lock(&lines.lock);
    lines.n_alone += strstr(line, "tests alone") != NULL;
    if (score && (strstr(line, "Test net output") ||
                  strstr(line, "Test loss")))
        strncat(lines.text, score, sizeof(lines.text) - 1 -
                                       strlen(lines.text));
    pthread_mutex_unlock(&lines.lock);
}

static void stop_noting(void *arg)
{
    (void)arg;
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
}

/* How often `what` stands in the noted lines. */
static int count(const char *what)
{
    int n = 0;

    for (const char *p = lines.text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

/* A test net of its own with batches of 7 of 96 rows; `more` is a layer. */
static const char *with_tests(const char *more)
{
    static char text[4096];

    snprintf(text, sizeof(text),
        "test_iter: 5 test_interval: 4 test_compute_loss: true "
        "test_net_param { layer { name: 'd' type: 'HDF5Data' top: 'x' "
        "top: 'y' hdf5_data_param { source: '%s' batch_size: 7 } }"
        "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
        "  convolution_param { num_output: 8 kernel_size: 3 "
        "  weight_filler { type: 'xavier' } } }"
        "layer { name: 'n' type: 'InnerProduct' bottom: 'c' top: 'n' "
        "  inner_product_param { num_output: 5 "
        "  weight_filler { type: 'xavier' } } } %s "
        "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'n' bottom: 'y' "
        "  top: 'loss' } }", ranks_source(), more);
    return text;
}

/* Trains on n ranks, which test in iterations 0, 4 and 8. */
static void tested(int n, const char *more)
{
    struct rank *r;

    lines.text[0] = '\0';
    lines.n_alone = 0;
    ct_log_set_sink(note_line, NULL);
    ct_log_set_level(CT_LOG_INFO);
    test_defer(stop_noting, NULL);
    r = ranks_train(n, with_tests(more), "", 0);
    stop_noting(NULL);
    for (int i = 0; i < n; i++)
        if (r[i].st != CT_OK)
            FAIL("rank %d: %s", i, r[i].why);
}

/* The first test, before training, prints the digits of one rank's on every
 * rank: the weights are the same, and so are the sums. */
TEST(deal, ranks_share_a_tests_batches_and_get_one_ranks_scores)
{
    static const int counts[] = { 2, 3, 4, 8 };
    char first[128], *end;

    ranks_make_data();
    tested(1, "");
    end = strchr(lines.text, '\n');
    ASSERT(end);
    snprintf(first, sizeof(first), "%.*s", (int)(end - lines.text),
             lines.text);
    ASSERT_HAS("Test loss", first);
    for (int i = 0; i < 4; i++) {
        tested(counts[i], "");
        ASSERT_INT(counts[i], count(first));
        ASSERT_INT(3 * counts[i], count("Test net output"));
        ASSERT_INT(0, lines.n_alone);
    }
}

TEST(deal, rank_0_tests_alone_where_passes_depend_on_each_other)
{
    ranks_make_data();
    tested(3, "layer { name: 'o' type: 'BatchNorm' bottom: 'n' top: 'o' "
              "batch_norm_param { use_global_stats: false } }");
    ASSERT_INT(3, lines.n_alone); /* every rank says so */
    ASSERT_INT(3 * 36, count("Test net output")); /* the loss and 7 x 5 */
}

/* One rank of those that score 11 batches in two goes. */
struct scorer {
    struct ct_transport *transport;
    Caffe__NetParameter *net;
    enum ct_status       st;
    struct ct_scores     scores[2];
};

static enum ct_status score(struct scorer *q, struct ct_dist *d)
{
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TEST,
                                      .seed = 3, .deal_tests = true,
                                      .rank = ct_dist_rank(d),
                                      .size = ct_dist_size(d) };
    struct ct_net *net = NULL;
    enum ct_status st;

    CT_TRY(ct_net_create(q->net, &o, &net));
    st = ct_scores_run(&q->scores[0], net, ct_dist_exchange(d), 0, 4, NULL,
                       NULL);
    if (st == CT_OK)
        st = ct_scores_run(&q->scores[1], net, ct_dist_exchange(d), 4, 7,
                           NULL, NULL);
    ct_net_destroy(net);
    return st;
}

static void *scorer_thread(void *arg)
{
    struct scorer *q  = arg;
    struct ct_dist *d = NULL;

    ct_device_cpu_set_threads(1);
    q->st = dist_create_over(q->transport, NULL, &d);
    if (q->st == CT_OK)
        q->st = score(q, d);
    if (q->st != CT_OK)
        ct_dist_abort(d, 1);
    ct_dist_destroy(d);
    return NULL;
}

static void scores(int n, Caffe__NetParameter *net, struct scorer *out)
{
    const struct ct_loopback_options loop = { 0 };
    struct ct_transport *t[RANKS_MOST];
    pthread_t thread[RANKS_MOST];

    ASSERT_OK(test_ends(n, &loop, t));
    for (int i = 0; i < n; i++) {
        out[i] = (struct scorer){ .transport = t[i], .net = net };
        pthread_create(&thread[i], NULL, scorer_thread, &out[i]);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void scores_fini(struct scorer *q, int n)
{
    for (int i = 0; i < n; i++) {
        ct_scores_fini(&q[i].scores[0]);
        ct_scores_fini(&q[i].scores[1]);
    }
}

TEST(deal, every_rank_has_the_rows_of_one_in_the_order_of_batches)
{
    static const int counts[] = { 2, 3, 5, 8 };
    struct scorer one[1], many[RANKS_MOST];
    Caffe__SolverParameter *p;

    ranks_make_data();
    p = ranks_solver(1, with_tests(""));
    scores(1, p->test_net_param[0], one);
    ASSERT_OK(one->st);
    ASSERT_INT(7, one->scores[1].n_batches);
    ASSERT(one->scores[0].row[0] != one->scores[0].row[2]);
    for (int k = 0; k < 4; k++) {
        scores(counts[k], p->test_net_param[0], many);
        for (int r = 0; r < counts[k]; r++)
            for (int i = 0; i < 2; i++) {
                const struct ct_scores *a = &one->scores[i];
                const struct ct_scores *b = &many[r].scores[i];

                ASSERT_OK(many[r].st);
                ASSERT_INT(a->n_batches, b->n_batches);
                ASSERT_INT(0, memcmp(a->row, b->row, sizeof(double) *
                                     (size_t)(a->n_batches * (a->n + 1))));
            }
        scores_fini(many, counts[k]);
    }
    scores_fini(one, 1);
    ct_message_free(p);
}
