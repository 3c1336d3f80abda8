"""Layers: those of the engine, and those written in Python.

A Python layer is a class with ``setup``, ``reshape``, ``forward`` and
``backward``.  This module is the engine's host for them: it makes the object,
calls it, and turns what it raises into the engine's error.
"""

import atexit
import ctypes
import importlib
import os
import sys
import traceback

import numpy as np

from . import _ranks
from ._blob import Blob, BlobVec, RawBlobVec
from ._engine import Pinned
from ._library import (FINDS_FN, FORGET_FN, OK, RUN_FN, SEEK_FN, Error, PythonHost,
                       check, decode, lib, pointers, remember)

_STEPS = ('setup', 'reshape', 'forward', 'backward')
_SETUP, _BACKWARD = 0, 3
_TEST = 1

# What one Python layer has here, by the address of its C layer.
_known = {}


class LayerParameter:
    """What a Python layer's constructor is given; it says nothing more."""


class Phase(int):
    """``caffe.TRAIN`` or ``caffe.TEST``; as text its name, as layers of
    Faster R-CNN expect."""

    def __str__(self):
        return 'TEST' if self == _TEST else 'TRAIN'


class Layer(Pinned):
    """A layer of a net, and the base class of layers written in Python.

    A subclass finds in its methods ``self.param_str`` (the text of the
    prototxt; ``self.param_str_`` in older ones), ``self.phase`` (``caffe.TRAIN`` or ``caffe.TEST``),
    ``self.blobs`` (its parameters; ``self.blobs.add_blob(*shape)`` in setup
    adds one), ``self.batch_size`` (what ``data_param { batch_size: N }`` of
    the prototxt says, and of that this rank's part where ranks divide it),
    and, when several ranks train together, ``self.solver_rank`` and
    ``self.solver_count``.
    """
    _pointer = None  # the C layer; None once it is gone
    _owner = None    # keeps it there
    param_str = ''
    solver_rank = 0
    solver_count = 1
    batch_size = 0
    _brings_none = False  # the prototxt says that it brings in no samples

    def __init__(self, param: LayerParameter = None):
        """Nothing is there yet: use setup()."""

    @property
    def param_str_(self) -> str:
        """What param_str was called at first."""
        return self.param_str

    @property
    def type(self) -> str:
        """The type string of the prototxt."""
        if self._pointer is None:
            return 'Python'
        return decode(lib.ct_layer_type_name(self._pointer))

    @property
    def blobs(self) -> BlobVec:
        """The parameters."""
        blobs = self.__dict__.get('_blobs')
        if blobs is None:
            blobs = self.__dict__['_blobs'] = BlobVec()
        return blobs

    def setup(self, bottom, top):
        """Called once, when the net is built."""

    def reshape(self, bottom, top):
        """Give the tops their shapes; called before every forward pass."""
        if self._owner is None:
            raise NotImplementedError('reshape() of a Python layer')
        check(lib.ct_layer_shape_tops(
            self._pointer, *pointers([b._get() for b in bottom]),
            *pointers([t._get() for t in top])))

    def deal(self, n: int, batch: int, shuffle: bool = True) -> '_ranks.Deal':
        """Indices 0..n-1 in batches, for a data layer.

        Ranks that train together get disjoint parts, and a resumed run goes
        on where the snapshot was taken.  Make it in setup(); ``next()`` once
        a forward pass gives this rank's next ``batch`` indices; where ranks
        divide a batch that is ``self.batch_size``.  A test net gets all of
        them: rank 0 runs tests with Python layers by itself.
        """
        rank, count, shard = self.solver_rank, self.solver_count, None
        if lib.ct_layer_phase(self._pointer) == _TEST:
            rank, count = 0, 1
        elif self.batch_size > 0 and batch != self.batch_size:
            raise Error('deal() of %d samples, and this rank takes %d of a '
                        'batch: use self.batch_size' % (batch,
                                                        self.batch_size))
        elif self.batch_size > 0:
            shard = (ctypes.c_int64 * 4)()
            lib.ct_layer_shard(self._pointer, batch, shard)
            shard = tuple(shard)
        deal = _ranks.Deal(n, batch, rank, count,
                           lib.ct_layer_key(self._pointer), shuffle, shard)
        self.__dict__.setdefault('_deals', []).append(deal)
        return deal

    def __repr__(self):
        if self._owner is None:
            return object.__repr__(self)
        return "<caffe.Layer '%s' %s, %d parameters>" % (
            decode(lib.ct_layer_name(self._pointer)), self.type,
            len(self.blobs))


def engine_layer(pointer, owner):
    """The Layer for a C layer of a net: the user's own object, if any."""
    known = _known.get(pointer)
    if known is not None and known.layer is not None:
        return known.layer
    layer = Layer()
    layer._pointer = pointer
    layer._owner = owner
    layer.__dict__['_blobs'] = parameters(pointer, owner)
    owner.made.add(layer)
    return layer


def parameters(pointer, owner):
    """The parameters of a C layer of a net."""
    name = decode(lib.ct_layer_name(pointer))
    blobs = BlobVec(Blob(lib.ct_layer_blob(pointer, i), owner,
                         '%s[%d]' % (name, i))
                    for i in range(lib.ct_layer_n_blobs(pointer)))
    owner.made.update(blobs)
    return blobs


class _Known:
    """One Python layer: its object and the blobs it has been shown."""

    def __init__(self, pointer):
        self.pointer = pointer
        self.layer = None
        self._shown = {}

    def blobs(self, addresses, n):
        """Blobs for n C blobs, the same objects for the same ones."""
        out = RawBlobVec()
        for i in range(n):
            address = addresses[i]
            blob = self._shown.get(address)
            if blob is None:
                blob = self._shown[address] = Blob(address, None)
            out.append(blob)
        return out

    def make(self):
        """Import the module and make the object."""
        module = _import(decode(lib.ct_python_module(self.pointer)))
        name = decode(lib.ct_python_class(self.pointer))
        if not hasattr(module, name):
            raise Error('module %s has no class %s' % (module.__name__, name))
        layer = getattr(module, name)(LayerParameter())
        if not isinstance(layer, Layer):
            raise Error('%s is not a subclass of caffe.Layer' % name)
        layer._pointer = self.pointer
        layer.param_str = decode(lib.ct_python_param_str(self.pointer))
        layer.phase = Phase(lib.ct_layer_phase(self.pointer))
        layer.solver_rank = lib.ct_layer_rank(self.pointer)
        layer.solver_count = lib.ct_layer_size(self.pointer)
        said = lib.ct_layer_batch_size(self.pointer)
        layer.batch_size, layer._brings_none = max(said, 0), said == 0
        if layer.solver_count > 1:
            _ranks.rank, _ranks.count = layer.solver_rank, layer.solver_count
        layer.__dict__['_blobs'] = BlobVec()
        self.layer = layer

    def setup(self, bottom, top):
        self.make()
        blobs = self.layer.blobs
        blobs._layer = self.pointer
        try:
            self.layer.setup(bottom, top)
        finally:
            blobs._layer = None

    def part(self):
        """The C layer is about to go."""
        shown = list(self._shown.values())
        if self.layer is not None:
            shown += self.layer.blobs
            self.layer._pointer = None
        for blob in shown:
            blob._pointer = None


def _import(name):
    """The module; looked for in the working folder too, as last resort."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        here = os.getcwd()
        if error.name != name.partition('.')[0]:
            raise
        if here in sys.path:
            raise Error('there is no module %s' % name) from error
        sys.path.append(here)
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as again:
            raise Error('there is no module %s, neither on sys.path nor in %s'
                        % (name, here)) from again


def _place(pointer, step):
    """Which layer it is, and what it does."""
    return 'layer %s: %s() of %s.%s' % (
        decode(lib.ct_layer_name(pointer)), step,
        decode(lib.ct_python_module(pointer)),
        decode(lib.ct_python_class(pointer)))


def _note(exception, place):
    """Let the exception say in which layer it was raised."""
    note = 'raised in %s' % place
    if hasattr(exception, 'add_note'):
        if note not in getattr(exception, '__notes__', ()):
            exception.add_note(note)
    elif len(exception.args) == 1 and isinstance(exception.args[0], str):
        exception.args = ('%s (%s)' % (exception.args[0], note),)


def _explain(pointer, step, exception):
    """The exception first, because long texts are cut at their end."""
    what = ''.join(traceback.format_exception_only(type(exception),
                                                   exception)).strip()
    frames = traceback.extract_tb(exception.__traceback__)
    # Frames of this file and of imports say nothing to the layer's author.
    frames = [f for f in frames
              if f.filename != __file__ and 'importlib' not in f.filename]
    text = '%s: %s' % (_place(pointer, step), what)
    _note(exception, _place(pointer, step))
    if frames:
        text += '\nTraceback (most recent call last):\n' + ''.join(
            traceback.format_list(frames)).rstrip()
    return text


@RUN_FN
def _run(pointer, step, bottom, n_bottom, top, n_top, want_grad, _arg):
    try:
        known = _known.get(pointer)
        if known is None:
            known = _known[pointer] = _Known(pointer)
        bottoms = known.blobs(bottom, n_bottom)
        tops = known.blobs(top, n_top)
        if step == _SETUP:
            known.setup(bottoms, tops)
        elif step == _BACKWARD:
            known.layer.backward(tops, [want_grad[i] for i in range(n_bottom)],
                                 bottoms)
        else:
            getattr(known.layer, _STEPS[step])(bottoms, tops)
        return OK
    except BaseException as exception:
        return remember(exception, _explain(pointer, _STEPS[step], exception))


@SEEK_FN
def _seek(pointer, n_passes, _arg):
    try:
        known = _known.get(pointer)
        if known is not None and known.layer is not None:
            for deal in known.layer.__dict__.get('_deals', ()):
                deal.seek(n_passes)
            seek = getattr(known.layer, 'seek', None)
            if seek is not None:
                seek(n_passes)
        return OK
    except BaseException as exception:
        return remember(exception, _explain(pointer, 'seek', exception))


@FINDS_FN
def _finds_place(pointer, _arg):
    known = _known.get(pointer)
    layer = known and known.layer
    return (layer is None or bool(layer.__dict__.get('_deals')) or
            hasattr(layer, 'seek') or layer._brings_none)


@FORGET_FN
def _forget(pointer, _arg):
    known = _known.pop(pointer, None)
    if known is not None:
        known.part()


_host = PythonHost(_run, _seek, _forget, None, _finds_place)
lib.ct_python_set_host(ctypes.byref(_host))
# Layers that are freed after this find no host and ask for nothing.
atexit.register(lib.ct_python_set_host, None)


def set_input_arrays(pointer, data, labels):
    """Feed a MemoryData layer; returns the arrays, which must be kept."""
    checked = []
    for name, array in (('data', data), ('labels', labels)):
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            raise Error('the %s array is not a float32 numpy array' % name)
        if not array.flags.c_contiguous:
            raise Error('the %s array is not C contiguous' % name)
        if array.ndim != 4:
            raise Error('the %s array has %d dimensions; it must have 4'
                        % (name, array.ndim))
        checked.append(array)
    if len(data) != len(labels):
        raise Error('%d images, but %d labels' % (len(data), len(labels)))
    if labels[0].size != 1:
        raise Error('the labels array holds more than one value an image')
    check(lib.ct_memory_data_set(pointer, data.ctypes.data,
                                 labels.ctypes.data, len(data)))
    return checked
