#!/usr/bin/env python3
"""The live page in a real browser: every page, every control, every number.

    tests/browser/run.py BUILD_FOLDER

Trains LeNet on four ranks, looks at it in headless Chromium, compares what
the page shows with the log, clicks everything, kills a rank and sees that,
then lays finished runs side by side.  Screenshots go to
BUILD_FOLDER/tests/browser.  Exits 77, skipped, where there is no Chromium.
"""
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

import webdriver

HOME = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv[1])
CORTADO = os.path.join(BUILD, 'cortado')
SHOTS = os.path.join(BUILD, 'tests', 'browser')
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


def check_controls(b, folder):
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
    b.click('#logscale')
    check(painted(b, '#chart_loss canvas') > 3, 'log scale is drawn')
    b.click('#logscale')
    b.click('#bytime')
    b.wait("return /seconds/.test(document.querySelector('#chart_loss')"
           '.textContent)', 'curves over time')
    b.click('#bytime')
    b.drag('#chart_loss .u-over', 0.3, 0.6)
    b.wait("return window.cortado.zoomed('Loss')", 'a drag zooms')
    b.run("document.querySelector('#chart_loss .u-over').dispatchEvent("
          "new MouseEvent('dblclick', {bubbles: true}))")
    b.wait("return !window.cortado.zoomed('Loss')", 'a double click resets')
    b.click('#chart_loss button.csv')
    b.click('#chart_loss button.svg')
    for _ in range(100):
        if glob.glob(folder + '/loss.csv') and glob.glob(folder + '/loss.svg'):
            break
        time.sleep(0.1)
    with open(folder + '/loss.csv') as f:
        rows = f.read().splitlines()
    check(rows[0] == 'run,curve,iteration,time,value' and len(rows) > 10,
          'CSV is downloaded', rows[:2])
    drawing = xml.dom.minidom.parse(folder + '/loss.svg')
    check(len(drawing.getElementsByTagName('path')) > 5, 'SVG is downloaded')


def check_pages(b, run):
    go(b, 'ranks', '#ranktable tbody tr')
    b.wait("return document.querySelectorAll('#ranktable tbody tr').length "
           '=== 4', 'four ranks')
    b.click('#ranktable th:nth-child(1)')
    b.wait("return document.querySelector('#ranktable tbody td')"
           ".textContent === '3'", 'ranks are sorted the other way')
    text = b.run("return document.querySelector('#ranktable').textContent")
    check('25 %' in text and 'MB' in text, 'ranks have shares and memory')
    # Opened again and again, while answers are on their way.
    b.run("for (let i = 0; i < 6; i++) setTimeout(() => { location.hash ="
          "i % 2 ? '#ranks' : '#log'; }, 40 * i)")
    b.wait("return location.hash === '#ranks' && "
           'cortado.rankTimes().length > 2', 'the ranks page is back')
    times = b.run('return cortado.rankTimes()')
    check(all(x < y for x, y in zip(times, times[1:])),
          'no line on ranks is taken twice', times)
    b.screenshot(SHOTS + '/ranks.png')
    go(b, 'layers', '#layertable tbody tr')
    b.wait("return document.querySelector('#phases') !== null", 'phases')
    n = b.run("return document.querySelectorAll('#layertable tbody tr')"
              '.length')
    with open(run + '/net.json') as f:
        net = json.load(f)
    check(n == len(net['layers']), 'every layer has a row', n)
    b.run("const s = document.getElementById('layerorder'); s.value = 'net';"
          "s.dispatchEvent(new Event('change'))")
    b.wait("return document.querySelector('#layertable tbody td')"
           '.textContent === "%s"' % net['layers'][0]['name'],
           'layers in the order of the net')
    b.screenshot(SHOTS + '/layers.png')
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
    before = b.run("return document.querySelector('#drawing')"
                   ".getAttribute('viewBox')")
    b.click('#zoomin')
    check(before != b.run("return document.querySelector('#drawing')"
                          ".getAttribute('viewBox')"), 'the drawing zooms')
    b.click('#zoomall')
    b.screenshot(SHOTS + '/net.png')
    go(b, 'roads', '#roads tbody tr')
    check(b.run("return document.querySelectorAll('#links tbody tr').length")
          == 4, 'links of four ranks')
    b.screenshot(SHOTS + '/roads.png')


def check_log(b):
    go(b, 'log', '#logtext span')
    b.type('#logfilter', 'lr = ')
    b.wait("const l = [...document.querySelectorAll('#logtext span')];"
           'return l.length > 2 && l.every((s) => /lr = /.test('
           's.textContent))', 'the log is filtered')
    b.click('#levelI')
    b.wait("return document.querySelectorAll('#logtext span').length === 0",
           'levels are filtered')
    b.click('#levelI')
    b.screenshot(SHOTS + '/log.png')


def check_looks(b):
    go(b, 'curves', '#chart_loss canvas')
    time.sleep(1)
    b.screenshot(SHOTS + '/curves.png')
    light = b.run('return getComputedStyle(document.body).backgroundColor')
    b.click('#theme')
    dark = b.run('return getComputedStyle(document.body).backgroundColor')
    check(light != dark, 'light and dark differ', light, dark)
    time.sleep(1)
    b.screenshot(SHOTS + '/dark.png')
    b.size(390, 844)
    for page in ('curves', 'ranks', 'layers', 'net', 'roads', 'log'):
        b.run("location.hash = '#%s'" % page)
        time.sleep(0.7)
        wide = b.run('return document.documentElement.scrollWidth - '
                     'innerWidth')
        check(wide <= 0, 'nothing is wider than a phone', page, wide)
        b.screenshot(SHOTS + '/phone_%s.png' % page)
    b.size(1280, 900)


def check_quiet(b):
    bad = [e for e in b.log('browser') if e['level'] in ('SEVERE', 'WARNING')]
    check(not bad, 'the console is free of errors', bad)
    away = [u for u in b.requests() if not u.startswith(
        ('http://127.0.0.1:', 'chrome', 'data:', 'blob:', 'about:'))]
    check(not away, 'no request leaves the machine', away)


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
    b.screenshot(SHOTS + '/lost.png')


def lines_of_ranks(run, n):
    """n lines, made of one that was written, over the time of the curves:
    a busy machine lets the job write few."""
    with open(run + '/ranks.jsonl') as f:
        line = json.loads(f.readlines()[-2:][0])
    with open(run + '/series.jsonl') as f:
        times = [t['time'] for t in map(json.loads, f) if 'time' in t]
    step = (max(times) - min(times)) / (n - 1)
    return [dict(line, time=min(times) + step * i) for i in range(n)]


def changed_ranks(folder):
    """A run folder as a job leaves it whose ranks came and went."""
    run = folder + '/runs/changed'
    shutil.copytree(folder + '/runs/four', run)
    lines = lines_of_ranks(run, 12)
    with open(run + '/ranks.jsonl', 'w') as f:
        for i, line in enumerate(lines):
            n = (4, 3, 5)[i // 4]
            for key, value in line.items():
                if isinstance(value, list):
                    line[key] = [value[k % 4] for k in range(n)]
            line['gone'] = [0] * n
            f.write(json.dumps(line) + '\n')
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


def check_marks(b):
    """Joins, losses and changed views, on both pages that have a time axis."""
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


def thousand_ranks(folder):
    """A run folder as a job of 1,000 ranks would leave it."""
    run = folder + '/runs/thousand'
    shutil.copytree(folder + '/runs/four', run)
    with open(run + '/run.json') as f:
        facts = json.load(f)
    facts['ranks'] = [dict(facts['ranks'][0], rank=i, host='node%d' % (i // 8))
                      for i in range(1000)]
    with open(run + '/run.json', 'w') as f:
        json.dump(facts, f)
    line = lines_of_ranks(run, 3)[-1]
    for key, value in line.items():
        if isinstance(value, list):
            line[key] = [value[i % 4] for i in range(1000)]
    line['gone'] = [1 if i == 77 else 0 for i in range(1000)]
    line['wait'] = [i / 1000 for i in range(1000)]
    with open(run + '/ranks.jsonl', 'w') as f:
        f.write((json.dumps(line) + '\n') * 3)


def check_board(b, folder):
    changed_ranks(folder)
    with Job(folder, 'board', '--http=0', 'runs/changed') as board:
        b.open(board.address())
        b.wait("return document.querySelector('#chart_loss canvas') !== null",
               'the loss is drawn')
        check_marks(b)
    shutil.rmtree(folder + '/runs/changed')
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
        go(b, 'ranks', '#rankmap')
        n = b.run("return document.querySelectorAll('#ranktable tbody tr')"
                  '.length')
        check(n == 64, 'a thousand ranks are shown in part', n)
        check('999 of 1000' in b.run(
            "return document.querySelector('#page').textContent"),
            'a thousand ranks are counted')
        check(b.run("return document.querySelector('#ranktable tr.gone td')"
                    ".textContent") == '77', 'the lost one is on top')
        b.screenshot(SHOTS + '/thousand.png')
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
                check_controls(b, folder)
                check_pages(b, folder + '/runs/four')
                check_log(b)
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
