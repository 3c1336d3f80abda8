"""Classifier: a net that takes images as files hold them."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np

import caffe


class Classifier(caffe.Net):
    """A net for classifying images: caffe.Net with the preparation of its
    first input.

    Images are resized to `image_dims` (height, width; those of the input
    unless given), and crops of the input's size are taken from them.  The
    other settings are those of caffe.io.Transformer."""

    def __init__(self, model_file: str, pretrained_file: str,
                 image_dims: Optional[Sequence[int]] = None,
                 mean: Optional[np.ndarray] = None,
                 input_scale: Optional[float] = None,
                 raw_scale: Optional[float] = None,
                 channel_swap: Optional[Sequence[int]] = None) -> None:
        caffe.Net.__init__(self, model_file, caffe.TEST,
                           weights=pretrained_file)
        in_ = self.inputs[0]
        shape = tuple(self.blobs[in_].data.shape)
        self.transformer = caffe.io.Transformer({in_: shape})
        self.transformer.set_transpose(in_, (2, 0, 1))
        if mean is not None:
            self.transformer.set_mean(in_, mean)
        if input_scale is not None:
            self.transformer.set_input_scale(in_, input_scale)
        if raw_scale is not None:
            self.transformer.set_raw_scale(in_, raw_scale)
        if channel_swap is not None:
            self.transformer.set_channel_swap(in_, channel_swap)
        self.crop_dims = np.array(shape[2:])
        self.image_dims = (self.crop_dims if image_dims is None
                           else image_dims)

    def predict(self, inputs: Sequence[np.ndarray],
                oversample: bool = True) -> np.ndarray:
        """The net's first output for each image, n x classes.

        With `oversample` it is the mean over ten crops of each image (the
        corners, the centre, their mirror images), otherwise what the
        centre crop gives."""
        images = np.stack([caffe.io.resize_image(image, self.image_dims)
                           for image in inputs])
        if oversample:
            crops = caffe.io.oversample(images, self.crop_dims)
        else:
            crops = self._centers(images)
        in_ = self.inputs[0]
        data = np.stack([self.transformer.preprocess(in_, crop)
                         for crop in crops])
        out = self.forward_all(**{in_: data})
        predictions = out[self.outputs[0]]
        if oversample:
            predictions = predictions.reshape(len(images), 10, -1).mean(1)
        return predictions

    def _centers(self, images: np.ndarray) -> np.ndarray:
        rows, cols = images.shape[1:3]
        height, width = self.crop_dims
        if height > rows or width > cols:
            raise ValueError("the net takes %d x %d, which does not fit into "
                             "image_dims %d x %d"
                             % (height, width, rows, cols))
        y, x = (rows - height) // 2, (cols - width) // 2
        return images[:, y:y + height, x:x + width]
