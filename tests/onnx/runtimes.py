"""The runtimes that exported models are run in, each where it is installed.

onnxruntime-node is looked for where NODE_PATH says; OpenCV's dnn module and
the checker of python3-onnx are packages of the distribution.
"""

import functools
import json
import os
import subprocess
import tempfile

import numpy as np

# Operators that OpenCV 4.6 does not read, or only in forms that these layers
# do not have: bounds and axes that are inputs, indices that are computed.
OPENCV_LACKS = {'Clip', 'Compress', 'Gather', 'Greater', 'MaxRoiPool',
                'MaxUnpool', 'Mod', 'NonMaxSuppression', 'ReduceSum',
                'RoiAlign', 'Tile', 'TopK'}

MISSING = {
    'checker': 'no ONNX checker (package python3-onnx)',
    'opencv': 'no OpenCV for Python (packages python3-opencv, python3-onnx)',
    'onnxruntime': 'no onnxruntime: npm install onnxruntime-node, and '
                   'NODE_PATH=FOLDER/node_modules',
}

HERE = os.path.dirname(os.path.abspath(__file__))


def has_checker():
    try:
        import onnx
    except ImportError:
        return False
    return True


def check(path):
    """The ONNX checker's objection, or None."""
    import onnx
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        for node in model.graph.node:
            if not onnx.defs.has(node.op_type, node.domain):
                return 'no standard operator: ' + node.op_type
    except Exception as error:
        return str(error).splitlines()[0]
    return None


def names(path):
    """The names of inputs and outputs."""
    import onnx
    graph = onnx.load(path, load_external_data=False).graph
    return [v.name for v in graph.input], [v.name for v in graph.output]


def has_opencv():
    try:
        import cv2.dnn
        import onnx  # for names()
    except ImportError:
        return False
    return True


def opencv(path, inputs):
    """The outputs by name, as OpenCV computes them."""
    import cv2
    wanted, outputs = names(path)
    net = cv2.dnn.readNetFromONNX(path)
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    for name in wanted:
        value = inputs[name]
        # Three axes would be an image with channels to it.
        net.setInput(value[None] if value.ndim == 3 else value, name)
    return dict(zip(outputs, net.forward(outputs)))


@functools.lru_cache(None)
def has_onnxruntime():
    try:
        return subprocess.run(
            ['node', '-e', 'require("onnxruntime-node")'],
            stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


@functools.lru_cache(None)
def _server():
    """One process for all models: it takes longer to start than to run."""
    return subprocess.Popen(['node', os.path.join(HERE, 'runtime.js')],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def onnxruntime(path, inputs):
    """The outputs by name, as onnxruntime computes them."""
    with tempfile.TemporaryDirectory() as folder:
        for i, value in enumerate(inputs.values()):
            np.ascontiguousarray(value, '<f4').tofile(
                os.path.join(folder, 'in%d.raw' % i))
        with open(os.path.join(folder, 'inputs.json'), 'w') as f:
            json.dump({n: list(v.shape) for n, v in inputs.items()}, f)
        server = _server()
        server.stdin.write(json.dumps({'model': path, 'folder': folder}) +
                           '\n')
        server.stdin.flush()
        answer = server.stdout.readline().strip()
        if answer != 'ok':
            _server.cache_clear()
            raise RuntimeError(answer or 'onnxruntime has died')
        with open(os.path.join(folder, 'outputs.json')) as f:
            shapes = json.load(f)
        return {name: np.fromfile(os.path.join(folder, 'out%d.raw' % i),
                                  '<f4').reshape(shape)
                for i, (name, shape) in enumerate(shapes.items())}


PARTS = 'checker', 'onnxruntime', 'opencv', 'import'


def parts(only=None):
    """The parts of a trial that this machine can run, all or one of them;
    says why there is none."""
    there = {'checker': has_checker, 'opencv': has_opencv,
             'onnxruntime': has_onnxruntime, 'import': lambda: True}
    out = [p for p in PARTS if only in (None, p) and there[p]()]
    if not out:
        print('skipped: ' + MISSING.get(only, 'no part %s' % only))
    return out
