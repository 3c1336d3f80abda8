/* phase.h - which layers a net of a given phase, level and stages has. */
#ifndef CT_NET_PHASE_H
#define CT_NET_PHASE_H

#include "cortado/net.h"

/* *out is a copy of `in` with the layers that the net's state, the phase, level
 * and stages of `options` added to it, leaves.  Set also on failure. */
CT_MUST_CHECK enum ct_status net_filter(const Caffe__NetParameter *in,
                                        const struct ct_net_options *options,
                                        Caffe__NetParameter **out);

#endif
