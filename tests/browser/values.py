"""What the page shows beside what the run folder has.

A run goes on while it is looked at, so the page is asked again and again until
it shows what the file has.
"""
import json
import re
import time

PREFIX = {'': 1, 'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12, 'P': 1e15,
          'm': 1e-3, 'µ': 1e-6}

# The texts of a table's cells, row by row.
CELLS = ("return [...document.querySelectorAll('%s tbody tr')].map((r) => "
         "[...r.querySelectorAll('td')].map((c) => c.textContent))")


def number(text):
    """'1.23 MB' is 1230000, '25 %' is 0.25, '3.4 ms' is 0.0034."""
    text = text.strip()
    if text in ('', '–'):
        return 0.0
    clock = re.fullmatch(r'(?:(\d+):)?(\d+):(\d\d)', text)
    if clock:
        h, m, s = (int(x or 0) for x in clock.groups())
        return 3600.0 * h + 60 * m + s
    found = re.fullmatch(r'(\S+)(?: ([kMGTPmµ]?)(B/s|B|FLOP/s|FLOP|s|%)?)?',
                         text)
    if not found:
        raise ValueError('no number: ' + text)
    value, prefix, unit = found.groups()
    if unit == '%':
        return float(value) / 100
    return float(value) * PREFIX[prefix or '']


def close(text, value):
    """Is that what three digits of the value say?"""
    shown = number(text)
    return abs(shown - value) <= 0.006 * abs(value) + (
        0.0051 if '%' in text else 1e-9)


def until(b, what, differs, seconds=60):
    """Until differs() gives nothing; it says what differs."""
    end = time.monotonic() + seconds
    while True:
        try:
            wrong = differs()
        except (OSError, ValueError, IndexError, KeyError) as e:
            wrong = repr(e)  # a file that is being replaced, a table drawn
        if not wrong:
            return
        if time.monotonic() > end:
            raise AssertionError('%s: %s' % (what, wrong))
        time.sleep(0.2)


def load(path):
    with open(path) as f:
        return json.load(f)


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.endswith('\n')]


def ranks_differ(b, run):
    """The table of ranks and the line of ranks.jsonl that it is from."""
    at, cells = b.run("const t = cortado.rankTimes(); return [t[t.length - 1],"
                      "[...document.querySelectorAll('#ranktable tbody tr')]"
                      '.map((r) => [...r.querySelectorAll("td")].map((c) => '
                      'c.textContent))]')
    line = [x for x in lines(run + '/ranks.jsonl') if x['time'] == at][0]
    hosts = [r['host'] for r in load(run + '/run.json')['ranks']]
    if len(cells) != len(line['iter']):
        return 'rows %d' % len(cells)
    for row in cells:
        r = int(row[0])
        wanted = {3: line['iter'][r], 4: line['iterations_per_second'][r],
                  7: line['wait'][r], 9: line['sent_per_second'][r],
                  10: line['memory'][r]}
        wrong = [(k, row[k], v) for k, v in wanted.items()
                 if not close(row[k], v)]
        if wrong or row[1] != hosts[r]:
            return 'rank %d: %s' % (r, wrong or row[1])
    return ''


def layers_differ(b, run):
    """The table of layers, and times.json and net.json."""
    cells = b.run(CELLS % '#layertable')
    times = load(run + '/times.json')['layers']
    net = load(run + '/net.json')['layers']
    where = {layer['name']: i for i, layer in enumerate(net)}
    if sorted(row[0] for row in cells) != sorted(where):
        return 'layers %s' % [row[0] for row in cells]
    for row in cells:
        i = where[row[0]]
        work = net[i]['forward_flops'] + net[i]['backward_flops']
        memory = net[i]['top_bytes'] + 8 * sum(
            p['count'] for p in net[i]['params'])
        wrong = [(text, value) for text, value in
                 ((row[3], times[i][0]), (row[4], times[i][1]),
                  (row[6], work), (row[7], memory)) if not close(text, value)]
        if wrong or row[1] != net[i]['type']:
            return '%s: %s' % (row[0], wrong or row[1])
    return ''


def roads_differ(b, run):
    """The tables of links and roads, and roads.json."""
    links = b.run(CELLS % '#links')
    cells = b.run(CELLS % '#roads')
    roads = load(run + '/roads.json')
    n = roads['links']['ranks']
    for i, speed in enumerate(roads['links']['bytes_per_second']):
        text = links[i // n][i % n]
        if (text != '') if i // n == i % n else not close(text, speed):
            return 'link %d: %s' % (i, text)
    params = {p['param']: p for p in roads['params']}
    if sorted(row[0] for row in cells) != sorted(params):
        return 'parameters %s' % [row[0] for row in cells]
    whole = sum(p['bytes'] for p in roads['params']) or 1
    for row in cells:
        p = params[row[0]]
        wrong = [(text, value) for text, value in
                 ((row[2], p['floats']), (row[3], p['bytes']),
                  (row[4], p['bytes'] / whole), (row[5], p['predicted']),
                  (row[6], p['measured'])) if not close(text, value)]
        if wrong or row[1].rstrip(' *') != p['road']:
            return '%s: %s' % (row[0], wrong or row[1])
    return ''
