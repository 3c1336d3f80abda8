"""Caffe's messages: caffe_pb2 is generated from caffe.proto by the build."""
