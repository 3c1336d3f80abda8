"""Python layers in the program `cortado`, which has no interpreter."""

import os
import subprocess
import unittest

import caffe
from common import BUILD, Case

PROGRAM = os.path.join(BUILD, 'cortado')
PLUGIN = os.path.join(BUILD, 'libcortado_python.so')

LAYERS = """
import caffe
import numpy as np

class Source(caffe.Layer):
    def setup(self, bottom, top):
        self.n = int(self.param_str)
        self.batch = self.deal(100, self.n)
        top[0].reshape(self.n, 3)
        top[1].reshape(self.n, 1)
    def reshape(self, bottom, top):
        pass
    def forward(self, bottom, top):
        x = np.sin(next(self.batch)[:, None] * [1., 2., 3.])
        top[0].data[...] = x
        top[1].data[...] = x.dot([[1.], [2.], [3.]])
    def backward(self, top, propagate_down, bottom):
        pass

class Loss(caffe.Layer):
    def reshape(self, bottom, top):
        if not (self.phase in (caffe.TRAIN, caffe.TEST)):
            raise ValueError('no phase')
        top[0].reshape(1)
    def forward(self, bottom, top):
        self.d = bottom[0].data - bottom[1].data
        top[0].data[...] = (self.d ** 2).mean()
    def backward(self, top, propagate_down, bottom):
        assert list(propagate_down) == [True, False]
        bottom[0].diff[...] = 2 * self.d / self.d.size * top[0].diff

class Broken(caffe.Layer):
    def setup(self, bottom, top):
        raise ValueError('broken on purpose')
"""

NET = """name: 'py'
layer { name: 'source' type: 'Python' top: 'x' top: 'want'
  python_param { module: 'mylayers' layer: 'Source' param_str: '8' } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
  inner_product_param { num_output: 1 } }
layer { name: 'loss' type: 'Python' bottom: 'y' bottom: 'want' top: 'loss'
  loss_weight: 1 propagate_down: true propagate_down: false
  python_param { module: 'mylayers' layer: 'Loss' } }
"""
# The same without Python.
PLAIN = """input: 'x' input_shape { dim: 1 dim: 3 }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
  inner_product_param { num_output: 1 } }
"""
SOLVER = """net: 'net.prototxt' base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed'
max_iter: 300 display: 100 snapshot_prefix: 's' snapshot: 200 random_seed: 1
"""


@unittest.skipUnless(os.path.exists(PROGRAM) and os.path.exists(PLUGIN),
                     'the program or its Python plug-in is not built')
class TestProgram(Case):

    def setUp(self):
        super().setUp()
        self.file(LAYERS, 'mylayers.py')
        self.file(NET)
        self.file(SOLVER, 'solver.prototxt')

    def run_program(self, *args, **env):
        full = {k: v for k, v in os.environ.items()
                if k not in ('PYTHONPATH', 'GLOG_minloglevel')}
        full.update(env)
        done = subprocess.run([PROGRAM] + list(args), cwd=self.folder,
                              env=full, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              timeout=120)
        return done.returncode, done.stdout

    def test_train_learns_through_python_layers(self):
        code, text = self.run_program('train', '-solver=solver.prototxt')
        self.assertEqual(code, 0, text)
        net = self.net(PLAIN, caffe.TEST,
                       weights=self.path('s_iter_300.caffemodel'))
        for got, want in zip(net.params['ip'][0].data[0], (1, 2, 3)):
            self.assertAlmostEqual(got, want, places=2)

    def test_a_resumed_run_ends_with_the_same_weights(self):
        self.assertEqual(
            self.run_program('train', '-solver=solver.prototxt')[0], 0)
        with open(self.path('s_iter_300.caffemodel'), 'rb') as whole:
            want = whole.read()
        os.remove(self.path('s_iter_300.caffemodel'))
        code, text = self.run_program('train', '-solver=solver.prototxt',
                                      '-snapshot=s_iter_200.solverstate')
        self.assertEqual(code, 0, text)
        with open(self.path('s_iter_300.caffemodel'), 'rb') as resumed:
            self.assertEqual(resumed.read(), want)

    def test_what_a_layer_raises_ends_the_program_with_its_words(self):
        self.file(NET.replace("layer: 'Loss'", "layer: 'Broken'"))
        code, text = self.run_program('train', '-solver=solver.prototxt')
        self.assertEqual(code, 2, text)
        self.assertIn('ValueError: broken on purpose', text)
        self.assertIn('mylayers.py', text)

    def test_a_file_of_the_working_folder_takes_no_librarys_place(self):
        self.file("raise ImportError('taken for the library')\n",
                  'colorsys.py')
        with open(self.path('mylayers.py')) as source:
            text = source.read()
        self.file('import colorsys\n' + text, 'mylayers.py')
        code, text = self.run_program('train', '-solver=solver.prototxt')
        self.assertEqual(code, 0, text)

    def test_without_the_plug_in_the_program_says_what_it_needs(self):
        code, text = self.run_program('train', '-solver=solver.prototxt',
                                      CORTADO_PYTHON_PLUGIN='/nowhere.so')
        self.assertEqual(code, 2, text)
        self.assertIn('CORTADO_PYTHON_PLUGIN', text)

    def test_the_program_itself_does_not_need_python(self):
        needed = subprocess.run(['ldd', PROGRAM], stdout=subprocess.PIPE,
                                text=True).stdout
        self.assertNotIn('libpython', needed)
