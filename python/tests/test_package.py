"""The package: what it offers, and that it stands by itself."""

import os
import shutil
import subprocess
import sys
import unittest
import warnings

import numpy as np

import caffe
from common import BUILD, LINEAR, SOURCE, Case


class TestNames(unittest.TestCase):

    def test_parts_that_need_protobuf_are_there_without_an_import(self):
        code = 'import caffe\nprint(caffe.%s)'
        for name in ('proto.caffe_pb2.BlobProto', 'io.load_image', 'NetSpec',
                     'layers.ReLU', 'params.Pooling.MAX', 'Classifier',
                     'Detector', 'draw.draw_net', 'coord_map.crop'):
            done = subprocess.run([sys.executable, '-B', '-c', code % name],
                                  stderr=subprocess.PIPE, text=True,
                                  stdout=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_pycaffe_exports_is_there(self):
        for name in (
                'Net SGDSolver NesterovSolver AdaGradSolver RMSPropSolver '
                'AdaDeltaSolver AdamSolver NCCL Timer init_log log '
                'set_mode_cpu set_mode_gpu set_device Layer get_solver '
                'layer_type_list set_random_seed solver_count '
                'set_solver_count solver_rank set_solver_rank '
                'set_multiprocess has_nccl __version__ TRAIN TEST '
                'distributed').split():
            self.assertTrue(hasattr(caffe, name), name)
            self.assertIn(name, dir(caffe))
        self.assertEqual((caffe.TRAIN, caffe.TEST), (0, 1))
        self.assertTrue(caffe.__version__.startswith('1.0.0'))
        with self.assertRaises(AttributeError):
            caffe.no_such_name

    def test_layer_types(self):
        types = caffe.layer_type_list()
        for name in ('Convolution', 'InnerProduct', 'Python', 'ReLU'):
            self.assertIn(name, types)
        self.assertEqual(len(types), len(set(types)))

    def test_nccl_is_absent_and_harmless(self):
        self.assertFalse(caffe.has_nccl())
        caffe.NCCL(None, caffe.NCCL.new_uid()).bcast()

    def test_settings(self):
        caffe.set_mode_cpu()
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            caffe.set_mode_gpu()
            caffe.set_device(0)
        caffe.set_multiprocess(True)
        self.assertEqual(caffe.solver_count(), 1)
        self.assertEqual(caffe.solver_rank(), 0)
        self.assertRaises(caffe.Error, caffe.set_solver_count, 0)
        self.assertRaises(caffe.Error, caffe.set_random_seed, -1)

    def test_timer(self):
        timer = caffe.Timer()
        timer.start()
        timer.stop()
        self.assertGreaterEqual(timer.ms, 0)


class TestProcess(Case):

    def python(self, code, **more):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE='1', **more)
        return subprocess.run([sys.executable, '-c', code], env=env,
                              cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def test_nets_need_numpy_alone(self):
        path = self.file(LINEAR)
        done = self.python(
            "import sys; sys.modules['google'] = None\n"
            "import caffe\n"
            "print(caffe.Net(%r, caffe.TEST).forward()['y'].shape)" % path)
        self.assertEqual(done.stdout, '(2, 2)\n', done.stderr)

    def test_the_engines_log_goes_to_stderr(self):
        path = self.file(LINEAR)
        code = ("import caffe\ncaffe.log('hello')\n"
                "caffe.Net(%r, caffe.TEST)" % path)
        done = self.python(code, GLOG_minloglevel='0')
        self.assertRegex(done.stderr, r'I\d{4} .*python:0\] hello\n')
        self.assertIn('Network initialization done.', done.stderr)
        self.assertEqual(self.python(code, GLOG_minloglevel='2').stderr, '')
        self.assertEqual(self.python('import caffe\ncaffe.init_log(2)\n'
                                     "caffe.log('hello')").stderr, '')

    def test_a_process_ends_quietly_with_nets_alive(self):
        self.file(LINEAR.replace(
            "type: 'InnerProduct'", "type: 'Python' python_param { "
            "module: 'lay' layer: 'L' }"))
        self.file("import caffe\n"
                  "class L(caffe.Layer):\n"
                  "    def reshape(self, bottom, top):\n"
                  "        top[0].reshape(1)\n"
                  "    def forward(self, bottom, top):\n"
                  "        pass\n", 'lay.py')
        done = self.python(
            "import caffe\n"
            "net = caffe.Net('net.prototxt', caffe.TEST)\n"
            "net.cycle = net\n"
            "net.after_forward(lambda i: net)\n"
            "array = net.forward()\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, '', ''))

    def test_a_library_that_is_not_there_is_an_import_error(self):
        done = self.python(
            "try:\n    import caffe\nexcept (ImportError, OSError) as e:\n"
            "    print('refused')", CORTADO_LIBRARY='/nowhere.so')
        self.assertEqual(done.stdout, 'refused\n', done.stderr)


@unittest.skipUnless(BUILD, 'CORTADO_BUILD names no build folder')
class TestPlaces(Case):
    """The package and the scripts, from wherever they are run."""

    CODE = ("import caffe\n"
            "print(caffe.__file__)\n"
            "print(caffe._library.lib._name)\n"
            "print(caffe.Net('net.prototxt', caffe.TEST).forward()['y'].shape)"
            "\ncaffe.proto.caffe_pb2.BlobProto()\n")

    def run_python(self, *args, **more):
        self.file(LINEAR)
        env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
        env.update(PYTHONDONTWRITEBYTECODE='1', GLOG_minloglevel='2', **more)
        done = subprocess.run([sys.executable, *args], env=env,
                              cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def check_scripts(self, folder, **more):
        for name in ('classify', 'detect', 'draw_net', 'parse_log', 'train'):
            out = self.run_python(os.path.join(folder, name + '.py'), '--help',
                                  **more)
            self.assertTrue(out[0].startswith('usage: %s.py' % name), out)
        self.file("net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' "
                  "max_iter: 0 snapshot_after_train: false",
                  'solver.prototxt')
        self.run_python(os.path.join(folder, 'train.py'), '--solver',
                        'solver.prototxt', **more)

    def test_in_the_source_tree(self):
        source = os.path.join(SOURCE, 'python')
        package, library, shape = self.run_python(
            '-c', self.CODE, PYTHONPATH=source, CORTADO_BUILD=BUILD)
        self.assertEqual(os.path.dirname(package),
                         os.path.join(source, 'caffe'))
        self.assertEqual(os.path.dirname(library), os.path.realpath(BUILD))
        self.assertEqual(shape, '(2, 2)')
        self.check_scripts(source, CORTADO_BUILD=BUILD)

    def test_installed(self):
        cmake = shutil.which('cmake')
        if not cmake:
            self.skipTest('no cmake here')
        prefix = self.path('prefix')
        done = subprocess.run([cmake, '--install', BUILD, '--prefix', prefix],
                              stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        site = [where for where, _, files in os.walk(prefix)
                if where.endswith('-packages')]
        self.assertEqual(len(site), 1, site)
        for places in ({'CORTADO_BUILD': '/nowhere'}, {}):
            package, library, shape = self.run_python(
                '-c', self.CODE, PYTHONPATH=site[0], **places)
            self.assertTrue(package.startswith(prefix), package)
            self.assertTrue(library.startswith(os.path.realpath(prefix)),
                            library)
            self.assertEqual(shape, '(2, 2)')
        self.check_scripts(os.path.join(prefix, 'share', 'cortado', 'python'),
                           PYTHONPATH=site[0], CORTADO_BUILD='/nowhere')


@unittest.skipUnless(BUILD, 'CORTADO_BUILD names no build folder')
class TestPip(Case):

    def source(self):
        """A copy, because setuptools leaves its traces there."""
        shutil.copytree(os.path.join(SOURCE, 'python'),
                        self.path('tree/python'), ignore=shutil.
                        ignore_patterns('build', '*.egg-info', '__pycache__'))
        shutil.copy(os.path.join(SOURCE, 'CMakeLists.txt'), self.path('tree'))
        return self.path('tree/python')

    def test_pip_installs_a_package_that_works(self):
        env = dict(os.environ, CORTADO_BUILD=BUILD)
        env.pop('PYTHONPATH', None)
        done = subprocess.run(
            [sys.executable, '-m', 'pip', 'install', '--no-deps', '--quiet',
             '--no-build-isolation', '--no-index', '--target',
             self.path('site'), self.source()],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        if 'No module named pip' in done.stdout or (
                'setuptools' in done.stdout and done.returncode):
            self.skipTest('no pip or no setuptools here')
        self.assertEqual(done.returncode, 0, done.stdout)
        env['PYTHONPATH'] = self.path('site')
        code = ("import caffe\n"
                "print(caffe.__file__, caffe._library.lib._name)\n"
                "print(caffe.Net(%r, caffe.TEST).forward()['y'].shape)"
                % self.file(LINEAR))
        done = subprocess.run([sys.executable, '-c', code], env=env,
                              cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        where, shape = done.stdout.splitlines()
        self.assertEqual(where.count(self.path('site')), 2, where)
        self.assertEqual(shape, '(2, 2)')


class TestNumbers(Case):

    def test_float64_input_is_rounded_to_float32(self):
        net = self.net(LINEAR)
        net.blobs['x'].data[...] = np.full((2, 3), 1 / 3)
        self.assertEqual(net.blobs['x'].data[0, 0], np.float32(1 / 3))
