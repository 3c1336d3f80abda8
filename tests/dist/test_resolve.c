/* test_resolve.c - every pair of ways to train is refused with its reason, or
 * trains to the right result; and the manual says which. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "dist/bsp/carrier.h"
#include "dist/ranks.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

#define PAGE CT_TEST_SOURCE "/docs/reference/combinations.md"

enum { RANKS = 4 };

TEST(resolve, the_manual_says_what_goes_together)
{
    struct ct_text table = { 0 };
    size_t n_bytes;
    char *page;

    if (access(CT_TEST_SOURCE, F_OK) != 0)
        test_skip("a bundle for another machine has programs alone");
    ASSERT_OK(dist_combinations(&table));
    ASSERT_OK(ct_file_read(PAGE, &page, &n_bytes));
    if (!strstr(page, table.s))
        FAIL("docs/reference/combinations.md is stale; write what `cortado "
             "train --explain` prints");
    ct_free(page);
    ct_text_fini(&table);
}

static struct dist_plan plan_of(const char *text, struct dist_facts f)
{
    Caffe__DistributedParameter *o = NULL;
    struct dist_plan p;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                            strlen(text), text, &o));
    ASSERT_OK(dist_resolve(o, &f, &p));
    ct_message_free(o);
    return p;
}

static enum ct_status resolved(const char *fields, const struct dist_facts *f)
{
    Caffe__DistributedParameter *o = NULL;
    struct dist_plan p;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, fields,
                            strlen(fields), fields, &o));
    st = dist_resolve(o, f, &p);
    ct_message_free(o);
    return st;
}

TEST(resolve, facts_change_the_plan_and_nothing_else_does)
{
    struct dist_facts f = { .size = 4, .n_hosts = 1 };

    ASSERT(plan_of("", f).in_memory);
    f.met = f.learns = true;
    ASSERT(plan_of("", f).in_memory);
    f.gpus = true;
    ASSERT(!plan_of("", f).in_memory && plan_of("", f).on_gpus);
    ASSERT(!plan_of("compress: 'bf16'", f).on_gpus);
    /* The reason is the codec, also where memory is not shared. */
    ASSERT_HAS("--compress", plan_of("compress: 'bf16' road: 'allreduce'",
                                     f).not_on_gpus);
    f = (struct dist_facts){ .size = 4, .n_hosts = 2 };
    ASSERT(!plan_of("", f).in_memory && plan_of("", f).sweeps);
    ASSERT(!plan_of("reduce: 'ring'", f).sweeps);
    ASSERT(!plan_of("bandwidth: '1gbit'", f).windows);
    ASSERT(plan_of("", (struct dist_facts){ .size = 1, .n_hosts = 1 }).alone);
}

TEST(resolve, what_was_tried_is_a_fact_of_the_next_plan)
{
    struct dist_facts f = { .size = 4, .n_hosts = 1, .met = true,
                            .learns = true };

    ASSERT(plan_of("", f).carrier == &dist_by_memory);
    ASSERT(plan_of("", f).shares_params && !plan_of("", f).shared_params);
    ASSERT(plan_of("", f).learns && !plan_of("", f).agrees);
    f.shared_params = true;
    ASSERT(plan_of("", f).shared_params && !plan_of("", f).learns);
    ASSERT(plan_of("", f).carrier == &dist_by_shared_params);
    ASSERT(plan_of("", f).factor_way == &dist_factors_in_tiles);
    f.elastic = true; /* they have a second copy, to go back to the first */
    ASSERT(plan_of("", f).shares_params && plan_of("", f).shared_params);
    ASSERT(plan_of("", f).commits && !plan_of("", f).lazy);
    f = (struct dist_facts){ .size = 4, .n_hosts = 1, .met = true,
                             .learns = true, .no_windows = true };
    ASSERT(plan_of("", f).carrier == &dist_by_thread && plan_of("", f).agrees);
    f = (struct dist_facts){ .size = 4, .n_hosts = 2, .met = true,
                             .learns = true, .gpus = true, .own_gpus = true };
    ASSERT(plan_of("", f).on_device == DIST_BY_NCCL);
    ASSERT(plan_of("reduce: 'tree'", f).on_device == DIST_BY_TREE);
    ASSERT(plan_of("reduce: 'ring'", f).on_device == DIST_BY_HOST);
    ASSERT(plan_of("", f).factor_way == &dist_factors_by_wire);
    f.copied = true; /* this rank is one that has a GPU */
    ASSERT(plan_of("", f).factor_way == &dist_factors_of_gpu);
    /* As long as it has not come to that, messages carry gradients. */
    ASSERT(plan_of("", f).carrier == &dist_by_thread);
    ASSERT(plan_of("", f).factors && plan_of("", f).sweeps);
    f.on_device = DIST_BY_NCCL;
    ASSERT(plan_of("", f).carrier == &dist_by_nccl);
    ASSERT(!plan_of("", f).factors && !plan_of("", f).sweeps &&
           !plan_of("", f).roads);
    f.on_device = DIST_BY_TREE;
    ASSERT(plan_of("reduce: 'tree'", f).carrier == &dist_by_gpus);
}

TEST(resolve, ranks_that_come_and_go_commit_or_reload)
{
    struct dist_facts f = { .size = 4, .n_hosts = 1, .elastic = true };
    struct dist_plan p;

    ASSERT(plan_of("", f).commits && !plan_of("", f).reloads);
    ASSERT(plan_of("road: 'ps'", f).commits); /* sums are all they have */
    ASSERT(plan_of("sync: 'ssp'", f).reloads);
    ASSERT(plan_of("servers: 1", f).reloads);
    ASSERT(plan_of("deadline: 1", f).reloads);
    ASSERT(plan_of("patience: 2", f).reloads);
    p = plan_of("groups: 3 servers: 2", f);
    ASSERT(p.reloads && !p.commits && p.n_workers == 2 && p.n_groups == 2);
    /* One rank is left, which serves itself. */
    f.size = 1;
    p      = plan_of("groups: 3 servers: 2", f);
    ASSERT(p.reloads && !p.commits && p.values && p.n_workers == 1);
    ASSERT(p.n_servers == 1 && p.first_server == 0 && p.n_groups == 1);
    f.elastic = false;
    f.size    = 4;
    ASSERT(!plan_of("sync: 'ssp'", f).reloads && !plan_of("", f).commits);
}

/* What ranks do is decided when the first one begins: whoever comes or goes
 * after that, the others do not find that flags do not go together, and
 * snapshots are of the same kind. */
static void same_for_any_number(const char *fields)
{
    Caffe__DistributedParameter *o = NULL;
    struct dist_facts f = { .size = 1, .n_hosts = 1, .elastic = true };
    enum ct_status first = CT_OK;
    struct dist_plan one = { 0 }, p;

    if (ct_text_parse(&caffe__distributed_parameter__descriptor, fields,
                      strlen(fields), fields, &o) != CT_OK)
        return; /* the same flag twice */
    for (; f.size <= 4; f.size++) {
        const enum ct_status st = dist_resolve(o, &f, &p);

        if (f.size == 1) {
            first = st;
            one   = p;
        }
        if (st != first)
            FAIL("%s: one rank has status %d, %d have %d: %s", fields, first,
                 f.size, st, ct_last_error());
        if (st == CT_OK && (p.alone || p.kind != one.kind ||
                            p.reloads != one.reloads ||
                            p.commits != one.commits))
            FAIL("%s: %d ranks do something else than one", fields, f.size);
    }
    ct_message_free(o);
}

TEST(resolve, ranks_that_come_and_go_change_no_kind)
{
    same_for_any_number("groups: 2 staleness: 2");
    same_for_any_number("servers: 2 road: 'ps'");
    for (int i = 0; i < dist_n_choices; i++)
        for (int k = 0; k <= i; k++)
            same_for_any_number(
                i == k ? dist_choices[i].fields
                       : test_format("%s %s", dist_choices[i].fields,
                                     dist_choices[k].fields));
}

TEST(resolve, codes_are_for_who_has_peers_and_tokens_for_ranks_in_step)
{
    const struct dist_facts one = { .size = 1, .n_hosts = 1 };
    const struct dist_facts f   = { .size = 4, .n_hosts = 1 };

    ASSERT(plan_of("compress: 'topk:0.25'", f).codes);
    ASSERT(plan_of("compress: 'topk:0.25'", f).slice_floats == 0);
    ASSERT(plan_of("", f).slice_floats == 2097152 / 4);
    ASSERT(!plan_of("compress: 'topk:0.25'", one).codes);
    ASSERT(plan_of("compress: 'bf16' road: 'ps'", f).codes_answers);
    ASSERT(!plan_of("compress: 'bf16' sync: 'ssp'", f).codes_answers);
    ASSERT(plan_of("bandwidth: '1gbit'", f).sheds);
    ASSERT(plan_of("bandwidth: '1gbit'", f).codes);
    /* What goes to servers waits for the wire, whole. */
    ASSERT(!plan_of("bandwidth: '1gbit' road: 'ps'", f).sheds);
    ASSERT(plan_of("", f).whole && !plan_of("sync: 'ssp'", f).whole);
    ASSERT(!plan_of("compress: 'topk:0.25'", f).whole);
}

/* ---- What is said of a plan. */

static const char *said(const char *fields, struct dist_facts f)
{
    const struct dist_plan p = plan_of(fields, f);
    Caffe__DistributedParameter *o = NULL;
    struct ct_text text = { 0 };
    const char *out;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, fields,
                            strlen(fields), fields, &o));
    dist_plan_explain(&p, o, &f, &text);
    ct_message_free(o);
    out = test_format("%s", text.s);
    ct_text_fini(&text);
    return out;
}

TEST(resolve, what_is_said_of_updates_is_what_happens)
{
    struct dist_facts f = { .size = 4, .n_hosts = 2, .met = true,
                            .learns = true };

    ASSERT_HAS("in the next forward pass", said("", f));
    ASSERT_HAS("of --nooverlap", said("overlap: false", f));
    f.gpus = f.own_gpus = f.copied = true; /* as this rank's solver does */
    ASSERT(!plan_of("", f).lazy);
    ASSERT_HAS("a GPU updates all parameters at once", said("", f));
    f = (struct dist_facts){ .size = 4, .n_hosts = 1, .met = true,
                             .learns = true, .shared_params = true };
    ASSERT_HAS("by ranks that wait", said("", f));
    ASSERT_HAS("one copy of the parameters", said("", f));
    f.elastic = true;
    ASSERT_HAS("into a second copy", said("", f));
    f.shared_params = false;
    ASSERT_HAS("all must have all sums first", said("", f));
    ASSERT_HAS("all begin again from the newest", said("sync: 'ssp'", f));
    ASSERT_HAS("from the last mean of weights", said("sync: 'local'", f));
}

TEST(resolve, what_is_said_of_sums_is_what_happens)
{
    struct dist_facts f = { .size = 4, .n_hosts = 1, .met = true,
                            .learns = true };

    ASSERT_HAS("in memory that the host's ranks share", said("", f));
    ASSERT_HAS("each rank adds up parts of a bucket", said("", f));
    ASSERT_HAS("--reduce names another way", said("reduce: 'ring'", f));
    f.no_windows = true;
    ASSERT_HAS("cannot share memory", said("", f));
    f.no_windows = false;
    ASSERT_HAS("along one tree", said("canonical: true parts: 4", f));
    ASSERT_HAS("--reduce         has no effect",
               said("canonical: true parts: 4 reduce: 'ring'", f));
    ASSERT_HAS("every 5 iterations", said("sync: 'local:5'", f));
    ASSERT_HAS("every 7 iterations", said("sync: 'local' local_steps: 7", f));
    f.gpus = f.own_gpus = f.copied = true;
    /* NCCL was tried in vain. */
    ASSERT_HAS("by a thread beside", said("", f));
    ASSERT_HAS("NCCL cannot be used on every rank", said("", f));
    ASSERT_HAS("--compress works in the CPU's memory",
               said("compress: 'bf16'", f));
    f.on_device = DIST_BY_NCCL;
    ASSERT_HAS("in the memory of GPUs", said("", f));
    ASSERT_HAS("way to sum       NCCL", said("", f));
    f.on_device = DIST_BY_HOST;
    f.own_gpus  = false;
    ASSERT_HAS("not every rank has a GPU of its own", said("", f));
}

/* Three of four ranks cannot push eight micro-batches. */
TEST(resolve, canonical_servers_are_refused_where_ranks_come_and_go)
{
    static const char fields[] = "canonical: true parts: 8 road: 'ps'";
    struct dist_facts f        = { .size = 4, .n_hosts = 1 };

    ASSERT_OK(resolved(fields, &f));
    f.elastic = true;
    ASSERT_STATUS(CT_EINVAL, resolved(fields, &f));
    ASSERT_HAS("does not go with --elastic", ct_last_error());
    ASSERT_OK(resolved("canonical: true parts: 8", &f));
    f.size = 1; /* which is a server once another one comes */
    ASSERT_STATUS(CT_EINVAL,
                  resolved("canonical: true parts: 8 servers: 1", &f));
}

TEST(resolve, nccl_is_refused_where_ranks_come_and_go)
{
    struct dist_facts f = { .size = 4, .n_hosts = 1 };

    ASSERT_OK(resolved("reduce: 'nccl'", &f));
    f.elastic = true;
    ASSERT_STATUS(CT_EINVAL, resolved("reduce: 'nccl'", &f));
    ASSERT_HAS("--reduce=nccl does not go with --elastic", ct_last_error());
    /* Nor do others keep gradients on GPUs there. */
    f.met = f.learns = f.gpus = f.own_gpus = true;
    ASSERT_HAS("lost in the middle", plan_of("", f).not_on_gpus);
    ASSERT(plan_of("", f).on_device == DIST_BY_HOST);
}

/* ---- Every pair. */

static bool has(const char *fields, const char *word)
{
    return strstr(fields, word) != NULL;
}

/* How far from one rank's weights ranks may end, in parts of the way that those
 * went from the start: about twice what codecs and stale gradients cost here.
 * Who makes no update is 1 away.  All else, --bandwidth that suffices among it,
 * is the same as one rank. */
static const struct {
    const char *word;
    double      apart;
} nears[] = { { "'bf16'", 0.01 },  { "'fp16'", 0.01 },  { "'qsgd'", 0.15 },
              { "'onebit'", 0.4 }, { "'topk:", 0.3 },   { "'powersgd:", 0.4 },
              { "'async'", 0.3 },
              /* They settle after each step here, and differ by rounding; but
               * their losses may be those of a rank. */
              { "sync: 'local", 0.001 }, { "'ssp'", 0.001 },
              { "groups", 0.001 } };

/* 0: they are to be the same. */
static double how_near(const char *fields)
{
    double sum = 0;

    for (size_t i = 0; i < sizeof(nears) / sizeof(nears[0]); i++)
        sum += has(fields, nears[i].word) ? nears[i].apart : 0;
    return sum;
}

/* Where all ranks make the same updates; unlike devices round them. */
static void same_weights(const char *fields, const struct rank *a,
                         const struct rank *b, bool alike)
{
    double most = 0, apart = 0;

    for (size_t j = 0; j < a->n; j++) {
        most  = fmax(most, fabs((double)a->weights[j]));
        apart = fmax(apart, fabs((double)(a->weights[j] - b->weights[j])));
    }
    if (!(apart <= (alike ? 0 : 1e-4 * most)))
        FAIL("%s: a rank ends with weights that are %g from those of rank 0",
             fields, apart);
}

/* By whom each result is judged: one rank on the whole batch, or on its part
 * where every rank has a source of its own, which are all alike; and where all
 * of them start. */
struct judges {
    const struct rank *whole, *part, *start;
};

static double distance(const struct rank *a, const struct rank *b)
{
    double sum = 0;

    for (size_t j = 0; j < a->n; j++) {
        const double d = (double)(a->weights[j] - b->weights[j]);

        sum += d * d;
    }
    return sqrt(sum);
}

/* Uneven parts of sources that are alike are other samples than one rank's. */
static bool other_samples(const char *fields)
{
    return has(fields, "data: 'local'") && has(fields, "shares");
}

/* The ranks end alike, near one rank's weights, and have learnt as it has. */
static void near_one(const char *fields, const struct judges *by,
                     const struct rank *one, const struct rank *r, int n)
{
    const double way   = distance(one, by->start);
    const double first = one->loss[0], want = one->loss[RANKS_STEPS - 1];
    const double most  = how_near(fields);
    double got = 0, apart;

    for (int i = 0; i < n; i++) {
        if (r[i].st != CT_OK)
            FAIL("%s: rank %d: %s", fields, i, r[i].why);
        got += r[i].loss[RANKS_STEPS - 1] / n;
        same_weights(fields, &r[0], &r[i], ranks_alike(i));
    }
    apart = distance(r, one) / way;
    if (other_samples(fields)) { /* they go as far, to another place */
        const double went = distance(r, by->start) / way;

        ASSERT(isfinite(got) && went > 0.3 && went < 3);
        return;
    }
    if (!(apart <= most))
        FAIL("%s: %d ranks end %g from the weights of one, in parts of its "
             "way; %g are allowed", fields, n, apart, most);
    /* A loss may be that of one group: of few samples where shares differ. */
    if (has(fields, "shares") ? !isfinite(got)
                              : !(fabs(got - want) <= 0.3 * fabs(first - want)))
        FAIL("%s: %d ranks end with a loss of %g, one with %g, after %g",
             fields, n, got, want, first);
}

/* The devices that the ranks train on here. */
static void add_devices(struct dist_facts *f)
{
    const char *name = getenv("CORTADO_TEST_DEVICE");
    const bool mixed = name && strcmp(name, "mixed") == 0;

    f->met = f->gpus = mixed || (name && strcmp(name, "cuda") == 0);
    f->mixed = f->unlike = mixed;
}

/* The message is about this flag: it has it as it is, or without its value, or
 * the value in a list behind it ("--sync=ssp, async or local"). */
static bool names(const char *message, const char *flag)
{
    const size_t n    = strcspn(flag, "=");
    const char *value = flag[n] ? flag + n + 1 : "";
    char word[64];
    const char *at;

    snprintf(word, sizeof(word), "%.*s", (int)n, flag);
    at = strstr(message, word);
    if (strcmp(word, "--gpu") == 0)
        return has(message, "GPU") || has(message, "device");
    return at && (at[n] != '=' || !value[0] || strstr(at, value));
}

/* The rule that refuses a pair is the pair's own. */
static void names_both(const struct dist_choice *a, const struct dist_choice *b)
{
    const char *with, *why;
    char text[512];

    ASSERT_HAS("does not go with", ct_last_error());
    with = strstr(ct_last_error(), "does not go with");
    why  = strstr(with, ": ");
    ASSERT(why);
    snprintf(text, sizeof(text), "%.*s", (int)(why - ct_last_error()),
             ct_last_error());
    if (!names(text, a->flag) || !names(text, b->flag))
        FAIL("%s and %s are refused by another rule: %s", a->flag, b->flag,
             text);
}

static void try_fields(const char *fields, const struct dist_choice *a,
                       const struct dist_choice *b, const struct judges *by)
{
    const int n_servers = has(fields, "servers");
    const int n         = RANKS + n_servers;
    struct dist_facts f = { .size = n, .n_hosts = 1 };
    const bool own      = has(fields, "data: 'local'");
    const bool global   = has(fields, "'global'");
    const struct rank *one = own ? by->part : by->whole;
    struct ranks_how how = { .n_ranks = n, .n_servers = n_servers,
                             .options = fields };
    struct rank *r;

    add_devices(&f);
    if (resolved(fields, &f) != CT_OK) {
        /* Ranks that share a GPU have no NCCL, whatever else they ask for. */
        if (!(f.met && has(fields, "nccl") &&
              has(ct_last_error(), "GPU of their own")))
            names_both(a, b);
        return;
    }
    ranks_batch(global ? RANKS_BATCH : 0);
    r = ranks_train_so(&how);
    if (has(fields, "nccl")) {
        ranks_refuse("GPU of its own", r, n);
        return;
    }
    if (how_near(fields) > 0 || other_samples(fields))
        near_one(fields, by, one, r, RANKS);
    else
        ranks_same_as_one(one, r, RANKS);
}

/* Unlike devices train where there are some: CORTADO_TEST_DEVICE=mixed makes
 * every pair one of them.  Here it is refused with its reason, or there is a
 * plan, by which unlike ranks share no memory and no GPU sums. */
static void plan_unlike(const struct dist_choice *a,
                        const struct dist_choice *b, const char *fields)
{
    struct dist_facts f = { .size = RANKS + has(fields, "servers"),
                            .n_hosts = 1 };

    dist_choice_facts(a->cpus ? a : b, &f);
    if (resolved(fields, &f) != CT_OK) {
        names_both(a, b);
        return;
    }
    ASSERT(f.mixed && !plan_of(fields, f).in_memory);
    ASSERT(!plan_of(fields, f).learns);
    ASSERT(plan_of(fields, f).on_device == DIST_BY_HOST ||
           has(fields, "'tree'"));
}

/* Where there is no GPU nets are copied as from one. */
static void try_pair(const struct dist_choice *a, const struct dist_choice *b,
                     const struct judges *by)
{
    const char *fields =
        a == b ? a->fields : test_format("%s %s", a->fields, b->fields);

    if (a->cpus || b->cpus) {
        plan_unlike(a, b, fields);
        return;
    }
    if (a->gpus && !getenv("CORTADO_TEST_DEVICE"))
        setenv("CORTADO_IMPL", "mirror:copy", 1);
    try_fields(fields, a, b, by);
    if (a->gpus && !getenv("CORTADO_TEST_DEVICE"))
        unsetenv("CORTADO_IMPL");
}

static struct judges call_judges(void)
{
    const char *path;
    struct judges by;

    ranks_make_data();
    path = ranks_make_db("db");
    for (int i = 0; i < RANKS; i++)
        (void)ranks_make_db(test_format("db_%d", i));
    ranks_source_db(path, "");
    by.whole = ranks_train(1, "", "", 0);
    ASSERT_OK(by.whole->st);
    by.start = ranks_train(1, "base_lr: 0", "", 0);
    ASSERT_OK(by.start->st);
    ranks_batch(RANKS_BATCH / RANKS);
    by.part = ranks_train(1, "", "", 0);
    ASSERT_OK(by.part->st);
    return by;
}

TEST(resolve, every_pair_is_refused_or_trains_to_the_right_result)
{
    const char *which = getenv("CORTADO_TEST_PAIR"); /* one flag, for a look */
    const struct judges by = call_judges();

    solver_share_seconds = 0.01;
    for (int i = 0; i < dist_n_choices; i++)
        for (int k = 0; k <= i; k++) {
            const struct dist_choice *a = &dist_choices[i];
            const struct dist_choice *b = &dist_choices[k];
            const size_t n              = strcspn(a->flag, "=");

            if (which && !strstr(a->flag, which) && !strstr(b->flag, which))
                continue;
            if (i == k || strncmp(a->flag, b->flag, n) != 0 ||
                b->flag[n] != '=')
                try_pair(a, b, &by);
        }
    solver_share_seconds = 1;
}

/* Values that have no row in the manual's table, alone and beside a few. */
TEST(resolve, other_values_train_to_the_right_result)
{
    static const struct dist_choice other[] = {
        { "--reduce=halving", "reduce: 'halving'", false, false },
        { "--reduce=hierarchical", "reduce: 'hierarchical'", false, false },
        { "--reduce=shared", "reduce: 'shared'", false, false },
        { "--compress=fp16", "compress: 'fp16'", false, false },
        { "--sync=local", "sync: 'local:3'", false, false } };
    static const struct dist_choice beside[] = {
        { "--batch=global", "batch: 'global'", false, false },
        { "--bandwidth", "bandwidth: '1gbit'", false, false },
        { "--road=factors", "road: 'factors'", false, false },
        { "--deadline", "deadline: 5", false, false } };
    const struct judges by = call_judges();

    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        for (size_t k = 0; k < sizeof(beside) / sizeof(beside[0]); k++)
            try_pair(&other[i], &beside[k], &by);
    /* Only MPI has that one. */
    ranks_refuse("no such way to sum", ranks_train(2, "", "reduce: 'mpi'", 0),
                 2);
}

TEST(resolve, a_kind_checks_its_own_options)
{
    const struct dist_facts f = { .size = 4, .n_hosts = 1 };

    ASSERT_STATUS(CT_EINVAL, resolved("sync: 'local:0'", &f));
    ASSERT_STATUS(CT_EINVAL, resolved("sync: 'local:2x'", &f));
    ASSERT_STATUS(CT_EINVAL, resolved("sync: 'local:'", &f));
    ASSERT_STATUS(CT_EINVAL, resolved("local_steps: 0", &f));
    ASSERT_HAS("--local_steps", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, resolved("sync: 'ssp:2'", &f));
    ASSERT_OK(resolved("sync: 'local:2'", &f));
}
