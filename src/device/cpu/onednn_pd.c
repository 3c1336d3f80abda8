/* onednn_pd.c - the primitives that we use, in oneDNN 2's words and in 3's.
 *
 * 2 fills an operation description and makes a primitive description of it;
 * 3 makes the latter at once. */
#ifdef CT_HAVE_ONEDNN
#include "device/cpu/onednn.h"

static void dilates(const struct ct_pd_window *w, dnnl_dims_t out)
{
    for (int i = 0; i < DNNL_MAX_NDIMS; i++)
        out[i] = w->dilation[i] - 1;
}

#if DNNL_VERSION_MAJOR >= 3

enum ct_status ct_pd_conv_forward(dnnl_primitive_desc_t *out,
                                  const struct ct_md *src,
                                  const struct ct_md *weights,
                                  const struct ct_md *bias,
                                  const struct ct_md *dst,
                                  const struct ct_pd_window *w)
{
    dnnl_dims_t d;

    dilates(w, d);
    CT_DNNL(dnnl_convolution_forward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_forward_training, dnnl_convolution_direct,
        src->d, weights->d, bias->d, dst->d, w->stride, d, w->pad_left,
        w->pad_right, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_conv_backward_data(dnnl_primitive_desc_t *out,
                                        const struct ct_md *diff_src,
                                        const struct ct_md *weights,
                                        const struct ct_md *diff_dst,
                                        const struct ct_pd_window *w,
                                        const_dnnl_primitive_desc_t hint)
{
    dnnl_dims_t d;

    dilates(w, d);
    CT_DNNL(dnnl_convolution_backward_data_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_convolution_direct, diff_src->d,
        weights->d, diff_dst->d, w->stride, d, w->pad_left, w->pad_right, hint,
        ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_conv_backward_weights(dnnl_primitive_desc_t *out,
                                           const struct ct_md *src,
                                           const struct ct_md *diff_weights,
                                           const struct ct_md *diff_bias,
                                           const struct ct_md *diff_dst,
                                           const struct ct_pd_window *w,
                                           const_dnnl_primitive_desc_t hint)
{
    dnnl_dims_t d;

    dilates(w, d);
    CT_DNNL(dnnl_convolution_backward_weights_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_convolution_direct, src->d,
        diff_weights->d, diff_bias->d, diff_dst->d, w->stride, d, w->pad_left,
        w->pad_right, hint, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_pool_forward(dnnl_primitive_desc_t *out,
                                  dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
                                  const struct ct_md *src,
                                  const struct ct_md *dst,
                                  const struct ct_pd_window *w)
{
    dnnl_dims_t no_dilation = { 0 };

    CT_DNNL(dnnl_pooling_forward_primitive_desc_create(
        out, ct_dnnl_engine(), prop, alg, src->d, dst->d, w->stride, w->kernel,
        no_dilation, w->pad_left, w->pad_right, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_pool_backward(dnnl_primitive_desc_t *out,
                                   dnnl_alg_kind_t alg,
                                   const struct ct_md *diff_src,
                                   const struct ct_md *diff_dst,
                                   const struct ct_pd_window *w,
                                   const_dnnl_primitive_desc_t hint)
{
    dnnl_dims_t no_dilation = { 0 };

    CT_DNNL(dnnl_pooling_backward_primitive_desc_create(
        out, ct_dnnl_engine(), alg, diff_src->d, diff_dst->d, w->stride,
        w->kernel, no_dilation, w->pad_left, w->pad_right, hint,
        ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_lrn_forward(dnnl_primitive_desc_t *out,
                                 dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
                                 const struct ct_md *data, int64_t local_size,
                                 float alpha, float beta, float k)
{
    CT_DNNL(dnnl_lrn_forward_primitive_desc_create(
        out, ct_dnnl_engine(), prop, alg, data->d, data->d, local_size, alpha,
        beta, k, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_lrn_backward(dnnl_primitive_desc_t *out,
                                  dnnl_alg_kind_t alg,
                                  const struct ct_md *diff,
                                  const struct ct_md *data, int64_t local_size,
                                  float alpha, float beta, float k,
                                  const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_lrn_backward_primitive_desc_create(
        out, ct_dnnl_engine(), alg, diff->d, diff->d, data->d, local_size,
        alpha, beta, k, hint, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_batch_norm_forward(dnnl_primitive_desc_t *out,
                                        dnnl_prop_kind_t prop,
                                        const struct ct_md *data,
                                        float epsilon, unsigned flags)
{
    CT_DNNL(dnnl_batch_normalization_forward_primitive_desc_create(
        out, ct_dnnl_engine(), prop, data->d, data->d, epsilon, flags,
        ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_batch_norm_backward(dnnl_primitive_desc_t *out,
                                         dnnl_prop_kind_t prop,
                                         const struct ct_md *diff,
                                         const struct ct_md *data,
                                         float epsilon, unsigned flags,
                                         const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_batch_normalization_backward_primitive_desc_create(
        out, ct_dnnl_engine(), prop, diff->d, diff->d, data->d, epsilon, flags,
        hint, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_softmax_forward(dnnl_primitive_desc_t *out,
                                     dnnl_prop_kind_t prop,
                                     const struct ct_md *data, int axis)
{
    CT_DNNL(dnnl_softmax_forward_primitive_desc_create(
        out, ct_dnnl_engine(), prop, dnnl_softmax_accurate, data->d, data->d,
        axis, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_softmax_backward(dnnl_primitive_desc_t *out,
                                      const struct ct_md *diff,
                                      const struct ct_md *data, int axis,
                                      const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_softmax_backward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_softmax_accurate, diff->d, diff->d,
        data->d, axis, hint, ct_dnnl_attr()));
    return CT_OK;
}

#else /* oneDNN 2 */

static enum ct_status make(dnnl_primitive_desc_t *out, const void *op,
                           const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_primitive_desc_create(out, op, ct_dnnl_attr(),
                                       ct_dnnl_engine(), hint));
    return CT_OK;
}

enum ct_status ct_pd_conv_forward(dnnl_primitive_desc_t *out,
                                  const struct ct_md *src,
                                  const struct ct_md *weights,
                                  const struct ct_md *bias,
                                  const struct ct_md *dst,
                                  const struct ct_pd_window *w)
{
    dnnl_convolution_desc_t op;
    dnnl_dims_t d;

    dilates(w, d);
    CT_DNNL(dnnl_dilated_convolution_forward_desc_init(
        &op, dnnl_forward_training, dnnl_convolution_direct, &src->d,
        &weights->d, bias->d.ndims ? &bias->d : NULL, &dst->d, w->stride, d,
        w->pad_left, w->pad_right));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_conv_backward_data(dnnl_primitive_desc_t *out,
                                        const struct ct_md *diff_src,
                                        const struct ct_md *weights,
                                        const struct ct_md *diff_dst,
                                        const struct ct_pd_window *w,
                                        const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    dnnl_dims_t d;

    dilates(w, d);
    CT_DNNL(dnnl_dilated_convolution_backward_data_desc_init(
        &op, dnnl_convolution_direct, &diff_src->d, &weights->d, &diff_dst->d,
        w->stride, d, w->pad_left, w->pad_right));
    return make(out, &op, hint);
}

enum ct_status ct_pd_conv_backward_weights(dnnl_primitive_desc_t *out,
                                           const struct ct_md *src,
                                           const struct ct_md *diff_weights,
                                           const struct ct_md *diff_bias,
                                           const struct ct_md *diff_dst,
                                           const struct ct_pd_window *w,
                                           const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t op;
    dnnl_dims_t d;

    dilates(w, d);
    CT_DNNL(dnnl_dilated_convolution_backward_weights_desc_init(
        &op, dnnl_convolution_direct, &src->d, &diff_weights->d,
        diff_bias->d.ndims ? &diff_bias->d : NULL, &diff_dst->d, w->stride, d,
        w->pad_left, w->pad_right));
    return make(out, &op, hint);
}

enum ct_status ct_pd_pool_forward(dnnl_primitive_desc_t *out,
                                  dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
                                  const struct ct_md *src,
                                  const struct ct_md *dst,
                                  const struct ct_pd_window *w)
{
    dnnl_pooling_desc_t op;

    CT_DNNL(dnnl_pooling_forward_desc_init(&op, prop, alg, &src->d, &dst->d,
                                           w->stride, w->kernel, w->pad_left,
                                           w->pad_right));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_pool_backward(dnnl_primitive_desc_t *out,
                                   dnnl_alg_kind_t alg,
                                   const struct ct_md *diff_src,
                                   const struct ct_md *diff_dst,
                                   const struct ct_pd_window *w,
                                   const_dnnl_primitive_desc_t hint)
{
    dnnl_pooling_desc_t op;

    CT_DNNL(dnnl_pooling_backward_desc_init(&op, alg, &diff_src->d,
                                            &diff_dst->d, w->stride, w->kernel,
                                            w->pad_left, w->pad_right));
    return make(out, &op, hint);
}

enum ct_status ct_pd_lrn_forward(dnnl_primitive_desc_t *out,
                                 dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
                                 const struct ct_md *data, int64_t local_size,
                                 float alpha, float beta, float k)
{
    dnnl_lrn_desc_t op;

    CT_DNNL(dnnl_lrn_forward_desc_init(&op, prop, alg, &data->d, local_size,
                                       alpha, beta, k));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_lrn_backward(dnnl_primitive_desc_t *out,
                                  dnnl_alg_kind_t alg,
                                  const struct ct_md *diff,
                                  const struct ct_md *data, int64_t local_size,
                                  float alpha, float beta, float k,
                                  const_dnnl_primitive_desc_t hint)
{
    dnnl_lrn_desc_t op;

    CT_DNNL(dnnl_lrn_backward_desc_init(&op, alg, &diff->d, &data->d,
                                        local_size, alpha, beta, k));
    return make(out, &op, hint);
}

enum ct_status ct_pd_batch_norm_forward(dnnl_primitive_desc_t *out,
                                        dnnl_prop_kind_t prop,
                                        const struct ct_md *data,
                                        float epsilon, unsigned flags)
{
    dnnl_batch_normalization_desc_t op;

    CT_DNNL(dnnl_batch_normalization_forward_desc_init(&op, prop, &data->d,
                                                       epsilon, flags));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_batch_norm_backward(dnnl_primitive_desc_t *out,
                                         dnnl_prop_kind_t prop,
                                         const struct ct_md *diff,
                                         const struct ct_md *data,
                                         float epsilon, unsigned flags,
                                         const_dnnl_primitive_desc_t hint)
{
    dnnl_batch_normalization_desc_t op;

    CT_DNNL(dnnl_batch_normalization_backward_desc_init(
        &op, prop, &diff->d, &data->d, epsilon, flags));
    return make(out, &op, hint);
}

enum ct_status ct_pd_softmax_forward(dnnl_primitive_desc_t *out,
                                     dnnl_prop_kind_t prop,
                                     const struct ct_md *data, int axis)
{
    dnnl_softmax_desc_t op;

    CT_DNNL(dnnl_softmax_forward_desc_init(&op, prop, &data->d, axis));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_softmax_backward(dnnl_primitive_desc_t *out,
                                      const struct ct_md *diff,
                                      const struct ct_md *data, int axis,
                                      const_dnnl_primitive_desc_t hint)
{
    dnnl_softmax_desc_t op;

    CT_DNNL(dnnl_softmax_backward_desc_init(&op, &diff->d, &data->d, axis));
    return make(out, &op, hint);
}

#endif
#endif
