"""Boxes and arrows as SVG, for pictures of nets without graphviz.

Boxes stand in ranks, each one rank after the last of those it reads from;
an edge over several ranks is led through the gaps between their boxes.
Inside a rank, boxes come near the middle of what they read from.

The layout is made for a net that runs down: `along` grows with the rank,
`across` from left to right.  The other directions are the same picture
turned or mirrored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from html import escape

LINE, CHAR, PAD = 16, 7, 10     # of text, in pixels
RANK_GAP, BOX_GAP = 44, 24
LANE = 12                       # room for an edge that passes a rank
SWEEPS = 4


@dataclass
class Box:
    """Lines of text on a colour."""
    lines: list[str]
    fill: str


@dataclass
class Edge:
    """An arrow between two boxes, numbers in the list; source first."""
    source: int
    target: int
    label: str = ""


@dataclass
class Slot:
    """A place in a rank: of a box, or of an edge that passes by."""
    rank: int
    across_size: float
    along_size: float
    across: float = 0.0         # of the centre
    along: float = 0.0


def svg_text(boxes: list[Box], edges: list[Edge], rankdir: str = "TB",
             title: str = "") -> str:
    """The SVG document.  Edges lead from earlier boxes to later ones;
    rankdir is TB, BT, LR or RL."""
    if rankdir not in ("TB", "BT", "LR", "RL"):
        raise ValueError("rankdir is TB, BT, LR or RL, not %s" % rankdir)
    turned = rankdir in ("LR", "RL")
    slots, routes = _place(boxes, edges, turned)
    extent = max((s.along + s.along_size / 2 for s in slots), default=0) + PAD
    breadth = max((s.across + s.across_size / 2 for s in slots),
                  default=0) + PAD

    def at(across: float, along: float) -> tuple[float, float]:
        if rankdir in ("BT", "RL"):
            along = extent - along
        return (along, across) if turned else (across, along)

    width, height = (extent, breadth) if turned else (breadth, extent)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" '
           'height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" '
           'font-size="12" text-anchor="middle">'
           % (width, height, width, height),
           "<title>%s</title>" % escape(title),
           '<defs><marker id="arrow" markerWidth="8" markerHeight="8" '
           'refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z"/>'
           "</marker></defs>"]
    for edge, route in zip(edges, routes):
        out += _draw_edge(edge, [slots[i] for i in route], at)
    for box, slot in zip(boxes, slots):
        out += _draw_box(box, slot, at, turned)
    return "\n".join(out + ["</svg>", ""])


def _place(boxes: list[Box], edges: list[Edge],
           turned: bool) -> tuple[list[Slot], list[list[int]]]:
    """A slot for each box and passing edge, and each edge's slots."""
    ranks = [0] * len(boxes)
    for edge in sorted(edges, key=lambda e: e.target):
        ranks[edge.target] = max(ranks[edge.target], ranks[edge.source] + 1)
    slots = []
    for box, rank in zip(boxes, ranks):
        width = max(len(line) for line in box.lines) * CHAR + 2 * PAD
        height = len(box.lines) * LINE + PAD
        slots.append(Slot(rank, height, width) if turned
                     else Slot(rank, width, height))
    before: dict[int, list[int]] = defaultdict(list)
    after: dict[int, list[int]] = defaultdict(list)
    routes = []
    for edge in edges:
        route = [edge.source]
        for rank in range(ranks[edge.source] + 1, ranks[edge.target]):
            route.append(len(slots))
            slots.append(Slot(rank, LANE, 0))
        route.append(edge.target)
        for one, other in zip(route, route[1:]):
            before[other].append(one)
            after[one].append(other)
        routes.append(route)
    rows = [[i for i, slot in enumerate(slots) if slot.rank == rank]
            for rank in range(max(ranks, default=-1) + 1)]
    for row in rows:
        _spread(row, slots, {})
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else rows[::-1]:
            _spread(row, slots, before if down else after)
    _stack(rows, slots)
    return slots, routes


def _spread(row: list[int], slots: list[Slot],
            pulls: dict[int, list[int]]) -> None:
    """Order a rank by where its neighbours pull, and keep gaps."""
    wish = {}
    for i in row:
        to = [slots[j].across for j in pulls.get(i, ())]
        wish[i] = sum(to) / len(to) if to else slots[i].across
    row.sort(key=lambda i: wish[i])
    edge = None
    for i in row:
        half = slots[i].across_size / 2
        low = wish[i] - half
        if edge is not None:
            low = max(low, edge)
        slots[i].across = low + half
        edge = low + 2 * half + BOX_GAP
    error = sum(slots[i].across - wish[i] for i in row) / len(row)
    for i in row:
        slots[i].across -= error


def _stack(rows: list[list[int]], slots: list[Slot]) -> None:
    """Give each rank its place along, and move all to positive numbers."""
    along = float(PAD)
    for row in rows:
        size = max(slots[i].along_size for i in row)
        for i in row:
            slots[i].along = along + size / 2
        along += size + RANK_GAP
    low = min((s.across - s.across_size / 2 for s in slots), default=0)
    for slot in slots:
        slot.across += PAD - low


def _draw_edge(edge: Edge, route: list[Slot], at) -> list[str]:
    """A smooth line; its label stands where it leaves its source."""
    first, last = route[0], route[-1]
    points = [(first.across, first.along + first.along_size / 2)]
    points += [(slot.across, slot.along) for slot in route[1:-1]]
    points.append((last.across, last.along - last.along_size / 2))
    path = "M%.1f,%.1f" % at(*points[0])
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        middle = (y0 + y1) / 2
        path += " C%.1f,%.1f %.1f,%.1f %.1f,%.1f" % (
            at(x0, middle) + at(x1, middle) + at(x1, y1))
    (x0, y0), (x1, y1) = points[:2]
    label = at((x0 + x1) / 2, (y0 + y1) / 2)
    return ['<path d="%s" fill="none" stroke="#404040" '
            'marker-end="url(#arrow)"/>' % path,
            '<text x="%.1f" y="%.1f" font-size="10" fill="#606060">%s</text>'
            % (label + (escape(edge.label),))]


def _draw_box(box: Box, slot: Slot, at, turned: bool) -> list[str]:
    x, y = at(slot.across, slot.along)
    width, height = slot.across_size, slot.along_size
    if turned:
        width, height = height, width
    out = ['<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" '
           'fill="%s" stroke="#404040"/>'
           % (x - width / 2, y - height / 2, width, height,
              escape(box.fill))]
    top = y - (len(box.lines) - 1) * LINE / 2 + 4
    out += ['<text x="%.1f" y="%.1f">%s</text>'
            % (x, top + n * LINE, escape(line))
            for n, line in enumerate(box.lines)]
    return out
