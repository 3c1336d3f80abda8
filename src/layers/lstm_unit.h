/* lstm_unit.h - what a LSTMUnit layer keeps; see lstm_unit.c. */
#ifndef CT_LAYERS_LSTM_UNIT_H
#define CT_LAYERS_LSTM_UNIT_H

#include "cortado/layer.h"

struct lstm_unit {
    int64_t         n, h;
    struct ct_blob *gates; /* i f o g after their functions */
};

#endif
