"""Caffe's messages: caffe_pb2 is generated from caffe.proto by the build.

``caffe.proto.caffe_pb2`` is imported when it is first used, because nets and
solvers do without Google's protobuf package.
"""

import importlib
import os

from .._library import build_folders

__path__ += [os.path.join(folder, 'python', 'caffe', 'proto')
             for folder in build_folders()]


def __getattr__(name):
    if name == 'caffe_pb2':
        return importlib.import_module('.caffe_pb2', __name__)
    raise AttributeError('module %r has no attribute %r' % (__name__, name))
