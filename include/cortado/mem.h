/* cortado/mem.h - giving back what the library allocated for its caller. */
#ifndef CT_MEM_H
#define CT_MEM_H

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For everything that is documented as "ct_free'd by the caller". */
CT_API void ct_free(void *p); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
