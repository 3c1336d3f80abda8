/* json_read.c - JSON into a tree.
 *
 * Strict: what RFC 8259 does not allow is refused, so a line that was cut off
 * is an error and not a half. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "observe/json.h"

enum { MOST_DEPTH = 64 };

/* Nodes and text lie in blocks that are freed together; the root is the first
 * node of the first block. */
struct block {
    struct block  *next;
    size_t         used, bytes;
    _Alignas(16) char data[];
};

struct reader {
    const char   *at, *end, *begin, *source;
    struct block *first, *last;
    int           depth;
};

static enum ct_status value(struct reader *r, struct ct_json *out);

static enum ct_status bad(const struct reader *r, const char *what)
{
    return ct_fail(CT_EPARSE, "%s: %s at byte %zu", r->source, what,
                   (size_t)(r->at - r->begin) + 1);
}

static enum ct_status take(struct reader *r, size_t bytes, void *out)
{
    struct block *b = r->last;
    size_t room     = 4096;

    bytes = (bytes + 15) / 16 * 16;
    if (!b || b->bytes - b->used < bytes) {
        room = bytes > room ? bytes : room;
        b    = ct_calloc(1, sizeof(*b) + room, "json");
        if (!b)
            return ct_fail(CT_ENOMEM, "%s: no memory", r->source);
        b->bytes = room;
        if (r->last)
            r->last->next = b;
        else
            r->first = b;
        r->last = b;
    }
    memcpy(out, &(void *){ b->data + b->used }, sizeof(void *));
    b->used += bytes;
    return CT_OK;
}

static void space(struct reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
}

static bool next_is(struct reader *r, char c)
{
    space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static int hex4(const char *s)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *at;
        const char c = s[i] >= 'A' && s[i] <= 'F' ? (char)(s[i] + 32) : s[i];

        at = c ? strchr(digits, c) : NULL;
        if (!at)
            return -1;
        v = v * 16 + (int)(at - digits);
    }
    return v;
}

static char *add_utf8(char *to, int c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* Behind the backslash and the u; a pair of surrogates is one character. */
static enum ct_status unicode(struct reader *r, char **to)
{
    int c = r->end - r->at >= 4 ? hex4(r->at) : -1, low;

    if (c <= 0)
        return bad(r, "bad \\u escape");
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00) {
        low = r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u'
                  ? hex4(r->at + 2)
                  : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return bad(r, "half a surrogate pair");
        r->at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = add_utf8(*to, c);
    return CT_OK;
}

static enum ct_status escape(struct reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char c   = r->at < r->end ? *r->at++ : '\0';
    const char *at = c ? strchr(from, c) : NULL;

    if (c == 'u')
        return unicode(r, to);
    if (!at)
        return bad(r, "bad escape");
    *(*to)++ = into[at - from];
    return CT_OK;
}

static enum ct_status string(struct reader *r, const char **out)
{
    const char *end;
    char *to = NULL;

    if (!next_is(r, '"'))
        return bad(r, "a string is missing");
    for (end = r->at; end < r->end && *end != '"'; end++)
        end += *end == '\\';
    if (end >= r->end)
        return bad(r, "a string has no end");
    CT_TRY(take(r, (size_t)(end - r->at) + 1, &to));
    *out = to;
    while (*r->at != '"') {
        const char c = *r->at++;

        if ((unsigned char)c < 0x20)
            return bad(r, "a control character in a string");
        if (c == '\\')
            CT_TRY(escape(r, &to));
        else
            *to++ = c;
    }
    *to = '\0';
    r->at++;
    return CT_OK;
}

static enum ct_status number(struct reader *r, struct ct_json *out)
{
    char text[64], *end;
    size_t n = 0;

    while (r->at + n < r->end && n < sizeof(text) - 1 && r->at[n] &&
           strchr("+-.0123456789eE", r->at[n]))
        n++;
    memcpy(text, r->at, n);
    text[n]     = '\0';
    out->kind   = CT_JSON_NUMBER;
    out->number = strtod(text, &end);
    if (n == 0 || *end || text[0] == '+' || text[0] == '.')
        return bad(r, "this is no value");
    r->at += n;
    return CT_OK;
}

static enum ct_status word(struct reader *r, struct ct_json *out)
{
    static const struct {
        const char       *text;
        enum ct_json_kind kind;
        double            number;
    } words[] = { { "true", CT_JSON_BOOL, 1 },
                  { "false", CT_JSON_BOOL, 0 },
                  { "null", CT_JSON_NULL, 0 } };

    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(words[i].text);

        if ((size_t)(r->end - r->at) >= n &&
            memcmp(r->at, words[i].text, n) == 0) {
            out->kind   = words[i].kind;
            out->number = words[i].number;
            r->at += n;
            return CT_OK;
        }
    }
    return number(r, out);
}

static enum ct_status children(struct reader *r, struct ct_json *out)
{
    const bool object      = out->kind == CT_JSON_OBJECT;
    const char close       = object ? '}' : ']';
    struct ct_json **chain = &out->child;

    if (next_is(r, close))
        return CT_OK;
    do {
        struct ct_json *j = NULL;

        CT_TRY(take(r, sizeof(*j), &j));
        if (object) {
            CT_TRY(string(r, &j->key));
            if (!next_is(r, ':'))
                return bad(r, "a colon is missing");
        }
        CT_TRY(value(r, j));
        *chain = j;
        chain  = &j->next;
        out->n++;
    } while (next_is(r, ','));
    return next_is(r, close) ? CT_OK : bad(r, "a list or object has no end");
}

static enum ct_status value(struct reader *r, struct ct_json *out)
{
    enum ct_status st;

    space(r);
    if (r->at == r->end)
        return bad(r, "a value is missing");
    if (*r->at == '"') {
        out->kind = CT_JSON_STRING;
        return string(r, &out->string);
    }
    if (*r->at != '[' && *r->at != '{')
        return word(r, out);
    if (r->depth++ == MOST_DEPTH)
        return bad(r, "too many levels");
    out->kind = *r->at++ == '{' ? CT_JSON_OBJECT : CT_JSON_LIST;
    st        = children(r, out);
    r->depth--;
    return st;
}

static void free_blocks(struct block *b)
{
    while (b) {
        struct block *next = b->next;

        ct_free(b);
        b = next;
    }
}

enum ct_status ct_json_parse(const char *text, size_t n_bytes,
                             const char *source, struct ct_json **out)
{
    struct reader r = { .at = text, .end = text + n_bytes, .begin = text,
                        .source = source };
    struct ct_json *root = NULL;
    enum ct_status st    = take(&r, sizeof(*root), &root);

    *out = NULL;
    if (st == CT_OK)
        st = value(&r, root);
    space(&r);
    if (st == CT_OK && r.at != r.end)
        st = bad(&r, "more follows the value");
    if (st == CT_OK)
        *out = root;
    else
        free_blocks(r.first);
    return st;
}

void ct_json_free(struct ct_json *root)
{
    if (root) /* it lies first in the first block */
        free_blocks((struct block *)(void *)((char *)root -
                                             offsetof(struct block, data)));
}

const struct ct_json *ct_json_get(const struct ct_json *j, const char *key)
{
    const struct ct_json *c = j && j->kind == CT_JSON_OBJECT ? j->child : NULL;

    while (c && strcmp(c->key, key) != 0)
        c = c->next;
    return c;
}

const struct ct_json *ct_json_at(const struct ct_json *j, int i)
{
    const struct ct_json *c = j && j->kind == CT_JSON_LIST ? j->child : NULL;

    while (c && i-- > 0)
        c = c->next;
    return c;
}

double ct_json_number(const struct ct_json *j, double other)
{
    return j && (j->kind == CT_JSON_NUMBER || j->kind == CT_JSON_BOOL)
               ? j->number
               : other;
}

const char *ct_json_text(const struct ct_json *j, const char *other)
{
    return j && j->kind == CT_JSON_STRING ? j->string : other;
}
