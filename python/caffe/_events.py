"""What happens in training, for Python functions (cortado/events.h)."""

import collections
import ctypes
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_int, c_void_p

from . import _device
from ._library import check, decode, lib


class _Iteration(ctypes.Structure):
    _fields_ = [('iter', c_int), ('max_iter', c_int), ('loss', c_double),
                ('smoothed', c_double), ('rate', c_double),
                ('samples', ctypes.c_int64), ('seconds', c_double),
                ('seconds_left', c_double), ('displayed', c_bool)]


class _Output(ctypes.Structure):
    _fields_ = [('name', c_char_p), ('value', c_double),
                ('weight', c_double)]


class _Test(ctypes.Structure):
    _fields_ = [('iter', c_int), ('net', c_int), ('seconds', c_double),
                ('output', POINTER(_Output)), ('n_outputs', c_int)]


class _Snapshot(ctypes.Structure):
    _fields_ = [('iter', c_int), ('model', c_char_p), ('state', c_char_p)]


class _Mark(ctypes.Structure):
    _fields_ = [('kind', c_int), ('rank', c_int), ('iter', c_int),
                ('time', c_double), ('text', c_char * 192)]


_EVENT_FN = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
_STOP_FN = ctypes.CFUNCTYPE(None, c_int, c_int, c_void_p)
_WANTS_FN = ctypes.CFUNCTYPE(c_bool, c_int, c_void_p)
_INSPECT_FN = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)
_VIEW_FN = ctypes.CFUNCTYPE(None, c_bool, c_void_p)


class _Table(ctypes.Structure):
    _fields_ = [('iteration', _EVENT_FN), ('test', _EVENT_FN),
                ('snapshot', _EVENT_FN), ('mark', _EVENT_FN),
                ('stop', _STOP_FN), ('wants_inspect', _WANTS_FN),
                ('inspect', _INSPECT_FN), ('view', _VIEW_FN)]


Iteration = collections.namedtuple(
    'Iteration', [name for name, _ in _Iteration._fields_])
Test = collections.namedtuple('Test', 'iter net seconds outputs')
Snapshot = collections.namedtuple('Snapshot', 'iter model state')
Mark = collections.namedtuple('Mark', 'what rank iter time text')
Inspect = collections.namedtuple('Inspect', 'iter')
Stop = collections.namedtuple('Stop', 'iter status')


def _iteration(e):
    return Iteration(*(getattr(e, name) for name in Iteration._fields))


def _test(e):
    outputs = [(decode(o.name), o.value) for o in e.output[:e.n_outputs]]
    return Test(e.iter, e.net, e.seconds, outputs)


def _snapshot(e):
    return Snapshot(e.iter, decode(e.model), decode(e.state))


def _mark(e):
    return Mark(decode(lib.ct_mark_name(e.kind)), e.rank, e.iter, e.time,
                decode(e.text))


_KINDS = {'iteration': (_Iteration, _iteration), 'test': (_Test, _test),
          'snapshot': (_Snapshot, _snapshot), 'mark': (_Mark, _mark)}


def view_table(function):
    """A table that calls function(begins) when ranks come and go."""
    return _Table(view=_VIEW_FN(lambda begins, _arg: function(begins)))


class Listener:
    """Functions that a solver calls.

    Lives as long as the solver.  What one of them raises is kept in `raised`:
    the engine cannot pass it on by itself.
    """

    def __init__(self, pointer, functions):
        self.raised = None
        self._table = _Table()
        self._on_view = functions.get('view')
        for name, function in functions.items():
            if not callable(function):
                raise TypeError('listen(%s=...) takes a function' % name)
            if name == 'view':
                continue  # the job tells of these, when nets are there again
            if name in _KINDS:
                made = self._event(function, *_KINDS[name])
            else:
                made = getattr(self, '_' + name)(function)
            setattr(self._table, name, made)
        if 'inspect' in functions and 'wants_inspect' not in functions:
            self._table.wants_inspect = self._wants_inspect(lambda _iter: True)
        check(lib.ct_solver_listen(pointer, ctypes.byref(self._table), None))

    def tell_view(self, view):
        """The solver trains among other ranks now."""
        if self._on_view is not None:
            self._call(self._on_view, view)

    def _call(self, function, event):
        if self.raised is None:
            try:
                return function(event)
            except BaseException as raised:  # also KeyboardInterrupt
                self.raised = raised
        return None

    def _event(self, function, struct, convert):
        return _EVENT_FN(lambda e, _arg: self._call(
            function, convert(struct.from_address(e))))

    def _wants_inspect(self, function):
        return _WANTS_FN(lambda iteration, _arg: bool(
            self._call(function, iteration)))

    def _inspect(self, function):
        def inspect(_solver, iteration, _arg):
            _device.ran()  # arrays that somebody has are of the pass before
            self._call(function, Inspect(iteration))
        return _INSPECT_FN(inspect)

    def _stop(self, function):
        return _STOP_FN(lambda iteration, status, _arg: self._call(
            function, Stop(iteration, status)))
