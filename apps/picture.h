/* picture.h - an SVG into the file that a user named. */
#ifndef CT_APPS_PICTURE_H
#define CT_APPS_PICTURE_H

#include "base/text.h"

/* A name that ends in .png gets pixels, any other the SVG itself. */
CT_MUST_CHECK enum ct_status picture_write(const struct ct_text *svg,
                                           const char *path);

#endif
