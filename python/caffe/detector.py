"""Detector: a net that looks at windows of images, as R-CNN does."""

from __future__ import annotations

import os
from typing import Any, Iterable, Optional, Sequence

import numpy as np

import caffe

Window = Sequence[int]          # ymin, xmin, ymax, xmax


class Detector(caffe.Net):
    """A net for windows of images: caffe.Net with the preparation of its
    first input.

    A window is warped to the input's size.  With `context_pad` that many
    pixels of the input on each side show what lies around the window, and
    the mean where the image ends.  The other settings are those of
    caffe.io.Transformer."""

    def __init__(self, model_file: str, pretrained_file: str,
                 mean: Optional[np.ndarray] = None,
                 input_scale: Optional[float] = None,
                 raw_scale: Optional[float] = None,
                 channel_swap: Optional[Sequence[int]] = None,
                 context_pad: Optional[int] = None) -> None:
        caffe.Net.__init__(self, model_file, caffe.TEST,
                           weights=pretrained_file)
        in_ = self.inputs[0]
        self.transformer = caffe.io.Transformer(
            {in_: tuple(self.blobs[in_].data.shape)})
        self.transformer.set_transpose(in_, (2, 0, 1))
        if mean is not None:
            self.transformer.set_mean(in_, mean)
        if input_scale is not None:
            self.transformer.set_input_scale(in_, input_scale)
        if raw_scale is not None:
            self.transformer.set_raw_scale(in_, raw_scale)
        if channel_swap is not None:
            self.transformer.set_channel_swap(in_, channel_swap)
        self.configure_crop(context_pad)

    def detect_windows(
            self, images_windows: Iterable[tuple[str, Iterable[Window]]]
    ) -> list[dict[str, Any]]:
        """What the net's first output says of each window.

        Takes pairs of an image file and its windows (ymin, xmin, ymax,
        xmax); gives a dict of 'window', 'prediction' and 'filename' for
        each window, in order."""
        found: list[dict[str, Any]] = []
        inputs = []
        in_ = self.inputs[0]
        for filename, windows in images_windows:
            image = caffe.io.load_image(filename)
            for window in windows:
                crop = self.crop(image, window)
                inputs.append(self.transformer.preprocess(in_, crop))
                found.append({"window": window, "filename": filename})
        if not found:
            return found
        out = self.forward_all(**{in_: np.stack(inputs)})
        for detection, prediction in zip(found, out[self.outputs[0]]):
            detection["prediction"] = prediction
        return found

    def detect_selective_search(
            self, image_fnames: Iterable[str]) -> list[dict[str, Any]]:
        """detect_windows on the windows that Selective Search proposes.

        The proposals come from the module of Sergey Karayev and Ross
        Girshick, which runs MATLAB."""
        try:
            import selective_search_ijcv_with_python as selective_search
        except ImportError as error:
            raise ImportError(
                "window proposals need the module "
                "selective_search_ijcv_with_python (and MATLAB); without it, "
                "list the windows yourself and call detect_windows"
            ) from error
        # MATLAB runs in a folder of its own.
        files = [os.path.abspath(name) for name in image_fnames]
        windows = selective_search.get_windows(files,
                                               cmd="selective_search_rcnn")
        return self.detect_windows(zip(files, windows))

    def crop(self, im: np.ndarray, window: Window) -> np.ndarray:
        """The window of an image; with context_pad, what lies around it
        too, at the input's size."""
        y0, x0, y1, x1 = (int(n) for n in window)
        if not self.context_pad:
            return im[y0:y1, x0:x1]
        ys, y_at = self._with_context(y0, y1, 0, im.shape[0])
        xs, x_at = self._with_context(x0, x1, 1, im.shape[1])
        patch = caffe.io.resize_image(
            im[ys, xs], (y_at.stop - y_at.start, x_at.stop - x_at.start))
        crop = np.empty(self.crop_dims, dtype=np.float32)
        crop[...] = self.crop_mean
        crop[y_at, x_at] = patch
        return crop

    def _with_context(self, low: int, high: int, axis: int,
                      n_image: int) -> tuple[slice, slice]:
        """Along one axis: the part of the image that a window and its
        context cover, and where in the crop that part belongs."""
        n_crop = int(self.crop_dims[axis])
        half = (high - low + 1) / 2
        reach = half * n_crop / (n_crop - 2 * self.context_pad)
        first = int(np.round(low + half - reach))
        last = int(np.round(low + half + reach))
        scale = n_crop / (last - first + 1)
        start = round(max(0, -first) * scale)
        first, last = (min(max(n, 0), n_image) for n in (first, last))
        size = min(round((last - first + 1) * scale), n_crop - start)
        if last <= first or size <= 0:
            raise ValueError("the window from %d to %d lies outside of an "
                             "image of %d" % (low, high, n_image))
        return slice(first, last), slice(start, start + size)

    def configure_crop(self, context_pad: Optional[int]) -> None:
        """Set the pixels of context on each side (None or 0: none), from
        the settings that the transformer has by then."""
        in_ = self.inputs[0]
        shape = self.transformer.inputs[in_][1:]
        order = np.argsort(self.transformer.transpose[in_])
        self.crop_dims = np.array(shape)[order]
        if context_pad and 2 * context_pad >= min(self.crop_dims[:2]):
            raise ValueError("context_pad %d leaves nothing of the window in "
                             "an input of %d x %d"
                             % (context_pad, *self.crop_dims[:2]))
        self.context_pad = context_pad
        # The picture of which the net sees zeros, that is, the mean.
        self.crop_mean = self.transformer.deprocess(
            in_, np.zeros(shape, dtype=np.float32))
