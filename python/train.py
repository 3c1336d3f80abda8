#!/usr/bin/env python3
"""Train a net from Python, as `caffe train` does from the shell.

Without --gpus the solver file's solver_mode says where to compute.  Several
ranks train together: mpirun -n 4 python train.py --solver=solver.prototxt;
with `cortado launch --ranks=4 --elastic=2:8 -- python train.py ...` they may
come and go."""

import argparse

from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solver", required=True,
                        help="the solver's prototxt file")
    parser.add_argument("--snapshot",
                        help="a .solverstate file to continue from")
    parser.add_argument("--gpus", type=int, nargs="+",
                        help="the device to compute on")
    parser.add_argument("--timing", action="store_true",
                        help="log how long each layer takes")
    args = parser.parse_args()
    if len(args.gpus or []) > 1:
        parser.error("a rank trains on one device; start several ranks: "
                     "mpirun -n N python train.py --solver=...")
    return args


def set_mode(args: argparse.Namespace) -> None:
    param = caffe_pb2.SolverParameter()
    with open(args.solver) as file:
        text_format.Merge(file.read(), param)
    asks_gpu = (param.HasField("solver_mode")
                and param.solver_mode == caffe_pb2.SolverParameter.GPU)
    if args.gpus or asks_gpu:
        device = args.gpus[0] if args.gpus else param.device_id
        caffe.set_device(device)
        caffe.set_mode_gpu()
        caffe.log("Using device %d" % device)
    else:
        caffe.set_mode_cpu()
        caffe.log("Using the CPU")


class LayerTimes:
    """Times each layer of a solver's net, and logs when it displays.

    The callbacks that it leaves with the solver keep it alive."""

    def __init__(self, solver: caffe.SGDSolver) -> None:
        self.solver = solver
        names = list(solver.net._layer_names)
        self.names = names
        self.forward = [caffe.Timer() for _ in names]
        self.backward = [caffe.Timer() for _ in names]
        self.total = caffe.Timer()
        net = solver.net
        net.before_forward(lambda layer: self.forward[layer].start())
        net.after_forward(lambda layer: self.forward[layer].stop())
        net.before_backward(lambda layer: self.backward[layer].start())
        net.after_backward(lambda layer: self.backward[layer].stop())
        solver.add_callback(self.total.start, self.show)

    def show(self) -> None:
        self.total.stop()
        display = self.solver.param.display
        if not display or self.solver.iter % display:
            return
        lines = ["forward %3d %12s : %.2f ms" % (n, name, timer.ms)
                 for n, (name, timer) in enumerate(zip(self.names,
                                                       self.forward))]
        lines += ["backward %3d %12s : %.2f ms" % (n, name, timer.ms)
                  for n, (name, timer) in reversed(list(enumerate(zip(
                      self.names, self.backward))))]
        lines.append("solver total: %.2f ms" % self.total.ms)
        for line in lines:
            caffe.log(line)


def main() -> None:
    args = parse_args()
    caffe.distributed.init()
    caffe.init_log()
    if not caffe.distributed.is_elastic() and caffe.distributed.size() > 1:
        caffe.log("Rank 0 of %d on %d host(s)" % (
            caffe.distributed.size(), caffe.distributed.n_hosts()))
    set_mode(args)
    solver = caffe.get_solver(args.solver)
    if args.snapshot:
        solver.restore(args.snapshot)
    if args.timing:
        LayerTimes(solver)
    solver.solve()


if __name__ == "__main__":
    main()
