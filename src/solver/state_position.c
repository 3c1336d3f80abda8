/* state_position.c - the position of the training in its data.
 *
 * All ranks together take the samples of one endless sequence in order
 * (data/order.h).  A snapshot has the number of samples taken, so that a
 * training with another number of ranks or another batch continues with the
 * next sample:
 *
 *     sample of pass t = skew + t / share * step
 *
 * A step takes `step` samples over all ranks, in `share` passes of each rank.
 * The skew is 0 until ranks or batch change. */
#include <inttypes.h>

#include "cortado/log.h"
#include "net/training.h"
#include "proto/edit.h"
#include "solver/state.h"

/* More passes than this are an error in the file.  So many passes times the
 * samples of a batch fit into 64 bits. */
static const int64_t most_passes = (int64_t)1 << 40;

/* Canonical training divides the passes of a step among ranks: converts passes
 * of this rank to passes of all ranks. */
static int64_t passes_of_all(const struct ct_solver *s, int64_t mine)
{
    const struct ct_exchange *x = s->options.exchange;

    return x && x->facts.parts ? mine / x->facts.micro * x->facts.parts : mine;
}

/* Converts passes of all ranks to passes of this rank. */
static int64_t passes_of_mine(const struct ct_solver *s, int64_t all)
{
    const struct ct_exchange *x = s->options.exchange;

    return x && x->facts.parts ? all / x->facts.parts * x->facts.micro : all;
}

static int n_ranks(const struct ct_solver *s)
{
    return s->options.exchange ? s->options.exchange->facts.size : 1;
}

/* Samples of one step over all ranks, and passes of a step on this rank.  If
 * each rank has its own source, only its own samples count.  *step 0:
 * unknown. */
static void find_step(const struct ct_solver *s, int64_t *step, int64_t *share)
{
    const struct ct_exchange *x = s->options.exchange;
    int64_t mine, all;

    solver_count_samples(s, &mine, &all);
    *share = x && x->facts.micro ? x->facts.micro : 1;
    *step  = x && x->facts.own_data ? mine : all;
    if (*share == 1)
        *step /= s->param->iter_size;
}

int64_t solver_samples(const struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    int64_t step, share, skew = ct_net_skew(s->net);

    find_step(s, &step, &share);
    if (step == 0)
        return 0;
    skew += (int64_t)ct_net_n_passes(s->net) / share * step;
    return x && x->facts.own_data ? skew * x->facts.size : skew;
}

/* Batches of test net i that all ranks have run.  Without dealing, passes are
 * counted by the net, because a program may have run it outside of tests. */
static int64_t n_tested(const struct ct_solver *s, int i)
{
    return (int64_t)(s->tests.deals ? s->tests.n_batches[i]
                                    : ct_net_n_passes(s->tests.net[i]));
}

enum ct_status solver_position_take(const struct ct_solver *s,
                                    Caffe__SolverState *m)
{
    const size_t n_nets = (size_t)s->tests.n + 1;
    int64_t mine;

    CT_TRY(ct_edit_resize(&m->n_passes, n_nets, sizeof(*m->n_passes)));
    m->n_n_passes = n_nets;
    /* In canonical training the passes of all ranks are kept, because another
     * number of ranks divides them differently. */
    m->n_passes[0] = passes_of_all(s, (int64_t)ct_net_n_passes(s->net));
    for (int i = 0; i < s->tests.n; i++)
        m->n_passes[i + 1] = n_tested(s, i);
    m->samples     = solver_samples(s);
    m->has_samples = m->has_batch = m->samples > 0;
    solver_count_samples(s, &mine, &m->batch);
    m->n_ranks     = n_ranks(s);
    m->has_n_ranks = true;
    return CT_OK;
}

static void say_batch(const struct ct_solver *s, const Caffe__SolverState *m)
{
    int64_t mine, all;

    solver_count_samples(s, &mine, &all);
    if (!m->has_batch || all == 0 || all == m->batch)
        return;
    CT_WARN("An iteration took %" PRId64 " samples of %d rank(s) before this "
            "snapshot and takes %" PRId64 " of %d from here on; training goes "
            "on at sample %" PRId64 ", with the solver's learning rate",
            m->batch, m->n_ranks, all, n_ranks(s), m->samples);
}

/* The skew for this number of ranks and this batch, which may differ from those
 * of the snapshot. */
static int64_t skew_of(const struct ct_solver *s, const Caffe__SolverState *m,
                       int64_t n_passes, int64_t *step)
{
    const struct ct_exchange *x = s->options.exchange;
    int64_t share, samples = m->samples;

    find_step(s, step, &share);
    if (!m->has_samples || *step == 0)
        return 0;
    if (x && x->facts.own_data && m->n_ranks > 0)
        samples /= m->n_ranks;
    return samples - n_passes / share * *step;
}

enum ct_status solver_position_put(struct ct_solver *s,
                                   const Caffe__SolverState *m)
{
    int64_t n_passes, skew, step = 0;

    for (size_t i = 0; i < m->n_n_passes; i++)
        if (m->n_passes[i] < 0 || m->n_passes[i] > most_passes)
            return ct_fail(CT_EPARSE, "it counts %" PRId64 " passes of net "
                           "%zu", m->n_passes[i], i);
    if (m->samples < 0 || m->batch < 0 || m->n_ranks < 0 ||
        m->samples > INT64_MAX / 4)
        return ct_fail(CT_EPARSE, "it counts %" PRId64 " samples, %" PRId64
                       " of an iteration on %d ranks", m->samples, m->batch,
                       m->n_ranks);
    ct_net_reseed(s->net, s->seed);
    if (m->n_n_passes > 0) {
        n_passes = passes_of_mine(s, m->n_passes[0]);
        say_batch(s, m);
        skew = skew_of(s, m, n_passes, &step);
        ct_net_set_skew(s->net, skew, step);
        CT_TRY(ct_net_seek(s->net, (uint64_t)n_passes));
    }
    for (size_t i = 1; i < m->n_n_passes && i <= (size_t)s->tests.n; i++) {
        ct_net_reseed(s->tests.net[i - 1], s->seed);
        CT_TRY(solver_test_seek(s, (int)i - 1, (uint64_t)m->n_passes[i]));
    }
    return CT_OK;
}
