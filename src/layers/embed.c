/* embed.c - a learned vector for each index, Caffe type "Embed".
 *
 *     y[..., :] = W[x[...], :] + b
 *
 * x holds whole numbers in [0, input_dim); W is input_dim x num_output; the
 * top has the bottom's axes and num_output behind them.  Backward ADDS dy to
 * the rows of dW that were used and to db; x has no gradient. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/cpu/loop.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/embed.h"
#include "proto/params.h"

/* Columns of dW that one thread takes through all indices: threads then never
 * meet in a row, however often it is used. */
enum { COLUMNS = 64 };

static enum ct_status embed_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__EmbedParameter *p = ct_embed_param(l->param);
    struct embed *e = l->state;

    (void)io;
    if (p->num_output == 0 || p->input_dim == 0)
        return ct_fail(CT_EINVAL, "layer %s: %s is zero", l->name,
                       p->num_output == 0 ? "num_output" : "input_dim");
    e->n        = p->num_output;
    e->k        = p->input_dim;
    e->has_bias = p->bias_term;
    CT_TRY(ct_layer_add_blob(l, CT_SHAPE(e->k, e->n), p->weight_filler));
    if (e->has_bias)
        CT_TRY(ct_layer_add_blob(l, CT_SHAPE(e->n), p->bias_filler));
    return CT_OK;
}

static enum ct_status embed_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct embed *e = l->state;
    struct ct_shape y = io->bottom[0]->shape;

    if (y.n_axes == CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "layer %s: the top has more than %d axes",
                       l->name, CT_MAX_AXES);
    e->m              = io->bottom[0]->count;
    y.dim[y.n_axes++] = e->n;
    return ct_reshape(io->top[0], y);
}

static enum ct_status embed_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct embed *e = l->state;
    const int64_t n = e->n;
    const float *x = ct_data(io->bottom[0]);
    const float *w = ct_data(l->blob[EMBED_WEIGHT]);
    const float *b = e->has_bias ? ct_data(l->blob[EMBED_BIAS]) : NULL;
    float *y = ct_data(io->top[0]);

    for (int64_t i = 0; i < e->m; i++)
        if (!(x[i] > -1 && x[i] < (float)e->k))
            return ct_fail(CT_EINVAL, "layer %s: index %g at %" PRId64
                           " is not in [0, %" PRId64 "), see input_dim",
                           l->name, (double)x[i], i, e->k);
    CT_FOR_ROWS (r, e->m, n) {
        const float *row = w + (int64_t)x[r] * n;

        if (b)
            for (int64_t i = 0; i < n; i++)
                y[r * n + i] = row[i] + b[i];
        else
            memcpy(y + r * n, row, (size_t)n * sizeof(*y));
    }
    return CT_OK;
}

static enum ct_status embed_backward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct embed *e = l->state;
    const int64_t n = e->n;
    const float *x = ct_data(io->bottom[0]), *dy = ct_diff(io->top[0]);
    float *dw = NULL, *db = NULL;

    if (l->blob_wants_grad[EMBED_WEIGHT])
        dw = ct_diff(l->blob[EMBED_WEIGHT]);
    if (e->has_bias && l->blob_wants_grad[EMBED_BIAS])
        db = ct_diff(l->blob[EMBED_BIAS]);
    CT_FOR_ROWS (c, (n + COLUMNS - 1) / COLUMNS, e->m * COLUMNS) {
        const int64_t from = c * COLUMNS;
        const int64_t to   = from + COLUMNS < n ? from + COLUMNS : n;

        for (int64_t r = 0; r < e->m; r++) {
            float *row = dw ? dw + (int64_t)x[r] * n : NULL;

            if (row)
                for (int64_t i = from; i < to; i++)
                    row[i] += dy[r * n + i];
            if (db)
                for (int64_t i = from; i < to; i++)
                    db[i] += dy[r * n + i];
        }
    }
    return CT_OK;
}

const struct ct_layer_type ct_layer_embed = {
    .name       = "Embed",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP,
    .no_grad    = 1 << 0,
    .state_size = sizeof(struct embed),
    .setup      = embed_setup,
    .reshape    = embed_reshape,
    .forward    = { embed_forward, CT_CUDA_FN(embed_forward) },
    .backward   = { embed_backward, CT_CUDA_FN(embed_backward) },
};
