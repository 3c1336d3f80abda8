"""Straight nets for ILSVRC12 and what is built on them: AlexNet, CaffeNet,
VGG, SqueezeNet, FCN-8s."""

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


def vgg_convs(n, x, depths, first_pad=1, pool5=(2, 2, 0),
              fill=gaussian(0.01)):
    """conv1_1 to pool5."""
    for i, (depth, width) in enumerate(zip(depths, (64, 128, 256, 512, 512)),
                                       1):
        for j in range(1, depth + 1):
            name = "%d_%d" % (i, j)
            pad = first_pad if name == "1_1" else 1
            x = n.conv("conv" + name, x, width, 3, p=pad,
                       fill=fill if n.train else None)
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
