#!/usr/bin/env python3
"""peer.py --model=NET.prototxt [--threads=N] [--seconds=S]
[--format=plain|channels_last] [--precision=fp32|bf16] - trains a net of bench/cpu with PyTorch and
prints what `cortado bench` prints.  bf16 is torch.autocast around the forward
pass, with weights in float32.  peer.py --serve does so for each line of
flags that it reads, in a process of its own that need not load PyTorch again.

The net is read from the same prototxt, so both sides train the same
architecture: groups, LRN, Caffe's pooling (sizes round up, averages count the
padding), dropout, side classifiers.  BatchNorm and Scale become one
BatchNorm2d and the update is torch.optim.SGD, as a PyTorch user would write
them."""

import argparse
import json
import os
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import nets


def first(message, key, default=None):
    return message[key][0] if key in message else default


def window(param, key, default):
    """kernel, stride or pad as (height, width)."""
    name = "kernel_size" if key == "kernel" else key
    square = first(param, name, default)
    return (first(param, key + "_h", square), first(param, key + "_w", square))


class Recurrent(torch.nn.Module):
    def __init__(self, inputs, units):
        super().__init__()
        self.lstm = torch.nn.LSTM(inputs, units)

    def forward(self, x, cont):
        return self.lstm(x)[0]


def convolution(layer, shapes):
    param = layer["convolution_param"][0]
    return torch.nn.Conv2d(
        shapes[0][1], first(param, "num_output"), window(param, "kernel", 0),
        window(param, "stride", 1), window(param, "pad", 0),
        groups=first(param, "group", 1), bias=first(param, "bias_term", True))


def inner_product(layer, shapes):
    param = layer["inner_product_param"][0]
    axis = first(param, "axis", 1)
    width = 1
    for dim in shapes[0][axis:]:
        width *= dim
    linear = torch.nn.Linear(width, first(param, "num_output"))
    return torch.nn.Sequential(torch.nn.Flatten(axis), linear)


def pooling(layer, shapes):
    param = layer["pooling_param"][0]
    average = first(param, "pool", "MAX") == "AVE"
    size, step, pad = (window(param, "kernel", 0), window(param, "stride", 1),
                       window(param, "pad", 0))
    if first(param, "global_pooling", False):
        size = tuple(shapes[0][2:])
    kind = torch.nn.AvgPool2d if average else torch.nn.MaxPool2d
    return kind(size, step, pad, ceil_mode=True)


def lrn(layer, shapes):
    param = layer["lrn_param"][0]
    size, alpha, beta = (first(param, "local_size", 5),
                         first(param, "alpha", 1.0), first(param, "beta", .75))
    if first(param, "norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
        return torch.nn.LocalResponseNorm(size, alpha, beta)

    def within(x):
        mean = F.avg_pool2d(x * x, size, 1, (size - 1) // 2)
        return x * (1 + alpha * mean).pow(-beta)
    return within


def eltwise(layer, shapes):
    return lambda *x: sum(x[1:], x[0])


def concat(layer, shapes):
    axis = first(first(layer, "concat_param", {}), "axis", 1)
    return lambda *x: torch.cat(x, axis)


def loss(layer, shapes):
    weight = first(layer, "loss_weight", 1)
    classes = shapes[0][-1]

    def entropy(x, label):
        return weight * F.cross_entropy(x.reshape(-1, classes),
                                        label.reshape(-1))
    return entropy


MAKERS = {
    "Convolution": convolution,
    "InnerProduct": inner_product,
    "Pooling": pooling,
    "LRN": lrn,
    "Eltwise": eltwise,
    "Concat": concat,
    "SoftmaxWithLoss": loss,
    "ReLU": lambda layer, shapes: torch.nn.ReLU(inplace=True),
    "Dropout": lambda layer, shapes: torch.nn.Dropout(
        first(first(layer, "dropout_param", {}), "dropout_ratio", 0.5)),
    "BatchNorm": lambda layer, shapes: torch.nn.BatchNorm2d(shapes[0][1]),
    "Scale": lambda layer, shapes: torch.nn.Identity(),
    "LSTM": lambda layer, shapes: Recurrent(
        shapes[0][2], first(layer["recurrent_param"][0], "num_output")),
}


def constants(layer):
    """What a DummyData layer holds; labels become integers."""
    param = layer["dummy_data_param"][0]
    for name, filler, shape in zip(layer["top"], param["data_filler"],
                                   param["shape"]):
        blob = torch.full(tuple(shape["dim"]), float(first(filler, "value", 0)))
        yield name, blob.long() if name == "label" else blob


class Net(torch.nn.Module):
    """Runs the layers of a prototxt in order.  A blob is let go with its
    last reader, so that it costs no more memory than autograd asks for."""

    def __init__(self, message, channels_last, bf16=False):
        super().__init__()
        self.bf16 = bf16
        self.steps = []
        self.inputs = {}
        last, shapes = {}, {}
        for layer in message["layer"]:
            if layer["type"][0] == "DummyData":
                self.inputs.update(constants(layer))
                shapes.update((name, tuple(blob.shape))
                              for name, blob in self.inputs.items())
                continue
            run = MAKERS[layer["type"][0]](layer,
                                           [shapes[b] for b in layer["bottom"]])
            if isinstance(run, torch.nn.Module):
                self.add_module(layer["name"][0].replace(".", "_"), run)
            for bottom in layer["bottom"]:
                last[bottom] = len(self.steps)
            top = layer["top"][0]
            shapes[top] = self.shape_of(run, layer["bottom"], shapes)
            self.steps.append((run, layer["bottom"], top, []))
        for name, at in last.items():
            if name not in self.inputs and self.steps[at][2] != name:
                self.steps[at][3].append(name)
        if channels_last:
            self.to(memory_format=torch.channels_last)
            self.inputs = {
                name: blob.to(memory_format=torch.channels_last)
                if blob.dim() == 4 else blob
                for name, blob in self.inputs.items()}

    def shape_of(self, run, bottoms, shapes):
        """The shape that comes out, tried on one zero image where an image
        goes in."""
        made = []
        for name in bottoms:
            shape = shapes[name]
            is_label = name == "label"
            made.append(torch.zeros(shape, dtype=torch.long if is_label
                                    else torch.float))
        with torch.no_grad():
            return tuple(run(*made).shape)

    def forward(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            return self.run_all()

    def run_all(self):
        blobs, total = dict(self.inputs), 0
        for run, bottoms, top, done in self.steps:
            out = run(*[blobs[name] for name in bottoms])
            if out.dim() == 0:
                total = total + out
            else:
                blobs[top] = out
            for name in done:
                del blobs[name]
        return total


def measure(net, seconds):
    update = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9,
                             weight_decay=0.0005)
    times, cpu_times = [], []

    def step():
        start, cpu = time.perf_counter(), time.process_time()
        update.zero_grad(set_to_none=True)
        net().backward()
        update.step()
        times.append(time.perf_counter() - start)
        cpu_times.append(time.process_time() - cpu)

    net.train()
    step()
    step()
    n = max(3, min(10000, int(seconds / times[-1])))
    del times[:], cpu_times[:]
    for _ in range(n):
        step()
    return n, statistics.median(times), statistics.median(cpu_times)


def mapped():
    """Bytes of files, libraries mostly, that are resident."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[2]) * resource.getpagesize()


def answer(words, loaded=0):
    """What one run found, as a line of JSON.  Of libraries that were loaded
    before, a forked process counts only what it has touched itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--format", choices=("plain", "channels_last"),
                        default="plain")
    parser.add_argument("--precision", choices=("fp32", "bf16"),
                        default="fp32")
    args = parser.parse_args(words)
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    net = Net(nets.read(args.model), args.format == "channels_last",
              args.precision == "bf16")
    steps, step_s, step_cpu_s = measure(net, args.seconds)
    print(json.dumps({
        "name": "PyTorch " + torch.__version__,
        "format": args.format,
        "precision": args.precision,
        "threads": args.threads,
        "steps": steps,
        "step_s": step_s,
        "step_cpu_s": step_cpu_s,
        "parameters": sum(p.numel() for p in net.parameters()),
        "peak_memory_bytes": max(0, loaded - mapped()) +
            1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }), flush=True)


def serve():
    for line in sys.stdin:
        loaded, child = mapped(), os.fork()
        if child == 0:
            answer(json.loads(line), loaded)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print("{}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        answer(sys.argv[1:])
