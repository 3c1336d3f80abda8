"""Published detectors, segmenters, face and sequence nets; see
architectures.py."""

from architectures import Net


def fast_rcnn():
    """CaffeNet with ROIPooling."""
    n = Net('Fast R-CNN CaffeNet', (1, 3, 160, 160))
    n.input('rois', (8, 5))
    n.cr(96, 11, 4, 5), n.max(3, 2, 1), n.lrn()
    n.cr(256, 5, 1, 2, g=2), n.max(3, 2, 1), n.lrn()
    n.cr(384), n.cr(384, g=2), n.cr(256, g=2)
    n.add('ROIPooling', 'roi_pooling_param { pooled_w: 6 pooled_h: 6 '
          'spatial_scale: 0.0625 }', bottom=[n.top, 'rois'])
    n.ip(512), n.relu(), n.drop()
    x = n.ip(512)
    n.relu(), n.drop()
    n.ip(84, bottom=x), n.ip(21, bottom=x)
    return n.end()


def rpn():
    n = Net('Faster R-CNN RPN ZF', (1, 3, 224, 224))
    n.cr(96, 7, 2, 3), n.lrn(3), n.max(3, 2, 1)
    n.cr(256, 5, 2, 2), n.lrn(3), n.max(3, 2, 1)
    n.cr(384), n.cr(384), n.cr(256)
    x = n.cr(256)
    n.conv(36, 1, bottom=x), n.conv(18, 1, bottom=x)
    n.add('Reshape', 'reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } '
          '}'), n.add('Softmax')
    n.add('Reshape', 'reshape_param { shape { dim: 0 dim: 18 dim: -1 dim: 0 } '
          '}')
    return n.text


def mobilenet_ssd():
    n = Net('MobileNet-SSD', (1, 3, 300, 300))
    n.cnr(32, 3, 2)
    before, maps = 32, []
    for i, (width, s) in enumerate(((64, 1), (128, 2), (128, 1), (256, 2),
                                    (256, 1), (512, 2), (512, 1), (512, 1),
                                    (512, 1), (512, 1), (512, 1), (1024, 2),
                                    (1024, 1))):
        n.cnr(before, 3, s, g=before), n.cnr(width, 1)
        before = width
        if i in (10, 12):
            maps.append(n.top)
    for middle, width in (256, 512), (128, 256), (128, 256), (64, 128):
        n.cnr(middle, 1)
        maps.append(n.cnr(width, 3, 2))
    parts = {'loc': [], 'conf': [], 'prior': []}
    for i, x in enumerate(maps):
        boxes = 3 if i == 0 else 6
        for kind, per in ('loc', 4), ('conf', 21):
            n.conv(boxes * per, 1, bottom=x)
            n.add('Permute', 'permute_param { order: 0 order: 2 order: 3 '
                  'order: 1 }')
            parts[kind].append(n.add('Flatten'))
        largest = '' if i == 0 else 'max_size: %d' % (105 + 45 * i)
        parts['prior'].append(n.add(
            'PriorBox', 'prior_box_param { min_size: %d %s aspect_ratio: 2 %s '
            'flip: true clip: false variance: 0.1 variance: 0.1 variance: 0.2 '
            'variance: 0.2 offset: 0.5 }' % (
                60 + 45 * i, largest, '' if i == 0 else 'aspect_ratio: 3'),
            bottom=[x, 'data']))
    loc, conf = n.cat(*parts['loc']), n.cat(*parts['conf'])
    prior = n.add('Concat', 'concat_param { axis: 2 }', bottom=parts['prior'])
    n.add('Reshape', 'reshape_param { shape { dim: 0 dim: -1 dim: 21 } }',
          bottom=conf)
    n.add('Softmax', 'softmax_param { axis: 2 }')
    n.add('DetectionOutput', 'detection_output_param { num_classes: 21 '
          'nms_param { nms_threshold: 0.45 top_k: 100 } code_type: '
          'CENTER_SIZE keep_top_k: 100 confidence_threshold: 0.1 }',
          bottom=[loc, n.add('Flatten'), prior])
    return n.text


def yolo_v2_tiny():
    n = Net('Tiny YOLO v2', (1, 3, 416, 416))
    for i, width in enumerate((16, 32, 64, 128, 256, 512)):
        n.conv(width, bias=False), n.norm(), n.relu(.1)
        n.max(2, 2) if i < 5 else None
    for _ in range(2):
        n.conv(1024, bias=False), n.norm(), n.relu(.1)
    n.conv(125, 1)
    return n.text


def yolo_v2():
    """Darknet-19, with finer positions as channels (Reorg)."""
    n = Net('YOLO v2', (1, 3, 160, 160))

    def c(width, k=3, bottom=None):
        n.conv(width, k, bias=False, bottom=bottom), n.norm(), n.relu(.1)
        return n.top

    c(32), n.max(2, 2)
    c(64), n.max(2, 2)
    c(128), c(64, 1), c(128), n.max(2, 2)
    c(256), c(128, 1), c(256), n.max(2, 2)
    fine = [c(512), c(256, 1), c(512), c(256, 1), c(512)][-1]
    n.max(2, 2, bottom=fine)
    c(1024), c(512, 1), c(1024), c(512, 1), c(1024)
    coarse = [c(1024), c(1024)][-1]
    c(64, 1, bottom=fine)
    fine = n.add('Reorg', 'reorg_param { stride: 2 }')
    n.cat(fine, coarse)
    c(1024), n.conv(425, 1)
    return n.text


def yolo_v4():
    """CSPDarknet-53, which has Mish, and spatial pyramid pooling."""
    n = Net('YOLO v4 backbone', (1, 3, 128, 128))

    def c(width, k=3, s=1, bottom=None):
        n.conv(width, k, s, bias=False, bottom=bottom), n.norm()
        return n.add('Mish')

    c(32)
    for i, depth in enumerate((1, 2, 8, 8, 4)):
        width = 64 << i
        x = c(width, 3, 2)
        half = width if i == 0 else width // 2
        left, y = c(half, 1, bottom=x), c(half, 1, bottom=x)
        for _ in range(depth):
            c(width // 2, 1, bottom=y)
            y = n.sum(y, c(half))
        n.cat(c(half, 1, bottom=y), left)
        c(width, 1)
    x = c(512, 1)
    parts = [n.max(k, 1, k // 2, bottom=x) for k in (13, 9, 5)]
    n.cat(*parts, x)
    c(512, 1), n.conv(255, 1)
    return n.text


def mask_rcnn_head():
    """A feature map, ROIAlign, and the mask branch."""
    n = Net('Mask R-CNN mask head', (1, 3, 128, 128))
    n.input('rois', (6, 5))
    n.cnr(64, 7, 2), n.max(3, 2, 1), n.cnr(256), n.cnr(256)
    n.add('ROIAlign', 'roi_align_param { pooled_h: 14 pooled_w: 14 '
          'spatial_scale: 0.25 sampling_ratio: 2 }', bottom=[n.top, 'rois'])
    for _ in range(4):
        n.cr(256)
    n.add('Deconvolution', 'convolution_param { num_output: 256 '
          'kernel_size: 2 stride: 2 }'), n.relu()
    n.conv(81, 1)
    n.add('Sigmoid')
    return n.text


def yolo_v3():
    """Darknet-53 and its three heads."""
    n = Net('YOLO v3', (1, 3, 128, 128))

    def c(width, k=3, s=1, bottom=None):
        n.conv(width, k, s, bias=False, bottom=bottom), n.norm(), n.relu(.1)
        return n.top

    c(32)
    kept = []
    for i, depth in enumerate((1, 2, 8, 8, 4)):
        c(64 << i, 3, 2)
        for _ in range(depth):
            x = n.top
            c(32 << i, 1), c(64 << i)
            n.sum(x, n.top)
        kept.append(n.top)
    for i, width in enumerate((512, 256, 128)):
        for _ in range(2):
            c(width, 1), c(2 * width)
        x = c(width, 1)
        c(2 * width), n.conv(255, 1)
        if i < 2:
            c(width // 2, 1, bottom=x)
            n.cat(n.add('Upsample', 'upsample_param { scale: 2 }'),
                  kept[3 - i])
    return n.text


def fcn32s():
    n = Net('FCN-32s', (1, 3, 64, 80))
    for i, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3),
                                        (512, 3))):
        for j in range(depth):
            n.cr(width, 3, 1, 100 if i == 0 and j == 0 else 1)
        n.max()
    n.cr(256, 7, 1, 0), n.drop(), n.cr(256, 1), n.drop(), n.conv(21, 1)
    n.conv(21, 64, 32, 0, bias=False, kind='Deconvolution')
    n.add('Crop', 'crop_param { axis: 2 offset: 19 }', bottom=[n.top, 'data'])
    return n.text


def deeplab_largefov():
    n = Net('DeepLab-LargeFOV', (1, 3, 129, 129))
    for i, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3),
                                        (512, 3))):
        for _ in range(depth):
            n.cr(width, d=2 if i == 4 else 1)
        n.max(3, 2 if i < 3 else 1, 1)
    n.ave(3, 1, 1)
    n.cr(256, d=12), n.drop(), n.cr(256, 1), n.drop(), n.conv(21, 1)
    n.add('Interp', 'interp_param { zoom_factor: 8 }')
    return n.text


def deeplab_v2():
    """ASPP on a dilated ResNet-50."""
    n = Net('DeepLab v2 ASPP', (1, 3, 97, 97))
    n.cnr(64, 7, 2, 3), n.max(3, 2)
    for i, depth in enumerate((3, 4, 6, 3)):
        for j in range(depth):
            x, width = n.top, 64 << i
            s, d = (2 if i == 1 and not j else 1), (1, 1, 2, 4)[i]
            left = n.cnr(4 * width, 1, s, act=None, bottom=x) \
                if not j else x
            n.cnr(width, 1, s, bottom=x), n.cnr(width, d=d)
            n.sum(left, n.cnr(4 * width, 1, act=None))
            n.relu()
    x = n.top
    n.sum(*[n.conv(21, d=d, bottom=x) for d in (6, 12, 18, 24)])
    n.add('Interp', 'interp_param { height: 97 width: 97 }')
    return n.text


def pspnet():
    """Pyramid pooling on a dilated ResNet."""
    n = Net('PSPNet', (1, 3, 97, 97))
    n.cnr(64, 3, 2), n.cnr(64), n.cnr(128), n.max(3, 2, 1)
    for i, depth in enumerate((3, 4, 6, 3)):
        for j in range(depth):
            x, width = n.top, 64 << i
            s, d = (2 if i == 1 and not j else 1), (1, 1, 2, 4)[i]
            left = n.cnr(4 * width, 1, s, act=None, bottom=x) \
                if not j else x
            n.cnr(width, 1, bottom=x), n.cnr(width, 3, s, d=d)
            n.sum(left, n.cnr(4 * width, 1, act=None))
            n.relu()
    x, parts = n.top, [n.top]
    for k, s in (13, 13), (7, 6), (5, 4), (3, 2):
        n.ave(k, s, bottom=x), n.cnr(512, 1)
        parts.append(n.add('Interp', 'interp_param { height: 13 width: 13 }'))
    n.cat(*parts)
    n.cnr(128), n.drop(), n.conv(21, 1)
    n.add('Interp', 'interp_param { zoom_factor: 8 }')
    return n.text


def segnet():
    n = Net('SegNet', (1, 3, 32, 32))
    masks = []
    shape = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    for width, depth in shape:
        for _ in range(depth):
            n.conv(width), n.norm(), n.relu()
        x, mask = n.add('Pooling', 'pooling_param { pool: MAX kernel_size: 2 '
                        'stride: 2 }', tops=2)
        masks.append(mask)
    for i in range(4, -1, -1):
        n.add('Upsample', 'upsample_param { scale: 2 }',
              bottom=[n.top, masks[i]])
        width, depth = shape[i]
        for j in range(depth):
            last = j == depth - 1
            n.conv(shape[i - 1][0] if last and i else 11 if last else width)
            if i or not last:
                n.norm(), n.relu()
    return n.end()


def unet():
    n = Net('U-Net', (1, 1, 96, 96))
    kept = []
    for i in range(5):
        n.cr(64 << min(i, 3))
        x = n.cr(64 << min(i, 3))
        if i < 4:
            kept.append(x)
            n.max()
    for i in range(3, -1, -1):
        n.conv(64 << i, 2, 2, 0, kind='Deconvolution')
        n.cat(kept[i], n.relu())
        n.cr(64 << i), n.cr(64 << i)
    n.conv(2, 1)
    return n.end()


def hed():
    n = Net('HED', (1, 3, 64, 80))
    sides = []
    for i, (width, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3),
                                        (512, 3))):
        for j in range(depth):
            n.cr(width, 3, 1, 35 if i == 0 and j == 0 else 1)
        x = n.top
        side = n.conv(1, 1, bottom=x)
        if i:
            side = n.conv(1, 2 << i, 1 << i, 0, bias=False,
                          kind='Deconvolution')
        sides.append(n.add('Crop', 'crop_param { axis: 2 offset: 34 }',
                           bottom=[side, 'data']))
        if i < 4:
            n.max(bottom=x)
    n.cat(*sides)
    n.conv(1, 1)
    n.add('Sigmoid')
    return n.text


def _mtcnn(name, size, layers, fully):
    n = Net(name, (2, 3, size, size))
    for width, k, pool in layers:
        n.conv(width, k, 1, 0), n.add('PReLU', top='same')
        if pool:
            n.max(*pool)
    if fully:
        n.ip(fully), n.add('PReLU', top='same')
        x = n.top
        n.ip(4, bottom=x), n.ip(2, bottom=x)
    else:
        x = n.top
        n.conv(4, 1, bottom=x), n.conv(2, 1, bottom=x)
    return n.end()


def mtcnn_p():
    return _mtcnn('MTCNN P-Net', 48, ((10, 3, (2, 2)), (16, 3, None),
                                      (32, 3, None)), 0)


def mtcnn_r():
    return _mtcnn('MTCNN R-Net', 24, ((28, 3, (3, 2)), (48, 3, (3, 2)),
                                      (64, 2, None)), 128)


def mtcnn_o():
    return _mtcnn('MTCNN O-Net', 48, ((32, 3, (3, 2)), (64, 3, (3, 2)),
                                      (64, 3, (2, 2)), (128, 2, None)), 256)


def sphereface20():
    n = Net('SphereFace-20', (1, 3, 112, 96))
    for width, depth in (64, 1), (128, 2), (256, 4), (512, 1):
        n.conv(width, 3, 2), n.add('PReLU', top='same')
        for _ in range(depth):
            x = n.top
            for _ in range(2):
                n.conv(width), n.add('PReLU', top='same')
            n.sum(x, n.top)
    n.ip(512)
    return n.text


def openpose():
    n = Net('OpenPose COCO', (1, 3, 64, 64))
    n.cr(64), n.cr(64), n.max(), n.cr(128), n.cr(128), n.max()
    for _ in range(4):
        n.cr(256)
    n.max(), n.cr(512), n.cr(512), n.cr(256)
    features = n.cr(128)
    x = features
    for stage in range(3):
        ends = []
        for width in 38, 19:
            n.top = x
            for _ in range(3 if stage == 0 else 5):
                n.cr(128, 3 if stage == 0 else 7)
            n.cr(512 if stage == 0 else 128, 1)
            ends.append(n.conv(width, 1))
        x = n.cat(*ends, features)
    return n.text


def colorization():
    n = Net('Colorization', (1, 1, 64, 64))
    for widths, s, d in (((64, 64), 2, 1), ((128, 128), 2, 1),
                         ((256, 256, 256), 2, 1), ((512, 512, 512), 1, 1),
                         ((512, 512, 512), 1, 2), ((512, 512, 512), 1, 2),
                         ((512, 512, 512), 1, 1)):
        for i, width in enumerate(widths):
            last = i == len(widths) - 1
            n.cr(width, 3, s if last else 1, d=d)
        n.norm()
    n.conv(256, 4, 2, 1, kind='Deconvolution'), n.relu()
    n.cr(256), n.cr(256)
    n.conv(313, 1)
    n.add('Power', 'power_param { scale: 2.606 }')
    n.add('Softmax')
    n.conv(2, 1)
    return n.text


def lrcn():
    """Captions: an embedding and two LSTMs over a picture's features."""
    n = Net('LRCN', (6, 2), 'words')
    n.input('cont', (6, 2)), n.input('features', (2, 100))
    n.add('Embed', 'embed_param { input_dim: 20 num_output: 64 bias_term: '
          'false }', bottom='words')
    n.add('LSTM', 'recurrent_param { num_output: 64 }', bottom=[n.top, 'cont'])
    n.add('LSTM', 'recurrent_param { num_output: 64 }',
          bottom=[n.top, 'cont', 'features'])
    n.add('InnerProduct', 'inner_product_param { num_output: 20 axis: 2 }')
    n.add('Softmax', 'softmax_param { axis: 2 }')
    return n.text


def srcnn():
    n = Net('SRCNN', (1, 1, 48, 64))
    n.cr(64, 9), n.cr(32, 5), n.conv(1, 5)
    return n.text


def fsrcnn():
    n = Net('FSRCNN', (1, 1, 32, 40))
    for width, k in ((56, 5), (12, 1), (12, 3), (12, 3), (12, 3), (12, 3),
                     (56, 1)):
        n.conv(width, k), n.add('PReLU', top='same')
    n.conv(1, 9, 3, 4, kind='Deconvolution')
    return n.text


def spp_net():
    n = Net('SPP-net', (1, 3, 180, 180))
    n.cr(96, 7, 2, 1), n.max(3, 2), n.lrn()
    n.cr(256, 5, 2, 1), n.max(3, 2), n.lrn()
    n.cr(384), n.cr(384), n.cr(256)
    n.add('SPP', 'spp_param { pyramid_height: 3 }')
    n.ip(256), n.relu(), n.drop(), n.ip(100)
    return n.end()


def flownet_s():
    n = Net('FlowNetS', (1, 6, 128, 192))

    def c(width, k, s, bottom=None):
        n.conv(width, k, s, bottom=bottom)
        return n.relu(.1)

    c(64, 7, 2)
    kept = [c(128, 5, 2), c(256, 5, 2) and c(256, 3, 1)]
    for width in 512, 512:
        c(width, 3, 2)
        kept.append(c(width, 3, 1))
    c(1024, 3, 2)
    x = c(1024, 3, 1)
    for width, skip in zip((512, 256, 128, 64), reversed(kept)):
        flow = n.conv(2, bottom=x)
        up = n.conv(2, 4, 2, 1, bottom=flow, kind='Deconvolution')
        n.conv(width, 4, 2, 1, bottom=x, kind='Deconvolution')
        x = n.cat(skip, n.relu(.1), up)
    n.conv(2)
    return n.text
