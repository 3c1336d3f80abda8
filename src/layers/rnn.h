/* rnn.h - what a RNN layer keeps; see rnn.c. */
#ifndef CT_LAYERS_RNN_H
#define CT_LAYERS_RNN_H

#include "cortado/layer.h"
#include "layers/recurrent.h"

struct rnn {
    struct ct_recurrent r;  /* r.gates hold h after each step */
    int                 w_o, b_o;
    struct ct_ip        output; /* h W_ho^T of all steps */
    struct ct_blob     *dout; /* T x N x H: gradient before o's tanh */
    struct ct_blob     *dhid; /* T x N x H: what h gets from o */
};

#endif
