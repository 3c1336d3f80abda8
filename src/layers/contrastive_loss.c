/* contrastive_loss.c - pulls like pairs together and pushes others apart,
 * Caffe type "ContrastiveLoss".
 *
 *     d_i = |a_i - b_i|       s_i: 1 for a like pair, 0 for an unlike one
 *     loss = sum_i (s_i d_i^2 + (1 - s_i) max(margin - d_i, 0)^2) / (2 N)
 *
 * a, b: N x C (axes behind are 1)   s: N   w: top[0]'s loss weight
 * With legacy_version the unlike pair costs max(margin - d_i^2, 0).
 *
 *     da_i = w (a_i - b_i) k_i / N       db_i = -da_i
 *     k_i = 1 if alike;  unlike and within the margin:
 *           -(margin - d_i) / (d_i + 1e-4), or -1 with legacy_version; else 0
 *
 * Backward OVERWRITES da and db; the marks s get zero. */
#include "cortado/layer.h"

#include <inttypes.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "layers/contrastive_loss.h"
#include "layers/cuda/slots.h"
#include "layers/loss.h"
#include "proto/params.h"

static enum ct_status cl_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ContrastiveLossParameter *p =
        ct_contrastive_loss_param(l->param);
    struct contrastive_loss *c = l->state;

    (void)io;
    c->margin = p->margin;
    c->legacy = p->legacy_version;
    return ct_layer_add_scratch(l, &c->square);
}

static enum ct_status cl_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct contrastive_loss *c = l->state;
    const struct ct_blob *a    = io->bottom[0];

    CT_TRY(ct_loss_reshape(l, io));
    c->n     = a->shape.dim[0];
    c->width = ct_count(a, 1, CT_END);
    if (a->count != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: bottoms 0 and 1 must have the "
                       "same shape", l->name);
    if (ct_count(a, 2, CT_END) != 1)
        return ct_fail(CT_ESHAPE, "layer %s: features must be N x C; put a "
                       "Flatten layer before", l->name);
    if (io->bottom[2]->count != c->n)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " marks of likeness "
                       "for %" PRId64 " pairs", l->name, io->bottom[2]->count,
                       c->n);
    return ct_reshape(c->square, CT_SHAPE(c->n));
}

static enum ct_status cl_forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct contrastive_loss *c = l->state;
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const float *alike = ct_data(io->bottom[2]);
    float *square      = ct_data(c->square);
    double sum         = 0;

    CT_FOR_ROWS (i, c->n, c->width) {
        float d2 = 0;

        for (int64_t j = i * c->width; j < (i + 1) * c->width; j++)
            d2 += (a[j] - b[j]) * (a[j] - b[j]);
        square[i] = d2;
    }
    for (int64_t i = 0; i < c->n; i++) {
        float gap = c->margin - (c->legacy ? square[i] : sqrtf(square[i]));

        if (truncf(alike[i]) != 0)
            sum += square[i];
        else if (!(gap <= 0))
            sum += c->legacy ? gap : gap * gap;
    }
    ct_data(io->top[0])[0] = c->n ? (float)(sum / (double)(2 * c->n)) : 0;
    return CT_OK;
}

/* k_i of the file's head. */
static float cl_slope(const struct contrastive_loss *c, float alike, float d2)
{
    float d   = sqrtf(d2);
    float gap = c->margin - (c->legacy ? d2 : d);

    if (truncf(alike) != 0)
        return 1;
    if (gap <= 0)
        return 0;
    return c->legacy ? -1 : -gap / (d + 1e-4f);
}

static enum ct_status cl_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct contrastive_loss *c = l->state;
    const float *a = ct_data(io->bottom[0]), *b = ct_data(io->bottom[1]);
    const float *alike = ct_data(io->bottom[2]), *square = ct_data(c->square);
    const float scale = ct_diff(io->top[0])[0] / (float)c->n;

    for (int side = 0; side < 2; side++) {
        float *out = ct_diff(io->bottom[side]);

        if (!io->want_grad[side])
            continue;
        CT_FOR_ROWS (i, c->n, c->width) {
            float k = (side == 0 ? scale : -scale) *
                      cl_slope(c, alike[i], square[i]);

            for (int64_t j = i * c->width; j < (i + 1) * c->width; j++)
                out[j] = k * (a[j] - b[j]);
        }
    }
    if (io->want_grad[2])
        memset(ct_diff(io->bottom[2]), 0, (size_t)c->n * sizeof(float));
    return CT_OK;
}

const struct ct_layer_type ct_layer_contrastive_loss = {
    .name       = "ContrastiveLoss",
    .bottoms    = CT_EXACTLY(3),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS | CT_LAYER_NO_TOP,
    .no_grad    = 1 << 2, /* the label */
    .state_size = sizeof(struct contrastive_loss),
    .setup      = cl_setup,
    .reshape    = cl_reshape,
    .forward    = { cl_forward, CT_CUDA_FN(contrastive_loss_forward) },
    .backward   = { cl_backward, CT_CUDA_FN(contrastive_loss_backward) },
};
