/* score.c - the outputs of a net, batch by batch. */
#include "solver/score.h"

#include <string.h>

#include "base/mem.h"
#include "net/training.h"

static int64_t n_values(const struct ct_net *net)
{
    int64_t n = 0;

    for (int i = 0; i < ct_net_n_outputs(net); i++)
        n += ct_net_blob(net, ct_net_output_id(net, i))->count;
    return n;
}

uint64_t ct_scores_passes(uint64_t n, int rank, int size)
{
    return (n + (uint64_t)(size - 1 - rank)) / (uint64_t)size;
}

/* The scores that are being filled. */
struct filling {
    struct ct_scores *scores;
    double           *row; /* the next one */
};

static enum ct_status take_row(void *arg, struct ct_net *net, int k,
                               double loss)
{
    struct filling *f = arg;
    float *room       = NULL;
    enum ct_status st = CT_OK;

    (void)k;
    *f->row++ = loss;
    if (n_values(net) != f->scores->n)
        return ct_fail(CT_ESHAPE, "the outputs change size from batch to batch "
                       "and cannot be averaged (detections are scored with "
                       "eval_type: \"detection\" in the solver)");
    for (int i = 0; i < ct_net_n_outputs(net) && st == CT_OK; i++) {
        const struct ct_blob *b = ct_net_blob(net, ct_net_output_id(net, i));
        const float *value;

        st = ct_blob_read(b, &room, &value);
        for (int64_t j = 0; j < b->count && st == CT_OK; j++)
            *f->row++ = (double)value[j];
    }
    ct_free(room);
    return st;
}

/* Gathers the rows of all ranks and puts them into the order of batches. */
static enum ct_status share(struct ct_scores *s, struct ct_exchange *x,
                            uint64_t first, int n)
{
    const size_t width = (size_t)(s->n + 1);
    size_t *bytes = NULL, *at = NULL;
    double *all = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc((size_t)x->facts.size, sizeof(*bytes), "scores",
                         &bytes), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)x->facts.size, sizeof(*at), "scores", &at), st,
                out);
    CT_TRY_GOTO(ct_alloc((size_t)n * width + 1, sizeof(*all), "scores", &all),
                st, out);
    for (int r = 0; r < x->facts.size; r++) {
        size_t mine = (size_t)(ct_scores_passes(first + (uint64_t)n, r,
                                                x->facts.size) -
                               ct_scores_passes(first, r, x->facts.size));

        bytes[r] = mine * width * sizeof(*all);
        if (r + 1 < x->facts.size)
            at[r + 1] = at[r] + mine * width;
    }
    CT_TRY_GOTO(x->job->gather(x, s->row, bytes, all), st, out);
    for (int k = 0; k < n; k++) {
        int r = (int)((first + (uint64_t)k) % (uint64_t)x->facts.size);

        memcpy(s->row + (size_t)k * width, all + at[r], width * sizeof(*all));
        at[r] += width;
    }
out:
    ct_free(bytes);
    ct_free(at);
    ct_free(all);
    return st;
}

enum ct_status ct_batches_take(struct ct_net *net,
                               const struct ct_exchange *x, uint64_t first,
                               int n, const struct ct_batch_taker *t)
{
    const int size = x ? x->facts.size : 1, rank = x ? x->facts.rank : 0;
    const uint64_t pass = ct_scores_passes(first, rank, size);
    double loss;

    if (ct_net_n_passes(net) != pass)
        CT_TRY(ct_net_seek(net, pass));
    for (int k = 0; k < n; k++) {
        if (t->pause && t->pause(t->pause_arg))
            return CT_ESTOP;
        if ((first + (uint64_t)k) % (uint64_t)size != (uint64_t)rank)
            continue;
        CT_TRY(ct_net_forward(net, &loss));
        CT_TRY(t->take(t->arg, net, k, loss));
    }
    return CT_OK;
}

enum ct_status ct_scores_run(struct ct_scores *s, struct ct_net *net,
                             struct ct_exchange *x, uint64_t first, int n,
                             bool (*pause)(void *arg), void *arg)
{
    struct filling f                  = { s, NULL };
    const struct ct_batch_taker taker = { take_row, &f, pause, arg };

    *s = (struct ct_scores){ .n = n_values(net) };
    CT_TRY(ct_alloc((size_t)n * (size_t)(s->n + 1) + 1, sizeof(*s->row),
                    "scores", &s->row));
    f.row = s->row;
    CT_TRY(ct_batches_take(net, x, first, n, &taker));
    if (x && x->facts.size > 1)
        CT_TRY(share(s, x, first, n));
    s->n_batches = n;
    return CT_OK;
}

void ct_scores_fini(struct ct_scores *s)
{
    ct_free(s->row);
    *s = (struct ct_scores){ 0 };
}

double ct_scores_mean(const struct ct_scores *s, int64_t i)
{
    double sum = 0;

    for (int k = 0; k < s->n_batches; k++)
        sum += s->row[k * (s->n + 1) + 1 + i];
    return s->n_batches ? sum / s->n_batches : 0;
}
