/* autopsy.h - the records of all ranks, compared and put into words. */
#ifndef CT_OBSERVE_AUTOPSY_H
#define CT_OBSERVE_AUTOPSY_H

#include "base/text.h"

/* Reads FOLDER/autopsy/rank-*.txt, or FOLDER/rank-*.txt, and adds a paragraph
 * to `out`: who did what last, who did not come, and whether ranks called
 * different things. */
CT_MUST_CHECK enum ct_status ct_autopsy(const char *folder,
                                        struct ct_text *out);

#endif
