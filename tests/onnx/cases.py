"""Small nets, one or a few for each layer type that can be exported.

CASES maps a name to the layers of a net whose inputs are `data` and what
INPUTS names besides; each is prototxt without the Input layers.
"""


def layer(kind, param='', bottom='data', top='out', name=None):
    bottoms = ''.join(' bottom: "%s"' % b for b in bottom.split())
    tops = ''.join(' top: "%s"' % t for t in top.split())
    return 'layer { name: "%s" type: "%s"%s%s %s }\n' % (
        name or 'layer', kind, bottoms, tops, param)


def conv(param, kind='Convolution', **more):
    return layer(kind, 'convolution_param { %s }' % param, **more)


def pool(param, **more):
    return layer('Pooling', 'pooling_param { %s }' % param, **more)


IMAGE = (2, 4, 9, 10)
SEQUENCE = {'data': (5, 3, 6), 'cont': (5, 3)}

INPUTS = {
    'batch_reindex': {'data': (4, 3), 'index': (3,)},
    'filter': {'data': (4, 3), 'cont': (4, 1)},
    'bias_two': {'data': IMAGE, 'more': (2, 4)},
    'scale_two': {'data': IMAGE, 'more': (2, 4)},
    'axpy': {'scale': (2, 4, 1, 1), 'data': IMAGE, 'more': IMAGE},
    'axpy_flat': {'scale': (2, 4), 'data': IMAGE, 'more': IMAGE},
    'eltwise_sum': {'data': IMAGE, 'more': IMAGE},
    'eltwise_coeff': {'data': IMAGE, 'more': IMAGE, 'third': IMAGE},
    'eltwise_prod': {'data': IMAGE, 'more': IMAGE},
    'eltwise_max': {'data': IMAGE, 'more': IMAGE, 'third': IMAGE},
    'concat': {'data': IMAGE, 'more': (2, 3, 9, 10)},
    'concat_last': {'data': IMAGE, 'more': (2, 4, 9, 2)},
    'crop': {'data': IMAGE, 'like': (2, 4, 5, 6)},
    'embed': {'words': (3, 5)},
    'embed_bare': {'words': (3, 5)},
    'lstm': SEQUENCE,
    'lstm_static': dict(SEQUENCE, fixed=(3, 2)),
    'lstm_exposed': dict(SEQUENCE, h0=(1, 3, 4), c0=(1, 3, 4)),
    'rnn': SEQUENCE,
    'lstm_unit': {'c': (1, 3, 4), 'data': (1, 3, 16), 'cont': (1, 3)},
    'roi_pooling': {'data': (1, 3, 40, 50), 'rois': (6, 5)},
    'roi_align': {'data': (1, 3, 40, 50), 'rois': (6, 5)},
    'roi_align_size': {'data': (1, 3, 40, 50), 'rois': (6, 5)},
    'matmul': {'data': (2, 3, 4, 5), 'more': (2, 3, 5, 6)},
    'matmul_turned': {'data': (2, 3, 5, 4), 'more': (2, 3, 6, 5)},
    'reorg': {'data': (2, 8, 6, 4)},
    'reorg_back': {'data': (2, 8, 6, 4)},
    'conv_1d': {'data': (2, 3, 20)},
    'conv_3d': {'data': (1, 2, 6, 7, 5)},
    'ip_flat': {'data': (3, 8)},
    'ip_axis': {'data': (2, 3, 8)},
    'deconv_fcn': {'data': (1, 3, 6, 7)},
    'prelu_flat': {'data': (3, 8)},
    'batch_norm_flat': {'data': (3, 8)},
    'upsample_mask': {'data': (1, 3, 8, 10)},
    'detection': {'data': (2, 4, 3, 4), 'image': (2, 3, 60, 80)},
    'detection_corner': {'data': (1, 4, 3, 4), 'image': (1, 3, 60, 80)},
    'detection_class': {'data': (1, 4, 3, 4), 'image': (1, 3, 60, 80)},
}

_NORM = (layer('BatchNorm', bottom='conv', top='conv', name='norm') +
         layer('Scale', 'scale_param { bias_term: true }', bottom='conv',
               top='conv', name='scale') +
         layer('ReLU', bottom='conv', top='conv', name='relu'))


def _ssd(code, share=True):
    """A detection head: one map, its priors, both predictions."""
    n = 4 if share else 12
    out = conv('num_output: %d kernel_size: 1' % (3 * n), top='loc0',
               name='loc0')
    out += conv('num_output: 9 kernel_size: 1', top='conf0', name='conf0')
    for name in 'loc', 'conf':
        out += layer('Permute', 'permute_param { order: 0 order: 2 order: 3 '
                     'order: 1 }', bottom=name + '0', top=name + '1',
                     name=name + '1')
    out += layer('Flatten', bottom='loc1', top='loc', name='loc')
    out += layer('Reshape', 'reshape_param { shape { dim: 0 dim: -1 dim: 3 } }',
                 bottom='conf1', top='conf2', name='conf2')
    out += layer('Softmax', 'softmax_param { axis: 2 }', bottom='conf2',
                 top='conf3', name='conf3')
    out += layer('Flatten', bottom='conf3', top='conf', name='conf')
    out += layer('PriorBox', 'prior_box_param { min_size: 20 aspect_ratio: 2 '
                 'flip: true variance: 0.1 variance: 0.1 variance: 0.2 '
                 'variance: 0.2 }', bottom='data image', top='prior',
                 name='prior')
    return out + layer(
        'DetectionOutput', 'detection_output_param { num_classes: 3 '
        'share_location: %s background_label_id: 0 nms_param { nms_threshold: '
        '0.45 top_k: 30 } code_type: %s keep_top_k: 15 confidence_threshold: '
        '0.2 }' % (str(share).lower(), code), bottom='loc conf prior')


CASES = {
    'conv': conv('num_output: 6 kernel_size: 3 pad: 1 stride: 2'),
    'conv_group': conv('num_output: 6 kernel_h: 3 kernel_w: 2 group: 2 '
                       'dilation: 2 pad_h: 2 pad_w: 1 bias_term: false'),
    'conv_shared': conv('num_output: 3 kernel_size: 3') +
                   conv('num_output: 3 kernel_size: 3', top='out2',
                        name='second'),
    'conv_depthwise': conv('kernel_size: 3 pad: 1', 'DepthwiseConvolution'),
    'conv_1d': conv('num_output: 4 kernel_size: 3 stride: 2'),
    'conv_3d': conv('num_output: 4 kernel_size: 3 pad: 1'),
    'conv_norm': conv('num_output: 6 kernel_size: 3', top='conv',
                      name='conv') + _NORM,
    'deconv': conv('num_output: 3 kernel_size: 4 stride: 2 pad: 1',
                   'Deconvolution'),
    'deconv_norm': conv('num_output: 4 kernel_size: 3 stride: 2 group: 2',
                        'Deconvolution', top='conv', name='conv') + _NORM,
    'deconv_fcn': conv('num_output: 3 group: 3 kernel_size: 4 stride: 2 '
                       'bias_term: false', 'Deconvolution'),
    'ip': layer('InnerProduct', 'inner_product_param { num_output: 5 }'),
    'ip_flat': layer('InnerProduct', 'inner_product_param { num_output: 5 '
                     'bias_term: false transpose: true }'),
    'ip_axis': layer('InnerProduct', 'inner_product_param { num_output: 5 '
                     'axis: 2 }'),
    'ip_norm': layer('InnerProduct', 'inner_product_param { num_output: 5 }',
                     top='conv', name='conv') + _NORM,
    'embed': layer('Embed', 'embed_param { num_output: 4 input_dim: 20 }',
                   bottom='words'),
    'embed_bare': layer('Embed', 'embed_param { num_output: 4 input_dim: 20 '
                        'bias_term: false }', bottom='words'),
    'pool_max': pool('pool: MAX kernel_size: 3 stride: 2'),
    'pool_max_pad': pool('pool: MAX kernel_size: 3 stride: 2 pad: 1'),
    'pool_max_drop': pool('pool: MAX kernel_size: 2 stride: 2 pad: 1'),
    'pool_max_floor': pool('pool: MAX kernel_size: 3 stride: 2 '
                           'round_mode: FLOOR'),
    'pool_ave': pool('pool: AVE kernel_size: 3 stride: 2'),
    'pool_ave_pad': pool('pool: AVE kernel_size: 3 stride: 1 pad: 1'),
    'pool_ave_reach': pool('pool: AVE kernel_size: 3 stride: 3 pad: 1'),
    'pool_ave_wide': pool('pool: AVE kernel_h: 4 kernel_w: 3 stride_h: 3 '
                          'stride_w: 2 pad_h: 1 pad_w: 1'),
    'pool_global': pool('pool: AVE global_pooling: true'),
    'pool_global_max': pool('pool: MAX global_pooling: true'),
    'pool_mask': pool('pool: MAX kernel_size: 2 stride: 2', top='out mask'),
    'upsample': layer('Upsample', 'upsample_param { scale: 2 }'),
    'upsample_pad': layer('Upsample', 'upsample_param { scale: 2 '
                          'pad_out_h: true }'),
    'upsample_mask': pool('pool: MAX kernel_size: 2 stride: 2',
                          top='pooled mask', name='pool') +
                     layer('Upsample', 'upsample_param { scale: 2 }',
                           bottom='pooled mask'),
    'spp': layer('SPP', 'spp_param { pyramid_height: 3 }'),
    'spp_ave': layer('SPP', 'spp_param { pyramid_height: 2 pool: AVE }'),
    'roi_pooling': layer('ROIPooling', 'roi_pooling_param { pooled_h: 4 '
                         'pooled_w: 3 spatial_scale: 0.5 }',
                         bottom='data rois'),
    'interp': layer('Interp', 'interp_param { height: 17 width: 25 }'),
    'interp_crop': layer('Interp', 'interp_param { zoom_factor: 2 '
                         'pad_beg: -1 pad_end: -2 }'),
    'interp_shrink': layer('Interp', 'interp_param { shrink_factor: 2 }'),
    'batch_norm': layer('BatchNorm'),
    'batch_norm_flat': layer('BatchNorm', top='conv', name='conv') +
                       layer('Scale', 'scale_param { bias_term: true }',
                             bottom='conv', top='conv', name='scale'),
    'scale': layer('Scale', 'scale_param { bias_term: true }'),
    'scale_map': layer('Scale', 'scale_param { axis: 2 num_axes: 2 }'),
    'scale_two': layer('Scale', 'scale_param { axis: 0 }', 'data more'),
    'bias': layer('Bias', ''),
    'bias_two': layer('Bias', 'bias_param { axis: 0 }', 'data more'),
    'lrn': layer('LRN', 'lrn_param { local_size: 3 alpha: 0.5 beta: 0.7 '
                 'k: 2 }'),
    'lrn_within': layer('LRN', 'lrn_param { local_size: 3 alpha: 0.5 '
                        'norm_region: WITHIN_CHANNEL }'),
    'mvn': layer('MVN'),
    'mvn_across': layer('MVN', 'mvn_param { across_channels: true }'),
    'mvn_mean': layer('MVN', 'mvn_param { normalize_variance: false }'),
    'normalize': layer('Normalize', 'norm_param { across_spatial: false '
                       'channel_shared: false }'),
    'normalize_all': layer('Normalize'),
    'relu': layer('ReLU', top='data'),
    'relu_leaky': layer('ReLU', 'relu_param { negative_slope: 0.1 }'),
    'relu6': layer('Power', 'power_param { scale: 5 }', top='v', name='v') +
             layer('ReLU6', bottom='v', top='v'),
    'prelu': layer('PReLU'),
    'prelu_shared': layer('PReLU', 'prelu_param { channel_shared: true }'),
    'prelu_flat': layer('PReLU'),
    'elu': layer('ELU', 'elu_param { alpha: 0.7 }'),
    'sigmoid': layer('Sigmoid'),
    'tanh': layer('TanH'),
    'abs': layer('AbsVal'),
    'bnll': layer('BNLL'),
    'clip': layer('Clip', 'clip_param { min: -0.5 max: 0.7 }'),
    'swish': layer('Swish'),
    'swish_beta': layer('Swish', 'swish_param { beta: 1.5 }'),
    'exp': layer('Exp'),
    'exp_base': layer('Exp', 'exp_param { base: 2 scale: 0.5 shift: 1 }'),
    'log': layer('Exp', name='exp', top='e') + layer('Log', bottom='e'),
    'log_base': layer('AbsVal', name='abs', top='e') +
                layer('Log', 'log_param { base: 10 scale: 2 shift: 1 }',
                      bottom='e'),
    'power': layer('Power', 'power_param { power: 2 scale: 0.5 shift: 1 }'),
    'power_linear': layer('Power', 'power_param { scale: 0.5 shift: 1 }'),
    'threshold': layer('Threshold', 'threshold_param { threshold: 0.2 }'),
    'dropout': layer('Dropout', bottom='data', top='kept', name='drop') +
               layer('ReLU', bottom='kept'),
    'eltwise_sum': layer('Eltwise', bottom='data more'),
    'eltwise_coeff': layer('Eltwise', 'eltwise_param { coeff: 1 coeff: -1 '
                           'coeff: 0.5 }', 'data more third'),
    'eltwise_prod': layer('Eltwise', 'eltwise_param { operation: PROD }',
                          'data more'),
    'eltwise_max': layer('Eltwise', 'eltwise_param { operation: MAX }',
                         'data more third'),
    'axpy': layer('Axpy', bottom='scale data more'),
    'axpy_flat': layer('Axpy', bottom='scale data more'),
    'softmax': layer('Softmax'),
    'softmax_last': layer('Softmax', 'softmax_param { axis: -1 }'),
    'concat': layer('Concat', bottom='data more'),
    'concat_last': layer('Concat', 'concat_param { axis: -1 }', 'data more'),
    'slice': layer('Slice', 'slice_param { slice_point: 1 }',
                   top='out out2'),
    'slice_equal': layer('Slice', 'slice_param { axis: 3 }', top='out out2'),
    'split': layer('Split', top='a b', name='split') +
             layer('ReLU', bottom='a', top='r', name='relu') +
             layer('Eltwise', bottom='r b'),
    'crop': layer('Crop', 'crop_param { axis: 2 offset: 2 offset: 3 }',
                  'data like'),
    'reshape': layer('Reshape', 'reshape_param { shape { dim: 0 dim: 2 '
                     'dim: -1 } }'),
    'flatten': layer('Flatten'),
    'flatten_some': layer('Flatten', 'flatten_param { axis: 1 end_axis: 2 }'),
    'permute': layer('Permute', 'permute_param { order: 0 order: 2 order: 3 '
                     'order: 1 }'),
    'tile': layer('Tile', 'tile_param { axis: 2 tiles: 3 }'),
    'shuffle': layer('ShuffleChannel', 'shuffle_channel_param { group: 2 }'),
    'batch_reindex': layer('BatchReindex', bottom='data index'),
    'filter': layer('Filter', bottom='data cont'),
    'reduce_sum': layer('Reduction', 'reduction_param { axis: 1 '
                        'coeff: 0.5 }'),
    'reduce_asum': layer('Reduction', 'reduction_param { axis: 2 operation: '
                         'ASUM }'),
    'reduce_sumsq': layer('Reduction', 'reduction_param { axis: 3 operation: '
                          'SUMSQ }'),
    'reduce_mean': layer('Reduction', 'reduction_param { axis: 2 operation: '
                         'MEAN }'),
    'argmax': layer('ArgMax', 'argmax_param { axis: 1 }'),
    'argmax_values': layer('ArgMax', 'argmax_param { axis: 1 top_k: 2 '
                           'out_max_val: true }'),
    'argmax_item': layer('ArgMax', 'argmax_param { top_k: 3 }'),
    'argmax_both': layer('ArgMax', 'argmax_param { top_k: 3 '
                         'out_max_val: true }'),
    'lstm': layer('LSTM', 'recurrent_param { num_output: 4 }', 'data cont'),
    'lstm_static': layer('LSTM', 'recurrent_param { num_output: 4 }',
                         'data cont fixed'),
    'lstm_exposed': layer('LSTM', 'recurrent_param { num_output: 4 '
                          'expose_hidden: true }', 'data cont h0 c0',
                          'out h c_last'),
    'rnn': layer('RNN', 'recurrent_param { num_output: 4 }', 'data cont'),
    'lstm_unit': layer('LSTMUnit', '', 'c data cont', 'c_next out'),
    'detection': _ssd('CENTER_SIZE'),
    'detection_corner': _ssd('CORNER'),
    'detection_class': _ssd('CORNER_SIZE', False),
    'bn': layer('BN', 'bn_param { momentum: 0.9 }'),
    'bn_line': layer('BN', 'bn_param { bn_mode: INFERENCE }'),
    'group_norm': layer('GroupNorm', 'group_norm_param { group_num: 2 }'),
    'matmul': layer('MatMul', bottom='data more'),
    'matmul_turned': layer('MatMul', 'matmul_param { transpose_a: true '
                           'transpose_b: true }', 'data more'),
    'mish': layer('Mish'),
    'pad': layer('Pad', 'pad_param { pad_h: 1 pad_w: 2 '
                 'constant_values: 0.5 }'),
    'pad_axes': layer('Pad', 'pad_param { paddings: 0 paddings: 0 '
                      'paddings: 0 paddings: 1 paddings: 2 paddings: 0 '
                      'paddings: 3 paddings: 1 }'),
    'pad_edge': layer('Pad', 'pad_param { type: REPLICATE pad: 2 }'),
    'pad_reflect': layer('Pad', 'pad_param { type: REFLECT pad: 2 }'),
    'pad_mirror': layer('Pad', 'pad_param { type: REFLECT_101 pad: 2 }'),
    'reorg': layer('Reorg', 'reorg_param { stride: 2 }'),
    'reorg_back': layer('Reorg', 'reorg_param { stride: 2 reverse: true }'),
    'roi_align': layer('ROIAlign', 'roi_align_param { pooled_h: 4 pooled_w: '
                       '3 spatial_scale: 0.5 sampling_ratio: 2 }',
                       bottom='data rois'),
    'roi_align_size': layer('ROIAlign', 'roi_align_param { pooled_h: 3 '
                            'pooled_w: 3 spatial_scale: 0.25 roi_end_mode: 1 '
                            '}', bottom='data rois'),
    'loss': layer('InnerProduct', 'inner_product_param { num_output: 5 }',
                  top='out', name='ip') +
            layer('Silence', bottom='label', top='', name='quiet'),
}
INPUTS['loss'] = {'data': (2, 4), 'label': (2,)}

# What OpenCV 4.6 cannot read for another reason than an operator: inputs of
# three axes, broadcasting over the first axes or by a map.
OPENCV_LACKS = {'bias_two', 'conv_1d', 'ip_axis', 'mvn', 'mvn_across',
                'mvn_mean', 'scale_map'}

# What needs a batch size.
FIXED_BATCH = {'lstm', 'lstm_exposed', 'lstm_static', 'lstm_unit', 'rnn',
               'upsample_mask'}


def prototxt(case):
    inputs = INPUTS.get(case, {'data': IMAGE})
    text = 'name: "%s"\n' % case
    for name, shape in inputs.items():
        text += ('layer { name: "%s" type: "Input" top: "%s" input_param { '
                 'shape {%s } } }\n' % (name, name, ''.join(
                     ' dim: %d' % d for d in shape)))
    return text + CASES[case]
