/* permute.c - axes in another order, type "Permute" of SSD.
 *
 *     top axis i is bottom axis order[i]
 *
 * Axes that `order` does not name follow behind in the bottom's order.  An
 * order that changes nothing passes the bottom on; so does 0 2 3 1 of a bottom
 * whose channels lie innermost (NHWC), as those of SSD's predictions do on a
 * GPU. */
#include "cortado/layer.h"

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/permute.h"
#include "proto/params.h"

static enum ct_status permute_order(const struct ct_layer *l, int n_axes,
                                    int *order)
{
    const Caffe__PermuteParameter *p = ct_permute_param(l->param);
    bool used[CT_MAX_AXES] = { false };
    int n = 0;

    for (size_t i = 0; i < p->n_order; i++) {
        if (p->order[i] >= (uint32_t)n_axes)
            return ct_fail(CT_EINVAL, "layer %s: order names axis %u of a "
                           "bottom that has %d axes", l->name, p->order[i],
                           n_axes);
        if (used[p->order[i]])
            return ct_fail(CT_EINVAL, "layer %s: order names axis %u twice",
                           l->name, p->order[i]);
        used[p->order[i]] = true;
        order[n++]        = (int)p->order[i];
    }
    for (int i = 0; i < n_axes; i++)
        if (!used[i])
            order[n++] = i;
    return CT_OK;
}

static enum ct_status permute_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct ct_blob *x = io->bottom[0];
    struct permute *m = l->state;
    struct ct_shape y = x->shape;
    int order[CT_MAX_AXES];

    CT_TRY(permute_order(l, y.n_axes, order));
    m->same   = true;
    m->nhwc   = y.n_axes == 4 && order[0] == 0 && order[1] == 2 &&
                order[2] == 3;
    m->n_axes = y.n_axes;
    for (int i = 0; i < y.n_axes; i++) {
        m->same &= order[i] == i;
        y.dim[i]   = x->shape.dim[order[i]];
        m->dim[i]  = y.dim[i];
        m->step[i] = ct_count(x, order[i] + 1, CT_END);
    }
    m->same |= m->nhwc && x->data.layout == CT_NHWC;
    return ct_reshape(io->top[0], y);
}

/* Where row r of the top, a line of its last axis, begins in the bottom. */
static int64_t permute_start(const struct permute *m, int64_t r)
{
    int64_t at = 0;

    for (int i = m->n_axes - 2; i >= 0; i--) {
        at += r % m->dim[i] * m->step[i];
        r /= m->dim[i];
    }
    return at;
}

static enum ct_status permute_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct permute *m = l->state;
    const int last = m->n_axes - 1;
    const float *x = ct_data(io->bottom[0]);
    float *y = ct_data(io->top[0]);

    if (m->same)
        return ct_copy(l->dev, io->top[0]->count, x, y);
    CT_FOR_ROWS (r, ct_count(io->top[0], 0, last), m->dim[last]) {
        const float *from  = x + permute_start(m, r);
        const int64_t step = m->step[last], width = m->dim[last];

        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = from[i * step];
    }
    return CT_OK;
}

static enum ct_status permute_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    const struct permute *m = l->state;
    const int last = m->n_axes - 1;
    const float *dy = ct_diff(io->top[0]);
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    if (m->same)
        return ct_copy(l->dev, io->top[0]->count, dy, dx);
    CT_FOR_ROWS (r, ct_count(io->top[0], 0, last), m->dim[last]) {
        float *to          = dx + permute_start(m, r);
        const int64_t step = m->step[last], width = m->dim[last];

        for (int64_t i = 0; i < width; i++)
            to[i * step] = dy[r * width + i];
    }
    return CT_OK;
}

static bool permute_accepts(const struct ct_layer *l, const struct ct_io *io,
                            enum ct_layout layout)
{
    const struct permute *m = l->state;

    (void)io;
    return layout == CT_NHWC && m->nhwc && l->dev->kind == CT_CUDA;
}

const struct ct_layer_type ct_layer_permute = {
    .name       = "Permute",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP | CT_LAYER_PLAIN_TOPS,
    .state_size = sizeof(struct permute),
    .reshape    = permute_reshape,
    .forward    = { permute_forward, CT_CUDA_FN(permute_forward) },
    .backward   = { permute_backward, CT_CUDA_FN(permute_backward) },
    .accepts    = permute_accepts,
};
