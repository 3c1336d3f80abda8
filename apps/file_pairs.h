/* file_pairs.h - lists of files that belong together: a line
 * "image annotation", or "image label", each. */
#ifndef CT_APPS_FILE_PAIRS_H
#define CT_APPS_FILE_PAIRS_H

#include <stdbool.h>

#include "data/image_list.h"

/* Embedded; zeroed is empty. */
struct pairs {
    struct ct_image_list list; /* of the images */
    struct ct_text       second;
    size_t              *at; /* where the second word of a line is */
};

/* Words have no spaces; a line of another number of words is refused as
 * file:line.  `labels`: the second word is a number, the image's label. */
CT_MUST_CHECK enum ct_status pairs_read(const char *path, bool labels,
                                        struct pairs *out);
void pairs_fini(struct pairs *p);
const char *pairs_second(const struct pairs *p, int64_t line);

#endif
