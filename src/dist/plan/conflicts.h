/* conflicts.h - what is refused, for resolve.c. */
#ifndef CT_DIST_CONFLICTS_H
#define CT_DIST_CONFLICTS_H

#include "dist/plan/plan.h"

/* Each option by itself, and against the number of ranks. */
CT_MUST_CHECK enum ct_status dist_check_words(
    const Caffe__DistributedParameter *o, const struct dist_facts *f);
/* Pairs; the plan has its codec, bandwidth and servers. */
CT_MUST_CHECK enum ct_status dist_check_rules(
    const Caffe__DistributedParameter *o, const struct dist_facts *f,
    const struct dist_plan *p);
/* Why gradients cannot be summed in the memory of GPUs, by the rules of
 * --reduce=nccl; NULL: they can. */
const char *dist_why_not_on_gpus(const Caffe__DistributedParameter *o,
                                 const struct dist_facts *f,
                                 const struct dist_plan *p);

#endif
