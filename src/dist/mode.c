/* mode.c - which choices go together, and what they mean. */
#include "dist/mode.h"

#include <string.h>

#include "comm/ps/ps.h"
#include "cortado/log.h"
#include "dist/codec/codec.h"

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static enum ct_status check_words(const Caffe__DistributedParameter *o)
{
    if (!is(o->sync, "bsp") && !is(o->sync, "ssp") && !is(o->sync, "async") &&
        !is(o->sync, "local"))
        return ct_fail(CT_EINVAL, "--sync=%s: use bsp, ssp, async or local",
                       o->sync);
    if (!is(o->late, "discard") && !is(o->late, "fold") &&
        !is(o->late, "error"))
        return ct_fail(CT_EINVAL, "--late=%s: use discard, fold or error",
                       o->late);
    if (o->staleness < 0 || o->local_steps < 1 || o->servers < 0 ||
        o->groups < 1 || !(o->quorum >= 0 && o->quorum <= 1) ||
        !(o->deadline >= 0) || !(o->patience == 0 || o->patience >= 1))
        return ct_fail(CT_EINVAL, "staleness, servers and deadline cannot be "
                       "negative; local_steps, groups and patience start at "
                       "1, and quorum lies in [0, 1]");
    return CT_OK;
}

static enum ct_status check_servers(const Caffe__DistributedParameter *o,
                                    int size)
{
    if (o->servers >= size && o->servers > 0)
        return ct_fail(CT_EINVAL, "--servers=%d leaves no rank of %d to train",
                       o->servers, size);
    if (o->servers > 1 && is(o->road, "ps"))
        return ct_fail(CT_EINVAL, "--road=ps has one server; use "
                       "--road=sharded for --servers=%d", o->servers);
    if (o->groups > size - o->servers)
        return ct_fail(CT_EINVAL, "--groups=%d is more than the %d ranks that "
                       "train", o->groups, size - o->servers);
    return CT_OK;
}

/* Which codes go to servers, and which weights can be coded at all. */
static enum ct_status check_codec(const Caffe__DistributedParameter *o,
                                  const struct dist_mode *m)
{
    struct dist_codec codec;

    CT_TRY(dist_codec_parse(o->compress, &codec));
    if (!codec.type)
        return CT_OK;
    if (m->local_steps)
        return ct_fail(CT_ENOTSUP, "--compress=%s codes gradients, and "
                       "--sync=local sends none: it sends weights, every "
                       "--local_steps iterations; raise those to send less",
                       o->compress);
    if (m->ps && codec.type->reserve && !codec.type->push)
        return ct_fail(CT_ENOTSUP, "--compress=%s needs two sums an "
                       "iteration, the second made of the first, and a push "
                       "to servers is one; use --road=allreduce, or another "
                       "codec", o->compress);
    if (m->rounds && (codec.type->feedback || codec.type->reserve))
        return ct_fail(CT_ENOTSUP, "--compress=%s holds parts of gradients "
                       "back, and with a deadline a gradient may be thrown "
                       "away and its rank may miss a snapshot; use bf16, "
                       "fp16 or qsgd, which hold nothing back", o->compress);
    return CT_OK;
}

/* What makes no sense together. */
static enum ct_status check_pairs(const Caffe__DistributedParameter *o,
                                  const struct dist_mode *m)
{
    bool road_ok = is(o->road, "auto") || is(o->road, "ps") ||
                   is(o->road, "sharded");

    if (m->local_steps && (m->ps || o->groups > 1 || m->rounds))
        return ct_fail(CT_EINVAL, "--sync=local sums weights between ranks; "
                       "leave out --road, --servers, --groups and --deadline");
    if (m->ps && !road_ok)
        return ct_fail(CT_EINVAL, "--road=%s has no servers, which the other "
                       "flags ask for; use ps or sharded", o->road);
    if (m->rounds && (!is(o->sync, "bsp") || o->groups > 1))
        return ct_fail(CT_EINVAL, "--deadline and --patience are for "
                       "--sync=bsp without --groups");
    if (is(o->sync, "async") && o->groups > 1)
        return ct_fail(CT_EINVAL, "--groups has a bound, --staleness; use "
                       "--sync=ssp or bsp with it");
    if (is(o->sync, "bsp") && o->groups == 1 && o->staleness > 0)
        return ct_fail(CT_EINVAL, "--staleness=%d means --sync=ssp",
                       o->staleness);
    if (o->canonical && (m->values || m->local_steps))
        return ct_fail(CT_EINVAL, "--canonical keeps ranks in step; leave out "
                       "--sync, --groups and --deadline");
    if (is(o->data, "root") && (m->values || m->local_steps || o->servers))
        return ct_fail(CT_EINVAL, "--data=root keeps ranks in step; leave out "
                       "--sync, --servers, --groups and --deadline");
    if (!is(o->shares, "even") && m->local_steps)
        return ct_fail(CT_EINVAL, "--shares=%s divides the batches of ranks "
                       "in step; leave out --sync=local", o->shares);
    if (is(o->shares, "speed") && is(o->data, "root"))
        return ct_fail(CT_EINVAL, "--shares=speed needs data to measure with "
                       "on every rank; use --data=shared, or give weights");
    if (o->sync_bn && (m->values || m->local_steps))
        return ct_fail(CT_EINVAL, "--sync_bn keeps ranks in step; use it with "
                       "--sync=bsp and without --groups and --deadline");
    return check_codec(o, m);
}

enum ct_status dist_mode_choose(const Caffe__DistributedParameter *o, int size,
                                struct dist_mode *out)
{
    bool stale = is(o->sync, "ssp") || is(o->sync, "async") || o->groups > 1;
    bool road  = is(o->road, "ps") || is(o->road, "sharded");

    CT_TRY(check_words(o));
    CT_TRY(check_servers(o, size));
    *out = (struct dist_mode){ .n_workers = size - o->servers };
    out->rounds      = o->deadline > 0 || o->patience > 0;
    out->ps          = road || stale || o->servers > 0 || out->rounds;
    out->values      = stale || out->rounds;
    out->staleness   = is(o->sync, "async") ? CT_PS_ASYNC : o->staleness;
    out->local_steps = is(o->sync, "local") ? o->local_steps : 0;
    out->n_groups    = o->groups > 1 ? o->groups : out->n_workers;
    CT_TRY(check_pairs(o, out));
    if (!out->ps)
        return CT_OK;
    out->first_server = o->servers ? out->n_workers : 0;
    /* A rank that stands still must not be one that the others need. */
    out->n_servers = o->servers ? o->servers
                     : is(o->road, "ps") ||
                               (out->rounds && is(o->road, "auto"))
                         ? 1
                         : size;
    return CT_OK;
}

int dist_group_first(const struct dist_mode *m, int group)
{
    return (int)((int64_t)m->n_workers * group / m->n_groups);
}

int dist_group_of(const struct dist_mode *m, int rank)
{
    int g = 0;

    while (g + 1 < m->n_groups && dist_group_first(m, g + 1) <= rank)
        g++;
    return g;
}

void dist_mode_say(const struct dist_mode *m,
                   const Caffe__DistributedParameter *o)
{
    if (m->local_steps) {
        CT_INFO("%d ranks train by themselves; every %d iterations weights "
                "and history become their means", m->n_workers,
                m->local_steps);
        return;
    }
    if (!m->ps)
        return;
    CT_INFO("%d ranks train; %d server(s) on rank(s) %d to %d%s %s",
            m->n_workers, m->n_servers, m->first_server,
            m->first_server + m->n_servers - 1,
            o->servers ? ", which do not train," : "",
            m->values ? "keep the parameters and update them"
                      : "add up gradients");
    if (m->n_groups < m->n_workers)
        CT_INFO("%d groups, in step inside; between them at most %d "
                "iteration(s) apart", m->n_groups, m->staleness);
    else if (m->values && m->staleness == CT_PS_ASYNC)
        CT_INFO("Nobody waits: every gradient is applied when it comes");
    else if (m->values && !m->rounds)
        CT_INFO("A rank may be %d iteration(s) ahead of the slowest",
                m->staleness);
    if (m->rounds)
        CT_INFO("An iteration waits %g s and %g usual iterations for slow "
                "ranks, and until %g %% of the samples are in; late "
                "gradients: %s", o->deadline, o->patience,
                100 * (double)o->quorum, o->late);
}
