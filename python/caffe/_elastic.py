"""A solver among processes that come and go (cortado/elastic.h).

A solver is made alone, and enters the job when it is first asked to train, or
where it stands.  While it trains, others may be lost, leave or come: the
engine then builds the solver's nets anew, for another share of the batch, and
this module lets the Python objects of those nets follow.
"""

import collections
import ctypes
import os
import signal
import sys
import threading
import weakref

from . import _device, _ranks
from ._events import view_table
from ._library import (ESTOP, OK, ElasticOptions, Error, check, decode, encode,
                       lib)

_LEAVING = (signal.SIGTERM, signal.SIGUSR1)
_LOOK_SECONDS = 0.2
_EXIT_STOPPED = 4  # what `cortado train` exits with then

View = collections.namedtuple('View', 'number rank size iter why')


class Left(SystemExit):
    """This process has left its job, or the job was asked to end.

    Nobody need catch it: the process then ends, with exit status 4."""

    def __init__(self, text):
        super().__init__(_EXIT_STOPPED)
        self.text = text

    def __str__(self):
        return self.text


def _size_text(size):
    """True, 'MIN:MAX' or (MIN, MAX) as the engine takes it."""
    if size is None or size is True:
        return None
    if isinstance(size, (tuple, list)):
        size = ':'.join(str(int(n)) for n in size)
    return str(size).encode()


def _how_to_start(size):
    """For `cortado join`: the folder, then the words of a command line."""
    words = getattr(sys, 'orig_argv', [sys.executable] + sys.argv)
    lines = [os.getcwd(), 'launch']
    if size is not None:
        lines.append('--elastic=' + size.decode())
    lines += ['--', sys.executable, *words[1:]]
    if any('\n' in line for line in lines):
        return None
    return encode('\n'.join(lines) + '\n')


def launched() -> bool:
    """Whether an agent (`cortado launch`) started this process as a rank."""
    return lib.ct_elastic_launched()


class Job:
    """This process's part in an elastic job."""

    def __init__(self, size, rendezvous, secret_file, suspect, orphan, options):
        size = _size_text(size)
        given = ElasticOptions(
            size, None if rendezvous is None else encode(rendezvous),
            None if secret_file is None else encode(secret_file),
            suspect or 0, orphan or 0, _how_to_start(size),
            b"road: 'allreduce'", encode(options))
        out = ctypes.c_void_p()
        check(lib.ct_elastic_open(ctypes.byref(given), ctypes.byref(out)))
        self._pointer = out.value
        self.handle = None   # of the solver, once there is one
        self.entered = False
        self._over = ''      # why nothing can be asked of it any more
        self._solver = None  # a weak reference
        self._entering = False
        self._lock = threading.RLock()  # of _over, for whoever leaves
        self._signals = ()   # that are this job's
        self._stale = False  # the nets are about to be built anew
        self._table = view_table(self._changed)

    # ---- The solver.

    def take(self, handle):
        """A solver was made; it is the one that trains in this job."""
        if self.handle is not None and self.handle._pointer:
            raise Error('an elastic job trains one solver, and this process '
                        'has made another one: init(join=False) lets it '
                        'train apart')
        self.check_open()
        self.handle = handle

    def bind(self, solver):
        """The object that a handle is of."""
        self._solver = weakref.ref(solver)

    def enter(self):
        """Wait for a place in the job, unless it has one."""
        if self.entered or self._entering or self._over:
            return
        if self.handle is None or not self.handle._pointer:
            raise Error('a process of an elastic job has no rank before its '
                        'solver is made')
        self._catch_signals()
        try:
            self._take_place()
        except BaseException:  # there is no second try: it may be half in
            self.close(False, 'this process could not enter its job')
            raise
        self.entered = True
        check(lib.ct_solver_listen(self.handle.pointer,
                                   ctypes.byref(self._table), None))
        self._tell()

    def _take_place(self):
        _device.push()
        self._entering = True
        try:
            with self.handle.interrupt:
                status = lib.ct_elastic_enter(self._pointer,
                                              self.handle.pointer)
        finally:
            self._entering = False
            _device.ran()
            self._stale = True
            self._renew()
        if status == ESTOP:
            self._leave(decode(lib.ct_last_error()))
        check(status)

    def check_open(self):
        """Raise where training is over."""
        if self._over:
            raise Error('%s: this solver trains no more' % self._over)

    # ---- Views.

    @property
    def dist(self):
        """The peers; None before it has entered and after it has left."""
        return lib.ct_elastic_dist(self._pointer) if self.entered else None

    def view(self):
        """Who this process is, in the view that it trains in."""
        self.check_open()
        self.enter()
        return self._view_now()

    def _changed(self, begins):
        """On the thread that trains: nets are about to go, or are new."""
        if begins:
            self._renew()
            self._tell()
            return
        solver = self._solver and self._solver()
        self._stale = True
        if solver is not None:
            for net in (solver._net, *solver._test_nets):
                net._abandon()

    def _renew(self):
        """Python's nets and ranks follow those of the engine."""
        dist = lib.ct_elastic_dist(self._pointer)
        if dist:
            _ranks.rank = lib.ct_dist_rank(dist)
            _ranks.count = lib.ct_dist_size(dist)
            _ranks.quiet = _ranks.rank > 0
        self._renew_nets()

    def _renew_nets(self):
        solver = self._solver and self._solver()
        if self._stale and solver is not None:
            pointer = self.handle.pointer
            for net in (solver._net, *solver._test_nets):
                net._abandon()
            for i, net in enumerate(solver._test_nets):
                if i < lib.ct_solver_n_test_nets(pointer):
                    net._renew(lib.ct_solver_test_net(pointer, i))
            solver._net._renew(lib.ct_solver_net(pointer))
            if solver._callbacks is not None:
                solver._callbacks.begin_again()
        self._stale = False

    def _tell(self):
        for listener in self.handle.listeners:
            listener.tell_view(self._view_now())

    def _view_now(self):
        return View(lib.ct_elastic_view(self._pointer), _ranks.rank,
                    _ranks.count, lib.ct_solver_iter(self.handle.pointer),
                    decode(lib.ct_elastic_why(self._pointer)))

    # ---- Training.

    def action(self):
        """Between two iterations: whether the whole job is to end."""
        if any(one.raised is not None for one in self.handle.listeners):
            self.leave()  # the others go on
        return (self.handle.interrupt.is_asked() or
                lib.ct_elastic_ends(self._pointer))

    def train(self, solver, call, whole):
        """step(), snapshot(), or a whole solve()."""
        self.check_open()
        self.enter()
        pointer = self.handle.pointer
        _device.push()
        try:
            with self.handle.interrupt:
                status = call()
                stopped = lib.ct_solver_is_stopped(pointer)
                if stopped and status == OK and not whole:
                    status = lib.ct_solver_stop_snapshot(pointer)
        finally:
            _device.ran()
            self._renew()
            solver._net._share_again()
        try:
            solver._raise_heard()
            if status == ESTOP or (status == OK and stopped):
                self._leave('the job was asked to end' if stopped
                            else decode(lib.ct_last_error()))
            check(status)
        except BaseException:  # others go on without a rank that has failed
            self.close(False, 'training has failed in this process')
            raise
        if whole:
            self.close(True, 'the training of this job is done')

    # ---- Signals.

    def _catch_signals(self):
        """SIGTERM and SIGUSR1 let this process leave, where nobody else
        listens to them; a thread waits for those that come while the engine
        works, which the solver's interrupt holds up."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._signals = tuple(n for n in _LEAVING
                              if signal.getsignal(n) is signal.SIG_DFL)
        for number in self._signals:
            signal.signal(number, self._on_signal)
        self.handle.interrupt.blocks_too = self._signals
        threading.Thread(target=self._wait_for_signals, daemon=True,
                         name='cortado signals').start()

    def _on_signal(self, _number, _frame):
        self.leave()

    def _wait_for_signals(self):
        signal.pthread_sigmask(signal.SIG_BLOCK,
                               (*self._signals, signal.SIGINT))
        while not self._over:
            got = signal.sigtimedwait(self._signals, _LOOK_SECONDS)
            interrupted = (self._entering and
                           signal.SIGINT in signal.sigpending())
            # Interrupted when its time is over, it may return anything.
            if (got and got.si_signo in self._signals) or interrupted:
                self.leave()

    def _forget_signals(self):
        self.handle.interrupt.blocks_too = ()
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, signal.SIG_DFL)

    # ---- The end.

    def leave(self):
        """Ask to be left out after the iteration under way."""
        with self._lock:  # a handler of signals may come in between
            if not self._over:
                lib.ct_elastic_leave(self._pointer)

    def _leave(self, text):
        self.close(False, text)
        raise Left(text)

    def is_done(self):
        """Whether the solver has come to its max_iter."""
        pointer = self.handle.pointer
        return lib.ct_solver_iter(pointer) >= lib.ct_solver_max_iter(pointer)

    def close(self, done, why):
        """Part with the others; all come here together where training is
        done."""
        with self._lock:
            if self._over:
                return
            self._over = why
        if self.handle is not None:
            self._forget_signals()
        lib.ct_elastic_close(self._pointer, done and self.entered)
        self._renew_nets()  # the others may have ended while a view began
        self.entered = False
        self.handle = None
        _ranks.quiet = False

    def forget(self):
        """In a forked process, which is none of the job's."""
        self._over = 'the job belongs to the process that this one was ' \
            'forked from'
        self.entered = False
        for number in self._signals:
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)
        if self._signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK,
                                   (*self._signals, signal.SIGINT))
