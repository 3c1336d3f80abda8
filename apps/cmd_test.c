/* cmd_test.c - `cortado test`: runs a trained net over test batches and
 * averages its outputs.  Ranks deal the batches out. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "net_flags.h"
#include "peers.h"
#include "solver/score.h"

struct job {
    struct net_flags *flags;
    int               n_iter;
};

static void print_batch(const struct ct_net *net, int batch,
                        const double *value)
{
    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);

        for (int64_t j = 0; j < b->count; j++)
            CT_INFO("Batch %d, %s = %g", batch, ct_net_blob_name(net, id),
                    *value++);
    }
}

static void print_means(const struct ct_net *net, const double *sum, int n)
{
    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);
        double weight           = (double)ct_net_blob_loss_weight(net, id);

        for (int64_t j = 0; j < b->count; j++) {
            double mean = *sum++ / n;

            if (weight != 0)
                CT_INFO("%s = %g (* %g = %g loss)", ct_net_blob_name(net, id),
                        mean, weight, weight * mean);
            else
                CT_INFO("%s = %g", ct_net_blob_name(net, id), mean);
        }
    }
}

static enum ct_status check_means(const struct ct_net *net, const double *sum)
{
    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);

        for (int64_t j = 0; j < b->count; j++, sum++)
            if (isnan(*sum))
                return ct_fail(CT_ENAN, "output %s is not a number",
                               ct_net_blob_name(net, id));
    }
    return CT_OK;
}

/* Batches [k, k + n): a round in which every rank has one.  Logs each and adds
 * it to the sums, loss first. */
static enum ct_status round_of(struct ct_net *net, struct ct_exchange *x,
                               int k, int n, double **sum)
{
    struct ct_scores s = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(ct_scores_run(&s, net, x, (uint64_t)k, n, NULL, NULL), st,
                out);
    if (!*sum)
        CT_TRY_GOTO(ct_alloc((size_t)s.n + 1, sizeof(**sum), "scores", sum),
                    st, out);
    for (int i = 0; i < n; i++) {
        const double *row = s.row + i * (s.n + 1);

        print_batch(net, k + i, row + 1);
        for (int64_t j = 0; j <= s.n; j++)
            (*sum)[j] += row[j];
    }
out:
    ct_scores_fini(&s);
    return st;
}

static enum ct_status score(struct ct_net *net, struct ct_exchange *x,
                            int n_iter)
{
    const int most = x ? x->facts.size : 1;
    double *sum    = NULL;
    enum ct_status st = CT_OK;

    CT_INFO("Running for %d iterations.", n_iter);
    for (int k = 0; k < n_iter && st == CT_OK; k += most)
        st = round_of(net, x, k, n_iter - k < most ? n_iter - k : most, &sum);
    if (st == CT_OK) {
        CT_INFO("Loss: %g", sum[0] / n_iter);
        print_means(net, sum + 1, n_iter);
        st = check_means(net, sum + 1);
    }
    ct_free(sum);
    return st;
}

static enum ct_status run(struct ct_dist *d, void *arg)
{
    const struct job *j     = arg;
    struct ct_exchange *x   = ct_dist_exchange(d);
    struct ct_net_options o;
    struct ct_net *net = NULL;
    bool deals;
    enum ct_status st;

    CT_TRY(net_flags_apply(j->flags));
    o = net_flags_options(j->flags, CAFFE__PHASE__TEST);
    o.forward_only = true;
    o.fixed_params = true;
    o.rank         = ct_dist_rank(d);
    o.size         = ct_dist_size(d);
    o.deal_tests   = true;
    CT_TRY_GOTO(ct_net_create_file(j->flags->model, &o, &net), st, out);
    deals = x && ct_net_can_deal(net, NULL);
    if (x && !deals) { /* rank 0 reads everything */
        ct_net_destroy(net);
        net          = NULL;
        o.deal_tests = false;
        if (o.rank > 0)
            goto out;
        CT_TRY_GOTO(ct_net_create_file(j->flags->model, &o, &net), st, out);
    }
    CT_TRY_GOTO(ct_net_load(net, j->flags->weights), st, out);
    st = score(net, deals ? x : NULL, j->n_iter);
out:
    ct_net_destroy(net);
    return st;
}

int cmd_test(int argc, char **argv)
{
    struct net_flags f = { 0 };
    struct job job     = { &f, 50 };
    const struct flag flags[] = {
        FLAG("model", &f.model),
        FLAG("weights", &f.weights),
        FLAG("iterations", &job.n_iter),
        NET_FLAGS(f),
        FLAG_END,
    };
    bool helped;
    int code;

    if (!flags_parse(flags, &argc, argv,
                     &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 1 || !f.model || !f.weights || job.n_iter < 1) {
        fprintf(stderr, "cortado test: %s\n",
                argc != 1    ? "takes flags only"
                : !f.model   ? "needs --model, a net to score"
                : !f.weights ? "needs --weights, the trained parameters"
                             : "--iterations must be at least 1");
        return EXIT_USAGE;
    }
    code = peers_run(NULL, run, &job);
    net_flags_fini(&f);
    return code;
}
