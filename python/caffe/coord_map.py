"""Where a point of one top lies in another, and crops that align them.

Along each axis a layer takes position x of its bottom to position

    y = a x + b

of its top.  A map is (axis, a, b): the last axis before the spatial ones
(None where any will do), and a and b as numbers or arrays with an entry for
each spatial axis.  Tops are those of caffe.net_spec.

    Convolution, Pooling   a = 1 / stride  b = (pad - (kernel - 1) / 2) a
    Deconvolution          a = stride      b = (kernel - 1) / 2 - pad
    Crop                   a = 1           b = -offset
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Optional, Union

import numpy as np

from .net_spec import Function, Top
from .net_spec import layers as L

PASS_THROUGH_LAYERS = [
    "AbsVal", "BNLL", "BatchNorm", "Bias", "Clip", "Dropout", "ELU",
    "Eltwise", "Exp", "LRN", "Log", "MVN", "PReLU", "Power", "ReLU",
    "ReLU6", "Scale", "Sigmoid", "Split", "Swish", "TanH", "Threshold",
]

Numbers = Union[float, np.ndarray]
Map = tuple[Optional[int], Numbers, Numbers]
IDENTITY: Map = (None, 1, 0)


class UndefinedMapException(Exception):
    """The layer does not keep positions: InnerProduct, for instance."""


class AxisMismatchException(Exception):
    """Two maps are of different axes."""


def conv_params(fn: Function) -> tuple[int, np.ndarray, np.ndarray,
                                       np.ndarray]:
    """Axis, stride, kernel (with its dilation) and pad of a layer that
    slides a window.  Fields by axis, as kernel_h, are not supported."""
    params = fn.params.get("convolution_param",
                           fn.params.get("pooling_param", fn.params))
    by_axis = [what + end for what in ("kernel", "stride", "pad")
               for end in ("_h", "_w") if what + end in params]
    assert not by_axis, ("coordinates through %s are not supported: write "
                         "lists instead" % ", ".join(by_axis))
    if params.get("global_pooling"):
        raise UndefinedMapException("global pooling keeps no positions")
    kernel = _array(params["kernel_size"])
    dilation = _array(params.get("dilation", 1))
    return (params.get("axis", 1), _array(params.get("stride", 1)),
            (kernel - 1) * dilation + 1, _array(params.get("pad", 0)))


def crop_params(fn: Function) -> tuple[int, np.ndarray]:
    """Axis and offset of a Crop layer."""
    params = fn.params.get("crop_param", fn.params)
    return params.get("axis", 2), _array(params.get("offset", 0))


def _array(value: Any) -> np.ndarray:
    return np.array(value, ndmin=1)


def coord_map(fn: Function) -> Map:
    """The map from the bottoms of a layer to its tops."""
    if fn.type_name in ("Convolution", "Pooling", "Im2col"):
        axis, stride, kernel, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (kernel - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, kernel, pad = conv_params(fn)
        return axis, stride, (kernel - 1) / 2 - pad
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset
    if fn.type_name in PASS_THROUGH_LAYERS:
        return IDENTITY
    raise UndefinedMapException("%s does not map coordinates" % fn.type_name)


def compose(base_map: Map, next_map: Map) -> Map:
    """The map that does `next_map` first and `base_map` on its result."""
    axis, a, b = base_map
    next_axis, next_a, next_b = next_map
    if axis is None:
        axis = next_axis
    elif next_axis is not None and next_axis != axis:
        raise AxisMismatchException("axes %s and %s" % (axis, next_axis))
    return axis, a * next_a, a * next_b + b


def inverse(coord_map: Map) -> Map:
    """The map the other way."""
    axis, a, b = coord_map
    return axis, 1 / a, -b / a


def coord_map_from_to(top_from: Top, top_to: Top) -> Map:
    """The map from positions in `top_from` to positions in `top_to`.

    It goes through a top that both are made of; if there are several of
    these they are taken to agree.  Tops that no spatial layers connect
    are a RuntimeError."""
    from_maps = dict(_ancestors(top_from))
    for top, to_map in _ancestors(top_to):
        if top in from_maps:
            return compose(to_map, inverse(from_maps[top]))
    raise RuntimeError("no map between the tops: they are not connected by "
                       "spatial layers")


def _ancestors(end: Top) -> Iterator[tuple[Top, Map]]:
    """Each top that `end` is made of, nearest first, with its map to
    `end`; a layer without a map hides what is behind it."""
    seen = {end}
    queue = deque([(end, IDENTITY)])
    while queue:
        top, top_map = queue.popleft()
        yield top, top_map
        try:
            step = compose(top_map, coord_map(top.fn))
        except UndefinedMapException:
            continue
        # The second bottom of Crop gives a size and no values.
        n = 1 if top.fn.type_name == "Crop" else None
        for bottom in top.fn.inputs[:n]:
            if bottom not in seen:
                seen.add(bottom)
                queue.append((bottom, step))


def crop(top_from: Top, top_to: Top) -> Top:
    """A Crop layer that cuts `top_from` so that it lies over `top_to`.

    Tops of different scale, and offsets that are negative or not whole,
    are an AssertionError."""
    axis, a, b = coord_map_from_to(top_from, top_to)
    # A stride of 49 already gives 1 / 49 * 49 < 1, hence the rounding.
    a, b = np.round(a, 6), np.round(np.atleast_1d(b), 6)
    assert np.all(a == 1), "scale mismatch on crop (a = %s)" % a
    assert np.all(b <= 0), "cannot crop negative offset (b = %s)" % b
    assert np.all(b == np.round(b)), \
        "cannot crop noninteger offset (b = %s)" % b
    offset = [int(-x) for x in b]
    # Without a spatial layer between them every axis after channels lines up.
    axis = 1 if axis is None else axis
    return L.Crop(top_from, top_to,
                  crop_param=dict(axis=axis + 1, offset=offset))
