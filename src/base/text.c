/* text.c - a growing string. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static int text_reserve(struct ct_text *t, size_t more)
{
    size_t need = t->n_bytes + more + 1;
    char *s;

    if (t->failed || need <= t->capacity)
        return !t->failed;
    need = need < 2 * t->capacity ? 2 * t->capacity : need;
    need = need < 256 ? 256 : need;
    s    = ct_realloc(t->s, need, "text");
    if (!s) {
        t->failed = 1;
        return 0;
    }
    t->s        = s;
    t->capacity = need;
    return 1;
}

void ct_text_add_bytes(struct ct_text *t, const void *s, size_t n)
{
    if (!text_reserve(t, n))
        return;
    memcpy(t->s + t->n_bytes, s, n);
    t->n_bytes += n;
    t->s[t->n_bytes] = '\0';
}

void ct_text_add(struct ct_text *t, const char *s)
{
    ct_text_add_bytes(t, s, strlen(s));
}

void ct_text_addf(struct ct_text *t, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && text_reserve(t, (size_t)n)) {
        vsnprintf(t->s + t->n_bytes, (size_t)n + 1, fmt, again);
        t->n_bytes += (size_t)n;
    }
    va_end(again);
}

void ct_text_add_choices(struct ct_text *t, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        ct_text_addf(t, "%s%s", i == 0       ? ""
                                : i == n - 1 ? " or "
                                             : ", ",
                     words[i]);
}

void ct_text_fini(struct ct_text *t)
{
    ct_free(t->s);
    memset(t, 0, sizeof(*t));
}
