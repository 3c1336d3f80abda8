/* flags.h - the command line, as Caffe's users know it.
 *
 * -x v, -x=v, --x v and --x=v are the same; '-' and '_' inside names too.
 * A switch needs no value (--x, --nox, --x=false).  What flags there are, and
 * what they mean, stands in flag_table.c; a command lists where values go:
 *
 *     const struct flag flags[] = { FLAG("model", &model), FLAG_END };   */
#ifndef CT_APPS_FLAGS_H
#define CT_APPS_FLAGS_H

#include <stdbool.h>

#include "cortado/status.h"

/* The C type of a flag's value.  Text takes every kind of flag; a number of
 * the table is checked and handed on as it was written. */
enum flag_place {
    PLACE_NONE,
    PLACE_TEXT,
    PLACE_INT,
    PLACE_DOUBLE,
    PLACE_BOOL
};

struct flag {
    const char     *name;
    enum flag_place place;
    void           *value; /* borrowed; keeps what it holds where not given */
};

#define FLAG(name, p)                                                        \
    { (name), _Generic((p), const char **: PLACE_TEXT, int *: PLACE_INT,     \
                       double *: PLACE_DOUBLE, bool *: PLACE_BOOL), (p) }
#define FLAG_END { NULL, PLACE_NONE, NULL }

/* Reads the flags of the command argv[0] until the end of argv and moves what
 * is left to its front: *argc and argv then hold the positional arguments,
 * argv[0] first.  false: something is wrong and has been said on stderr, or
 * --help was asked for and printed (*helped). */
bool flags_parse(const struct flag *flags, int *argc, char **argv,
                 bool *helped);

/* The last value that words for another command give a flag of that; NULL:
 * none. */
const char *flags_peek(const char *command, char *const *words,
                       const char *name);

/* The list of words as it stands before parsing changes it, ended by NULL;
 * ct_free it. */
CT_MUST_CHECK enum ct_status flags_keep_words(int argc, char **argv,
                                              char ***out);

/* A comma list, cut in place; returns how many and a list that is ct_free'd.
 * An empty text gives an empty list. */
int flags_list(char *text, const char ***out);

#endif
