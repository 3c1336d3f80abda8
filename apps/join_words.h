/* join_words.h - the command line with which ranks join a job. */
#ifndef CT_APPS_JOIN_WORDS_H
#define CT_APPS_JOIN_WORDS_H

#include <stddef.h>

#include "cortado/status.h"

/* Of this machine. */
struct join_flags {
    const char *secret_file;
    int         ranks, threads;
};

/* A command line under way. */
struct join_words {
    char **word; /* owned */
    int    n;
    char  *room; /* for those that this machine says itself */
    size_t bytes;
};

/* The words of a description, from its second line on, that are not this
 * machine's, and what it says instead of those.  Those of `cortado launch`
 * begin with that word; behind `--` are those of a program.  The first line is
 * the folder; NULL: there is none.  Words lie in the description. */
CT_MUST_CHECK enum ct_status join_words_build(char *description,
                                              const char *where,
                                              const struct join_flags *f,
                                              struct join_words *w,
                                              char **folder);

#endif
