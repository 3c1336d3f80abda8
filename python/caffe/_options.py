"""The options that classify.py and detect.py share."""

from __future__ import annotations

import argparse
import os
from typing import Any, Optional

import numpy as np

import caffe
from caffe.proto import caffe_pb2

HERE = os.path.dirname(os.path.realpath(__file__))
MODELS = os.path.join(HERE, os.pardir, os.pardir, "models")
MEAN_FILE = os.path.join(HERE, "imagenet", "ilsvrc_2012_mean.npy")
IMAGENET_MEAN = np.array([104.0, 117.0, 123.0])


def add_net_options(parser: argparse.ArgumentParser, model: str) -> None:
    """Flags of the net and its input; `model` is a folder of models/."""
    folder = os.path.normpath(os.path.join(MODELS, model))
    parser.add_argument(
        "--model_def", default=os.path.join(folder, "deploy.prototxt"),
        help="the net (%(default)s)")
    parser.add_argument(
        "--pretrained_model", default=os.path.join(
            folder, os.path.basename(folder) + ".caffemodel"),
        help="its weights (%(default)s)")
    parser.add_argument(
        "--gpu", action="store_true", help="compute on the GPU")
    parser.add_argument(
        "--mean_file",
        help="what to subtract, in the net's channel order: .npy or "
        ".binaryproto; '' for nothing.  Without the flag "
        "caffe/imagenet/ilsvrc_2012_mean.npy where it is installed, and "
        "otherwise the mean colour of ImageNet, B G R = 104, 117, 123")
    parser.add_argument(
        "--input_scale", type=float,
        help="a factor after the mean is subtracted")
    parser.add_argument(
        "--raw_scale", type=float, default=255.0,
        help="a factor before that (%(default)s; images are in [0, 1])")
    parser.add_argument(
        "--channel_swap", default="2,1,0",
        help="the order of the channels (%(default)s: R G B to B G R; '' "
        "to leave them)")


def integers(text: str) -> Optional[list[int]]:
    """'256,256' as [256, 256], '' as None."""
    return [int(n) for n in text.split(",")] if text else None


def set_mode(args: argparse.Namespace) -> None:
    """Compute where --gpu says."""
    if args.gpu:
        caffe.set_mode_gpu()
        print("GPU mode")
    else:
        caffe.set_mode_cpu()
        print("CPU mode")


def set_mean(net: Any, args: argparse.Namespace) -> None:
    """Give the net's transformer the mean that --mean_file asks for; a mean
    image of another size than the input is resized, as in pycaffe."""
    in_ = net.inputs[0]
    mean = read_mean(args.mean_file, net.transformer.inputs[in_][1])
    if mean is not None:
        net.transformer.set_mean(in_, mean)


def read_mean(path: Optional[str], n_channels: int) -> Optional[np.ndarray]:
    """The mean in a file, or the one that no flag stands for."""
    if path == "":
        return None
    if path is None:
        if not os.path.exists(MEAN_FILE):
            return IMAGENET_MEAN if n_channels == 3 else None
        path = MEAN_FILE
    if not path.endswith(".binaryproto"):
        return np.load(path)
    blob = caffe_pb2.BlobProto()
    with open(path, "rb") as file:
        blob.ParseFromString(file.read())
    mean = caffe.io.blobproto_to_array(blob)
    return mean[0] if mean.ndim == 4 else mean
