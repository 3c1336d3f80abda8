/* cmd_test.c - `cortado test`: runs a trained net over test batches and
 * averages its outputs. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net_flags.h"

struct scores {
    double *sum;
    int64_t n;
};

/* Logs one batch's outputs and adds them up. */
static enum ct_status add_batch(const struct ct_net *net, int batch,
                                struct scores *s)
{
    int64_t k = 0, n = 0;

    for (int i = 0; i < ct_net_n_outputs(net); i++)
        n += ct_net_blob(net, ct_net_output_id(net, i))->count;
    if (!s->sum) {
        s->n = n;
        CT_TRY(ct_alloc((size_t)n + 1, sizeof(*s->sum), "scores", &s->sum));
    }
    if (n != s->n)
        return ct_fail(CT_ESHAPE, "the outputs change size from batch to batch "
                       "and cannot be averaged");
    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);

        for (int64_t j = 0; j < b->count; j++, k++) {
            s->sum[k] += (double)ct_data(b)[j];
            CT_INFO("Batch %d, %s = %g", batch, ct_net_blob_name(net, id),
                    (double)ct_data(b)[j]);
        }
    }
    return CT_OK;
}

static void print_means(const struct ct_net *net, const struct scores *s,
                        int n)
{
    int64_t k = 0;

    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);
        double weight           = (double)ct_net_blob_loss_weight(net, id);

        for (int64_t j = 0; j < b->count; j++, k++) {
            double mean = s->sum[k] / n;

            if (weight != 0)
                CT_INFO("%s = %g (* %g = %g loss)", ct_net_blob_name(net, id),
                        mean, weight, weight * mean);
            else
                CT_INFO("%s = %g", ct_net_blob_name(net, id), mean);
        }
    }
}

static enum ct_status run(const struct net_flags *f, int n_iter)
{
    struct ct_net_options o = net_flags_options(f, CAFFE__PHASE__TEST);
    struct ct_net *net = NULL;
    struct scores s = { 0 };
    double loss = 0, part;
    enum ct_status st;

    o.forward_only = true;
    CT_TRY_GOTO(ct_net_create_file(f->model, &o, &net), st, out);
    CT_TRY_GOTO(ct_net_load(net, f->weights), st, out);
    CT_INFO("Running for %d iterations.", n_iter);
    for (int i = 0; i < n_iter; i++) {
        CT_TRY_GOTO(ct_net_forward(net, &part), st, out);
        loss += part;
        CT_TRY_GOTO(add_batch(net, i, &s), st, out);
    }
    CT_INFO("Loss: %g", loss / n_iter);
    if (s.sum)
        print_means(net, &s, n_iter);
out:
    ct_free(s.sum);
    ct_net_destroy(net);
    return st;
}

int cmd_test(int argc, char **argv)
{
    struct net_flags f = { 0 };
    int n_iter = 50;
    const struct flag flags[] = {
        { "model", FLAG_STRING, &f.model, "the net's prototxt (required)" },
        { "weights", FLAG_STRING, &f.weights, "a caffemodel (required)" },
        { "iterations", FLAG_INT, &n_iter, "batches to run (50)" },
        NET_FLAGS(f),
        { NULL, FLAG_END, NULL, NULL },
    };
    bool helped;
    enum ct_status st;

    if (!flags_parse(flags, "usage: cortado test --model=MODEL.prototxt "
                     "--weights=FILE.caffemodel [FLAGS]", &argc, argv,
                     &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 1 || !f.model || !f.weights || n_iter < 1) {
        fprintf(stderr, "cortado test: %s\n",
                argc != 1    ? "takes flags only"
                : !f.model   ? "needs --model, a net to score"
                : !f.weights ? "needs --weights, the trained parameters"
                             : "--iterations must be at least 1");
        return EXIT_USAGE;
    }
    st = net_flags_apply(&f);
    if (st == CT_OK)
        st = run(&f, n_iter);
    net_flags_fini(&f);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
