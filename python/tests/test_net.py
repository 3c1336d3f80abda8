"""Nets: what pycaffe's users do with them."""

import warnings
from collections import OrderedDict

import numpy as np

import caffe
from common import LINEAR, SMALL, Case

N_OUTPUT = 7

LEVELS = """name: 'levels' input: 'data' input_shape { dim: 1 dim: 1 }
layer { name: 'one' type: 'ReLU' bottom: 'data' top: 'one'
  include { phase: TEST %s } }
layer { name: 'two' type: 'ReLU' bottom: 'data' top: 'two'
  include { phase: TEST %s } }
layer { name: 'out' type: 'ReLU' bottom: 'data' top: 'out' }
"""


class TestSmallNet(Case):

    def setUp(self):
        super().setUp()
        self.small = self.net(SMALL % N_OUTPUT)
        self.small.blobs['class'].data[...] = np.random.randint(
            N_OUTPUT, size=self.small.blobs['class'].data.shape)

    def test_blobs_and_params_stand_in_the_order_of_the_net(self):
        self.assertEqual(list(self.small.blobs),
                         ['image', 'class', 'conv', 'score', 'loss'])
        self.assertEqual(list(self.small.params), ['conv', 'score'])
        self.assertEqual(self.small.params['conv'][0].shape, (4, 3, 3, 3))
        self.assertEqual(self.small.params['conv'][1].data.tolist(), [0.5] * 4)

    def test_names_of_inputs_outputs_tops_and_bottoms(self):
        self.assertEqual(self.small.inputs, [])
        self.assertEqual(self.small.outputs, ['loss'])
        self.assertEqual(self.small.top_names, OrderedDict([
            ('source', ['image', 'class']), ('conv', ['conv']), ('score', ['score']),
            ('loss', ['loss'])]))
        self.assertEqual(self.small.bottom_names, OrderedDict([
            ('source', []), ('conv', ['image']), ('score', ['conv']),
            ('loss', ['score', 'class'])]))

    def test_layers_by_number_and_by_name(self):
        types = ['DummyData', 'Convolution', 'InnerProduct',
                 'SoftmaxWithLoss']
        self.assertEqual([l.type for l in self.small.layers], types)
        self.assertEqual(list(self.small.layer_dict),
                         list(self.small._layer_names))
        self.assertEqual(self.small.layer_dict['score'].type, 'InnerProduct')
        self.assertEqual(len(self.small.layers[1].blobs), 2)

    def test_loss_weights(self):
        self.assertEqual(self.small.blob_loss_weights['loss'], 1)
        self.assertEqual(self.small.blob_loss_weights['conv'], 0)

    def test_forward_gives_the_loss_and_more_blobs_on_request(self):
        out = self.small.forward(blobs=['conv'])
        self.assertEqual(set(out), {'loss', 'conv'})
        scores = self.small.blobs['score'].data.astype(np.float64)
        labels = self.small.blobs['class'].data.astype(int)
        scores -= scores.max(axis=1, keepdims=True)
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        want = -np.log(np.maximum(p[np.arange(6), labels],
                                  np.finfo(np.float32).tiny)).mean()
        np.testing.assert_allclose(out['loss'], want, rtol=1e-4)

    def test_forward_from_one_layer_to_another(self):
        conv = self.small.blobs['conv']
        conv.data[...] = np.random.uniform(size=conv.data.shape)
        out = self.small.forward(start='score', end='score')
        self.assertEqual(set(out), {'score'})
        w, b = self.small.params['score']
        want = conv.data.reshape(6, -1).dot(w.data.T) + b.data
        np.testing.assert_allclose(out['score'], want, rtol=1e-3, atol=1e-4)

    def test_backward_from_one_layer_to_another(self):
        ip = self.small.blobs['score']
        ip.diff[...] = np.random.uniform(size=ip.diff.shape)
        out = self.small.backward(start='score', end='score', diffs=['score'])
        self.assertEqual(set(out), {'conv', 'score'})
        want = ip.diff.dot(self.small.params['score'][0].data)
        np.testing.assert_allclose(out['conv'].reshape(6, -1), want,
                                   rtol=1e-3, atol=1e-4)

    def test_an_unknown_layer_is_refused(self):
        self.assertRaises(ValueError, self.small.forward, start='no such')
        self.assertRaises(caffe.Error, self.small._forward, 0, 99)
        self.assertRaises(IndexError, self.small._top_ids, 99)

    def test_clear_param_diffs(self):
        self.small.forward()
        self.small.backward()
        diff = self.small.params['score'][0].diff
        self.assertTrue((diff != 0).any())
        self.small.clear_param_diffs()
        self.assertTrue((diff == 0).all())

    def check_weights(self, other):
        for name, blobs in self.small.params.items():
            for mine, theirs in zip(blobs, other.params[name]):
                np.testing.assert_array_equal(mine.data, theirs.data)

    def test_saved_weights_read_back(self):
        self.small.save(self.path('w.caffemodel'))
        proto = self.path('net.prototxt')
        other = caffe.Net(proto, caffe.TRAIN)
        self.assertTrue((other.params['score'][0].data !=
                         self.small.params['score'][0].data).any())
        other.copy_from(self.path('w.caffemodel'))
        self.check_weights(other)
        self.check_weights(caffe.Net(proto, caffe.TEST,
                                     weights=self.path('w.caffemodel')))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter('always')
            legacy = caffe.Net(proto, self.path('w.caffemodel'), caffe.TRAIN)
        self.check_weights(legacy)
        self.assertIn('deprecated', str(seen[-1].message))

    def test_saved_hdf5_weights_read_back(self):
        try:
            self.small.save_hdf5(self.path('w.h5'))
        except caffe.Error as error:
            self.skipTest(str(error))
        other = caffe.Net(self.path('net.prototxt'), caffe.TRAIN)
        other.load_hdf5(self.path('w.h5'))
        self.check_weights(other)

    def test_shared_weights_are_the_same_memory(self):
        other = caffe.Net(self.path('net.prototxt'), caffe.TEST)
        other.share_with(self.small)
        other.params['score'][0].data[0, 0] = 42
        self.assertEqual(self.small.params['score'][0].data[0, 0], 42)
        del self.small
        self.assertEqual(other.params['score'][0].data[0, 0], 42)

    def test_callbacks_see_every_layer_in_order(self):
        seen = []
        for hook in ('before_forward', 'after_forward', 'before_backward',
                     'after_backward'):
            getattr(self.small, hook)(
                lambda i, hook=hook: seen.append((hook, i)))
        self.small.after_forward(lambda i: seen.append(('second', i)))
        self.small.forward()
        self.small.backward()
        self.assertEqual(seen[:3], [('before_forward', 0),
                                    ('after_forward', 0), ('second', 0)])
        self.assertEqual([i for hook, i in seen if hook == 'after_backward'],
                         [3, 2, 1, 0])
        self.assertEqual(len(seen), 5 * 4)

    def test_what_a_callback_raises_comes_through(self):
        def no(_layer):
            raise LookupError('no')
        self.small.before_forward(no)
        self.assertRaisesRegex(LookupError, 'no', self.small.forward)

    def test_repr_and_drawing(self):
        self.assertIn("'small' TRAIN: 4 layers", repr(self.small))
        self.assertIn('6 x 3 x 5 x 4', repr(self.small.blobs['image']))
        drawing = self.small._repr_html_()
        self.assertTrue(drawing.startswith('<svg'))
        self.assertIn('SoftmaxWithLoss', drawing)
        self.assertIn('InnerProduct', self.small.summary())


class TestInputs(Case):

    def setUp(self):
        super().setUp()
        self.linear = self.net(LINEAR)
        w, b = self.linear.params['ip']
        w.data[...] = [[1, 2, 3], [4, 5, 6]]
        b.data[...] = [10, 20]

    def test_keyword_inputs(self):
        self.assertEqual(self.linear.inputs, ['x'])
        out = self.linear.forward(x=np.array([[1, 0, 0], [0, 1, 1]]))
        self.assertEqual(out['y'].tolist(), [[11, 24], [15, 31]])

    def test_keyword_top_diffs(self):
        self.linear.forward(x=np.zeros((2, 3)))
        out = self.linear.backward(y=np.array([[1, 0], [0, 1]]))
        self.assertEqual(out['x'].tolist(), [[1, 2, 3], [4, 5, 6]])

    def test_wrong_names_and_sizes_are_refused(self):
        with self.assertRaisesRegex(Exception, 'do not match'):
            self.linear.forward(z=np.zeros((2, 3)))
        with self.assertRaisesRegex(Exception, 'batch sized'):
            self.linear.forward(x=np.zeros((3, 3)))
        with self.assertRaisesRegex(Exception, 'do not match'):
            self.linear.backward(x=np.zeros((2, 3)))

    def test_forward_all_pads_and_cuts(self):
        x = np.arange(15).reshape(5, 3)
        out = self.linear.forward_all(blobs=['x'], x=x)
        want = x.dot([[1, 4], [2, 5], [3, 6]]) + [10, 20]
        self.assertEqual(out['y'].tolist(), want.tolist())
        self.assertEqual(out['x'].tolist(), x.tolist())

    def test_forward_backward_all(self):
        x, dy = np.arange(15).reshape(5, 3), np.arange(10).reshape(5, 2)
        data, grads = self.linear.forward_backward_all(diffs=['y'], x=x, y=dy)
        self.assertEqual(data['y'].shape, (5, 2))
        self.assertEqual(grads['x'].tolist(),
                         dy.dot([[1, 2, 3], [4, 5, 6]]).tolist())
        self.assertEqual(grads['y'].tolist(), dy.tolist())

    def test_reshape_follows_the_inputs(self):
        old = self.linear.blobs['x'].data
        self.linear.blobs['x'].reshape(4, 3)
        self.linear.reshape()
        self.assertEqual(self.linear.blobs['y'].data.shape, (4, 2))
        self.linear.blobs['x'].data[...] = 1
        self.assertEqual(self.linear.forward()['y'].tolist(),
                         [[16, 35]] * 4)
        self.assertEqual(old.shape, (2, 3))

    def test_forward_follows_the_inputs_by_itself(self):
        self.linear.blobs['x'].reshape(1, 3)
        self.linear.blobs['x'].data[...] = [[1, 1, 1]]
        self.assertEqual(self.linear.forward()['y'].tolist(), [[16, 35]])


class TestStates(Case):

    def names(self, one, two, **more):
        net = self.net(LEVELS % (one, two), caffe.TEST, **more)
        return [b for b in net.blobs if 'data' not in b]

    def test_levels(self):
        rules = 'min_level: 1', 'max_level: 1'
        self.assertEqual(self.names(*rules), ['two', 'out'])
        self.assertEqual(self.names(*rules, level=1), ['one', 'two', 'out'])
        self.assertEqual(self.names(*rules, level=2), ['one', 'out'])

    def test_stages(self):
        rules = "stage: 'A'", "stage: 'B' not_stage: 'C'"
        self.assertEqual(self.names(*rules), ['out'])
        self.assertEqual(self.names(*rules, stages=['A']), ['one', 'out'])
        self.assertEqual(self.names(*rules, stages=['A', 'B']),
                         ['one', 'two', 'out'])
        self.assertEqual(self.names(*rules, stages=['B', 'C']), ['out'])


class TestErrors(Case):

    def test_a_missing_file_is_an_error_that_names_it(self):
        with self.assertRaisesRegex(caffe.Error, 'nowhere.prototxt'):
            caffe.Net('nowhere.prototxt', caffe.TEST)

    def test_errors_are_runtime_errors_with_the_engines_words(self):
        with self.assertRaisesRegex(RuntimeError, 'unknown type "Wat"'):
            self.net("layer { name: 'l' type: 'Wat' }")

    def test_wrong_weights_are_refused(self):
        net = self.net(LINEAR)
        net.save(self.path('w.caffemodel'))
        other = self.net(LINEAR.replace('num_output: 2', 'num_output: 3'))
        self.assertRaises(caffe.Error, other.copy_from,
                          self.path('w.caffemodel'))
        self.assertRaises(caffe.Error, other.copy_from, self.path('none'))
        self.assertRaises(caffe.Error, other.share_with, net)

    def test_a_phase_is_needed(self):
        self.assertRaises(TypeError, caffe.Net, self.file(LINEAR))

    def test_seeds_repeat_and_nets_differ(self):
        def weights(n):
            caffe.set_random_seed(7)
            return [self.net(LINEAR).params['ip'][0].data for _ in range(n)]
        first, second = weights(2), weights(2)
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])
        self.assertTrue((first[0] != first[1]).any())


class TestMemoryData(Case):

    NET = """layer { name: 'd' type: 'MemoryData' top: 'x' top: 'label'
        memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }
    """

    def test_arrays_are_fed_in_order(self):
        net = self.net(self.NET)
        x = np.arange(12, dtype=np.float32).reshape(4, 1, 1, 3)
        net.set_input_arrays(x, np.arange(4, dtype=np.float32))
        net.forward()
        np.testing.assert_array_equal(net.blobs['x'].data, x[:2])
        net.forward()
        np.testing.assert_array_equal(net.blobs['x'].data, x[2:])
        self.assertEqual(net.blobs['label'].data.tolist(), [2, 3])
        net.forward()
        np.testing.assert_array_equal(net.blobs['x'].data, x[:2])

    def test_other_arrays_are_refused(self):
        net = self.net(self.NET)
        labels = np.zeros(4, np.float32)
        for wrong in (np.zeros((4, 1, 1, 3)), np.zeros((4, 3), np.float32),
                      np.zeros((3, 1, 1, 3), np.float32)):
            self.assertRaises(caffe.Error, net.set_input_arrays, wrong, labels)
