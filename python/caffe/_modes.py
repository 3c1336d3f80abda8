"""Settings of the process: mode, device, seed, ranks, log."""

import ctypes
import os
import time
import warnings

from . import _engine, _ranks
from ._library import Error, check, decode, encode, lib

TRAIN, TEST = 0, 1

_seed = None    # what set_random_seed() said
_n_seeded = 0   # nets and solvers made since
_warned = False
_on_gpu = False
_device_id = 0
_precision = None  # None: what a net's own words ask for
_devices = {}      # open ones, by number and precision


def set_mode_cpu() -> None:
    """Run the nets and solvers made from now on on the CPU."""
    global _on_gpu
    _on_gpu = False


def _has_gpu():
    global _warned
    if lib.ct_device_cuda_count() > 0:
        return True
    if not _warned:
        _warned = True
        warnings.warn('there is no GPU that this build can use: running on '
                      'the CPU', RuntimeWarning, stacklevel=3)
    return False


def set_mode_gpu() -> None:
    """Run the nets and solvers made from now on on the GPU; where there is
    none, warn once and run on the CPU."""
    global _on_gpu
    _on_gpu = _has_gpu()


def set_device(device_id: int) -> None:
    """Choose a GPU by its number."""
    global _device_id
    if int(device_id) < 0:
        raise Error('there is no device %d' % device_id)
    if _has_gpu() and int(device_id) >= lib.ct_device_cuda_count():
        raise Error('there is no GPU %d; this machine has %d, counted from 0'
                    % (device_id, lib.ct_device_cuda_count()))
    _device_id = int(device_id)


def set_precision(word: str) -> None:
    """How a GPU computes: 'fp32', 'tf32', 'bf16' or 'fp16'; None: as a net's
    own words ask for, or in fp32."""
    global _precision
    if word is None:
        _precision = None
        return
    out = ctypes.c_int()
    check(lib.ct_precision_parse(word.encode(), ctypes.byref(out)))
    _precision = out.value


def device(path, solver=False):
    """The device for a net or a solver of this file; None: the CPU."""
    if not _on_gpu:
        return None
    precision = ctypes.c_int(_precision or 0)
    if _precision is None:
        check(lib.ct_precision_asked(encode(path), solver,
                                     ctypes.byref(precision)))
    key = _device_id, precision.value
    if key not in _devices:
        out = ctypes.c_void_p()
        check(lib.ct_device_cuda_open(*key, ctypes.byref(out)))
        _devices[key] = out.value
    return _devices[key]


def set_random_seed(seed: int) -> None:
    """Let the nets and solvers made from now on repeat."""
    global _seed, _n_seeded
    if int(seed) < 0:
        raise Error('the seed is %d; it must not be negative' % seed)
    _seed, _n_seeded = int(seed), 0


def next_seed(fallback):
    """The next net's or solver's seed, or `fallback` where none is set."""
    global _n_seeded
    if _seed is None:
        return fallback
    seed = (_seed + (_n_seeded << 32)) % (1 << 63)
    _n_seeded += 1
    return seed


def net_seed():
    """The next net's seed, from the system where none is set."""
    return next_seed(int.from_bytes(os.urandom(8), 'little') >> 1)


def solver_count() -> int:
    """How many solvers train together."""
    return _ranks.count


def set_solver_count(count: int) -> None:
    """Say how many solvers train together."""
    if int(count) < 1:
        raise Error('the solver count is %d; it must be above 0' % count)
    _ranks.count = int(count)


def solver_rank() -> int:
    """Which of them this one is, from 0."""
    return _ranks.rank


def set_solver_rank(rank: int) -> None:
    """Say which of them this one is."""
    if int(rank) < 0:
        raise Error('the solver rank is %d; it must not be negative' % rank)
    _ranks.rank = int(rank)


def set_multiprocess(on: bool) -> None:
    """Accepted: one process a solver is the only way here."""


def has_nccl() -> bool:
    """Whether gradients travel over NCCL."""
    return False


class NCCL:
    """Stands where pycaffe has NCCL; a build without it does nothing."""

    def __init__(self, solver, uid):
        self.solver = solver

    @staticmethod
    def new_uid() -> bytes:
        """A name for a group of ranks."""
        return os.urandom(16)

    def bcast(self) -> None:
        """Send the weights of rank 0 to all."""


class Timer:
    """A stop watch."""

    def __init__(self):
        self._start = self._ms = 0.0

    def start(self) -> None:
        """Start counting."""
        self._start = time.perf_counter()

    def stop(self) -> None:
        """Stop counting."""
        self._ms = (time.perf_counter() - self._start) * 1e3

    @property
    def ms(self) -> float:
        """Milliseconds between start and stop."""
        return self._ms


def init_log(level: int = 0, stderr: bool = True) -> None:
    """Log from this level on: 0 information, 1 warnings, 2 errors.

    Among ranks that train together, all but rank 0 log errors alone."""
    lib.ct_log_set_level(max(int(level), 2 if _ranks.quiet else 0))


def log(text: str) -> None:
    """Write a line into the engine's log."""
    lib.ct_log_text(0, b'python', 0, text.encode('utf-8', 'replace'))


def load_plugin(path) -> None:
    """Load layer types from a shared object (cortado/plugin.h)."""
    check(lib.ct_plugin_load(encode(path)))


def set_threads(n: int) -> None:
    """CPU threads the engine uses; 0: one a core."""
    _engine.check_threads(int(n))
    lib.ct_device_cpu_set_threads(int(n))


def version() -> str:
    """The version of the engine."""
    return decode(lib.ct_version())


if os.environ.get('GLOG_minloglevel', '').isdigit():
    init_log(int(os.environ['GLOG_minloglevel']))
