/* detect.c - average precision of a detector. */
#include "solver/detect.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"

enum { ROW = 5 };

enum ct_status ct_ap_version_check(const char *version)
{
    if (strcmp(version, "11point") != 0 &&
        strcmp(version, "MaxIntegral") != 0 &&
        strcmp(version, "Integral") != 0)
        return ct_fail(CT_EINVAL, "ap_version is \"%s\"; use 11point, "
                       "MaxIntegral or Integral", version);
    return CT_OK;
}

static enum ct_status add(struct ct_detections *d, struct ct_detection one)
{
    if (d->n == d->room) {
        const int64_t room = 2 * d->room + 1024;
        void *more = ct_realloc(d->at, (size_t)room * sizeof(*d->at),
                                "detections");

        if (!more)
            return CT_ENOMEM;
        d->at   = more;
        d->room = room;
    }
    d->at[d->n++] = one;
    return CT_OK;
}

static enum ct_status take_output(struct ct_detections *d, int output,
                                  int batch, const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++, row += ROW) {
        struct ct_detection one = {
            .score = (double)row[2], .output = output, .label = (int32_t)row[1],
            .batch = batch, .index = (int32_t)i, .right = row[3] > 0,
        };

        if (row[0] < 0) {
            one.right    = -1;
            one.n_truths = (int32_t)row[2];
        } else if (row[3] == 0 && row[4] == 0) {
            continue; /* a difficult truth was found; it does not count */
        }
        CT_TRY(add(d, one));
    }
    return CT_OK;
}

static enum ct_status take_batch(void *arg, struct ct_net *net, int k,
                                 double loss)
{
    struct ct_detections *d = arg;
    float *room             = NULL;
    enum ct_status st;

    st = add(d, (struct ct_detection){ .score = loss, .output = -1,
                                       .batch = k });
    for (int i = 0; i < ct_net_n_outputs(net) && st == CT_OK; i++) {
        int id                  = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);
        const float *value;

        if (b->shape.n_axes < 1 || b->shape.dim[b->shape.n_axes - 1] != ROW)
            st = ct_fail(CT_EINVAL, "eval_type is detection, but output %s is "
                         "not that of a DetectionEvaluate layer",
                         ct_net_blob_name(net, id));
        else
            st = ct_blob_read(b, &room, &value);
        if (st == CT_OK)
            st = take_output(d, i, k, value, b->count / ROW);
    }
    ct_free(room);
    return st;
}

/* Gathers the rows of all ranks. */
static enum ct_status share(struct ct_detections *d, struct ct_exchange *x)
{
    int64_t mine = d->n, total = 0, *count = NULL;
    struct ct_detection *all = NULL;
    size_t *bytes            = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc((size_t)x->facts.size, sizeof(*count), "detections",
                         &count), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)x->facts.size, sizeof(*bytes), "detections",
                         &bytes), st, out);
    CT_TRY_GOTO(ct_exchange_gather(x, &mine, sizeof(mine), count), st, out);
    for (int r = 0; r < x->facts.size; r++) {
        bytes[r] = (size_t)count[r] * sizeof(*all);
        total += count[r];
    }
    CT_TRY_GOTO(ct_alloc((size_t)total + 1, sizeof(*all), "detections", &all),
                st, out);
    CT_TRY_GOTO(x->job->gather(x, d->at, bytes, all), st, out);
    ct_free(d->at);
    d->at = all;
    d->n = d->room = total;
    all            = NULL;
out:
    ct_free(all);
    ct_free(bytes);
    ct_free(count);
    return st;
}

/* For qsort(): by output, then by class.  Within a class the numbers of truths
 * come first, then detections by falling score.  The order does not depend on
 * the number of ranks. */
static int in_order(const void *a, const void *b)
{
    const struct ct_detection *x = a, *y = b;

    if (x->output != y->output)
        return x->output < y->output ? -1 : 1;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    if ((x->right < 0) != (y->right < 0))
        return x->right < 0 ? -1 : 1;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->batch != y->batch)
        return x->batch < y->batch ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

enum ct_status ct_detections_run(struct ct_detections *d, struct ct_net *net,
                                 struct ct_exchange *x, uint64_t first, int n,
                                 bool (*pause)(void *arg), void *arg)
{
    const struct ct_batch_taker taker = { take_batch, d, pause, arg };

    *d = (struct ct_detections){ 0 };
    CT_TRY(ct_batches_take(net, x, first, n, &taker));
    if (x && x->facts.size > 1)
        CT_TRY(share(d, x));
    if (d->n > 0)
        qsort(d->at, (size_t)d->n, sizeof(*d->at), in_order);
    return CT_OK;
}

void ct_detections_fini(struct ct_detections *d)
{
    ct_free(d->at);
    *d = (struct ct_detections){ 0 };
}

/* A point of the curve: the values after one more detection. */
struct curve {
    double precision, recall;
};

static struct curve curve_at(int64_t n_right, int64_t i, int64_t n_truths)
{
    return (struct curve){ (double)n_right / (double)(i + 1),
                           (double)n_right / (double)n_truths };
}

/* The highest precision at a recall of at least `least`. */
static double best_from(int64_t n, const struct ct_detection *best,
                        int64_t n_truths, double least)
{
    double top      = 0;
    int64_t n_right = 0;

    for (int64_t i = 0; i < n; i++) {
        struct curve c = curve_at(n_right += best[i].right, i, n_truths);

        if (c.recall >= least && c.precision > top)
            top = c.precision;
    }
    return top;
}

double ct_average_precision(const char *ap_version, int64_t n,
                            const struct ct_detection *best, int64_t n_truths)
{
    double ap = 0, top = 0;
    int64_t n_right = 0;

    if (n == 0 || n_truths == 0)
        return 0;
    if (strcmp(ap_version, "11point") == 0) {
        for (int k = 0; k <= 10; k++)
            ap += best_from(n, best, n_truths, k / 10.0) / 11;
        return ap;
    }
    for (int64_t i = 0; i < n; i++)
        n_right += best[i].right;
    /* Recall rises by 1 / n_truths at each right detection.  The loop starts at
     * the end, so that the highest precision at a higher recall is known. */
    for (int64_t i = n - 1; i >= 0; i--) {
        struct curve c = curve_at(n_right, i, n_truths);

        if (strcmp(ap_version, "Integral") == 0 || c.precision > top)
            top = c.precision;
        if (best[i].right) {
            ap += top / (double)n_truths;
            n_right--;
        }
    }
    return ap;
}

double ct_detections_map(const struct ct_detections *d, int output,
                         const char *ap_version, bool by_class)
{
    double sum       = 0;
    int64_t n_labels = 0, i = 0;

    while (i < d->n) {
        const int32_t label = d->at[i].label;
        const int64_t begin = i;
        int64_t n_truths = 0, first;
        bool counted;
        double ap;

        if (d->at[i].output != output) {
            i++;
            continue;
        }
        for (; i < d->n && d->at[i].output == output &&
               d->at[i].label == label && d->at[i].right < 0; i++)
            n_truths += d->at[i].n_truths;
        counted = i > begin;
        first   = i;
        while (i < d->n && d->at[i].output == output &&
               d->at[i].label == label)
            i++;
        if (!counted)
            continue; /* no number of truths: the background, or no class */
        if (i == first)
            CT_WARN("Missing true_pos for label: %d", label);
        ap = ct_average_precision(ap_version, i - first, d->at + first,
                                  n_truths);
        if (by_class && i > first)
            CT_INFO("class%d: %g", label, ap);
        sum += ap;
        n_labels++;
    }
    return n_labels ? sum / (double)n_labels : 0;
}

double ct_detections_loss(const struct ct_detections *d)
{
    double sum = 0;
    int64_t n  = 0;

    for (; n < d->n && d->at[n].output < 0; n++)
        sum += d->at[n].score;
    return n ? sum / (double)n : 0;
}
