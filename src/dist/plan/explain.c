/* explain.c - describes a plan; makes the manual's table of combinations. */
#include <stdio.h>
#include <string.h>

#include "comm/ps/ps.h"
#include "cortado/log.h"
#include "dist/bsp/carrier.h"
#include "dist/engine.h"

static void line(struct ct_text *out, const char *topic, const char *choice,
                 const char *why)
{
    ct_text_addf(out, "%-16s %s\n", topic, choice);
    ct_text_addf(out, "%-16s   because %s\n", "", why);
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static void explain_kind(const struct dist_plan *p,
                         const Caffe__DistributedParameter *o,
                         struct ct_text *out)
{
    struct ct_text text = { 0 };
    char choice[160];

    if (p->alone)
        line(out, "synchronisation", "none: one rank trains by itself",
             "there are no other ranks");
    else if (p->sync) {
        dist_sync_describe(p->sync, o, &text);
        line(out, "synchronisation", text.s ? text.s : p->sync->does,
             "of --sync");
        ct_text_fini(&text);
    } else if (p->values) {
        snprintf(choice, sizeof(choice), "%d server(s) from rank %d on keep "
                 "the parameters and update them", p->n_servers,
                 p->first_server);
        line(out, "synchronisation", choice,
             p->rounds                      ? "of --deadline or --patience"
             : o->groups > 1                ? "of --groups"
             : p->staleness == CT_PS_ASYNC  ? "of --sync=async"
                                            : "of --sync=ssp");
    } else if (p->servers) {
        snprintf(choice, sizeof(choice), "in step; %d server(s) from rank %d "
                 "on add up gradients", p->n_servers, p->first_server);
        line(out, "synchronisation", choice,
             o->servers ? "of --servers" : "of --road");
    } else {
        line(out, "synchronisation", "in step: every rank applies the mean "
             "gradient of all", is(o->sync, "bsp") ? "of --sync=bsp, which is "
             "usual" : "of --sync");
    }
}

static void explain_data(const struct dist_plan *p, struct ct_text *out)
{
    line(out, "data", p->root_data  ? "rank 0 reads for all"
                      : p->own_data ? "every rank reads a source of its own"
                                    : "every rank reads its part of one "
                                      "source",
         p->root_data || p->own_data ? "of --data" : "of --data=shared, which "
                                                     "is usual");
    line(out, "batch", p->global_batch
                           ? "batch_size is that of all ranks together"
                           : "batch_size is each rank's",
         p->global_batch ? "of --batch=global" : "of --batch=per_rank, which "
                                                 "is usual");
    if (p->shares != CT_SHARES_EVEN)
        line(out, "shares", p->shares == CT_SHARES_SPEED
                                ? "of a batch by the measured speed of ranks"
                                : "of a batch by the weights given",
             "of --shares");
    if (p->parts)
        line(out, "bits", "the same for any number of ranks",
             "of --canonical");
    if (p->sync_bn)
        line(out, "BatchNorm", "over the samples of all ranks",
             "of --sync_bn");
}

/* Why gradients go through messages, in a plan that uses messages. */
static const char *why_by_messages(const struct dist_plan *p,
                                   const struct dist_facts *f)
{
    if (!f->gpus)
        return p->not_in_memory;
    switch (p->on_device) {
    case DIST_BY_NCCL:
        return "NCCL cannot be used on every rank";
    case DIST_BY_MPI:
        return "MPI does not take the memory of GPUs here";
    case DIST_BY_TREE:
        return "GPUs cannot reach each other's memory";
    case DIST_BY_HOST:
        break;
    }
    return p->not_on_gpus ? p->not_on_gpus
           : p->reduce    ? "--reduce names a way through the CPU's memory"
                          : "not every rank has a GPU of its own";
}

static void explain_sums(const struct dist_plan *p,
                         const struct dist_facts *f, struct ct_text *out)
{
    if (p->in_memory)
        line(out, "sums", "by the compute threads, in memory that the host's "
             "ranks share", "all ranks are on one host and on CPUs, and "
             "gradients go as they are");
    else if (p->carrier == &dist_by_thread)
        line(out, "sums", "by a thread beside the one that computes",
             why_by_messages(p, f));
    else
        line(out, "sums", "in the memory of GPUs", "some ranks have GPUs and "
             "nothing needs the CPU");
}

/* Explains the algorithm of sums. */
static void explain_way(const struct dist_plan *p, struct ct_text *out)
{
    if (p->parts)
        line(out, "way to sum", "along one tree of micro-batches",
             "of --canonical");
    else if (p->carrier == &dist_by_nccl)
        line(out, "way to sum", "NCCL", p->nccl ? "of --reduce"
                                                : "every rank has a GPU of "
                                                  "its own");
    else if (p->in_memory)
        line(out, "way to sum", "each rank adds up parts of a bucket",
             p->reduce ? "of --reduce" : "ranks share memory");
    else
        line(out, "way to sum", p->reduce   ? p->reduce->name
                                : p->sweeps ? "what is fastest for each size, "
                                              "timed at the start"
                                            : "by size and place of ranks",
             p->reduce ? "of --reduce" : "of --reduce=auto, which is usual");
}

static void explain_updates(const struct dist_plan *p, bool on_device,
                            struct ct_text *out)
{
    if (p->values)
        line(out, "updates", "by servers", "they keep the parameters");
    else if (p->shared_params && p->commits)
        line(out, "updates", "into a second copy in shared memory, piece by "
             "piece, by ranks that wait", "ranks come and go, and may have "
             "to go back to the first copy");
    else if (p->shared_params)
        line(out, "updates", "in shared memory, piece by piece, by ranks that "
             "wait", "the host has one copy of the parameters");
    else if (p->lazy)
        line(out, "updates", "in the next forward pass, layer by layer",
             "gradients may still be under way then");
    else
        line(out, "updates", "at the end of the iteration",
             p->commits   ? "ranks come and go: all must have all sums first"
             : p->parts   ? "--canonical waits for all gradients"
             : p->servers ? "sums come back in slices"
             : on_device  ? "a GPU updates all parameters at once"
                          : "of --nooverlap");
}

static void explain_road(const struct dist_plan *p,
                         const Caffe__DistributedParameter *o,
                         const struct dist_facts *f, struct ct_text *out)
{
    line(out, "road", p->road == DIST_ROAD_FACTORS
                          ? "weights of inner products as factors, the rest "
                            "summed"
                      : p->road == DIST_ROAD_AUTO && p->factors
                          ? "each parameter by the road that the cost model "
                            "finds best"
                      : p->servers ? "slices, to servers and back"
                                   : "all gradients are summed",
         !is(o->road, "auto")     ? "of --road"
         : f->iter_size > 1       ? "with iter_size above 1 gradients are "
                                    "sums, which have no factors"
         : p->servers             ? "servers take slices"
                                  : "of --road=auto, which is usual");
}

static void explain_travel(const struct dist_plan *p,
                           const Caffe__DistributedParameter *o,
                           const struct dist_facts *f, struct ct_text *out)
{
    if (p->sync || p->alone)
        return;
    if (!p->servers) {
        explain_sums(p, f, out);
        explain_way(p, out);
    }
    explain_road(p, o, f, out);
    if (p->codec.type)
        line(out, "code", p->codec.type->name, "of --compress");
    if (p->bytes_s > 0)
        line(out, "bandwidth", p->sheds ? "what does not fit a step waits for "
                                          "the next"
                                        : "a step waits until all is sent",
             "of --bandwidth");
    explain_updates(p, f->copied, out);
}

/* Why --reduce has no effect; NULL: it has one. */
static const char *reduce_unused(const struct dist_plan *p,
                                 const Caffe__DistributedParameter *o)
{
    return is(o->reduce, "auto")         ? NULL
           : p->alone                    ? "there are no other ranks"
           : p->servers && o->groups <= 1 ? "servers add up"
           : p->parts                    ? "--canonical adds along one tree"
                                         : NULL;
}

static void explain_unused(const struct dist_plan *p,
                           const Caffe__DistributedParameter *o,
                           struct ct_text *out)
{
    const char *why = reduce_unused(p, o);

    if (why)
        line(out, "--reduce", "has no effect", why);
    if (is(o->road, "factors") && p->sync)
        line(out, "--road", "has no effect", "weights are sent, and no "
             "gradients");
}

/* Explains how training continues when the ranks change. */
static void explain_elastic(const struct dist_plan *p, struct ct_text *out)
{
    if (p->reloads)
        line(out, "another view", "all begin again from the newest snapshot",
             "servers have what is nowhere else");
    else if (p->apart)
        line(out, "another view", "all go on from the last mean of weights",
             "what a rank trained since then is its own");
    else if (p->commits)
        line(out, "another view", "the iteration under way counts for all, or "
             "all do it again", "of --elastic");
}

void dist_plan_explain(const struct dist_plan *p,
                       const Caffe__DistributedParameter *o,
                       const struct dist_facts *f, struct ct_text *out)
{
    ct_text_addf(out, "%-16s %d on %d host(s), %d train\n", "ranks", f->size,
                 f->n_hosts, p->n_workers);
    explain_kind(p, o, out);
    explain_elastic(p, out);
    explain_data(p, out);
    explain_travel(p, o, f, out);
    explain_unused(p, o, out);
}

enum ct_status dist_explain_elastic(const Caffe__DistributedParameter *o,
                                    int n_ranks, struct ct_text *out)
{
    const struct dist_facts f = { .size = n_ranks, .n_hosts = 1,
                                  .elastic = true, .iter_size = 1 };
    struct dist_plan p;

    CT_TRY(dist_resolve(o, &f, &p));
    dist_plan_explain(&p, o, &f, out);
    return CT_OK;
}

static void explain_roads(const struct ct_dist *d, struct ct_text *out)
{
    struct dist_travel t;
    bool any = false;

    for (int i = 0; d->net && i < ct_net_n_params(d->net); i++) {
        if (!dist_travel_of(d, i, &t))
            continue;
        if (!any)
            ct_text_addf(out, "\n%-28s %12s  %-12s %10s %14s\n", "parameter",
                         "floats", "road", "MB sent", "predicted ms");
        any = true;
        ct_text_addf(out, "%-28s %12.0f  %-12s %10.4g ", t.param, t.floats,
                     t.name, t.bytes / 1e6);
        if (t.predicted > 0)
            ct_text_addf(out, "%14.3g\n", 1e3 * t.predicted);
        else
            ct_text_addf(out, "%14s\n", "-");
    }
}

void dist_explain(const struct ct_dist *d, struct ct_text *out)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;
    const struct dist_facts one = { .size = 1, .n_hosts = 1, .iter_size = 1 };
    struct dist_plan p;

    if (d) {
        dist_plan_explain(d->plan, d->options, d->facts, out);
        explain_roads(d, out);
    } else if (dist_resolve(&none, &one, &p) == CT_OK) {
        dist_plan_explain(&p, &none, &one, out);
    }
}

const char *dist_way(const struct ct_dist *d)
{
    const struct dist_plan *p = d->plan;

    return p->servers ? "parameter servers"
           : p->sync  ? p->sync->does
                      : p->carrier->name;
}

void dist_plan_say(const struct dist_plan *p,
                   const Caffe__DistributedParameter *o)
{
    const char *unused  = reduce_unused(p, o);
    struct ct_text text = { 0 };

    if (unused)
        CT_WARN("--reduce=%s has no effect: %s", o->reduce, unused);
    if (p->sync) {
        dist_sync_describe(p->sync, o, &text);
        CT_INFO("%d ranks: %s", p->n_workers,
                text.s ? text.s : p->sync->does);
        ct_text_fini(&text);
        return;
    }
    if (!p->servers)
        return;
    CT_INFO("%d ranks train; %d server(s) on rank(s) %d to %d%s %s",
            p->n_workers, p->n_servers, p->first_server,
            p->first_server + p->n_servers - 1,
            p->first_server > 0 ? ", which do not train," : "",
            p->values ? "keep the parameters and update them"
                      : "add up gradients");
    if (p->n_groups < p->n_workers)
        CT_INFO("%d groups, in step inside; between them at most %d "
                "iteration(s) apart", p->n_groups, p->staleness);
    else if (p->values && p->staleness == CT_PS_ASYNC)
        CT_INFO("Nobody waits: every gradient is applied when it comes");
    else if (p->values && !p->rounds)
        CT_INFO("A rank may be %d iteration(s) ahead of the slowest",
                p->staleness);
    if (p->rounds)
        CT_INFO("An iteration waits %g s and %g usual iterations for slow "
                "ranks, and until %g %% of the samples are in; late "
                "gradients: %s", o->deadline, o->patience,
                100 * (double)o->quorum, o->late);
}

/* ---- The manual. */

#define CHOICE(flag, fields) { flag, fields, false, false }

const struct dist_choice dist_choices[] = {
    CHOICE("--sync=ssp", "sync: 'ssp' staleness: 1"),
    CHOICE("--sync=async", "sync: 'async'"),
    CHOICE("--sync=local", "sync: 'local' local_steps: 2"),
    CHOICE("--road=allreduce", "road: 'allreduce'"),
    CHOICE("--road=factors", "road: 'factors'"),
    CHOICE("--road=ps", "road: 'ps'"),
    CHOICE("--road=sharded", "road: 'sharded'"),
    CHOICE("--reduce=ring", "reduce: 'ring'"),
    CHOICE("--reduce=tree", "reduce: 'tree'"),
    CHOICE("--reduce=nccl", "reduce: 'nccl'"),
    CHOICE("--compress=bf16", "compress: 'bf16'"),
    CHOICE("--compress=qsgd", "compress: 'qsgd'"),
    CHOICE("--compress=onebit", "compress: 'onebit'"),
    CHOICE("--compress=topk", "compress: 'topk:0.25'"),
    CHOICE("--compress=powersgd", "compress: 'powersgd:4'"),
    CHOICE("--data=local", "data: 'local'"),
    CHOICE("--data=root", "data: 'root'"),
    CHOICE("--batch=global", "batch: 'global'"),
    CHOICE("--shares=speed", "shares: 'speed'"),
    CHOICE("--shares=2:1:1:2", "shares: '2:1:1:2'"),
    CHOICE("--canonical", "canonical: true parts: 4"),
    CHOICE("--sync_bn", "sync_bn: true"),
    CHOICE("--deadline", "deadline: 5"),
    CHOICE("--groups", "groups: 2"),
    CHOICE("--servers", "servers: 1"),
    CHOICE("--bandwidth", "bandwidth: '1gbit'"),
    { "--gpu=all", "", true, false },
    { "--gpu=0 on some ranks", "", true, true },
};
const int dist_n_choices = sizeof(dist_choices) / sizeof(dist_choices[0]);

enum { RANKS = 4 };

void dist_choice_facts(const struct dist_choice *c, struct dist_facts *f)
{
    if (!c->gpus)
        return;
    f->met = f->learns = f->gpus = true;
    f->own_gpus        = !c->cpus;
    f->mixed = f->unlike = c->cpus;
}

/* Whether two choices are values of the same flag, which exclude each other. */
static bool same_flag(const struct dist_choice *a, const struct dist_choice *b)
{
    const size_t n = strcspn(a->flag, "=");

    return strcspn(b->flag, "=") == n && strncmp(a->flag, b->flag, n) == 0;
}

/* Whether two choices can be combined on four ranks of one host. */
static enum ct_status go_together(const struct dist_choice *a,
                                  const struct dist_choice *b, bool *out)
{
    struct dist_facts f = { .size = RANKS, .n_hosts = 1 };
    Caffe__DistributedParameter *o = NULL;
    struct ct_text text = { 0 };
    struct dist_plan p;
    enum ct_status st;

    ct_text_addf(&text, "%s %s", a->fields, b->fields);
    st = text.failed ? CT_ENOMEM
                     : ct_text_parse(&caffe__distributed_parameter__descriptor,
                                     text.s, text.n_bytes, "choices", &o);
    ct_text_fini(&text);
    CT_TRY(st);
    dist_choice_facts(a, &f);
    dist_choice_facts(b, &f);
    *out = dist_resolve(o, &f, &p) == CT_OK;
    ct_message_free(o);
    return CT_OK;
}

static enum ct_status add_row(struct ct_text *out, int i)
{
    ct_text_addf(out, "| `%s` |", dist_choices[i].flag);
    for (int k = 0; k < i; k++) {
        bool yes = false;

        if (same_flag(&dist_choices[i], &dist_choices[k])) {
            ct_text_add(out, " - |");
            continue;
        }
        CT_TRY(go_together(&dist_choices[i], &dist_choices[k], &yes));
        ct_text_addf(out, " %s |", yes ? "yes" : "no");
    }
    for (int k = i; k < dist_n_choices; k++)
        ct_text_add(out, " |");
    ct_text_add(out, "\n");
    return CT_OK;
}

enum ct_status dist_combinations(struct ct_text *out)
{
    struct dist_rule r;

    ct_text_add(out, "| |");
    for (int k = 0; k < dist_n_choices; k++)
        ct_text_addf(out, " `%s` |", dist_choices[k].flag);
    ct_text_add(out, "\n|---|");
    for (int k = 0; k < dist_n_choices; k++)
        ct_text_add(out, "---|");
    ct_text_add(out, "\n");
    for (int i = 0; i < dist_n_choices; i++)
        CT_TRY(add_row(out, i));
    ct_text_add(out, "\n| this | does not go with | because |\n"
                     "|---|---|---|\n");
    for (int i = 0; dist_rule_at(i, &r); i++)
        ct_text_addf(out, "| %s | %s | %s%s%s |\n", r.one, r.other, r.why,
                     r.instead ? "; " : "", r.instead ? r.instead : "");
    return out->failed ? CT_ENOMEM : CT_OK;
}
