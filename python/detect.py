#!/usr/bin/env python3
"""Look at windows of images: what a net says of each goes into a table.

The input is a .txt file with an image path on each line, or a .csv file
with a line for each window and the columns

    filename,ymin,xmin,ymax,xmax

The output is a .csv file with these columns and class0, class1, ..., or an
HDF5 file (.h5) that pandas reads, the predictions in its column
`prediction`."""

import argparse
import csv
import os
import time
from importlib.util import find_spec

import caffe
from caffe import _options

COORDS = ["ymin", "xmin", "ymax", "xmax"]
CROP_MODES = ["list", "selective_search"]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input_file", help=".txt of images, .csv of windows")
    parser.add_argument("output_file", help="the .csv or .h5 file to write")
    _options.add_net_options(parser, "bvlc_reference_rcnn_ilsvrc13")
    parser.add_argument(
        "--crop_mode", choices=CROP_MODES, default="selective_search",
        help="where windows come from: the input file, or Selective Search "
        "(%(default)s)")
    parser.add_argument(
        "--context_pad", type=int, default=16,
        help="pixels of surroundings around each window (%(default)s)")
    args = parser.parse_args()
    kind = os.path.splitext(args.input_file)[1].lower()
    if kind not in (".txt", ".csv"):
        parser.error("the input file ends in .txt or .csv")
    if args.crop_mode == "list" and kind != ".csv":
        parser.error("--crop_mode list needs a .csv file of windows")
    return args


def read_windows(path: str) -> list:
    """(filename, windows) for each run of lines of one image."""
    images = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            window = [int(float(row[name])) for name in COORDS]
            if not images or images[-1][0] != row["filename"]:
                images.append((row["filename"], []))
            images[-1][1].append(window)
    return images


def read_names(path: str) -> list:
    """The image paths of a .txt file, or of the column of a .csv file."""
    with open(path, newline="") as file:
        if path.lower().endswith(".csv"):
            names = [row["filename"] for row in csv.DictReader(file)]
        else:
            names = [line.strip() for line in file]
    return list(dict.fromkeys(name for name in names if name))


def write_csv(path: str, detections: list) -> None:
    with open(path, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        n_classes = detections[0]["prediction"].size if detections else 0
        table.writerow(["filename"] + COORDS
                       + ["class%d" % n for n in range(n_classes)])
        for one in detections:
            table.writerow([one["filename"], *one["window"],
                            *one["prediction"].ravel()])


def write_hdf5(path: str, detections: list) -> None:
    import pandas
    rows = [dict(zip(COORDS, one["window"]), filename=one["filename"],
                 prediction=one["prediction"]) for one in detections]
    frame = pandas.DataFrame(rows, columns=["filename", *COORDS,
                                            "prediction"])
    frame.set_index("filename").to_hdf(path, key="df", mode="w")


def check_output(path: str) -> None:
    """Fail before the work and not after it."""
    if path.lower().endswith(".csv"):
        return
    if not all(map(find_spec, ("pandas", "tables"))):
        raise SystemExit("%s: HDF5 tables need python3-pandas and "
                         "python3-tables; .csv needs neither" % path)


def main() -> None:
    args = parse_args()
    check_output(args.output_file)
    _options.set_mode(args)
    detector = caffe.Detector(
        args.model_def, args.pretrained_model,
        input_scale=args.input_scale, raw_scale=args.raw_scale,
        channel_swap=_options.integers(args.channel_swap))
    _options.set_mean(detector, args)
    detector.configure_crop(args.context_pad)
    print("Loading input...")
    start = time.time()
    if args.crop_mode == "list":
        found = detector.detect_windows(read_windows(args.input_file))
    else:
        found = detector.detect_selective_search(read_names(args.input_file))
    print("Processed %d windows in %.3f s."
          % (len(found), time.time() - start))
    if args.output_file.lower().endswith(".csv"):
        write_csv(args.output_file, found)
    else:
        write_hdf5(args.output_file, found)
    print("Saved to %s" % args.output_file)


if __name__ == "__main__":
    main()
