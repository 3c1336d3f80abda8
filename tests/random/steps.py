"""Trains a drawn case through pycaffe, step by step: steps.py SOLVER WEIGHTS.

Between two steps it reads every blob and parameter, as scripts do.
"""

import os
import sys

os.environ.setdefault('GLOG_minloglevel', '3')
import caffe  # noqa: E402


def main(solver_path, weights_path):
    solver = caffe.get_solver(solver_path)
    for _ in range(solver.param.max_iter):
        solver.step(1)
        for blob in solver.net.blobs.values():
            blob.data.sum()
            blob.diff.sum()
        for blobs in solver.net.params.values():
            for blob in blobs:
                blob.data.sum()
    solver.net.save(weights_path)


main(*sys.argv[1:])
