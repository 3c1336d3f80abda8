"""Blobs: N-D arrays with a gradient, seen through numpy without a copy."""

import ctypes

import numpy as np

from . import _device
from ._engine import Pinned
from ._library import Error, check, dims, lib

_address = lib.ct_blob_address
_version = lib.ct_blob_version
_n_axes = lib.ct_blob_n_axes
_dim = lib.ct_blob_dim
_hold = lib.ct_blob_hold
_release = lib.ct_blob_release
_on_host = lib.ct_blob_on_host


class _Memory(Pinned):
    """Counted memory of the engine, as numpy takes it.

    It is the base of the arrays that look at it, and gives the memory back
    with the last of them, whatever has become of the blob by then.
    """
    __slots__ = ('__array_interface__', '_held', '_owner')

    def __init__(self, address, shape, held, owner):
        self._held = held
        self._owner = owner if held is None else None
        self.__array_interface__ = {
            'version': 3, 'typestr': '<f4', 'shape': shape,
            'data': (address, False)}

    def __del__(self, release=_release):
        held, self._held = self._held, None
        if held is not None:
            release(held)


class Blob(Pinned):
    """A blob of a net or a layer.

    ``data`` and ``diff`` are writable float32 arrays over the engine's own
    memory.  They stay valid when the net is gone; after a reshape ask for
    them again.  On a GPU they are copies in the host's memory: ask again
    after the net has run, and what is written to them counts from the next
    run on.
    """
    __slots__ = ('_pointer', '_owner', '_name', '_data', '_diff',
                 '__weakref__')

    _instead = '; copy its values: blob.data.copy()'

    def __init__(self, pointer, owner, name=''):
        self._pointer = pointer
        self._owner = owner  # keeps the pointer valid; None: a layer's call
        self._name = name
        self._data = self._diff = (None, None, None)

    def _point_at(self, pointer):
        """It is this C blob from now on."""
        self._pointer = pointer
        self._data = self._diff = (None, None, None)

    def _get(self):
        if self._pointer is None:
            raise Error("blob '%s': its net is gone" % self._name)
        return self._pointer

    def _view(self, diff):
        """(address, version, array) of what the blob holds now."""
        pointer = self._get()
        address, held = ctypes.c_void_p(), ctypes.c_void_p()
        check(_hold(pointer, diff, ctypes.byref(address),
                    ctypes.byref(held)))
        memory = _Memory(address.value, self.shape, held.value, self._owner)
        return address.value, _version(pointer), np.asarray(memory)

    @property
    def data(self) -> np.ndarray:
        """The values."""
        pointer = self._pointer
        if pointer is None:
            self._get()
        address, version, array = self._data
        if (address is None or _address(pointer, False) != address or
                _version(pointer) != version):
            if not _on_host(pointer):
                return _device.view(pointer, False, self.shape,
                                    self._owner.mirrors)
            self._data = address, version, array = self._view(False)
        return array.view()

    @property
    def diff(self) -> np.ndarray:
        """The gradient of the loss by the values."""
        pointer = self._pointer
        if pointer is None:
            self._get()
        address, version, array = self._diff
        if (address is None or _address(pointer, True) != address or
                _version(pointer) != version):
            if not _on_host(pointer):
                return _device.view(pointer, True, self.shape,
                                    self._owner.mirrors)
            self._diff = address, version, array = self._view(True)
        return array.view()

    @property
    def shape(self) -> tuple:
        """The dimensions."""
        pointer = self._get()
        return tuple([_dim(pointer, i) for i in range(_n_axes(pointer))])

    @property
    def count(self) -> int:
        """The number of values."""
        return lib.ct_blob_count(self._get())

    def _legacy(self, i):
        shape = self.shape
        if len(shape) > 4:
            raise Error("blob '%s' has %d axes: num, channels, height and "
                        "width are for four at most" % (self._name,
                                                        len(shape)))
        return shape[i] if i < len(shape) else 1

    num = property(lambda self: self._legacy(0), doc='Dimension 0, or 1.')
    channels = property(lambda self: self._legacy(1), doc='Dimension 1, or 1.')
    height = property(lambda self: self._legacy(2), doc='Dimension 2, or 1.')
    width = property(lambda self: self._legacy(3), doc='Dimension 3, or 1.')

    def reshape(self, *shape: int) -> None:
        """Change the shape; arrays handed out before keep the old one."""
        check(lib.ct_blob_reshape(self._get(), *dims(shape)))

    def __repr__(self):
        if self._pointer is None:
            return "<caffe.Blob '%s' of a net that is gone>" % self._name
        return "<caffe.Blob '%s' %s>" % (
            self._name, ' x '.join(map(str, self.shape)) or 'scalar')


class BlobVec(list):
    """The parameters of a layer."""

    def __init__(self, blobs=(), layer=None):
        super().__init__(blobs)
        self._layer = layer  # set while a Python layer is set up

    def add_blob(self, *shape: int) -> None:
        """Add a parameter of zeros; for the setup of Python layers."""
        if self._layer is None:
            raise Error('add_blob() is for the setup() of a Python layer')
        check(lib.ct_layer_add_zeros(self._layer, *dims(shape)))
        pointer = lib.ct_layer_blob(self._layer, len(self))
        self.append(Blob(pointer, None, 'parameter %d' % len(self)))


class RawBlobVec(list):
    """The bottoms or tops of a Python layer."""
