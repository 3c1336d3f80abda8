/* residual.h - layers of residual nets, in prototxt. */
#ifndef CT_TESTS_NET_RESIDUAL_H
#define CT_TESTS_NET_RESIDUAL_H

#define CONV(name, bottom, n, more)                                          \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " #n " " more         \
    "  weight_filler { type: 'xavier' } } }"
/* With a kernel of one point and without a bias. */
#define POINT(name, bottom, n, more)                                         \
    CONV(name, bottom, n, "kernel_size: 1 bias_term: false " more)
/* BatchNorm and Scale, in place as ReLU. */
#define NORM(name)                                                           \
    "layer { name: 'bn_" name "' type: 'BatchNorm' bottom: '" name "' "      \
    "  top: '" name "' } layer { name: 'sc_" name "' type: 'Scale' "         \
    "  bottom: '" name "' top: '" name "' scale_param { bias_term: true } }"
#define RELU(name)                                                           \
    "layer { name: 'relu_" name "' type: 'ReLU' bottom: '" name "' "         \
    "  top: '" name "' }"
#define SUM(name, one, two)                                                  \
    "layer { name: '" name "' type: 'Eltwise' bottom: '" one "' "            \
    "  bottom: '" two "' top: '" name "' }"

#define PRODUCT(name, bottom, n)                                             \
    "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' "    \
    "  top: '" name "' inner_product_param { num_output: " #n " "            \
    "  weight_filler { type: 'xavier' } } }"
#define LOSS(bottom)                                                         \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: '" bottom "' "        \
    "  bottom: 'label' top: 'l' }"

#endif
