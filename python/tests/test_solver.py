"""Solvers: training from Python."""

import os
import re
import signal
import threading
import time

import numpy as np

import caffe
from common import SMALL, Case

N_OUTPUT = 7

SOLVER = """net: '%s' max_iter: %d snapshot_prefix: '%s'
base_lr: 0.02 lr_policy: 'inv' gamma: 0.001 power: 0.5 momentum: 0.8
weight_decay: 0.001 test_iter: 2 test_interval: 40 display: 50
snapshot_after_train: false
"""


class SolverCase(Case):

    def setUp(self):
        super().setUp()
        self.file(SMALL % N_OUTPUT)

    def solver_file(self, max_iter=100, **fields):
        text = SOLVER % (self.path('net.prototxt'), max_iter,
                         self.path('model'))
        for name, value in fields.items():
            text = re.sub(r'\b%s: \S+' % name, '', text)
            text += '%s: %s\n' % (name, value)
        return self.file(text, 'solver.prototxt')

    def solver(self, *args, **kwargs):
        return caffe.SGDSolver(self.solver_file(*args, **kwargs))


class TestSolver(SolverCase):

    def test_solve_runs_to_max_iter(self):
        solver = self.solver()
        self.assertEqual(solver.iter, 0)
        solver.solve()
        self.assertEqual(solver.iter, 100)
        self.assertTrue(np.isfinite(solver.loss))

    def test_steps_change_the_weights(self):
        solver = self.solver()
        before = solver.net.params['score'][0].data.copy()
        solver.step(3)
        self.assertEqual(solver.iter, 3)
        self.assertTrue((solver.net.params['score'][0].data != before).any())

    def test_learning_rate(self):
        solver = self.solver()
        self.assertAlmostEqual(solver.lr, 0.02, places=7)
        solver.step(2)
        self.assertAlmostEqual(solver.lr, 0.02 * (1 + 2e-3) ** -0.5,
                               places=7)
        solver.param.base_lr = 1
        self.assertAlmostEqual(solver.param.base_lr, 1)
        self.assertAlmostEqual(solver.lr, (1 + 2e-3) ** -0.5, places=5)

    def test_apply_update_subtracts_rate_times_gradient(self):
        solver = self.solver()
        w = solver.net.layers[1].blobs[0]
        w.data[...] = 0
        w.diff[...] = 1
        solver.apply_update()
        np.testing.assert_allclose(w.data, -0.02, rtol=1e-5)
        self.assertEqual(solver.iter, 1)

    def test_parameters(self):
        param = self.solver().param
        self.assertEqual(param.max_iter, 100)
        self.assertEqual(param.display, 50)
        self.assertTrue(param.layer_wise_reduce)

    def test_nets_outlive_their_solver(self):
        solver = self.solver()
        nets = [solver.net] + list(solver.test_nets)
        self.assertEqual(len(nets), 2)
        self.assertIsInstance(nets[0], caffe.Net)
        del solver
        total = 0
        for net in nets:
            for blobs in net.params.values():
                total += sum(b.data.sum() + b.diff.sum() for b in blobs)
            total += sum(b.data.sum() + b.diff.sum()
                         for b in net.blobs.values())
        self.assertTrue(np.isfinite(total))

    def test_a_snapshot_restores(self):
        solver = self.solver()
        solver.step(4)
        solver.snapshot()
        for ending in ('caffemodel', 'solverstate'):
            self.assertTrue(os.path.isfile(self.path('model_iter_4.' +
                                                     ending)))
        want = solver.net.params['score'][0].data.copy()
        other = self.solver()
        other.restore(self.path('model_iter_4.solverstate'))
        self.assertEqual(other.iter, 4)
        np.testing.assert_array_equal(other.net.params['score'][0].data, want)
        other = self.solver(max_iter=6)
        other.solve(self.path('model_iter_4.solverstate'))
        self.assertEqual(other.iter, 6)

    def test_weights_are_shared_with_another_net(self):
        solver = self.solver()
        net = caffe.Net(self.path('net.prototxt'), caffe.TEST)
        solver.share_weights(net)
        solver.net.params['score'][1].data[0] = 77
        self.assertEqual(net.params['score'][1].data[0], 77)

    def test_every_kind_of_solver(self):
        file = self.solver_file()
        with open(file) as text:
            plain = text.read().replace('momentum: 0.8', '')
        for kind in ('SGD', 'Nesterov', 'AdaGrad', 'RMSProp', 'AdaDelta',
                     'Adam'):
            path = self.file(plain, 'plain.prototxt')
            solver = getattr(caffe, kind + 'Solver')(path)
            self.assertEqual(solver.type, kind)
            path = self.file(plain + "type: '%s'" % kind, 'typed.prototxt')
            typed = caffe.get_solver(path)
            self.assertEqual(type(typed), type(solver))
            solver.step(1)
            self.assertIn(kind, repr(solver))

    def test_a_bad_solver_is_an_error(self):
        path = self.file('base_lr: 0.1 lr_policy: "fixed"', 'bad.prototxt')
        self.assertRaisesRegex(caffe.Error, 'net', caffe.SGDSolver, path)

    def test_seed_repeats_a_run(self):
        def train():
            caffe.set_random_seed(3)
            solver = self.solver()
            solver.step(5)
            return solver.net.params['score'][0].data
        np.testing.assert_array_equal(train(), train())


class TestCallbacks(SolverCase):

    def test_once_an_iteration_whatever_iter_size(self):
        solver = self.solver(5, iter_size=3, display=1)
        seen = []
        solver.add_callback(lambda: seen.append(('start', solver.iter)),
                            lambda: seen.append(('ready', solver.iter)))
        solver.solve()
        self.assertEqual(seen, [(what, i) for i in range(5)
                                for what in ('start', 'ready')])

    def test_gradients_may_be_changed_before_the_update(self):
        solver = self.solver(weight_decay=0)
        w = solver.net.params['score'][0]
        before = w.data.copy()

        def none():
            w.diff[...] = 0
        solver.add_callback(lambda: None, none)
        solver.step(2)
        np.testing.assert_array_equal(w.data, before)

    def test_what_a_callback_raises_stops_training(self):
        solver = self.solver()

        def no():
            raise LookupError('enough')
        solver.add_callback(lambda: None, no)
        self.assertRaisesRegex(LookupError, 'enough', solver.step, 5)
        self.assertEqual(solver.iter, 0)


class TestListen(SolverCase):

    def test_events_come_with_the_solvers_numbers(self):
        solver = self.solver(5, display=2)
        seen = []
        solver.listen(iteration=lambda e: seen.append(
            (e.iter, e.loss, e.rate, solver.loss, e.displayed)),
            stop=lambda e: seen.append(e))
        solver.solve()
        self.assertEqual([s[0] for s in seen[:-1]], list(range(5)))
        for i, loss, rate, now, displayed in seen[:-1]:
            self.assertAlmostEqual(loss, now, places=5)
            self.assertEqual(displayed, i % 2 == 0)
            self.assertGreater(rate, 0)
        self.assertEqual(tuple(seen[-1]), (5, 0))

    def test_tests_and_snapshots_come(self):
        solver = self.solver(4, test_iter=1, test_interval=2,
                             snapshot_after_train='true')
        tests, written = [], []
        solver.listen(test=tests.append, snapshot=written.append)
        solver.solve()
        self.assertEqual([t.iter for t in tests], [0, 2, 4])
        for name, value in tests[0].outputs:
            self.assertIsInstance(name, str)
            self.assertIsInstance(value, float)
        self.assertEqual(written[-1].iter, 4)
        self.assertTrue(os.path.exists(written[-1].state))

    def test_inspect_sees_gradients_after_the_update(self):
        solver = self.solver(6)
        seen, asked = [], []

        def look(e):
            seen.append((e.iter, [(b.data.copy(), b.diff.copy())
                                  for p in solver.net.params.values()
                                  for b in p]))

        def wants(i):
            asked.append(i)
            return i in (1, 4)
        solver.listen(inspect=look, wants_inspect=wants)
        solver.step(2)
        now = [b.data for p in solver.net.params.values() for b in p]
        self.assertEqual(len(now), len(seen[0][1]))
        for (data, diff), after in zip(seen[0][1], now):
            self.assertTrue((data == after).all())
        self.assertTrue(any(diff.any() for _, diff in seen[0][1]))
        solver.step(4)
        self.assertEqual(asked, list(range(6)))
        self.assertEqual([i for i, _ in seen], [1, 4])

    def test_inspect_comes_after_every_iteration_by_default(self):
        solver = self.solver(3)
        seen = []
        solver.listen(inspect=seen.append)
        solver.solve()
        self.assertEqual([e.iter for e in seen], [0, 1, 2])

    def test_what_a_listener_raises_stops_training(self):
        solver = self.solver(100)

        def no(e):
            if e.iter == 3:
                raise LookupError('enough')
        solver.listen(iteration=no)
        self.assertRaisesRegex(LookupError, 'enough', solver.step, 50)
        self.assertLessEqual(solver.iter, 5)
        solver.step(2)

    def test_only_known_events(self):
        solver = self.solver()
        self.assertRaisesRegex(TypeError, 'iteration, test', solver.listen,
                               iterations=print)
        self.assertRaises(TypeError, solver.listen, test=3)


class TestInterrupt(SolverCase):

    def test_ctrl_c_stops_training_and_training_can_go_on(self):
        # A shell starts what it puts in the background without Ctrl-C.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        solver = self.solver(10 ** 6)
        main = threading.main_thread().ident

        def interrupt():
            while solver.iter == 0:
                time.sleep(0.1)
            signal.pthread_kill(main, signal.SIGINT)
        timer = threading.Thread(target=interrupt)
        timer.start()
        start = time.time()
        with self.assertRaises(KeyboardInterrupt):
            solver.step(10 ** 6)
        timer.join()
        self.assertLess(time.time() - start, 60)
        reached = solver.iter
        self.assertGreater(reached, 0)
        self.assertIs(signal.getsignal(signal.SIGINT),
                      signal.default_int_handler)
        solver.step(2)
        self.assertEqual(solver.iter, reached + 2)

    def test_a_thread_trains_without_signals(self):
        solver = self.solver()
        thread = threading.Thread(target=solver.step, args=(3,))
        thread.start()
        thread.join()
        self.assertEqual(solver.iter, 3)
