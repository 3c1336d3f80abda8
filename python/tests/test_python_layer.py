"""Layers written in Python, run by Python."""

import gc
import os
import sys
import threading
import traceback

import numpy as np

import caffe
from common import Case


class Times(caffe.Layer):
    """Multiplies by the number in the prototxt, or by four."""

    def setup(self, bottom, top):
        self.factor = float(self.param_str or 4)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        np.multiply(bottom[0].data, self.factor, out=top[0].data)

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            bottom[0].diff[...] = top[0].diff * self.factor


class PlusOneInPlace(caffe.Layer):

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        top[0].data[...] += 1

    def backward(self, top, propagate_down, bottom):
        pass


class Refusing(caffe.Layer):
    """Refuses in the step that the prototxt names."""

    def refuse(self, step):
        if self.param_str == step:
            raise {'exit': SystemExit}.get(step, LookupError)('not in ' + step)

    def setup(self, bottom, top):
        self.refuse('setup')
        self.refuse('exit')

    def reshape(self, bottom, top):
        self.refuse('reshape')
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.refuse('forward')

    def backward(self, top, propagate_down, bottom):
        self.refuse('backward')


class Learned(caffe.Layer):
    """Gives out what it has learned."""

    def setup(self, bottom, top):
        self.blobs.add_blob(2, 3)
        self.blobs.add_blob()
        self.blobs[0].data[...] = [[1, 2, 3], [4, 5, 6]]

    def reshape(self, bottom, top):
        top[0].reshape(*self.blobs[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.blobs[0].data + self.blobs[1].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += top[0].diff
        self.blobs[1].diff[...] += top[0].diff.sum()


class Phase(caffe.Layer):
    """A scalar: 0 in training."""

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = 0 if self.phase == caffe.TRAIN else 1


class OldStyle(Times):
    """With a constructor of its own, as some public layers have."""

    def __init__(self, p_object, *args, **kwargs):
        super().__init__(p_object, *args, **kwargs)
        self.ready = True


class Distance(caffe.Layer):
    """A loss: remembers the difference and uses data in reshape."""

    def setup(self, bottom, top):
        assert len(bottom) == 2

    def reshape(self, bottom, top):
        self.difference = np.empty_like(bottom[0].data)
        top[0].reshape(1)

    def forward(self, bottom, top):
        np.subtract(bottom[0].data, bottom[1].data, out=self.difference)
        top[0].data[0] = (self.difference ** 2).sum() / 4

    def backward(self, top, propagate_down, bottom):
        for wanted, blob, sign in zip(propagate_down, bottom, (0.5, -0.5)):
            if wanted:
                blob.diff[...] = sign * top[0].diff * self.difference


class Growing(caffe.Layer):
    """A data layer with one more row in every pass."""

    def setup(self, bottom, top):
        self.rows = 0

    def reshape(self, bottom, top):
        top[0].reshape(self.rows + 1, 3)

    def forward(self, bottom, top):
        self.rows += 1
        top[0].data[...] = self.rows

    def backward(self, top, propagate_down, bottom):
        pass


class Indices(caffe.Layer):
    """A data layer that deals indices out to ranks."""

    def setup(self, bottom, top):
        self.dealt = self.deal(20, 4, shuffle=self.param_str == 'shuffle')
        top[0].reshape(4)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        top[0].data[...] = next(self.dealt)

    def backward(self, top, propagate_down, bottom):
        pass


def layer(kind, name='layer', bottom='', top='top', param='', more=''):
    text = "layer { type: 'Python' name: '%s' " % name
    text += ''.join("bottom: '%s' " % b for b in bottom.split())
    text += ''.join("top: '%s' " % t for t in top.split())
    return text + ("python_param { module: 'test_python_layer' layer: '%s' "
                   "param_str: '%s' } %s }\n" % (kind, param, more))


HEAD = """name: 'chain' force_backward: true
input: 'data' input_shape { dim: 3 dim: 2 dim: 5 }
"""
CHAIN = (HEAD + layer('Times', 'one', 'data', 'one') +
         layer('Times', 'two', 'one', 'two', param='-2') +
         layer('Times', 'three', 'two', 'three'))


class TestChain(Case):

    def setUp(self):
        super().setUp()
        self.chain = self.net(CHAIN)

    def test_forward_multiplies_all_the_way(self):
        x = np.arange(30).reshape(3, 2, 5)
        out = self.chain.forward(data=x, blobs=['one'])
        np.testing.assert_array_equal(out['three'], -32 * x)
        np.testing.assert_array_equal(out['one'], 4 * x)

    def test_backward_multiplies_all_the_way(self):
        dy = np.arange(30).reshape(3, 2, 5)
        np.testing.assert_array_equal(self.chain.backward(three=dy)['data'],
                                      -32 * dy)

    def test_shapes_follow_the_input(self):
        self.chain.blobs['data'].reshape(2, 7, 1, 2)
        self.chain.reshape()
        self.assertEqual([b.data.shape for b in self.chain.blobs.values()],
                         [(2, 7, 1, 2)] * 4)

    def test_layers_are_the_users_objects(self):
        self.assertIsInstance(self.chain.layers[1], Times)
        self.assertEqual(self.chain.layers[1].type, 'Python')
        self.assertIn('Python', self.chain._repr_html_())

    def test_blobs_of_a_net_that_is_gone_say_so(self):
        class Keeper(Times):
            def forward(self, bottom, top):
                self.kept = top[0]
                super().forward(bottom, top)
        sys.modules[__name__].Keeper = Keeper
        net = self.net(HEAD + layer('Keeper', bottom='data'))
        net.forward()
        kept = net.layers[1].kept
        array = kept.data
        del net
        gc.collect()
        self.assertRaisesRegex(caffe.Error, 'gone', lambda: kept.data)
        self.assertTrue((array == 0).all())


class TestLayers(Case):

    def test_param_str(self):
        net = self.net(HEAD + layer('Times', bottom='data', param='2.5'))
        self.assertEqual(net.layers[1].param_str, '2.5')
        net.blobs['data'].data[...] = 2
        self.assertTrue((net.forward()['top'] == 5).all())

    def test_in_place(self):
        net = self.net(HEAD + layer('Times', 'four', 'data', 'x') +
                       layer('PlusOneInPlace', 'plus', 'x', 'x'))
        net.blobs['data'].data[...] = 2
        self.assertTrue((net.forward()['x'] == 9).all())

    def test_parameters_are_learned_saved_loaded_and_shared(self):
        text = 'force_backward: true ' + layer('Learned', 'learned')
        net = self.net(text)
        w, b = net.layers[0].blobs
        self.assertEqual((w.shape, b.shape), ((2, 3), ()))
        b.data[()] = 10
        self.assertEqual(net.forward()['top'].tolist(),
                         [[11, 12, 13], [14, 15, 16]])
        net.backward(top=np.full((2, 3), 0.5))
        self.assertEqual(net.params['learned'][0].diff.tolist(),
                         [[0.5] * 3] * 2)
        self.assertEqual(b.diff, 3)
        net.clear_param_diffs()
        self.assertEqual(b.diff, 0)
        net.save(self.path('w.caffemodel'))
        b.data[()] = 0
        net.copy_from(self.path('w.caffemodel'))
        self.assertEqual(net.params['learned'][1].data, 10)
        other = self.net(text)
        other.share_with(net)
        b.data[()] = -1
        self.assertEqual(other.layers[0].blobs[1].data, -1)

    def test_blobs_are_added_in_setup_only(self):
        net = self.net(layer('Learned'))
        self.assertRaises(caffe.Error, net.layers[0].blobs.add_blob, 1)

    def test_phase(self):
        for phase in caffe.TRAIN, caffe.TEST:
            net = self.net(layer('Phase', top='phase'), phase)
            self.assertEqual(net.forward()['phase'], phase)

    def test_a_constructor_of_its_own(self):
        net = self.net(HEAD + layer('OldStyle', bottom='data'))
        self.assertTrue(net.layers[1].ready)

    def test_a_loss_reaches_the_parameters(self):
        net = self.net("""
            input: 'x' input_shape { dim: 2 dim: 3 }
            input: 'want' input_shape { dim: 2 dim: 1 }
            layer { type: 'InnerProduct' name: 'ip' bottom: 'x' top: 'y'
              inner_product_param { num_output: 1 } }
            """ + layer('Distance', 'loss', 'y want', 'loss',
                        more='loss_weight: 1'))
        x = np.array([[1, 2, 3], [4, 5, 6]])
        out = net.forward(x=x, want=np.array([[2], [4]]))
        self.assertEqual(out['loss'], 5)
        net.backward()
        np.testing.assert_allclose(net.params['ip'][0].diff,
                                   [[-9, -12, -15]])

    def test_tops_may_change_shape_in_every_pass(self):
        net = self.net(layer('Growing', top='x') +
                       layer('Times', 'four', 'x', 'y'))
        for rows in range(1, 30):
            y = net.forward()['y']
            self.assertEqual(y.shape, (rows, 3))
            self.assertTrue((y == 4 * rows).all())

    def test_two_nets_in_two_threads(self):
        failures = []

        def work(value):
            try:
                net = caffe.Net(self.path('net.prototxt'), caffe.TEST)
                for _ in range(50):
                    net.blobs['data'].data[...] = value
                    if (net.forward()['three'] != -32 * value).any():
                        failures.append(value)
            except BaseException as error:
                failures.append(error)
        self.file(CHAIN)
        threads = [threading.Thread(target=work, args=(i,))
                   for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class TestRanks(Case):

    def tearDown(self):
        caffe.set_solver_rank(0)
        caffe.set_solver_count(1)

    def dealt(self, rank, param=''):
        caffe.set_solver_count(2)
        caffe.set_solver_rank(rank)
        caffe.set_random_seed(5)
        net = self.net(layer('Indices', param=param))
        self.assertEqual(net.layers[0].solver_rank, rank)
        self.assertEqual(net.layers[0].solver_count, 2)
        return [net.forward()['top'].astype(int).tolist() for _ in range(5)]

    def test_indices_in_order(self):
        self.assertEqual(self.dealt(0)[:3], [[0, 1, 2, 3], [8, 9, 10, 11],
                                             [16, 17, 18, 19]])
        self.assertEqual(self.dealt(1)[:3], [[4, 5, 6, 7], [12, 13, 14, 15],
                                             [0, 1, 2, 3]])

    def test_an_epoch_gives_every_index_once(self):
        parts = self.dealt(0, 'shuffle') + self.dealt(1, 'shuffle')
        dealt = sorted(i for part in parts for i in part)
        self.assertEqual(dealt, sorted(list(range(20)) * 2))
        self.assertNotEqual(parts[0], [0, 1, 2, 3])

    def test_a_resumed_run_continues_the_deal(self):
        self.file(layer('Indices', 'data', param='shuffle', top='x') +
                  layer('Times', 'four', 'x', 'y', more='loss_weight: 1'))
        solver_file = self.file(
            "net: '%s' base_lr: 0.1 lr_policy: 'fixed' random_seed: 3 "
            "snapshot_prefix: '%s'" % (self.path('net.prototxt'),
                                       self.path('s')), 'solver.prototxt')

        def batch(solver):
            solver.step(1)
            return solver.net.blobs['x'].data.tolist()
        solver = caffe.SGDSolver(solver_file)
        solver.step(3)
        solver.snapshot()
        want = batch(solver)
        other = caffe.SGDSolver(solver_file)
        other.restore(self.path('s_iter_3.solverstate'))
        self.assertEqual(batch(other), want)


class TestErrors(Case):

    def raised(self, step, run):
        """What a layer raises arrives as itself, with the layer's name."""
        try:
            run()
            self.fail('nothing was raised')
        except LookupError as error:
            self.assertIs(type(error), LookupError)
            self.assertEqual(str(error), 'not in ' + step)
            shown = traceback.format_exc()
        self.assertRegex(shown, r'layer layer: %s\(\) of test_python_layer.'
                         'Refusing' % step)
        self.assertIn("LookupError)('not in ' + step)", shown)

    def test_what_a_layer_raises_arrives_as_itself(self):
        for step in ('setup', 'reshape'):
            self.raised(step, lambda: self.net(layer('Refusing', param=step)))

    def test_in_forward_and_backward_too(self):
        text = 'force_backward: true ' + layer('Refusing',
                                               param='%s')
        self.raised('forward', self.net(text % 'forward').forward)
        self.raised('backward', self.net(text % 'backward').backward)

    def test_in_a_solver_too_and_the_net_lives_on(self):
        self.file(layer('Refusing', param='forward',
                        more='loss_weight: 1'))
        solver = caffe.SGDSolver(self.file(
            "net: '%s' base_lr: 0.1 lr_policy: 'fixed' snapshot_prefix: '%s'"
            % (self.path('net.prototxt'), self.path('s')), 'solver.prototxt'))
        try:
            solver.step(1)
            self.fail('nothing was raised')
        except LookupError as error:
            self.assertIn('not in forward', str(error))
        # An error of the engine's own is not taken for that one.
        self.assertRaises(caffe.Error, solver.restore, 'nowhere')

    def test_an_exit_is_an_exit(self):
        self.assertRaises(SystemExit, self.net,
                          layer('Refusing', param='exit'))

    def test_a_module_or_class_that_is_not_there(self):
        self.assertRaisesRegex(caffe.Error, 'NoSuchClass', self.net,
                               layer('NoSuchClass'))
        self.assertRaisesRegex(
            caffe.Error, 'no_such_module', self.net,
            layer('X').replace('test_python_layer', 'no_such_module'))
        self.assertRaisesRegex(caffe.Error, 'subclass of caffe.Layer',
                               self.net, layer('layer'))

    def test_modules_are_found_in_the_working_folder(self):
        self.file('import caffe\nfrom test_python_layer import Times\n',
                  'only_here.py')
        before, path = os.getcwd(), list(sys.path)
        os.chdir(self.folder)
        try:
            net = self.net(HEAD + layer('Times', bottom='data').replace(
                'test_python_layer', 'only_here'))
            self.assertEqual(type(net.layers[1]).__name__, 'Times')
        finally:
            os.chdir(before)
            sys.path[:] = path
