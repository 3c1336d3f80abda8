"""Nets written as Python expressions.

    n = NetSpec()
    n.data, n.label = L.Data(source='train', batch_size=64, ntop=2)
    n.ip = L.InnerProduct(n.data, num_output=10)
    n.loss = L.SoftmaxWithLoss(n.ip, n.label)
    print(n.to_proto())

`layers` (L) has a function for each layer type, `params` (P) the values of
Caffe's enums.  A layer is a Function; what it computes are its Tops, and a
Top knows the Function that makes it, so any Top is a whole net."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any, Callable, Union

from google.protobuf.message import Message

from .proto import caffe_pb2

# Types whose fields stand in a message that is not named after them.
SHARED_PARAMS = {
    "ConvolutionDepthwise": "convolution",
    "Deconvolution": "convolution",
    "DepthwiseConvolution": "convolution",
    "Im2col": "convolution",
    "LSTM": "recurrent",
    "RNN": "recurrent",
}


def param_name_dict() -> dict[str, str]:
    """Which message of a layer belongs to which type.

    Maps 'InnerProduct' to 'inner_product' for inner_product_param, and so
    on for each field of LayerParameter that ends in _param."""
    ends, end = "Parameter", "_param"
    return {field.message_type.name[:-len(ends)]: field.name[:-len(end)]
            for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields
            if field.name.endswith(end)}


def assign_proto(proto: Message, name: str, val: Any) -> None:
    """Set a field of a message from a plain Python value.

    A dict fills a message, a list or tuple a repeated field; a single
    value for a repeated field becomes its only element.  An unknown name
    is an AttributeError."""
    field = proto.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise AttributeError("%s has no field %s"
                             % (proto.DESCRIPTOR.name, name))
    target = getattr(proto, name)
    if hasattr(target, "extend"):
        items = val if isinstance(val, (list, tuple)) else [val]
        if field.message_type is None:
            target.extend(items)
            return
        for item in items:
            _fill(target.add(), item)
    elif field.message_type is not None:
        _fill(target, val)
    else:
        setattr(proto, name, val)


def _fill(message: Message, val: Any) -> None:
    if isinstance(val, Message):
        message.CopyFrom(val)
        return
    if not isinstance(val, dict):
        raise TypeError("%s is filled from a dict, not from %r"
                        % (message.DESCRIPTOR.name, val))
    # An empty dict still says that the message is there.
    message.SetInParent()
    for key, item in val.items():
        assign_proto(message, key, item)


def to_proto(*tops: Union[Top, Function]) -> Any:
    """The NetParameter of all layers that the given tops need, with
    automatic names."""
    build = _Build({})
    for top in tops:
        build.add(top)
    return build.net()


class Top:
    """One output of a layer: number `n` of Function `fn`."""

    def __init__(self, fn: Function, n: int) -> None:
        self.fn = fn
        self.n = n

    def to_proto(self) -> Any:
        """The net that computes this top; names are automatic."""
        return to_proto(self)

    def update(self, params: dict[str, Any]) -> None:
        """Change parameters of the layer that makes this top."""
        self.fn.update(params)


class Function:
    """A layer: its type, its inputs (Tops) and its parameters.

    `ntop` and `in_place` among the parameters are taken out."""

    def __init__(self, type_name: str, inputs: tuple[Top, ...],
                 params: dict[str, Any]) -> None:
        for index, top in enumerate(inputs):
            if not isinstance(top, Top):
                raise TypeError("%s input %d is not a Top (type is %s)"
                                % (type_name, index, type(top)))
        self.type_name = type_name
        self.inputs = inputs
        self.params = dict(params)
        self.ntop = self.params.pop("ntop", 1)
        self.in_place = self.params.pop("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def to_proto(self) -> Any:
        """The net that ends in this layer; names are automatic."""
        return to_proto(self)

    def update(self, params: dict[str, Any]) -> None:
        """Change parameters; those not named stay."""
        self.params.update(params)

    def fill(self, layer: Any) -> None:
        """Write the parameters into a LayerParameter.

        A name that ends in `param` is a field of the layer.  Any other is
        a field of the type's own message where that has it, and of the
        layer otherwise (`name`, `include`, `loss_weight`)."""
        own = param_name_dict().get(self.type_name,
                                    SHARED_PARAMS.get(self.type_name))
        message = getattr(layer, own + "_param") if own else None
        for key, val in self.params.items():
            if (message is not None and not key.endswith("param")
                    and key in message.DESCRIPTOR.fields_by_name):
                assign_proto(message, key, val)
            elif key in layer.DESCRIPTOR.fields_by_name:
                assign_proto(layer, key, val)
            else:
                raise AttributeError("a layer of type %s has no parameter %s"
                                     % (self.type_name, key))


class _Build:
    """A net while it is put together: layers in order, names so far."""

    def __init__(self, names: dict[Union[Top, Function], str]) -> None:
        self.names = names
        self.counts: Counter[str] = Counter()
        self.layers: OrderedDict[Function, Any] = OrderedDict()

    def net(self) -> Any:
        net = caffe_pb2.NetParameter()
        net.layer.extend(self.layers.values())
        return net

    def add(self, end: Union[Top, Function]) -> None:
        """Add the layer of `end` after all that it needs.  A stack of our
        own, because nets may be deeper than Python's."""
        stack = [end.fn if isinstance(end, Top) else end]
        while stack:
            fn = stack[-1]
            missing = [top.fn for top in fn.inputs
                       if top.fn not in self.layers]
            if missing:
                stack.append(missing[0])
                continue
            stack.pop()
            if fn not in self.layers:
                self.layers[fn] = self.layer(fn)

    def layer(self, fn: Function) -> Any:
        layer = caffe_pb2.LayerParameter()
        layer.type = fn.type_name
        layer.bottom.extend(self.layers[top.fn].top[top.n]
                            for top in fn.inputs)
        if fn.in_place:
            layer.top.extend(layer.bottom)
        else:
            layer.top.extend(self.name(top, fn) for top in fn.tops)
        if fn not in self.names and fn.tops:
            self.names[fn] = self.name(fn.tops[0], fn)
        layer.name = self.name(fn, fn)
        fn.fill(layer)
        return layer

    def name(self, thing: Union[Top, Function], fn: Function) -> str:
        """A given name, or the type and a number."""
        if thing not in self.names:
            self.counts[fn.type_name] += 1
            self.names[thing] = "%s%d" % (fn.type_name,
                                          self.counts[fn.type_name])
        return self.names[thing]


class NetSpec:
    """A net whose tops have names: attributes or items, in order.

    A layer is named after its first top.  A layer without tops is
    assigned as well, and its name is the attribute's."""

    tops: OrderedDict[str, Union[Top, Function]]

    def __init__(self) -> None:
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name: str, value: Union[Top, Function]) -> None:
        self.tops[name] = value

    def __getattr__(self, name: str) -> Union[Top, Function]:
        if name == "tops" or name not in self.tops:
            raise AttributeError("the net has no top %s" % name)
        return self.tops[name]

    def __delattr__(self, name: str) -> None:
        del self.tops[name]

    def __setitem__(self, key: str, value: Union[Top, Function]) -> None:
        self.tops[key] = value

    def __getitem__(self, item: str) -> Union[Top, Function]:
        return self.tops[item]

    def __delitem__(self, name: str) -> None:
        del self.tops[name]

    def __contains__(self, name: object) -> bool:
        return name in self.tops

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self.tops))

    def update(self, name: str, params: dict[str, Any]) -> None:
        """Change parameters of the layer that makes top `name`."""
        self.tops[name].update(params)

    def to_proto(self) -> Any:
        """The NetParameter of all tops and of what they need."""
        build = _Build({top: name for name, top in self.tops.items()})
        for top in self.tops.values():
            build.add(top)
        return build.net()


class Layers:
    """L.<type>(*bottoms, **params) makes a layer of any type.

    It gives the layer's Top, a tuple of them if `ntop` is above one, or
    the Function itself if `ntop` is 0.  Which types exist is the engine's
    business, so that types of one's own need no change here."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def layer_fn(*args: Top, **kwargs: Any) -> Any:
            fn = Function(name, args, kwargs)
            if fn.ntop == 0:
                return fn
            return fn.tops[0] if fn.ntop == 1 else fn.tops

        layer_fn.__name__ = layer_fn.__qualname__ = name
        layer_fn.__doc__ = "A layer of type %s." % name
        return layer_fn

    def __dir__(self) -> list[str]:
        return sorted(set(param_name_dict()) | set(SHARED_PARAMS))


class Parameters:
    """P.<type>.<VALUE> is a value of an enum of <type>Parameter."""

    def __getattr__(self, name: str) -> Any:
        message = getattr(caffe_pb2, name + "Parameter", None)
        if message is None:
            raise AttributeError("there is no %sParameter" % name)
        return message

    def __dir__(self) -> list[str]:
        end = "Parameter"
        return sorted(message[:-len(end)] for message in
                      caffe_pb2.DESCRIPTOR.message_types_by_name
                      if message.endswith(end))


layers = Layers()
params = Parameters()
