"""parse_log.py: tables from logs in glog's format."""

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      os.pardir, "parse_log.py")
# By its path: beside the script lies a caffe that is not built.
spec = importlib.util.spec_from_file_location("parse_log", SCRIPT)
parse_log = importlib.util.module_from_spec(spec)
spec.loader.exec_module(parse_log)

LOG = """\
I1231 23:59:40.000000 7 solver.cpp:1] Iteration 77, before the start
I1231 23:59:50.500000 7 solver.cpp:2] Solving LeNet
I1231 23:59:50.500000 7 solver.cpp:3] Learning Rate Policy: step
I1231 23:59:51.000000 7 solver.cpp:4] Iteration 0, Testing net (#0)
I1231 23:59:52.000000 7 solver.cpp:5]     Test net output #0: acc = 0.1
I1231 23:59:52.000000 7 solver.cpp:5]     Test net output #1: loss = 2.5 \
(* 1 = 2.5 loss)
I1231 23:59:53.500000 7 solver.cpp:6] Iteration 0 (0 iter/s, 1s/100 iter), \
loss = 2.4
I1231 23:59:53.500000 7 solver.cpp:7]     Train net output #0: loss = 2.4 \
(* 1 = 2.4 loss)
I1231 23:59:53.500000 7 sgd_solver.cpp:8] Iteration 0, lr = 0.01
a line of something else
I0101 00:00:00.750000 7 solver.cpp:6] Iteration 100 (9 iter/s), loss = 1e-3
I0101 00:00:00.750000 7 solver.cpp:7]     Train net output #0: loss = 1e-3
I0101 00:00:00.750000 7 sgd_solver.cpp:8] Iteration 100, lr = 1e-05
I0101 00:00:10.500000 7 solver.cpp:4] Iteration 100, Testing net (#0)
I0101 00:00:11.500000 7 solver.cpp:5]     Test net output #0: acc = 0.9
I0101 00:00:11.500000 7 solver.cpp:5]     Test net output #1: loss = nan
I0101 00:00:12.500000 7 solver.cpp:6] Iteration 200 (9 iter/s), loss = -2
I0101 00:00:12.500000 7 solver.cpp:7]     Train net output #0: loss = -2
"""


class TestParseLog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, text):
        path = os.path.join(self.folder, "run.log")
        with open(path, "w") as file:
            file.write(text)
        return path

    def check(self, text):
        train, test = parse_log.parse_log(self.write(text))
        self.assertEqual(list(train[0]),
                         ["NumIters", "Seconds", "LearningRate", "loss"])
        # A rate is logged after the outputs, so rows have the last one's;
        # the first row has the second one's.
        self.assertEqual([list(row.values()) for row in train],
                         [[0, 3, 0.01, 2.4], [100, 10.25, 0.01, 1e-3],
                          [200, 22, 1e-05, -2]])
        self.assertEqual(list(test[0].items()),
                         [("NumIters", 0), ("Seconds", 1.5),
                          ("LearningRate", 1e-05), ("acc", 0.1),
                          ("loss", 2.5)])
        self.assertEqual(test[1]["acc"], 0.9)
        self.assertEqual(test[1]["Seconds"], 21)
        self.assertTrue(math.isnan(test[1]["loss"]))
        self.assertEqual(len(test), 2)

    def test_lines_with_month_and_day_over_new_year(self):
        self.check(LOG)

    def test_lines_with_the_year(self):
        self.check(LOG.replace("I1231", "I20261231")
                   .replace("I0101", "I20270101"))

    def test_one_row_is_a_table_too(self):
        train, test = parse_log.parse_log(self.write(
            "I1115 10:00:00.000000 1 a.c:1] Iteration 5, loss = 1\n"
            "I1115 10:00:02.000000 1 a.c:1] Train net output #0: l = 1\n"))
        self.assertEqual(len(train), 1)
        self.assertEqual(train[0]["Seconds"], 2)
        self.assertTrue(math.isnan(train[0]["LearningRate"]))
        self.assertEqual(test, [])

    def test_script_writes_two_files(self):
        path = self.write(LOG)
        said = subprocess.run(
            [sys.executable, SCRIPT, "--verbose", "--delimiter", ";", path,
             self.folder], check=True, stdout=subprocess.PIPE,
            universal_newlines=True).stdout
        self.assertEqual(said, "Wrote %s.train\nWrote %s.test\n"
                         % (path, path))
        with open(path + ".train") as file:
            self.assertEqual(file.read(),
                             "NumIters;Seconds;LearningRate;loss\n"
                             "0.0;3.0;0.01;2.4\n100.0;10.25;0.01;0.001\n"
                             "200.0;22.0;1e-05;-2.0\n")

    def test_a_log_without_outputs_leaves_no_files(self):
        path = self.write("nothing\n")
        subprocess.run([sys.executable, SCRIPT, path, self.folder],
                       check=True)
        self.assertEqual(os.listdir(self.folder), ["run.log"])


if __name__ == "__main__":
    unittest.main()
