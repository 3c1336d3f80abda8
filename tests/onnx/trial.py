"""One net with random weights, exported and run in every runtime there is."""

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
        self.net = caffe.Net(prototxt, self.weights, caffe.TEST)
        for name, value in self.inputs.items():
            self.net.blobs[name].data[...] = value
        self.ours = {k: np.array(v) for k, v in self.net.forward().items()}
        self.net.export_onnx(self.path, **options)

    def _compare(self, theirs):
        worst = 0.
        for i, (name, value) in enumerate(self.ours.items()):
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

    def back(self, **options):
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
            return self._compare(run_imported(path, names, self.inputs))
        except Exception as error:
            return str(error).strip().splitlines()[-1][:200]

    def run(self, skip=()):
        out = {'import': self.back()}
        objection = runtimes.check(self.path)
        if objection != '':
            out['checker'] = objection or 'ok'
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
