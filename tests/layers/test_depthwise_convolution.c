/* test_depthwise_convolution.c - one kernel a channel. */
#include "depthwise_case.h"

DEPTHWISE_TESTS(depthwise_convolution, "DepthwiseConvolution")
