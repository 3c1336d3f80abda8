/* packing.c - when parameters lie as the layers like them.
 *
 * That is so while a solver alone on the CPU runs iterations (net/packed.c).
 * It costs as much as a few iterations gain to bring values, gradients and
 * histories there and back, so it is not done for less.  With peers, and for
 * who looks at blobs after every step (keep_blobs) or at gradients
 * (debug_info), parameters stay in Caffe's order. CORTADO_IMPL=params:plain
 * leaves them there always, params:tiles never. */
#include <limits.h>

#include "core/buffer.h"
#include "device/impl.h"
#include "net/arena.h"
#include "solver/solver_inner.h"

enum { PAYS = 8 }; /* iterations, from which on it does */

void solver_pack_init(struct ct_solver *s)
{
    if (s->options.exchange || s->options.keep_blobs ||
        s->options.device->kind != CT_CPU || s->param->debug_info ||
        !ct_impl_allowed("params", "tiles"))
        s->least_packed = INT_MAX;
    else
        s->least_packed = ct_impl_allowed("params", "plain") ? PAYS : 1;
}

/* Iterations before somebody looks at parameters, `end` being the last. */
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

static enum ct_status turn(struct ct_solver *s, bool packed)
{
    float *history[2] = { NULL, NULL };

    for (int h = 0; h < s->rule->n_history; h++)
        history[h] = s->history[h]->ptr;
    return ct_net_pack(s->net, packed, history, s->rule->n_history);
}

enum ct_status solver_pack(struct ct_solver *s, int end)
{
    return ahead(s, end) < s->least_packed ? CT_OK : turn(s, true);
}

enum ct_status solver_unpack(struct ct_solver *s)
{
    return turn(s, false);
}
