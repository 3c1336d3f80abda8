/* test_resolve.c - every pair of ways to train is refused with its reason, or
 * trains to the right result; and the manual says which. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
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

/* ---- Every pair. */

static bool has(const char *fields, const char *word)
{
    return strstr(fields, word) != NULL;
}

/* What rounds, delays or leaves out comes near; all else is the same. */
static bool is_near(const char *fields)
{
    return has(fields, "compress") || has(fields, "'ssp'") ||
           has(fields, "'async'") || has(fields, "'local'") ||
           has(fields, "bandwidth") || has(fields, "groups");
}

/* The ranks end alike, and their loss is about that of one. */
static void near_one(const char *fields, const struct rank *one,
                     const struct rank *r, int n)
{
    const bool stale  = has(fields, "'ssp'") || has(fields, "'async'");
    const double want = one->loss[RANKS_STEPS - 1];
    double got        = 0;

    for (int i = 0; i < n; i++) {
        got += r[i].loss[RANKS_STEPS - 1] / n;
        if (r[i].st != CT_OK)
            FAIL("%s: rank %d: %s", fields, i, r[i].why);
        if (memcmp(r[0].weights, r[i].weights, one->n * sizeof(float)) != 0)
            FAIL("%s: rank %d ends with other weights than rank 0", fields,
                 i);
    }
    /* Uneven parts of sources that are alike are other samples than one rank's.
     * */
    if (has(fields, "data: 'local'") && has(fields, "shares")) {
        ASSERT(isfinite(got));
        return;
    }
    /* What stale ranks say is a step old, or some. */
    if (!(fabs(got - want) <= 0.5 * want + (stale ? 0.6 : 0.2)))
        FAIL("%s: %d ranks end with a loss of %g, one with %g", fields, n,
             got, want);
}

/* By whom each result is judged: one rank on the whole batch, or on its part
 * where every rank has a source of its own, which are all alike. */
struct judges {
    const struct rank *whole, *part;
};

static enum ct_status resolved(const char *fields, int n)
{
    const struct dist_facts f = { .size = n, .n_hosts = 1 };
    Caffe__DistributedParameter *o = NULL;
    struct dist_plan p;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, fields,
                            strlen(fields), fields, &o));
    st = dist_resolve(o, &f, &p);
    ct_message_free(o);
    return st;
}

static void try_fields(const char *fields, const struct judges *by)
{
    const int n_servers = has(fields, "servers");
    const int n         = RANKS + n_servers;
    const bool refused  = resolved(fields, n) != CT_OK;
    const bool own      = has(fields, "data: 'local'");
    const bool global   = has(fields, "'global'");
    const struct rank *one = own ? by->part : by->whole;
    struct ranks_how how = { .n_ranks = n, .n_servers = n_servers,
                             .options = fields };
    struct rank *r;

    if (refused) {
        ASSERT_HAS("does not go with", ct_last_error());
        return;
    }
    ranks_batch(global ? RANKS_BATCH : 0);
    r = ranks_train_so(&how);
    if (has(fields, "nccl")) {
        ranks_refuse("GPU of its own", r, n);
        return;
    }
    if (is_near(fields) || (own && has(fields, "shares")))
        near_one(fields, one, r, RANKS);
    else
        ranks_same_as_one(one, r, RANKS);
}

TEST(resolve, every_pair_is_refused_or_trains_to_the_right_result)
{
    const char *path;
    const char *which = getenv("CORTADO_TEST_PAIR"); /* one flag, for a look */
    struct judges by;

    ranks_make_data();
    path = ranks_make_db("db");
    for (int i = 0; i < RANKS; i++)
        (void)ranks_make_db(test_format("db_%d", i));
    solver_share_seconds = 0.01;
    ranks_source_db(path, "");
    by.whole = ranks_train(1, "", "", 0);
    ASSERT_OK(by.whole->st);
    ranks_batch(RANKS_BATCH / RANKS);
    by.part = ranks_train(1, "", "", 0);
    ASSERT_OK(by.part->st);
    for (int i = 0; i < dist_n_choices; i++)
        for (int k = 0; k <= i; k++) {
            const struct dist_choice *a = &dist_choices[i];
            const struct dist_choice *b = &dist_choices[k];
            const size_t n              = strcspn(a->flag, "=");

            if (which && !strstr(a->flag, which) && !strstr(b->flag, which))
                continue;
            if (i == k)
                try_fields(a->fields, &by);
            else if (strncmp(a->flag, b->flag, n) != 0 || b->flag[n] != '=')
                try_fields(test_format("%s %s", a->fields, b->fields), &by);
        }
    solver_share_seconds = 1;
}
