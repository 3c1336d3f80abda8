#!/usr/bin/env python3
"""ssd_peer.py PRECISION BATCH SECONDS - trains SSD300 with PyTorch on a GPU
and prints a line of JSON: seconds of a step, "eager" and as a "graph".

The net is that of models/ssd300.  The loss works on the whole batch at once
and has no step that waits for the GPU, so that it can be captured."""

import json
import sys

import torch
import torch.nn.functional as F
import torch_steps
from torch import nn

CLASSES = 21
VGG = (64, 64, "M", 128, 128, "M", 256, 256, 256, "C", 512, 512, 512)
VGG_5 = ("M", 512, 512, 512)
# Map side, step, smallest and next size, aspect ratios.
SOURCES = ((38, 8, 30, 60, (2,)), (19, 16, 60, 111, (2, 3)),
           (10, 32, 111, 162, (2, 3)), (5, 64, 162, 213, (2, 3)),
           (3, 100, 213, 264, (2,)), (1, 300, 264, 315, (2,)))
CHANNELS = (512, 1024, 512, 256, 256, 256)


def convs(plan, width):
    layers = []
    for step in plan:
        if step in ("M", "C"):
            layers.append(nn.MaxPool2d(2, 2, ceil_mode=step == "C"))
            continue
        layers += [nn.Conv2d(width, step, 3, padding=1), nn.ReLU(True)]
        width = step
    return nn.Sequential(*layers)


class L2Norm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels,), 20.0))

    def forward(self, x):
        return F.normalize(x, dim=1) * self.weight[None, :, None, None]


def extra(width, narrow, wide, stride, pad):
    return nn.Sequential(nn.Conv2d(width, narrow, 1), nn.ReLU(True),
                         nn.Conv2d(narrow, wide, 3, stride, pad),
                         nn.ReLU(True))


class Ssd300(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = convs(VGG, 3)
        self.norm = L2Norm(512)
        self.second = nn.Sequential(
            convs(VGG_5, 512), nn.MaxPool2d(3, 1, 1),
            nn.Conv2d(512, 1024, 3, padding=6, dilation=6), nn.ReLU(True),
            nn.Conv2d(1024, 1024, 1), nn.ReLU(True))
        self.extras = nn.ModuleList([
            extra(1024, 256, 512, 2, 1), extra(512, 128, 256, 2, 1),
            extra(256, 128, 256, 1, 0), extra(256, 128, 256, 1, 0)])
        counts = [2 + 2 * len(s[4]) for s in SOURCES]
        self.loc = nn.ModuleList(nn.Conv2d(c, 4 * k, 3, padding=1)
                                 for c, k in zip(CHANNELS, counts))
        self.conf = nn.ModuleList(nn.Conv2d(c, CLASSES * k, 3, padding=1)
                                  for c, k in zip(CHANNELS, counts))

    def forward(self, x):
        x = self.first(x)
        maps = [self.norm(x)]
        x = self.second(x)
        maps.append(x)
        for layer in self.extras:
            x = layer(x)
            maps.append(x)

        def heads(layers, width):
            return torch.cat([
                h(m).permute(0, 2, 3, 1).reshape(x.size(0), -1, width)
                for h, m in zip(layers, maps)], 1)
        return heads(self.loc, 4), heads(self.conf, CLASSES)


def priors():
    """P x 4 corners, in parts of the image."""
    boxes = []
    for side, step, low, high, ratios in SOURCES:
        sizes = [(low, low), ((low * high) ** .5,) * 2]
        for r in ratios:
            sizes += [(low * r ** .5, low / r ** .5),
                      (low / r ** .5, low * r ** .5)]
        for y in range(side):
            for x in range(side):
                cx, cy = (x + .5) * step, (y + .5) * step
                boxes += [(cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)
                          for w, h in sizes]
    return torch.tensor(boxes) / 300


def overlaps(a, b):
    """N x G x 4 and P x 4 to N x G x P."""
    low = torch.maximum(a[:, :, None, :2], b[None, None, :, :2])
    high = torch.minimum(a[:, :, None, 2:], b[None, None, :, 2:])
    both = (high - low).clamp(min=0).prod(3)
    area = [(x[..., 2:] - x[..., :2]).prod(-1) for x in (a, b)]
    return both / (area[0][:, :, None] + area[1] - both)


def multibox(loc, conf, prior, boxes, labels):
    n, g = labels.shape
    o = overlaps(boxes, prior)
    best, of = o.max(1)                       # of each prior
    chosen = o.argmax(2)                      # of each truth
    best = best.scatter(1, chosen, 2.0)
    of = of.scatter(1, chosen, torch.arange(
        g, device=of.device).expand(n, g))
    positive = best >= 0.5
    target = torch.where(positive, labels.gather(1, of), 0)
    truth = boxes.gather(1, of[..., None].expand(-1, -1, 4))
    size = prior[:, 2:] - prior[:, :2]
    centre = ((truth[..., :2] + truth[..., 2:]) -
              (prior[:, :2] + prior[:, 2:])) / 2 / size / 0.1
    scale = torch.log((truth[..., 2:] - truth[..., :2]) / size) / 0.2
    off = F.smooth_l1_loss(loc, torch.cat([centre, scale], 2),
                           reduction="none").sum(2)
    each = F.cross_entropy(conf.reshape(-1, CLASSES), target.reshape(-1),
                           reduction="none").reshape(n, -1)
    count = positive.sum(1, keepdim=True)
    hard = each.detach().masked_fill(positive, -1)
    rank = hard.argsort(1, descending=True).argsort(1)
    counted = positive | (rank < 3 * count)
    return ((off * positive).sum() + (each * counted).sum()) / \
        count.sum().clamp(min=1)


def stepper(precision, batch):
    last = torch.channels_last if precision != "fp32" else \
        torch.contiguous_format
    net = Ssd300().cuda().to(memory_format=last).train()
    prior = priors().cuda()
    images = torch.randn(batch, 3, 300, 300,
                         device="cuda").to(memory_format=last)
    corner = torch.rand(batch, 3, 2, device="cuda") * .5
    boxes = torch.cat([corner, corner + .2 +
                       torch.rand(batch, 3, 2, device="cuda") * .25], 2)
    labels = torch.randint(1, 4, (batch, 3), device="cuda")

    def loss_of(autocast):
        with autocast():
            loc, conf = net(images)
        return multibox(loc.float(), conf.float(), prior, boxes, labels)
    return torch_steps.stepper(net, precision, loss_of)


def main():
    precision, batch, seconds = sys.argv[1], int(sys.argv[2]), \
        float(sys.argv[3])
    torch.manual_seed(1)
    torch_steps.set_precision(precision)
    found = torch_steps.both(stepper(precision, batch), seconds)
    print(json.dumps(dict(found, name="PyTorch " + torch.__version__)))


if __name__ == "__main__":
    main()
