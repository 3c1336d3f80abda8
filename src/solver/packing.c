/* packing.c - when parameters are packed into the layouts of their layers
 * (net/packed.c).
 *
 * A solver that trains alone on the CPU packs them while it runs iterations.
 * To pack and unpack values, gradients and histories takes the time that a few
 * iterations gain, so a shorter run does not pack.  Parameters stay in Caffe's
 * layout with peers, and when a reader wants blobs after every step
 * (keep_blobs) or gradients (debug_info).  CORTADO_IMPL=params:plain never
 * packs, params:tiles packs for a single iteration, too. */
#include <limits.h>

#include "core/buffer.h"
#include "device/impl.h"
#include "net/arena.h"
#include "solver/solver_inner.h"

enum { PAYS = 8 }; /* the fewest iterations that make packing pay */

void solver_pack_init(struct ct_solver *s)
{
    if (s->options.exchange || s->options.keep_blobs ||
        s->options.device->kind != CT_CPU || s->param->debug_info ||
        !ct_impl_allowed("params", "tiles"))
        s->least_packed = INT_MAX;
    else
        s->least_packed = ct_impl_allowed("params", "plain") ? PAYS : 1;
}

/* Iterations until a test, a snapshot or the end (`end`) reads parameters. */
static int ahead(const struct ct_solver *s, int end)
{
    const int interval[] = { s->param->test_interval, s->param->snapshot };
    int n                = end - s->iter;

    for (int i = 0; i < 2; i++) {
        const int next = interval[i] > 0 ? interval[i] - s->iter % interval[i]
                                         : n;

        n = next < n ? next : n;
    }
    return n;
}

static enum ct_status set_packed(struct ct_solver *s, bool packed)
{
    float *history[2] = { NULL, NULL };

    for (int h = 0; h < s->rule->n_history; h++)
        history[h] = s->history[h]->ptr;
    return ct_net_pack(s->net, packed, history, s->rule->n_history);
}

enum ct_status solver_pack(struct ct_solver *s, int end)
{
    return ahead(s, end) < s->least_packed ? CT_OK : set_packed(s, true);
}

enum ct_status solver_unpack(struct ct_solver *s)
{
    return set_packed(s, false);
}
