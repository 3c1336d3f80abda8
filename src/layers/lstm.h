/* lstm.h - what a LSTM layer keeps; see lstm.c. */
#ifndef CT_LAYERS_LSTM_H
#define CT_LAYERS_LSTM_H

#include "cortado/layer.h"
#include "layers/recurrent.h"

enum { H_STATE, C_STATE, N_STATES };

struct lstm {
    struct ct_recurrent r;
    struct ct_blob     *c;     /* T x N x H */
    struct ct_blob     *first; /* N x H: c_0 of this pass, for backward */
    struct ct_blob     *dc;    /* N x H: from step t + 1 to step t */
};

#endif
