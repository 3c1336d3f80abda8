#!/usr/bin/env python3
"""peer_ddp.py --model=NET.prototxt --steps=N [--format=plain|channels_last]
- one rank of PyTorch's DistributedDataParallel over gloo, with one thread.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who it is.  The net is that
of bench/cpu/peer.py.  Rank 0 prints the median time of a step as JSON."""

import argparse
import json
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "cpu"))

import torch  # noqa: E402

import nets  # noqa: E402
import peer  # noqa: E402


def measure(net, n):
    update = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9,
                             weight_decay=0.0005)
    times = []
    net.train()
    for _ in range(n + 2):
        start = time.perf_counter()
        update.zero_grad(set_to_none=True)
        net().backward()
        update.step()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--format", choices=("plain", "channels_last"),
                        default="plain")
    args = parser.parse_args()
    ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = peer.Net(nets.read(args.model), args.format == "channels_last")
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        net = torch.nn.parallel.DistributedDataParallel(net)
    step_s = measure(net, args.steps)
    if rank == 0:
        print(json.dumps({"step_s": step_s, "ranks": ranks}), flush=True)
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
