"""Arrays look at the engine's memory, and everything goes when it should."""

import gc
import threading

import numpy as np

import caffe
from caffe._library import lib
from common import LINEAR, SMALL, Case

PAIR = """name: 'pair' force_backward: true
input: 'x' input_shape { dim: 2 dim: 3 }
layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'a' }
layer { name: 'b' type: 'ReLU' bottom: 'x' top: 'b' }
"""


class TestZeroCopy(Case):

    def test_arrays_are_where_the_engine_has_its_values(self):
        net = self.net(LINEAR)
        for blob in (net.blobs['x'], net.blobs['y'], net.params['ip'][0]):
            self.assertEqual(blob.data.ctypes.data,
                             lib.ct_blob_address(blob._pointer, False))
            self.assertEqual(blob.diff.ctypes.data,
                             lib.ct_blob_address(blob._pointer, True))
            self.assertEqual(blob.data.dtype, np.float32)
            self.assertTrue(blob.data.flags.writeable)
        before = net.blobs['x'].data.ctypes.data
        net.forward(x=np.ones((2, 3)))
        self.assertEqual(net.blobs['x'].data.ctypes.data, before)

    def test_an_array_that_is_bent_leaves_the_next_one_alone(self):
        blob = self.net(LINEAR).blobs['x']
        blob.data.shape = (6,)
        self.assertEqual(blob.data.shape, (2, 3))

    def test_shape_words(self):
        blob = self.net(LINEAR).blobs['x']
        self.assertEqual((blob.num, blob.channels, blob.height, blob.width,
                          blob.count), (2, 3, 1, 1, 6))
        blob.reshape(1, 2, 3, 4, 5)
        self.assertEqual(blob.shape, (1, 2, 3, 4, 5))
        self.assertRaises(caffe.Error, lambda: blob.num)
        self.assertRaises(caffe.Error, blob.reshape, -1, 3)

    def test_blobs_behind_a_split_have_gradients(self):
        net = self.net(PAIR)
        net.forward(x=np.ones((2, 3)))
        for blob in net.blobs.values():
            self.assertEqual(blob.diff.shape, (2, 3))
        net.blobs['a'].diff[...] = 1
        net.blobs['b'].diff[...] = 2
        self.assertEqual(net.backward()['x'].tolist(), [[3] * 3] * 2)


class TestLifetime(Case):

    def test_blobs_outlive_their_net(self):
        net = self.net(SMALL % 3)
        params = [b for blobs in net.params.values() for b in blobs]
        blobs = list(net.blobs.values())
        layers = list(net.layers)
        del net
        gc.collect()
        total = sum(b.data.sum() + b.diff.sum() for b in params + blobs)
        self.assertTrue(np.isfinite(total))
        self.assertEqual(layers[1].type, 'Convolution')

    def test_arrays_outlive_everything(self):
        net = self.net(LINEAR)
        net.params['ip'][1].data[...] = 0
        net.params['ip'][0].data[...] = 1
        y = net.forward(x=np.ones((2, 3)))['y']
        w = net.params['ip'][0].data
        del net
        gc.collect()
        others = [self.net(LINEAR) for _ in range(20)]
        self.assertEqual(y.tolist(), [[3, 3], [3, 3]])
        self.assertEqual(w.tolist(), [[1] * 3] * 2)
        del others

    def test_arrays_survive_a_reshape_of_their_blob(self):
        net = self.net(LINEAR)
        net.blobs['y'].data[...] = 5
        old = net.blobs['y'].data
        for size in (100, 1000, 7):
            net.blobs['x'].reshape(size, 3)
            net.reshape()
            net.forward()
        self.assertEqual(old.tolist(), [[5, 5], [5, 5]])

    def check_no_growth(self, make, times):
        for _ in range(5):
            make()
        gc.collect()
        gc.disable()  # nothing waits for the collector
        try:
            before = lib.ct_n_live_allocations()
            for _ in range(times):
                make()
            self.assertEqual(lib.ct_n_live_allocations(), before)
        finally:
            gc.enable()

    def test_many_nets_leave_nothing_behind(self):
        path = self.file(LINEAR)

        def make():
            net = caffe.Net(path, caffe.TEST)
            net.forward(x=np.ones((2, 3)))
            net.backward()
            net.before_forward(lambda i: None)
            return [b.data for b in net.blobs.values()] + net.layers

        self.check_no_growth(make, 10000)

    def test_many_solvers_leave_nothing_behind(self):
        self.file(SMALL % 3)
        path = self.file("net: '%s' base_lr: 0.01 lr_policy: 'fixed' "
                         "test_iter: 1 test_interval: 10 "
                         "snapshot_prefix: '%s'" % (
                             self.path('net.prototxt'), self.path('s')),
                         'solver.prototxt')

        def make():
            solver = caffe.SGDSolver(path)
            solver.add_callback(lambda: None, lambda: None)
            solver.step(1)
            return solver.net.blobs['score'].data, solver.test_nets

        self.check_no_growth(make, 100)

    def test_failed_nets_leave_nothing_behind(self):
        path = self.file(LINEAR.replace('num_output: 2', 'num_output: 0'))

        def make():
            self.assertRaises(caffe.Error, caffe.Net, path, caffe.TEST)

        self.check_no_growth(make, 200)


class TestThreads(Case):

    def test_threads_use_different_nets_at_once(self):
        nets = [self.net(LINEAR) for _ in range(4)]
        failures = []

        def work(net, factor):
            try:
                net.params['ip'][0].data[...] = factor
                net.params['ip'][1].data[...] = 0
                for i in range(300):
                    out = net.forward(x=np.full((2, 3), i))['y']
                    np.testing.assert_allclose(out, 3 * i * factor)
                    net.backward(y=np.ones((2, 2)))
                    self.assertRaises(caffe.Error, net.copy_from,
                                      'none%d' % factor)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(net, i + 1))
                   for i, net in enumerate(nets)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
