/* test_flight.c - buckets on their way: which goes first, in how many slices,
 * and how much is under way at a time.
 *
 * The net has four inner products, in the order of forward a, b, c, g, each
 * with a bucket of its own and more; backward hands g's in first and a's last.
 * Ranks are threads whose messages wait and overtake. */
#include <pthread.h>
#include <semaphore.h>

#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "dist/ranks.h"
#include "testing/under_way.h"

enum { P = 3, MOST = 128 };
enum { A = 1, B, C, G, LAYERS }; /* behind the data */

/* One slice that a rank's comm thread took up. */
struct taken {
    int bucket, slice;
};

struct flyer;
struct tap {
    struct flyer *flyer;
    struct taken  what;
    ct_job_fn     run; /* what it is in place of */
    void         *arg;
};

/* One rank. */
struct flyer {
    struct ct_transport *transport;
    const char          *options;
    enum ct_status     (*fly)(struct flyer *f);
    struct ct_dist      *dist;
    struct ct_net       *net;
    struct tap           tap[MOST];
    int                  n_taps;
    int                  bucket[LAYERS]; /* with the weight of a layer */
    struct taken         taken[MOST]; /* in this order */
    int                  n_taken;
    sem_t                begun, go; /* around the first slice taken */
    struct under_way     seen;
    enum ct_status       st;
    char                 why[512];
};

static enum ct_status make_net(struct ct_net **out)
{
    static const char text[] =
        "name: 'f' layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "
        "  dummy_data_param { shape { dim: 2 dim: 200 } "
        "  shape { dim: 2 dim: 400 } } }"
        "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' "
        "  inner_product_param { num_output: 300 } }"
        "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' "
        "  inner_product_param { num_output: 300 } }"
        "layer { name: 'c' type: 'InnerProduct' bottom: 'b' top: 'c' "
        "  inner_product_param { num_output: 300 } }"
        "layer { name: 'g' type: 'InnerProduct' bottom: 'c' top: 'g' "
        "  inner_product_param { num_output: 400 } }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'g' bottom: 't' "
        "  top: 'l' }";

    return ranks_net(text, out);
}

/* On the comm thread. */
static enum ct_status tap_run(struct ct_comm *c, void *arg)
{
    struct tap *t   = arg;
    struct flyer *f = t->flyer;

    f->taken[f->n_taken++] = t->what;
    if (f->n_taken == 1) {
        sem_post(&f->begun);
        sem_wait(&f->go);
    }
    return t->run(c, t->arg);
}

static void tap_all(struct flyer *f)
{
    for (int i = 0; i < f->dist->buckets.cut.n; i++)
        for (int k = 0; k < f->dist->buckets.flight[i].n_slices; k++) {
            struct ct_job *job = &f->dist->buckets.flight[i].slice[k].job;
            struct tap *t      = &f->tap[f->n_taps++];

            *t = (struct tap){ f, { i, k }, job->run, job->arg };
            job->run = tap_run;
            job->arg = t;
        }
}

static void find_buckets(struct flyer *f)
{
    for (int i = 0; i < ct_net_n_params(f->net); i += 2)
        f->bucket[ct_net_param(f->net, i)->layer] =
            f->dist->buckets.cut.of_param[i];
}

static enum ct_status fly_rank(struct flyer *f)
{
    Caffe__DistributedParameter *p = NULL;
    enum ct_status st;

    CT_TRY(ct_text_parse(&caffe__distributed_parameter__descriptor,
                         f->options, strlen(f->options), "test", &p));
    st = dist_create_over(f->transport, p, &f->dist);
    ct_message_free(p);
    CT_TRY(st);
    CT_TRY(make_net(&f->net));
    CT_TRY(f->dist->exchange.ops->attach(&f->dist->exchange, f->net,
                                         &(struct ct_trainer){ 0 },
                                         &(struct ct_attached){ 0 }));
    tap_all(f);
    find_buckets(f);
    atomic_store(&f->seen.most, 0); /* what began has been sent */
    atomic_store(&f->seen.most_bytes, 0);
    atomic_store(&f->seen.most_tags, 0);
    return f->fly(f);
}

static void *flyer_main(void *arg)
{
    struct flyer *f = arg;

    ct_device_cpu_set_threads(1);
    f->st = fly_rank(f);
    if (f->st != CT_OK) {
        snprintf(f->why, sizeof(f->why), "%s", ct_last_error());
        ct_dist_abort(f->dist, 1);
    }
    return NULL;
}

static void free_flyers(void *arg)
{
    struct flyer *f = arg;

    for (int r = 0; r < P; r++) {
        sem_destroy(&f[r].begun);
        sem_destroy(&f[r].go);
        ct_net_destroy(f[r].net);
    }
    ct_free(f);
}

static void *leave_main(void *arg)
{
    ct_dist_destroy(((struct flyer *)arg)->dist);
    return NULL;
}

static void on_all(struct flyer *f, void *(*run)(void *))
{
    pthread_t thread[P];

    for (int r = 0; r < P; r++)
        pthread_create(&thread[r], NULL, run, &f[r]);
    for (int r = 0; r < P; r++)
        pthread_join(thread[r], NULL);
}

/* What rank 0 did; all ranks did the same. */
static struct flyer *fly(const char *options,
                         enum ct_status (*how)(struct flyer *f))
{
    struct flyer *f = ct_calloc(P, sizeof(*f), "flyers");
    struct ct_transport *t[P];
    const struct ct_loopback_options loop = { .delay_seed = 5 };

    test_defer(free_flyers, f);
    ASSERT_OK(test_ends(P, &loop, t));
    for (int r = 0; r < P; r++) {
        f[r].seen.least = 1024; /* no words between comm threads */
        ASSERT_OK(under_way_create(t[r], &f[r].seen, &f[r].transport));
        f[r].options   = options;
        f[r].fly       = how;
        sem_init(&f[r].begun, 0, 0);
        sem_init(&f[r].go, 0, 0);
    }
    on_all(f, flyer_main);
    on_all(f, leave_main);
    for (int r = 0; r < P; r++) {
        if (f[r].st != CT_OK)
            FAIL("rank %d: %s", r, f[r].why);
        ASSERT_INT(f->n_taken, f[r].n_taken);
        ASSERT_INT(0, memcmp(f->taken, f[r].taken, sizeof(f->taken)));
    }
    return f;
}

static enum ct_status until_go(struct ct_comm *c, void *arg)
{
    (void)c;
    sem_wait(arg);
    return CT_OK;
}

/* Ranks write r + 1 times the place in the arena; the sum is 6 times it. */
static void fill(struct flyer *f)
{
    float *x = ct_net_arena_diff(f->net);

    for (size_t i = 0; i < ct_net_arena_count(f->net); i++)
        x[i] = (float)(f->dist->view.rank + 1) * (float)(i % 1000);
}

static enum ct_status check_sums(struct flyer *f)
{
    const float *x = ct_net_arena_diff(f->net);

    for (size_t i = 0; i < ct_net_arena_count(f->net); i++)
        if (x[i] != 6 * (float)(i % 1000))
            return ct_fail(CT_EINTERNAL, "float %zu is %g, not %g", i,
                           (double)x[i], 6 * (double)(i % 1000));
    return CT_OK;
}

/* A whole backward pass is handed in while the comm thread is busy. */
static enum ct_status whole_pass(struct flyer *f)
{
    struct ct_exchange *x = &f->dist->exchange;
    struct ct_job busy    = { .run = until_go, .arg = &f->begun };

    sem_post(&f->go); /* the first slice is held up by nobody */
    ct_job_submit(f->dist->view.thread, &busy);
    fill(f);
    CT_TRY(x->ops->begin(x, 0));
    for (int l = ct_net_n_layers(f->net) - 1; l >= 0; l--)
        CT_TRY(x->ops->layer_done(x, l));
    sem_post(&f->begun);
    for (int i = 0; i < ct_net_n_params(f->net); i++)
        CT_TRY(x->ops->wait(x, i, &(const float *){ NULL }));
    CT_TRY(ct_job_wait(&busy));
    return check_sums(f);
}

static const char sliced[] = "road: 'allreduce' reduce: 'ring' "
                             "bucket_bytes: 100000 slice_bytes: 50000";
static const char unsliced[] = "road: 'allreduce' reduce: 'ring' "
                               "bucket_bytes: 100000 slice_bytes: 0";

/* Buckets in the order in which their first slice left, and each bucket's
 * slices are in order. */
static int order_of(const struct flyer *f, int *order)
{
    int n = 0, next[MOST] = { 0 };

    for (int i = 0; i < f->n_taken; i++) {
        const struct taken *t = &f->taken[i];

        ASSERT_INT(next[t->bucket]++, t->slice);
        if (t->slice == 0)
            order[n++] = t->bucket;
    }
    ASSERT_INT(f->n_taps, f->n_taken);
    return n;
}

/* Where the bucket of a layer is in the order. */
static int place_of(const struct flyer *f, const int *order, int n,
                    int layer)
{
    for (int i = 0; i < n; i++)
        if (order[i] == f->bucket[layer])
            return i;
    return -1;
}

TEST(flight, what_forward_needs_first_leaves_first_behind_the_riders)
{
    const struct flyer *f = fly(sliced, whole_pass);
    int order[MOST];
    int n = order_of(f, order);

    ASSERT(n >= 4);
    ASSERT(f->n_taken > 3 * n); /* they are slices indeed */
    ASSERT_INT(0, order[0]);    /* g's, with the riders: it was first */
    ASSERT_INT(0, place_of(f, order, n, G));
    ASSERT_INT(1, place_of(f, order, n, A));
    ASSERT(place_of(f, order, n, A) < place_of(f, order, n, B));
    ASSERT(place_of(f, order, n, B) < place_of(f, order, n, C));
}

TEST(flight, without_slices_all_leave_as_backward_made_them)
{
    const struct flyer *f = fly(unsliced, whole_pass);
    int order[MOST];
    int n = order_of(f, order);

    ASSERT(n >= 4);
    ASSERT_INT(n, f->n_taken);
    for (int i = 0; i < n; i++)
        ASSERT_INT(i, order[i]);
}

/* c's slices are under way when a's come. */
static enum ct_status late_and_urgent(struct flyer *f)
{
    struct dist_flight *c = &f->dist->buckets.flight[f->bucket[C]];
    struct dist_flight *a = &f->dist->buckets.flight[f->bucket[A]];

    fill(f);
    dist_flight_start(c);
    sem_wait(&f->begun);
    dist_flight_start(a);
    sem_post(&f->go);
    CT_TRY(dist_flight_wait(a));
    return dist_flight_wait(c);
}

TEST(flight, an_urgent_bucket_waits_for_two_slices_at_most)
{
    const struct flyer *f = fly(sliced, late_and_urgent);
    const int a = f->bucket[A], c = f->bucket[C];
    int first = -1, last = -1;

    for (int i = 0; i < f->n_taken; i++)
        if (f->taken[i].bucket == a) {
            first = first < 0 ? i : first;
            last  = i;
        }
    ASSERT_INT(c, f->taken[0].bucket);
    ASSERT(first >= 1 && first <= 2);
    ASSERT(last - first >= 3);          /* all of a in one go, */
    ASSERT(f->n_taken - last - 1 >= 3); /* then the rest of c */
    for (int i = first; i <= last; i++)
        ASSERT_INT(a, f->taken[i].bucket);
}

/* One slice is on its way at a time, whatever is queued behind it, so no more
 * than CT_DEPTH segments of one collective; and there are that many indeed. */
static void keeps_to_the_credit(const char *options, int least)
{
    const struct flyer *f = fly(options, whole_pass);
    int most = 0;

    for (int r = 0; r < P; r++) {
        ASSERT_INT(1, f[r].seen.most_tags);
        ASSERT_INT(0, f[r].seen.n);
        ASSERT(f[r].seen.most <= CT_DEPTH);
        ASSERT(f[r].seen.most_bytes <= CT_DEPTH * CT_SEGMENT_BYTES);
        most = f[r].seen.most > most ? f[r].seen.most : most;
    }
    ASSERT(most >= least);
}

TEST(flight, no_more_than_the_credit_is_under_way)
{
    keeps_to_the_credit(sliced, 1);
    keeps_to_the_credit("road: 'allreduce' reduce: 'ring' bucket_bytes: "
                        "2000000 slice_bytes: 400000", 2);
}
