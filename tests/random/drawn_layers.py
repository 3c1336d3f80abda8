"""Python layers of drawn nets; define_python.c says what each of them is."""

import caffe


class OneToOne(caffe.Layer):
    """A bottom and a top of its shape, perhaps the same blob."""

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        if top[0].data.shape != bottom[0].data.shape:
            top[0].reshape(*bottom[0].data.shape)


class Line(OneToOne):
    def forward(self, bottom, top):
        top[0].data[...] = -0.5 * bottom[0].data + 0.2

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            bottom[0].diff[...] = -0.5 * top[0].diff


class Square(OneToOne):
    def forward(self, bottom, top):
        top[0].data[...] = (0.8 * bottom[0].data) ** 2

    def backward(self, top, propagate_down, bottom):
        if propagate_down[0]:
            bottom[0].diff[...] = 1.28 * bottom[0].data * top[0].diff


class Gain(OneToOne):
    """Has one parameter."""

    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = 0.7

    def forward(self, bottom, top):
        top[0].data[...] = self.blobs[0].data[0] * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += (top[0].diff * bottom[0].data).sum()
        if propagate_down[0]:
            bottom[0].diff[...] = self.blobs[0].data[0] * top[0].diff


class Distance(caffe.Layer):
    """A loss."""

    def setup(self, bottom, top):
        if len(bottom) != 2:
            raise ValueError('a distance is between two')

    def reshape(self, bottom, top):
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.off = bottom[0].data - bottom[1].data
        top[0].data[0] = (self.off ** 2).sum() / (2 * bottom[0].shape[0])

    def backward(self, top, propagate_down, bottom):
        for i, sign in enumerate((1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = (sign * top[0].diff[0] /
                                       bottom[0].shape[0] * self.off)
