/* help.h - what the program says of itself, out of its tables. */
#ifndef CT_APPS_HELP_H
#define CT_APPS_HELP_H

#include <stdio.h>

#include "command.h"
#include "flag_table.h"

struct env_info {
    const char *name, *value, *help;
};

/* Environment variables that the program and its library read. */
extern const struct env_info env_table[];
extern const int n_env_table;

/* Words of `text` from column `at` on, in lines that start at `indent`; a tab
 * is a space at which no line ends. */
void help_wrapped(FILE *to, const char *text, int indent, int at);
void help_commands(FILE *to);
void help_command(FILE *to, const struct command *c);
/* Only "usage: ..." of a command. */
void help_usage(FILE *to, const struct command *c);
/* docs/reference/flags.md and docs/reference/cortado.1. */
void help_markdown(FILE *to);
void help_man(FILE *to);

#endif
