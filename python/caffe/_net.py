"""A net: what the engine does with it.  pycaffe.py adds the convenience."""

import ctypes
import warnings
import weakref
from numbers import Integral

from . import _device, _modes, _ranks
from ._blob import Blob
from ._engine import Handle, Pinned
from ._layer import engine_layer, parameters, set_input_arrays
from ._library import (HOOK_FN, OK, Error, NetHooks, OnnxOptions, check,
                       decode, encode, lib, remember)

_forward = lib.ct_net_forward_range
_HOOKS = ('before_forward', 'after_forward', 'before_backward',
          'after_backward')


class NetHandle(Handle):
    """A C net, freed with the last Python object that needs it.

    Blobs and layers keep the handle, not the Net, so that there are no
    cycles and memory goes as soon as names do.
    """
    __slots__ = ('solver', 'hooks', 'kept', 'mirrors', 'made', 'sharers')
    _what = 'this net'

    def __init__(self, pointer, solver=None):
        super().__init__(pointer)
        self.solver = solver  # the owner, where a solver is
        self.hooks = _Hooks()
        self.kept = []        # arrays that MemoryData layers read from
        self.mirrors = {}     # arrays of blobs on a GPU
        self.made = weakref.WeakSet()     # blobs and layers of the C net
        self.sharers = weakref.WeakSet()  # nets that use its weights

    def __del__(self, destroy=lib.ct_net_destroy, forget=_device.forget):
        forget(self.mirrors)
        if self.solver is None and self._pointer and not self._lost:
            destroy(self._pointer)
        self._pointer = None


class _Hooks:
    """The callbacks of a net, and the one C function a hook that runs them."""

    def __init__(self):
        self.callbacks = {name: [] for name in _HOOKS}
        self._functions = {}

    def add(self, pointer, name, callback):
        if not callable(callback):
            raise TypeError('%s() takes a function of the layer number' % name)
        self.callbacks[name].append(callback)
        if name not in self._functions:
            self._functions[name] = HOOK_FN(_hook(self.callbacks[name]))
            self.set(pointer)

    def set(self, pointer):
        if self._functions:
            table = NetHooks(**self._functions)
            lib.ct_net_set_hooks(pointer, ctypes.byref(table))


def _hook(callbacks):
    def run(_net, layer, _arg):
        try:
            _device.ran()
            for callback in callbacks:
                callback(layer)
            _device.push()
            return OK
        except BaseException as exception:
            return remember(exception, 'a callback raised %r' % exception)
    return run


def _open(network_file, phase, level, stages):
    stages = [encode(s) for s in stages or ()]
    out = ctypes.c_void_p()
    check(lib.ct_net_open(
        encode(network_file), _modes.device(network_file), phase, level,
        (ctypes.c_char_p * max(len(stages), 1))(*stages), len(stages),
        _modes.net_seed(), _ranks.rank, _ranks.count, ctypes.byref(out)))
    return NetHandle(out.value)


class Net(Pinned):
    """A net, built from a prototxt.

    ``Net(file, phase)``, with ``level``, ``stages`` and ``weights`` by name.
    ``Net(file, weights, phase)`` is pycaffe's older form.
    """

    _instead = ('; save() it and load the file where it is wanted, or '
                'share_with() another net')

    def __init__(self, network_file, *args, phase=None, level=0, stages=None,
                 weights=None):
        args = list(args)
        if args and not isinstance(args[0], Integral):
            warnings.warn('Net(file, weights, phase) is deprecated: use '
                          'Net(file, phase, weights=weights)',
                          DeprecationWarning, stacklevel=2)
            weights = args.pop(0)
        names = ('phase', 'level', 'stages', 'weights')
        given = dict(zip(names, args))
        if len(args) > len(names):
            raise TypeError('Net() takes a file, phase, level, stages and '
                            'weights')
        phase = given.get('phase', phase)
        if phase not in (_modes.TRAIN, _modes.TEST):
            raise TypeError('Net() needs a phase: caffe.TRAIN or caffe.TEST')
        self._adopt(_open(network_file, phase, given.get('level', level),
                          given.get('stages', stages)))
        weights = given.get('weights', weights)
        if weights is not None:
            self.copy_from(weights)

    @classmethod
    def _of(cls, handle):
        """The Net for a C net that is there already."""
        net = cls.__new__(cls)
        net._adopt(handle)
        return net

    def _adopt(self, handle):
        pointer = handle.pointer
        self._handle = handle
        self._n_layers = lib.ct_net_n_layers(pointer)
        self._blob_names = [decode(lib.ct_net_blob_name(pointer, i))
                            for i in range(lib.ct_net_n_blobs(pointer))]
        self._blobs = [Blob(lib.ct_net_blob(pointer, i), handle, name)
                       for i, name in enumerate(self._blob_names)]
        handle.made.update(self._blobs)
        self._layer_pointers = [lib.ct_net_layer(pointer, i)
                                for i in range(self._n_layers)]
        self._layer_names = [decode(lib.ct_layer_name(p))
                             for p in self._layer_pointers]
        self._inputs = [lib.ct_net_input_id(pointer, i)
                        for i in range(lib.ct_net_n_inputs(pointer))]
        self._outputs = [lib.ct_net_output_id(pointer, i)
                         for i in range(lib.ct_net_n_outputs(pointer))]
        self._loss = ctypes.c_double()
        self._loss_pointer = ctypes.pointer(self._loss)

    def _abandon(self):
        """Its solver is about to build it anew: nothing may be asked of it
        until then."""
        handle = self._handle
        _device.forget(handle.mirrors)
        handle._pointer = None
        for one in handle.made:
            one._pointer = None

    def _renew(self, pointer):
        """Its solver has built it anew, with the same blobs and layers."""
        handle = self._handle
        handle._pointer = pointer
        for i, blob in enumerate(self._blobs):
            blob._point_at(lib.ct_net_blob(pointer, i))
        self._layer_pointers = [lib.ct_net_layer(pointer, i)
                                for i in range(self._n_layers)]
        handle.hooks.set(pointer)
        self._share_again()

    def _share_again(self):
        """Its parameters lie elsewhere: nets that use them follow."""
        handle = self._handle
        for sharer in handle.sharers:
            if sharer._pointer:
                check(lib.ct_net_share_weights(sharer.pointer, handle.pointer))

    @property
    def name(self) -> str:
        """The name that the prototxt gives it."""
        return decode(lib.ct_net_name(self._handle.pointer))

    @property
    def phase(self) -> int:
        """caffe.TRAIN or caffe.TEST."""
        return lib.ct_net_phase(self._handle.pointer)

    @property
    def layers(self) -> list:
        """The layers, in order; Python layers are the user's own objects."""
        return [engine_layer(p, self._handle) for p in self._layer_pointers]

    def _parameters(self, i):
        return parameters(self._layer_pointers[i], self._handle)

    @property
    def _blob_loss_weights(self):
        pointer = self._handle.pointer
        return [lib.ct_net_blob_loss_weight(pointer, i)
                for i in range(len(self._blobs))]

    def _check_layer(self, i):
        if not 0 <= i < self._n_layers:
            raise IndexError('layer %d of a net that has %d'
                             % (i, self._n_layers))

    def _bottom_ids(self, i):
        """The numbers of the blobs that layer i reads."""
        self._check_layer(i)
        pointer = self._handle.pointer
        return [lib.ct_net_bottom_id(pointer, i, j)
                for j in range(lib.ct_net_n_bottoms(pointer, i))]

    def _top_ids(self, i):
        """The numbers of the blobs that layer i writes."""
        self._check_layer(i)
        pointer = self._handle.pointer
        return [lib.ct_net_top_id(pointer, i, j)
                for j in range(lib.ct_net_n_tops(pointer, i))]

    def _forward(self, start, end):
        """Run layers start to end, both included; returns the loss."""
        _device.push()
        status = _forward(self._handle.pointer, start, end + 1,
                          self._loss_pointer)
        _device.ran()
        if status:
            check(status)
        return self._loss.value

    def _backward(self, start, end):
        """Run layers start down to end backward, both included."""
        _device.push()
        status = lib.ct_net_backward_range(self._handle.pointer, start, end)
        _device.ran()
        check(status)

    def reshape(self) -> None:
        """Let every layer follow the shapes of the inputs."""
        # What the blobs remember would keep the old memory.
        for blob in self._blobs:
            blob._data = blob._diff = (None, None, None)
        _device.push()
        check(lib.ct_net_reshape(self._handle.pointer))
        _device.ran()

    def clear_param_diffs(self) -> None:
        """Set the gradients of all parameters to zero."""
        _device.push()
        check(lib.ct_net_clear_diffs(self._handle.pointer))
        _device.ran()

    def copy_from(self, weights) -> None:
        """Weights by layer name from a .caffemodel or .caffemodel.h5."""
        _device.push()
        check(lib.ct_net_load(self._handle.pointer, encode(weights)))
        _device.ran()

    load_hdf5 = copy_from

    def share_with(self, other: 'Net') -> None:
        """Use the weights of another net, by layer name, without a copy."""
        _device.push()
        _device.ran()
        check(lib.ct_net_share_weights(self._handle.pointer,
                                       other._handle.pointer))
        other._handle.sharers.add(self._handle)

    def save(self, filename) -> None:
        """Write a .caffemodel."""
        _device.push()
        check(lib.ct_net_save(self._handle.pointer, encode(filename), False))

    def save_hdf5(self, filename, write_diff: bool = False) -> None:
        """Write a .caffemodel.h5."""
        _device.push()
        check(lib.ct_net_save_hdf5(self._handle.pointer, encode(filename),
                                   write_diff))

    def export_onnx(self, filename, opset: int = 13, batch=None,
                    fold: bool = True) -> None:
        """Write an ONNX model; `batch` is a size or 'dynamic'."""
        _device.push()
        options = OnnxOptions(opset, -1 if batch == 'dynamic' else batch or 0,
                              not fold)
        check(lib.ct_onnx_export(self._handle.pointer, ctypes.byref(options),
                                 encode(filename)))

    def _set_input_arrays(self, data, labels):
        """Feed the MemoryData layer that the net begins with."""
        if not self._layer_pointers:
            raise Error('this net has no layers')
        self._handle.kept = set_input_arrays(self._layer_pointers[0], data,
                                             labels)

    def before_forward(self, callback) -> None:
        """Call callback(layer number) before every layer's forward."""
        self._handle.hooks.add(self._handle.pointer, 'before_forward',
                               callback)

    def after_forward(self, callback) -> None:
        """Call callback(layer number) after every layer's forward."""
        self._handle.hooks.add(self._handle.pointer, 'after_forward', callback)

    def before_backward(self, callback) -> None:
        """Call callback(layer number) before every layer's backward."""
        self._handle.hooks.add(self._handle.pointer, 'before_backward',
                               callback)

    def after_backward(self, callback) -> None:
        """Call callback(layer number) after every layer's backward."""
        if isinstance(callback, _modes.NCCL):
            return
        self._handle.hooks.add(self._handle.pointer, 'after_backward',
                               callback)
        if self._handle.solver is not None:
            # The callback sees gradients before they are sent to peers.
            lib.ct_solver_send_late(self._handle.solver.pointer, True)

    def summary(self) -> str:
        """Layers, shapes, parameters and costs, as a table."""
        out = ctypes.c_void_p()
        check(lib.ct_net_summary(self._handle.pointer, ctypes.byref(out)))
        try:
            return decode(ctypes.string_at(out.value))
        finally:
            lib.ct_free(out)

    def __repr__(self):
        if self._handle._lost:
            return '<caffe.Net of another process>'
        return '<caffe.Net %s%s: %d layers, %d blobs, %s parameters>' % (
            "'%s' " % self.name if self.name else '',
            'TEST' if self.phase == _modes.TEST else 'TRAIN',
            self._n_layers, len(self._blobs),
            format(sum(b.count for i in range(self._n_layers)
                       for b in self._parameters(i)), ','))
