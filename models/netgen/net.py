"""A net under construction: methods add layers in Caffe's vocabulary.

A Net is built twice from one description, once to be trained (fillers,
learning rates, a Data layer a phase, losses) and once to be deployed (an
Input layer, a softmax); `train` says which."""

from .prototxt import Enum, text

MAX, AVE = Enum("MAX"), Enum("AVE")
IMAGENET_MEAN = [104, 117, 123]

XAVIER = {"type": "xavier"}
MSRA = {"type": "msra"}


def gaussian(std, **more):
    return {"type": "gaussian", "std": std, **more}


def constant(value):
    # Zero is the filler's default, so Caffe's files leave it out.
    return {"type": "constant", **({"value": value} if value else {})}


class Net:
    def __init__(self, name, train):
        self.name, self.train, self.layers = name, train, []

    def text(self, note):
        head = "".join("# %s\n" % line for line in note)
        return head + text({"name": self.name, "layer": self.layers})

    def add(self, kind, name, bottom=(), top=None, **fields):
        """Append a layer; its first top, named as the layer unless given."""
        bottom = [bottom] if isinstance(bottom, str) else list(bottom)
        top = name if top is None else top
        top = [top] if isinstance(top, str) else list(top)
        layer = {"name": name, "type": kind}
        if bottom:
            layer["bottom"] = bottom
        if top:
            layer["top"] = top
        layer.update((k, v) for k, v in fields.items() if v not in (None, {}))
        self.layers.append(layer)
        return top[0] if top else None

    # Data

    def input(self, *dims, name="data"):
        return self.add("Input", name, input_param={
            "shape": {"dim": list(dims)}})

    def data(self, name, phase, source, batch, transform, tops=None):
        self.add("Data", name, top=tops or ["data", "label"],
                 include={"phase": Enum(phase)}, transform_param=transform,
                 data_param={"source": source, "batch_size": batch,
                             "backend": Enum("LMDB")})
        return (tops or ["data"])[0]

    def imagenet(self, crop, batches, deploy_batch=10, scale=None,
                 mean=IMAGENET_MEAN):
        """ILSVRC12 LMDBs to train on, or one blob of crop x crop images."""
        if not self.train:
            return self.input(deploy_batch, 3, crop, crop)
        for phase, mirror, batch, part in (
                ("TRAIN", True, batches[0], "train"),
                ("TEST", False, batches[1], "val")):
            transform = {"scale": scale} if scale else {}
            transform.update(mirror=mirror, crop_size=crop, mean_value=mean)
            self.data("data", phase,
                      "examples/imagenet/ilsvrc12_%s_lmdb" % part, batch,
                      transform)
        return "data"

    # Layers with weights

    def params(self, bias, lr=(1, 2), decay=(1, 0), names=None):
        if not self.train and not names:
            return None
        specs = []
        for i in range(2 if bias else 1):
            spec = {"name": names[i]} if names else {}
            if self.train:
                spec["lr_mult"] = lr[i]
                if decay:
                    spec["decay_mult"] = decay[i]
            specs.append(spec)
        return specs

    def fillers(self, fill, bias, bias_value):
        if not self.train:
            return {}
        both = {"weight_filler": fill} if fill else {}
        if bias:
            both["bias_filler"] = constant(bias_value)
        return both

    def conv(self, name, bottom, n, k, s=1, p=0, g=1, d=1, bias=True,
             fill=XAVIER, bias_value=0, kind="Convolution", top=None, **spec):
        c = {"num_output": n}
        if not bias:
            c["bias_term"] = False
        for key, value, default in (("pad", p, 0), ("kernel_size", k, None),
                                    ("stride", s, 1)):
            if isinstance(value, tuple):
                stem = key.split("_")[0]
                c[stem + "_h"], c[stem + "_w"] = value
            elif value != default:
                c[key] = value
        if d != 1:
            c["dilation"] = d
        if g != 1:
            c["group"] = g
        c.update(self.fillers(fill, bias, bias_value))
        return self.add(kind, name, bottom, top,
                        param=self.params(bias, **spec), convolution_param=c)

    def fc(self, name, bottom, n, fill=XAVIER, bias_value=0, top=None,
           **spec):
        return self.add("InnerProduct", name, bottom, top,
                        param=self.params(True, **spec),
                        inner_product_param={
                            "num_output": n,
                            **self.fillers(fill, True, bias_value)})

    def bn(self, name, scale_name, bottom, top=None, eps=None):
        """BatchNorm and the Scale that gives it gamma and beta."""
        p = {} if self.train else {"use_global_stats": True}
        if eps:
            p["eps"] = eps
        top = top or bottom
        frozen = [{"lr_mult": 0, "decay_mult": 0}] * 3
        self.add("BatchNorm", name, bottom, top,
                 param=frozen if self.train else None, batch_norm_param=p)
        return self.add("Scale", scale_name, top, top,
                        param=[{"lr_mult": 1, "decay_mult": 0}] * 2
                        if self.train else None,
                        scale_param={"bias_term": True})

    # Layers without

    def relu(self, name, blob):
        return self.add("ReLU", name, blob, blob)

    def pool(self, name, bottom, how, k=None, s=1, p=0, **more):
        q = {"pool": how}
        if k is None:
            q["global_pooling"] = True
        else:
            q["kernel_size"] = k
            if s != 1:
                q["stride"] = s
            if p:
                q["pad"] = p
        q.update(more)
        return self.add("Pooling", name, bottom, pooling_param=q)

    def lrn(self, name, bottom, size=5, alpha=1e-4, beta=0.75, **more):
        return self.add("LRN", name, bottom, lrn_param={
            "local_size": size, "alpha": alpha, "beta": beta, **more})

    def dropout(self, name, blob, ratio=0.5, top=None):
        return self.add("Dropout", name, blob, top or blob,
                        dropout_param={"dropout_ratio": ratio})

    def concat(self, name, bottoms, axis=None):
        return self.add("Concat", name, bottoms, concat_param={"axis": axis}
                        if axis is not None else None)

    # Ends

    def accuracy(self, name, bottom, top_k=None, top=None):
        self.add("Accuracy", name, [bottom, "label"], top,
                 include={"phase": Enum("TEST")},
                 accuracy_param={"top_k": top_k} if top_k else None)

    def classify(self, bottom, top_k=(1,), prob="prob", loss="loss"):
        """The loss and accuracies to train with, or the probabilities."""
        if not self.train:
            return self.add("Softmax", prob, bottom)
        for k in top_k:
            name = "accuracy" if top_k == (1,) else "accuracy/top-%d" % k
            self.accuracy(name, bottom, k if k > 1 else None)
        return self.add("SoftmaxWithLoss", loss, [bottom, "label"])
