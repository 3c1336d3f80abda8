"""One net with random weights, exported and run in every runtime there is."""

import contextlib
import functools
import os
import subprocess

import numpy as np

import caffe
import runtimes


def _draw(kind, i, shape, draw):
    if kind == 'Scale':
        return draw.uniform(.5, 1.5, shape) if i == 0 \
            else draw.normal(0, .1, shape)
    if kind == 'BN': # scale, shift, mean, variance
        return draw.normal(0, .1, shape) if i in (1, 2) \
            else draw.uniform(.5, 1.5, shape)
    if kind in ('PReLU', 'Bias'):
        return draw.uniform(.1, .5, shape)
    if kind == 'Normalize':
        return draw.uniform(5, 15, shape)
    if len(shape) < 2:
        return draw.normal(0, .05, shape)
    return draw.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)


def randomise(net, seed=1):
    """Weights under which values stay near one from layer to layer.

    Layers run one after the other: each weight is divided by the spread of
    what comes out, and BatchNorm gets statistics that fit what comes in.
    """
    draw = np.random.RandomState(seed)
    for i, name in enumerate(net._layer_names):
        kind = net.layers[i].type
        blobs = net.params.get(name, [])
        if kind == 'BatchNorm':
            x = net.blobs[net.bottom_names[name][0]].data
            axes = tuple(a for a in range(x.ndim) if a != 1)
            # Of one picture: all of its own mean taken away would leave the
            # rounding of small maps.
            blobs[0].data[...] = .3 * x.mean(axes)
            blobs[1].data[...] = (x ** 2).mean() * draw.uniform(
                .7, 1.3, blobs[1].data.shape)
            blobs[2].data[...] = 1
        else:
            for k, blob in enumerate(blobs):
                blob.data[...] = _draw(kind, k, blob.data.shape, draw)
        net._forward(i, i)
        if kind in ('Convolution', 'Deconvolution', 'InnerProduct'):
            spread = net.blobs[net.top_names[name][0]].data.std()
            if spread > 0:
                for blob in blobs:
                    blob.data[...] /= spread
                net._forward(i, i)


def inputs_of(net, seed=2):
    draw = np.random.RandomState(seed)
    out = {}
    for name in net.inputs:
        shape = tuple(net.blobs[name].shape)
        if 'index' in name:
            value = draw.randint(0, 3, shape).astype('f4')
        elif 'cont' in name or 'clip' in name:
            value = (draw.uniform(size=shape) > .2).astype('f4')
        elif 'rois' in name:
            value = np.zeros(shape, 'f4')
            corner = draw.uniform(0, 60, (shape[0], 2))
            value[:, 1:3] = corner
            value[:, 3:5] = corner + draw.uniform(20, 60, (shape[0], 2))
        elif 'words' in name:
            value = draw.randint(0, 20, shape).astype('f4')
        else:
            value = draw.normal(0, 1, shape).astype('f4')
        out[name] = value
    return out


def rows_sorted(value):
    """Detections in an order that does not depend on who wrote them."""
    rows = value.reshape(-1, value.shape[-1])
    return rows[np.lexsort(np.round(rows[:, ::-1], 4).T)]


def distance(ours, theirs, detections=False):
    """The largest difference, over the largest value of ours."""
    if detections:
        ours, theirs = rows_sorted(ours), rows_sorted(theirs)
    if ours.size != theirs.size:
        return float('inf')
    ours, theirs = ours.ravel(), theirs.ravel()
    if ours.size == 0:
        return 0.
    gap = np.abs(ours.astype('f8') - theirs.astype('f8')).max()
    scale = np.abs(ours).max()
    return float(gap / scale) if scale else float(gap)


def run_imported(model, names, inputs):
    """Imports a model and runs the net that comes out."""
    program = os.path.join(os.environ['CORTADO_BUILD'], 'cortado')
    batch = '--batch=%d' % list(inputs.values())[0].shape[0]
    done = subprocess.run([program, 'import', batch, model] + names,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    net = caffe.Net(names[0], names[1], caffe.TEST)
    for name in net.inputs:
        net.blobs[name].data[...] = inputs[name].reshape(
            net.blobs[name].data.shape)
    return {k: np.array(v) for k, v in net.forward().items()}


@contextlib.contextmanager
def sums_in_double():
    """Convolutions add up in double, so that two nets differ by their weights
    and not by the rounding of sums."""
    before = os.environ.get('CORTADO_IMPL')
    os.environ['CORTADO_IMPL'] = 'conv:ref'
    try:
        yield
    finally:
        if before is None:
            del os.environ['CORTADO_IMPL']
        else:
            os.environ['CORTADO_IMPL'] = before


class Trial:
    """What happened: a dict of runtime to distance, or to the objection."""

    def __init__(self, prototxt, folder, seed=1, **options):
        self.net = caffe.Net(prototxt, caffe.TEST)
        self.inputs = inputs_of(self.net)
        for name, value in self.inputs.items():
            self.net.blobs[name].data[...] = value
        randomise(self.net, seed)
        # States of recurrent layers go on from pass to pass: begin anew.
        self.path = os.path.join(folder, 'net.onnx')
        self.weights = os.path.join(folder, 'net.caffemodel')
        self.prototxt = prototxt
        self.net.save(self.weights)
        self.net, self.ours = self._forward()
        self.net.export_onnx(self.path, **options)

    def _forward(self):
        net = caffe.Net(self.prototxt, caffe.TEST, weights=self.weights)
        for name, value in self.inputs.items():
            net.blobs[name].data[...] = value
        return net, {k: np.array(v) for k, v in net.forward().items()}

    @functools.cached_property
    def ours_in_double(self):
        with sums_in_double():
            return self._forward()[1]

    def _compare(self, theirs, ours=None):
        worst = 0.
        for i, (name, value) in enumerate((ours or self.ours).items()):
            detections = value.ndim == 4 and value.shape[3] == 7 and \
                value.shape[1] == 1
            # A net that rewrites its input has another name for the result.
            other = theirs[name] if name in theirs else \
                list(theirs.values())[min(i, len(theirs) - 1)]
            worst = max(worst, distance(value, np.asarray(other), detections))
        return worst

    def operators(self):
        """The operators of the model; none where nobody can tell."""
        try:
            import onnx
        except ImportError:
            return []
        return [n.op_type for n in onnx.load(self.path).graph.node]

    def back(self, ours=None, **options):
        """How far the net is that comes back from the model, or from another
        one with these options; or the objection."""
        folder = os.path.dirname(self.path)
        names = [os.path.join(folder, 'back.' + e)
                 for e in ('prototxt', 'caffemodel')]
        path = self.path
        try:
            if options:
                path = os.path.join(folder, 'other.onnx')
                self.net.export_onnx(path, **options)
            return self._compare(run_imported(path, names, self.inputs), ours)
        except Exception as error:
            return str(error).strip().splitlines()[-1][:200]

    def back_in_double(self):
        """The same of the model, both nets with sums in double."""
        with sums_in_double():
            return self.back(ours=self.ours_in_double)

    def run(self, skip=()):
        """What each runtime says, of those that are there."""
        out = {}
        if 'import' not in skip:
            out['import'] = self.back()
        if 'checker' not in skip and runtimes.has_checker():
            out['checker'] = runtimes.check(self.path) or 'ok'
        for name, there, call in (
                ('onnxruntime', runtimes.has_onnxruntime,
                 lambda: runtimes.onnxruntime(self.path, self.inputs)),
                ('opencv', runtimes.has_opencv,
                 lambda: runtimes.opencv(self.path, self.inputs))):
            if name in skip or not there():
                continue
            try:
                out[name] = self._compare(call())
            except Exception as error:
                out[name] = str(error).strip().splitlines()[0][:200]
        return out
