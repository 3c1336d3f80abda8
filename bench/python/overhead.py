#!/usr/bin/env python3
"""What Python adds to a forward pass of a tiny net.

    PYTHONPATH=build/python python3 bench/python/overhead.py

Prints microseconds a pass of the C call alone (which itself includes the
step from Python into C), of net.forward(), and of net.forward(x=array), and
fails when net.forward() adds more than the 30 that are promised.
"""

import ctypes
import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault('GLOG_minloglevel', '2')

import numpy as np  # noqa: E402

import caffe  # noqa: E402
from caffe._library import lib  # noqa: E402

NET = """input: 'x' input_shape { dim: 2 dim: 3 }
layer { type: 'InnerProduct' name: 'ip' bottom: 'x' top: 'y'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
"""
LIMIT, ROUNDS, PASSES = 30.0, 15, 2000


def microseconds(call):
    """The median of several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(PASSES):
            call()
        times.append((time.perf_counter() - start) / PASSES * 1e6)
    return statistics.median(times)


def main():
    with tempfile.NamedTemporaryFile('w', suffix='.prototxt') as file:
        file.write(NET)
        file.flush()
        net = caffe.Net(file.name, caffe.TEST)
    caffe.set_threads(1)
    pointer, none = net._handle.pointer, ctypes.POINTER(ctypes.c_double)()
    x = np.ones((2, 3), np.float32)
    c_call = microseconds(
        lambda: lib.ct_net_forward_range(pointer, 0, 2, none))
    plain = microseconds(net.forward)
    filled = microseconds(lambda: net.forward(x=x))
    print('C call              %6.2f us' % c_call)
    print('net.forward()       %6.2f us   + %.2f' % (plain, plain - c_call))
    print('net.forward(x=...)  %6.2f us   + %.2f' % (filled, filled - c_call))
    if plain - c_call > LIMIT:
        sys.exit('more than %g us over the C call' % LIMIT)


if __name__ == '__main__':
    main()
