"""caffe.draw and caffe.svg: what a picture says, by pydot and without."""

import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from unittest import mock

import caffe.draw
from caffe.proto import caffe_pb2
from caffe.svg import Box, Edge, svg_text
from google.protobuf import text_format

try:
    import pydot
except ImportError:
    pydot = None

SVG = "{http://www.w3.org/2000/svg}"

NET = """
    name: "three: \\"q\\""
    layer { name: "in" type: "Data" top: "data" top: "label"
      data_param { batch_size: 8 } include { phase: TRAIN } }
    layer { name: "in" type: "Data" top: "data" top: "label"
      data_param { batch_size: 9 } include { phase: TEST } }
    layer { name: "conv/1" type: "Convolution" bottom: "data"
      top: "conv:1" param { lr_mult: 3 }
      convolution_param { num_output: 20 kernel_size: 5 pad: 2 } }
    layer { name: "relu" type: "ReLU" bottom: "conv:1" top: "conv:1" }
    layer { name: "pool" type: "Pooling" bottom: "conv:1" top: "pool"
      pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
    layer { name: "seen" type: "Accuracy" bottom: "pool" bottom: "label"
      top: "seen" exclude { phase: TRAIN } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "pool"
      bottom: "label" top: "loss" }
"""


def three():
    return text_format.Parse(NET, caffe_pb2.NetParameter())


def layer(text):
    return text_format.Parse(text, caffe_pb2.LayerParameter())


class TestLabels(unittest.TestCase):
    def test_pooling_types(self):
        self.assertEqual(caffe.draw.get_pooling_types_dict(),
                         {0: "MAX", 1: "AVE", 2: "STOCHASTIC"})

    def test_edges_say_what_a_layer_gives(self):
        labels = [caffe.draw.get_edge_label(one) for one in three().layer]
        self.assertEqual(labels[:4], ["Batch 8", "Batch 9", "20", '""'])
        self.assertEqual(caffe.draw.get_edge_label(layer(
            "type: 'InnerProduct' inner_product_param { num_output: 7 }")),
            "7")

    def test_labels_say_name_type_and_window(self):
        conv, pool = three().layer[2], three().layer[4]
        self.assertEqual(
            caffe.draw.get_layer_label(conv, "TB"),
            '"conv/1 (Convolution) kernel size: 5 stride: 1 pad: 2"')
        self.assertEqual(
            caffe.draw.get_layer_label(pool, "LR"),
            r'"pool\n(Pooling AVE)\nkernel size: 3\nstride: 2\npad: 0"')
        self.assertEqual(
            caffe.draw.get_layer_label(conv, "TB", display_lrm=True),
            '"conv/1 (Convolution) kernel size: 5 stride: 1 pad: 2 '
            'lr mult: 3.0, 1.0"')

    def test_labels_of_windows_that_differ_by_axis(self):
        conv = layer("name: 'c' type: 'Deconvolution' convolution_param "
                     "{ kernel_h: 1 kernel_w: 3 stride: 2 stride: 4 }")
        self.assertEqual(
            caffe.draw.get_layer_label(conv, "TB"),
            '"c (Deconvolution) kernel size: 1x3 stride: 2x4 pad: 0"')
        pool = layer("name: 'p' type: 'Pooling' pooling_param "
                     "{ global_pooling: true }")
        self.assertEqual(caffe.draw.get_layer_label(pool, "TB"),
                         '"p (Pooling MAX) global"')

    def test_learning_rates(self):
        rates = caffe.draw.get_layer_lr_mult
        kind = "type: 'InnerProduct' "
        self.assertEqual(rates(layer(kind)), (1, 1))
        self.assertEqual(rates(layer(kind + "param { lr_mult: 0 }")), (0, 1))
        self.assertEqual(rates(layer(
            kind + "param { lr_mult: 2 } param { lr_mult: 4 }")), (2, 4))
        with self.assertRaises(ValueError):
            rates(layer(kind + 3 * "param { lr_mult: 2 }"))
        with self.assertRaises(ValueError):
            rates(layer("type: 'ReLU'"))

    def test_colours(self):
        color = caffe.draw.choose_color_by_layertype
        self.assertEqual(color("Convolution"), color("Deconvolution"))
        self.assertEqual(len({color(kind) for kind in (
            "Convolution", "Pooling", "InnerProduct", "Softmax")}), 4)


@unittest.skipUnless(pydot, "no pydot")
class TestPydot(unittest.TestCase):
    def parts(self, **settings):
        graph = caffe.draw.get_pydot_graph(three(), "LR", **settings)
        return ([node.get_label() for node in graph.get_nodes()],
                [edge.get_label() for edge in graph.get_edges()])

    def test_graph_has_layers_and_blobs_of_the_phase(self):
        nodes, edges = self.parts()
        self.assertEqual(len(nodes), 7 + 6)
        self.assertEqual(len(edges), 4 + 2 + 2 + 2 + 3 + 3)
        nodes, edges = self.parts(phase=caffe_pb2.TRAIN)
        self.assertEqual(len(nodes), 5 + 5)
        self.assertEqual(edges.count("Batch 8"), 2)
        self.assertNotIn("Batch 9", edges)
        nodes, edges = self.parts(phase=caffe_pb2.TEST, label_edges=False)
        self.assertIn(r'"seen\n(Accuracy)"', nodes)
        self.assertEqual(set(edges), {'""'})

    def test_include_and_exclude_together_are_refused(self):
        net = three()
        net.layer[0].exclude.add(phase=caffe_pb2.TEST)
        with self.assertRaisesRegex(ValueError, "layer in"):
            caffe.draw.get_pydot_graph(net, "LR", phase=caffe_pb2.TEST)

    def test_pictures_by_graphviz(self):
        try:
            picture = caffe.draw.draw_net(three(), "TB")
        except ImportError:
            self.skipTest("no graphviz")
        self.assertEqual(picture[:4], b"\x89PNG")
        picture = caffe.draw.draw_net(three(), "LR", ext="svg")
        self.assertIn(b"conv/1", picture)


class TestSvg(unittest.TestCase):
    def texts(self, svg):
        root = ElementTree.fromstring(svg)
        return [text.text for text in root.iter(SVG + "text")]

    def test_picture_holds_each_layer_once_and_each_edge(self):
        svg = caffe.draw.get_svg(three(), "TB", caffe_pb2.TEST)
        root = ElementTree.fromstring(svg)
        self.assertEqual(len(list(root.iter(SVG + "rect"))), 6)
        texts = self.texts(svg)
        for name in ("in", "conv/1", "relu", "pool", "seen", "loss"):
            self.assertEqual(texts.count(name), 1 + (name == "pool") * 2)
        # data; conv:1 into relu and out of it; pool twice; label twice.
        self.assertEqual(texts.count("conv:1"), 2)
        self.assertEqual(texts.count("label"), 2)
        self.assertEqual(texts.count("data"), 1)

    def test_boxes_do_not_overlap_and_ranks_go_on(self):
        boxes = [Box(["box %d" % n], "#ffffff") for n in range(6)]
        edges = [Edge(0, 1), Edge(0, 2), Edge(0, 3), Edge(1, 4), Edge(2, 4),
                 Edge(0, 5), Edge(4, 5)]
        for rankdir, axis, sign in (("TB", "y", 1), ("BT", "y", -1),
                                    ("LR", "x", 1), ("RL", "x", -1)):
            root = ElementTree.fromstring(svg_text(boxes, edges, rankdir))
            size = dict(x=float(root.get("width")),
                        y=float(root.get("height")))
            rects = [{key: float(rect.get(key)) for key in
                      ("x", "y", "width", "height")}
                     for rect in root.iter(SVG + "rect")]
            for edge in edges:
                step = rects[edge.target][axis] - rects[edge.source][axis]
                self.assertGreater(sign * step, 0)
            for n, a in enumerate(rects):
                self.assertGreaterEqual(min(a["x"], a["y"]), 0)
                self.assertLessEqual(a["x"] + a["width"], size["x"])
                self.assertLessEqual(a["y"] + a["height"], size["y"])
                for b in rects[:n]:
                    apart = (a["x"] + a["width"] <= b["x"]
                             or b["x"] + b["width"] <= a["x"]
                             or a["y"] + a["height"] <= b["y"]
                             or b["y"] + b["height"] <= a["y"])
                    self.assertTrue(apart)

    def test_names_are_escaped_and_empty_nets_drawn(self):
        svg = svg_text([Box(["a<b&c"], "#ffffff")], [], title="<t>")
        self.assertEqual(self.texts(svg), ["a<b&c"])
        ElementTree.fromstring(caffe.draw.get_svg(caffe_pb2.NetParameter()))
        with self.assertRaises(ValueError):
            svg_text([], [], "XY")

    def test_svg_files_need_no_pydot_and_others_name_it(self):
        missing = {"pydot": None, "pydotplus": None}
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict(sys.modules, missing):
            path = os.path.join(folder, "net.svg")
            caffe.draw.draw_net_to_file(three(), path, "LR")
            with open(path) as file:
                self.assertIn("conv/1", self.texts(file.read()))
            with self.assertRaisesRegex(ImportError, "python3-pydot"):
                caffe.draw.draw_net_to_file(three(), path + ".png")
            with self.assertRaises(ValueError):
                caffe.draw.draw_net_to_file(three(),
                                            os.path.join(folder, "net"))


if __name__ == "__main__":
    unittest.main()
