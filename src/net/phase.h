/* phase.h - selects the layers of a net for a phase, a level and stages. */
#ifndef CT_NET_PHASE_H
#define CT_NET_PHASE_H

#include "cortado/net.h"

/* *out: a copy of `in` with the layers that belong to the net in its state, to
 * which `options` add a phase, a level and stages.  Also set on failure. */
CT_MUST_CHECK enum ct_status net_filter(const Caffe__NetParameter *in,
                                        const struct ct_net_options *options,
                                        Caffe__NetParameter **out);

#endif
