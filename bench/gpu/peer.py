#!/usr/bin/env python3
"""peer.py - trains nets with PyTorch on a GPU, as asked line by line:

    {"model": "NET.prototxt", "precision": "tf32", "seconds": 1}

asks for fp32, tf32 or bf16, and gets a line of JSON: the time of a step as
PyTorch runs it ("eager"), and as it replays a step captured as a CUDA graph
("graph"), or why there is none.  One process serves all nets, because it takes
PyTorch longer to start than to run most of them.

The net is the one of bench/cpu/peer.py, on the device, channels last where
tensor cores are used."""

import gc
import json
import os
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cpu"))

import nets  # noqa: E402
import peer  # noqa: E402


def built(model, channels_last):
    """The net of a prototxt, made where it trains."""
    torch.manual_seed(1)
    with torch.device("cuda"):
        return peer.Net(nets.read(model), channels_last).train()


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


def timed(step, times):
    start = time.perf_counter()
    for _ in range(times):
        step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(step, seconds):
    """Seconds of a step; it is waited for ten or fewer at a time."""
    timed(step, 3)
    turns = max(1, min(10, int(seconds / 4 / timed(step, 1))))
    took, n = 0, 0
    while took < seconds:
        took += timed(step, turns)
        n += turns
    return took / n


def answer(model, precision, seconds):
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    step = stepper(built(model, precision != "fp32"), precision)
    found = {}
    for mode, make in (("eager", lambda s: s), ("graph", captured)):
        try:
            found[mode] = measure(make(step), seconds)
        except RuntimeError as error:
            found[mode + "_error"] = str(error)[:200]
    return found


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            found = answer(asked["model"], asked["precision"],
                           asked.get("seconds", 2))
        except RuntimeError as error:
            found = {"error": str(error)[:200]}
        gc.collect()
        torch.cuda.empty_cache()
        print(json.dumps(dict(found, name="PyTorch " + torch.__version__)),
              flush=True)


if __name__ == "__main__":
    main()
