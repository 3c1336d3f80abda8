/* tune.c - measures all algorithms at a few sizes and keeps the fastest for
 * each size.
 *
 * The time for a size is the least of some repeats, averaged over ranks.  On
 * slow links there is no time to measure long sums, for which other algorithms
 * are better than for short ones.  Their times are predicted by the formulas of
 * the algorithms (terms.h), with the latency and the time per byte that fit the
 * measurements best.  If the measured times are nearly all latency, long sums
 * cannot be predicted, and the usual algorithm is taken.
 *
 * Between two sizes the choice changes at their geometric mean; above the
 * largest size it does not change.  All ranks use the table of rank 0, so that
 * they always run the same algorithm. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll/tune.h"

enum { REPEATS = 3, GROWTH = 8 };

static const int64_t tune_floats[CT_TUNE_SIZES] = { 256, 4 << 10, 64 << 10,
                                                    512 << 10, 4 << 20 };

/* The time of the usual algorithm is multiplied by this, so that it is kept
 * unless another one is clearly faster: then runs choose equally. */
static const double usual_gets = 0.9;

/* The time per byte is known if the bytes of the longest message took at least
 * this part of its latency. */
static const double bytes_tell = 0.2;

static enum ct_status tune_time(struct ct_comm *c,
                                const struct ct_allreduce_type *type, float *x,
                                int64_t n, double *out)
{
    double best = INFINITY;

    for (int i = 0; i <= REPEATS; i++) { /* the first one warms up */
        double start;

        CT_TRY(ct_barrier(c));
        start = ct_now();
        CT_TRY(type->run(c, x, n));
        if (i > 0)
            best = fmin(best, ct_now() - start);
    }
    *out = best;
    return CT_OK;
}

/* The fastest algorithm, or the usual one if it is nearly as fast. */
static int tune_best(const struct ct_comm *c, int64_t n, const double *seconds)
{
    double least = INFINITY;
    int best     = -1;

    for (int i = 0; i < CT_N_ALLREDUCE; i++) {
        const struct ct_allreduce_type *type = ct_allreduce_at(i);
        const bool usual  = type == ct_allreduce_choose(c, n);
        const double time = usual ? usual_gets * seconds[i] : seconds[i];

        if (seconds[i] >= 0 && !type->foreign && time < least) {
            least = time;
            best  = i;
        }
    }
    return best;
}

static enum ct_status tune_size(struct ct_comm *c, float *x, int64_t n,
                                struct ct_tuning *out)
{
    const int at = out->n_sizes++;
    float mean[CT_N_ALLREDUCE];

    out->size[at].n = n;
    for (int i = 0; i < CT_N_ALLREDUCE; i++) {
        const struct ct_allreduce_type *type = ct_allreduce_at(i);
        double seconds = -1;

        if (ct_allreduce_available(c, type)) {
            enum ct_status st = tune_time(c, type, x, n, &seconds);

            if (st != CT_OK && st != CT_ENOTSUP)
                return st;
        }
        mean[i] = (float)(seconds / c->size);
    }
    CT_TRY(ct_allreduce_find("tree")->run(c, mean, CT_N_ALLREDUCE));
    for (int i = 0; i < CT_N_ALLREDUCE; i++)
        out->size[at].seconds[i] = mean[i] < 0 ? -1 : (double)mean[i];
    out->size[at].best = tune_best(c, n, out->size[at].seconds);
    return CT_OK;
}

static double predicted(const struct ct_comm *c, int type, int64_t n,
                        double alpha, double beta)
{
    const struct ct_links links = { .alpha = alpha, .beta = beta };

    return ct_allreduce_cost(ct_allreduce_at(type), &links, &c->place,
                             (double)n).seconds;
}

/* Finds alpha and beta by least squares of relative errors.  A time s is
 * s u alpha + s v beta, so u alpha + v beta should be 1. */
static void fit(const struct ct_comm *c, const struct ct_tuning *t,
                double *alpha, double *beta)
{
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0, det;

    for (int k = 0; k < t->n_sizes; k++)
        for (int i = 0; i < CT_N_ALLREDUCE; i++) {
            const double s = t->size[k].seconds[i];
            const double u = predicted(c, i, t->size[k].n, 1, 0) / s;
            const double v = predicted(c, i, t->size[k].n, 0, 1) / s;

            if (!(s > 0) || ct_allreduce_at(i)->foreign)
                continue;
            uu += u * u;
            uv += u * v;
            vv += v * v;
            u1 += u;
            v1 += v;
        }
    det    = uu * vv - uv * uv;
    *alpha = det > 0 ? fmax((u1 * vv - v1 * uv) / det, 0) : 0;
    *beta  = det > 0 ? fmax((v1 * uu - u1 * uv) / det, 0) : 0;
}

static int number_of(const struct ct_allreduce_type *type)
{
    int i = 0;

    while (ct_allreduce_at(i) != type)
        i++;
    return i;
}

void ct_tuning_predict(const struct ct_comm *c, int n, struct ct_tuning *t)
{
    const int64_t last = t->size[t->n_sizes - 1].n;
    double alpha, beta;
    bool known;

    fit(c, t, &alpha, &beta);
    known = beta * (double)last * sizeof(float) > bytes_tell * alpha;
    for (t->n_known = t->n_sizes; t->n_known < n; t->n_known++) {
        double *seconds = t->size[t->n_known].seconds;
        const int64_t n_floats = tune_floats[t->n_known];

        for (int i = 0; i < CT_N_ALLREDUCE; i++)
            seconds[i] = t->size[0].seconds[i] < 0
                             ? -1
                             : predicted(c, i, n_floats, alpha, beta);
        t->size[t->n_known].n = n_floats;
        t->size[t->n_known].best =
            known ? tune_best(c, n_floats, seconds)
                  : number_of(ct_allreduce_choose(c, n_floats));
    }
}

static bool is_sound(const struct ct_tuning *t)
{
    bool sound = t->n_sizes >= 1 && t->n_sizes <= t->n_known &&
                 t->n_known <= CT_TUNE_SIZES;

    for (int i = 0; sound && i < t->n_known; i++)
        sound = t->size[i].n == tune_floats[i] && t->size[i].best >= 0 &&
                t->size[i].best < CT_N_ALLREDUCE &&
                !ct_allreduce_at(t->size[i].best)->foreign;
    return sound;
}

enum ct_status ct_tuning_take(struct ct_comm *c, const struct ct_tuning *t)
{
    c->n_choices = 0;
    if (!is_sound(t))
        return ct_fail(CT_ECOMM, "rank 0 sent times of sums that make no "
                       "sense; do all ranks run the same version?");
    for (int i = 0; i < t->n_known; i++) {
        double here = (double)t->size[i].n * sizeof(float);
        double next = i + 1 < t->n_known
                          ? (double)t->size[i + 1].n * sizeof(float)
                          : INFINITY;

        c->choice[c->n_choices++] = (struct ct_choice){
            sqrt(here * next), ct_allreduce_at(t->size[i].best) };
    }
    return CT_OK;
}

enum ct_status ct_allreduce_tune(struct ct_comm *c, int64_t most,
                                 double budget_seconds, struct ct_tuning *out)
{
    double begin = ct_now(), last;
    int go_on = 1, n = 1;
    float *x  = NULL;
    enum ct_status st;

    memset(out, 0, sizeof(*out));
    c->n_choices = 0;
    while (n < CT_TUNE_SIZES && tune_floats[n - 1] < most)
        n++;
    CT_TRY(ct_alloc((size_t)tune_floats[n - 1], sizeof(*x), "comm sweep",
                    &x));
    for (int i = 0; i < n && go_on; i++) {
        last = ct_now();
        CT_TRY_GOTO(tune_size(c, x, tune_floats[i], out), st, out);
        last  = GROWTH * (ct_now() - last); /* estimate for the next size */
        go_on = ct_now() - begin + last < budget_seconds;
        CT_TRY_GOTO(ct_broadcast(c, 0, &go_on, sizeof(go_on)), st, out);
    }
    ct_tuning_predict(c, n, out);
    CT_TRY_GOTO(ct_broadcast(c, 0, out, sizeof(*out)), st, out);
    st = ct_tuning_take(c, out);
out:
    ct_free(x);
    return st;
}
