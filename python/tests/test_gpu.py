"""Blobs on a GPU: what numpy sees follows the GPU, and the other way round."""

import ctypes
import unittest
from unittest import mock

import numpy as np

import caffe
from caffe import _device
from caffe._library import lib
from common import LINEAR, SMALL, Case

ON_GPU = lib.ct_device_cuda_count() > 0


class FakeGpu:
    """Memory that can be reached by copies only."""

    def __init__(self):
        self.memory = {}
        self.n_pulls = self.n_pushes = 0

    def _at(self, address, n):
        return np.ctypeslib.as_array(
            (ctypes.c_float * n).from_address(address))

    def pull(self, pointer, _diff, address):
        values = self.memory[pointer]
        self._at(address, values.size)[:] = values
        self.n_pulls += 1
        return 0

    def push(self, pointer, _diff, address):
        values = self.memory[pointer]
        values[:] = self._at(address, values.size)
        self.n_pushes += 1
        return 0


class TestMirrors(unittest.TestCase):

    def setUp(self):
        self.gpu = FakeGpu()
        self.mirrors = {}
        for name, value in (('_pull', self.gpu.pull), ('_push', self.gpu.push),
                            ('_version', lambda pointer: 1)):
            patch = mock.patch.object(_device, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(_device.forget, self.mirrors)

    def data(self, pointer):
        n = self.gpu.memory[pointer].size
        return _device.view(pointer, False, (n,), self.mirrors)

    def test_values_are_fetched_once_a_run(self):
        self.gpu.memory[1] = np.float32([1, 2])
        self.assertEqual(list(self.data(1)), [1, 2])
        self.assertEqual(list(self.data(1)), [1, 2])
        self.assertEqual(self.gpu.n_pulls, 1)
        self.gpu.memory[1][:] = [3, 4]
        _device.ran()
        self.assertEqual(list(self.data(1)), [3, 4])
        self.assertEqual(self.gpu.n_pushes, 0)

    def test_what_is_written_is_sent_and_nothing_else(self):
        self.gpu.memory[1] = np.float32([1, 2])
        self.gpu.memory[2] = np.float32([5, 6])
        kept = self.data(2)
        self.data(1)[1] = 7  # by an array that nobody keeps
        _device.push()
        self.assertEqual(list(self.gpu.memory[1]), [1, 7])
        self.assertEqual(self.gpu.n_pushes, 1)
        _device.ran()
        kept[0] = 9          # after a run, by an array of before
        _device.push()
        self.assertEqual(list(self.gpu.memory[2]), [9, 6])
        _device.push()
        self.assertEqual(self.gpu.n_pushes, 2)

    def test_arrays_that_nobody_has_are_not_looked_at_again(self):
        self.gpu.memory[1] = np.float32([1, 2])
        array = self.data(1)
        part = array[1:]
        _device.push()
        self.assertEqual(len(_device._shown), 1)
        del array
        part[0] = 4
        _device.push()
        self.assertEqual(list(self.gpu.memory[1]), [1, 4])
        del part
        _device.push()
        self.assertEqual(len(_device._shown), 0)

    def test_blobs_that_share_memory_see_each_others_values(self):
        self.gpu.memory[1] = self.gpu.memory[2] = np.float32([1, 2])
        self.data(2)
        self.data(1)[0] = 8
        self.assertEqual(list(self.data(2)), [8, 2])


@unittest.skipUnless(ON_GPU, 'there is no GPU')
class TestGpu(Case):

    def setUp(self):
        super().setUp()
        caffe.set_random_seed(3)
        caffe.set_device(0)
        caffe.set_mode_gpu()
        self.addCleanup(caffe.set_mode_cpu)
        self.addCleanup(caffe.set_precision, None)

    def both(self, text, make):
        """The same on the GPU and on the CPU."""
        made = []
        for mode in (caffe.set_mode_gpu, caffe.set_mode_cpu):
            caffe.set_random_seed(3)
            mode()
            made.append(make(text))
        return made

    def test_there_is_no_gpu_with_a_number_too_high(self):
        self.assertRaises(caffe.Error, caffe.set_device, 1000)

    def test_inputs_reach_the_gpu_and_outputs_come_back(self):
        net = self.net(LINEAR)
        net.params['ip'][0].data[...] = [[1, 2, 3], [0, 1, 0]]
        net.params['ip'][1].data[...] = [10, 20]
        net.blobs['x'].data[...] = [[1, 1, 1], [2, 0, 1]]
        self.assertEqual(net.forward()['y'].tolist(), [[16, 21], [15, 20]])
        net.blobs['x'].data[0] = 0
        self.assertEqual(net.forward()['y'].tolist(), [[10, 20], [15, 20]])
        net.blobs['y'].diff[...] = [[1, 0], [0, 1]]
        net.backward()
        self.assertEqual(net.blobs['x'].diff.tolist(), [[1, 2, 3], [0, 1, 0]])
        self.assertEqual(net.params['ip'][1].diff.tolist(), [1, 1])

    def test_an_array_that_is_kept_and_filled_again_counts(self):
        net = self.net(LINEAR)
        x = net.blobs['x'].data
        x[...] = 1
        first = net.forward()['y'].copy()
        x[...] = 2
        bias = net.params['ip'][1].data
        np.testing.assert_allclose(net.forward()['y'] - bias,
                                   2 * (first - bias), rtol=1e-5)

    def test_a_reshaped_input_is_another_array(self):
        net = self.net(LINEAR)
        net.blobs['x'].reshape(5, 3)
        net.reshape()
        net.blobs['x'].data[...] = np.arange(15).reshape(5, 3)
        self.assertEqual(net.forward()['y'].shape, (5, 2))

    def test_every_blob_is_the_cpus(self):
        gpu, cpu = self.both(SMALL % 5, lambda text: self.net(text))
        for net in (gpu, cpu):
            net.forward()
            net.backward()
        for name in cpu.blobs:
            np.testing.assert_allclose(gpu.blobs[name].data,
                                       cpu.blobs[name].data, atol=1e-5)
        for name in cpu.params:
            for a, b in zip(gpu.params[name], cpu.params[name]):
                np.testing.assert_allclose(a.diff, b.diff, atol=1e-5)

    def solver(self, _text):
        self.file(SMALL % 5)
        return caffe.SGDSolver(self.file(
            "net: '%s' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 "
            "snapshot_prefix: '%s'" % (self.path('net.prototxt'),
                                       self.path('s')), 'solver.prototxt'))

    def test_training_is_the_cpus(self):
        gpu, cpu = self.both('', self.solver)
        for solver in (gpu, cpu):
            solver.step(3)
            solver.net.params['score'][1].data[...] += 0.25
            solver.step(3)
        for name in cpu.net.params:
            for a, b in zip(gpu.net.params[name], cpu.net.params[name]):
                np.testing.assert_allclose(a.data, b.data, atol=1e-4)

    def test_a_loop_by_hand_is_a_step(self):
        first, second = (self.solver(''), self.solver(''))
        for name in first.net.params:
            for a, b in zip(first.net.params[name], second.net.params[name]):
                b.data[...] = a.data
        first.step(1)
        second.net.clear_param_diffs()
        second.net.blobs['image'].data[...] = first.net.blobs['image'].data
        second.net.forward(start='conv')
        second.net.backward()
        second.apply_update()
        for name in first.net.params:
            for a, b in zip(first.net.params[name], second.net.params[name]):
                np.testing.assert_allclose(a.data, b.data, atol=1e-5)

    def test_callbacks_see_and_change_values(self):
        net = self.net(SMALL % 5)
        seen = []

        def look(layer):
            if layer == 1:
                seen.append(float(np.abs(net.blobs['image'].data).sum()))
                net.blobs['image'].data[...] = 0

        net.before_forward(look)
        net.forward()
        self.assertGreater(seen[0], 0)
        conv = net.blobs['conv'].data
        np.testing.assert_allclose(conv, np.full_like(conv, 0.5), atol=1e-6)

    def test_saved_weights_have_what_was_written(self):
        net = self.net(LINEAR)
        net.params['ip'][0].data[...] = 3
        net.save(self.path('w.caffemodel'))
        caffe.set_mode_cpu()
        other = self.net(LINEAR, weights=self.path('w.caffemodel'))
        self.assertEqual(other.params['ip'][0].data.tolist(), [[3] * 3] * 2)

    def test_other_precisions(self):
        for word, tolerance in (('tf32', 1e-2), ('bf16', 5e-2),
                                ('fp16', 1e-2)):
            caffe.set_precision(word)
            gpu, cpu = self.both(SMALL % 5, lambda text: self.net(text))
            gpu.forward()
            cpu.forward()
            np.testing.assert_allclose(gpu.blobs['score'].data,
                                       cpu.blobs['score'].data,
                                       atol=tolerance, rtol=tolerance)
        self.assertRaises(caffe.Error, caffe.set_precision, 'fp8')


if __name__ == '__main__':
    unittest.main()
