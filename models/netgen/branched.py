"""Nets of repeated blocks: GoogLeNet, Inception-v3, ResNet, MobileNet v1 and
v2, DenseNet-121."""

from .net import AVE, MAX, MSRA, Net
from .prototxt import Enum

# GoogLeNet's blocks: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool_proj.
INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128)}


def googlenet(train):
    n = Net("GoogleNet", train)
    x = n.imagenet(224, (32, 50))

    def conv(prefix, name, bottom, *shape, **more):
        y = n.conv(prefix + name, bottom, *shape, bias_value=0.2, **more)
        return n.relu(prefix + "relu_" + name.split("_s")[0], y)

    def block(x, which):
        p = "inception_%s/" % which
        c1, r3, c3, r5, c5, cp = INCEPTION[which]
        out = [conv(p, "1x1", x, c1, 1),
               conv(p, "3x3", conv(p, "3x3_reduce", x, r3, 1), c3, 3, p=1),
               conv(p, "5x5", conv(p, "5x5_reduce", x, r5, 1), c5, 5, p=2)]
        pool = n.pool(p + "pool", x, MAX, 3, 1, 1)
        out.append(conv(p, "pool_proj", pool, cp, 1))
        return n.concat(p + "output", out)

    def head(p, x, loss, weight):
        n.add("SoftmaxWithLoss", p + loss[0], [x, "label"], p + loss[1],
              loss_weight=weight)
        n.accuracy(p + "top-1", x)
        n.accuracy(p + "top-5", x, 5)

    def side_head(x, i):
        p = "loss%d/" % i
        y = n.pool(p + "ave_pool", x, AVE, 5, 3)
        y = n.relu(p + "relu_conv", n.conv(p + "conv", y, 128, 1,
                                           bias_value=0.2))
        y = n.relu(p + "relu_fc", n.fc(p + "fc", y, 1024, bias_value=0.2))
        n.dropout(p + "drop_fc", y, 0.7)
        head(p, n.fc(p + "classifier", y, 1000), ("loss", "loss1"), 0.3)

    x = conv("conv1/", "7x7_s2", x, 64, 7, 2, 3)
    x = n.lrn("pool1/norm1", n.pool("pool1/3x3_s2", x, MAX, 3, 2))
    x = conv("conv2/", "3x3", conv("conv2/", "3x3_reduce", x, 64, 1),
             192, 3, p=1)
    x = n.pool("pool2/3x3_s2", n.lrn("conv2/norm2", x), MAX, 3, 2)
    x = block(block(x, "3a"), "3b")
    x = block(n.pool("pool3/3x3_s2", x, MAX, 3, 2), "4a")
    if train:
        side_head(x, 1)
    x = block(block(block(x, "4b"), "4c"), "4d")
    if train:
        side_head(x, 2)
    x = n.pool("pool4/3x3_s2", block(x, "4e"), MAX, 3, 2)
    x = block(block(x, "5a"), "5b")
    x = n.dropout("pool5/drop_7x7_s1", n.pool("pool5/7x7_s1", x, AVE, 7, 1),
                  0.4)
    x = n.fc("loss3/classifier", x, 1000)
    if train:
        head("loss3/", x, ("loss3", "loss3"), 1)
    else:
        n.add("Softmax", "prob", x)
    return n


class V3:
    """Inception-v3's blocks.  Every convolution has a BatchNorm, a Scale and
    a ReLU behind it."""

    def __init__(self, n):
        self.n = n

    def conv(self, name, bottom, width, k, s=1, p=0, relu=None):
        n = self.n
        x = n.conv(name, bottom, width, k, s, p, bias=False)
        n.bn(name + "_bn", name + "_scale", x, eps=0.001)
        return n.relu(relu or name + "_relu", x)

    def chain(self, prefix, x, *links):
        """Convolutions one behind the other; a link is name, width, kernel,
        and stride where it is not 1.  Kernels keep the size at stride 1."""
        for name, width, k, *s in links:
            if s:
                x = self.conv(prefix + name, x, width, k, s[0])
            elif isinstance(k, tuple):
                x = self.conv(prefix + name, x, width, k,
                              p=(k[0] // 2, k[1] // 2))
            else:
                x = self.conv(prefix + name, x, width, k, p=k // 2)
        return x

    def a(self, x, i, proj):
        p = "inception_a%d_" % i
        out = [self.chain(p, x, ("1x1", 64, 1)),
               self.chain(p, x, ("5x5_reduce", 48, 1), ("5x5", 64, 5)),
               self.chain(p, x, ("3x3_reduce", 64, 1), ("3x3_1", 96, 3),
                          ("3x3_2", 96, 3))]
        y = self.n.pool(p + "pool", x, AVE, 3, 1, 1)
        out.append(self.chain(p, y, ("pool_proj", proj, 1)))
        return self.n.concat(p + "output", out)

    def b(self, x, i, w):
        p, row, column = "inception_b%d_" % i, (1, 7), (7, 1)
        out = [self.chain(p, x, ("1x1_2", 192, 1)),
               self.chain(p, x, ("1x7_reduce", w, 1), ("1x7", w, row),
                          ("7x1", 192, column)),
               self.chain(p, x, ("7x1_reduce", w, 1), ("7x1_2", w, column),
                          ("1x7_2", w, row), ("7x1_3", w, column),
                          ("1x7_3", 192, row))]
        y = self.n.pool(p + "pool_ave", x, AVE, 3, 1, 1)
        out.append(self.chain(p, y, ("1x1", 192, 1)))
        return self.n.concat(p + "concat", out)

    def c(self, x, i, pool):
        p, row, column = "inception_c%d_" % i, (1, 3), (3, 1)
        out = [self.chain(p, x, ("1x1_2", 320, 1))]
        y = self.chain(p, x, ("1x3_reduce", 384, 1))
        out += [self.chain(p, y, ("1x3", 384, row)),
                self.chain(p, y, ("3x1", 384, column))]
        y = self.chain(p, x, ("3x3_reduce", 448, 1), ("3x3", 384, 3))
        out += [self.chain(p, y, ("1x3_2", 384, row)),
                self.chain(p, y, ("3x1_2", 384, column))]
        y = self.n.pool(p + "pool", x, pool, 3, 1, 1)
        out.append(self.chain(p, y, ("1x1", 192, 1)))
        return self.n.concat(p + "concat", out)

    def reduce(self, x, which, *chains):
        p = "reduction_%s_" % which
        out = [self.chain(p, x, *links) for links in chains]
        out.append(self.n.pool(p + "pool", x, MAX, 3, 2))
        return self.n.concat(p + "concat", out)


def inception_v3(train):
    n = Net("Inception_v3", train)
    v = V3(n)
    x = n.imagenet(299, (32, 25), deploy_batch=1, scale=0.0078125,
                   mean=[128, 128, 128])
    x = v.conv("conv1_3x3_s2", x, 32, 3, 2, relu="conv1_3x3_relu")
    x = v.conv("conv2_3x3_s1", x, 32, 3, relu="conv2_3x3_relu")
    x = v.conv("conv3_3x3_s1", x, 64, 3, p=1, relu="conv3_3x3_relu")
    x = n.pool("pool1_3x3_s2", x, MAX, 3, 2)
    x = v.conv("conv4_3x3_reduce", x, 80, 1, relu="conv4_relu_3x3_reduce")
    x = v.conv("conv4_3x3", x, 192, 3, relu="conv4_relu_3x3")
    x = n.pool("pool2_3x3_s2", x, MAX, 3, 2)
    for i, proj in ((1, 32), (2, 64), (3, 64)):
        x = v.a(x, i, proj)
    x = v.reduce(x, "a", [("3x3", 384, 3, 2)],
                 [("3x3_2_reduce", 64, 1), ("3x3_2", 96, 3),
                  ("3x3_3", 96, 3, 2)])
    for i, width in ((1, 128), (2, 160), (3, 160), (4, 192)):
        x = v.b(x, i, width)
    x = v.reduce(x, "b", [("3x3_reduce", 192, 1), ("3x3", 320, 3, 2)],
                 [("1x7_reduce", 192, 1), ("1x7", 192, (1, 7)),
                  ("7x1", 192, (7, 1)), ("3x3_2", 192, 3, 2)])
    x = v.c(v.c(x, 1, AVE), 2, MAX)
    x = n.pool("pool_8x8_s1", x, AVE)
    x = n.dropout("pool_8x8_s1_drop", x, 0.2, top="pool_8x8_s1_drop")
    n.classify(n.fc("classifier", x, 1000), top_k=(1, 5))
    return n


def resnet(train, layers):
    """Stages of bottleneck blocks.  Blocks are named a, b, c, ... in stages
    of a few and a, b1, b2, ... in the long ones of ResNet-101 and -152.  The
    published ResNet-50 has a bias in conv1, the deeper ones have none."""
    depths = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
    n = Net("ResNet-%d" % layers, train)
    x = n.imagenet(224, (32, 25), deploy_batch=1)

    def conv_bn(name, bottom, *shape):
        y = n.conv("res" + name, bottom, *shape, bias=False, fill=MSRA)
        return n.bn("bn" + name, "scale" + name, y)

    def block(x, name, width, stride, first):
        side = x
        if first:
            side = conv_bn(name + "_branch1", x, 4 * width, 1, stride)
        b = name + "_branch2"
        y = n.relu("res%sa_relu" % b, conv_bn(b + "a", x, width, 1, stride))
        y = n.relu("res%sb_relu" % b, conv_bn(b + "b", y, width, 3, 1, 1))
        y = conv_bn(b + "c", y, 4 * width, 1)
        y = n.add("Eltwise", "res" + name, [side, y])
        return n.relu("res%s_relu" % name, y)

    x = n.conv("conv1", x, 64, 7, 2, 3, bias=layers == 50, fill=MSRA)
    n.bn("bn_conv1", "scale_conv1", x)
    x = n.pool("pool1", n.relu("conv1_relu", x), MAX, 3, 2)
    for stage, depth in enumerate(depths[layers], 2):
        for i in range(depth):
            if layers > 50 and stage in (3, 4):
                letter = "b%d" % i if i else "a"
            else:
                letter = "abcdef"[i]
            stride = 2 if stage > 2 and i == 0 else 1
            x = block(x, "%d%s" % (stage, letter), 64 << (stage - 2), stride,
                      i == 0)
    x = n.fc("fc1000", n.pool("pool5", x, AVE, 7, 1), 1000, fill=MSRA)
    n.classify(x, top_k=(1, 5))
    return n


def mobile_bn(n, name, blob, top=None):
    return n.bn(name + "/bn", name + "/scale", blob, top, eps=1e-5)


def mobilenet_v1(train):
    n = Net("MOBILENET", train)
    x = n.imagenet(224, (64, 25), 1, 0.017, [103.94, 116.78, 123.68])

    def conv(name, x, *shape, **more):
        x = n.conv("conv" + name, x, *shape, bias=False, fill=MSRA, **more)
        return n.relu("relu" + name, mobile_bn(n, "conv" + name, x))

    x = conv("1", x, 32, 3, 2, 1)
    width = 32
    for name, out, stride in (
            ("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2),
            ("4_1", 256, 1), ("4_2", 512, 2), ("5_1", 512, 1),
            ("5_2", 512, 1), ("5_3", 512, 1), ("5_4", 512, 1),
            ("5_5", 512, 1), ("5_6", 1024, 2), ("6", 1024, 1)):
        x = conv(name + "/dw", x, width, 3, stride, 1, g=width)
        x = conv(name + "/sep", x, out, 1)
        width = out
    x = n.conv("fc7", n.pool("pool6", x, AVE), 1000, 1, fill=MSRA)
    n.classify(x, top_k=(1, 5))
    return n


def mobilenet_v2(train):
    n = Net("MOBILENET_V2", train)
    x = n.imagenet(224, (64, 25), 1, 0.017, [103.94, 116.78, 123.68])

    def conv(name, x, *shape, relu=None, **more):
        x = n.conv(name, x, *shape, bias=False, fill=MSRA, **more)
        x = mobile_bn(n, name, x, name + "/bn")
        return n.relu(relu, x) if relu else x

    x = conv("conv1", x, 32, 3, 2, 1, relu="relu1")
    width = 32
    for name, out, stride in (
            ("2_1", 16, 1), ("2_2", 24, 2), ("3_1", 24, 1), ("3_2", 32, 2),
            ("4_1", 32, 1), ("4_2", 32, 1), ("4_3", 64, 1), ("4_4", 64, 1),
            ("4_5", 64, 1), ("4_6", 64, 1), ("4_7", 96, 2), ("5_1", 96, 1),
            ("5_2", 96, 1), ("5_3", 160, 2), ("6_1", 160, 1),
            ("6_2", 160, 1), ("6_3", 320, 1)):
        wide = width if name == "2_1" else 6 * width
        c, r = "conv" + name, "relu" + name
        y = conv(c + "/expand", x, wide, 1, relu=r + "/expand")
        y = conv(c + "/dwise", y, wide, 3, stride, 1, g=wide,
                 relu=r + "/dwise")
        y = conv(c + "/linear", y, out, 1)
        x = n.add("Eltwise", "block_" + name, [x, y]) if out == width else y
        width = out
    x = conv("conv6_4", x, 1280, 1, relu="relu6_4")
    x = n.conv("fc7", n.pool("pool6", x, AVE), 1000, 1, fill=MSRA)
    n.classify(x, top_k=(1, 5))
    return n


def densenet121(train):
    n = Net("DENSENET_121", train)
    x = n.imagenet(224, (32, 25), 1, 0.017, [103.94, 116.78, 123.68])

    def normed(name, relu, x, top=None):
        return n.relu(relu, mobile_bn(n, name, x, top or name + "/bn"))

    x = n.conv("conv1", x, 64, 7, 2, 3, bias=False, fill=MSRA)
    x = normed("conv1", "relu1", x, "conv1")
    x = n.pool("pool1", x, MAX, 3, 2, 1, round_mode=Enum("FLOOR"))
    width = 64
    for stage, depth in ((2, 6), (3, 12), (4, 24), (5, 16)):
        for i in range(1, depth + 1):
            c, r = "conv%d_%d/" % (stage, i), "relu%d_%d/" % (stage, i)
            y = normed(c + "x1", r + "x1", x)
            y = n.conv(c + "x1", y, 128, 1, bias=False, fill=MSRA)
            y = normed(c + "x2", r + "x2", y)
            y = n.conv(c + "x2", y, 32, 3, p=1, bias=False, fill=MSRA)
            x = n.concat("concat_%d_%d" % (stage, i), [x, y])
            width += 32
        x = normed("conv%d_blk" % stage, "relu%d_blk" % stage, x)
        if stage < 5:
            width //= 2
            x = n.conv("conv%d_blk" % stage, x, width, 1, bias=False,
                       fill=MSRA)
            x = n.pool("pool%d" % stage, x, AVE, 2, 2)
    x = n.conv("fc6", n.pool("pool5", x, AVE), 1000, 1, fill=MSRA)
    n.classify(x, top_k=(1, 5))
    return n
