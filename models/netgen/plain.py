"""Straight nets for ILSVRC12 and what is built on them: AlexNet, CaffeNet,
VGG, SqueezeNet, FCN-8s, SSD-300."""

from .net import AVE, MAX, Net, constant, gaussian
from .prototxt import Enum


def alexnet(train, name="AlexNet", pool_first=False, bias=0.1):
    """CaffeNet differs by pooling before it normalises, and by its biases."""
    n = Net(name, train)
    x = n.imagenet(227, (256, 50))

    def shrink(x, i):
        if pool_first:
            return n.lrn("norm%d" % i, n.pool("pool%d" % i, x, MAX, 3, 2))
        return n.pool("pool%d" % i, n.lrn("norm%d" % i, x), MAX, 3, 2)

    def conv(x, i, *shape, b=0, **more):
        x = n.conv("conv%d" % i, x, *shape, fill=gaussian(0.01), bias_value=b,
                   **more)
        return n.relu("relu%d" % i, x)

    x = shrink(conv(x, 1, 96, 11, 4), 1)
    x = shrink(conv(x, 2, 256, 5, p=2, g=2, b=bias), 2)
    x = conv(x, 3, 384, 3, p=1)
    x = conv(x, 4, 384, 3, p=1, g=2, b=bias)
    x = conv(x, 5, 256, 3, p=1, g=2, b=bias)
    x = n.pool("pool5", x, MAX, 3, 2)
    for i in (6, 7):
        x = n.fc("fc%d" % i, x, 4096, fill=gaussian(0.005), bias_value=bias)
        n.relu("relu%d" % i, x)
        n.dropout("drop%d" % i, x)
    x = n.fc("fc8", x, 1000, fill=gaussian(0.01))
    n.classify(x)
    return n


def caffenet(train):
    return alexnet(train, "CaffeNet", pool_first=True, bias=1)


def vgg_convs(n, x, depths, first_pad=1, pool5=(2, 2, 0)):
    """conv1_1 to pool5."""
    for i, (depth, width) in enumerate(zip(depths, (64, 128, 256, 512, 512)),
                                       1):
        for j in range(1, depth + 1):
            name = "%d_%d" % (i, j)
            pad = first_pad if name == "1_1" else 1
            x = n.conv("conv" + name, x, width, 3, p=pad,
                       fill=gaussian(0.01) if n.train else None)
            n.relu("relu" + name, x)
        k, s, p = pool5 if i == 5 else (2, 2, 0)
        x = n.pool("pool%d" % i, x, MAX, k, s, p)
    return x


def vgg(train, layers):
    n = Net("VGG_ILSVRC_%d_layers" % layers, train)
    x = n.imagenet(224, (64, 50))
    x = vgg_convs(n, x, (2, 2, 3, 3, 3) if layers == 16 else (2, 2, 4, 4, 4))
    for i in (6, 7):
        x = n.fc("fc%d" % i, x, 4096, fill=gaussian(0.005), bias_value=0.1)
        n.relu("relu%d" % i, x)
        n.dropout("drop%d" % i, x)
    n.classify(n.fc("fc8", x, 1000, fill=gaussian(0.01)), top_k=(1, 5))
    return n


def squeezenet(train):
    n = Net("SqueezeNet_v1.1", train)
    x = n.imagenet(227, (32, 25))

    def fire(x, i, squeeze, expand):
        f = "fire%d/" % i
        s = n.conv(f + "squeeze1x1", x, squeeze, 1)
        n.relu(f + "relu_squeeze1x1", s)
        a = n.conv(f + "expand1x1", s, expand, 1)
        n.relu(f + "relu_expand1x1", a)
        b = n.conv(f + "expand3x3", s, expand, 3, p=1)
        n.relu(f + "relu_expand3x3", b)
        return n.concat(f + "concat", [a, b])

    x = n.relu("relu_conv1", n.conv("conv1", x, 64, 3, 2))
    x = n.pool("pool1", x, MAX, 3, 2)
    x = fire(fire(x, 2, 16, 64), 3, 16, 64)
    x = n.pool("pool3", x, MAX, 3, 2)
    x = fire(fire(x, 4, 32, 128), 5, 32, 128)
    x = n.pool("pool5", x, MAX, 3, 2)
    for i, squeeze in ((6, 48), (7, 48), (8, 64), (9, 64)):
        x = fire(x, i, squeeze, 4 * squeeze)
    x = n.dropout("drop9", x)
    x = n.relu("relu_conv10",
               n.conv("conv10", x, 1000, 1, fill=gaussian(0.01)))
    n.classify(n.pool("pool10", x, AVE), top_k=(1, 5))
    return n


def fcn8s(train):
    """VGG-16 as a convolution over the image; scores at strides 32, 16 and 8
    are enlarged and summed."""
    n = Net("fcn8s", train)
    if train:
        for phase, part in (("TRAIN", "train"), ("TEST", "val")):
            n.data("data", phase, "examples/voc/voc_%s_image_lmdb" % part, 1,
                   {"mean_value": [104.00699, 116.66877, 122.67892]},
                   ["data"])
            n.data("label", phase, "examples/voc/voc_%s_label_lmdb" % part, 1,
                   {}, ["label"])
    else:
        n.input(1, 3, 500, 500)

    def score(name, bottom):
        return n.conv(name, bottom, 21, 1, fill=constant(0))

    def enlarge(name, bottom, k, s):
        return n.conv(name, bottom, 21, k, s, bias=False, lr=(0,), decay=None,
                      kind="Deconvolution", fill=None)

    def crop(name, bottom, like, offset):
        return n.add("Crop", name, [bottom, like],
                     crop_param={"axis": 2, "offset": offset})

    def add(name, a, b):
        return n.add("Eltwise", name, [a, b],
                     eltwise_param={"operation": Enum("SUM")})

    x = vgg_convs(n, "data", (2, 2, 3, 3, 3), first_pad=100)
    for name, k in (("6", 7), ("7", 1)):
        x = n.conv("fc" + name, x, 4096, k, fill=gaussian(0.005))
        n.relu("relu" + name, x)
        n.dropout("drop" + name, x)
    x = enlarge("upscore2", score("score_fr", x), 4, 2)
    s = score("score_pool4", "pool4")
    x = add("fuse_pool4", x, crop("score_pool4c", s, x, 5))
    x = enlarge("upscore_pool4", x, 4, 2)
    s = score("score_pool3", "pool3")
    x = add("fuse_pool3", x, crop("score_pool3c", s, x, 9))
    x = crop("score", enlarge("upscore8", x, 16, 8), "data", 31)
    if train:
        n.add("Accuracy", "accuracy", [x, "label"],
              include={"phase": Enum("TEST")},
              accuracy_param={"ignore_label": 255})
        n.add("SoftmaxWithLoss", "loss", [x, "label"],
              loss_param={"ignore_label": 255, "normalize": False})
    return n


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


def ssd300(train, classes=21):
    n = Net("VGG_VOC0712_SSD_300x300_deploy", train)
    n.input(1, 3, 300, 300)
    x = vgg_convs(n, "data", (2, 2, 3, 3, 3), pool5=(3, 1, 1))
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
    x = n.add("Reshape", "mbox_conf_reshape", conf, reshape_param={
        "shape": {"dim": [0, -1, classes]}})
    x = n.add("Softmax", "mbox_conf_softmax", x, softmax_param={"axis": 2})
    x = n.add("Flatten", "mbox_conf_flatten", x, flatten_param={"axis": 1})
    n.add("DetectionOutput", "detection_out", [loc, x, priors],
          include={"phase": Enum("TEST")},
          detection_output_param={
              "num_classes": classes, "share_location": True,
              "background_label_id": 0,
              "nms_param": {"nms_threshold": 0.45, "top_k": 400},
              "code_type": Enum("CENTER_SIZE"), "keep_top_k": 200,
              "confidence_threshold": 0.01})
    return n
