"""SSD-300: where it looks for boxes, what it learns them from."""

from .net import Net, XAVIER, constant
from .plain import vgg_convs
from .prototxt import Enum

# Where SSD-300 looks for boxes: blob, smallest and next size in pixels,
# aspect ratios, pixels a cell.
SSD_SOURCES = (
    ("conv4_3_norm", 30, 60, [2], 8), ("fc7", 60, 111, [2, 3], 16),
    ("conv6_2", 111, 162, [2, 3], 32), ("conv7_2", 162, 213, [2, 3], 64),
    ("conv8_2", 213, 264, [2], 100), ("conv9_2", 264, 315, [2], 300))


def ssd_heads(n, classes):
    """A location and a confidence convolution, and the prior boxes, a
    source; each joined over all sources."""
    parts = {"loc": [], "conf": [], "priorbox": []}
    for blob, low, high, ratios, step in SSD_SOURCES:
        priors = 2 + 2 * len(ratios)
        for what, width in (("loc", 4), ("conf", classes)):
            name = "%s_mbox_%s" % (blob, what)
            x = n.conv(name, blob, priors * width, 3, p=1)
            x = n.add("Permute", name + "_perm", x,
                      permute_param={"order": [0, 2, 3, 1]})
            parts[what].append(n.add("Flatten", name + "_flat", x,
                                     flatten_param={"axis": 1}))
        parts["priorbox"].append(n.add(
            "PriorBox", blob + "_mbox_priorbox", [blob, "data"],
            prior_box_param={
                "min_size": low, "max_size": high, "aspect_ratio": ratios,
                "flip": True, "clip": False,
                "variance": [0.1, 0.1, 0.2, 0.2], "step": step,
                "offset": 0.5}))
    return [n.concat("mbox_" + what, blobs, 2 if what == "priorbox" else 1)
            for what, blobs in parts.items()]


def sampler(**constraint):
    """A part of the image that holds some of an object."""
    return {"sampler": {"min_scale": 0.3, "max_scale": 1.0,
                        "min_aspect_ratio": 0.5, "max_aspect_ratio": 2.0},
            "sample_constraint": constraint, "max_sample": 1,
            "max_trials": 50}


SAMPLERS = [{"max_sample": 1, "max_trials": 1}] + \
    [sampler(min_jaccard_overlap=o) for o in (0.1, 0.3, 0.5, 0.7, 0.9)] + \
    [sampler(max_jaccard_overlap=1.0)]

LABELS = "data/VOC0712/labelmap_voc.prototxt"
EVERY_WAY = ("LINEAR", "AREA", "NEAREST", "CUBIC", "LANCZOS4")


def voc_data(n):
    """VOC 2007 and 2012 as SSD's databases hold them."""
    def data(phase, source, batch, resize, more, samplers):
        n.add("AnnotatedData", "data", top=["data", "label"],
              include={"phase": Enum(phase)},
              transform_param={
                  **({"mirror": True} if phase == "TRAIN" else {}),
                  "mean_value": [104, 117, 123],
                  "resize_param": {
                      "prob": 1, "resize_mode": Enum("WARP"), "height": 300,
                      "width": 300,
                      "interp_mode": [Enum(way) for way in resize]},
                  **more},
              data_param={"source": source, "batch_size": batch,
                          "backend": Enum("LMDB")},
              annotated_data_param={**samplers, "label_map_file": LABELS})

    data("TRAIN", "examples/VOC0712/VOC0712_trainval_lmdb", 32, EVERY_WAY, {
        "emit_constraint": {"emit_type": Enum("CENTER")},
        "distort_param": {
            "brightness_prob": 0.5, "brightness_delta": 32,
            "contrast_prob": 0.5, "contrast_lower": 0.5,
            "contrast_upper": 1.5, "hue_prob": 0.5, "hue_delta": 18,
            "saturation_prob": 0.5, "saturation_lower": 0.5,
            "saturation_upper": 1.5, "random_order_prob": 0.0},
        "expand_param": {"prob": 0.5, "max_expand_ratio": 4.0},
    }, {"batch_sampler": SAMPLERS})
    data("TEST", "examples/VOC0712/VOC0712_test_lmdb", 8, ("LINEAR",), {}, {})


def multibox_loss(n, bottoms, classes):
    n.add("MultiBoxLoss", "mbox_loss", bottoms,
          include={"phase": Enum("TRAIN")},
          propagate_down=[True, True, False, False],
          loss_param={"normalization": Enum("VALID")},
          multibox_loss_param={
              "loc_loss_type": Enum("SMOOTH_L1"),
              "conf_loss_type": Enum("SOFTMAX"), "loc_weight": 1.0,
              "num_classes": classes, "share_location": True,
              "match_type": Enum("PER_PREDICTION"), "overlap_threshold": 0.5,
              "use_prior_for_matching": True, "background_label_id": 0,
              "use_difficult_gt": True, "neg_pos_ratio": 3.0,
              "neg_overlap": 0.5, "code_type": Enum("CENTER_SIZE"),
              "ignore_cross_boundary_bbox": False,
              "mining_type": Enum("MAX_NEGATIVE")})


def ssd300(train, classes=21):
    n = Net("VGG_VOC0712_SSD_300x300_" + ("train" if train else "deploy"),
            train)
    if train:
        voc_data(n)
    else:
        n.input(1, 3, 300, 300)
    x = vgg_convs(n, "data", (2, 2, 3, 3, 3), pool5=(3, 1, 1), fill=XAVIER)
    x = n.relu("relu6", n.conv("fc6", x, 1024, 3, p=6, d=6))
    x = n.relu("relu7", n.conv("fc7", x, 1024, 1))
    for i, narrow, wide, s, p in ((6, 256, 512, 2, 1), (7, 128, 256, 2, 1),
                                  (8, 128, 256, 1, 0), (9, 128, 256, 1, 0)):
        name = "conv%d_" % i
        x = n.relu(name + "1_relu", n.conv(name + "1", x, narrow, 1))
        x = n.relu(name + "2_relu", n.conv(name + "2", x, wide, 3, s, p))
    n.add("Normalize", "conv4_3_norm", "conv4_3", norm_param={
        "across_spatial": False, "channel_shared": False,
        "scale_filler": constant(20)})
    loc, conf, priors = ssd_heads(n, classes)
    if train:
        multibox_loss(n, [loc, conf, priors, "label"], classes)
    test = {"include": {"phase": Enum("TEST")}} if train else {}
    x = n.add("Reshape", "mbox_conf_reshape", conf, **test, reshape_param={
        "shape": {"dim": [0, -1, classes]}})
    x = n.add("Softmax", "mbox_conf_softmax", x, **test,
              softmax_param={"axis": 2})
    x = n.add("Flatten", "mbox_conf_flatten", x, **test,
              flatten_param={"axis": 1})
    n.add("DetectionOutput", "detection_out", [loc, x, priors],
          include={"phase": Enum("TEST")},
          detection_output_param={
              "num_classes": classes, "share_location": True,
              "background_label_id": 0,
              "nms_param": {"nms_threshold": 0.45, "top_k": 400},
              "code_type": Enum("CENTER_SIZE"), "keep_top_k": 200,
              "confidence_threshold": 0.01})
    if train:
        n.add("DetectionEvaluate", "detection_eval",
              ["detection_out", "label"], **test, detection_evaluate_param={
                  "num_classes": classes, "background_label_id": 0,
                  "overlap_threshold": 0.5, "evaluate_difficult_gt": False})
    return n
