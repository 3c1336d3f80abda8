/* test_coll.c - every algorithm against a sum in long double.
 *
 * For every number of ranks, length and placing on hosts: the sum is right to
 * rounding, has the same bits on every rank and when run again, and the bytes
 * counted are those of the formula. */
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "comm/coll/tune.h"
#include "comm/coll/transfer.h"
#include "comm/comm_ranks.h"
#include "testing/under_way.h"

enum { MOST_N = 1000007 };

static const int sizes[] = { 1, 2, 3, 4, 7, 8, 12, 16, 17 };
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct sums {
    const struct ct_allreduce_type *type;
    int64_t n;
    float  *in, *out, *again; /* MOST_RANKS x stride */
    int64_t stride;
    double  counted[MOST_RANKS], formula[MOST_RANKS];
    bool    no_window;
};

static void sums_init(struct sums *s, int ranks, int64_t most)
{
    const size_t all = (size_t)ranks * (size_t)most;

    s->stride = most;
    ASSERT_OK(ct_alloc(all, sizeof(*s->in), "in", &s->in));
    ASSERT_OK(ct_alloc(all, sizeof(*s->out), "out", &s->out));
    ASSERT_OK(ct_alloc(all, sizeof(*s->again), "again", &s->again));
    for (size_t i = 0; i < all; i++)
        s->in[i] = 2 * ct_uniform(1, 0, i) - 1;
}

static void sums_fini(struct sums *s)
{
    ct_free(s->in);
    ct_free(s->out);
    ct_free(s->again);
}

static enum ct_status sums_rank(struct ct_comm *c, void *arg)
{
    struct sums *s     = arg;
    const size_t bytes = (size_t)s->n * sizeof(float);
    const int64_t at   = c->rank * s->stride;

    c->place.no_window = s->no_window;
    memcpy(s->out + at, s->in + at, bytes);
    memcpy(s->again + at, s->in + at, bytes);
    CT_TRY(s->type->run(c, s->out + at, s->n));
    s->counted[c->rank] = (double)atomic_load(&c->bytes_sent);
    s->formula[c->rank] = s->type->bytes(&c->place, s->n);
    return s->type->run(c, s->again + at, s->n);
}

static void sums_check(const struct sums *s, int P)
{
    for (int64_t i = 0; i < s->n; i++) {
        long double want = 0, size = 0;
        double got       = (double)s->out[i];

        for (int r = 0; r < P; r++) {
            want += s->in[r * s->stride + i];
            size += fabsf(s->in[r * s->stride + i]);
        }
        if (!(fabsl(want - got) <= 1.2e-7L * P * size))
            FAIL("%s, P %d, n %lld: [%lld] is %.9g, wanted %.9Lg",
                 s->type->name, P, (long long)s->n, (long long)i, got, want);
    }
    for (int r = 0; r < P; r++) {
        const float *x = s->out + r * s->stride;

        if (memcmp(x, s->out, (size_t)s->n * sizeof(*x)) != 0)
            FAIL("%s, P %d, n %lld: rank %d has other bits", s->type->name, P,
                 (long long)s->n, r);
        if (memcmp(x, s->again + r * s->stride, (size_t)s->n * sizeof(*x)))
            FAIL("%s, P %d, n %lld: rank %d has other bits the second time",
                 s->type->name, P, (long long)s->n, r);
        if (s->counted[r] != s->formula[r])
            FAIL("%s, P %d, n %lld: rank %d sent %.0f bytes, formula %.0f",
                 s->type->name, P, (long long)s->n, r, s->counted[r],
                 s->formula[r]);
    }
}

static void sums_run(struct sums *s, int P, const int *host, unsigned delay)
{
    const struct ct_loopback_options o = { host, delay };

    ranks_run(P, &o, sums_rank, s);
    sums_check(s, P);
}

enum hosts { ONE, TWO_EQUAL, UNEQUAL, N_HOSTS };

/* Two equal hosts when P is even; else the first has one more. */
static const int *hosts(enum hosts which, int P, int *host)
{
    for (int r = 0; r < P; r++)
        host[r] = which == TWO_EQUAL ? r >= (P + 1) / 2
                                     : r < P / 2 + 1 ? 5 : r == P - 1 ? 3 : 4;
    return which == ONE ? NULL : host;
}

static void every_length(const struct ct_allreduce_type *type, unsigned delay)
{
    struct sums s = { .type = type };
    int host[MOST_RANKS];

    sums_init(&s, MOST_RANKS, 100007);
    for (int i = 0; i < N_SIZES; i++)
        for (int h = 0; h < N_HOSTS; h++) {
            const int P          = sizes[i];
            const int64_t list[] = { 0, 1, P - 1, P, P + 1, 1000, 100007 };
            /* Delays cost time: leave the long one to a few P. */
            const int n_list = delay && (P > 8 || h == ONE) ? 6 : 7;

            if (h != ONE && type == ct_allreduce_find("shared"))
                continue;
            for (int k = 0; k < n_list; k++) {
                s.n = list[k];
                sums_run(&s, P, hosts((enum hosts)h, P, host), delay);
            }
        }
    sums_fini(&s);
}

static void all_ways(const char *name)
{
    every_length(ct_allreduce_find(name), 0);
    every_length(ct_allreduce_find(name), 17);
}

TEST(coll, ring_sums)
{
    all_ways("ring");
}

TEST(coll, halving_sums)
{
    all_ways("halving");
}

TEST(coll, tree_sums)
{
    all_ways("tree");
}

TEST(coll, hierarchical_sums)
{
    all_ways("hierarchical");
}

TEST(coll, hierarchical_sums_without_shared_memory)
{
    struct sums s = { .type = ct_allreduce_find("hierarchical"),
                      .no_window = true };
    int host[MOST_RANKS];

    sums_init(&s, 8, 100007);
    for (int P = 4; P <= 8; P += 2)
        for (s.n = 1; s.n <= 100007; s.n = 46 * s.n + 1)
            sums_run(&s, P, hosts(TWO_EQUAL, P, host), 0);
    sums_fini(&s);
}

TEST(coll, shared_sums)
{
    all_ways("shared");
}

/* Many segments under way, more than a window holds, with and without delay. */
TEST(coll, long_sums_go_in_many_segments)
{
    struct sums s = { .n = MOST_N };
    int host[MOST_RANKS];

    sums_init(&s, 4, MOST_N);
    for (int k = 0; k < CT_N_ALLREDUCE; k++) {
        s.type = ct_allreduce_at(k);
        if (k == CT_COLL_library) /* loopback has none */
            continue;
        sums_run(&s, 2, NULL, 0);
        sums_run(&s, 2, NULL, 5);
        if (k == CT_COLL_shared)
            continue;
        sums_run(&s, 3, hosts(UNEQUAL, 3, host), 6);
        sums_run(&s, 4, hosts(TWO_EQUAL, 4, host), 7);
    }
    sums_fini(&s);
}

/* Rank 1 comes when rank 0 has sent it all that it may. */
static enum ct_status window_rank(struct ct_comm *c, void *arg)
{
    struct under_way *seen = arg;
    const double start     = ct_now();
    float *x               = NULL;
    enum ct_status st;

    if (c->rank == 0)
        CT_TRY(under_way_create(c->transport, seen, &c->transport));
    while (c->rank == 1 && atomic_load(&seen->n) < CT_DEPTH) {
        if (ct_now() - start > 30)
            return ct_fail(CT_EINTERNAL, "%d messages are under way, not %d",
                           atomic_load(&seen->n), (int)CT_DEPTH);
        usleep(1000);
    }
    if (c->rank == 1) /* time for one message too many */
        usleep(20000);
    CT_TRY(ct_alloc(MOST_N, sizeof(*x), "floats", &x));
    for (int i = 0; i < MOST_N && c->rank == 0; i++)
        x[i] = (float)i;
    st = ct_broadcast(c, 0, x, MOST_N * sizeof(*x));
    for (int i = 0; i < MOST_N && st == CT_OK; i++)
        if (x[i] != (float)i)
            st = ct_fail(CT_EINTERNAL, "float %d is %g", i, (double)x[i]);
    ct_free(x);
    return st;
}

/* It has sixteen segments; a window of four of them waits for who sleeps. */
TEST(coll, to_a_rank_that_sleeps_a_window_is_under_way_and_no_more)
{
    struct under_way seen = { .least = 1024 };

    ranks_run(2, NULL, window_rank, &seen);
    ASSERT_INT(CT_DEPTH, seen.most);
    ASSERT(seen.most_bytes <= CT_DEPTH * CT_SEGMENT_BYTES);
    ASSERT_INT(0, seen.n);
}

/* Worked out by hand: P = 4, n = 10 floats in parts of 3 3 2 2. */
TEST(coll, formulas_give_known_bytes)
{
    const int pairs[] = { 0, 0, 1, 1 };
    struct ct_place p = ct_place(0, 4, NULL), q = ct_place(2, 4, pairs);

    /* Keeps part 1 (3), then part 2 (2). */
    ASSERT_INT(4 * (7 + 8), ct_allreduce_find("ring")->bytes(&p, 10));
    /* Gives 5, then 2 of the lower 5; the way back 3 and 5. */
    ASSERT_INT(4 * (5 + 2 + 3 + 5),
               ct_allreduce_find("halving")->bytes(&p, 10));
    /* The root has two children. */
    ASSERT_INT(4 * 20, ct_allreduce_find("tree")->bytes(&p, 10));
    /* For others to read: all but its slice, then the slice. */
    ASSERT_INT(4 * 10, ct_allreduce_find("shared")->bytes(&p, 10));
    /* On the host 10; one line, so one slice, across: 5 and 5. */
    ASSERT_INT(4 * (10 + 5 + 5),
               ct_allreduce_find("hierarchical")->bytes(&q, 10));
    ASSERT_INT(2, ct_barrier_bytes(&p));
}

TEST(coll, a_host_sends_less_between_hosts_with_the_hierarchy)
{
    const int host[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
    double between = 0, whole = 0;

    for (int r = 0; r < 4; r++) {
        struct ct_place p = ct_place(r, 8, host);

        whole += ct_allreduce_find("hierarchical")->bytes(&p, 8000);
        between += ct_allreduce_find("hierarchical")->bytes(&p, 8000) -
                   4 * 8000; /* inside */
    }
    ASSERT_INT(4 * 8000, between); /* 2 n (H-1)/H floats for H = 2 */
    ASSERT(whole > between);
}

struct moved {
    size_t bytes[MOST_RANKS], whole;
    char  *out; /* MOST_RANKS x whole */
    int    root;
    double counted[MOST_RANKS], formula[MOST_RANKS];
};

static char moved_byte(size_t rank, size_t i)
{
    return (char)ct_philox_word(9, rank, i);
}

static enum ct_status gather_rank(struct ct_comm *c, void *arg)
{
    struct moved *m = arg;
    char *out       = m->out + (size_t)c->rank * m->whole;
    size_t before   = 0;

    for (int r = 0; r < c->rank; r++)
        before += m->bytes[r];
    for (size_t i = 0; i < m->bytes[c->rank]; i++)
        out[before + i] = moved_byte((size_t)c->rank, i);
    CT_TRY(ct_allgather(c, out + before, m->bytes, out));
    m->counted[c->rank] = (double)atomic_load(&c->bytes_sent);
    m->formula[c->rank] = ct_allgather_bytes(&c->place, m->bytes);
    return CT_OK;
}

TEST(coll, allgather_brings_parts_of_any_length_to_all)
{
    for (int k = 0; k < 2 * N_SIZES; k++) {
        const int P = sizes[k / 2];
        const struct ct_loopback_options o = { NULL, k % 2 ? 3 : 0 };
        struct moved m = { .whole = 0 };

        for (int r = 0; r < P; r++) {
            m.bytes[r] = r == 1 ? 0 : (size_t)(r == 2 ? 600001 : 100 + 7 * r);
            m.whole += m.bytes[r];
        }
        ASSERT_OK(ct_alloc((size_t)P * m.whole, 1, "out", &m.out));
        ranks_run(P, &o, gather_rank, &m);
        for (int r = 0; r < P; r++) {
            const char *got = m.out + (size_t)r * m.whole;

            for (int q = 0; q < P; q++)
                for (size_t i = 0; i < m.bytes[q]; i++)
                    if (*got++ != moved_byte((size_t)q, i))
                        FAIL("P %d, rank %d: byte %zu of rank %d", P, r, i, q);
            ASSERT_FLOAT(m.formula[r], m.counted[r], 0);
        }
        ct_free(m.out);
    }
}

static enum ct_status spread_rank(struct ct_comm *c, void *arg)
{
    struct moved *m = arg;
    char *out       = m->out + (size_t)c->rank * m->whole;

    for (size_t i = 0; i < m->whole; i++)
        out[i] = c->rank == m->root ? moved_byte(0, i) : 0;
    CT_TRY(ct_broadcast(c, m->root, out, m->whole));
    m->counted[c->rank] = (double)atomic_load(&c->bytes_sent);
    m->formula[c->rank] = ct_broadcast_bytes(&c->place, m->root, m->whole);
    return CT_OK;
}

TEST(coll, broadcast_reaches_all_from_any_root)
{
    for (int k = 0; k < N_SIZES; k++) {
        const int P = sizes[k];
        int host[MOST_RANKS];
        struct moved m = { .whole = k % 2 ? 37 : 300001 };

        ASSERT_OK(ct_alloc((size_t)P * m.whole, 1, "out", &m.out));
        for (m.root = 0; m.root < P; m.root += P > 4 ? 3 : 1) {
            const struct ct_loopback_options o = {
                hosts(m.root % 2 ? UNEQUAL : ONE, P, host),
                m.root % 3 == 1 ? 4 : 0 };

            ranks_run(P, &o, spread_rank, &m);
            for (int r = 0; r < P; r++) {
                for (size_t i = 0; i < m.whole; i++)
                    if (m.out[(size_t)r * m.whole + i] != moved_byte(0, i))
                        FAIL("P %d, root %d, rank %d: byte %zu", P, m.root, r,
                             i);
                ASSERT_FLOAT(m.formula[r], m.counted[r], 0);
            }
        }
        ct_free(m.out);
    }
}

/* Ranks below `root` have the bytes. */
static enum ct_status supply_rank(struct ct_comm *c, void *arg)
{
    struct moved *m = arg;
    char *out       = m->out + (size_t)c->rank * m->whole;

    for (size_t i = 0; i < m->whole; i++)
        out[i] = c->rank < m->root ? moved_byte(0, i) : 0;
    CT_TRY(ct_supply(c, m->root, out, m->whole));
    m->counted[c->rank] = (double)atomic_load(&c->bytes_sent);
    m->formula[c->rank] = ct_supply_bytes(&c->place, m->root, m->whole);
    if (ct_supply(c, 0, out, m->whole) != CT_EINVAL)
        return ct_fail(CT_EINTERNAL, "nobody has it");
    return CT_OK;
}

TEST(coll, supply_reaches_all_who_lack_it)
{
    for (int k = 0; k < N_SIZES; k++) {
        const int P = sizes[k];
        int host[MOST_RANKS];
        struct moved m = { .whole = k % 2 ? 37 : 3000001 };

        ASSERT_OK(ct_alloc((size_t)P * m.whole, 1, "out", &m.out));
        for (m.root = 1; m.root <= P; m.root += P > 4 ? 3 : 1) {
            const struct ct_loopback_options o = {
                hosts(m.root % 2 ? UNEQUAL : ONE, P, host),
                m.root % 3 == 1 ? 4 : 0 };
            double sent = 0;

            ranks_run(P, &o, supply_rank, &m);
            for (int r = 0; r < P; r++) {
                for (size_t i = 0; i < m.whole; i++)
                    if (m.out[(size_t)r * m.whole + i] != moved_byte(0, i))
                        FAIL("P %d, %d have it, rank %d: byte %zu", P, m.root,
                             r, i);
                ASSERT_FLOAT(m.formula[r], m.counted[r], 0);
                sent += m.counted[r];
            }
            ASSERT(sent >= (double)(P - m.root) * (double)m.whole);
            ASSERT(sent < (double)(P - m.root) * (double)m.whole + 1000);
        }
        ct_free(m.out);
    }
}

enum { LONG_BYTES = 13 << 20 };

struct long_supply {
    struct ct_comm *sender;
    uint64_t seen; /* what it had sent as a rank beside it was done */
};

static enum ct_status long_rank(struct ct_comm *c, void *arg)
{
    struct long_supply *s = arg;
    char *data            = NULL;
    enum ct_status st;

    if (c->rank == 0)
        s->sender = c;
    CT_TRY(ct_barrier(c));
    CT_TRY(ct_alloc(LONG_BYTES, 1, "data", &data));
    st = ct_supply(c, 2, data, LONG_BYTES);
    if (c->rank == 1)
        s->seen = atomic_load(&s->sender->bytes_sent);
    ct_free(data);
    return st == CT_OK ? ct_barrier(c) : st;
}

/* It would have to wait for the rest in one wait, and might call that a
 * stall. */
TEST(coll, who_has_nobody_behind_it_stays_for_all_parts_but_the_last)
{
    struct long_supply s = { .seen = 0 };

    ranks_run(3, NULL, long_rank, &s);
    ASSERT(s.seen >= 12 << 20);
}

static enum ct_status barrier_rank(struct ct_comm *c, void *arg)
{
    atomic_int *come = arg;

    for (int i = 1; i <= 10; i++) {
        atomic_fetch_add(come, 1);
        CT_TRY(ct_barrier(c));
        if (atomic_load(come) < i * c->size)
            return ct_fail(CT_EINTERNAL, "round %d: only %d have come", i,
                           atomic_load(come));
        CT_TRY(ct_barrier(c));
    }
    if ((double)atomic_load(&c->bytes_sent) !=
        20 * ct_barrier_bytes(&c->place))
        return ct_fail(CT_EINTERNAL, "the barrier's bytes");
    return CT_OK;
}

TEST(coll, nobody_passes_a_barrier_before_all_have_come)
{
    for (int k = 0; k < N_SIZES; k++) {
        const struct ct_loopback_options o = { NULL, (unsigned)k % 2 };
        atomic_int come;

        atomic_init(&come, 0);
        ranks_run(sizes[k], &o, barrier_rank, &come);
    }
}

static enum ct_status tune_rank(struct ct_comm *c, void *arg)
{
    struct ct_tuning *all = arg;
    float x[100];

    CT_TRY(ct_allreduce_tune(c, INT64_MAX, 0.2, &all[c->rank]));
    for (int i = 0; i < 100; i++)
        x[i] = (float)i;
    CT_TRY(ct_allreduce(c, x, 100));
    if (x[99] != 99 * (float)c->size)
        return ct_fail(CT_EINTERNAL, "%g", (double)x[99]);
    if (c->n_choices != all->n_known || c->choice[0].type !=
        ct_allreduce_at(all->size[0].best))
        return ct_fail(CT_EINTERNAL, "the choice is not the table's");
    return CT_OK;
}

TEST(coll, tuning_gives_all_ranks_one_table_and_its_choice)
{
    struct ct_tuning all[4];

    ranks_run(4, NULL, tune_rank, all);
    ASSERT(all[0].n_sizes >= 1);
    for (int r = 1; r < 4; r++)
        ASSERT(memcmp(&all[0], &all[r], sizeof(all[0])) == 0);
    for (int i = 0; i < all[0].n_sizes; i++) {
        const double *t = all[0].size[i].seconds;

        ASSERT_FLOAT(-1, t[CT_COLL_library], 0);
        for (int k = 0; k < CT_COLL_library; k++)
            ASSERT(t[k] > 0 && t[k] >= 0.9 * t[all[0].size[i].best]);
    }
}

static enum ct_status choose_rank(struct ct_comm *c, void *arg)
{
    const char **name = arg;

    name[0] = ct_allreduce_choose(c, 100)->name;
    name[1] = ct_allreduce_choose(c, 100000)->name;
    name[2] = ct_allreduce_choose(c, 1000000)->name;
    return CT_OK;
}

TEST(coll, untuned_the_choice_follows_size_and_hosts)
{
    const int pairs[]   = { 0, 0, 1, 1 };
    const char *name[3] = { NULL };
    struct ct_transport *t[4];
    struct ct_comm *c;

    for (int k = 0; k < 2; k++) {
        ASSERT_OK(test_ends(
            4, &(struct ct_loopback_options){ .host = k ? pairs : NULL }, t));
        ASSERT_OK(ct_comm_create(t[0], &c));
        ASSERT_OK(choose_rank(c, name));
        ASSERT_STR(k ? "tree" : "shared", name[0]);
        ASSERT_STR(k ? "hierarchical" : "shared", name[1]);
        ASSERT_STR(k ? "hierarchical" : "shared", name[2]);
        c->place.no_window = true;
        ASSERT_OK(choose_rank(c, name));
        ASSERT_STR("tree", name[0]);
        ASSERT_STR(k ? "hierarchical" : "halving", name[1]);
        ASSERT_STR(k ? "hierarchical" : "ring", name[2]);
        ct_comm_destroy(c);
        for (int r = 1; r < 4; r++)
            t[r]->ops->destroy(t[r]);
    }
    ASSERT(!ct_allreduce_find("star"));
    ASSERT(!ct_allreduce_at(CT_N_ALLREDUCE));
}

/* Whoever adds a line to coll.def says what it sends and takes. */
TEST(coll, every_sum_states_its_bytes_and_its_cost)
{
    const struct ct_links links = { 1, 1, 10, 1, 1 };
    const struct ct_place alone = ct_place(0, 1, NULL);
    const struct ct_place four  = { .size = 4, .n_hosts = 4, .n_local = 1 };

    for (int i = 0; i < CT_N_ALLREDUCE; i++) {
        const struct ct_allreduce_type *type = ct_allreduce_at(i);
        struct ct_cost c;

        ASSERT(type->name && type->run && type->bytes && type->cost);
        ASSERT(ct_allreduce_find(type->name) == type);
        c = ct_allreduce_cost(type, &links, &four, 100);
        ASSERT(c.bytes > 0 && c.seconds > 0);
        c = ct_allreduce_cost(type, &links, &alone, 100);
        ASSERT_FLOAT(0, c.bytes + c.seconds, 0);
    }
}

TEST(coll, the_choices_are_the_list)
{
    const struct ct_allreduce_type *type = NULL;
    struct ct_text text = { 0 };

    ct_allreduce_choices("nccl", &text);
    ASSERT_HAS("auto, ", text.s);
    ASSERT_HAS(" or nccl", text.s);
    for (int i = 0; i < CT_N_ALLREDUCE; i++)
        ASSERT_HAS(ct_allreduce_at(i)->name, text.s);
    ct_text_fini(&text);
    ASSERT_OK(ct_allreduce_parse("ring", NULL, &type));
    ASSERT_STR("ring", type->name);
    ASSERT_OK(ct_allreduce_parse("auto", NULL, &type));
    ASSERT(!type);
    ASSERT_STATUS(CT_EINVAL, ct_allreduce_parse("star", NULL, &type));
    ASSERT_HAS("--reduce=star", ct_last_error());
    ASSERT_HAS("hierarchical, ", ct_last_error());
}

/* Links of 1 ms and 10 MB/s: the times of the formulas at the first sizes. */
static enum ct_status predict_rank(struct ct_comm *c, void *arg)
{
    static const int64_t n[]    = { 256, 4 << 10 };
    const struct ct_links links = { .alpha = 1e-3, .beta = 1e-7 };
    struct ct_tuning *t         = arg;

    if (c->rank > 0)
        return CT_OK;
    *t = (struct ct_tuning){ .n_sizes = 2 };
    for (int k = 0; k < t->n_sizes; k++) {
        t->size[k].n = n[k];
        for (int i = 0; i < CT_N_ALLREDUCE; i++)
            t->size[k].seconds[i] =
                ct_allreduce_available(c, ct_allreduce_at(i))
                    ? ct_allreduce_cost(ct_allreduce_at(i), &links, &c->place,
                                        (double)n[k]).seconds
                    : -1;
        t->size[k].best = CT_COLL_tree;
    }
    ct_tuning_predict(c, CT_TUNE_SIZES, t);
    return CT_OK;
}

TEST(coll, sizes_that_slow_links_leave_no_time_for_are_predicted)
{
    const int hosts[] = { 0, 1, 2, 3 };
    struct ct_tuning t;

    ranks_run(4, &(struct ct_loopback_options){ .host = hosts }, predict_rank,
              &t);
    ASSERT_INT(2, t.n_sizes);
    ASSERT_INT(CT_TUNE_SIZES, t.n_known);
    /* 4 MB of 4 ranks: ring 6 a + 1.5 S b, tree 4 (a + S b) at the least. */
    ASSERT_FLOAT(6e-3 + 1.5 * (4 << 22) * 1e-7,
                 t.size[4].seconds[CT_COLL_ring], 1e-3);
    ASSERT(t.size[4].best == CT_COLL_ring || t.size[4].best ==
           CT_COLL_halving);
    ASSERT(t.size[4].seconds[CT_COLL_tree] >
           2 * t.size[4].seconds[CT_COLL_ring]);
}

static enum ct_status take_rank(struct ct_comm *c, void *arg)
{
    struct ct_tuning t = *(const struct ct_tuning *)arg;

    if (ct_tuning_take(c, &t) != CT_OK || c->n_choices != CT_TUNE_SIZES)
        return ct_fail(CT_EINVAL, "a good table is refused");
    t.size[3].best = CT_N_ALLREDUCE;
    if (ct_tuning_take(c, &t) != CT_ECOMM || c->n_choices != 0)
        return ct_fail(CT_EINVAL, "a way to sum that there is not is taken");
    t = *(const struct ct_tuning *)arg;
    t.n_known = CT_TUNE_SIZES + 1;
    return ct_tuning_take(c, &t) == CT_ECOMM && c->n_choices == 0
               ? CT_OK
               : ct_fail(CT_EINVAL, "a table that is too long is taken");
}

TEST(coll, a_table_that_makes_no_sense_is_refused)
{
    struct ct_tuning t;

    ranks_run(4, &(struct ct_loopback_options){ 0 }, predict_rank, &t);
    ranks_run(2, &(struct ct_loopback_options){ 0 }, take_rank, &t);
}
