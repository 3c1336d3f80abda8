/* image_list.h - lists of image files with labels, as convert_imageset and
 * ImageData read them: a line a file, its name, a space, its label. */
#ifndef CT_DATA_IMAGE_LIST_H
#define CT_DATA_IMAGE_LIST_H

#include <stdint.h>

#include "base/text.h"

struct ct_image_line {
    size_t name; /* where in `names` */
    int    label;
};

/* Embedded; zeroed is empty. */
struct ct_image_list {
    struct ct_image_line *line;
    int64_t               n;
    struct ct_text        names;
};

/* Blank lines are passed over, names may have spaces.  A line that is no name
 * with a whole number behind it is refused as file:line. */
CT_MUST_CHECK enum ct_status ct_image_list_read(const char *path,
                                                struct ct_image_list *out);
void ct_image_list_fini(struct ct_image_list *list);
const char *ct_image_list_name(const struct ct_image_list *list, int64_t i);

#endif
