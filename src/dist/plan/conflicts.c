/* conflicts.c - the rules: choices that do not go together.
 *
 * Each rule has two sides as a user writes them, the reason, and advice.  The
 * table of the manual is made from the rules (explain.c). */
#include "dist/plan/conflicts.h"

#include <string.h>

#include "dist/proof/canonical.h"

/* The input of a rule. */
struct wish {
    const Caffe__DistributedParameter *o;
    const struct dist_facts           *f;
    const struct dist_plan            *p;
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* ---- Sides of rules. */

static bool local(const struct wish *w)
{
    return w->p->sync != NULL;
}

static bool values_or_local(const struct wish *w)
{
    return w->p->values || w->p->sync;
}

static bool servers(const struct wish *w)
{
    return w->p->servers;
}

static bool servers_or_local(const struct wish *w)
{
    return w->p->servers || w->p->sync;
}

static bool own_servers(const struct wish *w)
{
    return w->o->servers > 0;
}

static bool groups(const struct wish *w)
{
    return w->o->groups > 1;
}

static bool rounds(const struct wish *w)
{
    return w->p->rounds;
}

static bool async(const struct wish *w)
{
    return is(w->o->sync, "async");
}

static bool not_in_step(const struct wish *w)
{
    return !is(w->o->sync, "bsp");
}

static bool bsp_alone(const struct wish *w)
{
    return is(w->o->sync, "bsp") && w->o->groups == 1;
}

static bool stale(const struct wish *w)
{
    return w->o->staleness > 0;
}

static bool road_without_servers(const struct wish *w)
{
    return is(w->o->road, "allreduce") || is(w->o->road, "factors");
}

static bool road_factors(const struct wish *w)
{
    return is(w->o->road, "factors");
}

static bool canonical(const struct wish *w)
{
    return w->o->canonical;
}

static bool canonical_servers(const struct wish *w)
{
    return w->o->canonical && (w->p->servers || w->p->reloads);
}

static bool root(const struct wish *w)
{
    return w->p->root_data;
}

static bool shares(const struct wish *w)
{
    return w->p->shares != CT_SHARES_EVEN;
}

static bool given(const struct wish *w)
{
    return w->p->shares == CT_SHARES_GIVEN;
}

static bool speed(const struct wish *w)
{
    return w->p->shares == CT_SHARES_SPEED;
}

static bool sync_bn(const struct wish *w)
{
    return w->o->sync_bn;
}

static bool codec(const struct wish *w)
{
    return w->p->codec.type;
}

static bool two_sums(const struct wish *w)
{
    return w->p->codec.type && w->p->codec.type->reserve &&
           !w->p->codec.type->push;
}

static bool keeps_residuals(const struct wish *w)
{
    return w->p->codec.type &&
           (w->p->codec.type->feedback || w->p->codec.type->reserve);
}

static bool bandwidth(const struct wish *w)
{
    return w->p->bytes_s > 0;
}

static bool nccl(const struct wish *w)
{
    return is(w->o->reduce, "nccl");
}

static bool elastic(const struct wish *w)
{
    return w->f->elastic;
}

static bool no_own_gpus(const struct wish *w)
{
    return w->f->met && !w->f->own_gpus;
}

static bool mixed(const struct wish *w)
{
    return w->f->mixed;
}

static bool unlike(const struct wish *w)
{
    return w->f->unlike;
}

/* ---- The rules. */

/* For rules about all options that need servers. */
#define SERVERS "servers (--road=ps, --road=sharded, --sync=ssp, " \
                "--sync=async, --groups, --servers, --deadline)"

typedef bool (*side_fn)(const struct wish *w);

static const struct rule {
    struct dist_rule text;
    side_fn          one, other;
    enum ct_status   status;
} rules[] = {
    { { "--sync=local", "--road=ps, --road=sharded, --servers, --groups or "
        "--deadline", "it sums weights between ranks, and these are about "
        "gradients", "leave them out" }, local, servers, CT_EINVAL },
    { { "--road=allreduce or --road=factors", "servers, which --sync=ssp, "
        "--sync=async, --groups, --servers and --deadline ask for",
        "that road has no servers", "use ps or sharded" },
      road_without_servers, servers, CT_EINVAL },
    { { "--deadline and --patience", "--sync=ssp and --sync=async",
        "they are for --sync=bsp, where ranks wait for each other", NULL },
      rounds, not_in_step, CT_EINVAL },
    { { "--deadline and --patience", "--groups", "a rank is left out by "
        "itself, and a group pushes as one", NULL }, rounds, groups,
      CT_EINVAL },
    { { "--sync=async", "--groups", "groups have a bound, --staleness",
        "use --sync=ssp or bsp with them" }, async, groups, CT_EINVAL },
    { { "--staleness above 0", "--sync=bsp without --groups", "it means "
        "--sync=ssp", NULL }, stale, bsp_alone, CT_EINVAL },
    { { "--canonical", "--sync=ssp, async or local, --groups and --deadline",
        "it keeps ranks in step", NULL }, canonical, values_or_local,
      CT_EINVAL },
    { { "--canonical", "--compress", "codes round differently for other "
        "numbers of ranks", NULL }, canonical, codec, CT_EINVAL },
    { { "--canonical", "--bandwidth", "what is left for later would differ",
        NULL }, canonical, bandwidth, CT_EINVAL },
    { { "--canonical", "--sync_bn", "each of its micro-batches is normalised "
        "by itself", NULL }, canonical, sync_bn, CT_EINVAL },
    { { "--canonical", "--road=factors", "it adds along one tree", NULL },
      canonical, road_factors, CT_EINVAL },
    { { "--canonical", "--data=root", "its micro-batches are read by every "
        "rank", NULL }, canonical, root, CT_EINVAL },
    { { "--canonical", "--shares", "its micro-batches are of one size", NULL },
      canonical, shares, CT_EINVAL },
    { { "--canonical with --road=ps, --road=sharded or --servers",
        "--elastic", "servers take one branch of the tree from each rank, and "
        "after a loss there may be none for each", "use --road=allreduce" },
      canonical_servers, elastic, CT_EINVAL },
    { { "--canonical", "ranks with unlike devices", "they round differently",
        "use one kind" }, canonical, unlike, CT_EINVAL },
    { { "--data=root", "--sync=ssp, async or local, --groups and --deadline",
        "it keeps ranks in step", NULL }, root, values_or_local, CT_EINVAL },
    { { "--data=root", "--servers", "ranks that serve take no samples", NULL },
      root, own_servers, CT_EINVAL },
    { { "--shares", "--sync=local", "it divides the batches of ranks in "
        "step", NULL }, shares, local, CT_EINVAL },
    { { "--shares with weights", "--elastic", "weights are of ranks, which "
        "pass to other processes when some come or go",
        "use --shares=speed" },
      given, elastic, CT_EINVAL },
    { { "--shares=speed", "--data=root", "it needs data to measure with on "
        "every rank", "use --data=shared, or give weights" }, speed, root,
      CT_EINVAL },
    { { "--sync_bn", "--sync=ssp, async or local, --groups and --deadline",
        "it keeps ranks in step", "use it with --sync=bsp" }, sync_bn,
      values_or_local, CT_EINVAL },
    { { "--sync_bn", "CPUs and GPUs in one job", "on a GPU gradients leave "
        "when the pass is queued, on a CPU during it, so the two cannot share "
        "statistics", "use one kind of device" }, sync_bn, mixed, CT_EINVAL },
    { { "--compress", "--sync=local", "it codes gradients, and local sends "
        "weights, every --local_steps iterations", "raise those to send "
        "less" }, codec, local, CT_ENOTSUP },
    { { "--compress=powersgd", SERVERS, "it needs two sums an iteration, "
        "the second made of the first, and a push to servers is one", "use "
        "--road=allreduce, or another codec" }, two_sums, servers,
      CT_ENOTSUP },
    { { "--compress=onebit, topk or powersgd", "--deadline", "they hold parts "
        "of gradients back, and with a deadline a gradient may be thrown away "
        "and its rank may miss a snapshot", "use bf16, fp16 or qsgd, which "
        "hold nothing back" }, keeps_residuals, rounds, CT_ENOTSUP },
    { { "--reduce=nccl", "--sync=local and " SERVERS, "it is for "
        "--sync=bsp without servers", "use --reduce=auto" }, nccl,
      servers_or_local, CT_EINVAL },
    { { "--reduce=nccl", "--compress", "--compress works in the CPU's memory",
        "use --reduce=auto" }, nccl, codec, CT_EINVAL },
    { { "--reduce=nccl", "--elastic", "a rank may be lost in the middle of a "
        "sum", "use --reduce=auto" }, nccl, elastic, CT_EINVAL },
    { { "--reduce=nccl", "--canonical", "--canonical adds along a tree",
        "use --reduce=auto" }, nccl, canonical, CT_EINVAL },
    { { "--reduce=nccl", "--bandwidth", "--bandwidth does not limit it",
        "use --reduce=auto" }, nccl, bandwidth, CT_EINVAL },
    { { "--reduce=nccl", "--road=factors", "--road=factors goes through the "
        "CPU's memory", "use --reduce=auto" }, nccl, road_factors, CT_EINVAL },
    { { "--reduce=nccl", "ranks without a GPU of their own", "not every rank "
        "has a GPU of its own", "use --reduce=auto" }, nccl, no_own_gpus,
      CT_EINVAL },
};

enum { N_RULES = sizeof(rules) / sizeof(rules[0]) };

bool dist_rule_at(int i, struct dist_rule *out)
{
    if (i < 0 || i >= N_RULES)
        return false;
    *out = rules[i].text;
    return true;
}

static enum ct_status check_parts(const struct wish *w)
{
    const int V = w->o->parts, size = w->p->n_workers;

    if (V < 1 || V > 1 << (CANONICAL_MOST_LEVELS - 1))
        return ct_fail(CT_EINVAL, "canonical training needs parts, the number "
                       "of micro-batches of an iteration, from 1 to %d, not "
                       "%d", 1 << (CANONICAL_MOST_LEVELS - 1), V);
    if (V < size)
        return ct_fail(CT_EINVAL, "%d micro-batches cannot be dealt out to %d "
                       "ranks: parts is their number at least", V, size);
    return !w->p->servers || dist_canonical_is_even(V, size)
               ? CT_OK
               : ct_fail(CT_EINVAL, "%d micro-batches cannot be dealt out to "
                         "%d ranks so that each pushes one branch of the tree "
                         "to servers: make parts a power of two times the "
                         "number of ranks, or use --road=allreduce", V, size);
}

enum ct_status dist_check_rules(const Caffe__DistributedParameter *o,
                                const struct dist_facts *f,
                                const struct dist_plan *p)
{
    const struct wish w = { o, f, p };

    for (int i = 0; i < N_RULES; i++) {
        const struct dist_rule *t = &rules[i].text;

        if (rules[i].one(&w) && rules[i].other(&w))
            return ct_fail(rules[i].status, "%s does not go with %s: %s%s%s",
                           t->one, t->other, t->why, t->instead ? "; " : "",
                           t->instead ? t->instead : "");
    }
    return o->canonical ? check_parts(&w) : CT_OK;
}

/* The rules against NCCL forbid every sum in GPU memory, with one exception:
 * the other ways accept GPUs that several ranks share. */
const char *dist_why_not_on_gpus(const Caffe__DistributedParameter *o,
                                 const struct dist_facts *f,
                                 const struct dist_plan *p)
{
    const struct wish w = { o, f, p };

    for (int i = 0; i < N_RULES; i++)
        if (rules[i].one == nccl && rules[i].other != no_own_gpus &&
            rules[i].other(&w))
            return rules[i].text.why;
    return NULL;
}

/* ---- Options by themselves. */

static enum ct_status check_word(const char *flag, const char *word,
                                 const char *known)
{
    char list[160], *rest = list, *one;

    strncpy(list, known, sizeof(list) - 1);
    list[sizeof(list) - 1] = '\0';
    while ((one = strsep(&rest, " ")))
        if (is(one, word))
            return CT_OK;
    return ct_fail(CT_EINVAL, "--%s=%s: use one of %s", flag, word, known);
}

static enum ct_status check_numbers(const Caffe__DistributedParameter *o)
{
    if (o->staleness < 0 || o->servers < 0 ||
        o->groups < 1 || !(o->quorum >= 0 && o->quorum <= 1) ||
        !(o->deadline >= 0) || !(o->patience == 0 || o->patience >= 1))
        return ct_fail(CT_EINVAL, "staleness, servers and deadline cannot be "
                       "negative; groups and patience start at 1, and "
                       "quorum lies in [0, 1]");
    return CT_OK;
}

/* In an elastic job servers and groups are as many as its ranks allow. */
static enum ct_status check_size(const Caffe__DistributedParameter *o,
                                 const struct dist_facts *f)
{
    const int size = f->size;

    if (o->servers > 1 && is(o->road, "ps"))
        return ct_fail(CT_EINVAL, "--road=ps has one server; use "
                       "--road=sharded for --servers=%d", o->servers);
    if (f->elastic)
        return CT_OK;
    if (o->servers >= size && o->servers > 0)
        return ct_fail(CT_EINVAL, "--servers=%d leaves no rank of %d to train",
                       o->servers, size);
    if (o->groups > size - o->servers)
        return ct_fail(CT_EINVAL, "--groups=%d is more than the %d ranks that "
                       "train", o->groups, size - o->servers);
    return CT_OK;
}

static enum ct_status check_sync(const char *name)
{
    struct ct_text known = { 0 };
    enum ct_status st    = CT_OK;

    dist_sync_choices(&known);
    if (!is(name, "bsp") && !is(name, "ssp") && !is(name, "async") &&
        !dist_sync_find(name))
        st = ct_fail(CT_EINVAL, "--sync=%s: use %s", name,
                     known.s ? known.s : "another");
    ct_text_fini(&known);
    return st;
}

static enum ct_status check_reduce(const char *name)
{
    const struct ct_allreduce_type *known;

    return is(name, "nccl") ? CT_OK : ct_allreduce_parse(name, "nccl", &known);
}

enum ct_status dist_check_words(const Caffe__DistributedParameter *o,
                                const struct dist_facts *f)
{
    CT_TRY(check_sync(o->sync));
    CT_TRY(dist_sync_check(o));
    CT_TRY(check_word("late", o->late, "discard fold error"));
    CT_TRY(check_word("batch", o->batch, "per_rank global"));
    CT_TRY(check_word("data", o->data, "shared local root"));
    CT_TRY(check_word("road", o->road, "auto allreduce factors ps sharded"));
    CT_TRY(check_reduce(o->reduce));
    CT_TRY(check_numbers(o));
    return check_size(o, f);
}
