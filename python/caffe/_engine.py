"""What belongs to the engine of this process: neither copied nor inherited.

Objects that stand for something of the engine refuse copy and pickle, because
a second owner of the same memory would end the process.  After a fork() the
engine's threads are gone in the child; what the parent made raises there at
once, and what the child makes by itself runs on one thread if the parent's
threads had started.
"""

import os
import weakref

from ._library import Error, lib

_handles = weakref.WeakSet()
_used = False    # whether the engine may have started threads
_forked = False  # whether it had done so before this process was forked


class Pinned:
    """Refuses copy.copy(), copy.deepcopy() and pickle with a TypeError."""
    __slots__ = ()
    _instead = ''

    def __reduce_ex__(self, _protocol):
        raise TypeError('a caffe.%s belongs to the engine of this process and '
                        'cannot be copied or pickled%s'
                        % (type(self).__name__, self._instead))


class Handle(Pinned):
    """Something of the engine that was made in this process, or lost."""
    __slots__ = ('_pointer', '_lost', '__weakref__')
    _what = 'this object'

    def __init__(self, pointer=None):
        self._pointer = pointer
        self._lost = False
        _handles.add(self)
        start()

    @property
    def pointer(self):
        """The C object.  Raises where it belongs to another process."""
        if self._lost:
            raise Error('%s was made before fork(), by another process, whose '
                        'threads are not here: make it in this process, or '
                        'start processes with multiprocessing\'s "spawn"'
                        % self._what)
        if self._pointer is None:
            raise Error('%s is not there now: its solver builds it for other '
                        'ranks, or is gone' % self._what)
        return self._pointer


def start():
    """The engine is about to work."""
    global _used
    _used = True


def check_threads(n):
    """Whether this process may have n threads of the engine."""
    if _forked and n != 1:
        raise Error('this process was forked after the engine had run: it '
                    'computes on one thread; use multiprocessing\'s "spawn" '
                    'for more')


def _in_child():
    global _forked
    for handle in list(_handles):
        handle._lost = True
    if _used:
        _forked = True
        lib.ct_device_cpu_set_threads(1)


os.register_at_fork(after_in_child=_in_child)
