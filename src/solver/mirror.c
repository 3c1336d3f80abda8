/* mirror.c - what lies on a GPU, in the CPU's memory. */
#include "solver/mirror.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/trace.h"
#include "device/stage.h"
#include "solver/exchange.h"

/* Copies below these sizes cost more to start than to make.  The first group
 * is small, so that peers have something to do early. */
enum { FIRST_BYTES = 256 << 10, GROUP_BYTES = 2 << 20 };

static int by_offset(const void *a, const void *b, void *arg)
{
    const struct ct_net *net = arg;
    size_t x = ct_net_param(net, *(const int *)a)->offset;
    size_t y = ct_net_param(net, *(const int *)b)->offset;

    return x < y ? -1 : x > y;
}

/* Where the parameter in place k of the arena ends: the next one's start. */
static size_t end_of(const struct ct_mirror *m, int k)
{
    return k + 1 < ct_net_n_params(m->net)
               ? ct_net_param(m->net, m->order[k + 1])->offset
               : ct_net_arena_count(m->net);
}

/* Layers are never cut: their backward completes all they have. */
static void cut(struct ct_mirror *m, size_t most)
{
    const int n  = ct_net_n_params(m->net);
    size_t first = CT_ARENA_RIDERS;

    for (int k = 0, begin = 0; k < n; k++) {
        int layer    = ct_net_param(m->net, m->order[k])->layer;
        size_t limit = m->n_groups ? GROUP_BYTES : FIRST_BYTES;
        size_t end   = end_of(m, k);
        bool full    = (end - first) * sizeof(float) >= limit ||
                    (most && (end - first) * sizeof(float) >= most);
        bool whole   = k + 1 == n ||
                     ct_net_param(m->net, m->order[k + 1])->layer != layer;

        m->of_param[m->order[k]] = m->n_groups;
        if (k + 1 < n && (!whole || !full))
            continue;
        m->group[m->n_groups++] = (struct mirror_group){
            first, end - first, begin, k + 1, layer, false };
        first = end;
        begin = k + 1;
    }
    for (int l = 0; l < ct_net_n_layers(m->net); l++) {
        m->of_layer[l] = -1;
        for (int i = 0; i < n; i++)
            if (ct_net_param(m->net, i)->layer >= l &&
                m->of_param[i] > m->of_layer[l])
                m->of_layer[l] = m->of_param[i];
    }
}

static enum ct_status plan(struct ct_mirror *m, size_t group_bytes)
{
    const size_t n = (size_t)ct_net_n_params(m->net);

    CT_TRY(ct_alloc(n + 1, sizeof(*m->order), "mirror", &m->order));
    CT_TRY(ct_alloc(n + 1, sizeof(*m->of_param), "mirror", &m->of_param));
    CT_TRY(ct_alloc(n + 1, sizeof(*m->apart), "mirror", &m->apart));
    CT_TRY(ct_alloc(n + 1, sizeof(*m->group), "mirror", &m->group));
    CT_TRY(ct_alloc((size_t)ct_net_n_layers(m->net) + 1, sizeof(*m->of_layer),
                    "mirror", &m->of_layer));
    for (size_t i = 0; i < n; i++)
        m->order[i] = (int)i;
    qsort_r(m->order, n, sizeof(*m->order), by_offset, m->net);
    cut(m, group_bytes);
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
    return ct_stage_create(d, m->n_groups, &m->stage);
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
    ct_free(m->apart);
    ct_free(m->group);
    ct_free(m->of_layer);
    ct_free(m->of_param);
    ct_free(m->order);
    ct_free(m);
}

void ct_mirror_expect(struct ct_mirror *m)
{
    ct_stage_expect(m->stage);
    for (int g = 0; g < m->n_groups; g++)
        m->group[g].arrived = false;
}

/* Calls `run` for the floats of group g that are not apart, as few runs as
 * can be. */
typedef enum ct_status (*run_fn)(struct ct_mirror *m, size_t first, size_t n,
                                 const void *arg);

static enum ct_status each_run(struct ct_mirror *m, int g, run_fn run,
                               const void *arg)
{
    size_t first = m->group[g].first, end = first;

    for (int k = m->group[g].begin; k < m->group[g].end; k++) {
        if (m->apart[m->order[k]]) {
            CT_TRY(run(m, first, end - first, arg));
            first = end_of(m, k);
        }
        end = end_of(m, k);
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

enum ct_status ct_mirror_queue(struct ct_mirror *m, int layer)
{
    if (layer == ct_net_n_layers(m->net) - 1) {
        m->n_queued = 0;
        CT_TRY(ct_stage_begin(m->stage));
    }
    for (; m->n_queued < m->n_groups &&
           m->group[m->n_queued].layer >= layer; m->n_queued++) {
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

/* What came for a run: the sums lie as the arena does, wherever they are. */
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
    const int g       = m->of_param[param];
    const float *sums = x->summed ? x->summed(x, -1) : m->diff;
    uint64_t start;

    if (m->group[g].arrived)
        return CT_OK;
    for (int k = m->group[g].begin; k < m->group[g].end; k++)
        CT_TRY(x->wait(x, m->order[k]));
    m->group[g].arrived = true;
    start = ct_trace_begin();
    CT_TRY(each_run(m, g, in_run, &sums));
    CT_TRY(ct_stage_follow_in(m->stage));
    ct_trace_end_about(start, CT_TRACE_COPY, "sums to the GPU",
                       (struct ct_trace_about){
                           .bytes = (int64_t)(m->group[g].n * sizeof(float)) });
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
