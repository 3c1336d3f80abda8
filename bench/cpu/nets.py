"""The nets that bench/cpu trains.

Each is the train net of models/ with its Data layers replaced by DummyData
of constant values: neither disks nor random numbers are timed.  The LSTM,
which models/ has in another size, is written here."""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "models")
sys.path.insert(0, MODELS)

from netgen.prototxt import parse, text  # noqa: E402

# name: (file in models/, batch, shape of an image)
IMAGE_NETS = {
    "lenet": ("lenet/train_test", 64, (1, 28, 28)),
    "cifar10_quick": ("cifar10_quick/train_test", 100, (3, 32, 32)),
    "cifar10_full": ("cifar10_full/train_test", 100, (3, 32, 32)),
    "alexnet": ("bvlc_alexnet/train_val", 32, (3, 227, 227)),
    "caffenet": ("bvlc_reference_caffenet/train_val", 32, (3, 227, 227)),
    "googlenet": ("bvlc_googlenet/train_val", 16, (3, 224, 224)),
    "vgg16": ("vgg16/train_val", 8, (3, 224, 224)),
    "resnet50": ("resnet50/train_val", 8, (3, 224, 224)),
}
LSTM = {"steps": 20, "batch": 32, "inputs": 256, "units": 256, "classes": 10}
NAMES = list(IMAGE_NETS) + ["lstm"]


def batch_of(name):
    """Samples (images, or sequences) in a step."""
    return LSTM["batch"] if name == "lstm" else IMAGE_NETS[name][1]


def dummy(tops):
    """A DummyData layer; tops: (name, shape, value)."""
    return {
        "name": "dummy_" + tops[0][0],
        "type": "DummyData",
        "top": [name for name, _, _ in tops],
        "dummy_data_param": {
            "data_filler": [{"type": "constant", "value": value}
                            for _, _, value in tops],
            "shape": [{"dim": list(shape)} for _, shape, _ in tops],
        },
    }


def in_training(layer):
    phases = [rule["phase"][0] for rule in layer.get("include", [])
              if "phase" in rule]
    return not phases or "TRAIN" in phases


def image_net(name):
    path, batch, shape = IMAGE_NETS[name]
    with open(os.path.join(MODELS, path + ".prototxt")) as file:
        net = parse(file.read())
    layers = []
    for layer in net["layer"]:
        if not in_training(layer):
            continue
        if layer["type"][0] == "Data":
            data, label = layer["top"]
            layer = dummy([(data, (batch,) + shape, 0.5),
                           (label, (batch,), 0)])
        layers.append(layer)
    return {"name": name, "layer": layers}


def lstm_net():
    """An LSTM, and a classifier at each of its steps."""
    size = LSTM
    steps, batch = size["steps"], size["batch"]
    small = {"type": "uniform", "min": -0.08, "max": 0.08}
    layers = [
        dummy([("data", (steps, batch, size["inputs"]), 0.5),
               ("label", (steps, batch), 0),
               ("cont_first", (1, batch), 0),
               ("cont_rest", (steps - 1, batch), 1)]),
        {"name": "cont", "type": "Concat",
         "bottom": ["cont_first", "cont_rest"], "top": "cont",
         "concat_param": {"axis": 0}},
        {"name": "lstm", "type": "LSTM", "bottom": ["data", "cont"],
         "top": "lstm",
         "recurrent_param": {"num_output": size["units"],
                             "weight_filler": small}},
        {"name": "ip", "type": "InnerProduct", "bottom": "lstm", "top": "ip",
         "inner_product_param": {"num_output": size["classes"], "axis": 2,
                                 "weight_filler": {"type": "xavier"}}},
        {"name": "loss", "type": "SoftmaxWithLoss",
         "bottom": ["ip", "label"], "top": "loss",
         "softmax_param": {"axis": 2}},
    ]
    return {"name": "lstm", "layer": layers}


def write(name, folder):
    """Writes the net's prototxt into `folder` and returns its path."""
    net = lstm_net() if name == "lstm" else image_net(name)
    path = os.path.join(folder, name + ".prototxt")
    os.makedirs(folder, exist_ok=True)
    with open(path, "w") as file:
        file.write(text(net))
    return path


def read(path):
    """A prototxt as dicts in which every field is a list."""
    with open(path) as file:
        return parse(file.read())
