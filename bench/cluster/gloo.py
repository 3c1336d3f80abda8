"""AlexNet's inner products in PyTorch's DistributedDataParallel over gloo, one
process a host under mpirun; rank 0 prints the median seconds of a step."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

os.environ.setdefault("MASTER_ADDR", "h0")
os.environ.setdefault("MASTER_PORT", "29500")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
SIZE = int(os.environ["OMPI_COMM_WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=RANK, world_size=SIZE)
net = nn.parallel.DistributedDataParallel(nn.Sequential(
    nn.Linear(9216, 4096), nn.Linear(4096, 4096), nn.Linear(4096, 1000)))
rule = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
x, label = torch.full((4, 9216), 0.5), torch.zeros(4, dtype=torch.long)
times = []
for _ in range(6):
    start = time.time()
    rule.zero_grad()
    nn.functional.cross_entropy(net(x), label).backward()
    rule.step()
    times.append(time.time() - start)
if RANK == 0:
    print(statistics.median(times[2:]))
