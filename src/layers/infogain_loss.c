/* infogain_loss.c - cross entropy weighted by a matrix of class against
 * class, Caffe type "InfogainLoss".
 *
 *     p = softmax(x)      loss = sum_i sum_c -H[t_i, c] log(q[i, c]) / z
 *     dx[i, c] = w (p[i, c] sum_k H[t_i, k] - H[t_i, c]) / z
 *
 * x: outer x classes x inner around `axis`   t: outer x inner   q: p, at
 * least 1e-20   w: top[0]'s loss weight   z: the normaliser of loss.h, VALID
 * by default.  H comes from the third bottom or from the file `source`, a
 * binary BlobProto; the identity gives SoftmaxWithLoss.  The optional second
 * top is p.  Backward OVERWRITES dx; labels and H get no gradient. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "core/blob_proto.h"
#include "device/cpu/loop.h"
#include "device/softmax_ops.h"
#include "layers/common.h"
#include "layers/cuda/slots.h"
#include "layers/infogain_loss.h"
#include "layers/loss.h"
#include "proto/params.h"

static enum ct_status ig_read(struct ct_layer *l, struct ct_blob *gain)
{
    const char *source      = ct_infogain_loss_param(l->param)->source;
    Caffe__BlobProto *proto = NULL;
    struct ct_shape shape;
    enum ct_status st;

    if (!source)
        return ct_fail(CT_EINVAL, "layer %s: the infogain matrix is missing: "
                       "give infogain_loss_param.source or a third bottom",
                       l->name);
    CT_TRY_GOTO(ct_binary_read(&caffe__blob_proto__descriptor, source, &proto),
                st, out);
    CT_TRY_GOTO(ct_blob_proto_shape(proto, &shape), st, out);
    CT_TRY_GOTO(ct_reshape(gain, shape), st, out);
    st = ct_blob_from_proto(proto, gain);
out:
    ct_message_free(proto);
    return st == CT_OK ? CT_OK : ct_fail_in(st, "layer %s", l->name);
}

static enum ct_status ig_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct infogain_loss *g = l->state;

    g->loss = ct_loss_read(
        l, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
    if (io->n_bottom < 3) {
        CT_TRY(ct_layer_add_scratch(l, &g->gain));
        CT_TRY(ig_read(l, g->gain));
    }
    CT_TRY(ct_layer_add_scratch(l, &g->sums));
    CT_TRY(ct_layer_add_scratch(l, &g->terms));
    return io->n_top > 1 ? CT_OK : ct_layer_add_scratch(l, &g->prob);
}

static enum ct_status ig_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct infogain_loss *g    = l->state;
    const struct ct_blob *x    = io->bottom[0];
    const struct ct_blob *gain = g->gain ? g->gain : io->bottom[2];
    int axis;

    CT_TRY(ct_loss_reshape(l, io));
    CT_TRY(ct_layer_axis(l, x, ct_infogain_loss_param(l->param)->axis, &axis));
    g->outer   = ct_count(x, 0, axis);
    g->classes = x->shape.dim[axis];
    g->inner   = ct_count(x, axis + 1, CT_END);
    if (g->outer * g->inner != io->bottom[1]->count)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " labels for %" PRId64
                       " predictions with classes on axis %d", l->name,
                       io->bottom[1]->count, g->outer * g->inner, axis);
    if (gain->count != g->classes * g->classes)
        return ct_fail(CT_ESHAPE, "layer %s: the infogain matrix has %" PRId64
                       " values, %" PRId64 " classes need %" PRId64, l->name,
                       gain->count, g->classes, g->classes * g->classes);
    CT_TRY(ct_softmax_choose(&g->softmax, g->outer, g->classes, g->inner));
    CT_TRY(ct_reshape(g->sums, CT_SHAPE(g->classes)));
    CT_TRY(ct_reshape(g->terms, CT_SHAPE(g->outer * g->inner + 1)));
    return ct_reshape(g->prob ? g->prob : io->top[1], x->shape);
}

static enum ct_status ig_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct infogain_loss *g = l->state;
    const float *gain = ct_data(g->gain ? g->gain : io->bottom[2]);
    const float *t    = ct_data(io->bottom[1]);
    float *p          = ct_data(g->prob ? g->prob : io->top[1]);
    float *terms      = ct_data(g->terms);
    int64_t n = g->outer * g->inner, n_valid = 0;
    double sum = 0;

    CT_TRY(ct_loss_check_labels(l, &g->loss, t, n, g->classes, &n_valid));
    CT_TRY(ct_softmax_forward(&g->softmax, ct_data(io->bottom[0]), p));
    CT_FOR_ROWS (i, n, g->classes) {
        const float *of = p + i / g->inner * g->classes * g->inner +
                          i % g->inner;
        float term = 0;

        for (int64_t c = 0; c < g->classes; c++) {
            float q = of[c * g->inner];

            if (ct_loss_ignored(&g->loss, t[i]))
                break;
            term -= gain[(int64_t)t[i] * g->classes + c] *
                    logf(q < CT_LOG_FLOOR ? CT_LOG_FLOOR : q);
        }
        terms[i] = term;
    }
    for (int64_t i = 0; i < n; i++)
        sum += terms[i];
    g->normalizer = ct_loss_normalizer(&g->loss, g->outer, g->inner, n_valid);
    ct_data(io->top[0])[0] = (float)(sum / g->normalizer);
    return CT_OK;
}

static void ig_row_sums(const struct infogain_loss *g, const float *gain)
{
    float *sums = ct_data(g->sums);

    for (int64_t k = 0; k < g->classes; k++) {
        double sum = 0;

        for (int64_t c = 0; c < g->classes; c++)
            sum += gain[k * g->classes + c];
        sums[k] = (float)sum;
    }
}

static enum ct_status ig_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct infogain_loss *g = l->state;
    const float *gain = ct_data(g->gain ? g->gain : io->bottom[2]);
    const float *p    = ct_data(g->prob ? g->prob : io->top[1]);
    const float *t = ct_data(io->bottom[1]), *sums = ct_data(g->sums);
    const float scale = ct_diff(io->top[0])[0] / g->normalizer;
    float *dx = ct_diff(io->bottom[0]);

    if (!io->want_grad[0])
        return CT_OK;
    ig_row_sums(g, gain);
    CT_FOR_ROWS (row, g->outer * g->classes, g->inner) {
        const float *labels = t + row / g->classes * g->inner;
        int64_t c           = row % g->classes;

        for (int64_t j = 0; j < g->inner; j++) {
            int64_t at = row * g->inner + j;

            dx[at] = 0;
            if (!ct_loss_ignored(&g->loss, labels[j])) {
                int64_t k = (int64_t)labels[j];

                dx[at] = scale * (p[at] * sums[k] - gain[k * g->classes + c]);
            }
        }
    }
    return CT_OK;
}

static void ig_teardown(struct ct_layer *l)
{
    struct infogain_loss *g = l->state;

    ct_softmax_fini(&g->softmax);
}

const struct ct_layer_type ct_layer_infogain_loss = {
    .name       = "InfogainLoss",
    .bottoms    = CT_BETWEEN(2, 3),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_LOSS | CT_LAYER_GRAD_FIRST,
    .state_size = sizeof(struct infogain_loss),
    .setup      = ig_setup,
    .reshape    = ig_reshape,
    .forward    = { ig_forward, CT_CUDA_FN(infogain_loss_forward) },
    .backward   = { ig_backward, CT_CUDA_FN(infogain_loss_backward) },
    .teardown   = ig_teardown,
};
