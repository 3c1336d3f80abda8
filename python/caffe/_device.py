"""Blobs on a GPU, seen through numpy.

Each has an array in the host's memory.  It is fetched when ``data`` or
``diff`` is asked for, and what is written into it reaches the GPU before the
engine runs the next time, as with Caffe's own blobs.
"""

import sys
import zlib

import numpy as np

from ._library import check, lib

_pull = lib.ct_blob_pull
_push = lib.ct_blob_push
_version = lib.ct_blob_version

_n_runs = 0  # of the engine, and writes to the GPU
_shown = {}  # arrays that somebody may write to, by blob and part

# References to an array that nobody but its Mirror has.
_UNSHARED = sys.getrefcount(np.empty(0)) + 1


class Mirror:
    """The values of a blob, and what they were when both sides agreed."""
    __slots__ = ('array', 'version', 'run', 'sum')

    def __init__(self, shape, version):
        self.array = np.zeros(shape, np.float32)
        self.version = version
        self.run = -1
        self.sum = 0


def _sum(array):
    return zlib.crc32(array)


def view(pointer, diff, shape, mirrors):
    """The array of a blob; `mirrors` are those of its net."""
    push()
    key = pointer, diff
    version = _version(pointer)
    mirror = mirrors.get(key)
    if mirror is None or mirror.version != version:
        mirror = mirrors[key] = Mirror(shape, version)
    if mirror.run != _n_runs:
        check(_pull(pointer, diff, mirror.array.ctypes.data))
        mirror.run = _n_runs
        mirror.sum = _sum(mirror.array)
    _shown[key] = mirror
    return mirror.array.view()


def push():
    """Bring to the GPU what was written into arrays; before the engine runs
    and before another array is looked at, since blobs may share memory."""
    global _n_runs
    if not _shown:
        return
    for (pointer, diff), mirror in list(_shown.items()):
        now = _sum(mirror.array)
        if now != mirror.sum and _version(pointer) == mirror.version:
            check(_push(pointer, diff, mirror.array.ctypes.data))
            mirror.sum = now
            _n_runs += 1
            mirror.run = _n_runs
        if sys.getrefcount(mirror.array) <= _UNSHARED:
            del _shown[pointer, diff]


def ran():
    """The engine has run: blobs may hold other values."""
    global _n_runs
    _n_runs += 1


def forget(mirrors):
    """The net of these is about to go."""
    for key in mirrors:
        _shown.pop(key, None)
    mirrors.clear()
