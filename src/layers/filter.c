/* filter.c - only the chosen items of a batch, Caffe type "Filter".
 *
 * The last bottom is the selector, one number an item: items with a number
 * other than 0 go from bottom i to top i, in order.  The top's first dimension
 * is known in forward only, and is 0 when nothing is chosen.  Backward gives
 * zero to items left out, and to the selector where a net asks for it. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "base/mem.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/filter.h"

static enum ct_status filter_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct filter *f = l->state;

    if (io->n_top != io->n_bottom - 1)
        return ct_fail(CT_EINVAL, "layer %s: Filter takes a top for each "
                       "bottom but the last, the selector: %d, not %d",
                       l->name, io->n_bottom - 1, io->n_top);
    return ct_layer_add_scratch(l, &f->chosen);
}

/* What a GPU's part needs on the host, for n items. */
static enum ct_status filter_host(struct filter *f, int64_t n)
{
    ct_free(f->selector);
    ct_free(f->place);
    f->selector = NULL;
    f->place    = NULL;
    CT_TRY(ct_alloc((size_t)n, sizeof(*f->selector), "selector",
                    &f->selector));
    return ct_alloc((size_t)n, sizeof(*f->place), "selector", &f->place);
}

static enum ct_status filter_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct filter *f = l->state;
    const struct ct_blob *s = io->bottom[io->n_bottom - 1];
    char text[256];

    if (s->shape.n_axes < 1 || s->count != s->shape.dim[0])
        return ct_fail(CT_ESHAPE, "layer %s: the selector is %s, and must be "
                       "one number an item", l->name,
                       ct_shape_text(&s->shape, text, sizeof(text)));
    CT_TRY(ct_reshape(f->chosen, CT_SHAPE(s->count)));
    if (l->dev->kind != CT_CPU)
        CT_TRY(filter_host(f, s->count));
    for (int i = 0; i < io->n_top; i++) {
        const struct ct_shape *x = &io->bottom[i]->shape;

        if (x->n_axes < 1 || x->dim[0] != s->count)
            return ct_fail(CT_ESHAPE, "layer %s: bottom %d is %s, and the "
                           "selector has %" PRId64 " items", l->name, i,
                           ct_shape_text(x, text, sizeof(text)), s->count);
        CT_TRY(ct_reshape(io->top[i], *x));
    }
    return CT_OK;
}

static enum ct_status filter_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    struct filter *f = l->state;
    const struct ct_blob *s = io->bottom[io->n_bottom - 1];
    int32_t *chosen = (int32_t *)ct_data(f->chosen);

    f->n_chosen = 0;
    for (int64_t n = 0; n < s->count; n++)
        chosen[n] = ct_data(s)[n] != 0 ? (int32_t)f->n_chosen++ : -1;
    for (int i = 0; i < io->n_top; i++) {
        const float *x    = ct_data(io->bottom[i]);
        struct ct_shape y = io->bottom[i]->shape;
        int64_t width     = ct_shape_count(&y, 1, CT_END);

        y.dim[0] = f->n_chosen;
        CT_TRY(ct_reshape(io->top[i], y));
        CT_FOR_ROWS (n, s->count, width)
            if (chosen[n] >= 0)
                memcpy(ct_data(io->top[i]) + chosen[n] * width, x + n * width,
                       (size_t)width * sizeof(*x));
    }
    return CT_OK;
}

static enum ct_status filter_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct filter *f = l->state;
    const struct ct_blob *s = io->bottom[io->n_bottom - 1];
    const int32_t *chosen = (const int32_t *)ct_data(f->chosen);

    if (io->want_grad[io->n_bottom - 1])
        CT_TRY(ct_fill(l->dev, s->count, 0, ct_diff(s)));
    for (int i = 0; i < io->n_top; i++) {
        const float *dy     = ct_diff(io->top[i]);
        float *dx           = ct_diff(io->bottom[i]);
        const int64_t width = ct_count(io->bottom[i], 1, CT_END);
        const size_t bytes  = (size_t)width * sizeof(*dx);

        if (!io->want_grad[i])
            continue;
        CT_FOR_ROWS (n, s->count, width) {
            if (chosen[n] >= 0)
                memcpy(dx + n * width, dy + chosen[n] * width, bytes);
            else
                memset(dx + n * width, 0, bytes);
        }
    }
    return CT_OK;
}

static void filter_teardown(struct ct_layer *l)
{
    struct filter *f = l->state;

    ct_free(f->selector);
    ct_free(f->place);
}

const struct ct_layer_type ct_layer_filter = {
    .name       = "Filter",
    .bottoms    = CT_AT_LEAST(2),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_CAPTURE,
    .state_size = sizeof(struct filter),
    .setup      = filter_setup,
    .reshape    = filter_reshape,
    .forward    = { filter_forward, CT_CUDA_FN(filter_forward) },
    .backward   = { filter_backward, CT_CUDA_FN(filter_backward) },
    .teardown   = filter_teardown,
};
