#!/usr/bin/env python3
"""Classify images: what a net says of each goes into a .npy file.

The input is an image, a folder of images, or a .npy file with an array of
images, n x height x width x channels."""

import argparse
import glob
import os
import time

import numpy as np

import caffe
from caffe import _options


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input_file", help="image, folder, or .npy file")
    parser.add_argument("output_file", help="the .npy file to write")
    _options.add_net_options(parser, "bvlc_reference_caffenet")
    parser.add_argument(
        "--center_only", action="store_true",
        help="look at the centre crop, and not at ten crops of each image")
    parser.add_argument(
        "--images_dim", default="256,256",
        help="height,width to resize images to before cropping "
        "(%(default)s)")
    parser.add_argument(
        "--ext", default="jpg",
        help="the ending of the images in a folder (%(default)s)")
    return parser.parse_args()


def load_inputs(path: str, ext: str) -> list:
    path = os.path.expanduser(path)
    if path.endswith(".npy"):
        print("Loading file: %s" % path)
        return list(np.load(path))
    if os.path.isdir(path):
        print("Loading folder: %s" % path)
        names = sorted(glob.glob(os.path.join(path, "*." + ext)))
        if not names:
            raise SystemExit("no *.%s in %s: see --ext" % (ext, path))
        return [caffe.io.load_image(name) for name in names]
    print("Loading file: %s" % path)
    return [caffe.io.load_image(path)]


def main() -> None:
    args = parse_args()
    _options.set_mode(args)
    classifier = caffe.Classifier(
        args.model_def, args.pretrained_model,
        image_dims=_options.integers(args.images_dim),
        input_scale=args.input_scale, raw_scale=args.raw_scale,
        channel_swap=_options.integers(args.channel_swap))
    _options.set_mean(classifier, args)
    inputs = load_inputs(args.input_file, args.ext)
    print("Classifying %d inputs." % len(inputs))
    start = time.time()
    predictions = classifier.predict(inputs, not args.center_only)
    print("Done in %.2f s." % (time.time() - start))
    print("Saving results into %s" % args.output_file)
    np.save(args.output_file, predictions)


if __name__ == "__main__":
    main()
