"""caffe.coord_map: maps and crops in numbers by hand."""

import unittest

import numpy as np

import caffe
from caffe import layers as L
from caffe import params as P
from caffe.coord_map import (
    AxisMismatchException, UndefinedMapException, compose, conv_params,
    coord_map, coord_map_from_to, crop, crop_params, inverse)


def up_and_down(pool=2, pad=0, up_pad=0):
    """3x3 convolution, pooling, and deconvolution back to that size."""
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[2, 1, 100, 100]))
    n.conv = L.Convolution(n.data, num_output=10, kernel_size=3, pad=pad)
    n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=pool,
                       stride=pool)
    n.up = L.Deconvolution(n.pool, num_output=10, kernel_size=2 * pool,
                           stride=pool, pad=up_pad)
    return n


class TestCoordMap(unittest.TestCase):
    def check(self, found, axis, a, b):
        self.assertEqual(found[0], axis)
        np.testing.assert_allclose(np.ravel(found[1]), np.ravel(a))
        np.testing.assert_allclose(np.ravel(found[2]), np.ravel(b))

    def test_parameters_of_windows(self):
        data = L.Input()
        conv = L.Convolution(data, kernel_size=[3, 5], dilation=2, pad=[0, 1])
        axis, stride, kernel, pad = conv_params(conv.fn)
        self.assertEqual((axis, stride.tolist(), kernel.tolist(),
                          pad.tolist()), (1, [1], [5, 9], [0, 1]))
        inner = L.Deconvolution(data, convolution_param=dict(
            kernel_size=4, stride=2, axis=2))
        axis, stride, kernel, pad = conv_params(inner.fn)
        self.assertEqual((axis, stride.tolist(), kernel.tolist(),
                          pad.tolist()), (2, [2], [4], [0]))
        with self.assertRaises(AssertionError):
            conv_params(L.Pooling(data, kernel_h=3, kernel_w=2).fn)
        cut = L.Crop(data, data, offset=[1, 2])
        self.assertEqual(crop_params(cut.fn)[0], 2)
        self.assertEqual(crop_params(cut.fn)[1].tolist(), [1, 2])

    def test_map_of_each_kind_of_layer(self):
        data = L.Input()
        conv = L.Convolution(data, kernel_size=5, stride=2, pad=1)
        self.check(coord_map(conv.fn), 1, 0.5, -0.5)
        up = L.Deconvolution(data, kernel_size=4, stride=2, pad=1)
        self.check(coord_map(up.fn), 1, 2, 0.5)
        self.check(coord_map(L.Crop(data, data, axis=2, offset=3).fn),
                   1, 1, -3)
        self.assertEqual(coord_map(L.ReLU(data).fn), (None, 1, 0))
        with self.assertRaises(UndefinedMapException):
            coord_map(L.InnerProduct(data).fn)
        with self.assertRaises(UndefinedMapException):
            coord_map(L.Pooling(data, global_pooling=True).fn)

    def test_compose_and_inverse(self):
        # x -> 3 x + 1, then 2 y + 5.
        self.check(compose((1, 2, 5), (1, 3, 1)), 1, 6, 7)
        self.check(compose((None, 2, 5), (1, 3, 1)), 1, 6, 7)
        self.check(compose((1, 2, 5), (None, 3, 1)), 1, 6, 7)
        self.check(inverse((1, 2, 5)), 1, 0.5, -2.5)
        with self.assertRaises(AxisMismatchException):
            compose((1, 2, 5), (2, 3, 1))

    def test_down_and_up_again(self):
        n = up_and_down()
        self.check(coord_map_from_to(n.up, n.data), 1, 1, 0)
        n = up_and_down(pool=4)
        self.check(coord_map_from_to(n.up, n.data), 1, 1, -1)
        self.check(coord_map_from_to(n.data, n.up), 1, 1, 1)

    def test_padding_moves_the_map(self):
        self.check(coord_map_from_to(*self.ends(pad=7)), 1, 1, -7)
        self.check(coord_map_from_to(*self.ends(up_pad=7)), 1, 1, 7)
        self.check(coord_map_from_to(*self.ends(pad=7, up_pad=7)), 1, 1, 0)

    def ends(self, **settings):
        n = up_and_down(**settings)
        return n.up, n.data

    def test_siblings_meet_at_their_parent(self):
        data = L.Input()
        left = L.Convolution(data, kernel_size=1, pad=4)
        right = L.Convolution(data, kernel_size=1, pad=1)
        self.check(coord_map_from_to(left, right), 1, 1, -3)

    def test_axes_that_differ(self):
        data = L.Input(shape=dict(dim=[2, 3, 9, 9, 9]))
        conv = L.Convolution(data, kernel_size=[3, 3, 5], pad=[0, 1, 4],
                             stride=[1, 1, 2])
        self.check(coord_map_from_to(conv, data), 1, [1, 1, 2], [1, 0, -2])

    def test_crop_sets_axis_and_offset(self):
        n = up_and_down(pad=7)
        n.crop = crop(n.up, n.data)
        param = n.to_proto().layer[-1].crop_param
        self.assertEqual(param.axis, 2)
        self.assertEqual(list(param.offset), [7])
        self.check(coord_map_from_to(n.crop, n.data), 1, 1, 0)

    def test_crop_does_not_follow_its_second_bottom(self):
        one, two = L.Input(), L.Input()
        cut = L.Crop(one, two, axis=2, offset=1)
        with self.assertRaises(RuntimeError):
            coord_map_from_to(cut, two)

    def test_crop_after_strides_that_floats_miss(self):
        self.assertNotEqual(1 / 49 * 49, 1)
        data = L.Input()
        down = L.Convolution(data, kernel_size=1, stride=49, pad=98)
        up = L.Deconvolution(down, kernel_size=1, stride=49)
        self.assertEqual(crop(up, data).fn.params["crop_param"],
                         dict(axis=2, offset=[98]))

    def test_refusals(self):
        n = up_and_down()
        with self.assertRaisesRegex(AssertionError, "scale"):
            crop(n.pool, n.data)
        with self.assertRaisesRegex(AssertionError, "negative"):
            crop(*self.ends(up_pad=1))
        n.half = L.Convolution(n.data, kernel_size=2, pad=1)
        with self.assertRaisesRegex(AssertionError, "noninteger"):
            crop(n.half, n.data)
        with self.assertRaises(RuntimeError):
            coord_map_from_to(L.InnerProduct(n.up), n.data)

    def test_many_paths_are_walked_once(self):
        data = top = L.Input()
        for _ in range(200):
            top = L.Eltwise(top, top)
        self.check(coord_map_from_to(top, data), None, 1, 0)


if __name__ == "__main__":
    unittest.main()
