"""The C library: where it is, what its functions take, how it says no.

The library is looked for as ``$CORTADO_LIBRARY``, in the process itself (a
program that embeds Python brings it along), beside this package, in the build
or installation folder the package lies in, in ``$CORTADO_BUILD`` and, for the
package in its source tree, in ``build`` there, and where the system looks.
"""

import ctypes
import ctypes.util
import glob
import os
import threading
from ctypes import (POINTER, c_bool, c_char_p, c_double, c_float, c_int,
                    c_int64, c_size_t, c_uint32, c_uint64, c_void_p)

_NAME = 'libcortado.so'
_SONAMES = (_NAME + '.0.2', _NAME)

OK, EINVAL, ENOTFOUND, ESTOP = 0, 1, 5, 12


class Error(RuntimeError):
    """What the engine refuses, with its own words.

    What Python code raised that the engine called, a layer or a callback,
    comes through as it is.
    """
    __module__ = 'caffe'


def build_folders():
    """Where the build may be, for a package that is used from its source."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
    named = os.environ.get('CORTADO_BUILD')
    if not os.path.exists(os.path.join(root, 'CMakeLists.txt')):
        return [named] if named else []
    return ([named] if named else []) + [os.path.join(root, 'build')]


def _candidates():
    package = os.path.dirname(os.path.abspath(__file__))
    # build/python/caffe, PREFIX/lib/python3.x/dist-packages/caffe
    folders = [package, os.path.join(package, '..', '..'),
               os.path.join(package, '..', '..', '..')]
    folders += glob.glob(os.path.join(folders[-1], '*-linux-*'))
    folders += build_folders()
    for folder in folders:
        for name in _SONAMES:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                yield os.path.realpath(path)
    found = ctypes.util.find_library('cortado')
    if found:
        yield found


def embedded():
    """Whether a program that is linked with the library runs Python."""
    return hasattr(ctypes.CDLL(None), 'ct_net_open')


def _load():
    named = os.environ.get('CORTADO_LIBRARY')
    if named:
        return ctypes.CDLL(named)
    if embedded():
        return ctypes.CDLL(None)
    reasons = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise ImportError(
        'the library %s is not found; build it, or name it in the environment '
        'variable CORTADO_LIBRARY %s' % (_NAME, '; '.join(reasons)))


lib = _load()

RUN_FN = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_void_p), c_int,
                          POINTER(c_void_p), c_int, POINTER(c_bool), c_void_p)
SEEK_FN = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_void_p)
FORGET_FN = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
HOOK_FN = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
ACTION_FN = ctypes.CFUNCTYPE(c_int, c_void_p)


FINDS_FN = ctypes.CFUNCTYPE(c_bool, c_void_p, c_void_p)


class PythonHost(ctypes.Structure):
    """struct ct_python_host"""
    _fields_ = [('run', RUN_FN), ('seek', SEEK_FN), ('forget', FORGET_FN),
                ('arg', c_void_p), ('finds_place', FINDS_FN)]


class NetHooks(ctypes.Structure):
    """struct ct_net_hooks"""
    _fields_ = [('before_forward', HOOK_FN), ('after_forward', HOOK_FN),
                ('before_backward', HOOK_FN), ('after_backward', HOOK_FN),
                ('arg', c_void_p)]


class ElasticOptions(ctypes.Structure):
    """struct ct_elastic_options"""
    _fields_ = [('size', c_char_p), ('rendezvous', c_char_p),
                ('secret_file', c_char_p), ('suspect', c_double),
                ('orphan', c_double), ('description', c_char_p),
                ('road', c_char_p), ('distributed', c_char_p)]


class OnnxOptions(ctypes.Structure):
    """struct ct_onnx_options"""
    _fields_ = [('opset', c_int), ('batch', c_int64), ('no_fold', c_bool)]


_PROTOTYPES = {
    'ct_version': (c_char_p,),
    'ct_last_error': (c_char_p,),
    'ct_fail_text': (c_int, c_int, c_char_p),
    'ct_log_text': (None, c_int, c_char_p, c_int, c_char_p),
    'ct_log_set_level': (None, c_int),
    'ct_log_level': (c_int,),
    'ct_free': (None, c_void_p),
    'ct_n_live_allocations': (c_uint64,),
    'ct_device_cpu_set_threads': (None, c_int),
    'ct_device_cpu_threads': (c_int,),
    'ct_device_cuda_count': (c_int,),
    'ct_device_cuda_open': (c_int, c_int, c_int, POINTER(c_void_p)),
    'ct_precision_parse': (c_int, c_char_p, POINTER(c_int)),
    'ct_precision_asked': (c_int, c_char_p, c_bool, POINTER(c_int)),

    'ct_blob_n_axes': (c_int, c_void_p),
    'ct_blob_dim': (c_int64, c_void_p, c_int),
    'ct_blob_count': (c_int64, c_void_p),
    'ct_blob_version': (c_uint32, c_void_p),
    'ct_blob_reshape': (c_int, c_void_p, c_int, POINTER(c_int64)),
    'ct_blob_address': (c_void_p, c_void_p, c_bool),
    'ct_blob_hold': (c_int, c_void_p, c_bool, POINTER(c_void_p),
                     POINTER(c_void_p)),
    'ct_blob_release': (None, c_void_p),
    'ct_blob_on_host': (c_bool, c_void_p),
    'ct_blob_pull': (c_int, c_void_p, c_bool, c_void_p),
    'ct_blob_push': (c_int, c_void_p, c_bool, c_void_p),

    'ct_plugin_load': (c_int, c_char_p),
    'ct_layer_n_types': (c_int,),
    'ct_layer_type_at': (c_char_p, c_int),
    'ct_layer_name': (c_char_p, c_void_p),
    'ct_layer_type_name': (c_char_p, c_void_p),
    'ct_layer_phase': (c_int, c_void_p),
    'ct_layer_n_blobs': (c_int, c_void_p),
    'ct_layer_blob': (c_void_p, c_void_p, c_int),
    'ct_layer_rank': (c_int, c_void_p),
    'ct_layer_size': (c_int, c_void_p),
    'ct_layer_key': (c_uint64, c_void_p),
    'ct_layer_batch_size': (c_int64, c_void_p),
    'ct_layer_shard': (None, c_void_p, c_int64, POINTER(c_int64)),
    'ct_layer_add_zeros': (c_int, c_void_p, c_int, POINTER(c_int64)),
    'ct_layer_shape_tops': (c_int, c_void_p, POINTER(c_void_p), c_int,
                            POINTER(c_void_p), c_int),
    'ct_memory_data_set': (c_int, c_void_p, c_void_p, c_void_p, c_int64),
    'ct_python_set_host': (None, POINTER(PythonHost)),
    'ct_python_module': (c_char_p, c_void_p),
    'ct_python_class': (c_char_p, c_void_p),
    'ct_python_param_str': (c_char_p, c_void_p),

    'ct_net_open': (c_int, c_char_p, c_void_p, c_int, c_int, POINTER(c_char_p),
                    c_int, c_uint64, c_int, c_int, POINTER(c_void_p)),
    'ct_net_destroy': (None, c_void_p),
    'ct_net_forward_range': (c_int, c_void_p, c_int, c_int, POINTER(c_double)),
    'ct_net_backward_range': (c_int, c_void_p, c_int, c_int),
    'ct_net_clear_diffs': (c_int, c_void_p),
    'ct_net_reshape': (c_int, c_void_p),
    'ct_net_name': (c_char_p, c_void_p),
    'ct_net_phase': (c_int, c_void_p),
    'ct_net_n_layers': (c_int, c_void_p),
    'ct_net_layer': (c_void_p, c_void_p, c_int),
    'ct_net_n_blobs': (c_int, c_void_p),
    'ct_net_blob': (c_void_p, c_void_p, c_int),
    'ct_net_blob_name': (c_char_p, c_void_p, c_int),
    'ct_net_blob_loss_weight': (c_float, c_void_p, c_int),
    'ct_net_n_bottoms': (c_int, c_void_p, c_int),
    'ct_net_n_tops': (c_int, c_void_p, c_int),
    'ct_net_bottom_id': (c_int, c_void_p, c_int, c_int),
    'ct_net_top_id': (c_int, c_void_p, c_int, c_int),
    'ct_net_n_inputs': (c_int, c_void_p),
    'ct_net_input_id': (c_int, c_void_p, c_int),
    'ct_net_n_outputs': (c_int, c_void_p),
    'ct_net_output_id': (c_int, c_void_p, c_int),
    'ct_net_arena_count': (c_size_t, c_void_p),
    'ct_net_arena_diff': (c_void_p, c_void_p),
    'ct_net_load': (c_int, c_void_p, c_char_p),
    'ct_net_share_weights': (c_int, c_void_p, c_void_p),
    'ct_net_save': (c_int, c_void_p, c_char_p, c_bool),
    'ct_net_save_hdf5': (c_int, c_void_p, c_char_p, c_bool),
    'ct_onnx_export': (c_int, c_void_p, POINTER(OnnxOptions), c_char_p),
    'ct_net_summary': (c_int, c_void_p, POINTER(c_void_p)),
    'ct_net_set_hooks': (None, c_void_p, POINTER(NetHooks)),

    'ct_solver_open': (c_int, c_char_p, c_void_p, c_char_p, c_int64, c_int,
                       c_int, c_void_p, ACTION_FN, c_void_p,
                       POINTER(c_void_p)),
    'ct_solver_listen': (c_int, c_void_p, c_void_p, c_void_p),
    'ct_mark_name': (c_char_p, c_int),
    'ct_solver_destroy': (None, c_void_p),
    'ct_solver_solve': (c_int, c_void_p),
    'ct_solver_step': (c_int, c_void_p, c_int),
    'ct_solver_apply_update': (c_int, c_void_p),
    'ct_solver_snapshot': (c_int, c_void_p),
    'ct_solver_restore': (c_int, c_void_p, c_char_p),
    'ct_solver_net': (c_void_p, c_void_p),
    'ct_solver_n_test_nets': (c_int, c_void_p),
    'ct_solver_test_net': (c_void_p, c_void_p, c_int),
    'ct_solver_iter': (c_int, c_void_p),
    'ct_solver_loss': (c_double, c_void_p),
    'ct_solver_rate': (c_int, c_void_p, POINTER(c_float)),
    'ct_solver_type': (c_char_p, c_void_p),
    'ct_solver_max_iter': (c_int, c_void_p),
    'ct_solver_display': (c_int, c_void_p),
    'ct_solver_iter_size': (c_int, c_void_p),
    'ct_solver_layer_wise_reduce': (c_bool, c_void_p),
    'ct_solver_base_lr': (c_float, c_void_p),
    'ct_solver_set_base_lr': (None, c_void_p, c_float),
    'ct_solver_clear_stop': (None, c_void_p),
    'ct_solver_is_stopped': (c_bool, c_void_p),
    'ct_solver_stop_snapshot': (c_int, c_void_p),
    'ct_solver_digest': (c_int, c_void_p, POINTER(c_uint64)),
    'ct_solver_attach': (c_int, c_void_p),
    'ct_solver_send_late': (None, c_void_p, c_bool),
    'ct_solver_leave': (None, c_void_p),

    'ct_dist_launched': (c_bool,),
    'ct_dist_open': (c_int, c_char_p, c_char_p, c_char_p, POINTER(c_void_p)),
    'ct_dist_road': (c_char_p, c_void_p),
    'ct_dist_destroy': (None, c_void_p),
    'ct_dist_end': (c_int, c_void_p),
    'ct_dist_end_without': (None, c_void_p, c_int),
    'ct_dist_abort': (None, c_void_p, c_int),
    'ct_dist_rank': (c_int, c_void_p),
    'ct_dist_size': (c_int, c_void_p),
    'ct_dist_n_hosts': (c_int, c_void_p),
    'ct_dist_broadcast': (c_int, c_void_p, c_void_p, c_size_t),
    'ct_dist_sum': (c_int, c_void_p, c_void_p, c_int64),
    'ct_dist_same': (c_int, c_void_p, c_char_p, c_uint64),
    'ct_dist_exchange': (c_void_p, c_void_p),

    'ct_elastic_launched': (c_bool,),
    'ct_elastic_open': (c_int, POINTER(ElasticOptions), POINTER(c_void_p)),
    'ct_elastic_enter': (c_int, c_void_p, c_void_p),
    'ct_elastic_dist': (c_void_p, c_void_p),
    'ct_elastic_view': (c_uint32, c_void_p),
    'ct_elastic_why': (c_char_p, c_void_p),
    'ct_elastic_leave': (None, c_void_p),
    'ct_elastic_ends': (c_bool, c_void_p),
    'ct_elastic_close': (None, c_void_p, c_bool),
}


def _declare():
    for name, (result, *arguments) in _PROTOTYPES.items():
        try:
            function = getattr(lib, name)
        except AttributeError:
            raise ImportError('%s has no function %s: the package and the '
                              'library are of different versions'
                              % (lib._name or 'this program', name)) from None
        function.restype = result
        function.argtypes = arguments


_declare()


class _Pending(threading.local):
    """What Python code raised while the engine called it, by thread."""
    exception = None
    text = ''


_pending = _Pending()
_SURE = 100  # characters of a message that the engine never cuts


def encode(path):
    """A path or name, as the engine takes it."""
    if isinstance(path, bytes):
        return path
    return os.fsencode(path)


def decode(text):
    """A name from the engine."""
    return text.decode('utf-8', 'replace')


def remember(exception, text):
    """Record what called-back Python code raised; returns a status."""
    _pending.exception = exception
    _pending.text = text.partition('\n')[0][:_SURE]
    lib.ct_fail_text(EINVAL, text.encode('utf-8', 'replace'))
    return EINVAL


def check(status):
    """Raise what a failed call left behind.

    That is what called-back Python code raised, if the engine's message is
    about it, and otherwise an Error.
    """
    if status == OK:
        return
    text = decode(lib.ct_last_error())
    cause, _pending.exception = _pending.exception, None
    if cause is not None and _pending.text in text:
        raise cause
    raise Error(text)


def pointers(values):
    """A C array of pointers and its length."""
    return (c_void_p * max(len(values), 1))(*values), len(values)


def dims(shape):
    """The number of axes and the axes of a shape, as the engine takes them."""
    shape = [int(d) for d in shape]
    return len(shape), (c_int64 * max(len(shape), 1))(*shape)
