"""Python layers in the manner of py-faster-rcnn: parameters as text under the
older name, settings by the name of the phase, a data layer that is handed its
images through the solver, tops that change their shape in every pass."""

import numpy as np

import caffe
from common import Case

SETTINGS = {'TRAIN': {'regions': 6}, 'TEST': {'regions': 3}}


class RoIDataLayer(caffe.Layer):
    """Blobs of one image a pass, by name."""

    def set_roidb(self, roidb):
        self._roidb, self._next = roidb, 0

    def setup(self, bottom, top):
        params = dict(pair.split(':') for pair in self.param_str_.split(','))
        self._num_classes = int(params["'num_classes'"])
        self._tops = {'data': 0, 'im_info': 1, 'gt_boxes': 2}
        top[0].reshape(1, 1, 16, 16)
        top[1].reshape(1, 3)
        top[2].reshape(1, 5)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        image = self._roidb[self._next % len(self._roidb)]
        self._next += 1
        for name, blob in image.items():
            index = self._tops[name]
            top[index].reshape(*blob.shape)
            top[index].data[...] = blob.astype(np.float32, copy=False)

    def backward(self, top, propagate_down, bottom):
        pass


class ProposalLayer(caffe.Layer):
    """Boxes around the ground truth and elsewhere, as many as the phase
    says."""

    def setup(self, bottom, top):
        top[0].reshape(1, 5)
        top[1].reshape(1)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        n = SETTINGS[str(self.phase)]['regions']
        height, width = bottom[0].data[0, :2]
        box = bottom[1].data[0, :4]
        rois = np.zeros((n, 5), np.float32)
        rois[:, 3:] = width - 1, height - 1
        rois[: n // 2, 1:] = box
        rois[n // 2:, 1:] = (box + 8) % 16
        rois[n // 2:, 3:] = rois[n // 2:, 1:3] + 3
        top[0].reshape(*rois.shape)
        top[0].data[...] = rois
        top[1].reshape(n)
        top[1].data[...] = np.arange(n) < n // 2

    def backward(self, top, propagate_down, bottom):
        pass


NET = """
layer { name: 'input-data' type: 'Python' top: 'data' top: 'im_info'
  top: 'gt_boxes' python_param { module: 'test_rcnn_layers'
  layer: 'RoIDataLayer' param_str: "'num_classes':2" } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 4 kernel_size: 3 pad: 1
  weight_filler { type: 'msra' } } }
layer { name: 'proposal' type: 'Python' bottom: 'im_info' bottom: 'gt_boxes'
  top: 'rois' top: 'labels' python_param { module: 'test_rcnn_layers'
  layer: 'ProposalLayer' } }
layer { name: 'pool' type: 'ROIPooling' bottom: 'conv' bottom: 'rois'
  top: 'pool' roi_pooling_param { pooled_h: 2 pooled_w: 2 } }
layer { name: 'score' type: 'InnerProduct' bottom: 'pool' top: 'score'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'labels'
  top: 'loss' propagate_down: true propagate_down: false }
"""


def draw(at, size):
    """An image of `size` pixels with a bright 4 x 4 square."""
    data = np.zeros((1, 1, size, size))
    data[0, 0, at:at + 4, at:at + 4] = 1
    return {'data': data, 'im_info': np.array([[size, size, 1]]),
            'gt_boxes': np.array([[at, at, at + 3, at + 3, 1]])}


class RcnnLayers(Case):

    def solver(self):
        net = self.file(NET)
        return caffe.SGDSolver(self.file("""
            net: '%s' base_lr: 0.1 lr_policy: 'fixed' random_seed: 3
            max_iter: 60 snapshot_after_train: false""" % net, 'solver.prototxt'))

    def test_a_net_of_them_learns(self):
        solver = self.solver()
        solver.net.layers[0].set_roidb([draw(2, 16), draw(5, 20)])
        solver.step(1)
        first = float(solver.net.blobs['loss'].data)
        solver.step(59)
        self.assertEqual(solver.net.blobs['rois'].data.shape, (6, 5))
        self.assertLess(float(solver.net.blobs['loss'].data), 0.2 * first)

    def test_a_phase_has_a_name_and_a_number(self):
        net = caffe.Net(self.file(NET), caffe.TEST)
        self.assertEqual(str(net.layers[0].phase), 'TEST')
        self.assertEqual(net.layers[0].phase, caffe.TEST)
        net.layers[0].set_roidb([draw(2, 16)])
        net.forward()
        self.assertEqual(net.blobs['rois'].data.shape, (3, 5))
