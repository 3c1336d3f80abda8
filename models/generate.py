#!/usr/bin/env python3
"""Write the model files of this folder, or check them.

    models/generate.py            write every prototxt and README.md's table
    models/generate.py NAME...    only those nets
    models/generate.py --check    write nothing: the files must be what would
                                  be written, every blob must fit, and the
                                  parameters must count what is published
"""

import os
import sys

from netgen import branched, plain, shapes, small, ssd
from netgen.prototxt import Enum, parse, text

HERE = os.path.dirname(os.path.abspath(__file__))


class Model:
    """One folder.  `params` is the published count of learned parameters in
    the deploy net, running statistics of BatchNorm left out."""

    def __init__(self, folder, build, params, solver=None, record=None,
                 train="train_val", stages=(), extra=None):
        self.folder, self.build, self.params = folder, build, params
        self.solver, self.record, self.train = solver, record, train
        self.stages, self.extra = stages, extra or {}

    def path(self, kind):
        return "models/%s/%s.prototxt" % (self.folder, kind)

    def files(self):
        """Path below the project -> text."""
        deploy = self.build(False)
        out = {self.path("deploy"): deploy.text(
            ["%s, to be run on images: see models/README.md." % deploy.name,
             "Written by models/generate.py."])}
        if not self.solver:
            return out
        train = self.build(True)
        out[self.path(self.train)] = train.text(
            ["%s, to be trained: see models/README.md." % train.name,
             "Written by models/generate.py."])
        out[self.path("solver")] = self.solver_text(self.solver)
        for name, changes in self.extra.items():
            out[self.path(name)] = self.solver_text({**self.solver,
                                                     **changes})
        return out

    def solver_text(self, solver):
        fields = {"net": self.path(self.train), **solver,
                  "snapshot_prefix": "models/%s/%s" % (self.folder,
                                                       self.folder),
                  "solver_mode": Enum("CPU")}
        return "# Written by models/generate.py.\n" + text(fields)


def sgd(lr, max_iter, policy, decay, test=(1000, 1000), display=20,
        snapshot=10000, **more):
    s = {"test_iter": test[0], "test_interval": test[1], **more,
         "base_lr": lr, "momentum": 0.9, "weight_decay": decay}
    s.update(policy)
    s.update(display=display, max_iter=max_iter, snapshot=snapshot)
    return s


FIXED = {"lr_policy": "fixed"}


def step(size):
    return {"lr_policy": "step", "gamma": 0.1, "stepsize": size}


def poly(power):
    return {"lr_policy": "poly", "power": power}


IMAGENET = (3, 256, 256)
QUIET = {"test_initialization": False}
LENET = sgd(0.01, 10000, {"lr_policy": "inv", "gamma": 0.0001, "power": 0.75},
            0.0005, (100, 500), 100, 5000)
RESNET = sgd(0.1, 600000, step(200000), 0.0001, (2000, 5000), 40, **QUIET,
             iter_size=8)
MOBILE = sgd(0.1, 500000, poly(1), 0.0001, (2000, 5000), 40, **QUIET,
             iter_size=4)
AUTOENCODER = {"test_state": [{"stage": "test-on-train"},
                              {"stage": "test-on-test"}],
               **sgd(0.01, 65000, step(10000), 0.0005, ([500, 100], 500), 100,
                     test_compute_loss=True)}

MODELS = [
    Model("lenet", small.lenet, 431080, LENET, (1, 28, 28), "train_test"),
    Model("cifar10_quick", small.cifar10_quick, 145578,
          sgd(0.001, 4000, FIXED, 0.004, (100, 500), 100, 4000),
          (3, 32, 32), "train_test",
          extra={"solver_lr1": {"base_lr": 0.0001, "max_iter": 5000,
                                "snapshot": 5000}}),
    Model("cifar10_full", small.cifar10_full, 89578,
          sgd(0.001, 60000, FIXED, 0.004, (100, 1000), 200),
          (3, 32, 32), "train_test",
          extra={"solver_lr1": {"base_lr": 0.0001, "max_iter": 65000,
                                "snapshot": 5000},
                 "solver_lr2": {"base_lr": 0.00001, "max_iter": 70000,
                                "snapshot": 5000}}),
    Model("bvlc_alexnet", plain.alexnet, 60965224,
          sgd(0.01, 450000, step(100000), 0.0005), IMAGENET),
    Model("bvlc_reference_caffenet", plain.caffenet, 60965224,
          sgd(0.01, 450000, step(100000), 0.0005), IMAGENET),
    Model("bvlc_googlenet", branched.googlenet, 6998552,
          sgd(0.01, 2400000, poly(0.5), 0.0002, (1000, 4000), 40, 40000,
              average_loss=40, **QUIET), IMAGENET),
    Model("vgg16", lambda t: plain.vgg(t, 16), 138357544,
          sgd(0.01, 370000, step(100000), 0.0005, iter_size=4, **QUIET),
          IMAGENET),
    Model("vgg19", lambda t: plain.vgg(t, 19), 143667240,
          sgd(0.01, 370000, step(100000), 0.0005, iter_size=4, **QUIET),
          IMAGENET),
    # 25,557,032 as everywhere, and the 64 biases of the published conv1.
    Model("resnet50", lambda t: branched.resnet(t, 50), 25557032 + 64,
          RESNET, IMAGENET),
    Model("resnet101", lambda t: branched.resnet(t, 101), 44549160, RESNET,
          IMAGENET),
    Model("resnet152", lambda t: branched.resnet(t, 152), 60192808, RESNET,
          IMAGENET),
    Model("squeezenet_v1.1", plain.squeezenet, 1235496,
          sgd(0.04, 170000, poly(1), 0.0002, (2000, 1000), 40, 1000,
              iter_size=16, average_loss=40, **QUIET), IMAGENET),
    Model("mobilenet_v1", branched.mobilenet_v1, 4231976, MOBILE, IMAGENET),
    # 3,504,872 as in the paper, and the published 1x1 expansion of the first
    # block: 32 x 32 weights, 64 of its Scale.
    Model("mobilenet_v2", branched.mobilenet_v2, 3504872 + 1088, MOBILE,
          IMAGENET),
    Model("inception_v3", branched.inception_v3, 23834568,
          sgd(0.045, 1500000, {"lr_policy": "exp", "gamma": 0.999998},
              0.0004, (2000, 5000), 40, iter_size=4, **QUIET),
          (3, 320, 320)),
    Model("densenet121", branched.densenet121, 7978856,
          sgd(0.1, 500000, step(150000), 0.0001, (2000, 5000), 40,
              iter_size=8, **QUIET), IMAGENET),
    Model("fcn8s", plain.fcn8s, 134489759,
          sgd(1e-14, 100000, FIXED, 0.0005, (736, 4000), 20, 4000,
              average_loss=20, **QUIET), (3, 500, 500)),
    Model("ssd300", ssd.ssd300, 26285486,
          sgd(0.001, 120000, {"lr_policy": "multistep", "gamma": 0.1,
                              "stepvalue": [80000, 100000, 120000]},
              0.0005, (619, 10000), 10, 40000, average_loss=10,
              eval_type="detection", ap_version="11point",
              show_per_class_result=True, **QUIET), (3, 300, 300)),
    Model("siamese", small.siamese, 431080 + 22,
          sgd(0.01, 50000, {"lr_policy": "inv", "gamma": 0.0001,
                            "power": 0.75}, 0, (100, 500), 100, 5000),
          (2, 28, 28), "train_test"),
    Model("autoencoder", small.autoencoder, 2837314, AUTOENCODER,
          (1, 28, 28), "train_test", ("test-on-test",)),
    Model("lstm", small.lstm, 4 * 128 * (28 + 128 + 1) + 1290,
          sgd(0.1, 10000, FIXED, 0.0001, (20, 500), 100, 5000,
              clip_gradients=5), (1, 28, 28), "train_test"),
]


def row(model, layers):
    params, stats, macs = shapes.totals(layers)
    x = layers[0].shapes[0]
    batch = x[1] if model.folder == "lstm" else x[0]
    size = "x".join(str(d) for d in x if d != batch or x.index(d) > 1)
    files = [n for n in sorted(os.path.basename(p) for p in model.files())]
    links = ", ".join("[%s](%s/%s)" % (f.split(".")[0], model.folder, f)
                      for f in files)
    return "| %s | %s | %s | %s | %s | %s |" % (
        model.folder, size, "{:,}".format(params),
        "{:,}".format(stats) if stats else "", human(macs / batch), links)


def human(macs):
    return "%.3g G" % (macs / 1e9) if macs >= 1e9 else "%.3g M" % (macs / 1e6)


def check(model, files):
    """Every phase must fit together, and count what is published."""
    deploy = shapes.walk(parse(files[model.path("deploy")]))
    params = shapes.totals(deploy)[0]
    if params != model.params:
        raise ValueError("%s: %d parameters, published are %d"
                         % (model.folder, params, model.params))
    if model.solver:
        net = parse(files[model.path(model.train)])
        for phase in ("TRAIN", "TEST"):
            layers = shapes.walk(net, phase, model.record, model.stages)
            weights = {l.name: l.params for l in layers}
            for l in deploy:
                if l.params and weights.get(l.name) != l.params:
                    raise ValueError("%s: %s differs in %s" % (
                        model.folder, l.name, phase))
    return row(model, deploy)


def readme(rows):
    path = os.path.join(HERE, "README.md")
    with open(path, encoding="utf-8") as f:
        before, rest = f.read().split("<!-- table -->\n", 1)
        after = rest.split("<!-- end of table -->\n", 1)[1]
    table = ["| net | input | parameters | running statistics "
             "| multiply-adds an image | files |",
             "|---|---|---:|---:|---:|---|"] + rows
    return before + "<!-- table -->\n" + "\n".join(table) + \
        "\n<!-- end of table -->\n" + after


def main(arguments):
    checking = "--check" in arguments
    names = [a for a in arguments if a != "--check"]
    unknown = set(names) - {m.folder for m in MODELS}
    if unknown or any(a.startswith("-") for a in names):
        sys.exit("unknown: %s\n%s" % (" ".join(sorted(unknown)), __doc__))
    chosen = [m for m in MODELS if not names or m.folder in names]
    files, rows = {}, []
    for model in chosen:
        own = model.files()
        rows.append(check(model, own))
        files.update(own)
    if not names:
        files["models/README.md"] = readme(rows)
    stale = 0
    for path, content in files.items():
        full = os.path.join(os.path.dirname(HERE), path)
        if checking:
            old = None
            if os.path.exists(full):
                with open(full, encoding="utf-8") as f:
                    old = f.read()
            if old != content:
                print("%s is not what models/generate.py writes" % path)
                stale += 1
            continue
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(content)
    print("%d nets, %d files %s" % (len(chosen), len(files),
                                    "checked" if checking else "written"))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
