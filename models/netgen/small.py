"""The small nets of Caffe's examples: LeNet, the two CIFAR-10 nets, the
siamese net, the autoencoder, and a recurrent net that reads an image row by
row."""

from .net import AVE, MAX, XAVIER, Net, constant, gaussian
from .prototxt import Enum

PIXEL = {"scale": 0.00390625}           # 1 / 256, as Caffe's LeNet has it


def mnist_data(n, batches, name="mnist", transform=PIXEL, tops=None,
               source="examples/mnist/mnist_%s_lmdb"):
    for phase, batch, part in (("TRAIN", batches[0], "train"),
                               ("TEST", batches[1], "test")):
        n.data(name, phase, source % part, batch, transform, tops)
    return "data"


def lenet_trunk(n, data, suffix="", names=False):
    """conv1 to the 10 (or any) outputs of ip2."""
    def spec(layer):
        return {"decay": None,
                "names": [layer + "_w", layer + "_b"] if names else None}

    s = suffix
    x = n.conv("conv1" + s, data, 20, 5, **spec("conv1"))
    x = n.pool("pool1" + s, x, MAX, 2, 2)
    x = n.conv("conv2" + s, x, 50, 5, **spec("conv2"))
    x = n.pool("pool2" + s, x, MAX, 2, 2)
    x = n.fc("ip1" + s, x, 500, **spec("ip1"))
    n.relu("relu1" + s, x)
    return n.fc("ip2" + s, x, 10, **spec("ip2"))


def lenet(train):
    n = Net("LeNet", train)
    x = mnist_data(n, (64, 100)) if train else n.input(64, 1, 28, 28)
    n.classify(lenet_trunk(n, x))
    return n


def cifar_data(n):
    if not n.train:
        return n.input(1, 3, 32, 32)
    for phase, part in (("TRAIN", "train"), ("TEST", "test")):
        n.data("cifar", phase, "examples/cifar10/cifar10_%s_lmdb" % part, 100,
               {"mean_file": "examples/cifar10/mean.binaryproto"})
    return "data"


def cifar10_quick(train):
    n = Net("CIFAR10_quick", train)
    x = cifar_data(n)
    x = n.conv("conv1", x, 32, 5, p=2, fill=gaussian(0.0001), decay=None)
    x = n.relu("relu1", n.pool("pool1", x, MAX, 3, 2))
    for i, width in ((2, 32), (3, 64)):
        x = n.conv("conv%d" % i, x, width, 5, p=2, fill=gaussian(0.01),
                   decay=None)
        n.relu("relu%d" % i, x)
        x = n.pool("pool%d" % i, x, AVE, 3, 2)
    x = n.fc("ip1", x, 64, fill=gaussian(0.1), decay=None)
    n.classify(n.fc("ip2", x, 10, fill=gaussian(0.1), decay=None))
    return n


def cifar10_full(train):
    within = {"norm_region": Enum("WITHIN_CHANNEL")}
    n = Net("CIFAR10_full", train)
    x = cifar_data(n)
    x = n.conv("conv1", x, 32, 5, p=2, fill=gaussian(0.0001), decay=None)
    x = n.relu("relu1", n.pool("pool1", x, MAX, 3, 2))
    x = n.lrn("norm1", x, 3, 5e-5, 0.75, **within)
    x = n.conv("conv2", x, 32, 5, p=2, fill=gaussian(0.01), decay=None)
    n.relu("relu2", x)
    x = n.lrn("norm2", n.pool("pool2", x, AVE, 3, 2), 3, 5e-5, 0.75, **within)
    x = n.conv("conv3", x, 64, 5, p=2, fill=gaussian(0.01), lr=(1, 1),
               decay=None)
    n.relu("relu3", x)
    x = n.pool("pool3", x, AVE, 3, 2)
    n.classify(n.fc("ip1", x, 10, fill=gaussian(0.01), decay=(250, 0)))
    return n


def siamese(train):
    """Two LeNets with one set of weights map a pair of digits to points that
    lie close together when the digits are alike."""
    n = Net("mnist_siamese", train)
    if not train:
        x = lenet_trunk(n, n.input(64, 1, 28, 28))
        n.fc("feat", x, 2)
        return n
    mnist_data(n, (64, 100), "pair_data", tops=["pair_data", "sim"],
               source="examples/siamese/mnist_siamese_%s_lmdb")
    n.add("Slice", "slice_pair", "pair_data", ["data", "data_p"],
          slice_param={"axis": 1, "slice_point": 1})
    feats = []
    for suffix in ("", "_p"):
        x = lenet_trunk(n, "data" + suffix, suffix, names=True)
        feats.append(n.fc("feat" + suffix, x, 2, decay=None,
                          names=["feat_w", "feat_b"]))
    n.add("ContrastiveLoss", "loss", feats + ["sim"],
          contrastive_loss_param={"margin": 1})
    return n


def autoencoder(train):
    n = Net("MNISTAutoencoder", train)
    fill = gaussian(1, sparse=15)
    spec = {"fill": fill, "lr": (1, 1)}
    if train:
        sets = (("TRAIN", None, "train"), ("TEST", "test-on-train", "train"),
                ("TEST", "test-on-test", "test"))
        for phase, stage, part in sets:
            n.data("data", phase, "examples/mnist/mnist_%s_lmdb" % part, 100,
                   {"scale": 0.0039215684}, ["data"])
            if stage:
                n.layers[-1]["include"]["stage"] = stage
    else:
        n.input(64, 1, 28, 28)
    x = n.add("Flatten", "flatdata", "data")
    for i, width in ((1, 1000), (2, 500), (3, 250), (4, 30)):
        x = n.fc("encode%d" % i, x, width, **spec)
        if i < 4:
            x = n.add("Sigmoid", "encode%dneuron" % i, x)
    for i, width in ((4, 250), (3, 500), (2, 1000), (1, 784)):
        x = n.fc("decode%d" % i, x, width, **spec)
        if i > 1:
            x = n.add("Sigmoid", "decode%dneuron" % i, x)
    if train:
        n.add("SigmoidCrossEntropyLoss", "loss", [x, "flatdata"],
              "cross_entropy_loss", loss_weight=1)
    y = n.add("Sigmoid", "decode1neuron", x)
    if train:
        n.add("EuclideanLoss", "loss_l2", [y, "flatdata"], "l2_error",
              loss_weight=0)
    return n


def lstm_sequence(n, batches):
    """data: 28 rows (time) x batch x 28 pixels; cont: 0 starts a sequence."""
    mnist_data(n, batches, tops=["image", "label"])
    n.add("Reshape", "rows", "image", reshape_param={
        "shape": {"dim": [0, 28, 28]}})
    n.add("Permute", "data", "rows", permute_param={"order": [1, 0, 2]})
    for phase, batch in zip(("TRAIN", "TEST"), batches):
        n.add("DummyData", "cont_parts", top=["cont_first", "cont_rest"],
              include={"phase": Enum(phase)},
              dummy_data_param={
                  "data_filler": [constant(0), constant(1)],
                  "shape": [{"dim": [1, batch]}, {"dim": [27, batch]}]})
    n.concat("cont", ["cont_first", "cont_rest"], axis=0)


def lstm(train):
    """An LSTM reads a digit's rows from top to bottom; the state after the
    last row is classified."""
    n = Net("lstm_sequence", train)
    if train:
        lstm_sequence(n, (64, 100))
    else:
        n.input(28, 1, 28)
        n.input(28, 1, name="cont")
    fill = {"weight_filler": {"type": "uniform", "min": -0.08, "max": 0.08},
            "bias_filler": constant(0)} if train else {}
    x = n.add("LSTM", "lstm1", ["data", "cont"],
              recurrent_param={"num_output": 128, **fill})
    n.add("Slice", "last_step", x, ["early", "last"],
          slice_param={"axis": 0, "slice_point": 27})
    n.add("Silence", "silence", "early", ())
    x = n.add("Reshape", "state", "last", reshape_param={
        "shape": {"dim": [-1, 128]}})
    n.classify(n.fc("ip", x, 10, fill=XAVIER, decay=None))
    return n
