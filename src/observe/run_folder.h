/* run_folder.h - what those who read run folders share. */
#ifndef CT_OBSERVE_RUN_FOLDER_H
#define CT_OBSERVE_RUN_FOLDER_H

#include <stdbool.h>

/* Whether somebody still writes there; `now` is seconds since 1970.  A run that
 * has ended says so in its run.json; one that has not, and is silent, was
 * killed. */
bool ct_run_is_alive(const char *folder, double now);

#endif
