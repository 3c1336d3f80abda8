/* output.h - files that grow while others read them.
 *
 * Whole records only: what a failed write left of one is cut off again, so a
 * reader meets at most an unfinished last line, and that only for a moment. */
#ifndef CT_OBSERVE_OUTPUT_H
#define CT_OBSERVE_OUTPUT_H

#include <stdbool.h>

#include "base/text.h"

struct ct_output {
    int            fd;      /* -1: closed */
    struct ct_text pending; /* whole records; the caller appends here */
    char          *path;    /* owned */
};

/* Opens for appending; the file is made where it is not there, and an
 * unfinished last line, which a crash may have left, is ended if `lines`.
 * After CT_EIO errno says why. */
CT_MUST_CHECK enum ct_status ct_output_open(struct ct_output *o,
                                            const char *folder,
                                            const char *name, int lines);
/* Writes what is pending. */
CT_MUST_CHECK enum ct_status ct_output_flush(struct ct_output *o);
void ct_output_close(struct ct_output *o); /* flushes nothing */

/* A small file anew, in one rename, so that readers see all of the old one or
 * all of the new one.  Not synced: it is for now, not for ever.  Frees the
 * text. */
CT_MUST_CHECK enum ct_status ct_output_replace(const char *folder,
                                               const char *name,
                                               struct ct_text *text);

/* Whether an error of the system means that a disk takes nothing more: it is
 * full, or cannot be written at all. */
bool ct_disk_is_full(int error);

/* folder/name; ct_free'd by the caller; NULL: no memory. */
char *ct_path_join(const char *folder, const char *name);

#endif
