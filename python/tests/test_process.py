"""What belongs to one process: objects are not copied, and a fork is told."""

import copy
import multiprocessing
import os
import pickle
import select
import signal
import time
import unittest

import numpy as np

import caffe
from common import LINEAR, SMALL, Case

SOLVER = """net: '%s' base_lr: 0.1 lr_policy: 'fixed' random_seed: 1
snapshot_after_train: false snapshot_prefix: '%s'"""


class TestCopies(Case):
    """A second owner of the same memory would end the process."""

    def objects(self):
        net = self.net(SMALL % 3)
        self.file(SOLVER % (self.path('net.prototxt'), self.path('s')),
                  'solver.prototxt')
        solver = caffe.SGDSolver(self.path('solver.prototxt'))
        return {'net': net, 'blob': net.blobs['conv'], 'blobs': net.blobs,
                'params': net.params, 'parameters': net.params['conv'],
                'layer': net.layers[1], 'solver': solver,
                'net of a solver': solver.net, 'handle': net._handle,
                'parameter': solver.net.params['score'][0]}

    def test_copy_and_pickle_are_refused_with_what_to_do(self):
        for name, thing in self.objects().items():
            for how in (copy.deepcopy, pickle.dumps,
                        lambda x: pickle.dumps(x, 0)):
                with self.subTest(name), self.assertRaisesRegex(
                        TypeError, 'cannot be copied or pickled'):
                    how(thing)
        for name in ('net', 'blob', 'solver', 'layer'):
            self.assertRaises(TypeError, copy.copy, self.objects()[name])
        self.assertRaisesRegex(TypeError, 'blob.data.copy', pickle.dumps,
                               self.objects()['blob'])

    def test_everything_works_after_a_refusal_and_memory_goes(self):
        before = caffe._library.lib.ct_n_live_allocations()
        for thing in self.objects().values():
            for how in (copy.deepcopy, pickle.dumps):
                try:
                    how(thing)
                except TypeError:
                    pass
        net = self.net(SMALL % 3)
        net.forward()
        net.backward()
        del net, thing
        self.assertEqual(caffe._library.lib.ct_n_live_allocations(), before)

    def test_arrays_are_copied_as_arrays(self):
        net = self.net(LINEAR)
        net.blobs['x'].data[:] = 1
        for copied in (copy.deepcopy(net.blobs['x'].data),
                       pickle.loads(pickle.dumps(net.blobs['x'].data)),
                       copy.deepcopy({'x': net.blobs['x'].data})['x']):
            net.blobs['x'].data[:] += 1
            self.assertTrue((copied < net.blobs['x'].data).all())
            self.assertEqual(type(copied), np.ndarray)

    def test_a_queue_takes_arrays_and_survives_blobs(self):
        net = self.net(LINEAR)
        queue = multiprocessing.get_context('spawn').Queue()
        queue.put(net.blobs['x'])  # said by the queue's thread, on stderr
        queue.put(net.blobs['x'].data)
        self.assertEqual(queue.get(timeout=60).shape, (2, 3))
        queue.close()
        queue.join_thread()


def in_child(work, seconds=60):
    """What work() returns or raises in a forked process, as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = repr(work())
        except BaseException as exception:
            said = '%s: %s' % (type(exception).__name__, exception)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], seconds)
    said = os.read(reader, 10000).decode() if ready else 'it hangs'
    os.close(reader)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return said if ready and said else 'it ended with %d' % status


class TestFork(Case):

    def setUp(self):
        super().setUp()
        caffe.set_threads(2)
        self.addCleanup(caffe.set_threads, 0)

    def run_net(self):
        net = self.net(SMALL % 3)
        net.forward()
        net.backward()
        return net

    def test_a_net_of_the_parent_raises_at_once(self):
        net = self.run_net()
        for use in (net.forward, net.backward, net.reshape,
                    lambda: net.save(self.path('x')),
                    lambda: net.copy_from('x')):
            start = time.monotonic()
            said = in_child(use)
            self.assertLess(time.monotonic() - start, 30)
            self.assertRegex(said, 'Error: this net was made before fork')
        net.forward()
        self.assertIn('of another process', in_child(lambda: repr(net)))

    def test_so_does_a_solver(self):
        self.file(SMALL % 3)
        self.file(SOLVER % (self.path('net.prototxt'), self.path('s')),
                  'solver.prototxt')
        solver = caffe.SGDSolver(self.path('solver.prototxt'))
        solver.step(2)
        for use in (lambda: solver.step(1), solver.solve, solver.snapshot,
                    lambda: solver.iter):
            self.assertRegex(in_child(use), 'this solver was made before fork')
        self.assertRegex(in_child(solver.net.forward), 'made before fork')
        solver.step(1)
        self.assertEqual(solver.iter, 3)

    def test_values_of_the_parent_can_be_read(self):
        net = self.run_net()
        want = net.blobs['score'].data.sum()
        said = in_child(lambda: float(net.blobs['score'].data.sum()))
        self.assertEqual(float(said), float(want))

    def test_dropping_what_the_parent_made_does_nothing(self):
        kept = [self.run_net()]

        def drop():
            kept.clear()
            return 'dropped'
        self.assertEqual(in_child(drop), "'dropped'")
        kept[0].forward()

    def test_a_child_makes_nets_and_solvers_of_its_own(self):
        self.run_net()
        caffe.set_random_seed(1)
        want = self.train()

        def again():
            caffe.set_random_seed(1)
            return self.train()
        self.assertAlmostEqual(float(in_child(again)), want, places=5)

    def train(self):
        self.file(SMALL % 3)
        self.file(SOLVER % (self.path('net.prototxt'), self.path('s')),
                  'solver.prototxt')
        solver = caffe.SGDSolver(self.path('solver.prototxt'))
        solver.step(3)
        return float(solver.loss)

    def test_a_child_has_one_thread_and_is_told(self):
        self.run_net()
        self.assertEqual(in_child(caffe._library.lib.ct_device_cpu_threads),
                         '1')
        self.assertRegex(in_child(lambda: caffe.set_threads(2)),
                         'forked after the engine had run')
        self.assertEqual(in_child(lambda: caffe.set_threads(1)), 'None')

    def test_processes_of_multiprocessing_work(self):
        self.run_net()
        context = multiprocessing.get_context('fork')
        with context.Pool(2) as pool:
            got = pool.map(_sum_of_ones, [self.file(LINEAR)] * 4, 1)
        self.assertEqual(got, [(2, 2)] * 4)


def _sum_of_ones(path):
    net = caffe.Net(path, caffe.TEST)
    return net.forward(x=np.ones((2, 3), np.float32))['y'].shape


if __name__ == '__main__':
    unittest.main()
