"""caffe.net_spec: nets written in Python, compared with their text."""

import copy
import unittest

import caffe
import caffe.net_spec
from caffe import layers as L
from caffe import params as P
from caffe.proto import caffe_pb2
from google.protobuf import text_format


def net(text):
    return text_format.Parse(text, caffe_pb2.NetParameter())


class TestNetSpec(unittest.TestCase):
    def test_a_net_with_names(self):
        n = caffe.NetSpec()
        n.data, n.label = L.Data(source="db", batch_size=2, ntop=2,
                                 transform_param=dict(scale=0.5),
                                 include=dict(phase=caffe_pb2.TEST))
        n["conv/1"] = L.Convolution(
            n.data, kernel_size=3, num_output=4, pad=[1, 2],
            param=[dict(lr_mult=1), dict(lr_mult=2, decay_mult=0)],
            weight_filler=dict(type="xavier"))
        n.relu = L.ReLU(n["conv/1"], in_place=True)
        n.pool = L.Pooling(n.relu, pool=P.Pooling.AVE, kernel_size=2)
        n.loss = L.SoftmaxWithLoss(n.pool, n.label, loss_weight=3,
                                   loss_param=dict(ignore_label=255))
        self.assertEqual(n.to_proto(), net("""
            layer { name: "data" type: "Data" top: "data" top: "label"
              include { phase: TEST } transform_param { scale: 0.5 }
              data_param { source: "db" batch_size: 2 } }
            layer { name: "conv/1" type: "Convolution" bottom: "data"
              top: "conv/1" param { lr_mult: 1 }
              param { lr_mult: 2 decay_mult: 0 }
              convolution_param { num_output: 4 kernel_size: 3
                pad: 1 pad: 2 weight_filler { type: "xavier" } } }
            layer { name: "relu" type: "ReLU" bottom: "conv/1"
              top: "conv/1" }
            layer { name: "pool" type: "Pooling" bottom: "conv/1"
              top: "pool" pooling_param { pool: AVE kernel_size: 2 } }
            layer { name: "loss" type: "SoftmaxWithLoss" bottom: "pool"
              bottom: "label" top: "loss" loss_weight: 3
              loss_param { ignore_label: 255 } }"""))

    def test_automatic_names_count_each_type(self):
        data, label = L.DummyData(ntop=2)
        one = L.InnerProduct(data, num_output=3)
        two = L.InnerProduct(L.ReLU(one, in_place=True), num_output=2)
        proto = caffe.to_proto(L.EuclideanLoss(two, label))
        self.assertEqual(
            [(layer.name, list(layer.bottom), list(layer.top))
             for layer in proto.layer],
            [("DummyData1", [], ["DummyData1", "DummyData2"]),
             ("InnerProduct1", ["DummyData1"], ["InnerProduct1"]),
             ("ReLU1", ["InnerProduct1"], ["InnerProduct1"]),
             ("InnerProduct2", ["InnerProduct1"], ["InnerProduct2"]),
             ("EuclideanLoss1", ["InnerProduct2", "DummyData2"],
              ["EuclideanLoss1"])])
        self.assertEqual(two.to_proto().layer[3], proto.layer[3])

    def test_unnamed_layers_inside_a_named_net(self):
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[1, 2]))
        n.out = L.TanH(L.Power(n.data, scale=2))
        self.assertEqual([layer.name for layer in n.to_proto().layer],
                         ["data", "Power1", "out"])

    def test_layers_without_tops(self):
        n = caffe.NetSpec()
        n.a, n.b = L.DummyData(shape=dict(dim=3), ntop=2)
        n.silence = L.Silence(n.a, ntop=0)
        self.assertIsInstance(n.silence, caffe.net_spec.Function)
        proto = n.to_proto()
        self.assertEqual(proto.layer[1].name, "silence")
        self.assertEqual(len(proto.layer[1].top), 0)
        quiet = caffe.to_proto(n.silence, L.Silence(n.b, ntop=0))
        self.assertEqual([layer.name for layer in quiet.layer],
                         ["DummyData1", "Silence1", "Silence2"])

    def test_name_and_other_fields_of_the_layer(self):
        proto = L.Python(module="m", layer="C", param_str="{}",
                         name="mine").to_proto()
        self.assertEqual(proto, net("""
            layer { name: "mine" type: "Python" top: "Python1"
              python_param { module: "m" layer: "C" param_str: "{}" } }"""))

    def test_types_that_share_a_message(self):
        data = L.Input()
        up = L.Deconvolution(data, num_output=2, stride=2, name="up")
        layer = up.to_proto().layer[1]
        self.assertEqual(layer.convolution_param.num_output, 2)
        same = L.Deconvolution(
            data, convolution_param=dict(num_output=2, stride=2), name="up")
        self.assertEqual(same.to_proto().layer[1], layer)
        lstm = L.LSTM(data, num_output=5).to_proto().layer[1]
        self.assertEqual(lstm.recurrent_param.num_output, 5)

    def test_every_message_of_a_layer_is_found(self):
        names = caffe.net_spec.param_name_dict()
        self.assertEqual(names["InnerProduct"], "inner_product")
        self.assertEqual(names["LRN"], "lrn")
        self.assertEqual(names["HDF5Data"], "hdf5_data")
        self.assertEqual(names["Transformation"], "transform")
        for name in names.values():
            self.assertTrue(hasattr(caffe_pb2.LayerParameter(),
                                    name + "_param"))

    def test_assign_lists_dicts_and_single_values(self):
        layer = caffe_pb2.LayerParameter()
        assign = caffe.net_spec.assign_proto
        assign(layer, "loss_weight", 2)
        assign(layer, "param", [dict(name="w"), dict(lr_mult=0)])
        assign(layer, "dummy_data_param", dict(
            shape=(dict(dim=[1, 2]), dict(dim=3)),
            data_filler=dict(type="constant", value=4)))
        assign(layer, "include", caffe_pb2.NetStateRule(min_level=1))
        assign(layer, "propagate_down", [])
        expected = text_format.Parse("""
            loss_weight: 2 param { name: "w" } param { lr_mult: 0 }
            include { min_level: 1 }
            dummy_data_param { shape { dim: 1 dim: 2 } shape { dim: 3 }
              data_filler { type: "constant" value: 4 } }""",
                                     caffe_pb2.LayerParameter())
        self.assertEqual(layer, expected)

    def test_errors_name_what_is_wrong(self):
        pair = L.DummyData(ntop=2)
        with self.assertRaisesRegex(
                TypeError, r"^Silence input 0 is not a Top "
                r"\(type is <class 'tuple'>\)$"):
            L.Silence(pair, ntop=0)
        with self.assertRaisesRegex(AttributeError, "kernel_sise"):
            L.Pooling(pair[0], kernel_sise=2).to_proto()
        with self.assertRaisesRegex(AttributeError, "NoSuchParameter"):
            P.NoSuch.MAX
        with self.assertRaises(AttributeError):
            P.Pooling.MEDIAN

    def test_attributes_and_items_are_one(self):
        n = caffe.NetSpec()
        n.a = L.Input()
        n["b"] = L.ReLU(n["a"])
        self.assertIs(n.b, n["b"])
        self.assertEqual(list(n.tops), ["a", "b"])
        del n.b
        self.assertFalse(hasattr(n, "b"))
        del n["a"]
        self.assertEqual(len(n.to_proto().layer), 0)
        self.assertEqual(list(copy.copy(n).tops), [])

    def test_update_changes_a_layer(self):
        n = caffe.NetSpec()
        n.ip = L.InnerProduct(num_output=1, axis=2)
        n.update("ip", dict(num_output=7))
        param = n.to_proto().layer[0].inner_product_param
        self.assertEqual((param.num_output, param.axis), (7, 2))

    def test_deep_nets_are_no_deeper_for_python(self):
        top = L.Input()
        for _ in range(5000):
            top = L.ReLU(top)
        self.assertEqual(len(top.to_proto().layer), 5001)


if __name__ == "__main__":
    unittest.main()
