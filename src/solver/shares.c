/* shares.c - how many samples of a batch each rank takes.
 *
 * Ranks in step are as fast as the slowest of them.  Rank r with weight w_r
 * takes
 *
 *     b_r = B w_r / sum w        rounded; at least 1; their sum is B
 *
 * Weights are equal, given (2:1:1), or measured: the samples per second of each
 * rank while all ranks work.  Ranks differ, for example, if one has a GPU, or
 * if cores share units of a chip.  Each of two measurements builds a net and
 * drops it again.  The second one is needed because time per sample depends on
 * the number of samples.  If the first speeds differ by less than a third,
 * shares stay equal: such differences change from moment to moment. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "solver/solver_inner.h"

enum { LONGEST = 4 }; /* least passes of the slowest rank in a measurement */
double solver_share_seconds = 1; /* least duration of a measurement */
static const double alike = 4.0 / 3;

bool solver_has_shares(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    return x && x->facts.size > 1 && x->facts.shares != CT_SHARES_EVEN;
}

bool solver_measures_shares(const struct ct_solver *s)
{
    return solver_has_shares(s) &&
           s->options.exchange->facts.shares == CT_SHARES_SPEED;
}

/* Reads weights such as "2:1:1", one per rank. */
static enum ct_status read_weights(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    const char *text            = x->facts.weights;
    int n                       = 0;
    char *end;

    for (; n < x->facts.size; n++, text = end + 1) {
        s->shares.weights[n] = strtod(text, &end);
        if (end == text || !(s->shares.weights[n] > 0) ||
            !isfinite(s->shares.weights[n]) ||
            *end != (n + 1 < x->facts.size ? ':' : '\0'))
            return ct_fail(CT_EINVAL, "shares is \"%s\"; use even, speed, or "
                           "a weight above 0 for each of the %d ranks, as in "
                           "2:1:1", x->facts.weights, x->facts.size);
    }
    return CT_OK;
}

static enum ct_status make_weights(struct ct_solver *s)
{
    const size_t n = (size_t)s->options.exchange->facts.size;

    if (s->shares.weights)
        return CT_OK;
    CT_TRY(ct_alloc(n, sizeof(*s->shares.weights), "shares",
                    &s->shares.weights));
    CT_TRY(ct_alloc(n, sizeof(*s->shares.batches), "shares",
                    &s->shares.batches));
    for (size_t r = 0; r < n; r++)
        s->shares.weights[r] = 1;
    return solver_has_shares(s) && !solver_measures_shares(s) ? read_weights(s)
                                                              : CT_OK;
}

/* The rank that lacks most of its part; among equals the first one. */
static int neediest(const struct ct_solver *s, int n, int64_t whole,
                    double sum)
{
    int best    = 0;
    double most = -INFINITY;

    for (int r = 0; r < n; r++) {
        const double lack = (double)whole * s->shares.weights[r] / sum -
                            (double)s->shares.batches[r];

        if (lack > most) {
            most = lack;
            best = r;
        }
    }
    return best;
}

enum ct_status solver_deal_shares(struct ct_solver *s, int64_t whole)
{
    struct ct_exchange *x = s->options.exchange;
    double sum            = 0;
    int64_t left          = whole;
    bool even             = true;

    CT_TRY(make_weights(s));
    if (whole < x->facts.size)
        return ct_fail(CT_EINVAL, "a batch of %lld cannot be divided by %d "
                       "ranks", (long long)whole, x->facts.size);
    for (int r = 0; r < x->facts.size; r++)
        sum += s->shares.weights[r];
    for (int r = 0; r < x->facts.size; r++) {
        const double part =
            (double)(whole - x->facts.size) * s->shares.weights[r] / sum;

        s->shares.batches[r] = 1 + (int64_t)part;
        left -= s->shares.batches[r];
    }
    for (; left > 0; left--)
        s->shares.batches[neediest(s, x->facts.size, whole, sum)]++;
    for (int r = 0; r < x->facts.size; r++)
        even &= s->shares.batches[r] == s->shares.batches[0];
    s->shares.dealt = even ? NULL : s->shares.batches;
    return CT_OK;
}

static enum ct_status pass(struct ct_solver *s, struct ct_net *net)
{
    const struct ct_device *d = s->options.device;
    double loss;

    CT_TRY(ct_net_forward_backward(net, true, &loss));
    return d->ops->sync ? d->ops->sync(d) : CT_OK;
}

/* Gathers a number of every rank in s->shares.weights. */
static enum ct_status tell(struct ct_solver *s, double mine)
{
    return ct_exchange_gather(s->options.exchange, &mine, sizeof(mine),
                              s->shares.weights);
}

struct range {
    double least, most;
};

static struct range range_of(const double *x, int n)
{
    struct range out = { INFINITY, 0 };

    for (int i = 0; i < n; i++) {
        out.least = fmin(out.least, x[i]);
        out.most  = fmax(out.most, x[i]);
    }
    return out;
}

/* If shares are still equal and speeds differ little, makes weights equal. */
static void ignore_small_differences(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    const struct range speed    = range_of(s->shares.weights, x->facts.size);

    for (int r = 0; r < x->facts.size; r++)
        if (!s->shares.dealt && speed.most < alike * speed.least)
            s->shares.weights[r] = 1;
}

enum ct_status solver_time_ranks(struct ct_solver *s, struct ct_net *net)
{
    const struct ct_exchange *x = s->options.exchange;
    double start, end, until;
    int n = 0;

    CT_TRY(pass(s, net)); /* the first pass does work that later ones do not */
    CT_TRY(tell(s, 0));   /* a barrier */
    start = ct_now();
    CT_TRY(pass(s, net));
    CT_TRY(tell(s, ct_now() - start));
    until = fmax(solver_share_seconds,
                 LONGEST * range_of(s->shares.weights, x->facts.size).most);
    start = ct_now();
    do { /* all ranks work equally long, because they slow each other down */
        CT_TRY(pass(s, net));
        end = ct_now();
        n++;
    } while (end - start < until);
    CT_TRY(tell(s, n * (double)s->shares.batches[x->facts.rank] /
                       (end - start)));
    ignore_small_differences(s);
    return CT_OK;
}

void solver_say_shares(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;

    if (!x || !s->shares.dealt)
        return;
    for (int r = 0; r < x->facts.size; r++)
        if (solver_measures_shares(s))
            CT_INFO("Rank %d takes %lld samples of a batch: it trains %.4g per "
                    "second", r, (long long)s->shares.dealt[r],
                    s->shares.weights[r]);
        else
            CT_INFO("Rank %d takes %lld samples of a batch", r,
                    (long long)s->shares.dealt[r]);
}

double solver_weight(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    int64_t whole               = 0;

    if (!x || !s->shares.dealt)
        return 1;
    for (int r = 0; r < x->facts.size; r++)
        whole += s->shares.dealt[r];
    return (double)s->shares.dealt[x->facts.rank] * x->facts.size /
           (double)whole;
}
