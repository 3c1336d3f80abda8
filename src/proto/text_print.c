/* text_print.c - message to prototxt, over protobuf-c's descriptors.
 *
 * Fields stand in the order of their numbers, one a line, two blanks a level,
 * as protobuf's TextFormat prints them.  Only fields that are set are printed;
 * those unknown to caffe.proto have no name and are left out. */
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "proto/field.h"

static void print_message(struct ct_text *t, const void *message, int level);

/* Fewer digits than 6 (or 15) can only suffice below the normal range: above
 * it %g already drops the zeros. */
static void print_float(struct ct_text *t, double x, bool is_double)
{
    double smallest = is_double ? DBL_MIN : (double)FLT_MIN;
    int digits      = is_double ? 15 : 6;
    char s[40];

    if (isnan(x) || isinf(x)) {
        ct_text_add(t, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    if (fabs(x) < smallest)
        digits = 1;
    for (; digits <= 17; digits++) {
        double back;

        snprintf(s, sizeof(s), "%.*g", digits, x);
        back = strtod(s, NULL);
        if (is_double ? back == x : (float)back == (float)x)
            break;
    }
    ct_text_add(t, s);
}

static void print_string(struct ct_text *t, const uint8_t *s, size_t n,
                         bool is_bytes)
{
    ct_text_add(t, "\"");
    for (size_t i = 0; i < n; i++) {
        uint8_t c = s[i];

        if (c == '\n')
            ct_text_add(t, "\\n");
        else if (c == '\r')
            ct_text_add(t, "\\r");
        else if (c == '\t')
            ct_text_add(t, "\\t");
        else if (c == '"' || c == '\'' || c == '\\')
            ct_text_addf(t, "\\%c", c);
        else if (c < ' ' || c == 0x7F || (c > 0x7F && is_bytes))
            ct_text_addf(t, "\\%03o", c); /* UTF-8 stays in a string */
        else
            ct_text_add_bytes(t, &c, 1);
    }
    ct_text_add(t, "\"");
}

static void print_enum(struct ct_text *t, const ProtobufCFieldDescriptor *f,
                       int32_t number)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(f->descriptor, number);

    if (v)
        ct_text_add(t, v->name);
    else
        ct_text_addf(t, "%" PRId32, number);
}

static void print_scalar(struct ct_text *t, const ProtobufCFieldDescriptor *f,
                         const void *at)
{
    const ProtobufCBinaryData *bytes = at;
    const char *const *string        = at;

    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        print_float(t, (double)*(const float *)at, false);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        print_float(t, *(const double *)at, true);
        break;
    case PROTOBUF_C_TYPE_STRING:
        print_string(t, (const uint8_t *)(*string ? *string : ""),
                     *string ? strlen(*string) : 0, false);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        print_string(t, bytes->data, bytes->len, true);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        ct_text_add(t, *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        print_enum(t, f, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        ct_text_addf(t, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        ct_text_addf(t, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        ct_text_addf(t, "%" PRId64, *(const int64_t *)at);
        break;
    default:
        ct_text_addf(t, "%" PRId32, *(const int32_t *)at);
        break;
    }
}

static void print_value(struct ct_text *t, const ProtobufCFieldDescriptor *f,
                        const void *at, int level)
{
    ct_text_addf(t, "%*s%.*s", 2 * level, "", ct_field_name_bytes(f), f->name);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ct_text_add(t, " {\n");
        print_message(t, *(const void *const *)at, level + 1);
        ct_text_addf(t, "%*s}\n", 2 * level, "");
    } else {
        ct_text_add(t, ": ");
        print_scalar(t, f, at);
        ct_text_add(t, "\n");
    }
}

static void print_message(struct ct_text *t, const void *message, int level)
{
    const ProtobufCMessageDescriptor *type =
        ((const ProtobufCMessage *)message)->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        const char *at                    = ct_field_at(message, f);

        if (!ct_field_is_set(message, f))
            continue;
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            print_value(t, f, at, level);
            continue;
        }
        memcpy(&at, at, sizeof(at));
        for (size_t k = 0; k < *ct_field_count(message, f); k++)
            print_value(t, f, at + k * ct_field_bytes(f), level);
    }
}

enum ct_status ct_text_print(const void *message, char **out)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct ct_text t  = { 0 };
    locale_t before;

    if (!c_locale)
        return ct_fail(CT_ENOMEM, "no memory for the C locale");
    before = uselocale(c_locale);
    ct_text_add(&t, ""); /* an empty message is an empty text, not NULL */
    print_message(&t, message, 0);
    uselocale(before);
    freelocale(c_locale);
    if (t.failed) {
        ct_text_fini(&t);
        return CT_ENOMEM;
    }
    *out = t.s;
    return CT_OK;
}

enum ct_status ct_text_write(const void *message, const char *path)
{
    char *text = NULL;
    enum ct_status st;

    CT_TRY(ct_text_print(message, &text));
    st = ct_file_write(path, text, strlen(text));
    ct_free(text);
    return st;
}
