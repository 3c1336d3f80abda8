"""What pycaffe's extension module offers, on the engine's C library.

There is nothing to compile: ctypes calls the library.  Blobs are in _blob.py,
layers in _layer.py, nets in _net.py, solvers in _solver.py, settings of the
process in _modes.py, and the library itself in _library.py.
"""

from ._blob import Blob, BlobVec, RawBlobVec
from ._layer import Layer, LayerParameter
from ._library import Error, decode, lib
from ._modes import (NCCL, TEST, TRAIN, Timer, has_nccl, init_log,
                     load_plugin, log, set_device, set_mode_cpu, set_mode_gpu, set_multiprocess,
                     set_precision, set_random_seed, set_solver_count, set_solver_rank,
                     set_threads, solver_count, solver_rank, version)
from ._net import Net
from ._solver import (AdaDeltaSolver, AdaGradSolver, AdamSolver,
                      NesterovSolver, RMSPropSolver, SGDSolver, Solver,
                      SolverParameter, get_solver)

# Scripts ask which Caffe this is; after the plus sign, which of ours.
__version__ = '1.0.0+cortado.' + version()

# pycaffe's vectors are lists here.
BoolVec = DtypeVec = IntVec = LayerVec = NetVec = StringVec = list


def layer_type_list() -> list:
    """The layer types that a prototxt may name."""
    return [decode(lib.ct_layer_type_at(i))
            for i in range(lib.ct_layer_n_types())]


__all__ = [
    'AdaDeltaSolver', 'AdaGradSolver', 'AdamSolver', 'Blob', 'BlobVec',
    'Error', 'Layer', 'LayerParameter', 'NCCL', 'NesterovSolver', 'Net',
    'RMSPropSolver', 'RawBlobVec', 'SGDSolver', 'Solver', 'SolverParameter',
    'TEST', 'TRAIN', 'Timer', 'get_solver', 'has_nccl', 'init_log',
    'layer_type_list', 'load_plugin', 'log', 'set_device', 'set_mode_cpu', 'set_mode_gpu',
    'set_multiprocess', 'set_precision', 'set_random_seed',
    'set_solver_count', 'set_solver_rank', 'set_threads', 'solver_count', 'solver_rank',
]
