"""caffe.io: messages, net inputs and images, in numbers by hand."""

import os
import shutil
import struct
import sys
import tempfile
import unittest
import zlib
from unittest import mock

import numpy as np

import caffe
import caffe.io
from caffe import imagenet_mean
from caffe.proto import caffe_pb2


def png(path, rows):
    """Write 8-bit rows of (r, g, b) or gray values, by the PNG text."""
    color = 2 if isinstance(rows[0][0], tuple) else 0

    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body
                + struct.pack(">I", zlib.crc32(kind + body)))

    lines = b"".join(b"\0" + bytes(np.array(row, np.uint8)) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, color, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
                   + chunk(b"IDAT", zlib.compress(lines))
                   + chunk(b"IEND", b""))


class TestMessages(unittest.TestCase):
    def test_blob_keeps_values_shape_and_diff(self):
        x = np.arange(24).reshape(2, 3, 4)
        blob = caffe.io.array_to_blobproto(x, -x)
        self.assertEqual(list(blob.shape.dim), [2, 3, 4])
        np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), x)
        np.testing.assert_array_equal(
            caffe.io.blobproto_to_array(blob, return_diff=True), -x)

    def test_blob_with_four_legacy_numbers(self):
        blob = caffe_pb2.BlobProto(num=1, channels=1, height=2, width=3,
                                   data=range(6))
        array = caffe.io.blobproto_to_array(blob)
        self.assertEqual(array.shape, (1, 1, 2, 3))
        self.assertEqual(array[0, 0, 1, 0], 3)

    def test_blob_without_shape_is_one_value_or_an_error(self):
        one = caffe_pb2.BlobProto(data=[123])
        self.assertEqual(caffe.io.blobproto_to_array(one), 123)
        with self.assertRaises(ValueError):
            caffe.io.blobproto_to_array(caffe_pb2.BlobProto(data=[1, 2]))

    def test_blob_of_doubles(self):
        blob = caffe_pb2.BlobProto(double_data=[1, 2])
        blob.shape.dim.append(2)
        self.assertEqual(caffe.io.blobproto_to_array(blob).tolist(), [1, 2])

    def test_a_list_of_arrays_through_bytes(self):
        arrays = [np.ones((2, 2)), np.array([3.0, 4.0, 5.0])]
        data = caffe.io.arraylist_to_blobprotovector_str(arrays)
        self.assertIsInstance(data, bytes)
        back = caffe.io.blobprotovector_str_to_arraylist(data)
        self.assertEqual(len(back), 2)
        for ours, theirs in zip(back, arrays):
            np.testing.assert_array_equal(ours, theirs)

    def test_datum_of_bytes_holds_bytes(self):
        x = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
        datum = caffe.io.array_to_datum(x, label=7)
        self.assertEqual(datum.data, bytes(range(12)))
        self.assertEqual((datum.channels, datum.height, datum.width,
                          datum.label), (3, 2, 2, 7))
        back = caffe.io.datum_to_array(datum)
        self.assertEqual(back.dtype, np.uint8)
        back[0, 0, 0] = 9       # a copy, so it can be written
        np.testing.assert_array_equal(back.ravel()[1:], range(1, 12))

    def test_datum_of_floats(self):
        x = np.array([[[0.5, -1.5]]])
        datum = caffe.io.array_to_datum(x)
        self.assertEqual(list(datum.float_data), [0.5, -1.5])
        self.assertFalse(datum.HasField("label"))
        np.testing.assert_array_equal(caffe.io.datum_to_array(datum), x)

    def test_datum_refuses_other_shapes_and_encoded_images(self):
        with self.assertRaises(ValueError):
            caffe.io.array_to_datum(np.zeros((2, 2)))
        with self.assertRaises(ValueError):
            caffe.io.datum_to_array(caffe_pb2.Datum(encoded=True, data=b"x"))


class TestImagenetMean(unittest.TestCase):
    """The file that scripts load."""

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.out = os.path.join(folder, "imagenet", "mean.npy")

    def test_without_a_file_it_is_the_mean_colour(self):
        imagenet_mean.make(out=self.out)
        mean = np.load(self.out)
        self.assertEqual(mean.shape, (3, 256, 256))
        np.testing.assert_allclose(mean.mean(1).mean(1), [104, 116.7, 122.7],
                                   atol=0.05)

    def test_what_compute_image_mean_wrote_is_kept(self):
        image = np.arange(24.0).reshape(1, 3, 2, 4)
        path = os.path.join(os.path.dirname(os.path.dirname(self.out)), "m")
        with open(path, "wb") as file:
            file.write(caffe.io.array_to_blobproto(image).SerializeToString())
        imagenet_mean.make(path, self.out)
        np.testing.assert_array_equal(np.load(self.out), image[0])


class TestTransformer(unittest.TestCase):
    """A 1 x 2 image of two pixels, (1, 2, 3) and (4, 5, 6)."""

    def setUp(self):
        self.image = np.array([[[1, 2, 3], [4, 5, 6]]], dtype=np.float32)
        self.t = caffe.io.Transformer({"data": (1, 3, 1, 2)})
        self.t.set_transpose("data", (2, 0, 1))

    def test_each_step_in_its_order(self):
        self.t.set_input_scale("data", 10)
        self.t.set_mean("data", np.array([1.0, 2.0, 3.0]))
        self.t.set_raw_scale("data", 2)
        self.t.set_channel_swap("data", (2, 1, 0))
        before = self.image.copy()
        x = self.t.preprocess("data", self.image)
        # Blue first: ((3, 6) * 2 - 1) * 10, and so on.
        self.assertEqual(x.tolist(), [[[50, 110]], [[20, 80]], [[-10, 50]]])
        self.assertEqual(x.dtype, np.float32)
        np.testing.assert_array_equal(self.image, before)
        np.testing.assert_allclose(self.t.deprocess("data", x[np.newaxis]),
                                   before, rtol=1e-6)

    def test_nothing_set_leaves_the_caller_its_array(self):
        t = caffe.io.Transformer({"data": (1, 1, 1, 2)})
        t.set_raw_scale("data", 3)
        image = np.ones((1, 2, 1), dtype=np.float32)
        self.assertEqual(t.preprocess("data", image).ravel().tolist(), [3, 3])
        self.assertEqual(image.ravel().tolist(), [1, 1])

    def test_whole_mean_and_swap_that_is_no_mirror(self):
        self.t.set_channel_swap("data", (1, 2, 0))
        self.t.set_mean("data", np.arange(6.0).reshape(3, 1, 2))
        x = self.t.preprocess("data", self.image)
        self.assertEqual(x.tolist(), [[[2, 4]], [[1, 3]], [[-3, -1]]])
        np.testing.assert_array_equal(self.t.deprocess("data", x),
                                      self.image)

    def test_one_channel_comes_back_with_its_axes(self):
        t = caffe.io.Transformer({"data": (1, 1, 1, 2)})
        t.set_transpose("data", (2, 0, 1))
        t.set_mean("data", np.array([[1.0, 2.0]]))
        x = t.preprocess("data", np.array([[[5.0], [5.0]]]))
        self.assertEqual(x.tolist(), [[[4, 3]]])
        self.assertEqual(t.deprocess("data", x[np.newaxis]).tolist(),
                         [[[5], [5]]])

    def test_image_of_another_size_is_resized(self):
        x = self.t.preprocess("data", np.full((5, 7, 3), 2.0))
        self.assertEqual(x.shape, (3, 1, 2))

    def test_mean_of_another_size_is_resized(self):
        # Halved both ways, a value is the mean of four.
        mean = np.arange(24.0).reshape(3, 2, 4)
        self.t.set_mean("data", mean)
        np.testing.assert_allclose(
            self.t.mean["data"],
            mean.reshape(3, 1, 2, 2, 2).mean(axis=(2, 4)), rtol=1e-6)
        self.t.set_mean("data", np.full((3, 8, 8), 7.0))
        self.assertTrue((self.t.mean["data"] == 7).all())

    def test_refusals(self):
        for mean in (np.zeros(2), np.zeros((2, 2, 2)), np.zeros((1, 2)),
                     np.zeros((1, 3, 1, 2))):
            with self.assertRaises(ValueError):
                self.t.set_mean("data", mean)
        with self.assertRaisesRegex(Exception, "lable"):
            self.t.set_raw_scale("lable", 1)
        with self.assertRaises(Exception):
            self.t.set_transpose("data", (1, 0))
        with self.assertRaises(Exception):
            self.t.set_channel_swap("data", (1, 0))


class TestImages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.color = os.path.join(folder.name, "two colours.png")
        self.gray = os.path.join(folder.name, "gray.png")
        png(self.color, [[(255, 0, 0), (0, 51, 255)]])
        png(self.gray, [[0, 51], [255, 102]])

    def check_images(self):
        color = caffe.io.load_image(self.color)
        self.assertEqual(color.dtype, np.float32)
        np.testing.assert_allclose(color, [[[1, 0, 0], [0, 0.2, 1]]],
                                   rtol=1e-6)
        gray = caffe.io.load_image(self.color, color=False)
        np.testing.assert_allclose(gray, [[[0.2125], [0.21518]]], rtol=1e-5)
        tripled = caffe.io.load_image(self.gray)
        np.testing.assert_allclose(
            tripled, np.repeat([[[0], [0.2]], [[1], [0.4]]], 3, 2), rtol=1e-6)

    def test_load_by_pillow(self):
        try:
            import PIL
        except ImportError:
            self.skipTest("no Pillow")
        self.assertTrue(PIL)
        self.check_images()
        one = caffe.io.load_image(self.gray, color=False)
        self.assertEqual(one.shape, (2, 2, 1))

    @unittest.skipUnless(hasattr(caffe, "Net"), "no engine")
    def test_load_by_the_engine(self):
        with mock.patch.dict(sys.modules, {"PIL": None}):
            self.check_images()

    def test_missing_file_is_said(self):
        with self.assertRaisesRegex(FileNotFoundError, "no_such.png"):
            caffe.io.load_image("no_such.png")

    def test_halving_takes_means_of_four(self):
        im = np.arange(16.0).reshape(4, 4, 1)
        self.assertEqual(caffe.io.resize_image(im, (2, 2)).ravel().tolist(),
                         [2.5, 4.5, 10.5, 12.5])

    def test_doubling_blends_with_the_smallest_value_at_borders(self):
        im = np.array([[[0.0], [8.0]]])
        wide = caffe.io.resize_image(im, (1, 4))
        self.assertEqual(wide.ravel().tolist(), [0, 2, 6, 6])
        self.assertEqual(wide.dtype, np.float32)

    def test_arrays_that_are_no_images_keep_their_corners(self):
        im = np.zeros((2, 1, 2))
        im[1] = 4, 8
        out = caffe.io.resize_image(im, (5, 1))
        self.assertEqual(out[:, 0, 0].tolist(), [0, 1, 2, 3, 4])
        self.assertEqual(out[:, 0, 1].tolist(), [0, 2, 4, 6, 8])

    def test_nearest_constant_and_flat_images(self):
        im = np.array([[1.0, 5.0]])
        near = caffe.io.resize_image(im, (2, 4), interp_order=0)
        self.assertEqual(near.tolist(), [[1, 1, 5, 5], [1, 1, 5, 5]])
        flat = caffe.io.resize_image(np.full((3, 3, 3), 7.0), (5, 4))
        self.assertEqual(flat.shape, (5, 4, 3))
        self.assertTrue((flat == 7).all())

    def test_bilinear_is_that_of_scikit_image(self):
        try:
            from scipy.ndimage import zoom
            from skimage.transform import resize
        except ImportError:
            self.skipTest("no scikit-image")
        im = np.random.RandomState(1).rand(7, 10, 3)
        im -= im.min()
        for dims in ((3, 4), (16, 23), (7, 21)):
            np.testing.assert_allclose(
                caffe.io.resize_image(im, dims),
                resize(im, dims, order=1, mode="constant",
                       anti_aliasing=False), atol=1e-6)
        many = np.random.RandomState(2).rand(4, 6, 5)
        np.testing.assert_allclose(
            caffe.io.resize_image(many, (8, 9)),
            zoom(many, (2, 1.5, 1), order=1), atol=1e-6)
        self.assertEqual(
            caffe.io.resize_image(im, (14, 20), interp_order=3).shape,
            (14, 20, 3))

    def test_oversample_takes_corners_centre_and_mirrors(self):
        # Pixel (y, x) of image k is 100 k + 10 y + x.
        im = np.add.outer(10 * np.arange(4), np.arange(5))[:, :, np.newaxis]
        crops = caffe.io.oversample([im, im + 100], (2, 3))
        self.assertEqual(crops.shape, (20, 2, 3, 1))
        first = [int(crop[0, 0, 0]) for crop in crops]
        corners = [0, 2, 20, 22, 11]
        mirrors = [n + 2 for n in corners]
        self.assertEqual(first, corners + mirrors
                         + [100 + n for n in corners + mirrors])
        self.assertEqual(crops[9, :, :, 0].tolist(),
                         [[13, 12, 11], [23, 22, 21]])

    def test_oversample_refuses_crops_that_do_not_fit(self):
        with self.assertRaises(ValueError):
            caffe.io.oversample([np.zeros((4, 4, 3))], (5, 4))


if __name__ == "__main__":
    unittest.main()
