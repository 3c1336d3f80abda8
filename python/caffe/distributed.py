"""Ranks that train together: the processes that ``mpirun`` started, or those
of an elastic job, which come and go.

``mpirun -n 4 python script.py`` runs the script four times.  The first solver
that a script makes joins the ranks (so does init(), and every function here
that needs them): from then on each iteration applies the mean of all ranks'
gradients, and rank 0 alone logs and writes snapshots.  A process that
no launcher started is rank 0 of 1, and everything works as without ranks.

Ranks meet in init(), in the making of a solver, in its step(), solve(),
apply_update() and snapshot(), and in allreduce(), broadcast() and barrier():
every rank calls these in the same order.  An exception that nobody catches
ends all ranks.

In an elastic job (``cortado launch -- python3 script.py``, or init(elastic=))
ranks meet in step(), solve() and snapshot() alone.  The others go on when a
rank is lost, and one that comes later goes on where they are:

>>> while solver.iter < solver.param.max_iter:
...     solver.step(1)
"""

import atexit
import ctypes
import os
import sys
import weakref
import zlib

import numpy as np

from . import _elastic, _ranks
from ._elastic import Left, View
from ._library import Error, check, embedded, encode, lib

_ERRORS_ONLY = 2

_dist = None      # the peers; None: alone
_decided = False  # whether it is known if there are any
_job = None       # where ranks come and go
_road = None
_handles = weakref.WeakSet()  # of solvers that train with the peers


def _as_text(options):
    """Keywords as the fields of a prototxt's ``distributed { }``."""
    words = []
    for name, value in options.items():
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, str):
            value = '"%s"' % value.replace('\\', r'\\').replace('"', r'\"')
        words.append('%s: %s' % (name, value))
    return ' '.join(words)


def init(join: bool = True, *, elastic=None, rendezvous: str = None,
         secret_file: str = None, suspect: float = None, orphan: float = None,
         _solver: str = None, **options) -> None:
    """Join the other ranks; all of them call it.

    With ``join=False`` (or ``CORTADO_DISTRIBUTED=0`` in the environment) this
    process stays alone, although a launcher started it.  The rest are the
    fields of a solver's ``distributed { }`` and the flags of ``cortado
    train``: `road` allreduce (unless the solver says otherwise), factors or
    auto, `reduce` the way to sum, `overlap` to send gradients during the
    backward pass, and so on.  The first solver calls it, if nobody has, and
    its own ``distributed { }`` counts then.  A second call does nothing.

    `elastic` (True, 'MIN:MAX' or (MIN, MAX) ranks) or `rendezvous` (where
    they meet: 'HOST:PORT,...' or 'file:FOLDER') makes this process one of an
    elastic job, as the flags of ``cortado train`` do; `secret_file`,
    `suspect` and `orphan` are those flags, too.  A rank that ``cortado
    launch`` started is one without a word, and these are the launcher's.
    """
    global _dist, _decided, _road, _job
    if _decided:
        return
    alone = (not join or embedded() or
             os.environ.get('CORTADO_DISTRIBUTED', '') == '0')
    if not alone and (elastic or rendezvous is not None or
                      _elastic.launched()):
        _job = _elastic.Job(elastic, rendezvous, secret_file, suspect, orphan,
                            _as_text(options))
        _road = options.get('road', 'allreduce')
        atexit.register(_part, os.getpid())
    elif not alone:
        out = ctypes.c_void_p()
        check(lib.ct_dist_open(
            b"road: 'allreduce'", None if _solver is None else encode(_solver),
            encode(_as_text(options)), ctypes.byref(out)))
        _dist = out.value
        _road = lib.ct_dist_road(_dist).decode()
    _decided = True
    if _dist is not None:
        _settle_in()


def _settle_in():
    _ranks.rank = lib.ct_dist_rank(_dist)
    _ranks.count = lib.ct_dist_size(_dist)
    if _ranks.rank > 0:
        _ranks.quiet = True
        lib.ct_log_set_level(max(lib.ct_log_level(), _ERRORS_ONLY))
    atexit.register(_leave, os.getpid())
    _watch_exceptions()


def _watch_exceptions():
    """Let a rank that fails end the others, which would wait for it."""
    before, pid = sys.excepthook, os.getpid()

    def end_all(kind, value, trace):
        before(kind, value, trace)
        if not getattr(value, '_caffe_common', False) and os.getpid() == pid:
            sys.stdout.flush()
            sys.stderr.flush()
            lib.ct_dist_abort(_dist, 1)

    sys.excepthook = end_all


def _in_child():
    """A forked process is none of the ranks: it is alone."""
    global _dist
    _dist = None
    if _job is not None:
        _job.forget()


os.register_at_fork(after_in_child=_in_child)


def _leave(pid):
    """At the end of the process.  Solvers that are left go on alone."""
    global _dist
    if _dist is None or os.getpid() != pid:
        return
    for handle in list(_handles):
        lib.ct_solver_leave(handle.pointer)
    dist, _dist = _dist, None
    try:
        check(lib.ct_dist_end(dist))
    except Error as e:
        print('rank %d: %s' % (_ranks.rank, e), file=sys.stderr, flush=True)
        lib.ct_dist_abort(dist, 1)
    lib.ct_dist_end_without(dist, 0)
    lib.ct_dist_destroy(dist)


def _part(pid):
    """At the end of a process of an elastic job."""
    if os.getpid() == pid:
        _job.close(_job.entered and _job.is_done(), 'this process ends')


def finish() -> None:
    """Training in an elastic job is done: wait for the other ranks to say so
    too, and part.

    A solve() does it, and the end of a process whose solver has come to
    max_iter.  Scripts that train up to another iteration call it.
    """
    if _job is not None:
        _job.close(_job.entered, 'the training of this job is done')


def leave() -> None:
    """Leave an elastic job, as SIGTERM does: step() and solve() raise Left
    after the iteration under way, and the others go on."""
    if _job is not None:
        _job.leave()


def view() -> View:
    """Who this process is in an elastic job: number of the view, rank, size,
    iter, and why it follows the one before."""
    init()
    if _job is None:
        return View(0, _ranks.rank, _ranks.count, 0, '')
    return _job.view()


def is_elastic() -> bool:
    """Whether ranks may come and go."""
    init()
    return _job is not None


def _enter():
    """Before a question about ranks."""
    init()
    if _job is not None:
        _job.enter()


def _refuse_elastic(name):
    init()
    if _job is not None:
        raise Error('%s() is for jobs of fixed size: a rank may be lost in the '
                    'middle of it, and one that comes would not know of it; '
                    'ranks of an elastic job meet in step(), solve() and '
                    'snapshot()' % name)


def is_initialised() -> bool:
    """Whether init() has been called, by whomever."""
    return _decided


is_initialized = is_initialised


def rank() -> int:
    """Which rank this process is, from 0."""
    _enter()
    return _ranks.rank


def size() -> int:
    """How many ranks there are."""
    _enter()
    return _ranks.count


def n_hosts() -> int:
    """How many machines they are on."""
    _enter()
    return lib.ct_dist_n_hosts(_dist if _job is None else _job.dist)


def barrier() -> None:
    """Wait until every rank has come here."""
    _refuse_elastic('barrier')
    allreduce(np.zeros(1, np.float32))


def allreduce(array, op: str = 'sum') -> np.ndarray:
    """The 'sum' or the 'mean' over ranks of an array that each rank has.

    Every rank gets the same array, a new one of the same shape.  Values of
    float32 are summed by the engine; all others are exact to their own type
    and take longer.
    """
    _refuse_elastic('allreduce')
    if op not in ('sum', 'mean'):
        raise ValueError("op is 'sum' or 'mean', not %r" % (op,))
    array = _plain(array)
    _check_alike(array)
    if array.dtype == np.float32:
        total = array.copy()
        check(lib.ct_dist_sum(_dist, total.ctypes.data, total.size))
    else:
        total = np.sum(_gather(array), axis=0, dtype=array.dtype)
    return total / array.dtype.type(size()) if op == 'mean' else total


def broadcast(array, root: int = 0) -> np.ndarray:
    """Rank `root`'s array, on every rank; each passes one of that shape."""
    _refuse_elastic('broadcast')
    array = _plain(array)
    if not 0 <= root < size():
        raise ValueError('there is no rank %r among %d' % (root, size()))
    _check_alike(array)
    if root != 0:
        return _gather(array)[root]
    array = array.copy()
    check(lib.ct_dist_broadcast(_dist, array.ctypes.data, array.nbytes))
    return array


def _plain(array):
    init()
    array = np.asarray(array, order='C')
    if array.dtype.hasobject:
        raise TypeError('ranks exchange numbers, not %s' % array.dtype)
    return array


def _check_alike(array):
    """Ranks whose arrays differ in size would wait for ever."""
    text = '%s %s' % (array.dtype.str, array.shape)
    check(lib.ct_dist_same(_dist, b'array', zlib.crc32(text.encode())))


def _gather(array):
    """Every rank's array, bit for bit: the engine adds floats, so each rank
    adds 16-bit words, which floats hold exactly, to zeros of the others."""
    if _dist is None:
        return array[np.newaxis].copy()
    raw = array.tobytes()
    words = np.frombuffer(raw + b'\0' * (len(raw) % 2), np.uint16)
    sums = np.zeros((_ranks.count, len(words)), np.float32)
    sums[_ranks.rank] = words
    check(lib.ct_dist_sum(_dist, sums.ctypes.data, sums.size))
    rows = [row.tobytes()[:len(raw)] for row in sums.astype(np.uint16)]
    return np.frombuffer(b''.join(rows), array.dtype).reshape(
        (_ranks.count,) + array.shape).copy()


# What _solver.py needs.

def _is_joined():
    return _dist is not None


def _exchange(path):
    """For a solver that is about to be made; None: it is alone."""
    init(_solver=path)
    return lib.ct_dist_exchange(_dist)


def _job_for(handle):
    """The elastic job that a solver about to be made trains in, or None."""
    if _job is not None:
        _job.take(handle)
    return _job


def _common_seed(seed):
    """Rank 0's seed, or one of the system's where it has none."""
    if _dist is None:
        return seed
    if seed < 0:
        seed = int.from_bytes(os.urandom(8), 'little') >> 1
    value = ctypes.c_int64(seed)
    check(lib.ct_dist_broadcast(_dist, ctypes.byref(value), 8))
    return value.value


def _take_in(handle):
    """Refuse a solver that does not fit those of the other ranks."""
    if _dist is None:
        return
    _handles.add(handle)
    digest = ctypes.c_uint64()
    check(lib.ct_solver_digest(handle.pointer, ctypes.byref(digest)))
    check(lib.ct_dist_same(_dist, b'solver prototxt', digest.value))


def _sum_gradients(solver):
    """Before an update that the caller asks for by himself."""
    if _road != 'allreduce':
        raise Error("apply_update() among ranks needs init(road='allreduce')")
    net = solver.net._handle.pointer
    check(lib.ct_solver_attach(solver._handle.pointer))
    check(lib.ct_dist_sum(_dist, lib.ct_net_arena_diff(net),
                          lib.ct_net_arena_count(net)))


def _note_common(exception):
    """Every rank raises this one: there is nobody left to end."""
    exception._caffe_common = True
