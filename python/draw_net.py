#!/usr/bin/env python3
"""Draw the net of a prototxt file; the picture's ending names its format.

SVG needs nothing else; other formats need python3-pydot and graphviz."""

import argparse

from google.protobuf import text_format

import caffe
import caffe.draw
from caffe.proto import caffe_pb2

PHASES = {"TRAIN": caffe.TRAIN, "TEST": caffe.TEST, "ALL": None}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input_net_proto_file", help="the prototxt file")
    parser.add_argument("output_image_file", help="the picture to write")
    parser.add_argument(
        "--rankdir", default="LR", choices=["LR", "TB", "BT", "RL"],
        help="where the net runs to: right, down, up or left (%(default)s)")
    parser.add_argument(
        "--phase", default="ALL", choices=list(PHASES),
        help="which layers to draw (%(default)s)")
    parser.add_argument(
        "--display_lrm", action="store_true",
        help="show the learning rate multipliers")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    net = caffe_pb2.NetParameter()
    try:
        with open(args.input_net_proto_file) as file:
            text_format.Merge(file.read(), net)
        print("Drawing net to %s" % args.output_image_file)
        caffe.draw.draw_net_to_file(net, args.output_image_file,
                                    args.rankdir, PHASES[args.phase],
                                    args.display_lrm)
    except text_format.ParseError as error:
        raise SystemExit("%s:%s" % (args.input_net_proto_file, error))
    except (ImportError, OSError, ValueError) as error:
        raise SystemExit(str(error))
    except AssertionError:
        # How pydot passes on that graphviz failed; it has said why.
        raise SystemExit("graphviz did not draw %s" % args.output_image_file)


if __name__ == "__main__":
    main()
