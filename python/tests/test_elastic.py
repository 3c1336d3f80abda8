"""Scripts whose ranks come and go: real processes, really killed.

Jobs train canonically, so whatever happens to them, their weights are those of
one rank to which nothing did, bit for bit.  A data layer writes down which
samples it took, in which iteration of which view: of each iteration the last
view counts."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

from common import BUILD, SOURCE, Case
from test_distributed import LOSS, SCORE, clean_environment

PROGRAM = os.path.join(BUILD, 'cortado')
SAMPLES, BATCH, ROUND = 48, 12, 40

LAYER = """import os
import numpy as np
import caffe

random = np.random.RandomState(3)
X = random.randn(48, 6).astype(np.float32)
Y = random.randint(4, size=48)


class Data(caffe.Layer):

    def setup(self, bottom, top):
        self.dealt = self.deal(48, self.batch_size)

    def reshape(self, bottom, top):
        top[0].reshape(self.batch_size, 6)
        top[1].reshape(self.batch_size)

    def forward(self, bottom, top):
        if os.path.exists('fail.%d' % os.getpid()):
            raise ValueError('a sample that cannot be read')
        i = next(self.dealt)
        step, first, batch, share = self.dealt.shard
        n = self.dealt.passes - 1
        place = n // share * step + first + n % share * batch
        note('took', caffe.distributed.view().number, place // 12, *i)
        top[0].data[...] = X[i]
        top[1].data[...] = Y[i]

    def backward(self, top, propagate_down, bottom):
        pass


class Old(Data):

    def setup(self, bottom, top):
        self.batch_size = 12
        self.dealt = self.deal(48, 12)


class Forgetful(Data):

    def setup(self, bottom, top):
        self.dealt = iter([])


def note(name, *words):
    with open('%s.%d' % (name, os.getpid()), 'a') as out:
        out.write(' '.join(map(str, words)) + '\\n')
"""

NET = """layer { name: 'data' type: 'Python' top: 'x' top: 'y' %s
  python_param { module: 'layer' layer: '%s' } }
""" + SCORE + LOSS
SAID = 'data_param { batch_size: 12 }'

SOLVER = """net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9
random_seed: 7 max_iter: %d display: 0 snapshot_prefix: 'trained' %s
snapshot_after_train: false
"""

# The test opens a gate after the other; at the last one training is over.
HEAD = """import os, sys, time
import numpy
import caffe
from layer import note

def gate(number):
    path = 'gate.%d' % number
    while not os.path.exists(path):
        time.sleep(0.01)
    return open(path).read()

def save():
    numpy.save('weights.%d' % os.getpid(), numpy.concatenate(
        [b.data.ravel() for p in solver.net.params.values() for b in p]))

caffe.distributed.init(canonical=True, parts=4, **eval(sys.argv[1]))
solver = caffe.get_solver('solver.prototxt')
solver.listen(view=lambda v: note('views', v.number, v.rank, v.size),
              mark=lambda m: note('marks', m.what, m.rank))
"""

STEPS = HEAD + """
score = solver.net.blobs['score']
weights = solver.net.params['score'][0]
starts = []
solver.add_callback(lambda: starts.append(1), lambda: None)
while solver.iter % ROUND or gate(solver.iter // ROUND) != 'end':
    before = solver.iter, weights.data.copy()
    del starts[:]
    solver.step(1)
    assert solver.iter == before[0] + 1 and starts
    assert (weights.data != before[1]).any()
    assert score.shape[0] == solver.net.blobs['x'].data.shape[0]
    assert caffe.distributed.size() == caffe.distributed.view().size
save()
note('end', solver.iter)
caffe.distributed.finish()
""".replace('ROUND', str(ROUND))

WHOLE = HEAD + """
solver.listen(iteration=lambda e: e.iter == 20 and gate(0))
solver.solve()
save()
"""

# One rank in three starts in the middle, so its steps end where others' do.
LONG = HEAD + """
while solver.iter % ROUND or gate(solver.iter // ROUND) != 'end':
    solver.step(ROUND)
    assert solver.iter % ROUND == 0, solver.iter
save()
caffe.distributed.finish()
""".replace('ROUND', str(ROUND))

# A rank that fails stays, as in a debugger.
CAUGHT = HEAD + """
try:
    while solver.iter % ROUND or gate(solver.iter // ROUND) != 'end':
        solver.step(1)
except Exception as error:
    note('failed', error)
    gate(-1)
    raise
save()
caffe.distributed.finish()
""".replace('ROUND', str(ROUND))

# Ranks of a host have their parameters in turn in two places.
SHARED = HEAD.replace('canonical=True, parts=4', 'batch=\"global\"') + """
other = caffe.Net('other.prototxt', caffe.TEST)
other.share_with(solver.net)
while solver.iter % ROUND or gate(solver.iter // ROUND) != 'end':
    solver.step(1)
    for a, b in zip(other.params['score'], solver.net.params['score']):
        assert (a.data == b.data).all()
caffe.distributed.finish()
""".replace('ROUND', str(ROUND))

# The second rank of a host ends as if all were well.
QUITTER = HEAD + """
solver.step(ROUND)
if os.environ['CORTADO_LOCAL_RANK'] == '1':
    sys.exit(0)
while solver.iter % ROUND or gate(solver.iter // ROUND) != 'end':
    solver.step(1)
caffe.distributed.finish()
""".replace('ROUND', str(ROUND))

FORKED = HEAD + """
import multiprocessing

def wait():
    note('child', caffe.distributed.size())
    time.sleep(1000)

solver.step(1)
child = multiprocessing.get_context('fork').Process(target=wait)
child.start()
while not os.path.exists('child.%d' % child.pid):
    time.sleep(0.01)
child.terminate()
child.join(50)
assert child.exitcode == -15, child.exitcode
solver.step(1)
caffe.distributed.finish()
"""


class Elastic(Case):

    def setUp(self):
        super().setUp()
        tried = subprocess.run(
            [PROGRAM, 'launch', '--secret_file=' + self.path('secret'), '--',
             'true'], stderr=subprocess.PIPE, text=True, check=False)
        if 'libsodium' in tried.stderr:
            self.skipTest('this build has no elastic jobs')
        self.file(LAYER, 'layer.py')
        self.net_file()
        self.solver_file(100000)
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for name in os.listdir(self.folder):
            if name.startswith('views.'):
                self.kill(int(name.partition('.')[2]))
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()

    def kill(self, pid, number=signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def net_file(self, said=SAID, layer='Data'):
        self.file(NET % (said, layer))

    def solver_file(self, iterations, more=''):
        self.file(SOLVER % (iterations, more), 'solver.prototxt')

    def start(self, *command, **more):
        with open(self.path('log'), 'a') as log:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log,
                env=dict(clean_environment(), **more))
        self.started.append(process)
        return process

    def script(self, code, options='{}'):
        self.write('script.py', code)  # another process may be reading it
        return [sys.executable, '-B', self.path('script.py'), options]

    def launch(self, code, *flags):
        return self.start(PROGRAM, 'launch', *flags, '--', *self.script(code))

    def by_hand(self, code, **options):
        options.setdefault('rendezvous', 'file:' + self.path('meet'))
        return self.start(*self.script(code, repr(options)))

    def log(self):
        with open(self.path('log')) as text:
            return text.read()

    def noted(self, name):
        """By process, what it wrote down: lines of words."""
        found = {}
        for file in os.listdir(self.folder):
            first, _, pid = file.partition('.')
            if first == name:
                with open(self.path(file)) as text:
                    found[int(pid)] = [line.split()
                                       for line in text.read().splitlines()]
        return found

    def until(self, what, why):
        end = time.monotonic() + 100
        while time.monotonic() < end:
            found = what()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError('waited in vain: %s\n%s' % (why,
                                                          self.log()[-3000:]))

    def view(self):
        """(number, {rank: process}) of the newest view that all have told."""
        views = {}
        for pid, lines in self.noted('views').items():
            for number, rank, size in lines:
                members = views.setdefault(int(number), [int(size), {}])
                members[1][int(rank)] = pid
        whole = [n for n, (size, ranks) in views.items() if len(ranks) == size]
        return (max(whole), views[max(whole)][1]) if whole else (0, {})

    def until_size(self, size, without=()):
        def there():
            number, ranks = self.view()
            return (len(ranks) == size and
                    not set(without) & set(ranks.values()) and ranks)
        return self.until(there, '%d ranks without %s' % (size, without))

    def write(self, name, text):
        self.file(text, name + '.half')
        os.rename(self.path(name + '.half'), self.path(name))

    def open_gates(self):
        """Let ranks go on, round after round, until end_rounds()."""
        self.rounds, self.over = 0, threading.Event()

        def go():
            while not self.over.is_set():
                self.write('gate.%d' % self.rounds, 'more')
                self.rounds += 1
                self.over.wait(0.1)
            self.write('gate.%d' % self.rounds, 'end')

        self.opener = threading.Thread(target=go)
        self.opener.start()
        self.addCleanup(self.over.set)

    def end_rounds(self):
        """Training ends behind the gates that are open; returns when."""
        self.over.set()
        self.opener.join()
        return self.rounds * ROUND

    def ended(self, process, code=0):
        try:
            process.wait(100)
        except subprocess.TimeoutExpired:
            self.fail('it does not end\n' + self.log()[-4000:])
        self.assertEqual(process.returncode, code, self.log()[-4000:])

    def weights(self):
        """Of all processes that came to the end, which have the same."""
        found = {name: np.load(self.path(name))
                 for name in os.listdir(self.folder)
                 if name.startswith('weights.')}
        for one in found.values():
            np.testing.assert_array_equal(one, next(iter(found.values())))
        return len(found), next(iter(found.values()))

    def check_weights(self, iterations, n):
        """Those of n ranks are those of one that was left alone."""
        count, weights = self.weights()
        self.assertEqual(count, n, self.log()[-4000:])
        self.check_samples(iterations)
        for name in os.listdir(self.folder):
            if name.partition('.')[0] in ('weights', 'took', 'gate'):
                os.remove(self.path(name))
        self.write('gate.0', 'more' if iterations else 'end')
        self.solver_file(iterations)
        self.ended(self.start(*self.script(
            HEAD.replace('caffe.distributed.init(',
                         'caffe.distributed.init(elastic=True, ') +
            'solver.solve()\nsave()\n')))
        np.testing.assert_array_equal(weights, self.weights()[1])

    def check_samples(self, iterations):
        """Every one counts once an epoch, whoever took it."""
        taken = {}  # by iteration: its newest view, and the samples there
        for lines in self.noted('took').values():
            for view, number, *samples in lines:
                view, old = int(view), taken.get(int(number), (0, []))
                if view >= old[0]:
                    samples = list(map(int, samples))
                    taken[int(number)] = view, samples + (
                        old[1] if view == old[0] else [])
        self.assertEqual(sorted(taken), list(range(iterations)))
        epoch = SAMPLES // BATCH
        for first in range(0, iterations - epoch + 1, epoch):
            samples = [s for i in range(first, first + epoch)
                       for s in taken[i][1]]
            self.assertEqual(sorted(samples), list(range(SAMPLES)))


class TestJobs(Elastic):

    def test_a_loop_of_steps_survives(self):
        where = 'file:' + self.path('meet')
        self.open_gates()
        job = self.launch(STEPS, '--ranks=3', '--elastic=1:4',
                          '--rendezvous=' + where)
        ranks = self.until_size(3)
        lost = [ranks[0]]  # who coordinates
        self.kill(ranks[0])
        ranks = self.until_size(3, lost)
        join = self.start(PROGRAM, 'join', where)
        four = self.until_size(4, lost)
        lost.append(four[1])
        self.kill(four[1])
        self.until_size(4, lost)
        join.send_signal(signal.SIGTERM)
        self.ended(join, 4)
        self.until_size(3, lost)
        iterations = self.end_rounds()
        self.ended(job)
        self.check_weights(iterations, 3)

    def test_nets_are_there_though_the_last_view_ended(self):
        """The others part while a view begins: nobody tells that it did."""
        self.solver_file(100)
        self.ended(self.start(*self.script(
            HEAD.replace('caffe.distributed.init(',
                         'caffe.distributed.init(elastic=True, ') + """
solver.step(3)
before = solver.net.params['score'][0].data.copy()
caffe.distributed._job._changed(False)
caffe.distributed.finish()
assert (solver.net.params['score'][0].data == before).all()
assert solver.net.blobs['score'].data.shape[1] > 0
""")))

    def test_a_whole_training_survives(self):
        self.solver_file(60)
        jobs = [self.by_hand(WHOLE, elastic=(3, 4)) for _ in range(3)]
        ranks = self.until_size(3)
        self.until(lambda: all(len(self.noted('took').get(pid, ())) > 20
                               for pid in ranks.values()), 'iteration 20')
        self.kill(ranks[0])
        jobs.append(self.by_hand(WHOLE, elastic=(3, 4)))
        self.write('gate.0', 'more')
        for job in jobs:
            self.ended(job, -signal.SIGKILL if job.pid == ranks[0] else 0)
        self.check_weights(60, 3)

    def test_who_comes_in_the_middle_of_a_step_ends_it_with_the_others(self):
        self.open_gates()
        job = self.launch(LONG, '--ranks=2', '--elastic=1:4',
                          '--secret_file=' + self.path('secret'))
        ranks = self.until_size(2)
        self.until(lambda: len(self.noted('took').get(ranks[0], ())) > 5,
                   'iteration 5')
        self.kill(ranks[1])
        self.until_size(2, [ranks[1]])
        iterations = self.end_rounds()
        self.ended(job)
        marks = self.noted('marks')[ranks[0]]
        self.assertIn(['lost', '1'], marks)
        self.assertIn(['joined', '1'], marks)
        self.check_weights(iterations, 2)

    def test_who_fails_is_left_out_though_its_process_stays(self):
        self.open_gates()
        jobs = [self.by_hand(CAUGHT, elastic=(1, 4)) for _ in range(2)]
        bad = self.until_size(2)[1]
        self.write('fail.%d' % bad, '')
        self.until_size(1, [bad])
        why = self.until(lambda: self.noted('failed').get(bad), 'its failure')
        self.assertEqual(' '.join(why[0]), 'a sample that cannot be read')
        iterations = self.end_rounds()
        for job in jobs:
            if job.pid == bad:
                self.write('gate.-1', '')
            self.ended(job, 1 if job.pid == bad else 0)
        self.check_weights(iterations, 1)

    def test_nets_that_share_weights_follow_them(self):
        self.file("layer { name: 'data' type: 'Input' top: 'x' input_param { "
                  "shape { dim: 2 dim: 6 } } }" + SCORE, 'other.prototxt')
        self.open_gates()
        job = self.launch(SHARED, '--ranks=2', '--elastic=1:4',
                          '--secret_file=' + self.path('secret'))
        ranks = self.until_size(2)
        self.kill(ranks[1])
        self.until_size(2, [ranks[1]])
        self.end_rounds()
        self.ended(job)
        self.assertNotIn('AssertionError', self.log())

    def test_a_forked_process_ends_as_it_is_told(self):
        self.ended(self.by_hand(FORKED, elastic=True))

    def test_the_last_one_that_is_asked_to_leave_writes_a_snapshot(self):
        self.solver_file(100000, 'snapshot: 50000')
        self.open_gates()
        job = self.by_hand(STEPS)
        self.until_size(1)
        job.send_signal(signal.SIGTERM)
        self.ended(job, 4)
        self.end_rounds()
        self.assertTrue([name for name in os.listdir(self.folder)
                         if name.startswith('trained_iter_')
                         and name.endswith('.solverstate')], self.log())

    def test_a_job_that_lost_all_ranks_takes_no_older_snapshot(self):
        self.ended(self.by_hand(HEAD + 'solver.snapshot()\n'
                                'caffe.distributed.finish()\n'))
        for name in os.listdir(self.folder):
            if name.startswith('trained_iter_'):
                os.utime(self.path(name), (1, 1))
        self.open_gates()
        job = self.launch(STEPS, '--ranks=2', '--elastic=2:2',
                          '--secret_file=' + self.path('secret'))
        ranks = self.until_size(2)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in ranks.values():
                self.kill(pid, number)
        for pid in ranks.values():  # what they did, if anything, is nothing
            if os.path.exists(self.path('took.%d' % pid)):
                os.remove(self.path('took.%d' % pid))
        self.until(lambda: 'had written no snapshot: it begins again' in
                   self.log(), 'another beginning')
        iterations = self.end_rounds()
        self.ended(job)
        self.assertNotIn('training goes on from', self.log())
        self.check_weights(iterations, 2)

    def test_who_stood_still_for_a_moment_stays(self):
        self.open_gates()
        job = self.launch(STEPS, '--ranks=2', '--elastic=1:2',
                          '--secret_file=' + self.path('secret'))
        ranks = self.until_size(2)
        for _ in range(4):
            for pid in ranks.values():
                os.kill(pid, signal.SIGSTOP)
            time.sleep(0.5)
            for pid in ranks.values():
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.2)
        self.end_rounds()
        self.ended(job)
        # Not the last view: one of them may be gone before the other is.
        self.assertEqual(set(self.noted('end')), set(ranks.values()))
        self.assertEqual(self.weights()[0], 2)

    def test_who_ends_with_success_has_not_finished_the_job(self):
        self.open_gates()
        job = self.start(PROGRAM, 'launch', '--ranks=2', '--elastic=1:2',
                         '--secret_file=' + self.path('secret'), '--',
                         *self.script(QUITTER), GLOG_minloglevel='0')
        first = self.until_size(2)
        self.until(lambda: 'before the job was done: it has left it' in
                   self.log(), 'the end of one')
        last = self.until_size(1)[0]
        self.assertIn(last, first.values())
        self.kill(last)
        self.until(lambda: set(self.noted('views')) - set(first.values()),
                   'another one')
        self.end_rounds()
        self.ended(job)

    def test_the_script_that_trains_for_others(self):
        self.solver_file(30)
        job = self.start(PROGRAM, 'launch', '--ranks=2', '--elastic=2:2',
                         '--secret_file=' + self.path('secret'), '--',
                         sys.executable, '-B',
                         os.path.join(SOURCE, 'python', 'train.py'),
                         '--solver=solver.prototxt', GLOG_minloglevel='0')
        self.ended(job)
        self.assertIn('2 rank(s) go on', self.log())
        self.assertIn('Optimization Done.', self.log())
        self.check_samples(30)


class TestRefusals(Elastic):

    def refuses(self, code, *texts):
        self.ended(self.by_hand(code), 1)
        for text in texts:
            self.assertIn(text, self.log())

    def test_a_layer_that_says_no_batch(self):
        self.net_file(said='', layer='Old')
        self.refuses(HEAD + 'solver.step(1)\n', 'data_param { batch_size: N }')

    def test_a_layer_that_cannot_find_its_place(self):
        self.net_file(layer='Forgetful')
        self.refuses(HEAD + 'solver.step(1)\n', 'layer data', 'seek(self')

    def test_what_ranks_that_come_and_go_cannot_do(self):
        self.ended(self.by_hand("""import sys
import caffe
d = caffe.distributed
d.init(**eval(sys.argv[1]))

def refused(function, *words):
    try:
        function(*words)
    except caffe.Error as e:
        print(e)
        return
    raise AssertionError(function)

refused(d.rank)
refused(d.barrier)
refused(d.allreduce, [1.0])
solver = caffe.get_solver('solver.prototxt')
refused(caffe.get_solver, 'solver.prototxt')
refused(solver.apply_update)
assert (solver.iter, d.rank(), d.size(), d.n_hosts()) == (0, 0, 1, 1)
refused(solver.restore, 'x.solverstate')
solver.step(1)
d.finish()
refused(solver.step, 1)
"""))

    def test_servers(self):
        self.refuses(HEAD.replace("canonical=True, parts=4", "road='ps', sync='async'") +
                     'solver.step(1)\n', 'train in step')


if __name__ == '__main__':
    unittest.main()
