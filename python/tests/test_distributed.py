"""Several ranks: scripts that mpirun starts, against the same on one."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

import caffe
from common import BUILD, SOURCE, Case



def launcher():
    """The command that starts ranks, up to their number; [] for none.

    The build says which in CORTADO_MPIRUN; without it this is Open MPI's."""
    named = os.environ.get('CORTADO_MPIRUN')
    found = named if named is not None else shutil.which('mpirun')
    if not found:
        return []
    if named is not None and 'mpich' in os.path.basename(named):
        return [found, '-n']
    return [found, '--allow-run-as-root', '--oversubscribe', '--bind-to',
            'none', '-n']


MPIRUN = launcher()
PROGRAM = os.path.join(BUILD, 'cortado')
LAUNCHED = ('OMPI_', 'PMI_', 'PMIX_', 'MPI_LOCALNRANKS')


def clean_environment(**more):
    """That of a process which no launcher has started."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHED)}
    env.update(OMP_NUM_THREADS='1', GLOG_minloglevel='1', **more)
    return env


# 48 samples of a Python layer, dealt out to the ranks; what each rank got is
# written to a file of its own.
LAYER = """import numpy as np
import caffe

random = np.random.RandomState(3)
X = random.randn(48, 6).astype(np.float32)
Y = random.randint(4, size=48)


class Data(caffe.Layer):

    def setup(self, bottom, top):
        self.batch = int(self.param_str)
        self.dealt = self.deal(48, self.batch)

    def reshape(self, bottom, top):
        top[0].reshape(self.batch, 6)
        top[1].reshape(self.batch)

    def forward(self, bottom, top):
        i = next(self.dealt)
        with open('dealt.%d' % self.solver_rank, 'a') as out:
            out.write(' '.join(map(str, i)) + '\\n')
        top[0].data[...] = X[i]
        top[1].data[...] = Y[i]

    def backward(self, top, propagate_down, bottom):
        pass
"""

DATA = """layer { name: 'data' type: 'Python' top: 'x' top: 'y'
  python_param { module: 'layer' layer: 'Data' param_str: '%d' } }
"""
SCORE = """layer { name: 'hidden' type: 'InnerProduct' bottom: 'x' top: 'hidden'
  inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'tanh' type: 'TanH' bottom: 'hidden' top: 'hidden' }
layer { name: 'score' type: 'InnerProduct' bottom: 'hidden' top: 'score'
  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
"""
LOSS = """layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score'
  bottom: 'y' top: 'loss' }
"""

SOLVER = """net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9
random_seed: 7 max_iter: 12 display: 4 snapshot_prefix: 'trained'
snapshot_after_train: false
"""

# A script's end: what the weights are, for the test to compare.
SHOW = """
import numpy
numpy.save('weights.%d' % caffe.distributed.rank(), numpy.concatenate(
    [b.data.ravel() for p in solver.net.params.values() for b in p]))
"""

# say() writes to a file a rank: launchers mix what ranks print.
SAY = """import caffe

def say(text):
    with open('said.%d' % caffe.distributed.rank(), 'w') as out:
        out.write(str(text))

"""


@unittest.skipUnless(MPIRUN, 'no MPI in this build, or no mpirun (packages '
                     'libopenmpi-dev, openmpi-bin)')
class Ranks(Case):

    def setUp(self):
        super().setUp()
        self.file(LAYER, 'layer.py')
        self.file(SOLVER, 'solver.prototxt')

    def start(self, n, code, batch, *args, **more):
        """Start a script on n ranks, or without a launcher for n = 0."""
        self.file(DATA % batch + SCORE + LOSS)
        command = [sys.executable, '-B', self.file(code, 'script.py'), *args]
        if n:
            command = MPIRUN + [str(n)] + command
        return subprocess.Popen(command, cwd=self.folder, text=True,
                                env=clean_environment(**more),
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def run_on(self, n, code, batch, *args, **more):
        started = self.start(n, code, batch, *args, **more)
        out = started.communicate(timeout=120)[0]
        self.assertEqual(started.returncode, 0, out)
        return out

    def said(self, n):
        """What each of n ranks wrote with SAY."""
        words = []
        for rank in range(n):
            with open(self.path('said.%d' % rank)) as text:
                words.append(text.read())
        return words

    def weights(self, rank=0):
        return np.load(self.path('weights.%d.npy' % rank))

    def dealt(self, rank):
        with open(self.path('dealt.%d' % rank)) as text:
            return [list(map(int, line.split())) for line in text]


class TestTraining(Ranks):

    def both(self, code):
        """The weights of two ranks, and of one at twice the batch."""
        self.run_on(2, code, 4)
        two = [self.weights(0), self.weights(1)]
        self.run_on(0, code, 8)
        return two, self.weights()

    def check(self, code):
        two, one = self.both('import caffe\n' + code + SHOW)
        np.testing.assert_array_equal(two[0], two[1])
        np.testing.assert_allclose(two[0], one, rtol=1e-4, atol=1e-6)

    def test_two_ranks_train_as_one_with_twice_the_batch(self):
        self.check("solver = caffe.get_solver('solver.prototxt')\n"
                   "before = solver.net.params['score'][0].data.copy()\n"
                   "solver.solve()\n"
                   "after = solver.net.params['score'][0].data\n"
                   "assert (before != after).any()\n")

    def test_step_by_step(self):
        self.check("caffe.distributed.init(overlap=False)\n"
                   "solver = caffe.SGDSolver('solver.prototxt')\n"
                   "for _ in range(6):\n"
                   "    solver.step(2)\n")

    def test_updates_by_hand(self):
        self.check("solver = caffe.AdamSolver('solver.prototxt')\n"
                   "for _ in range(5):\n"
                   "    solver.net.clear_param_diffs()\n"
                   "    solver.net.forward()\n"
                   "    solver.net.backward()\n"
                   "    solver.apply_update()\n"
                   "solver.step(2)\n")

    def test_callbacks_come_before_gradients_are_sent(self):
        self.check("solver = caffe.SGDSolver('solver.prototxt')\n"
                   "calls = []\n"
                   "def ready():\n"
                   "    calls.append('ready')\n"
                   "    solver.net.params['score'][0].diff[...] *= 3\n"
                   "solver.add_callback(lambda: calls.append('start'), ready)\n"
                   "solver.net.before_forward(lambda i: None)\n"
                   "solver.step(4)\n"
                   "assert calls == ['start', 'ready'] * 4, calls\n")

    def test_one_solver_after_another(self):
        self.check("import gc\n"
                   "for _ in range(3):\n"
                   "    solver = None\n"
                   "    gc.collect()\n"
                   "    solver = caffe.SGDSolver('solver.prototxt')\n"
                   "    solver.step(3)\n"
                   "other = caffe.SGDSolver('solver.prototxt')\n"
                   "for _ in range(2):\n"
                   "    other.step(1)\n"
                   "    solver.step(1)\n")

    def test_gradients_as_factors(self):
        self.run_on(
            2, SAY +
            "caffe.distributed.init(road='factors')\n"
            "solver = caffe.SGDSolver('solver.prototxt')\n"
            "solver.step(4)\n"
            "try:\n"
            "    solver.apply_update()\n"
            "except caffe.Error as error:\n"
            "    say(error)\n" + SHOW, 4)
        for words in self.said(2):
            self.assertIn("road='allreduce'", words)
        two = self.weights()
        self.run_on(0, "import caffe\n"
                    "solver = caffe.SGDSolver('solver.prototxt')\n"
                    "solver.step(4)\n" + SHOW, 8)
        np.testing.assert_allclose(two, self.weights(), rtol=1e-4, atol=1e-6)

    def test_the_solvers_own_words_count_unless_init_says_otherwise(self):
        self.file(SOLVER + "distributed { road: 'factors' }",
                  'solver.prototxt')
        for first, refused in (
                ('', True), ("caffe.distributed.init(road='allreduce')\n",
                             False)):
            self.run_on(2, SAY + first +
                        "solver = caffe.SGDSolver('solver.prototxt')\n"
                        "solver.step(1)\n"
                        "say('')\n"
                        "try:\n"
                        "    solver.apply_update()\n"
                        "except caffe.Error as error:\n"
                        "    say(error)\n", 4)
            for words in self.said(2):
                self.assertEqual("road='allreduce'" in words, refused)

    def test_rank_0_alone_logs_and_writes(self):
        out = self.run_on(
            2, "import caffe, os\n"
            "solver = caffe.get_solver('solver.prototxt')\n"
            "caffe.init_log(0)\n"
            "caffe.log('hello from %d' % caffe.distributed.rank())\n"
            "solver.step(2)\n"
            "solver.snapshot()\n"
            "caffe.distributed.barrier()\n"
            "assert os.path.exists('trained_iter_2.solverstate')\n", 4)
        self.assertEqual(len(re.findall(r'Snapshotting to', out)), 1, out)
        self.assertIn('hello from 0', out)
        self.assertNotIn('hello from 1', out)

    def test_train_py(self):
        with open(os.path.join(SOURCE, 'python', 'train.py')) as text:
            code = text.read()
        self.file(SOLVER.replace('false', 'true'), 'solver.prototxt')
        out = self.run_on(2, code, 4, '--solver', 'solver.prototxt')
        self.assertEqual(out.count('Optimization Done.'), 1, out)
        self.assertIn('Rank 0 of 2 on 1 host(s)', out)
        os.rename(self.path('trained_iter_12.caffemodel'), self.path('two'))
        self.run_on(0, code, 8, '--solver', 'solver.prototxt')
        self.check_same_model('two', 'trained_iter_12.caffemodel')

    def check_same_model(self, *names):
        deploy = "input: 'x' input_shape { dim: 1 dim: 6 }\n" + SCORE
        nets = [self.net(deploy, caffe.TEST, weights=self.path(name))
                for name in names]
        for name in nets[0].params:
            for a, b in zip(nets[0].params[name], nets[1].params[name]):
                np.testing.assert_allclose(a.data, b.data, rtol=1e-4,
                                           atol=1e-6)


class TestDealing(Ranks):

    def test_ranks_get_disjoint_parts_and_a_resumed_run_goes_on(self):
        start = "import caffe\nsolver = caffe.SGDSolver('solver.prototxt')\n"
        self.run_on(2, start + "solver.step(6)\n", 4)
        whole = [self.dealt(0), self.dealt(1)]
        self.assertEqual(sorted(sum(whole[0] + whole[1], [])),
                         list(range(48)))
        for rank in range(2):
            os.remove(self.path('dealt.%d' % rank))
        self.run_on(2, start + "solver.step(2)\nsolver.snapshot()\n", 4)
        self.run_on(2, start + "solver.restore('trained_iter_2.solverstate')\n"
                    "solver.step(4)\n", 4)
        self.assertEqual([self.dealt(0), self.dealt(1)], whole)

    def test_rank_0_tests_with_all_samples(self):
        self.file(LAYER.replace("'dealt.%d' % self.solver_rank",
                                "'dealt.%d' % self.phase"), 'layer.py')
        self.file(SOLVER + 'test_iter: 12 test_interval: 100',
                  'solver.prototxt')
        self.run_on(2, "import caffe\n"
                    "solver = caffe.SGDSolver('solver.prototxt')\n"
                    "solver.step(1)\n"
                    "assert (len(solver.test_nets) == 1) == "
                    "(caffe.distributed.rank() == 0)\n", 4)
        self.assertEqual(sorted(sum(self.dealt(caffe.TEST), [])),
                         list(range(48)))

    @unittest.skipUnless(os.path.exists(PROGRAM), 'no program in this build')
    def test_the_programs_ranks_get_disjoint_parts_too(self):
        self.file(LAYER + "        assert caffe.distributed.size() == 2\n"
                  "        assert caffe.distributed.rank() == "
                  "self.solver_rank\n", 'layer.py')
        self.file(SOLVER.replace('12', '6'), 'solver.prototxt')
        self.file(DATA % 4 + SCORE + LOSS)
        done = subprocess.run(
            MPIRUN + ['2', PROGRAM, 'train', '--solver=solver.prototxt'],
            cwd=self.folder, env=clean_environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if 'plug-in library' in done.stdout:
            self.skipTest('no plug-in in this build (package python3-dev)')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(sum(self.dealt(0) + self.dealt(1), [])),
                         list(range(48)))

    def test_a_process_that_stays_alone(self):
        code = ("import caffe\n"
                "solver = caffe.SGDSolver('solver.prototxt')\n"
                "solver.step(1)\n"
                "assert caffe.distributed.size() == 1\n")
        self.run_on(2, code, 4, CORTADO_DISTRIBUTED='0')
        self.run_on(2, code.replace(
            '\n', '\ncaffe.distributed.init(join=False)\n', 1), 4)


class TestArrays(Ranks):

    def test_sums_broadcasts_and_barriers(self):
        self.run_on(3, """import os
import time
import caffe
import numpy as np
from caffe import distributed as ranks

assert not ranks.is_initialised()
ranks.init()
assert ranks.is_initialised()
me, n = ranks.rank(), ranks.size()
assert n == 3 and caffe.solver_rank() == me and caffe.solver_count() == 3
x = np.arange(6, dtype=np.float32).reshape(2, 3) + me
total = ranks.allreduce(x)
assert total.dtype == np.float32 and x[0, 0] == me
assert (total == 3 * np.arange(6).reshape(2, 3) + 3).all(), total
assert ranks.allreduce(x.T, 'mean').tolist() == (x.T - me + 1).tolist()
big = ranks.allreduce(np.array([1 << 60, me]))
assert big.tolist() == [3 << 60, 3], big
assert ranks.allreduce(0.1) == 0.1 + 0.1 + 0.1
for root in range(3):
    y = ranks.broadcast(np.full((2, 2), me + 0.25), root)
    assert (y == root + 0.25).all(), y
    z = ranks.broadcast(np.uint8([me, 255 - me, 7]), root)
    assert z.tolist() == [root, 255 - root, 7], z
try:
    ranks.allreduce(np.zeros(me + 1))
except caffe.Error as error:
    assert 'array' in str(error)
else:
    assert False
if me == 2:
    time.sleep(0.5)
    open('came', 'w').close()
ranks.barrier()
assert os.path.exists('came')
""", 4)

    def test_alone(self):
        self.run_on(0, """import caffe
import numpy as np
from caffe import distributed as ranks

assert (ranks.rank(), ranks.size(), ranks.n_hosts()) == (0, 1, 1)
assert ranks.allreduce([1, 2]).tolist() == [1, 2]
assert ranks.allreduce(np.float32([1, 2]), 'mean').tolist() == [1, 2]
assert ranks.broadcast(5).tolist() == 5
ranks.barrier()
for call in (lambda: ranks.broadcast(1, 1), lambda: ranks.allreduce(1, 'max')):
    try:
        call()
    except ValueError:
        pass
    else:
        assert False
""", 4)


class TestTrouble(Ranks):

    def test_an_exception_ends_all_ranks_at_once(self):
        started = self.start(
            2, "import caffe\n"
            "solver = caffe.SGDSolver('solver.prototxt')\n"
            "if caffe.distributed.rank() == 1:\n"
            "    raise ValueError('rank 1 has had enough')\n"
            "solver.step(1)\n", 4)
        begun = time.time()
        out = started.communicate(timeout=120)[0]
        self.assertNotEqual(started.returncode, 0)
        self.assertIn('rank 1 has had enough', out)
        self.assertLess(time.time() - begun, 30)

    def test_ranks_that_are_done_wait_for_one_that_works_on(self):
        self.run_on(
            2, SAY + "import time\n"
            "caffe.distributed.init(stall=5)\n"
            "caffe.distributed.barrier()\n"
            "if caffe.distributed.rank() == 1:\n"
            "    time.sleep(22)\n"
            "    say('worked on')\n"
            "else:\n"
            "    say('done')\n", 4)
        self.assertEqual(self.said(2), ['done', 'worked on'])

    def test_solvers_that_do_not_fit_are_refused_on_every_rank(self):
        self.run_on(
            2, SAY +
            "ranks = caffe.distributed\n"
            "text = open('solver.prototxt').read()\n"
            "name = 'solver.%d' % ranks.rank()\n"
            "with open(name, 'w') as file:\n"
            "    file.write(text.replace('12', str(12 + ranks.rank())))\n"
            "try:\n"
            "    caffe.SGDSolver(name)\n"
            "except caffe.Error as error:\n"
            "    say(error)\n", 4)
        for words in self.said(2):
            self.assertIn('rank 1 has another solver prototxt', words)

    def test_an_interrupt_of_one_rank_stops_all(self):
        started = self.start(
            2, SAY + "import os, threading, time\n"
            "solver = caffe.SGDSolver('solver.prototxt')\n"
            "solver.step(1)\n"
            "rank = caffe.distributed.rank()\n"
            "def tell():\n"
            "    while solver.iter < 3:\n"
            "        time.sleep(0.01)\n"
            "    with open('pid.%d' % rank, 'w') as file:\n"
            "        file.write('%d\\n' % os.getpid())\n"
            "threading.Thread(target=tell).start()\n"
            "try:\n"
            "    solver.step(10 ** 8)\n"
            "except KeyboardInterrupt:\n"
            "    say(solver.iter)\n"
            "solver.step(1)\n", 4)
        try:
            os.kill(self.pid('pid.1'), signal.SIGINT)
            out = started.communicate(timeout=60)[0]
        finally:
            started.kill()
        self.assertEqual(started.returncode, 0, out)
        one, other = self.said(2)
        self.assertEqual(one, other)
        self.assertGreater(int(one), 1)

    def pid(self, name):
        for _ in range(600):
            if os.path.exists(self.path(name)):
                with open(self.path(name)) as text:
                    line = text.read()
                if line.endswith('\n'):
                    return int(line)
            time.sleep(0.1)
        self.fail('%s does not come' % name)


def has_mpi4py():
    return MPIRUN and subprocess.run(
        [sys.executable, '-c', 'from mpi4py import MPI'],
        env=clean_environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL).returncode == 0


class TestBesideMpi4py(Ranks):

    CODE = """%s
solver = caffe.SGDSolver('solver.prototxt')
world = MPI.COMM_WORLD
assert world.rank == caffe.distributed.rank()
assert world.size == caffe.distributed.size()
for i in range(6):
    solver.step(2)
    assert world.allreduce(i) == world.size * i
"""

    def test_whoever_comes_first(self):
        if not has_mpi4py():
            self.skipTest('mpi4py is not installed (package python3-mpi4py)')
        first = 'from mpi4py import MPI\nimport caffe'
        last = ('import caffe\ncaffe.distributed.init()\n'
                'from mpi4py import MPI')
        self.run_on(2, self.CODE % first + SHOW, 4)
        weights = self.weights()
        self.run_on(2, self.CODE % last + SHOW, 4)
        np.testing.assert_array_equal(self.weights(), weights)
        self.run_on(0, self.CODE % first + SHOW, 8)
        np.testing.assert_allclose(self.weights(), weights, rtol=1e-4,
                                   atol=1e-6)
