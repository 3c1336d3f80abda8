/* json_write.c - JSON, appended to a text. */
#include <math.h>
#include <string.h>

#include "observe/json.h"

int ct_utf8_bytes(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    const int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                  : (s[0] & 0xf0) == 0xe0 ? 3
                  : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

void ct_json_add_string(struct ct_text *t, const char *s)
{
    const unsigned char *at = (const unsigned char *)s;

    ct_text_add(t, "\"");
    while (*at) {
        const int n = ct_utf8_bytes((const char *)at);

        if (*at == '"' || *at == '\\')
            ct_text_addf(t, "\\%c", *at);
        else if (*at == '\n')
            ct_text_add(t, "\\n");
        else if (*at < 0x20 || *at == 0x7f)
            ct_text_addf(t, "\\u%04x", *at);
        else if (n == 0)
            ct_text_add(t, "?");
        else
            ct_text_add_bytes(t, at, (size_t)n);
        at += n ? n : 1;
    }
    ct_text_add(t, "\"");
}

void ct_json_add_number(struct ct_text *t, double v)
{
    if (!isfinite(v))
        ct_text_add(t, "null");
    else if (v == rint(v) && fabs(v) < 1e15)
        ct_text_addf(t, "%.0f", v);
    else
        ct_text_addf(t, fabs(v) > 1e8 ? "%.3f" : "%.7g", v);
}

void ct_json_comma(struct ct_text *t)
{
    if (t->n_bytes > 0 && !strchr("[{:,", t->s[t->n_bytes - 1]))
        ct_text_add(t, ",");
}

void ct_json_key(struct ct_text *t, const char *key)
{
    ct_json_comma(t);
    ct_json_add_string(t, key);
    ct_text_add(t, ":");
}

void ct_json_field_string(struct ct_text *t, const char *key, const char *s)
{
    ct_json_key(t, key);
    ct_json_add_string(t, s);
}

void ct_json_field_number(struct ct_text *t, const char *key, double v)
{
    ct_json_key(t, key);
    ct_json_add_number(t, v);
}
