/* inspect.h - the parts of `cortado inspect`, one a kind of file.
 *
 * Each writes its page to stdout.  CT_OK with *whole false: the file could be
 * read, and what is wrong with it is on the page. */
#ifndef CT_APPS_INSPECT_H
#define CT_APPS_INSPECT_H

#include <stdbool.h>

#include "cortado/cortado.h"

struct inspect {
    const char *path;
    bool        deep;  /* --deep */
    bool        whole;
};

CT_MUST_CHECK enum ct_status inspect_db(struct inspect *in);
CT_MUST_CHECK enum ct_status inspect_hdf5(struct inspect *in);
CT_MUST_CHECK enum ct_status inspect_text(struct inspect *in);
CT_MUST_CHECK enum ct_status inspect_binary(struct inspect *in);

/* Least, largest and mean value, and how many are not finite. */
struct inspect_values {
    double  min, max, mean;
    int64_t n_bad;
};
struct inspect_values inspect_values(const float *f, const double *d,
                                     int64_t n);

/* "min -0.5  max 0.5  mean 0.01", with a warning where one is due; a line's
 * end. */
void inspect_print_values(const struct inspect_values *v);

/* "2.1 MB"; returns buf. */
const char *inspect_bytes(int64_t n, char *buf, size_t size);

#endif
