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
        out, ct_dnnl_engine(), dnnl_forward_training, w->algorithm,
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
        &op, dnnl_forward_training, w->algorithm, &src->d,
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

#endif
#endif
