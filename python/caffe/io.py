"""Arrays to and from Caffe's messages, and images to and from net inputs.

An image here is an array of height x width x channels, 32-bit floats in
[0, 1], channels in the order R G B.  A net input is channels x height x
width; Transformer takes one to the other."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Iterable, Mapping, Optional, Sequence

import numpy as np

from .proto import caffe_pb2

# What a screen's red, green and blue add to its brightness (ITU-R 709).
LUMINANCE = np.array([0.2125, 0.7154, 0.0721])


# Messages

def blobproto_to_array(blob: Any, return_diff: bool = False) -> np.ndarray:
    """The values (or the diff) of a BlobProto, in its shape.

    Both ways to write a shape are read: `shape`, and the four numbers
    `num`, `channels`, `height`, `width`.  A blob without a shape is a
    scalar; one that then holds several values is a ValueError."""
    if return_diff:
        values = blob.diff or blob.double_diff
    else:
        values = blob.data or blob.double_data
    array = np.array(values, dtype=float)
    legacy = ("num", "channels", "height", "width")
    if any(blob.HasField(field) for field in legacy):
        return array.reshape([getattr(blob, field) for field in legacy])
    return array.reshape(list(blob.shape.dim))


def array_to_blobproto(arr: np.ndarray,
                       diff: Optional[np.ndarray] = None) -> Any:
    """A BlobProto of an array of any shape, with its diff if given."""
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(_floats(arr))
    if diff is not None:
        blob.diff.extend(_floats(diff))
    return blob


def arraylist_to_blobprotovector_str(arraylist: Iterable[np.ndarray]) -> bytes:
    """The bytes of a BlobProtoVector that holds the arrays."""
    vector = caffe_pb2.BlobProtoVector()
    vector.blobs.extend(array_to_blobproto(arr) for arr in arraylist)
    return vector.SerializeToString()


def blobprotovector_str_to_arraylist(string: bytes) -> list[np.ndarray]:
    """The arrays in the bytes of a BlobProtoVector."""
    vector = caffe_pb2.BlobProtoVector()
    vector.ParseFromString(string)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr: np.ndarray, label: Optional[int] = None) -> Any:
    """A Datum of an array of channels x height x width.

    Bytes stay bytes; any other type is stored as floats."""
    if arr.ndim != 3:
        raise ValueError("a Datum holds channels x height x width, and this "
                         "array has %d axes" % arr.ndim)
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(_floats(arr))
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum: Any) -> np.ndarray:
    """The array of a Datum, channels x height x width; uint8 or float."""
    if datum.encoded:
        raise ValueError("this Datum holds an encoded image (JPEG, PNG): "
                         "decode the bytes in its `data` instead")
    if len(datum.data):
        array = np.frombuffer(datum.data, dtype=np.uint8).copy()
    else:
        array = np.array(datum.float_data, dtype=float)
    return array.reshape(datum.channels, datum.height, datum.width)


def _floats(arr: np.ndarray) -> list[float]:
    return np.asarray(arr, dtype=float).ravel().tolist()


# Net inputs

class Transformer:
    """Turns images into what a net's inputs want, and back.

    `inputs` maps each input's name to its shape, N x K x H x W.  What is
    not set is not done; what is set is done in the order of `preprocess`,
    whatever the order of the calls."""

    def __init__(self, inputs: Mapping[str, Sequence[int]]) -> None:
        self.inputs = inputs
        self.transpose: dict[str, Sequence[int]] = {}
        self.channel_swap: dict[str, Sequence[int]] = {}
        self.raw_scale: dict[str, float] = {}
        self.mean: dict[str, np.ndarray] = {}
        self.input_scale: dict[str, float] = {}

    def _shape(self, in_: str) -> tuple[int, ...]:
        if in_ not in self.inputs:
            raise Exception("%s is not one of the net inputs: %s"
                            % (in_, ", ".join(self.inputs)))
        return tuple(self.inputs[in_])

    def preprocess(self, in_: str, data: np.ndarray) -> np.ndarray:
        """The input that an image makes: resized to the input's height and
        width, transposed, channels swapped, times raw_scale, minus the
        mean, times input_scale.  `data` itself is left as it is."""
        size = self._shape(in_)[2:]
        x = data.astype(np.float32, copy=False)
        if x.shape[:2] != size:
            x = resize_image(x, size)
        if in_ in self.transpose:
            x = x.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            x = x[list(self.channel_swap[in_])]
        if np.may_share_memory(x, data):
            x = x.copy()
        if in_ in self.raw_scale:
            x *= self.raw_scale[in_]
        if in_ in self.mean:
            x -= self.mean[in_]
        if in_ in self.input_scale:
            x *= self.input_scale[in_]
        return x

    def deprocess(self, in_: str, data: np.ndarray) -> np.ndarray:
        """The image that `preprocess` made into `data`, at its size there.

        Axes of length one are dropped, except where a mean, a transpose
        or a channel swap needs all three axes of a one-channel input."""
        rank = len(self._shape(in_)) - 1
        x = data.copy().squeeze()
        if any(in_ in setting for setting in
               (self.mean, self.transpose, self.channel_swap)):
            x = data.copy().reshape(data.shape[-rank:])
        if in_ in self.input_scale:
            x /= self.input_scale[in_]
        if in_ in self.mean:
            x += self.mean[in_]
        if in_ in self.raw_scale:
            x /= self.raw_scale[in_]
        if in_ in self.channel_swap:
            x = x[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            x = x.transpose(np.argsort(self.transpose[in_]))
        return x

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """The axes of the image in the input's order: (2, 0, 1) takes
        height x width x channels to channels x height x width."""
        if len(order) != len(self._shape(in_)) - 1:
            raise Exception("the transpose order needs one entry for each "
                            "axis of the input but the first")
        self.transpose[in_] = order

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """Where each channel of the input comes from: (2, 1, 0) makes
        B G R of R G B.  Only after a transpose that puts channels first."""
        if len(order) != self._shape(in_)[1]:
            raise Exception("the channel swap needs one entry for each "
                            "channel of the input")
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """A factor before the mean is taken off: 255 for nets that were
        trained on bytes."""
        self._shape(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_: str, mean: np.ndarray) -> None:
        """What to subtract: a value for each channel (one axis), a plane
        for a one-channel input (two), or a whole input (three), which is
        resized to the input's height and width."""
        shape = self._shape(in_)
        if mean.ndim == 1:
            if mean.shape[0] != shape[1]:
                raise ValueError("the mean has %d channels and input %s has "
                                 "%d" % (mean.shape[0], in_, shape[1]))
            mean = mean[:, np.newaxis, np.newaxis]
        else:
            if mean.ndim == 2:
                mean = mean[np.newaxis]
            if mean.ndim != 3:
                raise ValueError("a mean has one, two or three axes, not %d"
                                 % mean.ndim)
            if mean.shape[0] != shape[1]:
                raise ValueError("the mean has %d channels and input %s has "
                                 "%d" % (mean.shape[0], in_, shape[1]))
            if mean.shape != shape[1:]:
                mean = resize_image(mean.transpose(1, 2, 0),
                                    shape[2:]).transpose(2, 0, 1)
        self.mean[in_] = mean

    def set_input_scale(self, in_: str, scale: float) -> None:
        """A factor after the mean is taken off."""
        self._shape(in_)
        self.input_scale[in_] = scale


# Images

def load_image(filename: str, color: bool = True) -> np.ndarray:
    """An image file as height x width x 3 floats in [0, 1], R G B.

    With `color` off it is height x width x 1.  Alpha is dropped."""
    filename = os.fspath(filename)
    if not os.path.isfile(filename):
        raise FileNotFoundError("no image file %s" % filename)
    pixels = _read_pixels(filename)
    if pixels.ndim == 2:
        pixels = pixels[:, :, np.newaxis]
    if color and pixels.shape[2] == 1:
        pixels = np.tile(pixels, (1, 1, 3))
    elif not color and pixels.shape[2] == 3:
        pixels = (pixels @ LUMINANCE)[:, :, np.newaxis]
    return pixels.astype(np.float32)


def _read_pixels(filename: str) -> np.ndarray:
    """The pixels by Pillow, and without it by the engine's own decoder."""
    try:
        from PIL import Image
    except ImportError:
        return _read_by_engine(filename)
    with Image.open(filename) as image:
        if image.mode.startswith("I"):
            return np.asarray(image, dtype=float) / 65535
        if image.mode == "F":
            return np.asarray(image, dtype=float)
        gray = image.mode in ("1", "L", "LA")
        return np.asarray(image.convert("L" if gray else "RGB")) / 255.0


def _read_by_engine(filename: str) -> np.ndarray:
    """The pixels by a net whose only layer reads one image."""
    import caffe
    if not hasattr(caffe, "Net"):
        raise ImportError("to read %s, install Pillow (python3-pil) or build "
                          "the engine beside this package" % filename)
    net = caffe_pb2.NetParameter()
    layer = net.layer.add(name="image", type="ImageData",
                          top=["image", "label"])
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "list.txt")
        model = os.path.join(folder, "net.prototxt")
        layer.image_data_param.source = source
        layer.image_data_param.batch_size = 1
        with open(source, "w") as file:
            file.write("%s 0\n" % os.path.abspath(filename))
        with open(model, "w") as file:
            file.write(str(net))
        reader = caffe.Net(model, caffe.TEST)
        reader.forward()
        planes = np.array(reader.blobs["image"].data[0])
    return planes[::-1].transpose(1, 2, 0) / 255.0


def resize_image(im: np.ndarray, new_dims: Sequence[int],
                 interp_order: int = 1) -> np.ndarray:
    """An image or any array of height x width x K, resized, as float32.

    interp_order 0 takes the nearest value, 1 is bilinear; both need numpy
    only and give the same numbers everywhere.  Higher orders are splines
    by scikit-image.

    As in pycaffe, images of one and three channels are sampled at the
    centres of their pixels, and beyond the border lies the smallest value
    of the image; other arrays keep their corners where they are."""
    rows, cols = (int(n) for n in new_dims)
    im = np.asarray(im)
    if im.ndim == 2:
        return resize_image(im[:, :, np.newaxis], (rows, cols),
                            interp_order)[:, :, 0]
    is_image = im.shape[-1] in (1, 3)
    if interp_order > 1:
        return _resize_by_spline(im, (rows, cols), interp_order, is_image)
    fill = float(im.min()) if is_image else None
    out = im.astype(float)
    for axis, n_out in ((0, rows), (1, cols)):
        out = _resize_axis(out, axis, n_out, interp_order, fill)
    return out.astype(np.float32)


def _resize_axis(x: np.ndarray, axis: int, n_out: int, order: int,
                 fill: Optional[float]) -> np.ndarray:
    """One axis of `resize_image`; without `fill` the ends stay in place."""
    n_in = x.shape[axis]
    if fill is not None:
        at = (np.arange(n_out) + 0.5) * n_in / n_out - 0.5
        pad = [(0, 0)] * x.ndim
        pad[axis] = (1, 1)
        x = np.pad(x, pad, constant_values=fill)
        at += 1
    else:
        at = np.arange(n_out) * ((n_in - 1) / max(n_out - 1, 1))
    if order == 0:
        return x.take(np.floor(at + 0.5).astype(int), axis=axis)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    weight = (at - low).reshape([-1 if a == axis else 1
                                 for a in range(x.ndim)])
    return x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight


def _resize_by_spline(im: np.ndarray, dims: tuple[int, int], order: int,
                      is_image: bool) -> np.ndarray:
    try:
        from scipy.ndimage import zoom
        from skimage.transform import resize
    except ImportError as error:
        raise ImportError("interp_order %d needs scikit-image "
                          "(python3-skimage)" % order) from error
    if not is_image:
        scale = (dims[0] / im.shape[0], dims[1] / im.shape[1], 1)
        return zoom(im, scale, order=order).astype(np.float32)
    low, high = float(im.min()), float(im.max())
    if low == high:
        return np.full(dims + im.shape[2:], low, dtype=np.float32)
    # scikit-image wants its images in [0, 1].
    unit = resize((im - low) / (high - low), dims, order=order,
                  mode="constant", anti_aliasing=False)
    return (unit * (high - low) + low).astype(np.float32)


def oversample(images: Sequence[np.ndarray],
               crop_dims: Sequence[int]) -> np.ndarray:
    """Ten crops of each image: the corners (top left, top right, bottom
    left, bottom right), the centre, and the mirror images of these five.

    The images are all of one shape; the crops of one follow one another
    in an array of 10 n x height x width x channels."""
    rows, cols = images[0].shape[:2]
    height, width = (int(n) for n in crop_dims)
    down, right = rows - height, cols - width
    if down < 0 or right < 0:
        raise ValueError("crops of %d x %d do not fit into images of "
                         "%d x %d" % (height, width, rows, cols))
    corners = [(0, 0), (0, right), (down, 0), (down, right),
               (down // 2, right // 2)]
    stack = np.asarray(images, dtype=np.float32)
    crops = np.stack([stack[:, y:y + height, x:x + width]
                      for y, x in corners], axis=1)
    crops = np.concatenate([crops, crops[:, :, :, ::-1]], axis=1)
    return crops.reshape((-1,) + crops.shape[2:])
