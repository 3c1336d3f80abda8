#!/usr/bin/env python3
"""The live page in a real browser: every page, every control, every number.

    tests/browser/run.py BUILD_FOLDER

Trains LeNet on four ranks, looks at it in headless Chromium, compares what
the page shows with the log, clicks everything, kills a rank and sees that,
then lays finished runs side by side.  Screenshots go to
BUILD_FOLDER/tests/browser.  Exits 77, skipped, where there is no Chromium.
"""
import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

sys.dont_write_bytecode = True
import values
import webdriver

HOME = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv[1])
CORTADO = os.path.join(BUILD, 'cortado')
SHOTS = os.path.join(BUILD, 'tests', 'browser')
PAGES = {'curves': '#chart_loss canvas', 'ranks': '#ranktable tbody tr',
         'layers': '#layertable tbody tr', 'net': 'g.node',
         'roads': '#roads tbody tr', 'log': '#logtext span'}
CHANGED = 'changed, "again"'
KINDS = ('joined', 'lost', 'suspect', 'back', 'view')
SOLVER = '''net: "net.prototxt" base_lr: 0.01 lr_policy: "inv" gamma: 0.0001
power: 0.75 momentum: 0.9 weight_decay: 0.0005 max_iter: 1000000 display: 2
test_iter: 2 test_interval: 20 snapshot_prefix: "lenet" random_seed: 1
solver_mode: CPU
'''
done = []


def check(true, what, *more):
    if not true:
        raise AssertionError(': '.join([what] + [str(m) for m in more]))
    done.append(what)


def make_data(folder):
    subprocess.run([CORTADO, 'make_digits', '--train=400', '--test=100',
                    folder], check=True, capture_output=True)
    with open(HOME + '/examples/digits/lenet_train_test.prototxt') as f:
        net = f.read()
    net = re.sub('build/demo/', folder + '/', net)
    net = re.sub(r'batch_size: *\d+', 'batch_size: 8', net)
    with open(folder + '/net.prototxt', 'w') as f:
        f.write(net)
    with open(folder + '/solver.prototxt', 'w') as f:
        f.write(SOLVER)


class Job:
    """A program that prints the address of its page."""

    def __init__(self, folder, *words):
        env = dict(os.environ, OMP_WAIT_POLICY='passive', OMP_NUM_THREADS='1',
                   CORTADO_TUNE='off')
        self.log = os.path.join(folder, 'job%d.log' % time.monotonic_ns())
        with open(self.log, 'wb') as out:
            self.process = subprocess.Popen([CORTADO, *words], cwd=folder,
                                            stdout=out, stderr=out, env=env)

    def text(self):
        with open(self.log, errors='replace') as f:
            return f.read()

    def address(self):
        for _ in range(300):
            found = re.search(r'http://\S+#token=\S+', self.text())
            if found:
                return found.group()
            time.sleep(0.1)
        raise AssertionError('no address: ' + self.text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def go(b, page, css):
    b.run("location.hash = '#%s'" % page)
    b.wait("return document.querySelector('%s') !== null" % css,
           'page ' + page)


def check_curves(b, job):
    b.wait('const r = window.cortado && cortado.first();'
           "return r && r.series.curves.get('test accuracy')?.x.length > 1",
           'two tests', 90)
    b.wait("return document.querySelector('#chart_loss canvas') !== null",
           'the loss is drawn')
    shown = b.run("const c = cortado.first().series.curves;"
                  "return [...c].map(([n, v]) => [n, v.x, v.y])")
    shown = {name: dict(zip(x, y)) for name, x, y in shown}
    log = job.text()
    n = 0
    for i, loss in re.findall(r'Iteration (\d+) \(.*loss = (\S+)', log):
        if int(i) in shown['train loss']:
            value = shown['train loss'][int(i)]
            check(abs(value - float(loss)) <= 1e-4 * abs(float(loss)),
                  'losses are those of the log', i, value, loss)
            n += 1
    check(n >= 5, 'losses were compared', n)
    tests = re.findall(r'Iteration (\d+), Testing.*\n(?:.*\n)*?.*'
                       r'accuracy = (\S+)', log)
    for i, value in tests[:2]:
        check(abs(shown['test accuracy'][int(i)] - float(value)) < 1e-5,
              'tests are those of the log', i, value)
    rates = dict(re.findall(r'Iteration (\d+), lr = (\S+)', log))
    for i in list(rates)[:5]:
        if int(i) in shown['learning rate']:
            check(abs(shown['learning rate'][int(i)] / float(rates[i]) - 1) <
                  1e-4, 'rates are those of the log', i)


def painted(b, css):
    """Colours in a canvas: a blank one has one."""
    return b.run('const c = document.querySelector(arguments[0]);'
                 "const d = c.getContext('2d').getImageData(0, 0, c.width,"
                 'c.height).data; const s = new Set();'
                 'for (let i = 0; i < d.length; i += 4)'
                 's.add(d[i] + "," + d[i+1] + "," + d[i+2] + "," + d[i+3]);'
                 'return s.size', css)


def half_way(b):
    """The kind of the loss's scale; where the two means of the ends of its
    axis stand, from 0 at its top to 1."""
    return b.run(
        "const u = cortado.plot('Loss'), { min, max, distr } = u.scales.y;"
        "const at = (v) => u.valToPos(v, 'y') / u.over.clientHeight;"
        'return [distr, at((min + max) / 2), at(Math.sqrt(min * max))]')


def check_scale(b):
    b.click('#logscale')
    kind, _, middle = half_way(b)
    check(kind == 3 and abs(middle - 0.5) < 0.01,
          'a log scale has the geometric mean in its middle', kind, middle)
    b.click('#logscale')
    kind, middle, _ = half_way(b)
    check(kind == 1 and abs(middle - 0.5) < 0.01,
          'a usual scale has the mean in its middle', kind, middle)


def download(folder, name):
    """The text of a file that comes, once it is whole."""
    path = os.path.join(folder, name)
    for _ in range(300):
        if os.path.exists(path) and os.path.getsize(path) and \
                not os.path.exists(path + '.crdownload'):
            with open(path, newline='') as f:
                text = f.read()
            os.remove(path)
            return text
        time.sleep(0.1)
    raise AssertionError('no download ' + name)


def csv_rows(text):
    rows = list(csv.reader(text.splitlines()))
    check(rows[0] == ['run', 'curve', 'iteration', 'time', 'value'] and
          all(len(row) == 5 for row in rows), 'CSV has five columns', rows[:2])
    return rows[1:]


def check_downloads(b, folder, job, run):
    """Every chart's CSV has every recorded value, and its SVG every line."""
    names = b.run("return [...document.querySelectorAll('section.card')]"
                  ".filter((c) => !c.hidden && c.id).map((c) => c.id)")
    check(len(names) >= 5, 'charts', names)
    series = values.lines(run + '/series.jsonl')
    losses = {x['iter']: x['loss'] for x in series if x['kind'] == 'iteration'}
    log = dict(re.findall(r'Iteration (\d+) \(.*loss = (\S+)', job.text()))
    for card in names:
        b.click('#%s button.csv' % card)
        rows = csv_rows(download(folder, card[len('chart_'):] + '.csv'))
        check(len(rows) > 1 and all(row[0] == 'four' for row in rows),
              'CSV is downloaded', card)
        b.click('#%s button.svg' % card)
        drawing = xml.dom.minidom.parseString(
            download(folder, card[len('chart_'):] + '.svg'))
        check(len(drawing.getElementsByTagName('path')) > 5,
              'SVG is downloaded', card)
        if card != 'chart_loss':
            continue
        shown = {int(row[2]): float(row[4]) for row in rows
                 if row[1] == 'train loss'}
        check(set(losses) <= set(shown) and
              all(shown[i] == v for i, v in losses.items()),
              'CSV has every recorded loss', len(shown), len(losses))
        both = [i for i in log if int(i) in shown]
        check(len(both) >= 5 and
              all(abs(shown[int(i)] / float(log[i]) - 1) < 1e-4 for i in both),
              'CSV has the losses of the log', both)


def check_controls(b, folder, job, run):
    before = painted(b, '#chart_loss canvas')
    check(before > 3, 'the loss has colours', before)
    b.run("const s = document.getElementById('smoothing'); s.value = 0;"
          "s.dispatchEvent(new Event('input'))")
    b.wait("return !/raw/.test(document.querySelector('#chart_loss')"
           '.textContent)', 'no smoothing, no raw curve')
    b.run("const s = document.getElementById('smoothing'); s.value = 0.9;"
          "s.dispatchEvent(new Event('input'))")
    b.wait("return /raw/.test(document.querySelector('#chart_loss')"
           '.textContent)', 'smoothing keeps the raw curve')
    check_scale(b)
    b.click('#bytime')
    b.wait("return /seconds/.test(document.querySelector('#chart_loss')"
           '.textContent)', 'curves over time')
    b.click('#bytime')
    b.drag('#chart_loss .u-over', 0.3, 0.6)
    b.wait("return window.cortado.zoomed('Loss')", 'a drag zooms')
    b.run("document.querySelector('#chart_loss .u-over').dispatchEvent("
          "new MouseEvent('dblclick', {bubbles: true}))")
    b.wait("return !window.cortado.zoomed('Loss')", 'a double click resets')
    check_downloads(b, folder, job, run)


def check_pages(b, run):
    go(b, 'ranks', '#ranktable tbody tr')
    b.wait("return document.querySelectorAll('#ranktable tbody tr').length "
           '=== 4', 'four ranks')
    b.click('#ranktable th:nth-child(1)')
    b.wait("return document.querySelector('#ranktable tbody td')"
           ".textContent === '3'", 'ranks are sorted the other way')
    text = b.run("return document.querySelector('#ranktable').textContent")
    check('25 %' in text and 'MB' in text, 'ranks have shares and memory')
    check('temperature' not in text, 'no column of temperatures of CPUs')
    values.until(b, 'ranks are those of ranks.jsonl',
                 lambda: values.ranks_differ(b, run))
    done.append('ranks are those of ranks.jsonl')
    # Opened again and again, while answers are on their way.
    b.run("for (let i = 0; i < 6; i++) setTimeout(() => { location.hash ="
          "i % 2 ? '#ranks' : '#log'; }, 40 * i)")
    b.wait("return location.hash === '#ranks' && "
           'cortado.rankTimes().length > 2', 'the ranks page is back')
    times = b.run('return cortado.rankTimes()')
    check(all(x < y for x, y in zip(times, times[1:])),
          'no line on ranks is taken twice', times)
    go(b, 'layers', '#layertable tbody tr')
    b.wait("return document.querySelector('#phases') !== null", 'phases')
    n = b.run("return document.querySelectorAll('#layertable tbody tr')"
              '.length')
    with open(run + '/net.json') as f:
        net = json.load(f)
    check(n == len(net['layers']), 'every layer has a row', n)
    values.until(b, 'layers are those of times.json',
                 lambda: values.layers_differ(b, run))
    done.append('layers are those of times.json')
    b.run("const s = document.getElementById('layerorder'); s.value = 'net';"
          "s.dispatchEvent(new Event('change'))")
    b.wait("return document.querySelector('#layertable tbody td')"
           '.textContent === "%s"' % net['layers'][0]['name'],
           'layers in the order of the net')
    check_net(b, net)
    go(b, 'roads', '#roads tbody tr')
    check(b.run("return document.querySelectorAll('#links tbody tr').length")
          == 4, 'links of four ranks')
    values.until(b, 'roads are those of roads.json',
                 lambda: values.roads_differ(b, run))
    done.append('roads are those of roads.json')


def view_box(b):
    """Left, top, width and height of what is seen of the net."""
    return [float(v) for v in b.run(
        "return document.querySelector('#drawing').getAttribute('viewBox')"
    ).split()]


def check_zoom(b):
    whole = view_box(b)
    b.click('#zoomin')
    check(view_box(b)[2] < 0.9 * whole[2], 'the drawing zooms in')
    b.click('#zoomout')
    check(abs(view_box(b)[2] - whole[2]) < 1e-6 * whole[2],
          'the drawing zooms out')
    b.wheel('#drawing', -200)
    near = view_box(b)
    check(near[2] < whole[2] and near[3] < whole[3], 'the wheel zooms in')
    b.wheel('#drawing', 200)
    check(view_box(b)[2] > near[2], 'the wheel zooms out')
    before = view_box(b)
    b.drag('#drawing', 0.4, 0.6)
    after = view_box(b)
    check(after[0] < before[0] and after[2] == before[2],
          'a drag to the right moves the drawing there', before, after)
    b.click('#zoomall')
    seen = view_box(b)
    nodes = b.run("return [...document.querySelectorAll('g.node')].map((g) => "
                  "g.getAttribute('transform').slice(10, -1).split(' ')"
                  '.map(Number))')
    check(all(seen[0] < x < seen[0] + seen[2] and
              seen[1] < y < seen[1] + seen[3] for x, y in nodes),
          'all of the net is seen')


def check_net(b, net):
    go(b, 'net', 'g.node')
    check(b.run("return document.querySelectorAll('g.node').length") ==
          len(net['layers']), 'every layer is drawn')
    b.run("document.querySelector('g.node[data-layer=conv1]').dispatchEvent("
          "new MouseEvent('click', {bubbles: true}))")
    b.wait("return /20 × 1 × 5 × 5/.test(document.querySelector('#side')"
           '.textContent)', 'a click shows shapes')
    b.wait("return document.querySelector('canvas.histogram') !== null",
           'histograms come', 60)
    b.wait("return document.querySelector('#filters') !== null", 'filters')
    check(painted(b, '#filters') > 20, 'filters are pictures')
    check_zoom(b)


LINES = ("return [...document.querySelectorAll('#logtext span')]"
         '.map((s) => s.className)')


def check_log(b, folder, job):
    go(b, 'log', '#logtext span')
    b.type('#logfilter', 'lr = ')
    b.wait("const l = [...document.querySelectorAll('#logtext span')];"
           'return l.length > 2 && l.every((s) => /lr = /.test('
           's.textContent))', 'the log is filtered')
    b.click('#levelI')
    b.wait("return document.querySelectorAll('#logtext span').length === 0",
           'levels are filtered')
    b.click('#levelI')
    b.run("const f = document.getElementById('logfilter'); f.value = '';"
          "f.dispatchEvent(new Event('input'))")
    check_follow(b)
    b.click('#savelog')
    saved = download(folder, 'log.txt').splitlines()
    written = set(job.text().splitlines())
    check(len(saved) > 20 and sum(line in written for line in saved) >
          0.9 * len(saved), 'the saved log is the log', saved[:3])


def check_levels(b):
    go(b, 'log', '#logtext span')
    for level in 'WE':
        b.wait("return document.querySelector('#logtext span.%s') !== null"
               % level, 'a line of level ' + level)
        b.click('#level' + level)
        check(level not in b.run(LINES), 'level %s is left out' % level)
        b.click('#level' + level)
        check(level in b.run(LINES), 'level %s is back' % level)


def check_follow(b):
    """The end of the log is in sight, unless somebody looks elsewhere."""
    at = ("const s = document.querySelector('#page .scroll');"
          'return [s.scrollTop, s.scrollHeight - s.clientHeight]')
    b.wait("const s = document.querySelector('#page .scroll');"
           'return s.scrollHeight - s.clientHeight > 100',
           'a log that is longer than a page')
    top, most = b.run(at)
    check(most - top < 3, 'the end of the log is in sight', top, most)
    b.click('#follow')
    b.run("document.querySelector('#page .scroll').scrollTop = 0")
    last = b.run("return document.querySelector('#logtext').lastChild"
                 '.textContent')
    b.wait("return document.querySelector('#logtext').lastChild.textContent "
           '!== %s' % json.dumps(last), 'more lines')
    check(b.run(at)[0] == 0, 'the log stays where it is')
    b.click('#follow')
    top, most = b.run(at)
    check(most - top < 3, 'the end of the log is back in sight', top, most)


def theme(b):
    """The attribute of the page, and its background."""
    return b.run("return [document.documentElement.dataset.theme || '', "
                 'getComputedStyle(document.body).backgroundColor]')


def check_looks(b):
    """All pages in light and dark, on a desk and on a phone."""
    first, light = theme(b)
    b.click('#theme')
    second, dark = theme(b)
    b.click('#theme')
    third, again = theme(b)
    check((first, second, third) == ('', 'dark', 'light') and
          dark != light == again, 'light and dark differ', light, dark, again)
    for look in ('light', 'dark'):
        while theme(b)[0] != look:
            b.click('#theme')
        for where, width, height in (('', 1280, 900), ('phone_', 390, 844)):
            b.size(width, height)
            for page, css in PAGES.items():
                go(b, page, css)
                time.sleep(0.5)
                wide = b.run('return document.documentElement.scrollWidth - '
                             'innerWidth')
                check(wide <= 0, 'nothing is wider than the window', page,
                      where, wide)
                b.screenshot('%s/%s%s_%s.png' % (SHOTS, where, page, look))
    b.size(1280, 900)
    b.click('#theme')
    b.click('#theme')
    check(theme(b) == ['', light], 'the third theme is that of the system')


def check_quiet(b, over=False):
    """over: the server may have ended."""
    bad = [e for e in b.log('browser') if e['level'] in ('SEVERE', 'WARNING')
           and not (over and 'net::ERR_' in e['message'])]
    check(not bad, 'the console is free of errors', bad)
    asked = b.requests()
    away = [u for u in asked if not u.startswith(
        ('http://127.0.0.1:', 'chrome', 'data:', 'blob:', 'about:'))]
    check(asked and not away, 'no request leaves the machine', away)


def check_snapshot(b, job, folder):
    b.click('#snapshot')
    b.wait("return !document.getElementById('notice').hidden", 'a notice')
    for _ in range(300):
        if glob.glob(folder + '/lenet_iter_*.solverstate'):
            break
        time.sleep(0.1)
    check('Snapshotting' in job.text(), 'the button takes a snapshot')
    b.click('#trace')
    for _ in range(300):
        if glob.glob(folder + '/runs/four/trace-*.json'):
            break
        time.sleep(0.1)
    check(glob.glob(folder + '/runs/four/trace-*.json'),
          'the button records a trace')
    for _ in range(100):
        if len(glob.glob(folder + '/runs/four/autopsy/rank-*.txt')) == 4:
            break
        time.sleep(0.1)
    check(len(glob.glob(folder + '/runs/four/autopsy/rank-*.txt')) == 4,
          'the same button has all ranks write records')


def check_kill(b, run):
    go(b, 'ranks', '#ranktable tbody tr')
    with open(run + '/run.json') as f:
        ranks = json.load(f)['ranks']
    check(ranks[3]['device'] != '', 'ranks have devices')
    os.kill(ranks[2]['pid'], signal.SIGKILL)
    b.wait("return /rank 2 .*has died/.test(document.querySelector('#page')"
           '.textContent)', 'the lost rank appears', 30)
    b.wait("return document.querySelector('#ranktable tr.gone td')"
           "?.textContent === '2'", 'its row is struck out', 30)
    text = b.run("return document.querySelector('#ranktable tr.gone')"
                 '.textContent')
    check('lost' in text, 'its row says so', text)
    b.screenshot(SHOTS + '/lost.png')
    check_quiet(b, True)


def lines_of_ranks(run, n):
    """n lines, made of one that was written, over the time of the curves:
    a busy machine lets the job write few."""
    with open(run + '/ranks.jsonl') as f:
        line = json.loads(f.readlines()[-2:][0])
    with open(run + '/series.jsonl') as f:
        times = [t['time'] for t in map(json.loads, f) if 'time' in t]
    step = (max(times) - min(times)) / (n - 1)
    return [dict(line, time=min(times) + step * i) for i in range(n)]


def change_json(path, change):
    """Has a file written anew after change(what it holds)."""
    with open(path) as f:
        value = json.load(f)
    change(value)
    with open(path, 'w') as f:
        json.dump(value, f)


def changed_ranks(folder):
    """A run folder as a job leaves it that was resumed, and whose ranks came
    and went."""
    run = folder + '/runs/' + CHANGED
    shutil.copytree(folder + '/runs/four', run)
    lines = lines_of_ranks(run, 12)
    change_json(run + '/run.json', lambda facts: facts.update(
        started=lines[-1]['time']))
    change_json(run + '/roads.json', lambda roads: roads.pop('links'))
    with open(run + '/ranks.jsonl', 'w') as f:
        for i, line in enumerate(lines):
            n = (4, 3, 5)[i // 4]
            for key, value in line.items():
                if isinstance(value, list):
                    line[key] = [value[k % 4] for k in range(n)]
            line['gone'] = [0] * n
            f.write(json.dumps(line) + '\n')
    with open(run + '/log.txt', 'a') as f:
        f.write('W0101 a warning\nE0101 an error\n')
    with open(run + '/series.jsonl') as f:
        series = [line for line in f if '"mark"' not in line]
    with open(run + '/series.jsonl', 'w') as f:
        f.writelines(series)
        for i, what in enumerate(KINDS):
            f.write(json.dumps({
                'kind': 'mark', 'iter': 10 * i, 'what': what, 'rank': i,
                'time': lines[2 * i + 1]['time'],
                'text': 'mark number %d' % i}) + '\n')


# Lines of marks that are drawn while `act` is done.
SPY = """const old = CanvasRenderingContext2D.prototype.setLineDash;
window.tones = [];
CanvasRenderingContext2D.prototype.setLineDash = function (d) {
  if (d.length === 2 && d[0] === 4 && d[1] === 3)
    window.tones.push(this.strokeStyle);
  return old.call(this, d);
}"""


def check_marks(b, folder):
    """Joins, losses and changed views, on both pages that have a time axis."""
    b.click('#bytime')
    start = b.run("return cortado.plot('Loss').data[0][0]")
    check(0 <= start < 300, 'a resumed run begins with its first start', start)
    b.click('#bytime')
    b.click('#chart_loss button.csv')
    rows = csv_rows(download(folder, 'loss.csv'))
    check(all(row[0] == CHANGED for row in rows), 'names in CSV are quoted',
          rows[:1])
    b.run(SPY)
    for box in ('#bytime', '#bytime'):
        b.run('window.tones = []')
        b.click(box)
        b.wait('return window.tones.length >= 5', 'marks in the curves')
    check(len(set(b.run('return window.tones'))) == 3,
          'losses and suspects have colours of their own')
    b.run('window.tones = []')
    go(b, 'ranks', '#marks')
    b.wait('return window.tones.length >= 5', 'marks in the chart of waiting')
    text = b.run("return document.querySelector('#marks').textContent")
    check(all('%siteration %d mark number %d' % (w + ' ', 10 * i, i) in text
              for i, w in enumerate(KINDS)), 'marks are listed', text)
    check(b.run("return document.querySelectorAll('#ranktable tbody tr')"
                '.length') == 5, 'ranks that have come are in the table')
    b.screenshot(SHOTS + '/changed.png')
    go(b, 'roads', '#nolinks')
    check('come and go' in b.run("return document.querySelector('#nolinks')"
                                 '.textContent'), 'why there are no links')
    check_levels(b)
    check_quiet(b)


def thousand_ranks(folder):
    """A run folder as a job of 1,000 ranks would leave it."""
    run = folder + '/runs/thousand'
    shutil.copytree(folder + '/runs/four', run)
    change_json(run + '/run.json', lambda facts: facts.update(
        ranks=[dict(facts['ranks'][0], rank=i, host='node%d' % (i // 8))
               for i in range(1000)]))
    change_json(run + '/roads.json', lambda roads: roads.pop('links'))
    lines = lines_of_ranks(run, 300)
    with open(run + '/ranks.jsonl', 'w') as f:
        for k, line in enumerate(lines):
            for key, value in line.items():
                if isinstance(value, list):
                    line[key] = [value[i % 4] for i in range(1000)]
            line['gone'] = [1 if i == 77 else 0 for i in range(1000)]
            line['wait'] = [i / 1000 for i in range(1000)]
            line['temperature'] = [40 + i % 9 for i in range(1000)]
            line['iter'] = [10 * k + i % 7 for i in range(1000)]
            f.write(json.dumps(line) + '\n')


def check_thousand(b, run):
    b.run('performance.clearResourceTimings()')
    go(b, 'ranks', '#rankmap')
    n = b.run("return document.querySelectorAll('#ranktable tbody tr').length")
    check(n == 64, 'a thousand ranks are shown in part', n)
    check('999 of 1000' in b.run(
        "return document.querySelector('#page').textContent"),
        'a thousand ranks are counted')
    check(b.run("return document.querySelector('#ranktable tr.gone td')"
                '.textContent') == '77', 'the lost one is on top')
    check('41 °C' in b.run("return document.querySelector('#ranktable')"
                           '.textContent'), 'temperatures are shown')
    size = b.run("return performance.getEntriesByType('resource').filter((e) "
                 "=> /ranks.jsonl/.test(e.name)).reduce((n, e) => n + "
                 'e.transferSize, 0)')
    line = os.path.getsize(run + '/ranks.jsonl') / 300
    check(line < size < min(16 * line, 3e6), 'old lines are fetched in part',
          size, line)
    check(len(b.run('return cortado.rankTimes()')) >= 8,
          'waiting has a history')
    legend = "document.querySelector('#rankmap + .dim').textContent"
    check('blue 0, orange 0.999' in b.run('return ' + legend),
          'the picture is of waiting', b.run('return ' + legend))
    b.run("const s = document.getElementById('rankmetric'); s.value = 'iter';"
          "s.dispatchEvent(new Event('change'))")
    b.wait('return /blue 2990, orange 2996/.test(%s)' % legend,
           'the picture is of iterations', 10)
    b.screenshot(SHOTS + '/thousand.png')
    go(b, 'roads', '#nolinks')
    check('has 1000' in b.run("return document.querySelector('#nolinks')"
                              '.textContent'), 'why there are no links')


def check_board(b, folder):
    changed_ranks(folder)
    with Job(folder, 'board', '--http=0', 'runs/' + CHANGED) as board:
        b.open(board.address())
        b.wait("return document.querySelector('#chart_loss canvas') !== null",
               'the loss is drawn')
        check_marks(b, folder)
    shutil.rmtree(folder + '/runs/' + CHANGED)
    b.open('about:blank')
    b.log('browser')  # a server that ends is an error there
    thousand_ranks(folder)
    with Job(folder, 'board', '--http=0', 'runs') as board:
        b.open(board.address())
        b.wait("return document.querySelectorAll('#runs label').length === 2",
               'two runs side by side')
        b.wait("return /failed/.test(document.querySelector('#status')"
               '.textContent)', 'a failed run says so')
        check(b.run("return document.getElementById('stop').hidden"),
              'finished runs have no buttons')
        # What the page has gathered is theirs to keep, while it is drawn.
        for box in (1, 2):
            if not b.run("return document.querySelector('#runs label:nth-child"
                         "(%d) input').checked" % box):
                b.click('#runs label:nth-child(%d) input' % box)
                time.sleep(0.5)
        b.wait("return /four train loss/.test(document.querySelector("
               "'#chart_loss').textContent)", 'runs are compared')
        b.screenshot(SHOTS + '/compare.png')
        b.click('#runs label:nth-child(1) input')
        check_thousand(b, folder + '/runs/thousand')
        check_quiet(b)


def check_stop(b, folder):
    with Job(folder, 'train', '--solver=solver.prototxt', '--threads=1',
             '--http=0', '--run=stopped') as job:
        b.open(job.address())
        b.wait("return !document.getElementById('stop').hidden", 'a button')
        b.wait('const r = window.cortado && cortado.first();'
               'return r && r.series.last && r.series.last.iter > 2', 'steps')
        b.click('#stop')
        time.sleep(0.5)
        check(job.process.poll() is None, 'one click does not stop a run')
        b.click('#stop')
        b.wait("return /stopped/.test(document.querySelector('#status')"
               '.textContent)', 'the page sees the end', 30)
        check(job.process.wait(30) == 4, 'the button stops the run')
        check_quiet(b, True)


def main():
    if not webdriver.find():
        print('skipped: there is no chromium with its chromedriver')
        return 77
    os.makedirs(SHOTS, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        with webdriver.Browser(folder) as b:
            with Job(folder, 'train', '--solver=solver.prototxt', '--ranks=4',
                     '--threads=1', '--http=0', '--run=runs/four') as job:
                b.open(job.address())
                check_curves(b, job)
                check_controls(b, folder, job, folder + '/runs/four')
                check_pages(b, folder + '/runs/four')
                check_log(b, folder, job)
                check_looks(b)
                check_snapshot(b, job, folder)
                check_quiet(b)
                check_kill(b, folder + '/runs/four')
            b.open('about:blank')
            b.log('browser')  # a server that ends is an error there
            check_board(b, folder)
            check_stop(b, folder)
    print('%d checks' % len(done))
    return 0


if __name__ == '__main__':
    sys.exit(main())
