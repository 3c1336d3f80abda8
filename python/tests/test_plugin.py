"""Layer types from a plug-in, and the example's by numbers."""

import os
import unittest

import numpy as np

import caffe
from common import BUILD, Case

SOFTSIGN = os.path.join(BUILD, 'tests', 'plugins', 'softsign.so')
NET = """force_backward: true
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 5 } } }
layer { name: 's' type: 'Softsign' bottom: 'x' top: 'y'
  plugin_param { name: 'steepness' number: 2 }
  plugin_param { name: 'height' number: 3 } }
"""


@unittest.skipUnless(os.path.exists(SOFTSIGN), 'no plug-in in the build')
class TestPlugin(Case):

    def softsign(self):
        caffe.load_plugin(SOFTSIGN)
        net = self.net(NET, caffe.TEST)
        net.blobs['x'].data[:] = -2, -0.5, 0, 0.25, 3
        return net

    def test_its_type_is_there_and_loading_twice_is_fine(self):
        caffe.load_plugin(SOFTSIGN)
        caffe.load_plugin(SOFTSIGN)
        self.assertEqual(caffe.layer_type_list().count('Softsign'), 1)

    def test_forward_is_the_formula(self):
        net = self.softsign()
        x = net.blobs['x'].data.copy()
        np.testing.assert_allclose(net.forward()['y'],
                                   3 * 2 * x / (1 + 2 * np.abs(x)), rtol=1e-6)

    def test_backward_adds_to_the_parameter_and_overwrites_the_bottom(self):
        net = self.softsign()
        x = net.blobs['x'].data.copy()
        dy = np.array([1, -2, 3, 0.5, 2], np.float32)
        for _ in range(2):
            net.forward()
            net.blobs['y'].diff[:] = dy
            net.backward()
        below = 1 + 2 * np.abs(x)
        np.testing.assert_allclose(net.blobs['x'].diff,
                                   dy * 3 * 2 / below ** 2, rtol=1e-5)
        np.testing.assert_allclose(net.params['s'][0].diff,
                                   [2 * (dy * 2 * x / below).sum()],
                                   rtol=1e-5)

    def test_values_that_make_no_sense_are_refused(self):
        caffe.load_plugin(SOFTSIGN)
        self.assertRaisesRegex(caffe.Error, 'steepness must be above 0',
                               self.net, NET.replace('number: 2', 'number: 0'))
        self.assertRaisesRegex(caffe.Error, 'no/such', caffe.load_plugin,
                               'no/such.so')


if __name__ == '__main__':
    unittest.main()
