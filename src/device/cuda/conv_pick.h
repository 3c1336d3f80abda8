/* conv_pick.h - which way, and which of cuDNN's engines, does a pass.
 *
 * All ways are measured, conversions included, and the fastest is taken; one
 * whose results repeat bit for bit where that costs no more than a tenth.
 * Equal passes share a plan, and the choice is kept for the next run. */
#ifndef CT_DEVICE_CUDA_CONV_PICK_H
#define CT_DEVICE_CUDA_CONV_PICK_H

#include "device/cuda/conv_way.h"

/* One way, ready to run; shared by all passes that are alike. */
struct ct_conv_pick {
    struct ct_conv_way   way;
    struct ct_conv_plan  plan;  /* empty where the way is direct */
    size_t               bytes; /* of scratch, staging included */
    char                *key;
    int                  users;
    struct ct_conv_pick *next;
};

/* `road` is the only one to take where it leads, or CT_CONV_ROADS: any. */
CT_MUST_CHECK enum ct_status ct_conv_pick_get(const struct ct_conv *c,
                                              enum ct_pass pass,
                                              enum ct_conv_road road,
                                              struct ct_conv_pick **out);
void ct_conv_pick_put(const struct ct_device *d, struct ct_conv_pick *p);

#endif
