/* flags.h - the command line, as Caffe's users know it.
 *
 * -x v, -x=v, --x v and --x=v are the same; '-' and '_' inside names too.
 * A switch needs no value (--x, --nox, --x=false).  Flags that glog knows are
 * accepted everywhere. */
#ifndef CT_APPS_FLAGS_H
#define CT_APPS_FLAGS_H

#include <stdbool.h>

enum flag_kind {
    FLAG_END,
    FLAG_STRING,
    FLAG_INT,
    FLAG_DOUBLE,
    FLAG_SWITCH,
    FLAG_MAYBE /* a switch that knows whether it was given: "true", "false" */
};

struct flag {
    const char    *name;
    enum flag_kind kind;
    /* const char **, int *, double *, bool *, const char ** */
    void          *value;
    const char    *help;
};

/* Reads flags until the end of argv and moves what is left to its front:
 * *argc and argv then hold the positional arguments, argv[0] first.
 * false: something is wrong and has been said on stderr, or --help was asked
 * for and printed (*helped).  The list ends with a FLAG_END entry. */
bool flags_parse(const struct flag *flags, const char *usage, int *argc,
                 char **argv, bool *helped);

/* A comma list, cut in place; returns how many and a list that is ct_free'd.
 * An empty text gives an empty list. */
int flags_list(char *text, const char ***out);

#endif
