"""MultiBoxLoss against a plain numpy version, on random cases."""

import itertools

import numpy as np

from common import Case

NET = """name: 'boxes'
input: 'loc' input_shape { dim: %(n)d dim: %(loc)d }
input: 'conf' input_shape { dim: %(n)d dim: %(conf)d }
input: 'prior' input_shape { dim: 1 dim: 2 dim: %(prior)d }
input: 'truth' input_shape { dim: 1 dim: 1 dim: %(rows)d dim: 8 }
force_backward: true
layer { name: 'loss' type: 'MultiBoxLoss' top: 'loss'
  bottom: 'loc' bottom: 'conf' bottom: 'prior' bottom: 'truth'
  propagate_down: true propagate_down: true
  propagate_down: false propagate_down: false
  loss_param { normalization: %(norm)s }
  multibox_loss_param { num_classes: %(classes)d %(param)s } }
"""


def overlap(a, b):
    """Of every box in a with every one in b."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(high - low, 0, None), axis=2)
    area = [np.prod(x[:, 2:] - x[:, :2], axis=1) for x in (a, b)]
    return both / (area[0][:, None] + area[1][None] - both)


def encode(code, prior, var, box):
    size = prior[2:] - prior[:2]
    if code == 'CENTER_SIZE':
        middle = ((box[:2] + box[2:]) - (prior[:2] + prior[2:])) / 2
        t = np.concatenate([middle / size,
                            np.log((box[2:] - box[:2]) / size)])
    else:
        t = box - prior
        if code == 'CORNER_SIZE':
            t = t / np.tile(size, 2)
    return t / var


def match(prior, boxes, threshold):
    """The truth of each prior, -1 for none, and its highest overlap."""
    o = overlap(prior, boxes)
    best = o.max(axis=1)
    found = np.full(len(prior), -1)
    left = o.copy()
    while left.max() > 1e-6:
        p, g = np.unravel_index(left.argmax(), left.shape)
        found[p] = g
        left[p, :] = -1
        left[:, g] = -1
    for p in np.flatnonzero(found < 0):
        if best[p] >= threshold:
            found[p] = o[p].argmax()
    return found, best


def conf_loss(kind, x, label):
    if kind == 'LOGISTIC':
        t = np.zeros_like(x)
        t[label] = 1
        p = 1 / (1 + np.exp(-x))
        return -(t * np.log(p) + (1 - t) * np.log(1 - p)).sum(), p - t
    e = np.exp(x - x.max())
    grad = e / e.sum()
    loss = -np.log(grad[label])
    grad[label] -= 1
    return loss, grad


def loc_loss(kind, d):
    if kind == 'L2':
        return (d * d).sum() / 2, d
    a = np.abs(d)
    return (np.where(a < 1, d * d / 2, a - .5).sum(),
            np.where(a < 1, d, np.sign(d)))


def multibox(loc, conf, prior, var, truth, o):
    """The loss and both gradients in double precision."""
    n, p_count = conf.shape[:2]
    dloc, dconf = np.zeros_like(loc), np.zeros_like(conf)
    total, matches = 0, 0
    for i in range(n):
        rows = truth[truth[:, 0] == i]
        found = np.full(p_count, -1)
        best = np.zeros(p_count)
        if len(rows):
            found, best = match(prior, rows[:, 3:7], o['threshold'])
        labels = np.where(found >= 0, rows[found, 1].astype(int)
                          if len(rows) else 0, 0)
        locs = [loc_loss(o['loc'], loc[i, p] - encode(
                    o['code'], prior[p], var[p], rows[found[p], 3:7]))
                if found[p] >= 0 else (0, np.zeros(4))
                for p in range(p_count)]
        confs = [conf_loss(o['conf'], conf[i, p], labels[p])
                 for p in range(p_count)]
        counts = np.ones(p_count, bool)
        if o['mining'] == 'MAX_NEGATIVE':
            can = [p for p in range(p_count)
                   if found[p] < 0 and best[p] < o['neg_overlap']]
            can.sort(key=lambda p: -confs[p][0])
            counts = found >= 0
            counts[can[:int(counts.sum() * o['ratio'])]] = True
        elif o['mining'] == 'HARD_EXAMPLE':
            by = sorted(range(p_count),
                        key=lambda p: -(confs[p][0] + locs[p][0]))
            counts = np.zeros(p_count, bool)
            if len(rows):
                counts[by[:o['sample']]] = True
            found = np.where(counts, found, -1)
        matches += (found >= 0).sum()
        for p in range(p_count):
            if found[p] >= 0:
                total += o['weight'] * locs[p][0]
                dloc[i, p] = o['weight'] * locs[p][1]
            if counts[p]:
                total += confs[p][0]
                dconf[i, p] = confs[p][1]
    z = {'VALID': matches, 'FULL': n * p_count, 'BATCH_SIZE': n,
         'NONE': 1}[o['norm']]
    z = max(z, 1)
    return total / z, dloc / z, dconf / z


class TestMultiBox(Case):

    def random_case(self, rng, classes, o):
        n, p_count = int(rng.integers(1, 4)), int(rng.integers(8, 60))
        low = rng.uniform(0, .7, (p_count, 2))
        prior = np.hstack([low, low + rng.uniform(.05, .5, (p_count, 2))])
        var = np.tile([.1, .1, .2, .2], (p_count, 1))
        rows = []
        for i in range(n):
            for _ in range(int(rng.integers(0, 6))):
                at = rng.uniform(0, .7, 2)
                rows.append([i, rng.integers(1, classes), 0, *at,
                             *(at + rng.uniform(.05, .4, 2)), 0])
        rows = np.float32(rows or [[-1] * 8])
        prior, var = np.float32(prior), np.float32(var)
        loc = np.float32(rng.normal(0, 1, (n, p_count, 4)))
        conf = np.float32(rng.normal(0, 2, (n, p_count, classes)))
        param = ('mining_type: %(mining)s loc_loss_type: %(loc)s '
                 'conf_loss_type: %(conf)s code_type: %(code)s '
                 'overlap_threshold: %(threshold)g neg_pos_ratio: %(ratio)g '
                 'neg_overlap: %(neg_overlap)g sample_size: %(sample)d '
                 'loc_weight: %(weight)g' % o)
        net = self.net(NET % dict(n=n, loc=4 * p_count,
                                  conf=classes * p_count, prior=4 * p_count,
                                  rows=len(rows), norm=o['norm'],
                                  classes=classes, param=param))
        net.blobs['loc'].data[...] = loc.reshape(n, -1)
        net.blobs['conf'].data[...] = conf.reshape(n, -1)
        net.blobs['prior'].data[...] = np.stack(
            [prior.ravel(), var.ravel()])[None]
        net.blobs['truth'].data[...] = rows[None, None]
        got = float(net.forward()['loss'])
        net.backward()
        want, dloc, dconf = multibox(
            np.float64(loc), np.float64(conf), np.float64(prior),
            np.float64(var), np.float64(rows), o)
        self.assertLess(abs(got - want), 1e-4 * max(1, abs(want)), o)
        for name, grad in (('loc', dloc), ('conf', dconf)):
            off = np.abs(net.blobs[name].diff.ravel() - grad.ravel())
            self.assertLess(off.max(), 1e-4 * max(1, np.abs(grad).max()),
                            (name, o))

    def test_values_and_gradients_are_numpys(self):
        rng = np.random.default_rng(22)
        kinds = itertools.product(
            ('MAX_NEGATIVE', 'HARD_EXAMPLE', 'NONE'), ('SMOOTH_L1', 'L2'),
            ('SOFTMAX', 'LOGISTIC'), ('CORNER', 'CENTER_SIZE',
                                      'CORNER_SIZE'))
        for mining, loc, conf, code in kinds:
            for norm in ('VALID', 'FULL', 'BATCH_SIZE', 'NONE'):
                self.random_case(rng, int(rng.integers(2, 7)), dict(
                    mining=mining, loc=loc, conf=conf, code=code, norm=norm,
                    threshold=.5 if rng.random() < .5 else .3,
                    ratio=float(rng.choice([1, 3])),
                    neg_overlap=float(rng.choice([.2, .5])),
                    sample=int(rng.integers(1, 30)),
                    weight=float(rng.choice([1, .5]))))
