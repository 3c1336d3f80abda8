"""What public scripts do with pycaffe, in small."""

import unittest

import numpy as np

import caffe
from common import Case

try:
    import lmdb
except ImportError:
    lmdb = None
try:
    from caffe import layers as L
    from caffe.proto import caffe_pb2
except ImportError:
    caffe_pb2 = None

IMAGE = """name: 'image' force_backward: true
input: 'data' input_shape { dim: 1 dim: 3 dim: 9 dim: 9 }
layer { type: 'Convolution' name: 'conv1' bottom: 'data' top: 'conv1'
  convolution_param { num_output: 6 kernel_size: 2
    weight_filler { type: 'xavier' } bias_filler { value: 0.1 } } }
layer { type: 'ReLU' name: 'relu1' bottom: 'conv1' top: 'conv1' }
layer { type: 'Pooling' name: 'pool1' bottom: 'conv1' top: 'pool1'
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
"""
FULLY_CONNECTED = IMAGE + """
layer { type: 'InnerProduct' name: 'fc2' bottom: 'pool1' top: 'fc2'
  inner_product_param { num_output: 8 weight_filler { type: 'xavier' }
    bias_filler { value: 0.2 } } }
layer { type: 'ReLU' name: 'relu2' bottom: 'fc2' top: 'fc2' }
layer { type: 'InnerProduct' name: 'fc3' bottom: 'fc2' top: 'fc3'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { type: 'Softmax' name: 'prob' bottom: 'fc3' top: 'prob' }
"""
FULLY_CONVOLUTIONAL = IMAGE + """
layer { type: 'Convolution' name: 'fc2-conv' bottom: 'pool1' top: 'fc2-conv'
  convolution_param { num_output: 8 kernel_size: 4 } }
layer { type: 'ReLU' name: 'relu2' bottom: 'fc2-conv' top: 'fc2-conv' }
layer { type: 'Convolution' name: 'fc3-conv' bottom: 'fc2-conv' top: 'fc3-conv'
  convolution_param { num_output: 5 kernel_size: 1 } }
layer { type: 'Softmax' name: 'prob' bottom: 'fc3-conv' top: 'prob' }
"""
FULL, CONVOLUTIONAL = ('fc2', 'fc3'), ('fc2-conv', 'fc3-conv')


class SeededCase(Case):
    """The same weights in every run, so that differences are as exact."""

    def setUp(self):
        super().setUp()
        caffe.set_random_seed(1)


class TestSurgery(SeededCase):

    def cast(self):
        """A net with fully connected layers and its convolutional double."""
        full = self.net(FULLY_CONNECTED, caffe.TEST)
        full.save(self.path('full.caffemodel'))
        double = self.net(FULLY_CONVOLUTIONAL, caffe.TEST,
                          weights=self.path('full.caffemodel'))
        old = {n: (full.params[n][0].data, full.params[n][1].data)
               for n in FULL}
        new = {n: (double.params[n][0].data, double.params[n][1].data)
               for n in CONVOLUTIONAL}
        for name, conv_name in zip(FULL, CONVOLUTIONAL):
            new[conv_name][0].flat = old[name][0].flat
            new[conv_name][1][...] = old[name][1]
        return full, double

    def test_weights_of_fc_layers_become_those_of_convolutions(self):
        full, double = self.cast()
        self.assertEqual(full.params['fc2'][0].data.shape, (8, 96))
        self.assertEqual(double.params['fc2-conv'][0].data.shape,
                         (8, 6, 4, 4))
        image = np.random.RandomState(1).rand(3, 9, 9)
        one = full.forward_all(data=np.asarray([image]))['prob'][0]
        other = double.forward_all(data=np.asarray([image]))['prob'][0]
        np.testing.assert_allclose(one, other[:, 0, 0], rtol=1e-5)

    def test_a_cast_net_classifies_every_window_of_a_bigger_image(self):
        full, double = self.cast()
        image = np.random.RandomState(2).rand(3, 13, 11).astype(np.float32)
        double.blobs['data'].reshape(1, *image.shape)
        double.reshape()
        double.blobs['data'].data[...] = image
        maps = double.forward()['prob'][0]
        self.assertEqual(maps.shape, (5, 3, 2))
        for y in range(3):
            for x in range(2):
                window = image[:, 2 * y:2 * y + 9, 2 * x:2 * x + 9]
                full.blobs['data'].data[...] = window
                np.testing.assert_allclose(
                    maps[:, y, x], full.forward()['prob'][0], rtol=1e-4)

    def test_a_saved_cast_net_reads_back(self):
        _, double = self.cast()
        double.save(self.path('cast.caffemodel'))
        again = self.net(FULLY_CONVOLUTIONAL, caffe.TEST,
                         weights=self.path('cast.caffemodel'))
        for name in double.params:
            for a, b in zip(double.params[name], again.params[name]):
                np.testing.assert_array_equal(a.data, b.data)

    def test_edited_filters_count_in_the_next_pass(self):
        net = self.net(IMAGE, caffe.TEST)
        image = np.random.RandomState(3).rand(1, 3, 9, 9)
        net.blobs['data'].data[...] = image
        filters = net.params['conv1'][0].data
        filters[...] = 0
        filters[0, :, 1, 1] = 1
        net.params['conv1'][1].data[...] = 0
        net.params['conv1'][1].data[1] += 1
        net.forward()
        conv = net.blobs['conv1'].data[0]
        np.testing.assert_allclose(conv[0], image[0].sum(0)[1:, 1:],
                                   rtol=1e-5)
        self.assertTrue((conv[1] == 1).all() and (conv[2:] == 0).all())

    def test_bilinear_filters_for_upsampling(self):
        net = self.net("""input: 'data' input_shape { dim: 1 dim: 2 dim: 3
          dim: 3 } layer { type: 'Deconvolution' name: 'up' bottom: 'data'
          top: 'up' convolution_param { num_output: 2 kernel_size: 4 stride: 2
          bias_term: false } }""", caffe.TEST)
        m, k, h, w = net.params['up'][0].data.shape
        factor = (h + 1) // 2
        grid = np.ogrid[:h, :w]
        filt = ((1 - abs(grid[0] - factor + .5) / factor) *
                (1 - abs(grid[1] - factor + .5) / factor))
        net.params['up'][0].data[range(m), range(k), :, :] = filt
        net.blobs['data'].data[...] = 2
        up = net.forward()['up']
        np.testing.assert_allclose(up[:, :, 2:-2, 2:-2], 2, rtol=1e-6)

    def test_filters_and_responses_make_pictures(self):
        net = self.net(IMAGE, caffe.TEST)
        net.forward(data=np.random.rand(1, 3, 9, 9))
        for data in (net.params['conv1'][0].data.transpose(0, 2, 3, 1),
                     net.blobs['conv1'].data[0, :4],
                     net.blobs['pool1'].data[0]):
            picture = tiles(data)
            self.assertEqual((picture.min(), picture.max()), (0, 1))
        self.assertEqual([(k, v[0].data.shape) for k, v in
                          net.params.items()], [('conv1', (6, 3, 2, 2))])
        self.assertEqual([(k, v.data.shape) for k, v in net.blobs.items()][-1],
                         ('pool1', (1, 6, 4, 4)))


def tiles(data):
    """Filters side by side in a square, values from 0 to 1."""
    data = (data - data.min()) / (data.max() - data.min())
    n = int(np.ceil(np.sqrt(data.shape[0])))
    padding = ((0, n ** 2 - data.shape[0]), (0, 1), (0, 1))
    padding += ((0, 0),) * (data.ndim - 3)
    data = np.pad(data, padding, mode='constant', constant_values=1)
    data = data.reshape((n, n) + data.shape[1:]).transpose(
        (0, 2, 1, 3) + tuple(range(4, data.ndim + 1)))
    return data.reshape((n * data.shape[1], n * data.shape[3]) +
                        data.shape[4:])


class TestDreams(SeededCase):

    def objective(self, net, image, end):
        net.blobs['data'].data[0] = image
        net.forward(end=end)
        return 0.5 * (net.blobs[end].data.astype(np.float64) ** 2).sum()

    def test_gradients_of_a_middle_layer_reach_the_image(self):
        # Without kinks between the image and the middle, so that differences
        # are exact.
        net = self.net(FULLY_CONNECTED.replace('MAX', 'AVE').replace(
            'value: 0.1', 'value: 9'), caffe.TEST)
        random = np.random.RandomState(4)
        for size in (9, 11):
            net.blobs['data'].reshape(1, 3, size, size)
            image = random.rand(3, size, size).astype(np.float32)
            self.objective(net, image, 'pool1')
            middle = net.blobs['pool1']
            middle.diff[:] = middle.data
            net.backward(start='pool1')
            gradient = net.blobs['data'].diff[0].copy()
            direction = random.randn(3, size, size).astype(np.float32)
            step = 1e-2
            slope = (self.objective(net, image + step * direction, 'pool1') -
                     self.objective(net, image - step * direction, 'pool1'))
            np.testing.assert_allclose((gradient * direction).sum(),
                                       slope / (2 * step), rtol=2e-2)

    def test_steps_up_the_gradient_raise_the_objective(self):
        net = self.net(FULLY_CONNECTED, caffe.TEST)
        source, middle = net.blobs['data'], net.blobs['conv1']
        image = np.random.RandomState(5).rand(3, 9, 9)
        before = self.objective(net, image, 'conv1')
        for _ in range(5):
            net.forward(end='conv1')
            middle.diff[:] = middle.data
            net.backward(start='conv1')
            g = source.diff[0]
            source.data[:] += 0.1 / np.abs(g).mean() * g
        self.assertGreater(self.objective(net, source.data[0].copy(), 'conv1'),
                           before * 2)

    def test_one_class_by_its_output_gradient(self):
        net = self.net(FULLY_CONNECTED, caffe.TEST)
        net.forward(data=np.random.rand(1, 3, 9, 9))
        one = np.zeros_like(net.blobs['prob'].data)
        one[0, 3] = 1
        back = net.backward(prob=one)
        self.assertEqual(list(back), ['data'])
        self.assertTrue(np.abs(back['data']).max() > 0)


class Sequences(caffe.Layer):
    """Bits in, the bit of the step before out; with continuation marks."""

    T, N = 6, 8

    def setup(self, bottom, top):
        self.random = np.random.RandomState(6)

    def reshape(self, bottom, top):
        top[0].reshape(self.T, self.N, 1)
        top[1].reshape(self.T, self.N)
        top[2].reshape(self.T, self.N, 1)

    def forward(self, bottom, top):
        bits = self.random.randint(2, size=(self.T, self.N))
        top[0].data[..., 0] = bits
        top[1].data[...] = 1
        top[1].data[0] = 0
        top[2].data[0] = 0
        top[2].data[1:, :, 0] = bits[:-1]

    def backward(self, top, propagate_down, bottom):
        pass


class TestRecurrence(SeededCase):

    NET = """layer { name: 'data' type: 'Python' top: 'x' top: 'cont'
      top: 'want' python_param { module: 'test_scripts' layer: 'Sequences' } }
    layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'lstm'
      recurrent_param { num_output: 12
        weight_filler { type: 'uniform' min: -0.3 max: 0.3 } } }
    layer { name: 'out' type: 'InnerProduct' bottom: 'lstm' top: 'out'
      inner_product_param { num_output: 1 axis: 2
        weight_filler { type: 'xavier' } } }
    layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'out'
      bottom: 'want' top: 'loss' }"""

    def test_an_lstm_learns_from_a_python_data_layer(self):
        self.file(self.NET)
        solver = caffe.get_solver(self.file(
            "net: '%s' type: 'Adam' base_lr: 0.03 lr_policy: 'fixed' "
            "random_seed: 1" % self.path('net.prototxt'), 'solver.prototxt'))
        losses = []
        for _ in range(150):
            solver.step(1)
            losses.append(float(solver.net.blobs['loss'].data))
        self.assertEqual(solver.net.blobs['lstm'].data.shape, (6, 8, 12))
        self.assertLess(np.mean(losses[-5:]), 0.3 * np.mean(losses[:5]))


@unittest.skipUnless(caffe_pb2, 'needs python3-protobuf')
class TestSiamese(SeededCase):

    NET = """layer { name: 'pairs' type: 'Data' top: 'pair' top: 'same'
      data_param { source: '%s' batch_size: 4 backend: LMDB } }
    layer { name: 'slice' type: 'Slice' bottom: 'pair' top: 'a' top: 'b'
      slice_param { axis: 1 slice_point: 1 } }
    layer { name: 'fa' type: 'InnerProduct' bottom: 'a' top: 'fa'
      param { name: 'w' } param { name: 'b' } inner_product_param {
      num_output: 2 weight_filler { type: 'xavier' } } }
    layer { name: 'fb' type: 'InnerProduct' bottom: 'b' top: 'fb'
      param { name: 'w' } param { name: 'b' } inner_product_param {
      num_output: 2 weight_filler { type: 'xavier' } } }
    layer { name: 'loss' type: 'ContrastiveLoss' bottom: 'fa' bottom: 'fb'
      bottom: 'same' top: 'loss' contrastive_loss_param { margin: 1 } }"""

    def pairs(self):
        random = np.random.RandomState(7)
        images = random.randint(256, size=(8, 2, 5, 4)).astype(np.uint8)
        return images, np.arange(8) % 2

    def test_datums_hold_pairs_of_images(self):
        for image, same in zip(*self.pairs()):
            record = caffe.io.array_to_datum(
                image, int(same)).SerializeToString()
            self.assertIsInstance(record, bytes)
            datum = caffe_pb2.Datum.FromString(record)
            self.assertEqual((datum.channels, datum.height, datum.width,
                              datum.label), (2, 5, 4, same))
            np.testing.assert_array_equal(caffe.io.datum_to_array(datum),
                                          image)
        floats = caffe.io.array_to_datum(np.array([[[0.5]]]))
        self.assertEqual((list(floats.float_data), floats.data), ([0.5], b''))

    @unittest.skipUnless(lmdb, 'needs the module lmdb (package python3-lmdb)')
    def test_a_database_written_from_python_trains(self):
        images, same = self.pairs()
        with lmdb.open(self.path('pairs'), map_size=1 << 24) as db:
            with db.begin(write=True) as txn:
                for i in range(8):
                    datum = caffe.io.array_to_datum(images[i], int(same[i]))
                    txn.put('{:08}'.format(i).encode('ascii'),
                            datum.SerializeToString())
        net = self.net(self.NET % self.path('pairs'))
        for k in (0, 4):
            net.forward()
            np.testing.assert_array_equal(net.blobs['pair'].data,
                                          images[k:k + 4])
            np.testing.assert_array_equal(net.blobs['same'].data,
                                          same[k:k + 4])
        net.backward()
        self.assertTrue(np.abs(net.params['fa'][0].diff).max() > 0)


@unittest.skipUnless(caffe_pb2, 'needs python3-protobuf')
class TestNotebooks(SeededCase):

    def spec(self, batch, split):
        n = caffe.NetSpec()
        n.data, n.label = L.DummyData(
            shape=[dict(dim=[batch, 4]), dict(dim=[batch])], ntop=2,
            data_filler=[dict(type='gaussian', std=1), dict(value=0)])
        n.score = L.InnerProduct(n.data, num_output=3,
                                 weight_filler=dict(type='xavier'))
        if split == 'deploy':
            n.prob = L.Softmax(n.score)
        else:
            n.loss = L.SoftmaxWithLoss(n.score, n.label)
        return self.file(str(n.to_proto()), split + '.prototxt')

    def test_solver_messages_nets_by_hand_and_test_loops(self):
        s = caffe_pb2.SolverParameter()
        s.train_net = self.spec(6, 'train')
        s.test_net.append(self.spec(5, 'test'))
        s.test_interval, s.base_lr, s.lr_policy = 500, 0.05, 'step'
        s.gamma, s.stepsize, s.type = 0.5, 10, 'SGD'
        s.test_iter.append(1)
        s.solver_mode = caffe_pb2.SolverParameter.CPU
        solver = caffe.get_solver(self.file(str(s), 'solver.prototxt'))
        self.assertIsInstance(solver, caffe.SGDSolver)
        correct = total = 0
        losses = np.zeros(30)
        for i in range(30):
            solver.step(1)
            losses[i] = solver.net.blobs['loss'].data
            if i % 10 == 0:
                test = solver.test_nets[0]
                test.forward(start='score')
                correct += sum(test.blobs['score'].data.argmax(1) ==
                               test.blobs['label'].data)
                total += 5
        self.assertEqual(total, 15)
        self.assertLess(losses[-5:].mean(), losses[:5].mean())
        solver.net.save(self.path('w.caffemodel'))
        deploy = caffe.Net(self.spec(5, 'deploy'),
                           self.path('w.caffemodel'), caffe.TEST)
        prob = deploy.forward()['prob']
        weights, bias = (b.data for b in solver.net.params['score'])
        odds = np.exp(deploy.blobs['data'].data.dot(weights.T) + bias)
        np.testing.assert_allclose(prob, odds / odds.sum(1, keepdims=True),
                                   rtol=1e-5)

    def test_weights_go_from_net_to_net(self):
        one = caffe.Net(self.spec(5, 'train'), caffe.TRAIN)
        other = caffe.Net(self.spec(2, 'deploy'), caffe.TEST)
        for name in one.params:
            if name in other.params:
                for i in range(len(one.params[name])):
                    other.params[name][i].data.flat = \
                        one.params[name][i].data.flat
        np.testing.assert_array_equal(other.params['score'][0].data,
                                      one.params['score'][0].data)
