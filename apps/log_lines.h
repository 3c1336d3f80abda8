/* log_lines.h - where log lines go: glog's flags and variables.
 *
 * Lines go to standard error; with --log_dir also to files that are named and
 * headed as glog's, one for each severity.  A variable GLOG_flag is the flag's
 * default. */
#ifndef CT_APPS_LOG_LINES_H
#define CT_APPS_LOG_LINES_H

#include <stdbool.h>

#include "cortado/log.h"
#include "flags.h"

/* The flags, which every command takes; ends with FLAG_END. */
extern const struct flag log_lines_flags[];

/* Before flags are parsed: defaults, out of the environment. */
void log_lines_defaults(void);
/* After: opens files and takes over the log.  `program` names the files. */
CT_MUST_CHECK enum ct_status log_lines_apply(const char *program);

/* While a progress line is drawn, log lines take its place. */
void log_lines_over_progress(bool drawn);

/* Lines at the level of errors so far. */
int log_lines_n_errors(void);

#endif
