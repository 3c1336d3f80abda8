/* mirror.c - copies of a GPU's arenas in CPU memory. */
#include "solver/mirror.h"

#include <stdint.h>

#include "base/mem.h"
#include "base/trace.h"
#include "device/stage.h"
#include "net/arena.h"
#include "solver/exchange.h"

/* Starting a copy below these sizes takes longer than the copy.  The first
 * group is small, so that peers get it early. */
enum { FIRST_BYTES = 256 << 10, GROUP_BYTES = 2 << 20 };

/* A group has whole layers, because a layer's backward pass completes all of
 * its gradients. */
static enum ct_status cut(struct ct_mirror *m, size_t group_bytes)
{
    const size_t most = group_bytes ? (group_bytes + 3) / sizeof(float)
                                    : SIZE_MAX;
    const size_t first = FIRST_BYTES / sizeof(float);
    const size_t least = GROUP_BYTES / sizeof(float);
    const struct ct_cut_policy policy = {
        .begin        = CT_ARENA_RIDERS,
        .first        = first < most ? first : most,
        .least        = least < most ? least : most,
        .whole_layers = true,
    };

    return ct_cut_init(&m->groups, m->net, &policy);
}

/* Finds for each layer the last group that is complete after its backward
 * pass. */
static void follow_layers(struct ct_mirror *m)
{
    for (int l = 0; l < ct_net_n_layers(m->net); l++) {
        m->of_layer[l] = -1;
        for (int i = 0; i < ct_net_n_params(m->net); i++)
            if (ct_net_param(m->net, i)->layer >= l &&
                m->groups.of_param[i] > m->of_layer[l])
                m->of_layer[l] = m->groups.of_param[i];
    }
}

static enum ct_status plan(struct ct_mirror *m, size_t group_bytes)
{
    const size_t n = (size_t)ct_net_n_params(m->net);

    CT_TRY(cut(m, group_bytes));
    CT_TRY(ct_alloc(n + 1, sizeof(*m->stays), "mirror", &m->stays));
    CT_TRY(ct_alloc((size_t)m->groups.n + 1, sizeof(*m->arrived), "mirror",
                    &m->arrived));
    CT_TRY(ct_alloc((size_t)ct_net_n_layers(m->net) + 1, sizeof(*m->of_layer),
                    "mirror", &m->of_layer));
    follow_layers(m);
    return CT_OK;
}

static enum ct_status allocate(struct ct_mirror *m, int n_history)
{
    const struct ct_device *d = m->dev;
    size_t bytes = ct_net_arena_count(m->net) * sizeof(float);

    CT_TRY(ct_stage_alloc(d, bytes, "parameters for peers", &m->data));
    CT_TRY(ct_stage_alloc(d, bytes, "gradients for peers", &m->diff));
    for (int h = 0; h < n_history; h++)
        CT_TRY(ct_stage_alloc(d, bytes, "history for peers", &m->history[h]));
    return ct_stage_create(d, m->groups.n, &m->stage);
}

enum ct_status ct_mirror_create(struct ct_net *net,
                                const struct ct_device *dev,
                                size_t group_bytes, float *const *history,
                                int n_history, struct ct_mirror **out)
{
    struct ct_mirror *m;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*m), "mirror", &m));
    m->net = net;
    m->dev = dev;
    for (int h = 0; h < n_history; h++)
        m->on_device[h] = history[h];
    CT_TRY_GOTO(plan(m, group_bytes), st, out);
    CT_TRY_GOTO(allocate(m, n_history), st, out);
    CT_TRY_GOTO(ct_mirror_get_history(m), st, out);
    *out = m;
    return CT_OK;
out:
    ct_mirror_destroy(m);
    return st;
}

void ct_mirror_destroy(struct ct_mirror *m)
{
    if (!m)
        return;
    ct_stage_destroy(m->stage);
    ct_stage_free(m->dev, m->data);
    ct_stage_free(m->dev, m->diff);
    for (int h = 0; h < 2; h++)
        ct_stage_free(m->dev, m->history[h]);
    ct_free(m->stays);
    ct_free(m->arrived);
    ct_free(m->of_layer);
    ct_cut_fini(&m->groups);
    ct_free(m);
}

void ct_mirror_expect(struct ct_mirror *m)
{
    ct_stage_expect(m->stage);
    for (int g = 0; g < m->groups.n; g++)
        m->arrived[g] = false;
}

typedef enum ct_status (*run_fn)(struct ct_mirror *m, size_t first, size_t n,
                                 const void *arg);

/* Calls `run` for the floats of group g that do not stay on the device, with as
 * few calls as possible. */
static enum ct_status each_run(struct ct_mirror *m, int g, run_fn run,
                               const void *arg)
{
    size_t first = m->groups.run[g].first, end = first;

    for (int k = m->groups.run[g].begin; k < m->groups.run[g].end; k++) {
        if (m->stays[m->groups.order[k]]) {
            CT_TRY(run(m, first, end - first, arg));
            first = ct_cut_end(&m->groups, m->net, k);
        }
        end = ct_cut_end(&m->groups, m->net, k);
    }
    return run(m, first, end - first, arg);
}

static enum ct_status out_run(struct ct_mirror *m, size_t first, size_t n,
                              const void *arg)
{
    (void)arg;
    return ct_stage_out(m->stage, n * sizeof(float),
                        ct_net_arena_diff(m->net) + first, m->diff + first);
}

void ct_mirror_keep(struct ct_mirror *m, int param, bool stays)
{
    m->stays[param] = stays;
}

struct ct_stage *ct_mirror_stage(const struct ct_mirror *m)
{
    return m->stage;
}

enum ct_status ct_mirror_queue(struct ct_mirror *m, int layer)
{
    if (layer == ct_net_n_layers(m->net) - 1) {
        m->n_queued = 0;
        CT_TRY(ct_stage_begin(m->stage));
    }
    for (; m->n_queued < m->groups.n &&
           m->groups.run[m->n_queued].layer >= layer; m->n_queued++) {
        CT_TRY(each_run(m, m->n_queued, out_run, NULL));
        CT_TRY(ct_stage_mark(m->stage, m->n_queued));
    }
    return layer == 0 ? ct_stage_join(m->stage) : CT_OK;
}

enum ct_status ct_mirror_wait(struct ct_mirror *m, int layer)
{
    const int g          = m->of_layer[layer];
    const uint64_t start = g < 0 ? 0 : ct_trace_begin();

    if (g >= 0)
        CT_TRY(ct_stage_wait(m->stage, g));
    ct_trace_end(start, CT_TRACE_COPY, "gradients from the GPU");
    return CT_OK;
}

/* Copies the sums of a run to the device.  `arg` points to the address of the
 * sums, which are laid out as the arena. */
static enum ct_status in_run(struct ct_mirror *m, size_t first, size_t n,
                             const void *arg)
{
    const float *const *sums = arg;

    return ct_stage_in(m->stage, n * sizeof(float), *sums + first,
                       ct_net_arena_diff(m->net) + first);
}

enum ct_status ct_mirror_arrive(struct ct_mirror *m, struct ct_exchange *x,
                                int param)
{
    const int g       = m->groups.of_param[param];
    const float *sums = m->diff, *sum;
    uint64_t start;

    if (m->arrived[g])
        return CT_OK;
    for (int k = m->groups.run[g].begin; k < m->groups.run[g].end; k++)
        CT_TRY(x->ops->wait(x, m->groups.order[k], &sum));
    m->arrived[g] = true;
    start = ct_trace_begin();
    CT_TRY(each_run(m, g, in_run, &sums));
    CT_TRY(ct_stage_follow_in(m->stage));
    ct_trace_end_about(start, CT_TRACE_COPY, "sums to the GPU",
                       (struct ct_trace_about){
                           .bytes = (int64_t)(m->groups.run[g].n *
                                              sizeof(float)) });
    return CT_OK;
}

static enum ct_status get(const struct ct_mirror *m, const float *from,
                          float *to)
{
    const struct ct_device *d = m->dev;

    return d->ops->to_host(d, ct_net_arena_count(m->net) * sizeof(*to), from,
                           to);
}

static enum ct_status put(const struct ct_mirror *m, size_t n,
                          const float *from, float *to)
{
    const struct ct_device *d = m->dev;

    return d->ops->from_host(d, n * sizeof(*to), from, to);
}

enum ct_status ct_mirror_get(struct ct_mirror *m)
{
    return m ? get(m, ct_net_arena_data(m->net), m->data) : CT_OK;
}

enum ct_status ct_mirror_put(struct ct_mirror *m)
{
    return m ? ct_mirror_put_run(m, 0, ct_net_arena_count(m->net)) : CT_OK;
}

enum ct_status ct_mirror_put_run(struct ct_mirror *m, size_t first, size_t n)
{
    return m ? put(m, n, m->data + first, ct_net_arena_data(m->net) + first)
             : CT_OK;
}

enum ct_status ct_mirror_get_history(struct ct_mirror *m)
{
    for (int h = 0; m && h < 2 && m->history[h]; h++)
        CT_TRY(get(m, m->on_device[h], m->history[h]));
    return CT_OK;
}

enum ct_status ct_mirror_put_history(struct ct_mirror *m)
{
    for (int h = 0; m && h < 2 && m->history[h]; h++)
        CT_TRY(put(m, ct_net_arena_count(m->net), m->history[h],
                   m->on_device[h]));
    return CT_OK;
}
