/* tool.h - what the commands that work on databases and files share. */
#ifndef CT_APPS_TOOL_H
#define CT_APPS_TOOL_H

#include "command.h"
#include "flags.h"
#include "progress.h"

/* Parses flags and wants between `least` and `most` arguments; when false,
 * *code is what to exit with, and why has been said. */
bool tool_parse(const struct flag *flags, int least, int most, int *argc,
                char **argv, int *code);

/* The backend of a database that is there: as the flag says, or as the
 * folder looks when there is none. */
const char *tool_backend(const char *flag, const char *path);

/* What to exit with. */
int tool_end(enum ct_status st);

#endif
