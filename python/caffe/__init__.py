"""pycaffe on the engine Cortado.

What pycaffe has is here under its names.  Errors of the engine are
``caffe.Error``, a ``RuntimeError``; the process is never aborted.  Parts that
need Google's protobuf package (``caffe.io``, ``caffe.NetSpec``, ``caffe.layers``
and ``caffe.params``, ``caffe.Classifier``, ``caffe.Detector``) are imported
when they are first used, so that nets and solvers need numpy alone.
"""

import importlib

from . import distributed
from ._caffe import (TEST, TRAIN, Blob, BlobVec, Error, Layer, LayerParameter,
                     Solver, __version__, get_solver, has_nccl, init_log,
                     layer_type_list, load_plugin, log, set_device, set_mode_cpu,
                     set_mode_gpu, set_multiprocess, set_precision,
                     set_random_seed, set_solver_count, set_solver_rank, set_threads,
                     solver_count, solver_rank)
from .pycaffe import (NCCL, AdaDeltaSolver, AdaGradSolver, AdamSolver, Net,
                      NesterovSolver, RMSPropSolver, SGDSolver, Timer)

# Attributes that are imported on first use, and the modules they are in.
_LATER = {
    'Classifier': 'classifier', 'Detector': 'detector',
    'NetSpec': 'net_spec', 'layers': 'net_spec', 'params': 'net_spec',
    'to_proto': 'net_spec',
}
_MODULES = ('classifier', 'coord_map', 'detector', 'draw', 'io', 'net_spec',
            'proto')

__all__ = [
    'AdaDeltaSolver', 'AdaGradSolver', 'AdamSolver', 'Blob', 'BlobVec',
    'Error', 'Layer', 'LayerParameter', 'NCCL', 'NesterovSolver', 'Net',
    'RMSPropSolver', 'SGDSolver', 'Solver', 'TEST', 'TRAIN', 'Timer',
    '__version__', 'distributed', 'get_solver', 'has_nccl', 'init_log', 'layer_type_list',
    'load_plugin', 'log', 'set_device', 'set_mode_cpu', 'set_mode_gpu', 'set_multiprocess',
    'set_precision', 'set_random_seed', 'set_solver_count', 'set_solver_rank', 'set_threads',
    'solver_count', 'solver_rank',
]


def __getattr__(name):
    if name in _LATER:
        module = importlib.import_module('.' + _LATER[name], __name__)
        value = globals()[name] = getattr(module, name)
        return value
    if name in _MODULES:
        return importlib.import_module('.' + name, __name__)
    raise AttributeError('module %r has no attribute %r' % (__name__, name))


def __dir__():
    return sorted(set(globals()) | set(_LATER) | set(_MODULES))
