"""Draws the table of bench/cpu as a bar chart, in SVG.

One group of bars a net, one bar a thread count: how many times as fast as the
peer, or without a peer the share of the CPU's peak in percent."""

from xml.sax.saxutils import escape

COLORS = ("#3b6ea5", "#e08e45", "#5b9a68", "#8a63a6")
BAR, GAP, LEFT, WIDTH, TOP = 14, 14, 120, 640, 56


def bars(rows, has_peer):
    """(net, threads, value, label) in the order of the rows."""
    for row in rows:
        if has_peer and "ratio" not in row:
            continue
        value = row["ratio"] if has_peer else 100 * row["share_of_peak"]
        label = "%.2f  (%.4g/s)" % (value, row["images_per_s"])
        yield row["net"], row["threads"], value, label


def svg(rows):
    has_peer = any("ratio" in row for row in rows)
    drawn = list(bars(rows, has_peer))
    counts = sorted({threads for _, threads, _, _ in drawn})
    color = {n: COLORS[i % len(COLORS)] for i, n in enumerate(counts)}
    top_value = max([value for _, _, value, _ in drawn] + [1e-9])
    scale = (WIDTH - LEFT - 130) / top_value
    title = ("Training speed, times the peer's" if has_peer
             else "Training speed, percent of the measured peak")
    out, y, before = [], TOP, None
    for net, threads, value, label in drawn:
        if net != before:
            y += GAP if before else 0
            out.append('<text x="%d" y="%d" text-anchor="end">%s</text>'
                       % (LEFT - 8, y + BAR - 3, escape(net)))
            before = net
        out.append('<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>'
                   % (LEFT, y, value * scale, BAR - 2, color[threads]))
        out.append('<text x="%.1f" y="%d" class="v">%s</text>'
                   % (LEFT + value * scale + 5, y + BAR - 4, escape(label)))
        y += BAR
    if has_peer:
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" '
                   'stroke="#444" stroke-dasharray="3 3"/>'
                   % (LEFT + scale, TOP - 6, LEFT + scale, y + 6))
    for i, n in enumerate(counts):
        out.append('<rect x="%d" y="30" width="10" height="10" fill="%s"/>'
                   '<text x="%d" y="39">%d thread%s</text>'
                   % (LEFT + 110 * i, color[n], LEFT + 110 * i + 15, n,
                      "" if n == 1 else "s"))
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
            'font-family="sans-serif" font-size="12">\n'
            '<style>.v { font-size: 10px; fill: #333 }</style>\n'
            '<rect width="100%%" height="100%%" fill="#fff"/>\n'
            '<text x="%d" y="20" font-size="14">%s</text>\n%s\n</svg>\n'
            % (WIDTH, y + 20, LEFT, title, "\n".join(out)))


def write(path, rows):
    with open(path, "w") as file:
        file.write(svg(rows))
