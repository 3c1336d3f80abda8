"""Whatever is wrong is a caffe.Error, and the process lives on."""

import os
import signal
import subprocess
import sys
import time

import numpy as np

import caffe
from common import LINEAR, SMALL, Case

TEXT = SMALL % 3

INPUT = "input: 'x' input_shape { dim: 2 dim: 3 dim: 4 dim: 4 }\n"
WRONG = {
    'an unknown field': "layer { nmae: 'x' }",
    'an unknown type': "layer { name: 'a' type: 'NoSuch' top: 'a' }",
    'an unknown bottom': "layer { name: 'a' type: 'ReLU' bottom: 'b' "
                         "top: 'a' }",
    'no closing brace': "layer { name: 'a'",
    'a number for a string': "name: 3",
    'a word for a number': "layer { loss_weight: many }",
    'two tops of one name': INPUT + "layer { name: 'a' type: 'Input' "
                            "top: 'x' input_param { shape { dim: 1 } } }",
    'a kernel that is too big': INPUT + "layer { name: 'a' bottom: 'x' top: "
                                "'a' type: 'Convolution' convolution_param { "
                                "num_output: 1 kernel_size: 9 } }",
    'no output': INPUT + "layer { name: 'a' type: 'InnerProduct' bottom: 'x' "
                 "top: 'a' }",
    'shapes that do not add': INPUT + "layer { name: 'a' type: 'Input' top: "
                              "'y' input_param { shape { dim: 5 } } } layer { "
                              "name: 'b' type: 'Eltwise' bottom: 'x' bottom: "
                              "'y' top: 'z' }",
    'a missing database': "layer { name: 'a' type: 'Data' top: 'a' "
                          "data_param { source: 'nowhere' batch_size: 1 "
                          "backend: LMDB } }",
    'a missing list': "layer { name: 'a' type: 'ImageData' top: 'a' top: 'b' "
                      "image_data_param { source: 'nowhere' } }",
    'a missing module': "layer { name: 'a' type: 'Python' top: 'a' "
                        "python_param { module: 'no_such' layer: 'X' } }",
    'a negative size': "input: 'x' input_shape { dim: -2 }",
    'more than memory': "input: 'x' input_shape { dim: 2000000000 dim: "
                        "2000000000 dim: 2000000000 }",
    'an unknown filler': INPUT + "layer { name: 'a' type: 'InnerProduct' "
                         "bottom: 'x' top: 'a' inner_product_param { "
                         "num_output: 1 weight_filler { type: 'magic' } } }",
}


class TestNets(Case):

    def test_wrong_nets(self):
        for what, text in WRONG.items():
            with self.subTest(what):
                with self.assertRaises(caffe.Error) as raised:
                    self.net(text)
                self.assertTrue(str(raised.exception), what)

    def test_a_prototxt_cut_off_anywhere(self):
        n_refused = 0
        for n in range(1, len(TEXT), 23):
            try:
                self.net(TEXT[:n])
            except caffe.Error:
                n_refused += 1
        self.assertGreater(n_refused, len(TEXT) // 46)

    def test_bytes_that_are_no_text(self):
        path = self.path('net.prototxt')
        for n in (0, 1, 100, 10000):
            with open(path, 'wb') as out:
                out.write(np.random.RandomState(n).bytes(n))
            try:
                caffe.Net(path, caffe.TEST)
            except caffe.Error:
                pass
        self.assertRaises(caffe.Error, caffe.Net, self.folder, caffe.TEST)
        self.assertRaises(TypeError, caffe.Net, None, caffe.TEST)
        self.assertRaises(TypeError, caffe.Net, 5, caffe.TEST)

    def test_shapes_that_do_not_fit_any_more(self):
        net = self.net(LINEAR)
        net.blobs['x'].reshape(2, 5)
        self.assertRaises(caffe.Error, net.forward)
        self.assertRaises(caffe.Error, net.reshape)
        net.blobs['x'].reshape(4, 3)
        self.assertEqual(net.forward()['y'].shape, (4, 2))
        for shape in ((-1, 3), (1,) * 99, (2 ** 40, 2 ** 40)):
            self.assertRaises(caffe.Error, net.blobs['x'].reshape, *shape)
        with self.assertRaises(ValueError):
            net.blobs['x'].data[...] = np.zeros((9, 9))

    def test_labels_out_of_range(self):
        net = self.net(TEXT)
        net.forward()
        net.blobs['class'].data[...] = 77
        try:
            net.forward(start='conv')
            net.backward()
        except caffe.Error:
            pass
        net.blobs['class'].data[...] = 1
        self.assertTrue(np.isfinite(net.forward(start='conv')['loss']))


class TestEnvironment(Case):

    def tearDown(self):
        os.environ.pop('CORTADO_IMPL', None)
        super().tearDown()

    def test_a_misspelt_switch_raises_with_what_is_known(self):
        solver = self.file("net: '%s' base_lr: 0.1 lr_policy: 'fixed'"
                           % self.file(TEXT), 'solver.prototxt')
        for text, why in (('fuse:nnoe', "did you mean 'none'"),
                          ('fuze:none', 'Its keys: conv, pool'),
                          ('fuse:none+layers', 'one value')):
            os.environ['CORTADO_IMPL'] = text
            with self.assertRaisesRegex(caffe.Error, why):
                self.net(TEXT)
            with self.assertRaisesRegex(caffe.Error, why):
                caffe.SGDSolver(solver)
        os.environ['CORTADO_IMPL'] = 'fuse:none,conv:gemm+ref'
        self.net(TEXT).forward()


class TestFiles(Case):

    def test_broken_weights(self):
        net = self.net(TEXT)
        for name, save in (('w', net.save), ('w.h5', net.save_hdf5)):
            save(self.path(name))
            with open(self.path(name), 'rb') as whole:
                data = whole.read()
            random = np.random.RandomState(1)
            for i in range(25):
                part = bytearray(data[:random.randint(len(data))])
                for at in random.randint(len(part) or 1, size=4):
                    if part:
                        part[at] ^= 255
                with open(self.path(name), 'wb') as out:
                    out.write(part)
                try:
                    net.copy_from(self.path(name))
                except caffe.Error:
                    pass
        self.assertTrue(np.isfinite(self.net(TEXT).forward()['loss']))

    def test_files_that_are_not_there(self):
        net = self.net(TEXT)
        for call in (lambda: caffe.Net('nowhere', caffe.TEST),
                     lambda: net.copy_from('nowhere'),
                     lambda: net.load_hdf5('nowhere.h5'),
                     lambda: net.save('/no/such/folder/w'),
                     lambda: net.save_hdf5('/no/such/folder/w.h5'),
                     lambda: caffe.SGDSolver('nowhere'),
                     lambda: caffe.get_solver('nowhere')):
            self.assertRaises(caffe.Error, call)

    def test_wrong_solvers(self):
        self.file(TEXT)
        start = "net: '%s' base_lr: 0.1 " % self.path('net.prototxt')
        for more in ("lr_policy: 'magic'", "type: 'NoSuch'", "momentum: many",
                     "lr_policy: 'fixed' iter_size: 0", "test_iter: 3"):
            with self.subTest(more):
                path = self.file(start + more, 'solver.prototxt')
                with self.assertRaises(caffe.Error):
                    caffe.get_solver(path).step(1)
        solver = caffe.get_solver(self.file(start + "lr_policy: 'fixed'",
                                            'solver.prototxt'))
        self.assertRaises(caffe.Error, solver.restore, 'nowhere')
        with self.assertRaises(caffe.Error):
            solver.restore(self.file('x' * 99, 'bad.solverstate'))
        solver.step(1)
        self.assertEqual(solver.iter, 1)


class TestInterrupt(Case):

    CODE = """import threading
import time
import caffe
solver = caffe.SGDSolver('solver.prototxt')
solver.step(1)

def tell():
    while solver.iter < 3:
        time.sleep(0.01)
    print('trains', flush=True)

threading.Thread(target=tell).start()
%s
"""

    def child(self, code):
        """Runs code in a process that gets a real SIGINT while it trains."""
        self.file(TEXT)
        self.file("net: 'net.prototxt' base_lr: 1e-6 lr_policy: 'fixed' "
                  "max_iter: 100000000 snapshot_prefix: 's'",
                  'solver.prototxt')
        child = subprocess.Popen([sys.executable, '-B', '-c',
                                  self.CODE % code], cwd=self.folder,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        try:
            self.assertEqual(child.stdout.readline(), 'trains\n')
            child.send_signal(signal.SIGINT)
            out, error = child.communicate(timeout=60)
        finally:
            child.kill()
        return child.returncode, out, error

    def test_training_ends_and_python_says_why(self):
        code, out, error = self.child("solver.step(10 ** 8)")
        self.assertIn(code, (-signal.SIGINT, 130))
        self.assertTrue(error.rstrip().endswith('KeyboardInterrupt'), error)

    def test_solve_writes_its_last_snapshot(self):
        code, out, error = self.child(
            "try:\n    solver.solve()\n"
            "except KeyboardInterrupt:\n    print(solver.iter)\n")
        self.assertEqual(code, 0, error)
        self.assertTrue(os.path.exists(self.path(
            's_iter_%d.solverstate' % int(out))), os.listdir(self.folder))

    def test_an_interrupt_may_be_caught(self):
        code, out, error = self.child(
            "try:\n    solver.step(10 ** 8)\n"
            "except KeyboardInterrupt:\n    before = solver.iter\n"
            "solver.step(5)\nprint(solver.iter - before)\n"
            "import signal\n"
            "assert signal.getsignal(signal.SIGINT) is "
            "signal.default_int_handler\n")
        self.assertEqual((code, out), (0, '5\n'), error)

    def test_no_signal_interrupts_what_the_engine_computes(self):
        self.file(TEXT)
        solver = caffe.SGDSolver(self.file(
            "net: '%s' base_lr: 1e-6 lr_policy: 'fixed' max_iter: 5 "
            "snapshot_prefix: '%s'" % (self.path('net.prototxt'),
                                       self.path('s')), 'solver.prototxt'))
        held = []

        def look():
            held.append(signal.SIGINT in
                        signal.pthread_sigmask(signal.SIG_BLOCK, []))
        solver.add_callback(look, lambda: None)
        solver.step(2)
        self.assertEqual(held, [True, True])
        self.assertNotIn(signal.SIGINT,
                         signal.pthread_sigmask(signal.SIG_BLOCK, []))
