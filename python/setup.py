"""pip install ./python: the package with a library that is built already.

The library is taken from $CORTADO_LIBRARY or from the build folder
($CORTADO_BUILD, else ../build); caffe_pb2.py from the build folder, or
generated with protoc.
"""

import os
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get('CORTADO_BUILD', os.path.join(HERE, '..', 'build'))
LIBRARY = os.environ.get('CORTADO_LIBRARY',
                         os.path.join(BUILD, 'libcortado.so'))
PROTO = os.path.join(HERE, '..', 'src', 'proto')


def version():
    """The project's, from its CMakeLists.txt."""
    with open(os.path.join(HERE, '..', 'CMakeLists.txt')) as text:
        for line in text:
            if line.startswith('project('):
                return line.split('VERSION')[1].split()[0]
    return '0'


class Build(build_py):
    """Adds the library and the generated messages."""

    def run(self):
        super().run()
        package = os.path.join(self.build_lib, 'caffe')
        if not os.path.exists(LIBRARY):
            sys.exit('%s is not there: build the library first (make), or '
                     'name it in CORTADO_LIBRARY' % LIBRARY)
        shutil.copy(os.path.realpath(LIBRARY),
                    os.path.join(package, 'libcortado.so'))
        self.messages(os.path.join(package, 'proto'))

    @staticmethod
    def messages(folder):
        made = os.path.join(BUILD, 'python', 'caffe', 'proto', 'caffe_pb2.py')
        if os.path.exists(made):
            shutil.copy(made, folder)
        else:
            subprocess.check_call(['protoc', '--python_out=' + folder,
                                   '-I' + PROTO, 'caffe.proto'])


class Binary(Distribution):
    """The wheel is for one kind of machine, because of the library."""

    def has_ext_modules(self):
        return True


setup(
    name='cortado-caffe',
    version=version(),
    description='pycaffe on the engine Cortado',
    packages=['caffe', 'caffe.proto'],
    package_data={'caffe': ['*.npy', 'imagenet/*']},
    python_requires='>=3.8',
    install_requires=['numpy'],
    extras_require={'proto': ['protobuf']},
    cmdclass={'build_py': Build},
    distclass=Binary,
)
