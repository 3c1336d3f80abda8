"""Makes the file that scripts for ImageNet load their mean from.

    python3 -m caffe.imagenet_mean [MEAN.binaryproto] [--out FILE.npy]

Scripts written for pycaffe load ``caffe/imagenet/ilsvrc_2012_mean.npy``, a
mean image of 3 x 256 x 256, B G R.  It is made here from the binaryproto that
``compute_image_mean`` wrote of the training set; without one, from the mean
colour of ImageNet, which is what most scripts take of the image anyway.
"""

from __future__ import annotations

import argparse
import os
from typing import Optional

import numpy as np

import caffe.io
from caffe.proto import caffe_pb2

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "imagenet",
                    "ilsvrc_2012_mean.npy")
COLOUR = (104.00698793, 116.66876762, 122.67891434)  # B G R


def make(binaryproto: Optional[str] = None, out: str = FILE) -> np.ndarray:
    """Write the mean image to `out`, and return it."""
    if binaryproto is None:
        mean = np.empty((3, 256, 256))
        mean[:] = np.reshape(COLOUR, (3, 1, 1))
    else:
        blob = caffe_pb2.BlobProto()
        with open(binaryproto, "rb") as file:
            blob.ParseFromString(file.read())
        mean = caffe.io.blobproto_to_array(blob).astype(float)
        mean = mean[0] if mean.ndim == 4 else mean
    folder = os.path.dirname(out)
    if folder:
        os.makedirs(folder, exist_ok=True)
    np.save(out, mean)
    return mean


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m caffe.imagenet_mean",
        description="Make the mean image that scripts for ImageNet load.")
    parser.add_argument("binaryproto", nargs="?",
                        help="what compute_image_mean wrote of the training "
                        "set; without it, an image of ImageNet's mean colour")
    parser.add_argument("--out", default=FILE, help="%(default)s")
    args = parser.parse_args()
    mean = make(args.binaryproto, args.out)
    print("%s: %s, mean B G R %s" % (
        args.out, " x ".join(map(str, mean.shape)),
        ", ".join("%.2f" % m for m in mean.mean(axis=(1, 2)))))


if __name__ == "__main__":
    main()
