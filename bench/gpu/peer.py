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

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cpu"))

import nets  # noqa: E402
import peer  # noqa: E402
import torch_steps  # noqa: E402


def built(model, channels_last):
    """The net of a prototxt, made where it trains."""
    torch.manual_seed(1)
    with torch.device("cuda"):
        return peer.Net(nets.read(model), channels_last).train()


def answer(model, precision, seconds):
    torch_steps.set_precision(precision)
    net = built(model, precision != "fp32")

    def loss_of(autocast):
        with autocast():
            return net()
    return torch_steps.both(torch_steps.stepper(net, precision, loss_of),
                            seconds)


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
