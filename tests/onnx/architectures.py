"""Published architectures besides those of models/, as prototxt.

Written from their papers and public definitions, at the published depth and
width.  Inputs are as small as the net allows where the published size would
only cost time; classifiers have few classes.
"""


class Net:
    def __init__(self, name, shape, data='data'):
        self.text = 'name: "%s"\n' % name
        self.n = 0
        self.top = self.input(data, shape)
        self.channels = {data: shape[1] if len(shape) > 1 else shape[0]}

    def input(self, name, shape):
        self.text += ('layer { name: "%s" type: "Input" top: "%s" input_param '
                      '{ shape {%s } } }\n' % (name, name, ''.join(
                          ' dim: %d' % d for d in shape)))
        return name

    def add(self, kind, param='', bottom=None, top=None, tops=1):
        self.n += 1
        name = '%s%d' % (kind.lower(), self.n)
        bottoms = bottom or self.top
        bottoms = [bottoms] if isinstance(bottoms, str) else bottoms
        names = [name] if tops == 1 else ['%s_%d' % (name, i)
                                          for i in range(tops)]
        if top == 'same':
            names = bottoms[:1]
        self.text += 'layer { name: "%s" type: "%s"%s%s %s }\n' % (
            name, kind, ''.join(' bottom: "%s"' % b for b in bottoms),
            ''.join(' top: "%s"' % t for t in names), param)
        self.top = names[0]
        return names[0] if tops == 1 else names

    def conv(self, n, k=3, s=1, p=None, g=1, d=1, bias=True, bottom=None,
             kind='Convolution'):
        kh, kw = (k, k) if isinstance(k, int) else k
        ph, pw = (p, p) if isinstance(p, int) else p if p is not None else (
            d * (kh - 1) // 2, d * (kw - 1) // 2)
        return self.add(kind, 'convolution_param { num_output: %d kernel_h: '
                        '%d kernel_w: %d stride: %d pad_h: %d pad_w: %d '
                        'group: %d dilation: %d bias_term: %s }' % (
                            n, kh, kw, s, ph, pw, g, d, str(bias).lower()),
                        bottom)

    def relu(self, slope=0.):
        return self.add('ReLU', 'relu_param { negative_slope: %g }' % slope
                        if slope else '', top='same')

    def act(self, kind='ReLU'):
        return self.add(kind, top='same')

    def norm(self):
        self.add('BatchNorm', top='same')
        return self.add('Scale', 'scale_param { bias_term: true }',
                        top='same')

    def cnr(self, n, k=3, s=1, p=None, act='ReLU', **more):
        """Convolution, normalisation, activation."""
        self.conv(n, k, s, p, bias=False, **more)
        self.norm()
        return self.act(act) if act else self.top

    def cr(self, n, k=3, s=1, p=None, **more):
        self.conv(n, k, s, p, **more)
        return self.relu()

    def max(self, k=2, s=2, p=0, bottom=None):
        return self.add('Pooling', 'pooling_param { pool: MAX kernel_size: %d '
                        'stride: %d pad: %d }' % (k, s, p), bottom)

    def ave(self, k=2, s=2, p=0, bottom=None):
        return self.add('Pooling', 'pooling_param { pool: AVE kernel_size: %d '
                        'stride: %d pad: %d }' % (k, s, p), bottom)

    def everything(self, bottom=None):
        return self.add('Pooling', 'pooling_param { pool: AVE global_pooling: '
                        'true }', bottom)

    def ip(self, n, bottom=None):
        return self.add('InnerProduct', 'inner_product_param { num_output: %d '
                        '}' % n, bottom)

    def sum(self, *bottoms):
        return self.add('Eltwise', bottom=list(bottoms))

    def cat(self, *bottoms):
        return self.add('Concat', bottom=list(bottoms))

    def lrn(self, n=5):
        return self.add('LRN', 'lrn_param { local_size: %d alpha: 0.0001 '
                        'beta: 0.75 }' % n)

    def drop(self):
        return self.add('Dropout', top='same')

    def end(self):
        self.add('Softmax')
        return self.text


def zfnet():
    n = Net('ZFNet', (1, 3, 224, 224))
    n.cr(96, 7, 2, 1), n.max(3, 2), n.lrn()
    n.cr(256, 5, 2, 0), n.max(3, 2), n.lrn()
    n.cr(384), n.cr(384), n.cr(256), n.max(3, 2)
    for _ in range(2):
        n.ip(1024), n.relu(), n.drop()
    n.ip(100)
    return n.end()


def _vgg_cnn(name, first, widths):
    n = Net(name, (1, 3, 224, 224))
    n.cr(*first), n.lrn(), n.max(3 if name.endswith('S') else 2,
                                 3 if name.endswith('S') else 2)
    for i, w in enumerate(widths):
        n.cr(w, 5 if i == 0 else 3, 2 if name.endswith('M') and i == 0 else 1,
             1)
        if i in (0, len(widths) - 1):
            n.max(3 if name.endswith('S') and i else 2,
                  3 if name.endswith('S') and i else 2)
    for _ in range(2):
        n.ip(512), n.relu(), n.drop()
    n.ip(100)
    return n.end()


def vgg_cnn_f():
    return _vgg_cnn('VGG_CNN_F', (64, 11, 4, 0), (256, 256, 256, 256))


def vgg_cnn_m():
    return _vgg_cnn('VGG_CNN_M', (96, 7, 2, 0), (256, 512, 512, 512))


def vgg_cnn_s():
    return _vgg_cnn('VGG_CNN_S', (96, 7, 2, 0), (256, 512, 512, 512))


def _vgg(name, depths):
    n = Net(name, (1, 3, 96, 96))
    for width, depth in zip((64, 128, 256, 512, 512), depths):
        for _ in range(depth):
            n.cr(width)
        n.max()
    n.ip(512), n.relu(), n.drop(), n.ip(100)
    return n.end()


def vgg11():
    return _vgg('VGG-11', (1, 1, 2, 2, 2))


def vgg13():
    return _vgg('VGG-13', (2, 2, 2, 2, 2))


def nin():
    n = Net('NIN', (1, 3, 224, 224))
    for width, k, s, p in (96, 11, 4, 0), (256, 5, 1, 2), (384, 3, 1, 1):
        n.cr(width, k, s, p), n.cr(width, 1), n.cr(width, 1)
        n.max(3, 2)
    n.drop(), n.cr(1024), n.cr(1024, 1), n.cr(100, 1)
    n.everything()
    return n.end()


def nin_cifar():
    n = Net('NIN-CIFAR10', (2, 3, 32, 32))
    n.cr(192, 5), n.cr(160, 1), n.cr(96, 1), n.max(3, 2), n.drop()
    n.cr(192, 5), n.cr(192, 1), n.cr(192, 1), n.ave(3, 2), n.drop()
    n.cr(192), n.cr(192, 1), n.cr(10, 1), n.ave(8, 1)
    return n.end()


def squeezenet_v10():
    n = Net('SqueezeNet v1.0', (1, 3, 227, 227))
    n.cr(96, 7, 2, 0), n.max(3, 2)
    for i, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        x = n.cr(squeeze, 1)
        n.cat(n.cr(4 * squeeze, 1, bottom=x), n.cr(4 * squeeze, bottom=x))
        if i in (2, 6):
            n.max(3, 2)
    n.drop(), n.cr(100, 1), n.everything()
    return n.end()


def _resnet_basic(name, depths):
    n = Net(name, (1, 3, 112, 112))
    n.cnr(64, 7, 2, 3), n.max(3, 2)
    for i, depth in enumerate(depths):
        for j in range(depth):
            x, s, width = n.top, 2 if i and not j else 1, 64 << i
            left = n.cnr(width, 1, s, act=None, bottom=x) \
                if s == 2 else x
            n.cnr(width, 3, s, bottom=x)
            n.sum(left, n.cnr(width, act=None))
            n.relu()
    n.everything(), n.ip(100)
    return n.end()


def resnet18():
    return _resnet_basic('ResNet-18', (2, 2, 2, 2))


def resnet34():
    return _resnet_basic('ResNet-34', (3, 4, 6, 3))


def _se(n, x, width, middle):
    """Squeeze and excitation: one factor a channel."""
    n.everything(x)
    n.conv(middle, 1), n.relu(), n.conv(width, 1)
    return n.add('Sigmoid', top='same')


def resnext50():
    n = Net('ResNeXt-50 32x4d', (1, 3, 96, 96))
    n.cnr(64, 7, 2, 3), n.max(3, 2)
    for i, depth in enumerate((3, 4, 6, 3)):
        for j in range(depth):
            x, s, width = n.top, 2 if i and not j else 1, 128 << i
            left = n.cnr(2 * width, 1, s, act=None, bottom=x) \
                if not j else x
            n.cnr(width, 1, bottom=x), n.cnr(width, 3, s, g=32)
            n.sum(left, n.cnr(2 * width, 1, act=None))
            n.relu()
    n.everything(), n.ip(100)
    return n.end()


def resnet50_gn():
    """ResNet-50 with GroupNorm of 32 groups."""
    n = Net('ResNet-50 GN', (1, 3, 64, 64))

    def c(width, k=3, s=1, bottom=None):
        n.conv(width, k, s, bias=False, bottom=bottom)
        n.add('GroupNorm', 'group_norm_param { group_num: 32 }', top='same')
        return n.add('Scale', 'scale_param { bias_term: true }', top='same')

    c(64, 7, 2), n.relu(), n.max(3, 2)
    for i, depth in enumerate((3, 4, 6, 3)):
        for j in range(depth):
            x, width, s = n.top, 64 << i, 2 if i and not j else 1
            left = c(4 * width, 1, s, bottom=x) if not j else x
            c(width, 1, bottom=x), n.relu(), c(width, 3, s), n.relu()
            n.sum(left, c(4 * width, 1))
            n.relu()
    n.everything(), n.ip(100)
    return n.end()


def se_resnet50():
    n = Net('SE-ResNet-50', (1, 3, 96, 96))
    n.cnr(64, 7, 2, 3), n.max(3, 2)
    for i, depth in enumerate((3, 4, 6, 3)):
        for j in range(depth):
            x, s, width = n.top, 2 if i and not j else 1, 64 << i
            left = n.cnr(4 * width, 1, s, act=None, bottom=x) \
                if not j else x
            n.cnr(width, 1, s, bottom=x), n.cnr(width)
            y = n.cnr(4 * width, 1, act=None)
            n.add('Axpy', bottom=[_se(n, y, 4 * width, width // 4), y, left])
            n.relu()
    n.everything(), n.ip(100)
    return n.end()


def preact_resnet():
    n = Net('Pre-activation ResNet-56', (2, 3, 32, 32))
    n.conv(16)
    for i in range(3):
        for j in range(9):
            x, s, width = n.top, 2 if i and not j else 1, 16 << i
            n.add('BatchNorm'), n.add('Scale', 'scale_param { bias_term: true '
                                      '}', top='same'), n.relu()
            y = n.top
            left = n.conv(width, 1, s, bias=False, bottom=y) if s == 2 else x
            n.cnr(width, 3, s, bottom=y)
            n.sum(left, n.conv(width, bias=False))
    n.norm(), n.relu(), n.everything(), n.ip(10)
    return n.end()


def wide_resnet():
    n = Net('Wide ResNet-16-4', (2, 3, 32, 32))
    n.cnr(16)
    for i in range(3):
        for j in range(2):
            x, s, width = n.top, 2 if i and not j else 1, 64 << i
            left = n.conv(width, 1, s, bottom=x) if not j else x
            n.cnr(width, 3, s, bottom=x), n.drop()
            n.sum(left, n.cnr(width, act=None))
            n.relu()
    n.everything(), n.ip(10)
    return n.end()


def densenet169():
    n = Net('DenseNet-169', (1, 3, 64, 64))

    def bnr():
        n.add('BatchNorm')
        n.add('Scale', 'scale_param { bias_term: true }', top='same')
        n.relu()

    width = 64
    n.conv(64, 7, 2, 3, bias=False), n.norm(), n.relu(), n.max(3, 2, 1)
    for i, depth in enumerate((6, 12, 32, 32)):
        for _ in range(depth):
            x = n.top
            bnr(), n.conv(128, 1, bias=False), n.norm(), n.relu()
            n.cat(x, n.conv(32, bias=False))
            width += 32
        if i < 3:
            width //= 2
            bnr(), n.conv(width, 1, bias=False), n.ave()
    bnr(), n.everything(), n.conv(100, 1)
    return n.end()


def shufflenet_v1():
    n = Net('ShuffleNet v1 g3', (1, 3, 128, 128))
    n.cnr(24, 3, 2), n.max(3, 2)
    for stage, (width, depth) in enumerate(((240, 4), (480, 8), (960, 4))):
        for j in range(depth):
            x, s = n.top, 1 if j else 2
            out = width if j else width - (24 if stage == 0 else width // 2)
            g = 1 if stage == 0 and j == 0 else 3
            n.cnr(width // 4, 1, g=g, bottom=x)
            n.add('ShuffleChannel', 'shuffle_channel_param { group: 3 }')
            n.cnr(width // 4, 3, s, g=width // 4, act=None,
                  kind='DepthwiseConvolution')
            y = n.cnr(out, 1, g=3, act=None)
            n.sum(x, y) if j else n.cat(n.ave(3, 2, bottom=x), y)
            n.relu()
    n.everything(), n.ip(100)
    return n.end()


def shufflenet_v2():
    n = Net('ShuffleNet v2 1x', (1, 3, 128, 128))
    n.cnr(24, 3, 2), n.max(3, 2)
    for width, depth in (116, 4), (232, 8), (464, 4):
        half = width // 2
        for j in range(depth):
            x = n.top
            if j:
                left, x = n.add('Slice', 'slice_param { slice_point: %d }' %
                                half, tops=2)
            else:
                n.cnr(24 if width == 116 else half, 3, 2,
                      g=24 if width == 116 else half, act=None, bottom=x)
                left = n.cnr(half, 1)
            n.cnr(half, 1, bottom=x)
            n.cnr(half, 3, 1 if j else 2, g=half, act=None)
            n.cat(left, n.cnr(half, 1))
            n.add('ShuffleChannel', 'shuffle_channel_param { group: 2 }')
    n.cnr(1024, 1), n.everything(), n.ip(100)
    return n.end()


def efficientnet_b0():
    n = Net('EfficientNet-B0', (1, 3, 96, 96))
    n.cnr(32, 3, 2, act='Swish')
    before = 32
    for e, width, depth, s, k in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3),
                                  (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                  (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
                                  (6, 320, 1, 1, 3)):
        for j in range(depth):
            x, wide = n.top, e * before
            if e > 1:
                n.cnr(wide, 1, act='Swish')
            y = n.cnr(wide, k, 1 if j else s, g=wide, act='Swish')
            n.everything(), n.conv(before // 4, 1), n.act('Swish')
            n.conv(wide, 1), n.add('Sigmoid', top='same')
            flat = n.add('Flatten')
            n.add('Scale', 'scale_param { axis: 0 }', bottom=[y, flat])
            y = n.cnr(width, 1, act=None)
            if j:
                n.sum(x, y)
            before = width
    n.cnr(1280, 1, act='Swish'), n.everything(), n.ip(100)
    return n.end()


def googlenet_bn():
    n = Net('BN-Inception', (1, 3, 128, 128))
    n.cnr(64, 7, 2), n.max(3, 2), n.cnr(64, 1), n.cnr(192), n.max(3, 2)
    for a, b0, b, c0, c, pooled in (
            (64, 64, 64, 64, 96, 32), (64, 64, 96, 64, 96, 64),
            (0, 128, 160, 64, 96, 0), (224, 64, 96, 96, 128, 128),
            (192, 96, 128, 96, 128, 128), (160, 128, 160, 128, 160, 96),
            (96, 128, 192, 160, 192, 96), (0, 128, 192, 192, 256, 0),
            (352, 192, 320, 160, 224, 128), (352, 192, 320, 192, 224, 128)):
        x, s = n.top, 1 if a else 2
        parts = [n.cnr(a, 1, bottom=x)] if a else []
        n.cnr(b0, 1, bottom=x)
        parts.append(n.cnr(b, 3, s))
        n.cnr(c0, 1, bottom=x), n.cnr(c)
        parts.append(n.cnr(c, 3, s))
        if a:
            n.ave(3, 1, 1, bottom=x)
            parts.append(n.cnr(pooled, 1))
        else:
            parts.append(n.add('Pooling', 'pooling_param { pool: MAX '
                               'kernel_size: 3 stride: 2 pad: 1 round_mode: '
                               'FLOOR }', bottom=x))
        n.cat(*parts)
    n.everything(), n.ip(100)
    return n.end()


def xception():
    n = Net('Xception', (1, 3, 127, 127))

    def separable(width, before):
        n.conv(before, g=before, bias=False)
        n.cnr(width, 1, act=None)

    n.cnr(32, 3, 2, 0), n.cnr(64, 3, 1, 0)
    before = 64
    for width in 128, 256, 728:
        x = n.top
        left = n.cnr(width, 1, 2, act=None, bottom=x)
        n.add('ReLU', bottom=x)
        separable(width, before), n.relu(), separable(width, width)
        n.add('Pooling', 'pooling_param { pool: MAX kernel_size: 3 stride: 2 '
              'pad: 1 round_mode: FLOOR }')
        n.sum(left, n.top)
        before = width
    for _ in range(8):
        x = n.top
        for _ in range(3):
            n.add('ReLU'), separable(728, 728)
        n.sum(x, n.top)
    x = n.top
    left = n.cnr(1024, 1, 2, act=None, bottom=x)
    n.add('ReLU', bottom=x)
    separable(728, 728), n.relu(), separable(1024, 728)
    n.add('Pooling', 'pooling_param { pool: MAX kernel_size: 3 stride: 2 '
          'pad: 1 round_mode: FLOOR }')
    n.sum(left, n.top)
    separable(1536, 1024), n.relu(), separable(2048, 1536), n.relu()
    n.everything(), n.ip(100)
    return n.end()
