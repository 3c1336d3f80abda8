/* digit_sets.h - databases of made-up digits, in the shapes that Caffe's
 * examples read. */
#ifndef CT_DATA_DIGIT_SETS_H
#define CT_DATA_DIGIT_SETS_H

#include <stdint.h>

#include "cortado/status.h"

enum ct_digit_form {
    CT_DIGITS_GRAY,  /* 1 x 28 x 28 as MNIST; the label is the digit */
    CT_DIGITS_PAIRS, /* 2 x 28 x 28 as the siamese example; 1: same digit */
    CT_DIGITS_COLOR, /* 3 x 32 x 32 as CIFAR-10: coloured ink and paper */
    CT_N_DIGIT_FORMS
};

enum { CT_DIGIT_RECORD_BYTES = 3 * 32 * 32 }; /* of the largest form */

struct ct_digit_set {
    enum ct_digit_form form;
    uint64_t           seed, first; /* images first .. first + n - 1 */
    int64_t            n;
};

struct ct_digit_record {
    int     channels, side, label;
    uint8_t pixels[CT_DIGIT_RECORD_BYTES]; /* C x H x W */
};

void ct_digit_record(const struct ct_digit_set *set, int64_t i,
                            struct ct_digit_record *out);

/* Called now and then, and at the end, with the records written so far. */
typedef void (*ct_digit_progress_fn)(void *arg, int64_t done, int64_t n);

/* All records into a new database ("lmdb" or "leveldb"); keys are the record
 * numbers as %08d.  Refuses a path that is taken.  `progress` may be NULL. */
CT_MUST_CHECK enum ct_status ct_digit_set_write(const struct ct_digit_set *set,
                                                const char *backend,
                                                const char *path,
                                                ct_digit_progress_fn progress,
                                                void *arg);

/* All records as files PATH/%08d.png, and PATH.txt with a line "file label"
 * for each, as convert_imageset and ImageData read it.  Not for pairs. */
CT_MUST_CHECK enum ct_status ct_digit_set_write_images(
    const struct ct_digit_set *set, const char *path,
    ct_digit_progress_fn progress, void *arg);

#endif
