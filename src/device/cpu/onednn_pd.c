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

static dnnl_prop_kind_t conv_prop(const struct ct_pd_window *w)
{
    return w->forward_only ? dnnl_forward_inference : dnnl_forward_training;
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
        out, ct_dnnl_engine(), conv_prop(w), w->algorithm, src->d, weights->d,
        bias->d, dst->d, w->stride, d, w->pad_left, w->pad_right,
        ct_dnnl_end_attr(w->add, w->relu)));
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
        out, ct_dnnl_engine(), w->algorithm, diff_src->d,
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
        out, ct_dnnl_engine(), w->algorithm, src->d,
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
                                  const struct ct_md *data, int64_t local_size,
                                  float alpha, float beta, float k,
                                  const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_lrn_backward_primitive_desc_create(
        out, ct_dnnl_engine(), alg, data->d, data->d, data->d, local_size,
        alpha, beta, k, hint, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_batch_norm_forward(dnnl_primitive_desc_t *out,
                                        const struct ct_md *data,
                                        float epsilon)
{
    CT_DNNL(dnnl_batch_normalization_forward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_forward_training, data->d, data->d,
        epsilon, dnnl_normalization_flags_none, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_batch_norm_backward(dnnl_primitive_desc_t *out,
                                         const struct ct_md *data,
                                         float epsilon,
                                         const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_batch_normalization_backward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_backward_data, data->d, data->d, data->d,
        epsilon, dnnl_normalization_flags_none, hint, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_softmax_forward(dnnl_primitive_desc_t *out,
                                     const struct ct_md *data, int axis)
{
    CT_DNNL(dnnl_softmax_forward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_forward_training, dnnl_softmax_accurate,
        data->d, data->d, axis, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_softmax_backward(dnnl_primitive_desc_t *out,
                                      const struct ct_md *data, int axis,
                                      const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_softmax_backward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_softmax_accurate, data->d, data->d,
        data->d, axis, hint, ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_product_forward(dnnl_primitive_desc_t *out,
                                     const struct ct_md *src,
                                     const struct ct_md *weights,
                                     const struct ct_md *bias,
                                     const struct ct_md *dst, bool add)
{
    CT_DNNL(dnnl_inner_product_forward_primitive_desc_create(
        out, ct_dnnl_engine(), dnnl_forward_training, src->d, weights->d,
        bias->d, dst->d, ct_dnnl_end_attr(add, false)));
    return CT_OK;
}

enum ct_status ct_pd_product_backward_data(dnnl_primitive_desc_t *out,
                                           const struct ct_md *diff_src,
                                           const struct ct_md *weights,
                                           const struct ct_md *diff_dst,
                                           const_dnnl_primitive_desc_t hint)
{
    CT_DNNL(dnnl_inner_product_backward_data_primitive_desc_create(
        out, ct_dnnl_engine(), diff_src->d, weights->d, diff_dst->d, hint,
        ct_dnnl_attr()));
    return CT_OK;
}

enum ct_status ct_pd_matmul_add(dnnl_primitive_desc_t *out,
                                const struct ct_md *a, const struct ct_md *b,
                                const struct ct_md *c)
{
    CT_DNNL(dnnl_matmul_primitive_desc_create(out, ct_dnnl_engine(), a->d,
                                              b->d, NULL, c->d,
                                              ct_dnnl_end_attr(true, false)));
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
        &op, conv_prop(w), w->algorithm, &src->d, &weights->d,
        bias->d.ndims ? &bias->d : NULL, &dst->d, w->stride, d, w->pad_left,
        w->pad_right));
    CT_DNNL(dnnl_primitive_desc_create(out, &op,
                                       ct_dnnl_end_attr(w->add, w->relu),
                                       ct_dnnl_engine(), NULL));
    return CT_OK;
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
        &op, w->algorithm, &diff_src->d, &weights->d, &diff_dst->d,
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
        &op, w->algorithm, &src->d, &diff_weights->d,
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
                                  const struct ct_md *data, int64_t local_size,
                                  float alpha, float beta, float k,
                                  const_dnnl_primitive_desc_t hint)
{
    dnnl_lrn_desc_t op;

    CT_DNNL(dnnl_lrn_backward_desc_init(&op, alg, &data->d, &data->d,
                                        local_size, alpha, beta, k));
    return make(out, &op, hint);
}

enum ct_status ct_pd_batch_norm_forward(dnnl_primitive_desc_t *out,
                                        const struct ct_md *data,
                                        float epsilon)
{
    dnnl_batch_normalization_desc_t op;

    CT_DNNL(dnnl_batch_normalization_forward_desc_init(
        &op, dnnl_forward_training, &data->d, epsilon,
        dnnl_normalization_flags_none));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_batch_norm_backward(dnnl_primitive_desc_t *out,
                                         const struct ct_md *data,
                                         float epsilon,
                                         const_dnnl_primitive_desc_t hint)
{
    dnnl_batch_normalization_desc_t op;

    CT_DNNL(dnnl_batch_normalization_backward_desc_init(
        &op, dnnl_backward_data, &data->d, &data->d, epsilon,
        dnnl_normalization_flags_none));
    return make(out, &op, hint);
}

enum ct_status ct_pd_softmax_forward(dnnl_primitive_desc_t *out,
                                     const struct ct_md *data, int axis)
{
    dnnl_softmax_desc_t op;

    CT_DNNL(dnnl_softmax_forward_desc_init(&op, dnnl_forward_training,
                                           &data->d, axis));
    return make(out, &op, NULL);
}

enum ct_status ct_pd_softmax_backward(dnnl_primitive_desc_t *out,
                                      const struct ct_md *data, int axis,
                                      const_dnnl_primitive_desc_t hint)
{
    dnnl_softmax_desc_t op;

    CT_DNNL(dnnl_softmax_backward_desc_init(&op, &data->d, &data->d, axis));
    return make(out, &op, hint);
}

enum ct_status ct_pd_product_forward(dnnl_primitive_desc_t *out,
                                     const struct ct_md *src,
                                     const struct ct_md *weights,
                                     const struct ct_md *bias,
                                     const struct ct_md *dst, bool add)
{
    dnnl_inner_product_desc_t op;

    CT_DNNL(dnnl_inner_product_forward_desc_init(
        &op, dnnl_forward_training, &src->d, &weights->d,
        bias->d.ndims ? &bias->d : NULL, &dst->d));
    CT_DNNL(dnnl_primitive_desc_create(
        out, &op, ct_dnnl_end_attr(add, false), ct_dnnl_engine(),
        NULL));
    return CT_OK;
}

enum ct_status ct_pd_product_backward_data(dnnl_primitive_desc_t *out,
                                           const struct ct_md *diff_src,
                                           const struct ct_md *weights,
                                           const struct ct_md *diff_dst,
                                           const_dnnl_primitive_desc_t hint)
{
    dnnl_inner_product_desc_t op;

    CT_DNNL(dnnl_inner_product_backward_data_desc_init(
        &op, &diff_src->d, &weights->d, &diff_dst->d));
    return make(out, &op, hint);
}

enum ct_status ct_pd_matmul_add(dnnl_primitive_desc_t *out,
                                const struct ct_md *a, const struct ct_md *b,
                                const struct ct_md *c)
{
    dnnl_matmul_desc_t op;

    CT_DNNL(dnnl_matmul_desc_init(&op, &a->d, &b->d, NULL, &c->d));
    CT_DNNL(dnnl_primitive_desc_create(out, &op, ct_dnnl_end_attr(true, false),
                                       ct_dnnl_engine(), NULL));
    return CT_OK;
}

#endif
#endif
