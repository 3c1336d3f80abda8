/* survey.h - what is in a database: one pass over all records. */
#ifndef CT_DATA_SURVEY_H
#define CT_DATA_SURVEY_H

#include <stdbool.h>

#include "data/onlooker.h"

enum { CT_SURVEY_KEYS = 3, CT_SURVEY_TEXT = 256, CT_SURVEY_LABELS = 100000 };

struct ct_survey_label {
    int32_t label;
    int64_t n;
};

/* From - to. */
struct ct_survey_range {
    int min, max;
};

/* Embedded; fini frees the labels. */
struct ct_survey {
    const char *backend;
    int64_t     n_records, n_bytes; /* bytes: of the values */
    int64_t     n_raw, n_float, n_encoded, n_damaged;
    int64_t     n_annotated, n_objects; /* records with boxes; their boxes */
    char        first_key[CT_SURVEY_KEYS][CT_SURVEY_TEXT];
    char        last_key[CT_SURVEY_TEXT];
    struct ct_survey_range channels, height, width;
    struct ct_survey_label *label; /* in the order of the labels; of objects
                                    * where records have them */
    int64_t                 n_labels; /* up to CT_SURVEY_LABELS */
    bool                    more_labels;
    char first_damage[CT_SURVEY_TEXT]; /* "key: what is wrong" */
    char end[CT_SURVEY_TEXT]; /* why it could not be read to its end, or "" */
};

/* "lmdb", "leveldb", or NULL when `path` is no folder of either. */
const char *ct_survey_backend(const char *path);

/* Damaged records are counted, not refused, and so is a database that ends
 * before its time; what cannot be opened is.  `deep` decodes every image,
 * where otherwise a look at its head must do. */
CT_MUST_CHECK enum ct_status ct_survey_db(const char *path, bool deep,
                                          const struct ct_watch *watch,
                                          struct ct_survey *out);
void ct_survey_fini(struct ct_survey *s);

static inline bool ct_survey_whole(const struct ct_survey *s)
{
    return s->n_damaged == 0 && !s->end[0];
}

#endif
