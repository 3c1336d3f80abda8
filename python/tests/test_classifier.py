"""Classifier and Detector on a net that gives the mean of each channel."""

import io
import os
import runpy
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

import numpy as np

import caffe

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
SIZE = 4
NET = """
    layer { name: "data" type: "Input" top: "data"
      input_param { shape { dim: 3 dim: 3 dim: %d dim: %d } } }
    layer { name: "mean" type: "Pooling" bottom: "data" top: "mean"
      pooling_param { pool: AVE global_pooling: true } }
    layer { name: "out" type: "Scale" bottom: "mean" top: "out"
      scale_param { filler { value: 1 } } }
""" % (SIZE, SIZE)


def ramp(rows, cols):
    """Red is y, green is x, blue is 1."""
    im = np.ones((rows, cols, 3), dtype=np.float32)
    im[:, :, 0] = np.arange(rows)[:, np.newaxis]
    im[:, :, 1] = np.arange(cols)
    return im


@unittest.skipUnless(hasattr(caffe, "Net"), "no engine")
class EngineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = self.path("net.prototxt")
        self.weights = self.path("net.caffemodel")
        with open(self.model, "w") as file:
            file.write(NET)
        caffe.Net(self.model, caffe.TEST).save(self.weights)

    def path(self, name):
        return os.path.join(self.folder, name)

    def near(self, found, expected):
        np.testing.assert_allclose(np.reshape(found, np.shape(expected)),
                                   expected, rtol=1e-5, atol=1e-5)

    def run_script(self, name, *args):
        """What a script says; it runs here, on the caffe tested here."""
        argv = [name, *args, "--model_def", self.model,
                "--pretrained_model", self.weights]
        said = io.StringIO()
        with mock.patch.object(sys, "argv", argv), redirect_stdout(said):
            runpy.run_path(os.path.join(SCRIPTS, name),
                           run_name="__main__")
        return said.getvalue()


class TestClassifier(EngineTest):
    def test_centre_crop(self):
        net = caffe.Classifier(self.model, self.weights, image_dims=(6, 8))
        images = [ramp(6, 8), 10 * ramp(6, 8)]
        # Rows 1 to 4 and columns 2 to 5.
        self.near(net.predict(images, oversample=False),
                  [[2.5, 3.5, 1], [25, 35, 10]])

    def test_ten_crops_are_averaged(self):
        net = caffe.Classifier(self.model, self.weights, image_dims=(6, 9))
        # Crops begin in columns 0 5 0 5 2: their mean is 2.4, and their
        # middle 1.5 further; rows 0 0 2 2 1 give 1.
        self.near(net.predict([ramp(6, 9)] * 4), [[2.5, 3.9, 1]] * 4)

    def test_settings_reach_the_input(self):
        net = caffe.Classifier(
            self.model, self.weights, mean=np.array([1.0, 2.0, 3.0]),
            input_scale=0.5, raw_scale=10, channel_swap=(2, 1, 0))
        self.near(net.predict([ramp(4, 4)], oversample=False),
                  [[4.5, 6.5, 6]])

    def test_images_smaller_than_the_input_are_refused(self):
        net = caffe.Classifier(self.model, self.weights, image_dims=(3, 9))
        for oversample in (True, False):
            with self.assertRaises(ValueError):
                net.predict([ramp(3, 9)], oversample)

    def test_script(self):
        np.save(self.path("in.npy"), ramp(6, 8)[np.newaxis])
        out = self.path("out.npy")
        common = ["--images_dim", "6,8", "--raw_scale", "2",
                  "--center_only", self.path("in.npy"), out]
        said = self.run_script("classify.py", "--mean_file", "", *common)
        self.assertIn("Classifying 1 inputs.", said)
        self.near(np.load(out), [[2, 7, 5]])
        # A mean image of another size is resized.
        mean = np.zeros((1, 3, 12, 16))
        mean[0] = np.reshape((1, 2, 3), (3, 1, 1))
        blob = caffe.io.array_to_blobproto(mean)
        with open(self.path("mean.binaryproto"), "wb") as file:
            file.write(blob.SerializeToString())
        self.run_script("classify.py", "--mean_file",
                        self.path("mean.binaryproto"), *common)
        self.near(np.load(out), [[2 - 1, 7 - 2, 5 - 3]])


class TestDetector(EngineTest):
    def save_image(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow to write an image with")
        path = self.path("ramp.png")
        Image.fromarray(ramp(12, 12).astype(np.uint8)).save(path)
        return path

    def test_windows_are_cut_and_warped(self):
        image = self.save_image()
        net = caffe.Detector(self.model, self.weights, raw_scale=255)
        windows = [(0, 0, 4, 4), (2, 4, 6, 8), (4, 0, 12, 8), (0, 0, 4, 4)]
        found = net.detect_windows([(image, windows)])
        self.assertEqual([one["window"] for one in found], windows)
        self.assertEqual({one["filename"] for one in found}, {image})
        # Halving 8 x 8 to 4 x 4 keeps the mean.
        for one, expected in zip(found, ([1.5, 1.5, 1], [3.5, 5.5, 1],
                                         [7.5, 3.5, 1], [1.5, 1.5, 1])):
            self.near(one["prediction"], expected)
        self.assertEqual(net.detect_windows([]), [])

    def test_context_shows_the_surroundings(self):
        net = caffe.Detector(self.model, self.weights, context_pad=1)
        # Half 1.5 becomes 3 around centre 5.5: 2.5 to 8.5, whose even
        # neighbours are 2 and 8.  Of these 6 x 6 pixels 4 x 4 are made:
        # the scale is 4 / 7, and 7 * 4 / 7 is all of it.
        crop = net.crop(ramp(12, 12), (4, 4, 6, 6))
        self.assertEqual(crop.shape, (4, 4, 3))
        expected = caffe.io.resize_image(ramp(12, 12)[2:8, 2:8], (4, 4))
        self.near(crop, expected)

    def test_context_beyond_the_image_is_the_mean(self):
        mean = np.array([10.0, 20.0, 30.0])
        net = caffe.Detector(self.model, self.weights, mean=mean,
                             raw_scale=10, channel_swap=(2, 1, 0),
                             context_pad=1)
        # 0 to 2 is centred at 1.5 and reaches from -1.5, even -2, to 4.5,
        # even 4: scale 4 / 7, two pixels out become round(8 / 7) = 1.
        crop = net.crop(ramp(12, 12), np.array([0, 0, 2, 2]))
        for line in (crop[0], crop[:, 0]):
            self.near(line, [[3, 2, 1]] * 4)
        self.near(crop[1:, 1:],
                  caffe.io.resize_image(ramp(12, 12)[:4, :4], (3, 3)))
        # What the net sees of the border is zero.
        seen = net.transformer.preprocess("data", crop)
        self.near(seen[:, 0], np.zeros((3, 4)))

    def test_refusals(self):
        net = caffe.Detector(self.model, self.weights, context_pad=1)
        with self.assertRaises(ValueError):
            net.configure_crop(2)
        with self.assertRaises(ValueError):
            net.crop(ramp(12, 12), (20, 20, 22, 22))
        with self.assertRaisesRegex(ImportError, "selective_search_ijcv"):
            net.detect_selective_search(["a.png"])

    def test_script(self):
        image = self.save_image()
        windows, out = self.path("in.csv"), self.path("out.csv")
        with open(windows, "w") as file:
            file.write("filename,ymin,xmin,ymax,xmax\n%s,2,4,6,8\n" % image)
        said = self.run_script(
            "detect.py", "--crop_mode", "list", "--context_pad", "0",
            "--mean_file", "", "--channel_swap", "", windows, out)
        self.assertIn("Processed 1 windows", said)
        with open(out) as file:
            head, line = file.read().splitlines()
        self.assertEqual(head, "filename,ymin,xmin,ymax,xmax,"
                         "class0,class1,class2")
        self.assertTrue(line.startswith(image + ",2,4,6,8,"))
        self.near([float(n) for n in line.split(",")[5:]], [3.5, 5.5, 1])


if __name__ == "__main__":
    unittest.main()
