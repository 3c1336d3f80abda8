/* hush.h - a thread says for a while only what is wrong. */
#ifndef CT_BASE_HUSH_H
#define CT_BASE_HUSH_H

#include <stdbool.h>

/* CT_INFO of this thread is for nobody; false: it is heard again. */
void ct_log_hush(bool hush);

#endif
