"""pip install ./python: the package `caffe` with the library inside.

The library is the one that $CORTADO_LIBRARY names, else that of the build
folder ($CORTADO_BUILD, else ../build); where there is none it is built, with
CMake, below python/build.  CORTADO_CMAKE adds options to that, for example
CORTADO_CMAKE="-DCORTADO_MPI=mpich".

Libraries of the system that libcortado uses (OpenBLAS, oneDNN, MPI, ...) stay
outside of the wheel: it is for this machine and others like it.
"""

import os
import shlex
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
OWN_BUILD = os.path.join(HERE, 'build', 'cortado')


def version():
    """The project's, from its CMakeLists.txt."""
    with open(os.path.join(SOURCE, 'CMakeLists.txt')) as text:
        for line in text:
            if line.startswith('project('):
                return line.split('VERSION')[1].split()[0]
    return '0'


def need_tools():
    missing = [tool for tool in ('cmake', 'ninja', 'protoc-c', 'protoc')
               if not shutil.which(tool)]
    if missing:
        sys.exit('to build the library, install %s first (tools/'
                 'install_packages does), or name a library that is built in '
                 'CORTADO_LIBRARY' % ', '.join(missing))


def build_library():
    """The folder with the library, made where it is not there yet."""
    for folder in (os.environ.get('CORTADO_BUILD'),
                   os.path.join(SOURCE, 'build')):
        if folder and os.path.exists(os.path.join(folder, 'libcortado.so')):
            return folder
    need_tools()
    subprocess.check_call(
        ['cmake', '-S', SOURCE, '-B', OWN_BUILD, '-G', 'Ninja',
         '-DCORTADO_TESTS=OFF', '-DCORTADO_PYTHON=' + sys.executable] +
        shlex.split(os.environ.get('CORTADO_CMAKE', '')))
    subprocess.check_call(['cmake', '--build', OWN_BUILD, '--target',
                           'libcortado'])
    return OWN_BUILD


class Build(build_py):
    """Adds the library and the generated messages."""

    def run(self):
        super().run()
        package = os.path.join(self.build_lib, 'caffe')
        named = os.environ.get('CORTADO_LIBRARY')
        library = named or os.path.join(build_library(), 'libcortado.so')
        if not os.path.exists(library):
            sys.exit('CORTADO_LIBRARY: there is no %s' % library)
        shutil.copy(os.path.realpath(library),
                    os.path.join(package, 'libcortado.so'))
        subprocess.check_call(
            ['protoc', '--python_out=' + os.path.join(package, 'proto'),
             '-I' + os.path.join(SOURCE, 'src', 'proto'), 'caffe.proto'])


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
