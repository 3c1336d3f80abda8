"""Solvers: train nets."""

import ctypes
import signal
import threading

from . import _device, _modes, _ranks, distributed
from ._engine import Handle, Pinned
from ._events import Listener
from ._library import (ACTION_FN, ESTOP, Error, check, decode, encode, lib)
from ._net import Net, NetHandle

_GO_ON, _STOP = 0, 2


class _Interrupt:
    """Ctrl-C while the engine trains: stops it, then KeyboardInterrupt.

    Only where Python would have raised that anyway: in the main thread, with
    Python's own handler in place.  The signal waits until the engine asks for
    it: a handler that interrupts one of oneDNN's products would put its frame
    over values that the product keeps below its stack (apps/signals.h).
    """

    def __init__(self):
        self.asked = False
        self.blocks_too = ()  # signals that somebody else waits for meanwhile
        self._before = None
        self._blocked = ()

    def _note(self, _number, _frame):
        self.asked = True

    def is_asked(self):
        return self.asked or (self._before is not None and
                              signal.SIGINT in signal.sigpending())

    def __enter__(self):
        self.asked = False
        self._before = None
        self._blocked = ()
        if threading.current_thread() is not threading.main_thread():
            return
        self._blocked = self.blocks_too
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)
            self._blocked = (signal.SIGINT, *self.blocks_too)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)

    def __exit__(self, *_raised):
        if self._blocked:
            # One that waits arrives here, and is noted.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._blocked)
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self.asked:
            raise KeyboardInterrupt


class SolverHandle(Handle):
    """A C solver, freed with the last Python object that needs it."""
    __slots__ = ('interrupt', '_action', 'listeners', 'job')
    _what = 'this solver'

    def __init__(self, path, kind):
        super().__init__()
        interrupt = self.interrupt = _Interrupt()
        listeners = self.listeners = []
        exchange = distributed._exchange(path)
        job = self.job = distributed._job_for(self)
        self._action = ACTION_FN(
            lambda _arg: _STOP if (
                job.action() if job is not None else
                interrupt.is_asked() or any(
                    one.raised is not None for one in listeners)) else _GO_ON)
        out = ctypes.c_void_p()
        check(lib.ct_solver_open(
            encode(path), _modes.device(path, True), kind,
            distributed._common_seed(_modes.next_seed(-1)), _ranks.rank,
            _ranks.count, exchange, self._action, None, ctypes.byref(out)))
        self._pointer = out.value
        distributed._take_in(self)

    def __del__(self, destroy=lib.ct_solver_destroy):
        if self._pointer and not self._lost:
            destroy(self._pointer)
        self._pointer = None


class SolverParameter:
    """What a solver's prototxt says."""

    def __init__(self, handle):
        self._handle = handle

    @property
    def max_iter(self) -> int:
        """Where training ends."""
        return lib.ct_solver_max_iter(self._handle.pointer)

    @property
    def display(self) -> int:
        """Iterations between two lines of the log; 0: none."""
        return lib.ct_solver_display(self._handle.pointer)

    @property
    def layer_wise_reduce(self) -> bool:
        """Whether gradients travel while backward still runs."""
        return lib.ct_solver_layer_wise_reduce(self._handle.pointer)

    @property
    def base_lr(self) -> float:
        """The learning rate to start from; may be set."""
        return lib.ct_solver_base_lr(self._handle.pointer)

    @base_lr.setter
    def base_lr(self, rate):
        lib.ct_solver_set_base_lr(self._handle.pointer, rate)


class _Callbacks:
    """on_start and on_gradients_ready, by the hooks of the train net.

    An iteration starts with the first of its iter_size forward passes and its
    gradients are ready after the last backward pass.  It knows the solver by
    its handle alone.
    """

    def __init__(self, solver):
        self.pairs = []
        self.end = None  # iterations from here on train no more; None: all do
        self._pointer = solver._handle.pointer
        self._done = 0
        net = solver.net
        net.before_forward(self._forward)
        net.after_backward(self._backward)

    def _forward(self, layer):
        if layer == 0 and self._done == 0 and (
                self.end is None or lib.ct_solver_iter(self._pointer) <
                self.end):
            for on_start, _ in self.pairs:
                on_start()

    def begin_again(self):
        """Ranks came or went: the iteration under way is done again."""
        self._done = 0

    def _backward(self, layer):
        if layer != 0:
            return
        self._done += 1
        if self._done < lib.ct_solver_iter_size(self._pointer):
            return
        self._done = 0
        for _, on_gradients_ready in self.pairs:
            on_gradients_ready()


class Solver(Pinned):
    """A train net, its test nets and an update rule, from a prototxt."""

    _instead = '; snapshot() it and restore() that where it is wanted'
    _kind = None      # the update rule; None: the file's
    _net_class = Net  # pycaffe.py puts its own here

    def __init__(self, solver_file):
        self._handle = SolverHandle(solver_file, self._kind)
        self._callbacks = None
        pointer = self._handle.pointer
        self._net = self._make_net(lib.ct_solver_net(pointer))
        self._test_nets = [
            self._make_net(lib.ct_solver_test_net(pointer, i))
            for i in range(lib.ct_solver_n_test_nets(pointer))]
        if self._handle.job is not None:
            self._handle.job.bind(self)

    def _make_net(self, pointer):
        return self._net_class._of(NetHandle(pointer, self._handle))

    @property
    def net(self) -> Net:
        """The net that is trained."""
        return self._net

    @property
    def test_nets(self) -> list:
        """The nets that test."""
        return list(self._test_nets)

    @property
    def iter(self) -> int:
        """Iterations done.  In an elastic job, of the job: a solver that has
        not entered it yet does so."""
        if self._handle.job is not None:
            self._handle.job.enter()
        return lib.ct_solver_iter(self._handle.pointer)

    @property
    def type(self) -> str:
        """The update rule."""
        return decode(lib.ct_solver_type(self._handle.pointer))

    @property
    def lr(self) -> float:
        """The learning rate of the coming iteration."""
        rate = ctypes.c_float()
        check(lib.ct_solver_rate(self._handle.pointer, ctypes.byref(rate)))
        return rate.value

    @property
    def loss(self) -> float:
        """The loss, averaged over average_loss iterations."""
        return lib.ct_solver_loss(self._handle.pointer)

    @property
    def param(self) -> SolverParameter:
        """What the prototxt says."""
        return SolverParameter(self._handle)

    def _train_in(self, job, call, whole):
        if self._callbacks is not None:
            self._callbacks.end = self.param.max_iter if whole else None
        job.train(self, call, whole)

    def _train(self, end, call):
        if self._callbacks is not None:
            self._callbacks.end = end
        _device.push()
        try:
            with self._handle.interrupt:
                status = call()
        except KeyboardInterrupt as interrupt:
            if self.iter < end:
                distributed._note_common(interrupt)
            raise
        finally:
            _device.ran()
        self._raise_heard()
        if status != ESTOP:
            check(status)
        if self.iter < end and distributed._is_joined():
            interrupt = KeyboardInterrupt('another rank was interrupted')
            distributed._note_common(interrupt)
            raise interrupt

    def _raise_heard(self):
        """What a listener has raised, once."""
        for one in self._handle.listeners:
            if one.raised is not None:
                raised, one.raised = one.raised, None
                raise raised

    def step(self, n: int) -> None:
        """Train n iterations.  Ctrl-C ends them after the one that runs."""
        pointer = self._handle.pointer
        job = self._handle.job
        if job is not None:
            self._train_in(job, lambda: lib.ct_solver_step(pointer, n), False)
            return
        lib.ct_solver_clear_stop(pointer)
        self._train(self.iter + n, lambda: lib.ct_solver_step(pointer, n))

    def solve(self, resume_file=None) -> None:
        """Train to max_iter, from a snapshot if one is given.

        Ctrl-C ends it after the iteration that runs, with the snapshot that
        snapshot_after_train asks for.
        """
        if resume_file is not None:
            self.restore(resume_file)
        pointer = self._handle.pointer
        job = self._handle.job
        if job is not None:
            self._train_in(job, lambda: lib.ct_solver_solve(pointer), True)
            return
        self._train(self.param.max_iter, lambda: lib.ct_solver_solve(pointer))

    def restore(self, state_file) -> None:
        """Go on from a .solverstate or .solverstate.h5.

        In an elastic job, before the solver has entered it: it counts for
        the process that begins the job."""
        if self._handle.job is not None and self._handle.job.entered:
            raise Error('restore() comes before the first step, and before '
                        'solver.iter is asked for: this solver has entered '
                        'an elastic job, which stands where it stands')
        _device.push()
        check(lib.ct_solver_restore(self._handle.pointer, encode(state_file)))
        _device.ran()

    def snapshot(self) -> None:
        """Write model and solver state, named after the iteration."""
        pointer = self._handle.pointer
        job = self._handle.job
        if job is not None:
            job.train(self, lambda: lib.ct_solver_snapshot(pointer), False)
            return
        _device.push()
        check(lib.ct_solver_snapshot(pointer))

    def share_weights(self, net: Net) -> None:
        """Let another net use the weights of the one that is trained."""
        net.share_with(self.net)

    def apply_update(self) -> None:
        """Change the weights by their gradients; counts as an iteration.

        With peers, by the mean of the gradients of all ranks."""
        if self._handle.job is not None:
            raise Error('apply_update() by hand is for jobs of fixed size: '
                        'an iteration of an elastic job may have to be done '
                        'again; use step()')
        if distributed._is_joined():
            distributed._sum_gradients(self)
        _device.push()
        check(lib.ct_solver_apply_update(self._handle.pointer))
        _device.ran()

    def listen(self, **functions) -> None:
        """Call functions with what happens while this solver trains.

        iteration=f, test=f, snapshot=f, mark=f (a rank came, was lost, is
        late or is back), view=f (an elastic job goes on with other ranks),
        inspect=f (parameters are updated, gradients are still there) and
        stop=f; each takes one named tuple.  inspect=f comes after every
        iteration, or after those for which wants_inspect=g says so, which
        takes an iteration's number before it.  Training waits for them.  What
        one raises ends training after the iteration that runs.
        """
        unknown = set(functions) - {'iteration', 'test', 'snapshot', 'mark',
                                    'view', 'wants_inspect', 'inspect', 'stop'}
        if unknown:
            raise TypeError('listen() knows iteration, test, snapshot, mark, '
                            'view, wants_inspect, inspect and stop, not %s'
                            % ', '.join(sorted(unknown)))
        self._handle.listeners.append(
            Listener(self._handle.pointer, functions))

    def add_callback(self, on_start, on_gradients_ready=None) -> None:
        """Call on_start() before every iteration and on_gradients_ready()
        when its gradients are there, before the update."""
        if isinstance(on_start, _modes.NCCL):
            return
        if not callable(on_start) or not callable(on_gradients_ready):
            raise TypeError('add_callback() takes two functions')
        if self._callbacks is None:
            self._callbacks = _Callbacks(self)
        self._callbacks.pairs.append((on_start, on_gradients_ready))

    def __repr__(self):
        if self._handle._lost:
            return '<caffe.Solver of another process>'
        return "<caffe.%s %s '%s', iteration %d of %d, %d test nets>" % (
            type(self).__name__, self.type, self.net.name,
            lib.ct_solver_iter(self._handle.pointer),
            self.param.max_iter, len(self._test_nets))


def _solver(kind):
    class Made(Solver):
        _kind = kind.encode()
    Made.__name__ = Made.__qualname__ = kind + 'Solver'
    Made.__doc__ = 'A solver with the update rule %s.' % kind
    Made.__module__ = 'caffe'
    return Made


SGDSolver = _solver('SGD')
NesterovSolver = _solver('Nesterov')
AdaGradSolver = _solver('AdaGrad')
RMSPropSolver = _solver('RMSProp')
AdaDeltaSolver = _solver('AdaDelta')
AdamSolver = _solver('Adam')

_CLASSES = {c._kind.decode(): c for c in (
    SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver, AdaDeltaSolver,
    AdamSolver)}


def get_solver(solver_file) -> Solver:
    """A solver with the update rule that its prototxt names."""
    solver = Solver(solver_file)
    solver.__class__ = _CLASSES.get(solver.type, Solver)
    return solver


__all__ = ['Error', 'Solver', 'SolverParameter', 'SGDSolver', 'NesterovSolver',
           'AdaGradSolver', 'RMSPropSolver', 'AdaDeltaSolver', 'AdamSolver',
           'get_solver']
