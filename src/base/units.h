/* units.h - "30us", "500gflops": quantities as people write them. */
#ifndef CT_BASE_UNITS_H
#define CT_BASE_UNITS_H

#include "cortado/status.h"

/* Seconds: ns, us, ms, s. */
CT_MUST_CHECK enum ct_status ct_parse_seconds(const char *text, double *out);
/* Operations a second: mflops, gflops, tflops, or a number. */
CT_MUST_CHECK enum ct_status ct_parse_flops(const char *text, double *out);

#endif
