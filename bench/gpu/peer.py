#!/usr/bin/env python3
"""peer.py --model=NET.prototxt --precision=fp32|tf32|bf16 [--graph] - trains a
net with PyTorch on a GPU and prints its time a step as JSON.

The net is the one of bench/cpu/peer.py, on the device, channels last where
tensor cores are used.  With --graph a whole step is captured and replayed."""

import argparse
import json
import os
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cpu"))

import nets  # noqa: E402
import peer  # noqa: E402


def on_gpu(net, channels_last):
    net = net.cuda()
    net.inputs = {name: blob.cuda() for name, blob in net.inputs.items()}
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
        net.inputs = {name: blob.to(memory_format=torch.channels_last)
                      if blob.dim() == 4 else blob
                      for name, blob in net.inputs.items()}
    return net


def stepper(net, precision):
    update = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9,
                             weight_decay=0.0005, foreach=True)

    def step():
        update.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16,
                            enabled=precision == "bf16"):
            loss = net()
        loss.backward()
        update.step()
    return step


def captured(step):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(step, seconds):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        n += 10
    return n, (time.perf_counter() - start) / n


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    tf32 = args.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    net = on_gpu(peer.Net(nets.read(args.model), False),
                 args.precision != "fp32")
    net.train()
    step = stepper(net, args.precision)
    steps, step_s = measure(captured(step) if args.graph else step,
                            args.seconds)
    print(json.dumps({"name": "PyTorch " + torch.__version__,
                      "steps": steps, "step_s": step_s}))


if __name__ == "__main__":
    main()
