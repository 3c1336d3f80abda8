/* json.h - JSON, written and read: the run folder's language. */
#ifndef CT_OBSERVE_JSON_H
#define CT_OBSERVE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* ---- writing: appended to a text */

/* In quotes; bytes that are no UTF-8 become question marks. */
void ct_json_add_string(struct ct_text *t, const char *s);
/* The bytes of the character at s; 0: it is no UTF-8. */
int ct_utf8_bytes(const char *s);
/* null where the number is not finite. */
void ct_json_add_number(struct ct_text *t, double v);
/* "key":value, with a comma before it unless it is the first of its object. */
void ct_json_field_string(struct ct_text *t, const char *key, const char *s);
void ct_json_field_number(struct ct_text *t, const char *key, double v);
/* "key": alone, for values that follow. */
void ct_json_key(struct ct_text *t, const char *key);
/* A comma unless this is the first of its list. */
void ct_json_comma(struct ct_text *t);

/* ---- reading */

enum ct_json_kind {
    CT_JSON_NULL, CT_JSON_BOOL, CT_JSON_NUMBER, CT_JSON_STRING, CT_JSON_LIST,
    CT_JSON_OBJECT
};

/* A value.  Members of objects and items of lists are chained by `next`. */
struct ct_json {
    enum ct_json_kind kind;
    double            number; /* of a bool: 0 or 1 */
    const char       *string; /* terminated */
    const char       *key;    /* in its object; NULL elsewhere */
    struct ct_json   *child, *next;
    int               n;      /* children */
};

/* One value and nothing behind it.  `source` is for the message of a failure.
 * *out is freed as a whole. */
CT_MUST_CHECK enum ct_status ct_json_parse(const char *text, size_t n_bytes,
                                           const char *source,
                                           struct ct_json **out);
void ct_json_free(struct ct_json *root); /* takes NULL */

/* NULL where there is none; all take NULL for j. */
const struct ct_json *ct_json_get(const struct ct_json *j, const char *key);
const struct ct_json *ct_json_at(const struct ct_json *j, int i);
/* `other` where it is no number, or no string. */
double ct_json_number(const struct ct_json *j, double other);
const char *ct_json_text(const struct ct_json *j, const char *other);

#endif
