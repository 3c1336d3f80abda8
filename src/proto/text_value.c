/* text_value.c - numbers, booleans, enums and strings of a prototxt.
 *
 * Numbers are read under the C locale, which ct_text_parse() has set. */
#include "proto/text_value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "proto/edit.h"
#include "proto/field.h"
#include "proto/nearest.h"

static enum ct_status value_expected(const struct ct_lexer *lex,
                                     const ProtobufCFieldDescriptor *f,
                                     const char *what)
{
    const struct ct_token *t = &lex->token;

    return ct_lex_fail(lex, t, "field \"%.*s\" takes %s, got %.*s",
                       ct_field_name_bytes(f), f->name, what, ct_token_bytes(t),
                       ct_token_text(t));
}

static bool value_word_is(const struct ct_token *t, const char *word)
{
    return t->kind == CT_TOKEN_WORD && t->n_bytes == strlen(word) &&
           strncasecmp(t->s, word, t->n_bytes) == 0;
}

/* The sign is a symbol of its own and may stand apart from the digits. */
static enum ct_status value_sign(struct ct_lexer *lex, bool *negative)
{
    *negative = ct_lex_is(lex, '-');
    return *negative ? ct_lex_next(lex) : CT_OK;
}

/* The digits of an integer token, which the text does not terminate. */
static enum ct_status value_digits(struct ct_lexer *lex,
                                   const ProtobufCFieldDescriptor *f,
                                   uint64_t max, uint64_t *out)
{
    const struct ct_token *t = &lex->token;
    char digits[32];

    if (t->kind != CT_TOKEN_INTEGER)
        return value_expected(lex, f, "an integer");
    errno = ERANGE;
    if (t->n_bytes < sizeof(digits)) {
        memcpy(digits, t->s, t->n_bytes);
        digits[t->n_bytes] = '\0';
        errno              = 0;
        *out               = strtoull(digits, NULL, 0);
    }
    if (errno != 0 || *out > max)
        return ct_lex_fail(lex, t,
                           "%.*s is out of range for field \"%.*s\", whose "
                           "limit is %" PRIu64,
                           ct_token_bytes(t), t->s, ct_field_name_bytes(f),
                           f->name, max);
    return ct_lex_next(lex);
}

static enum ct_status value_signed(struct ct_lexer *lex,
                                   const ProtobufCFieldDescriptor *f,
                                   uint64_t max, int64_t *out)
{
    uint64_t v = 0;
    bool negative;

    CT_TRY(value_sign(lex, &negative));
    CT_TRY(value_digits(lex, f, max + negative, &v));
    *out = (int64_t)(negative ? 0 - v : v);
    return CT_OK;
}

static enum ct_status value_unsigned(struct ct_lexer *lex,
                                     const ProtobufCFieldDescriptor *f,
                                     uint64_t max, uint64_t *out)
{
    if (ct_lex_is(lex, '-'))
        return value_expected(lex, f, "no negative numbers");
    return value_digits(lex, f, max, out);
}

/* The text does not terminate its tokens; strtod() stops at a final f. */
static enum ct_status value_strtod(const struct ct_token *t, double *out)
{
    char digits[64];
    char *longer = NULL;

    if (t->n_bytes >= sizeof(digits)) {
        CT_TRY(ct_alloc(t->n_bytes + 1, 1, "number", &longer));
        memcpy(longer, t->s, t->n_bytes);
    } else {
        memcpy(digits, t->s, t->n_bytes);
        digits[t->n_bytes] = '\0';
    }
    *out = strtod(longer ? longer : digits, NULL);
    ct_free(longer);
    return CT_OK;
}

static enum ct_status value_float(struct ct_lexer *lex,
                                  const ProtobufCFieldDescriptor *f,
                                  double *out)
{
    const struct ct_token *t = &lex->token;
    bool negative;

    CT_TRY(value_sign(lex, &negative));
    if (value_word_is(t, "inf") || value_word_is(t, "infinity"))
        *out = INFINITY;
    else if (value_word_is(t, "nan"))
        *out = NAN;
    else if (t->kind == CT_TOKEN_INTEGER && t->n_bytes > 1 && *t->s == '0')
        return value_expected(lex, f, "a decimal number");
    else if (t->kind == CT_TOKEN_INTEGER || t->kind == CT_TOKEN_FLOAT)
        CT_TRY(value_strtod(t, out));
    else
        return value_expected(lex, f, "a number");
    *out = negative ? -*out : *out;
    return ct_lex_next(lex);
}

static enum ct_status value_bool(struct ct_lexer *lex,
                                 const ProtobufCFieldDescriptor *f,
                                 protobuf_c_boolean *out)
{
    static const char *const word[2][3] = { { "false", "False", "f" },
                                            { "true", "True", "t" } };
    const struct ct_token *t            = &lex->token;
    uint64_t v                          = 0;

    if (t->kind == CT_TOKEN_INTEGER) {
        CT_TRY(value_digits(lex, f, 1, &v));
        *out = (protobuf_c_boolean)v;
        return CT_OK;
    }
    for (int is = 0; is < 2; is++)
        for (int i = 0; i < 3; i++)
            if (t->kind == CT_TOKEN_WORD && strlen(word[is][i]) == t->n_bytes &&
                memcmp(t->s, word[is][i], t->n_bytes) == 0) {
                *out = is;
                return ct_lex_next(lex);
            }
    return value_expected(lex, f, "true or false");
}

static enum ct_status value_unknown_enum(const struct ct_lexer *lex,
                                         const struct ct_token *t,
                                         const ProtobufCFieldDescriptor *f)
{
    const ProtobufCEnumDescriptor *type = f->descriptor;
    struct ct_nearest near              = ct_nearest(t->s, t->n_bytes);
    struct ct_text list                 = { 0 };
    enum ct_status st;

    for (unsigned i = 0; i < type->n_values; i++) {
        ct_text_addf(&list, "%s%s", i ? ", " : "", type->values[i].name);
        ct_nearest_try(&near, type->values[i].name,
                       strlen(type->values[i].name));
    }
    st = ct_lex_fail(lex, t,
                     "field \"%.*s\" has no value %.*s%s%.*s%s; it takes %s",
                     ct_field_name_bytes(f), f->name, ct_token_bytes(t),
                     ct_token_text(t), near.best ? " (did you mean " : "",
                     (int)near.best_bytes, near.best ? near.best : "",
                     near.best ? "?)" : "", list.failed ? "" : list.s);
    ct_text_fini(&list);
    return st;
}

static enum ct_status value_enum(struct ct_lexer *lex,
                                 const ProtobufCFieldDescriptor *f,
                                 int32_t *out)
{
    const ProtobufCEnumDescriptor *type = f->descriptor;
    struct ct_token t                   = lex->token;
    int64_t number                      = 0;

    if (t.kind == CT_TOKEN_WORD) {
        for (unsigned i = 0; i < type->n_values; i++)
            if (strlen(type->values[i].name) == t.n_bytes &&
                memcmp(type->values[i].name, t.s, t.n_bytes) == 0) {
                *out = type->values[i].value;
                return ct_lex_next(lex);
            }
        return value_unknown_enum(lex, &t, f);
    }
    if (t.kind != CT_TOKEN_INTEGER && !ct_lex_is(lex, '-'))
        return value_unknown_enum(lex, &t, f);
    CT_TRY(value_signed(lex, f, INT32_MAX, &number));
    *out = (int32_t)number;
    if (!protobuf_c_enum_descriptor_get_value(type, *out))
        return value_unknown_enum(lex, &t, f);
    return CT_OK;
}

static int value_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Up to `max` digits of a base-8 or base-16 escape, as one number. */
static const char *value_escape_digits(const char *s, const char *end, int base,
                                       int max, uint32_t *out)
{
    for (*out = 0; max > 0 && s < end; max--, s++) {
        int d = value_hex_digit(*s);

        if (d < 0 || d >= base)
            break;
        *out = *out * (uint32_t)base + (uint32_t)d;
    }
    return s;
}

static void value_add_utf8(struct ct_text *t, uint32_t c)
{
    char b[4];
    size_t n;

    if (c < 0x80) {
        n    = 1;
        b[0] = (char)c;
    } else if (c < 0x800) {
        n    = 2;
        b[0] = (char)(0xC0 | c >> 6);
    } else if (c < 0x10000) {
        n    = 3;
        b[0] = (char)(0xE0 | c >> 12);
    } else {
        n    = 4;
        b[0] = (char)(0xF0 | c >> 18);
    }
    for (size_t i = 1; i < n; i++)
        b[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3F));
    ct_text_add_bytes(t, b, n);
}

/* The escape at s, after its backslash; NULL when there is no such one. */
static const char *value_escape(const char *s, const char *end,
                                struct ct_text *out)
{
    static const char plain[] = "abfnrtv\\?'\"";
    static const char value[] = "\a\b\f\n\r\t\v\\?'\"";
    const char *known         = *s ? strchr(plain, *s) : NULL;
    const char *next;
    uint32_t c;
    char byte;

    if (known) {
        ct_text_add_bytes(out, &value[known - plain], 1);
        return s + 1;
    }
    if (*s == 'u' || *s == 'U') {
        int want = *s == 'u' ? 4 : 8;

        next = value_escape_digits(s + 1, end, 16, want, &c);
        if (next != s + 1 + want || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
            return NULL;
        value_add_utf8(out, c);
        return next;
    }
    if (*s == 'x' || *s == 'X') {
        next = value_escape_digits(++s, end, 16, 2, &c);
    } else {
        next = value_escape_digits(s, end, 8, 3, &c);
    }
    if (next == s || c > 0xFF)
        return NULL;
    byte = (char)c;
    ct_text_add_bytes(out, &byte, 1);
    return next;
}

/* One string token, without quotes and with its escapes resolved. */
static enum ct_status value_unquote(const struct ct_lexer *lex,
                                    struct ct_text *out)
{
    const struct ct_token *t = &lex->token;
    const char *s = t->s + 1, *end = t->s + t->n_bytes - 1;

    while (s < end) {
        const char *stop = memchr(s, '\\', (size_t)(end - s));
        const char *next;

        if (!stop)
            stop = end;
        ct_text_add_bytes(out, s, (size_t)(stop - s));
        if (stop == end)
            break;
        next = value_escape(stop + 1, end, out);
        if (!next) {
            struct ct_token at = *t;

            at.column += (int)(stop - t->s);
            return ct_lex_fail(lex, &at, "\"\\%c\" starts no escape", stop[1]);
        }
        s = next;
    }
    return CT_OK;
}

static enum ct_status value_string(struct ct_lexer *lex,
                                   const ProtobufCFieldDescriptor *f, void *out)
{
    struct ct_token first = lex->token;
    struct ct_text text   = { 0 };
    ProtobufCBinaryData bytes;
    enum ct_status st = CT_OK;

    if (lex->token.kind != CT_TOKEN_STRING)
        return value_expected(lex, f, "a string in quotes");
    /* Strings side by side are one string. */
    while (lex->token.kind == CT_TOKEN_STRING) {
        CT_TRY_GOTO(value_unquote(lex, &text), st, out);
        CT_TRY_GOTO(ct_lex_next(lex), st, out);
    }
    if (text.failed)
        CT_TRY_GOTO(CT_ENOMEM, st, out);
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        if (text.n_bytes > 0 && memchr(text.s, 0, text.n_bytes))
            CT_TRY_GOTO(
                ct_lex_fail(lex, &first, "a string cannot hold a zero byte"),
                st, out);
        st = ct_edit_bytes(text.s, text.n_bytes, out);
    } else {
        bytes.len = text.n_bytes;
        CT_TRY_GOTO(ct_edit_bytes(text.s, text.n_bytes, &bytes.data), st, out);
        memcpy(out, &bytes, sizeof(bytes));
    }
out:
    ct_text_fini(&text);
    return st;
}

static enum ct_status value_number(struct ct_lexer *lex,
                                   const ProtobufCFieldDescriptor *f, void *out)
{
    uint64_t u = 0;
    int64_t i  = 0;
    double d   = 0;
    float x;

    switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        CT_TRY(value_float(lex, f, &d));
        x = (float)d;
        memcpy(out, &x, sizeof(x));
        return CT_OK;
    case PROTOBUF_C_TYPE_DOUBLE:
        CT_TRY(value_float(lex, f, &d));
        memcpy(out, &d, sizeof(d));
        return CT_OK;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        CT_TRY(value_unsigned(lex, f, UINT32_MAX, &u));
        memcpy(out, &(uint32_t){ (uint32_t)u }, sizeof(uint32_t));
        return CT_OK;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        CT_TRY(value_unsigned(lex, f, UINT64_MAX, &u));
        memcpy(out, &u, sizeof(u));
        return CT_OK;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        CT_TRY(value_signed(lex, f, INT64_MAX, &i));
        memcpy(out, &i, sizeof(i));
        return CT_OK;
    default:
        CT_TRY(value_signed(lex, f, INT32_MAX, &i));
        memcpy(out, &(int32_t){ (int32_t)i }, sizeof(int32_t));
        return CT_OK;
    }
}

enum ct_status ct_value_parse(struct ct_lexer *lex,
                              const ProtobufCFieldDescriptor *f, void *out)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return value_string(lex, f, out);
    case PROTOBUF_C_TYPE_BOOL:
        return value_bool(lex, f, out);
    case PROTOBUF_C_TYPE_ENUM:
        return value_enum(lex, f, out);
    default:
        return value_number(lex, f, out);
    }
}
