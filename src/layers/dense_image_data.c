/* dense_image_data.c - images with an image of labels each, SegNet's type
 * "DenseImageData".
 *
 * The list has a line per pair: the image and the image of its labels, below
 * root_folder.  segments.h has the tops and what transform_param does; crops
 * and mirrors turn both alike, where SegNet refuses them.  Images are B G R, or
 * gray with `is_color: false`; both are resized to new_height x new_width where
 * these are given. */
#include "layers/segments.h"
#include "proto/params.h"

static enum ct_status setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__DenseImageDataParameter *p =
        ct_dense_image_data_param(l->param);
    const struct ct_segments_config config = {
        .param        = "dense_image_data_param",
        CT_SEGMENTS_WORDS(p),
        .kind         = CT_LABEL_PIXEL,
        .ignore_label = 255,
    };

    (void)io;
    return ct_segments_setup(l, &config);
}

const struct ct_layer_type ct_layer_dense_image_data = {
    .name       = "DenseImageData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_EXACTLY(2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .setup      = setup,
    CT_SEGMENTS_SLOTS,
};
