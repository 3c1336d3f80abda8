/* test_convolution_depthwise.c - one kernel a channel. */
#include "depthwise_case.h"

DEPTHWISE_TESTS(convolution_depthwise, "ConvolutionDepthwise")
