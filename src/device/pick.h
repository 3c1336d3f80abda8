/* pick.h - which GPU a rank takes. */
#ifndef CT_DEVICE_PICK_H
#define CT_DEVICE_PICK_H

#include "cortado/status.h"

/* `list` is what --gpu says: numbers with commas between them, or "all" for
 * the n_here GPUs of this machine.  *n is how many it names, *id the one in
 * place k, round and round: several ranks may share one. */
CT_MUST_CHECK enum ct_status ct_gpu_pick(const char *list, int n_here, int k,
                                         int *id, int *n);

#endif
