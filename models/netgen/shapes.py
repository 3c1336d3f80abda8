"""Shapes, parameters and multiply-adds of a net, from its prototxt alone.

Written apart from the layers' own code, so that each checks the other.
Multiply-adds are those of one forward pass of convolutions, inner products
and recurrent steps; a BatchNorm's running sums are counted on their own,
because no solver learns them."""

from math import ceil, prod


class Layer:
    def __init__(self, name, kind, tops):
        self.name, self.kind, self.tops = name, kind, tops
        self.params = self.stats = self.macs = 0


def one(message, key, default=None):
    return message[key][-1] if key in message else default


def pair(p, stem, long_name, default):
    """kernel_size, kernel_h/kernel_w and their like, as (h, w)."""
    if stem + "_h" in p:
        return one(p, stem + "_h"), one(p, stem + "_w")
    values = p.get(long_name, [default])
    return values[0], values[-1]


def window(size, kernel, pad, stride, dilation=(1, 1)):
    return [(s + 2 * p - (d * (k - 1) + 1)) // t + 1
            for s, k, p, t, d in zip(size, kernel, pad, stride, dilation)]


def convolution(l, p, x, transposed=False):
    kernel = pair(p, "kernel", "kernel_size", None)
    pad, stride = pair(p, "pad", "pad", 0), pair(p, "stride", "stride", 1)
    dilation = pair(p, "dilation", "dilation", 1)
    n_out, group = one(p, "num_output"), one(p, "group", 1)
    weights = n_out * x[1] // group * prod(kernel)
    if transposed:
        size = [t * (s - 1) + k - 2 * q
                for s, k, q, t in zip(x[2:], kernel, pad, stride)]
        l.macs = x[0] * prod(x[2:]) * weights
    else:
        size = window(x[2:], kernel, pad, stride, dilation)
        l.macs = x[0] * prod(size) * weights
    if x[1] % group or n_out % group or min(size) < 1:
        raise ValueError("%s: %s does not fit" % (l.name, x))
    l.params = weights + (n_out if one(p, "bias_term", True) else 0)
    return [x[0], n_out] + size


def pooling(p, x):
    if one(p, "global_pooling", False):
        return x[:2] + [1, 1]
    kernel = pair(p, "kernel", "kernel_size", None)
    pad, stride = pair(p, "pad", "pad", 0), pair(p, "stride", "stride", 1)
    if one(p, "round_mode", "CEIL") == "FLOOR":
        return x[:2] + window(x[2:], kernel, pad, stride)
    size = []
    for s, k, q, t in zip(x[2:], kernel, pad, stride):
        n = ceil((s + 2 * q - k) / t) + 1
        # The last window must start inside the image or its left padding.
        size.append(n - 1 if q and (n - 1) * t >= s + q else n)
    return x[:2] + size


def reshape(p, x):
    dims = one(p, "shape")["dim"]
    out = [x[i] if d == 0 else d for i, d in enumerate(dims)]
    if -1 in out:
        out[out.index(-1)] = prod(x) // -prod(out)
    if prod(out) != prod(x):
        raise ValueError("reshape of %s to %s" % (x, dims))
    return out


def joined(p, xs):
    axis = one(p, "axis", 1)
    out = list(xs[0])
    out[axis] = sum(x[axis] for x in xs)
    if any(x[:axis] + x[axis + 1:] != out[:axis] + out[axis + 1:]
           for x in xs):
        raise ValueError("concat of %s" % xs)
    return out


def sliced(p, x, n):
    axis, points = one(p, "axis", 1), p.get("slice_point", [])
    if not points:
        points = [x[axis] // n * i for i in range(1, n)]
    ends = [0] + points + [x[axis]]
    return [x[:axis] + [b - a] + x[axis + 1:] for a, b in zip(ends, ends[1:])]


SAME = {"ReLU", "Dropout", "LRN", "Sigmoid", "Softmax"}
LOSS = {"SoftmaxWithLoss", "EuclideanLoss", "SigmoidCrossEntropyLoss",
        "ContrastiveLoss", "Accuracy"}


def run(l, f, xs, record):
    """Top shapes of one layer; fills in l.params, l.stats and l.macs."""
    kind = l.kind
    x = xs[0] if xs else None
    p = next((v[0] for k, v in f.items() if k.endswith("_param") and
              k not in ("transform_param", "loss_param")), {})
    if kind == "Input":
        return [s["dim"] for s in p["shape"]]
    if kind == "DummyData":
        return [s["dim"] for s in p["shape"]]
    if kind == "Data":
        t = one(f, "transform_param", {})
        c, h, w = record
        h = w = one(t, "crop_size", h) if "crop_size" in t else h
        batch = one(p, "batch_size")
        if f["top"] == ["label"]:                    # a database of label maps
            return [[batch, 1, h, w]]
        return [[batch, c, h, w], [batch]][:len(f["top"])]
    if kind == "AnnotatedData":
        size = one(one(f, "transform_param"), "resize_param")
        batch = one(one(f, "data_param"), "batch_size")
        return [[batch, 3, one(size, "height"), one(size, "width")],
                [1, 1, 1, 8]]
    if kind in SAME:
        return [x]
    if kind in LOSS:
        return [[]]
    if kind == "Convolution":
        return [convolution(l, p, x)]
    if kind == "Deconvolution":
        return [convolution(l, p, x, transposed=True)]
    if kind == "InnerProduct":
        k, n_out = prod(x[1:]), one(p, "num_output")
        l.params, l.macs = k * n_out + n_out, x[0] * k * n_out
        return [[x[0], n_out]]
    if kind == "Pooling":
        return [pooling(p, x)]
    if kind == "BatchNorm":
        l.stats = 2 * x[1] + 1
        return [x]
    if kind == "Scale":
        l.params = 2 * x[1]
        return [x]
    if kind == "Normalize":
        l.params = x[1]
        return [x]
    if kind == "Eltwise":
        if any(y != x for y in xs):
            raise ValueError("%s: %s" % (l.name, xs))
        return [x]
    if kind == "Concat":
        return [joined(p, xs)]
    if kind == "Slice":
        return sliced(p, x, len(f["top"]))
    if kind == "Silence":
        return []
    if kind == "Flatten":
        return [[x[0], prod(x[1:])]]
    if kind == "Reshape":
        return [reshape(p, x)]
    if kind == "Permute":
        return [[x[i] for i in p["order"]]]
    if kind == "Crop":
        axis, offset = one(p, "axis", 2), one(p, "offset", 0)
        like = xs[1]
        if any(offset + b > a for a, b in zip(x[axis:], like[axis:])):
            raise ValueError("%s: %s out of %s" % (l.name, like, x))
        return [x[:axis] + like[axis:]]
    if kind == "PriorBox":
        n = 2 + 2 * len(p["aspect_ratio"])
        return [[1, 2, x[2] * x[3] * n * 4]]
    if kind == "DetectionOutput":
        if xs[0][1] != xs[2][2]:
            raise ValueError("%s: %s" % (l.name, xs))
        return [[1, 1, 1, 7]]
    if kind == "MultiBoxLoss":
        priors = xs[2][2] // 4
        if x[1] != 4 * priors or xs[1][1] != priors * one(p, "num_classes"):
            raise ValueError("%s: %s" % (l.name, xs))
        return [[]]
    if kind == "DetectionEvaluate":
        return [[1, 1, 1, 5]]
    if kind == "LSTM":
        h, d = one(p, "num_output"), prod(x[2:])
        l.params = 4 * h * (d + h + 1)
        l.macs = x[0] * x[1] * 4 * h * (d + h)
        return [[x[0], x[1], h]]
    raise ValueError("%s: no shape rule for %s" % (l.name, kind))


def included(f, phase, stages=()):
    for rule in f.get("include", []):
        if one(rule, "phase", phase) == phase and \
                all(s in stages for s in rule.get("stage", [])):
            return True
    return "include" not in f


def walk(net, phase="TEST", record=None, stages=()):
    """The net's layers in order, with shapes and counts."""
    blobs, shared, layers = {}, set(), []
    for f in net["layer"]:
        if not included(f, phase, stages):
            continue
        name, kind = one(f, "name"), one(f, "type")
        tops = f.get("top", [])
        l = Layer(name, kind, tops)
        try:
            xs = [blobs[b] for b in f.get("bottom", [])]
        except KeyError as e:
            raise ValueError("%s: no blob %s" % (name, e)) from None
        blobs.update(zip(tops, run(l, f, xs, record)))
        l.shapes = [blobs[t] for t in tops]
        names = tuple(one(s, "name") for s in f.get("param", []))
        if any(names):
            if names in shared:
                l.params = 0
            shared.add(names)
        layers.append(l)
    return layers


def totals(layers):
    return (sum(l.params for l in layers), sum(l.stats for l in layers),
            sum(l.macs for l in layers))
