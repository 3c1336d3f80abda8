"""What the tests share: files with small nets, a scratch folder."""

import os
import shutil
import tempfile
import unittest

import caffe

BUILD = os.environ.get('CORTADO_BUILD', '')
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

# A little of everything: data, a convolution, two parameters a layer, a loss.
SMALL = """name: 'small' force_backward: true
layer {
  name: 'source' type: 'DummyData' top: 'image' top: 'class'
  dummy_data_param {
    shape { dim: 6 dim: 3 dim: 5 dim: 4 } shape { dim: 6 }
    data_filler { type: 'uniform' min: -1 max: 1 } data_filler { value: 0 }
  }
}
layer {
  name: 'conv' type: 'Convolution' bottom: 'image' top: 'conv'
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param {
    num_output: 4 kernel_size: 3 pad: 1
    weight_filler { type: 'xavier' } bias_filler { value: 0.5 }
  }
}
layer {
  name: 'score' type: 'InnerProduct' bottom: 'conv' top: 'score'
  inner_product_param {
    num_output: %d
    weight_filler { type: 'gaussian' std: 0.5 } bias_filler { value: -1 }
  }
}
layer {
  name: 'loss' type: 'SoftmaxWithLoss'
  bottom: 'score' bottom: 'class' top: 'loss'
}
"""

# y = x w + b with inputs.
LINEAR = """name: 'linear' force_backward: true
input: 'x' input_shape { dim: 2 dim: 3 }
layer { type: 'InnerProduct' name: 'ip' bottom: 'x' top: 'y'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
"""


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, text, name='net.prototxt'):
        with open(self.path(name), 'w') as out:
            out.write(text)
        return self.path(name)

    def net(self, text, phase=caffe.TRAIN, **more):
        return caffe.Net(self.file(text), phase, **more)
