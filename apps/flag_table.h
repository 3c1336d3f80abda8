/* flag_table.h - every flag of every command, in one table.
 *
 * The table is what `--help`, the manual page and docs/reference/flags.md are
 * made of; a command only says where each value goes (flags.h).  To add a
 * flag, add a line here and a FLAG() in the command. */
#ifndef CT_APPS_FLAG_TABLE_H
#define CT_APPS_FLAG_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum flag_kind {
    FLAG_STRING,
    FLAG_INT,
    FLAG_DOUBLE,
    FLAG_SWITCH,
    FLAG_MAYBE /* a switch that knows whether it was given: "true", "false" */
};

/* Who needs the flag, and when. */
enum flag_group {
    GROUP_EVERYDAY, /* what most runs say */
    GROUP_RANKS,    /* how ranks divide the work */
    GROUP_NETWORK,  /* how gradients travel between ranks */
    GROUP_FAULTS,   /* slow, silent and lost ranks */
    GROUP_EXPERT,   /* measuring, finding faults, tuning by hand */
    GROUP_LOG,      /* the log: glog's flags, which every command takes */
    N_FLAG_GROUPS
};

struct flag_info {
    const char     *commands; /* who takes it, spaces between; "": all */
    const char     *name;
    enum flag_kind  kind;
    enum flag_group group;
    const char     *value;   /* what stands after `=`; NULL for a switch */
    const char     *initial; /* the default, as text; NULL: none */
    const char     *help;    /* one line, no full stop; see flag_help() */
};

extern const struct flag_info flag_table[];
extern const int n_flag_table;

/* "Everyday", "Ranks", ... and one line on what is in it. */
const char *flag_group_name(enum flag_group group);
const char *flag_group_about(enum flag_group group);

/* The line about a flag, in `room`.  After a colon at its end stand the values
 * that a list of the library knows. */
const char *flag_help(const struct flag_info *f, char *room, size_t bytes);

bool flag_is_of(const struct flag_info *f, const char *command);

#endif
