"""torch_steps.py - a training step of PyTorch on a GPU, and how long it takes:
for the peers of this folder."""

import time

import torch


def set_precision(precision):
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


def stepper(net, precision, loss_of):
    """A step: `loss_of` runs forward under autocast and returns a loss."""
    update = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9,
                             weight_decay=0.0005, foreach=True)

    def step():
        update.zero_grad(set_to_none=False)
        loss_of(lambda: torch.autocast("cuda", torch.bfloat16,
                                       enabled=precision == "bf16")).backward()
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


def both(step, seconds):
    """Seconds of a step as PyTorch runs it ("eager") and as it replays one
    captured as a CUDA graph ("graph"), or why there is none."""
    found = {}
    for mode, make in (("eager", lambda s: s), ("graph", captured)):
        try:
            found[mode] = measure(make(step), seconds)
        except RuntimeError as error:
            found[mode + "_error"] = str(error)[:200]
    return found
