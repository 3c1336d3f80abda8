/* image_seg_data.c - images with labels for each pixel, DeepLab's and PSPNet's
 * type "ImageSegData".
 *
 * The list has a line per image, below root_folder, and behind it what
 * label_type says: PIXEL, the image of its labels; IMAGE, a label for all of
 * its pixels; NONE, nothing, and all pixels have ignore_label.  segments.h has
 * the tops and what transform_param does.  Images are B G R, or gray with
 * `is_color: false`; both are resized to new_height x new_width where these are
 * given. */
#include "layers/segments.h"
#include "proto/params.h"

static enum ct_status setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ImageDataParameter *p = ct_image_data_param(l->param);
    const struct ct_segments_config config = {
        .param        = "image_data_param",
        CT_SEGMENTS_WORDS(p),
        .kind         = (enum ct_label_kind)p->label_type,
        .ignore_label = p->ignore_label,
        .threads      = p->threads,
        .skip = p->on_error == CAFFE__DATA_PARAMETER__ON_ERROR__SKIP,
    };

    (void)io;
    return ct_segments_setup(l, &config);
}

const struct ct_layer_type ct_layer_image_seg_data = {
    .name       = "ImageSegData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_BETWEEN(2, 3),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .setup      = setup,
    CT_SEGMENTS_SLOTS,
};
