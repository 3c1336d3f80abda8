"""Draws the table of bench/scale in SVG: the share of linear that each net
keeps over the number of ranks, ours as lines, the peer's dashed, processes
apart as rings."""

from xml.sax.saxutils import escape

COLORS = ("#3b6ea5", "#e08e45", "#5b9a68", "#8a63a6")
LEFT, TOP, WIDTH, HEIGHT = 60, 40, 420, 260


def svg(rows):
    counts = sorted({row["ranks"] for row in rows})
    names = list(dict.fromkeys(row["net"] for row in rows))
    top = max([1.0] + [row.get(key, 0) for row in rows
                       for key in ("share", "apart", "peer_share")])

    def x(ranks):
        return LEFT + WIDTH * counts.index(ranks) / max(1, len(counts) - 1)

    def y(share):
        return TOP + HEIGHT * (1 - share / (1.05 * top))

    out = []
    for i in range(int(1.05 * top * 5) + 1):
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>'
                   '<text x="%d" y="%.1f" text-anchor="end">%.1f</text>'
                   % (LEFT, y(i / 5), LEFT + WIDTH, y(i / 5), LEFT - 6,
                      y(i / 5) + 4, i / 5))
    for n in counts:
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%d</text>'
                   % (x(n), TOP + HEIGHT + 18, n))
    for i, name in enumerate(names):
        color = COLORS[i % len(COLORS)]
        mine = [row for row in rows if row["net"] == name]
        for key, dash in (("share", ""), ("peer_share", "4 3")):
            points = " ".join("%.1f,%.1f" % (x(r["ranks"]), y(r[key]))
                              for r in mine if key in r)
            out.append('<polyline points="%s" fill="none" stroke="%s" '
                       'stroke-width="2" stroke-dasharray="%s"/>'
                       % (points, color, dash))
        for row in mine:
            if "apart" in row:
                out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="none" '
                           'stroke="%s"/>' % (x(row["ranks"]),
                                              y(row["apart"]), color))
        out.append('<rect x="%d" y="%d" width="10" height="10" fill="%s"/>'
                   '<text x="%d" y="%d">%s</text>'
                   % (LEFT + WIDTH + 20, TOP + 20 * i, color,
                      LEFT + WIDTH + 36, TOP + 20 * i + 9, escape(name)))
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
            'font-family="sans-serif" font-size="12">\n'
            '<rect width="100%%" height="100%%" fill="#fff"/>\n'
            '<text x="%d" y="20" font-size="14">Share of linear over ranks '
            '(dashed: peer; ring: no exchange)</text>\n%s\n</svg>\n'
            % (LEFT + WIDTH + 170, TOP + HEIGHT + 30, LEFT, "\n".join(out)))


def write(path, rows):
    with open(path, "w") as file:
        file.write(svg(rows))
