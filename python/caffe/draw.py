"""Pictures of nets.

By pydot and graphviz, as pycaffe draws them: layers are boxes, blobs are
octagons, and an edge out of a layer carries what it gives (channels, or the
batch).  Without these two, SVG pictures are drawn by caffe.svg."""

from __future__ import annotations

import os
from typing import Any, Optional

from .proto import caffe_pb2
from .svg import Box, Edge, svg_text

LAYER_COLOR = "#6495ED"
IN_PLACE_COLOR = "#90EE90"
BLOB_COLOR = "#E0E0E0"
TYPE_COLORS = {
    "Convolution": "#FF5050",
    "Deconvolution": "#FF5050",
    "Pooling": "#FF9900",
    "InnerProduct": "#CC33FF",
}
LEARNING_TYPES = ("Convolution", "Deconvolution", "InnerProduct")
EMPTY_LABEL = '""'


def get_pooling_types_dict() -> dict[int, str]:
    """The pooling methods, number to name."""
    methods = caffe_pb2.PoolingParameter.PoolMethod.DESCRIPTOR
    return {value.number: value.name for value in methods.values}


def get_edge_label(layer: Any) -> str:
    """What an edge out of this layer says, as graphviz writes it."""
    if layer.type == "Data":
        return "Batch %d" % layer.data_param.batch_size
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return EMPTY_LABEL


def get_layer_lr_mult(layer: Any) -> tuple[float, float]:
    """The learning rate multipliers of the weights and of the bias."""
    if layer.type not in LEARNING_TYPES:
        raise ValueError("layer %s: a learning rate multiplier is shown for "
                         "%s only, not for %s"
                         % (layer.name, ", ".join(LEARNING_TYPES),
                            layer.type))
    given = [spec.lr_mult for spec in layer.param]
    if len(given) > 2:
        raise ValueError("layer %s has %d params, and weights and bias are "
                         "two" % (layer.name, len(given)))
    weight, bias = given + [1.0, 1.0][len(given):]
    return weight, bias


def get_layer_label(layer: Any, rankdir: str,
                    display_lrm: bool = False) -> str:
    """Name, type and settings of a layer, quoted as graphviz wants it: in
    one line where the net runs down or up, otherwise in several."""
    between = " " if rankdir in ("TB", "BT") else r"\n"
    return _quoted(between.join(_describe(layer, display_lrm)))


def choose_color_by_layertype(layertype: str) -> str:
    """The colour of a layer that does not work in place."""
    return TYPE_COLORS.get(layertype, LAYER_COLOR)


def get_pydot_graph(caffe_net: Any, rankdir: str, label_edges: bool = True,
                    phase: Optional[int] = None,
                    display_lrm: bool = False) -> Any:
    """The pydot graph of a NetParameter.

    rankdir is where the net runs to: TB, BT, LR or RL.  With a phase, only
    the layers of that phase are drawn."""
    pydot = _import_pydot()
    graph = pydot.Dot(_quoted(caffe_net.name or "Net"),
                      graph_type="digraph", rankdir=rankdir)
    blobs = set()
    edges = []
    for index, layer in enumerate(_layers_in(caffe_net, phase)):
        # Two layers of different phases may have one name.
        node = _quoted("layer %d %s" % (index, layer.name))
        graph.add_node(pydot.Node(
            node, label=get_layer_label(layer, rankdir, display_lrm),
            shape="box", style="filled", fillcolor=_quoted(_color(layer))))
        top_label = get_edge_label(layer) if label_edges else EMPTY_LABEL
        for blob in list(layer.bottom) + list(layer.top):
            if blob not in blobs:
                blobs.add(blob)
                graph.add_node(pydot.Node(
                    _quoted("blob " + blob), label=_quoted(blob),
                    shape="octagon", style="filled",
                    fillcolor=_quoted(BLOB_COLOR)))
        edges += [(_quoted("blob " + blob), node, EMPTY_LABEL)
                  for blob in layer.bottom]
        edges += [(node, _quoted("blob " + blob), top_label)
                  for blob in layer.top]
    for source, target, label in edges:
        graph.add_edge(pydot.Edge(source, target, label=label))
    return graph


def get_svg(caffe_net: Any, rankdir: str = "TB",
            phase: Optional[int] = None, display_lrm: bool = False) -> str:
    """The SVG text of a NetParameter, without pydot or graphviz.

    Layers are boxes, and an edge between two carries the blob's name; a
    layer that works in place comes between its blob's maker and readers."""
    boxes: list[Box] = []
    edges: list[Edge] = []
    makers: dict[str, int] = {}
    for blob in caffe_net.input:
        makers[blob] = len(boxes)
        boxes.append(Box([blob, "(input)"], BLOB_COLOR))
    for layer in _layers_in(caffe_net, phase):
        edges += [Edge(makers[blob], len(boxes), blob)
                  for blob in layer.bottom if blob in makers]
        makers.update((blob, len(boxes)) for blob in layer.top)
        boxes.append(Box(_describe(layer, display_lrm), _color(layer)))
    return svg_text(boxes, edges, rankdir, caffe_net.name or "Net")


def draw_net(caffe_net: Any, rankdir: str, ext: str = "png",
             phase: Optional[int] = None,
             display_lrm: bool = False) -> bytes:
    """The picture of a NetParameter in the format `ext`, as bytes.

    Every format but svg needs pydot and graphviz."""
    try:
        graph = get_pydot_graph(caffe_net, rankdir, phase=phase,
                                display_lrm=display_lrm)
        return graph.create(format=ext)
    except (ImportError, FileNotFoundError) as error:
        if ext.lower() != "svg":
            raise ImportError(
                "drawing %s needs pydot and graphviz (python3-pydot and "
                "graphviz); svg needs neither" % ext) from error
    return get_svg(caffe_net, rankdir, phase, display_lrm).encode()


def draw_net_to_file(caffe_net: Any, filename: str, rankdir: str = "LR",
                     phase: Optional[int] = None,
                     display_lrm: bool = False) -> None:
    """Draw a NetParameter into a file; its ending names the format."""
    ext = os.path.splitext(filename)[1][1:]
    if not ext:
        raise ValueError("%s has no ending that names a picture format, "
                         "such as .png or .svg" % filename)
    picture = draw_net(caffe_net, rankdir, ext, phase, display_lrm)
    with open(filename, "wb") as file:
        file.write(picture)


def _import_pydot() -> Any:
    try:
        import pydot
    except ImportError:
        try:
            import pydotplus as pydot
        except ImportError as error:
            raise ImportError("drawing nets as graphs needs pydot "
                              "(python3-pydot)") from error
    return pydot


def _quoted(text: str) -> str:
    return '"%s"' % text.replace('"', r'\"')


def _color(layer: Any) -> str:
    if len(layer.bottom) == 1 and list(layer.bottom) == list(layer.top):
        return IN_PLACE_COLOR
    return choose_color_by_layertype(layer.type)


def _layers_in(caffe_net: Any, phase: Optional[int]) -> list[Any]:
    return [layer for layer in caffe_net.layer
            if phase is None or _runs_in(layer, phase)]


def _runs_in(layer: Any, phase: int) -> bool:
    """Whether the layer's rules let it into the phase.  Levels and stages
    are not known here: an include rule is taken to meet them, an exclude
    rule that has them is not."""
    if layer.include and layer.exclude:
        raise ValueError("layer %s has both include and exclude rules"
                         % layer.name)
    if layer.include:
        return any(rule.phase == phase or not rule.HasField("phase")
                   for rule in layer.include)
    only_phase = caffe_pb2.NetStateRule(phase=phase)
    return not any(rule == only_phase for rule in layer.exclude)


def _describe(layer: Any, display_lrm: bool) -> list[str]:
    """The lines of a layer's box."""
    kind = layer.type
    if layer.type == "Pooling":
        methods = get_pooling_types_dict()
        kind = "%s %s" % (layer.type, methods[layer.pooling_param.pool])
    lines = [layer.name, "(%s)" % kind]
    if layer.type == "Pooling":
        p = layer.pooling_param
        if p.global_pooling:
            lines.append("global")
        else:
            lines += _window([p.kernel_size], [p.stride], [p.pad], p)
    elif layer.type in ("Convolution", "Deconvolution"):
        p = layer.convolution_param
        lines += _window(p.kernel_size, p.stride, p.pad, p)
    if display_lrm and layer.type in LEARNING_TYPES:
        weight, bias = get_layer_lr_mult(layer)
        if weight or bias:
            lines.append("lr mult: %.1f, %.1f" % (weight, bias))
    return lines


def _window(kernel: list[int], stride: list[int], pad: list[int],
            param: Any) -> list[str]:
    """Kernel, stride and pad, each a number or one for each axis."""
    lines = []
    for name, field, given, default in (
            ("kernel size", "kernel", kernel, 1),
            ("stride", "stride", stride, 1), ("pad", "pad", pad, 0)):
        if param.HasField(field + "_h") or param.HasField(field + "_w"):
            given = [getattr(param, field + "_h"),
                     getattr(param, field + "_w")]
        values = sorted(set(given)) or [default]
        text = "x".join(str(v) for v in given) if len(values) > 1 \
            else str(values[0])
        lines.append("%s: %s" % (name, text))
    return lines
