/* test_forks.c - small nets of detectors and segmenters, in the words of the
 * forks that they come from, trained from end to end.
 *
 * Each learns one drawn picture by heart: its loss falls, and what it says in
 * the end is right. */
#include "base/text.h"
#include "data/images.h"
#include "layers/pixel_box.h"
#include "solver_test.h"
#include "testing/files.h"

/* The value of a blob that an Input layer has. */
static void put(const struct ct_solver *s, const char *name, const float *x)
{
    struct ct_net *net = ct_solver_net(s);
    int i              = ct_net_find_blob(net, name);

    ASSERT(i >= 0);
    ASSERT_OK(ct_blob_put(ct_net_blob(net, i), false, x));
}

static void get(const struct ct_solver *s, const char *name, float *x, int n)
{
    struct ct_net *net = ct_solver_net(s);
    int i              = ct_net_find_blob(net, name);

    ASSERT(i >= 0);
    ASSERT(ct_net_blob(net, i)->count <= n);
    ASSERT_OK(ct_blob_get(ct_net_blob(net, i), false, x));
}

static int count(const struct ct_solver *s, const char *name)
{
    struct ct_net *net = ct_solver_net(s);

    return (int)ct_net_blob(net, ct_net_find_blob(net, name))->count;
}

/* A picture of 32 x 32 pixels with a square of 12 x 12 at (8, 8); the grid of
 * positions, 8 pixels apart, has one anchor of 12 x 12 each. */
enum { SIDE = 32, GRID = 4 };

static const float truth[] = { 8, 8, 19, 19, 1 }, info[] = { SIDE, SIDE, 1 };

struct scene {
    float image[SIDE * SIDE];
    float label[GRID * GRID];
    float target[4 * GRID * GRID], weight[4 * GRID * GRID];
};

/* Labels and targets of the anchors, as Faster R-CNN's anchor layer has them.
 */
static void draw_scene(struct scene *s)
{
    const struct pixel_box box = { 8, 8, 19, 19 };

    memset(s, 0, sizeof(*s));
    for (int i = 0; i < SIDE * SIDE; i++)
        s->image[i] = i / SIDE >= 8 && i / SIDE < 20 && i % SIDE >= 8 &&
                      i % SIDE < 20;
    for (int i = 0; i < GRID * GRID; i++) {
        const float x = (float)(i % GRID * 8), y = (float)(i / GRID * 8);
        const struct pixel_box a = { x - 2, y - 2, x + 9, y + 9 };
        const float overlap      = pixel_box_overlap(&a, &box);
        float code[4];

        s->label[i] = overlap >= 0.4f ? 1 : overlap > 0.3f ? -1 : 0;
        pixel_box_encode(&a, &box, code);
        for (int k = 0; k < 4 && s->label[i] == 1; k++) {
            s->target[k * GRID * GRID + i] = code[k];
            s->weight[k * GRID * GRID + i] = 1;
        }
    }
}

static void put_scene(const struct ct_solver *s, const struct scene *scene)
{
    put(s, "data", scene->image);
    put(s, "im_info", info);
    put(s, "gt_boxes", truth);
    put(s, "rpn_labels", scene->label);
    put(s, "rpn_bbox_targets", scene->target);
    put(s, "rpn_bbox_weights", scene->weight);
}

#define CONV(name, bottom, n, k, more)                                       \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " n                   \
    "  kernel_size: " k " " more " weight_filler { type: 'msra' } } }"
#define RELU(name)                                                           \
    "layer { name: 'relu_" name "' type: 'ReLU' bottom: '" name "' "         \
    "  top: '" name "' }"

/* Input, three convolutions to the grid, and the region proposal net. */
static const char front[] =
    "net_param { name: 'detector' "
    "layer { name: 'in' type: 'Input' top: 'data' top: 'im_info' "
    "  top: 'gt_boxes' top: 'rpn_labels' top: 'rpn_bbox_targets' "
    "  top: 'rpn_bbox_weights' input_param { "
    "  shape { dim: 1 dim: 1 dim: 32 dim: 32 } shape { dim: 1 dim: 3 } "
    "  shape { dim: 1 dim: 5 } shape { dim: 1 dim: 1 dim: 4 dim: 4 } "
    "  shape { dim: 1 dim: 4 dim: 4 dim: 4 } "
    "  shape { dim: 1 dim: 4 dim: 4 dim: 4 } } }"
    CONV("c1", "data", "8", "3", "stride: 2 pad: 1") RELU("c1")
    CONV("c2", "c1", "8", "3", "stride: 2 pad: 1") RELU("c2")
    CONV("c3", "c2", "16", "3", "stride: 2 pad: 1") RELU("c3")
    CONV("rpn", "c3", "16", "3", "pad: 1") RELU("rpn")
    CONV("rpn_cls_score", "rpn", "2", "1", "")
    CONV("rpn_bbox_pred", "rpn", "4", "1", "")
    "layer { name: 'rpn_loss_cls' type: 'SoftmaxWithLoss' "
    "  bottom: 'rpn_cls_score' bottom: 'rpn_labels' top: 'rpn_cls_loss' "
    "  propagate_down: true propagate_down: false "
    "  loss_param { ignore_label: -1 normalize: true } }"
    "layer { name: 'rpn_loss_bbox' type: 'SmoothL1Loss' "
    "  bottom: 'rpn_bbox_pred' bottom: 'rpn_bbox_targets' "
    "  bottom: 'rpn_bbox_weights' bottom: 'rpn_bbox_weights' "
    "  top: 'rpn_loss_bbox' smooth_l1_loss_param { sigma: 3 } }"
    "layer { name: 'rpn_cls_prob' type: 'Softmax' bottom: 'rpn_cls_score' "
    "  top: 'rpn_cls_prob' }"
    "layer { name: 'proposal' type: 'Proposal' bottom: 'rpn_cls_prob' "
    "  bottom: 'rpn_bbox_pred' bottom: 'im_info' top: 'rpn_rois' "
    "  proposal_param { feat_stride: 8 base_size: 8 ratio: 1 scale: 1.5 "
    "  min_size: 4 post_nms_topn: 8 } }"
    "layer { name: 'roi_data' type: 'ProposalTarget' bottom: 'rpn_rois' "
    "  bottom: 'gt_boxes' top: 'rois' top: 'labels' top: 'bbox_targets' "
    "  top: 'bbox_inside' top: 'bbox_outside' top: 'matches' "
    "  proposal_target_param { cls_num: 2 batch_size: 8 fg_fraction: 0.5 "
    "  num_img_per_batch: 1 bg_thr_lw: 0 } bbox_reg_param { "
    "  bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 "
    "  bbox_std: 0.1 bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2 } }"
    "layer { name: 'unused' type: 'Silence' bottom: 'matches' }"
    /* An output keeps its values after the pass. */
    "layer { name: 'found' type: 'Power' bottom: 'rpn_rois' top: 'found' }";

static const char faster[] =
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'pool' top: 'fc' "
    "  inner_product_param { num_output: 32 weight_filler { type: 'msra' } } }"
    RELU("fc")
    "layer { name: 'cls_score' type: 'InnerProduct' bottom: 'fc' "
    "  top: 'cls_score' inner_product_param { num_output: 2 "
    "  weight_filler { type: 'gaussian' std: 0.01 } } }"
    "layer { name: 'bbox_pred' type: 'InnerProduct' bottom: 'fc' "
    "  top: 'bbox_pred' inner_product_param { num_output: 8 "
    "  weight_filler { type: 'gaussian' std: 0.001 } } }"
    "layer { name: 'loss_cls' type: 'SoftmaxWithLoss' bottom: 'cls_score' "
    "  bottom: 'labels' propagate_down: true propagate_down: false "
    "  top: 'loss_cls' }"
    "layer { name: 'loss_bbox' type: 'SmoothL1Loss' bottom: 'bbox_pred' "
    "  bottom: 'bbox_targets' bottom: 'bbox_inside' bottom: 'bbox_outside' "
    "  top: 'loss_bbox' } } ";

static const char *detector(const char *pool, const char *head,
                            const char *more)
{
    return test_format("%s%s%s base_lr: 0.01 momentum: 0.9 "
                       "lr_policy: 'fixed' random_seed: 7 max_iter: 400 "
                       "average_loss: 10 snapshot_after_train: false "
                       "type: 'SGD' %s", front,
                       pool, head, more);
}

/* Trains; returns the loss at the beginning and in the end. */
static void train(struct ct_solver *s, const struct scene *scene, int steps,
                  double *first, double *last)
{
    for (int i = 0; i < steps; i++) {
        put_scene(s, scene);
        ASSERT_OK(ct_solver_step(s, 1));
        if (i == 0)
            *first = ct_solver_loss(s);
    }
    *last = ct_solver_loss(s);
}

/* Whether the best proposal is the box. */
static bool finds_the_box(const struct ct_solver *s)
{
    const struct pixel_box box = { 8, 8, 19, 19 };
    struct pixel_box found;
    float rois[8 * 5];

    get(s, "found", rois, 40);
    found = (struct pixel_box){ rois[1], rois[2], rois[3], rois[4] };
    return pixel_box_overlap(&found, &box) > 0.7f;
}

static void learns(const char *pool, const char *head)
{
    struct ct_solver *s = solver_of(detector(pool, head, ""));
    struct scene scene;
    double first = 0, last = 0, unused;

    draw_scene(&scene);
    train(s, &scene, 150, &first, &last);
    ASSERT(isfinite(first) && first > 0.5);
    /* Hard examples make it leap now and then, at another step on each CPU. */
    for (int i = 0; i < 14 && !(last < 0.3 * first && finds_the_box(s)); i++)
        train(s, &scene, 25, &unused, &last);
    if (!(last < 0.3 * first && finds_the_box(s)))
        FAIL("the loss went from %g to %g", first, last);
}

static const char roi_pooling[] =
    "layer { name: 'pool' type: 'ROIPooling' bottom: 'c3' bottom: 'rois' "
    "  top: 'pool' roi_pooling_param { pooled_h: 2 pooled_w: 2 "
    "  spatial_scale: 0.125 } }";

TEST(forks, faster_r_cnn_learns_with_roi_pooling)
{
    learns(roi_pooling, faster);
}

TEST(forks, faster_r_cnn_learns_with_roi_align)
{
    learns("layer { name: 'pool' type: 'ROIAlign' bottom: 'c3' "
           "  bottom: 'rois' top: 'pool' roi_align_param { pooled_h: 3 "
           "  pooled_w: 3 spatial_scale: 0.125 sampling_ratio: 2 } }", faster);
}

/* Cascade R-CNN: a second stage looks at the boxes of the first. */
TEST(forks, cascade_r_cnn_learns_in_two_stages)
{
    static const char stage[] =
        "layer { name: 'fc' type: 'InnerProduct' bottom: 'pool' top: 'fc' "
        "  inner_product_param { num_output: 32 "
        "  weight_filler { type: 'msra' } } }" RELU("fc")
        "layer { name: 'bbox_1' type: 'InnerProduct' bottom: 'fc' "
        "  top: 'bbox_1' inner_product_param { num_output: 8 "
        "  weight_filler { type: 'gaussian' std: 0.001 } } }"
        "layer { name: 'loss_1' type: 'SmoothL1Loss' bottom: 'bbox_1' "
        "  bottom: 'bbox_targets' bottom: 'bbox_inside' "
        "  bottom: 'bbox_outside' top: 'loss_1' }"
        "layer { name: 'decode' type: 'DecodeBBox' bottom: 'bbox_1' "
        "  bottom: 'rois' top: 'rois_1' bbox_reg_param { "
        "  bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 "
        "  bbox_std: 0.1 bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2 } }"
        "layer { name: 'roi_2' type: 'ProposalTarget' bottom: 'rois_1' "
        "  bottom: 'gt_boxes' top: 'rois_2' top: 'labels_2' top: 't_2' "
        "  top: 'i_2' top: 'o_2' top: 'm_2' proposal_target_param { "
        "  cls_num: 2 batch_size: -1 fg_thr: 0.6 bg_thr_hg: 0.6 bg_thr_lw: 0 "
        "  num_img_per_batch: 1 } bbox_reg_param { cls_aware: false } }"
        "layer { name: 'pool_2' type: 'ROIAlign' bottom: 'c3' "
        "  bottom: 'rois_2' top: 'pool_2' roi_pooling_param { pooled_h: 2 "
        "  pooled_w: 2 spatial_scale: 0.125 } }"
        "layer { name: 'cls_2' type: 'InnerProduct' bottom: 'pool_2' "
        "  top: 'cls_2' inner_product_param { num_output: 2 "
        "  weight_filler { type: 'gaussian' std: 0.01 } } }"
        "layer { name: 'loss_2' type: 'SoftmaxWithLoss' bottom: 'cls_2' "
        "  bottom: 'labels_2' top: 'loss_2' }"
        "layer { name: 'rest' type: 'Silence' bottom: 't_2' bottom: 'i_2' "
        "  bottom: 'o_2' bottom: 'm_2' bottom: 'labels' } } ";

    learns("layer { name: 'pool' type: 'ROIPooling' bottom: 'c3' "
           "  bottom: 'rois' top: 'pool' roi_pooling_param { pooled_h: 2 "
           "  pooled_w: 2 spatial_scale: 0.125 } } ", stage);
}

/* R-FCN: maps for each part of a region, and only the hardest regions. */
TEST(forks, r_fcn_learns_from_hard_examples)
{
    static const char maps[] =
        CONV("rfcn_cls", "c3", "8", "1", "")
        CONV("rfcn_bbox", "c3", "32", "1", "")
        "layer { name: 'ps_cls' type: 'PSROIPooling' bottom: 'rfcn_cls' "
        "  bottom: 'rois' top: 'ps_cls' psroi_pooling_param { "
        "  spatial_scale: 0.125 output_dim: 2 group_size: 2 } }"
        "layer { name: 'ps_bbox' type: 'PSROIPooling' bottom: 'rfcn_bbox' "
        "  bottom: 'rois' top: 'ps_bbox' psroi_pooling_param { "
        "  spatial_scale: 0.125 output_dim: 8 group_size: 2 } }"
        "layer { name: 'cls_score' type: 'Pooling' bottom: 'ps_cls' "
        "  top: 'cls_score' pooling_param { pool: AVE kernel_size: 2 "
        "  stride: 2 } }"
        "layer { name: 'bbox_pred' type: 'Pooling' bottom: 'ps_bbox' "
        "  top: 'bbox_pred' pooling_param { pool: AVE kernel_size: 2 "
        "  stride: 2 } }";
    static const char ohem[] =
        "layer { name: 'per_cls' type: 'SoftmaxWithLossOHEM' "
        "  bottom: 'cls_score' bottom: 'labels' top: 'temp_loss_cls' "
        "  top: 'temp_prob_cls' top: 'per_roi_cls' "
        "  loss_weight: 0 loss_weight: 0 loss_weight: 0 "
        "  propagate_down: false propagate_down: false }"
        "layer { name: 'per_bbox' type: 'SmoothL1LossOHEM' "
        "  bottom: 'bbox_pred' bottom: 'bbox_targets' bottom: 'bbox_inside' "
        "  top: 'temp_loss_bbox' top: 'per_roi_bbox' "
        "  loss_weight: 0 loss_weight: 0 propagate_down: false "
        "  propagate_down: false propagate_down: false }"
        "layer { name: 'per_roi' type: 'Eltwise' bottom: 'per_roi_cls' "
        "  bottom: 'per_roi_bbox' top: 'per_roi' propagate_down: false "
        "  propagate_down: false }"
        "layer { name: 'annotator' type: 'BoxAnnotatorOHEM' bottom: 'rois' "
        "  bottom: 'per_roi' bottom: 'labels' bottom: 'bbox_inside' "
        "  top: 'labels_ohem' top: 'weights_ohem' propagate_down: false "
        "  propagate_down: false propagate_down: false propagate_down: false "
        "  box_annotator_ohem_param { roi_per_img: 4 ignore_label: -1 } }"
        "layer { name: 'rest' type: 'Silence' bottom: 'bbox_outside' "
        "  bottom: 'temp_loss_cls' bottom: 'temp_prob_cls' "
        "  bottom: 'temp_loss_bbox' }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'cls_score' "
        "  bottom: 'labels_ohem' top: 'loss_cls' loss_weight: 1 "
        "  loss_param { ignore_label: -1 } propagate_down: true "
        "  propagate_down: false }"
        "layer { name: 'loss_bbox' type: 'SmoothL1LossOHEM' "
        "  bottom: 'bbox_pred' bottom: 'bbox_targets' bottom: 'weights_ohem' "
        "  top: 'loss_bbox' loss_weight: 1 loss_param { "
        "  normalization: PRE_FIXED pre_fixed_normalizer: 4 } "
        "  propagate_down: true propagate_down: false "
        "  propagate_down: false } } ";

    learns(maps, ohem);
}

/* ProposalTarget draws: a resumed run must draw the same. */
TEST(forks, a_resumed_detector_continues_to_the_bit)
{
    const char *text = detector(roi_pooling, faster, test_format(
        "snapshot: 10 snapshot_prefix: '%s'", test_path("rcnn")));
    struct ct_solver *whole, *part;
    struct scene scene;
    double first, last;
    size_t n;
    float *a, *b;

    draw_scene(&scene);
    whole = solver_of(text);
    train(whole, &scene, 20, &first, &last);
    part = solver_of(text);
    ASSERT_OK(ct_solver_restore(part, test_path("rcnn_iter_10.solverstate")));
    train(part, &scene, 10, &first, &last);
    n = ct_net_arena_count(ct_solver_net(whole));
    ASSERT_INT(20, ct_solver_iter(part));
    a = ct_net_arena_data(ct_solver_net(whole));
    b = ct_net_arena_data(ct_solver_net(part));
    for (size_t i = 16; i < n && test_device()->kind == CT_CPU; i++)
        if (a[i] != b[i])
            FAIL("value %zu is %.9g, resumed %.9g", i, (double)a[i],
                 (double)b[i]);
}

/* Pictures of 16 x 16 pixels with a square somewhere, and their labels: 1 in
 * the square, 255 around it, 0 elsewhere. */
static const char *draw_pairs(void)
{
    struct ct_image im = { 0 }, label = { 0 };
    struct ct_text list = { 0 }, png = { 0 };
    const char *path    = test_path("list.txt");

    ASSERT_OK(ct_image_size(&im, 16, 16, 3));
    ASSERT_OK(ct_image_size(&label, 16, 16, 1));
    for (int i = 0; i < 4; i++) {
        const int top = 2 + 3 * (i / 2), left = 2 + 5 * (i % 2);

        for (int p = 0; p < 256; p++) {
            const int y = p / 16 - top, x = p % 16 - left;
            const bool in = y >= 0 && y < 7 && x >= 0 && x < 7;
            const bool near = y >= -1 && y < 8 && x >= -1 && x < 8;

            memset(im.pixels + 3 * p, in ? 200 : 30, 3);
            label.pixels[p] = in ? 1 : near ? 255 : 0;
        }
        ASSERT_OK(ct_image_encode(&im, "png", &png));
        test_write(test_path(test_format("i%d.png", i)), png.s, png.n_bytes);
        ASSERT_OK(ct_image_encode(&label, "png", &png));
        test_write(test_path(test_format("l%d.png", i)), png.s, png.n_bytes);
        ct_text_addf(&list, "i%d.png l%d.png\n", i, i);
    }
    test_write(path, list.s, list.n_bytes);
    ct_text_fini(&list);
    ct_text_fini(&png);
    ct_image_fini(&im);
    ct_image_fini(&label);
    return path;
}

static void segments(struct ct_solver *s)
{
    double first;
    float right[1];

    ASSERT_OK(ct_solver_step(s, 1));
    first = ct_solver_loss(s);
    ASSERT_OK(ct_solver_step(s, 119));
    if (!(ct_solver_loss(s) < 0.2 * first))
        FAIL("the loss went from %g to %g", first, ct_solver_loss(s));
    get(s, "accuracy", right, 1);
    ASSERT(right[0] > 0.95f);
}

static const char rate[] =
    "base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' random_seed: 3 "
    "max_iter: 120 snapshot_after_train: false";

TEST(forks, segnet_learns_to_segment)
{
    const char *list = draw_pairs();

    segments(solver_of(test_format(
        "net_param { name: 'segnet' layer { name: 'data' "
        "  type: 'DenseImageData' top: 'data' top: 'label' "
        "  dense_image_data_param { source: '%s' root_folder: '%s/' "
        "  batch_size: 4 shuffle: true } transform_param { scale: 0.01 } }"
        CONV("conv1", "data", "8", "3", "pad: 1")
        "layer { bottom: 'conv1' top: 'conv1' name: 'conv1_bn' type: 'BN' "
        "  bn_param { scale_filler { type: 'constant' value: 1 } "
        "  shift_filler { type: 'constant' value: 0.001 } } "
        "  param { lr_mult: 1 decay_mult: 1 } "
        "  param { lr_mult: 1 decay_mult: 0 } }" RELU("conv1")
        "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' "
        "  top: 'pool1_mask' pooling_param { pool: MAX kernel_size: 2 "
        "  stride: 2 } }"
        "layer { name: 'upsample1' type: 'Upsample' bottom: 'pool1' "
        "  top: 'pool1_D' bottom: 'pool1_mask' upsample_param { scale: 2 } }"
        CONV("conv1_D", "pool1_D", "8", "3", "pad: 1")
        "layer { bottom: 'conv1_D' top: 'conv1_D' name: 'conv1_D_bn' "
        "  type: 'BN' bn_param { scale_filler { type: 'constant' value: 1 } "
        "  shift_filler { type: 'constant' value: 0.001 } } }" RELU("conv1_D")
        CONV("score", "conv1_D", "2", "3", "pad: 1")
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' "
        "  bottom: 'label' top: 'loss' softmax_param { engine: CAFFE } "
        "  loss_param { weight_by_label_freqs: true ignore_label: 255 "
        "  class_weighting: 0.6 class_weighting: 2 } }"
        "layer { name: 'accuracy' type: 'Accuracy' bottom: 'score' "
        "  bottom: 'label' top: 'accuracy' accuracy_param { "
        "  ignore_label: 255 } } } %s", list, test_folder(), rate)));
}

static const char *pspnet(const char *more)
{
    return test_format(
        "net_param { name: 'pspnet' layer { name: 'data' "
        "  type: 'ImageSegData' top: 'data' top: 'label' top: 'data_dim' "
        "  image_data_param { source: '%s' root_folder: '%s/' batch_size: 4 "
        "  shuffle: true label_type: PIXEL } transform_param { mirror: true "
        "  crop_size: 13 scale: 0.01 mean_value: 100 } }"
        "layer { name: 'rest' type: 'Silence' bottom: 'data_dim' }"
        CONV("conv1", "data", "8", "3", "stride: 2 pad: 1 bias_term: false")
        "layer { name: 'conv1/bn' type: 'BN' bottom: 'conv1' top: 'conv1/bn' "
        "  param { lr_mult: 1 decay_mult: 0 } "
        "  param { lr_mult: 1 decay_mult: 0 } "
        "  bn_param { slope_filler { type: 'constant' value: 1 } "
        "  bias_filler { type: 'constant' value: 0 } momentum: 0.8 } }"
        RELU("conv1/bn")
        CONV("score", "conv1/bn", "2", "3", "pad: 1")
        "layer { name: 'interp' type: 'Interp' bottom: 'score' "
        "  top: 'interp' interp_param { height: 13 width: 13 } }"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'interp' "
        "  bottom: 'label' top: 'loss' loss_param { ignore_label: 255 } }"
        "layer { name: 'accuracy' type: 'Accuracy' bottom: 'interp' "
        "  bottom: 'label' top: 'accuracy' accuracy_param { "
        "  ignore_label: 255 } } } %s %s", test_path("list.txt"),
        test_folder(), rate, more);
}

TEST(forks, pspnet_learns_to_segment)
{
    draw_pairs();
    segments(solver_of(pspnet("")));
}

/* Crops, mirrors, order and running statistics go on as if nothing were. */
TEST(forks, a_resumed_segmenter_continues_to_the_bit)
{
    const char *text;
    struct ct_solver *whole, *part;
    float *a, *b;

    draw_pairs();
    text  = pspnet(test_format("snapshot: 5 snapshot_prefix: '%s'",
                               test_path("psp")));
    whole = solver_of(text);
    ASSERT_OK(ct_solver_step(whole, 10));
    part = solver_of(text);
    ASSERT_OK(ct_solver_restore(part, test_path("psp_iter_5.solverstate")));
    ASSERT_OK(ct_solver_step(part, 5));
    a = ct_net_arena_data(ct_solver_net(whole));
    b = ct_net_arena_data(ct_solver_net(part));
    for (size_t i = 16; i < ct_net_arena_count(ct_solver_net(whole)) &&
                        test_device()->kind == CT_CPU; i++)
        if (a[i] != b[i])
            FAIL("value %zu is %.9g, resumed %.9g", i, (double)a[i],
                 (double)b[i]);
}

/* YOLO: the square again, 12 of 32 pixels around (14, 14). */
static const char yolo_front[] =
    "net_param { name: 'yolo' layer { name: 'in' type: 'Input' top: 'data' "
    "  top: 'label' input_param { shape { dim: 1 dim: 1 dim: 32 dim: 32 } "
    "  shape { dim: 1 dim: 1 dim: 2 dim: 5 } } }"
    CONV("c1", "data", "8", "3", "stride: 2 pad: 1")
    "layer { name: 'm1' type: 'Mish' bottom: 'c1' top: 'c1' }"
    CONV("c2", "c1", "4", "3", "stride: 2 pad: 1")
    "layer { name: 'm2' type: 'Mish' bottom: 'c2' top: 'm2' }"
    "layer { name: 'reorg' type: 'Reorg' bottom: 'm2' top: 'reorg' "
    "  reorg_param { stride: 2 } }"
    CONV("c3", "m2", "16", "3", "stride: 2 pad: 1")
    "layer { name: 'm3' type: 'Mish' bottom: 'c3' top: 'c3' }"
    "layer { name: 'cat' type: 'Concat' bottom: 'reorg' bottom: 'c3' "
    "  top: 'cat' }"
    CONV("out", "cat", "14", "1", "");

static void detects(const char *loss, bool shows)
{
    static const float label[] = { 1, 14 / 32.0f, 14 / 32.0f, 12 / 32.0f,
                                   12 / 32.0f, 0, 0, 0, 0, 0 };
    struct ct_solver *s = solver_of(test_format(
        "%s %s } base_lr: 0.005 momentum: 0.9 lr_policy: 'fixed' "
        "clip_gradients: 10 random_seed: 5 max_iter: 400 "
        "snapshot_after_train: false",
        yolo_front, loss));
    struct scene scene;
    double first = 0;

    draw_scene(&scene);
    for (int i = 0; i < 300; i++) {
        put(s, "data", scene.image);
        put(s, "label", label);
        ASSERT_OK(ct_solver_step(s, 1));
        first = i == 0 ? ct_solver_loss(s) : first;
    }
    if (!(ct_solver_loss(s) < 0.1 * first))
        FAIL("the loss went from %g to %g", first, ct_solver_loss(s));
    if (shows) {
        const float want[] = { 0, 2, 1, 0.25f, 0.25f, 0.625f, 0.625f };
        float found[7];

        ASSERT_INT(7, count(s, "found"));
        get(s, "found", found, 7);
        for (int i = 0; i < 7; i++)
            ASSERT_FLOAT(want[i], found[i], i == 2 ? 0.5 : 0.06);
    }
}

TEST(forks, yolo_2_learns_a_box)
{
    detects("layer { name: 'loss' type: 'RegionLoss' bottom: 'out' "
            "  bottom: 'label' top: 'loss' region_loss_param { num: 2 "
            "  num_class: 2 biases: 1 biases: 1 biases: 1.6 biases: 1.4 "
            "  rescore: 0 coord_scale: 1 object_scale: 5 noobject_scale: 1 "
            "  thresh: 0.6 } }", false);
}

TEST(forks, yolo_3_learns_a_box_and_finds_it)
{
    detects("layer { name: 'loss' type: 'Yolov3' bottom: 'out' "
            "  bottom: 'label' top: 'loss' yolov3_param { num: 2 "
            "  num_class: 2 anchors_scale: 8 biases: 8 biases: 8 biases: 13 "
            "  biases: 11 mask: 0 mask: 1 coord_scale: 1 thresh: 0.6 } }"
            "layer { name: 'found' type: 'Yolov3DetectionOutput' "
            "  bottom: 'out' top: 'found' yolov3_detection_output_param { "
            "  num_classes: 2 num_box: 2 confidence_threshold: 0.5 "
            "  nms_threshold: 0.45 biases: 8 biases: 8 biases: 13 biases: 11 "
            "  anchors_scale: 8 mask_group_num: 1 mask: 0 mask: 1 } }", true);
}
