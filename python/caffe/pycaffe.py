"""Nets as Python users know them: blobs and parameters by name, forward and
backward with keyword inputs, whole data sets in batches, pictures."""

from collections import OrderedDict
from itertools import zip_longest
from typing import Dict, Iterator, List, Optional

import numpy as np

from . import _caffe
from ._library import lib
from ._caffe import (NCCL, AdaDeltaSolver, AdaGradSolver, AdamSolver,
                     NesterovSolver, RMSPropSolver, SGDSolver, Solver, Timer)

__all__ = ['Net', 'SGDSolver', 'NesterovSolver', 'AdaGradSolver',
           'RMSPropSolver', 'AdaDeltaSolver', 'AdamSolver', 'NCCL', 'Timer']

_BOX_COLOURS = {'Convolution': '#f4cccc', 'Deconvolution': '#f4cccc',
                'InnerProduct': '#d9d2e9', 'Pooling': '#fce5cd',
                'Python': '#d9ead3'}
_SOURCES = ('Data', 'Input')


def _colour(kind):
    if kind.endswith(_SOURCES):
        return '#cfe2f3'
    return _BOX_COLOURS.get(kind, '#eeeeee')


class Net(_caffe.Net):
    """A net, built from a prototxt.

    ``Net(file, phase, level=0, stages=None, weights=None)``

    >>> net = caffe.Net('deploy.prototxt', caffe.TEST, weights='x.caffemodel')
    >>> net.blobs['data'].data[...] = image
    >>> net.forward()['prob']
    """

    def _adopt(self, handle):
        super()._adopt(handle)
        self._blobs_by_name = OrderedDict(zip(self._blob_names, self._blobs))
        self._params_by_name = None

    def _renew(self, pointer):
        super()._renew(pointer)
        if self._params_by_name is None:
            return
        layers = dict(zip(self._layer_names, self._layer_pointers))
        for name, blobs in self._params_by_name.items():
            for i, blob in enumerate(blobs):
                blob._point_at(lib.ct_layer_blob(layers[name], i))

    @property
    def blobs(self) -> 'OrderedDict[str, _caffe.Blob]':
        """Every blob by its name, in the order of the net."""
        return self._blobs_by_name

    @property
    def params(self) -> 'OrderedDict[str, _caffe.BlobVec]':
        """The parameters by layer name; weights first, then biases."""
        if self._params_by_name is None:
            found = ((name, self._parameters(i))
                     for i, name in enumerate(self._layer_names))
            self._params_by_name = OrderedDict(
                (name, blobs) for name, blobs in found if blobs)
        return self._params_by_name

    @property
    def layer_dict(self) -> 'OrderedDict[str, _caffe.Layer]':
        """The layers by their names."""
        return OrderedDict(zip(self._layer_names, self.layers))

    @property
    def blob_loss_weights(self) -> 'OrderedDict[str, float]':
        """The weight of each blob in the loss, 0 for most."""
        return OrderedDict(zip(self._blob_names, self._blob_loss_weights))

    @property
    def inputs(self) -> List[str]:
        """The names of the blobs that the caller fills."""
        return [self._blob_names[i] for i in self._inputs]

    @property
    def outputs(self) -> List[str]:
        """The names of the blobs that no layer reads."""
        return [self._blob_names[i] for i in self._outputs]

    def _names(self, ids):
        return OrderedDict(
            (name, [self._blob_names[j] for j in ids(i)])
            for i, name in enumerate(self._layer_names))

    @property
    def top_names(self) -> 'OrderedDict[str, List[str]]':
        """What each layer writes."""
        return self._names(self._top_ids)

    @property
    def bottom_names(self) -> 'OrderedDict[str, List[str]]':
        """What each layer reads."""
        return self._names(self._bottom_ids)

    def forward(self, blobs: Optional[List[str]] = None,
                start: Optional[str] = None, end: Optional[str] = None,
                **kwargs) -> Dict[str, np.ndarray]:
        """Run the net, or the layers from `start` to `end`, forward.

        Keywords are inputs by blob name, all of them or none; arrays are
        copied in.  Returns the outputs (with `end`, the tops of that layer)
        and the blobs named in `blobs`, as views.
        """
        first = 0 if start is None else self._layer_names.index(start)
        last = self._n_layers - 1
        if end is None:
            names = self.outputs
        else:
            last = self._layer_names.index(end)
            names = [self._blob_names[i] for i in self._top_ids(last)]
        if kwargs:
            self._fill('data', kwargs, self.inputs, 'Input')
        self._forward(first, last)
        by_name = self._blobs_by_name
        if blobs:
            names = names + [name for name in blobs if name not in names]
        return {name: by_name[name].data for name in names}

    def backward(self, diffs: Optional[List[str]] = None,
                 start: Optional[str] = None, end: Optional[str] = None,
                 **kwargs) -> Dict[str, np.ndarray]:
        """Run the net, or the layers from `start` down to `end`, backward.

        Keywords are the gradients of the outputs by blob name, all of them or
        none.  Returns the gradients of the inputs (with `end`, of the bottoms
        of that layer) and of the blobs named in `diffs`, as views.
        """
        first = (self._n_layers - 1 if start is None
                 else self._layer_names.index(start))
        last = 0
        if end is None:
            names = self.inputs
        else:
            last = self._layer_names.index(end)
            names = [self._blob_names[i] for i in self._bottom_ids(last)]
        if kwargs:
            self._fill('diff', kwargs, self.outputs, 'Top diff')
        self._backward(first, last)
        by_name = self._blobs_by_name
        if diffs:
            names = names + [name for name in diffs if name not in names]
        return {name: by_name[name].diff for name in names}

    def _fill(self, part, arrays, wanted, what):
        """Copy arrays into the data or diff of the blobs of their names."""
        if set(arrays) != set(wanted):
            raise Exception('%s blob arguments do not match: the net has %s, '
                            'not %s' % (what, sorted(wanted), sorted(arrays)))
        for name, array in arrays.items():
            blob = self._blobs_by_name[name]
            if np.shape(array)[:1] != blob.shape[:1]:
                raise Exception("%s '%s' is not batch sized: %s for %s" % (
                    what, name, np.shape(array), blob.shape))
            getattr(blob, part)[...] = array

    def forward_all(self, blobs: Optional[List[str]] = None,
                    **kwargs) -> Dict[str, np.ndarray]:
        """Run any number of inputs forward, batch by batch.

        Returns copies of the outputs and of the blobs named in `blobs`.
        """
        parts = {}
        for batch in self._batch(kwargs):
            _collect(parts, self.forward(blobs=blobs, **batch))
        return _join(parts, len(next(iter(kwargs.values()))))

    def forward_backward_all(self, blobs: Optional[List[str]] = None,
                             diffs: Optional[List[str]] = None, **kwargs):
        """Run any number of inputs forward and backward, batch by batch.

        Keywords are inputs, and gradients of the outputs where these are no
        losses.  Returns two dictionaries of copies: blobs and gradients.
        """
        n = len(next(iter(kwargs.values())))
        forward = self._batch({k: v for k, v in kwargs.items()
                               if k in self.inputs})
        backward = self._batch({k: v for k, v in kwargs.items()
                                if k in self.outputs})
        data, grads = {}, {}
        for fill, top_diffs in zip_longest(forward, backward, fillvalue={}):
            _collect(data, self.forward(blobs=blobs, **fill))
            _collect(grads, self.backward(diffs=diffs, **top_diffs))
        return _join(data, n), _join(grads, n)

    def set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        """Feed the MemoryData layer that the net begins with.

        `data` is a C-contiguous float32 array n x channels x height x width,
        `labels` holds n values; n is a multiple of the layer's batch size.
        Both are read in place.
        """
        if labels.ndim == 1:
            labels = np.ascontiguousarray(labels[:, np.newaxis, np.newaxis,
                                                 np.newaxis])
        self._set_input_arrays(data, labels)

    def _batch(self, blobs) -> Iterator[Dict[str, np.ndarray]]:
        """Cut arrays into batches; the last one is filled up with zeros."""
        if not blobs:
            return
        n = len(next(iter(blobs.values())))
        size = self._blobs_by_name[next(iter(blobs))].shape[0]
        for at in range(0, n, size):
            batch = {}
            for name, array in blobs.items():
                part = np.asarray(array[at:at + size])
                if len(part) < size:
                    padding = np.zeros((size - len(part),) + part.shape[1:],
                                       part.dtype)
                    part = np.concatenate([part, padding])
                batch[name] = part
            yield batch

    def svg(self, rankdir: str = 'TB') -> str:
        """The net as a drawing: a box a layer, with type and shapes."""
        from .svg import Box, Edge, svg_text
        boxes, edges, producer = [], [], {}
        for i, layer in enumerate(self.layers):
            bottoms, tops = self._bottom_ids(i), self._top_ids(i)
            if layer.type == 'Split':
                producer.update((t, producer[bottoms[0]]) for t in tops)
                continue
            shapes = [' x '.join(map(str, self._blobs[t].shape)) or 'scalar'
                      for t in tops]
            boxes.append(Box([self._layer_names[i], layer.type] + shapes,
                             _colour(layer.type)))
            here = len(boxes) - 1
            for bottom in bottoms:
                edges.append(Edge(producer[bottom], here))
            producer.update((t, here) for t in tops)
        return svg_text(boxes, edges, rankdir, self.name)

    def _repr_html_(self) -> str:
        """For notebooks."""
        drawing = self.svg()
        return drawing[drawing.find('<svg'):]


def _collect(parts, arrays):
    for name, array in arrays.items():
        parts.setdefault(name, []).append(np.array(array))


def _join(parts, n):
    """Batches one after another, without the padding of the last."""
    out = {}
    for name, arrays in parts.items():
        if arrays[0].ndim == 0:
            out[name] = np.asarray(arrays)
            continue
        whole = np.concatenate(arrays)
        padding = sum(len(a) for a in arrays) - n
        # Losses and the like hold no value a sample: nothing to cut off.
        if 0 < padding < len(arrays[-1]):
            whole = whole[:n]
        out[name] = whole
    return out


Solver._net_class = Net
