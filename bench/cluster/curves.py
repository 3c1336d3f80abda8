"""Curves over a number of hosts, both axes logarithmic, in SVG."""

import math
from xml.sax.saxutils import escape

COLORS = ("#d97706", "#059669", "#2563eb", "#9333ea")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 70, 610, 70, 350


def write(path, title, hosts, lines):
    """lines: a list of values, one a number of hosts, by name."""
    values = [v for line in lines.values() for v in line]
    if not values:
        return
    low, high = min(values) / 1.3, max(values) * 1.3

    def x(p):
        span = math.log(hosts[-1] / hosts[0]) or 1
        return LEFT + (RIGHT - LEFT) * math.log(p / hosts[0]) / span

    def y(v):
        return BOTTOM - (BOTTOM - TOP) * math.log(v / low) / math.log(
            high / low)

    out = ['<path d="M%d %dH%d" stroke="#888"/>' % (LEFT, BOTTOM, RIGHT)]
    for p in hosts:
        out.append('<text x="%.0f" y="%d" text-anchor="middle">%d</text>'
                   % (x(p), BOTTOM + 18, p))
    for i, (name, line) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        points = " ".join("%.1f,%.1f" % (x(p), y(v))
                          for p, v in zip(hosts, line))
        out.append('<polyline points="%s" fill="none" stroke="%s" '
                   'stroke-width="2"/>' % (points, color))
        for p, v in zip(hosts, line):
            out.append('<text x="%.0f" y="%.0f" fill="%s">%.3g</text>'
                       % (x(p) + 4, y(v) - 5, color, v))
        out.append('<text x="%d" y="48" fill="%s">%s</text>'
                   % (LEFT + 130 * i, color, escape(name)))
    with open(path, "w") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" '
                   'height="%d" font-family="sans-serif" font-size="12">\n'
                   '<rect width="100%%" height="100%%" fill="#fff"/>\n'
                   '<text x="%d" y="24" font-size="15">%s</text>\n%s\n'
                   '</svg>\n' % (WIDTH, HEIGHT, LEFT, escape(title),
                                 "\n".join(out)))
