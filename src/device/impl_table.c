/* impl_table.c - the table of CORTADO_IMPL, and what the variable asks for.
 *
 *     CORTADO_IMPL = ITEM,ITEM,...     ITEM = KEY:VALUE+VALUE+...
 *
 * Empty items are nothing, so that lists can be joined with a comma. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/impl.h"
#include "proto/nearest.h"

#ifdef CT_HAVE_ONEDNN
#define BUILT_ONEDNN true
#else
#define BUILT_ONEDNN false
#endif
#ifdef CT_HAVE_CUDA
#define BUILT_CUDA true
#else
#define BUILT_CUDA false
#endif
#define BUILT_ANY true

#define ALLOWED_USUAL  true
#define ALLOWED_FORCED false

#define CT_IMPL_KEY(group_, key_, meaning_, usual_)                          \
    { .key = (key_), .meaning = (meaning_), .usual = (usual_),               \
      .group = CT_IMPL_##group_ },
#define CT_IMPL_VALUE(part, use, value_, meaning_)                           \
    { .value = (value_), .meaning = (meaning_), .built = BUILT_##part,       \
      .allowed = ALLOWED_##use },

const struct ct_impl_row ct_impl_table[] = {
#include "device/impl.def"
};

const int ct_impl_n_rows = sizeof(ct_impl_table) / sizeof(ct_impl_table[0]);

enum { MOST_DIGITS = 8, LETTERS_SHOWN = 100 };

/* A part of the variable; not terminated. */
struct word {
    const char *s;
    size_t      n;
};

static const char *variable(void)
{
    const char *text = getenv("CORTADO_IMPL");

    return text ? text : "";
}

/* The part of *text up to one of `ends`; *text goes on behind it. */
static struct word cut(struct word *text, const char *ends)
{
    struct word w = { text->s, 0 };

    while (w.n < text->n && !strchr(ends, w.s[w.n]))
        w.n++;
    text->s += w.n + (w.n < text->n);
    text->n -= w.n + (w.n < text->n);
    return w;
}

static bool is(struct word w, const char *text)
{
    return w.n == strlen(text) && strncmp(w.s, text, w.n) == 0;
}

static struct word word_of(const char *text)
{
    return (struct word){ text, strlen(text) };
}

/* What the variable has behind `key:`; .s is NULL where it does not name the
 * key. */
static struct word asked_for(const char *key)
{
    struct word rest = word_of(variable());

    while (rest.n > 0) {
        struct word item = cut(&rest, ",");

        if (is(cut(&item, ":"), key))
            return item;
    }
    return (struct word){ NULL, 0 };
}

static const struct ct_impl_row *end_of_table(void)
{
    return ct_impl_table + ct_impl_n_rows;
}

static const struct ct_impl_row *key_row(struct word key)
{
    for (const struct ct_impl_row *r = ct_impl_table; r < end_of_table(); r++)
        if (r->key && is(key, r->key))
            return r;
    return NULL;
}

static bool is_number(struct word w)
{
    for (size_t i = 0; i < w.n; i++)
        if (w.s[i] < '0' || w.s[i] > '9')
            return false;
    return w.n > 0 && w.n <= MOST_DIGITS && w.s[0] != '0';
}

/* A key's rows of values are those up to the next key. */
static const struct ct_impl_row *next_value(const struct ct_impl_row *r)
{
    return r + 1 < end_of_table() && r[1].value ? r + 1 : NULL;
}

static bool stands_for_numbers(const struct ct_impl_row *r)
{
    return strcmp(r->value, "N") == 0;
}

static const struct ct_impl_row *value_row(const struct ct_impl_row *key,
                                           struct word value)
{
    for (const struct ct_impl_row *r = key; (r = next_value(r));)
        if (stands_for_numbers(r) ? is_number(value) : is(value, r->value))
            return r;
    return NULL;
}

static bool takes_several(const struct ct_impl_row *key)
{
    int n = 0;

    for (const struct ct_impl_row *r = key; (r = next_value(r));)
        n += r->allowed;
    return n > 1;
}

bool ct_impl_allowed(const char *key, const char *value)
{
    const struct ct_impl_row *k = key_row(word_of(key));
    const struct ct_impl_row *v = k ? value_row(k, word_of(value)) : NULL;
    struct word values          = asked_for(key);

    CT_ASSERT(v); /* impl.def has no such key or value */
    if (!values.s)
        return v->allowed;
    while (values.n > 0)
        if (is(cut(&values, "+"), value))
            return true;
    return false;
}

bool ct_impl_forced(const char *key)
{
    CT_ASSERT(key_row(word_of(key)));
    return asked_for(key).s;
}

bool ct_impl_asked(void)
{
    return *variable();
}

int ct_impl_number(const char *key)
{
    const struct word value = asked_for(key);

    CT_ASSERT(key_row(word_of(key)));
    return value.s && is_number(value) ? (int)strtol(value.s, NULL, 10) : 0;
}

/* The end of a sentence. */
static void add_nearest(struct ct_text *t, const struct ct_nearest *near)
{
    if (near->best)
        ct_text_addf(t, "; did you mean '%s'?", near->best);
    else
        ct_text_add(t, ".");
}

static enum ct_status refuse(struct ct_text *t)
{
    const enum ct_status st =
        t->failed ? CT_ENOMEM
                  : ct_fail(CT_EINVAL, "CORTADO_IMPL: %s. 'cortado impl' "
                            "explains them", t->s);

    ct_text_fini(t);
    return st;
}

static int shown(struct word w)
{
    return w.n < LETTERS_SHOWN ? (int)w.n : LETTERS_SHOWN;
}

static enum ct_status refuse_key(struct word key)
{
    struct ct_nearest near = ct_nearest(key.s, key.n);
    struct ct_text t       = { 0 };
    const char *before     = " Its keys: ";

    ct_text_addf(&t, "unknown key '%.*s'", shown(key), key.s);
    for (const struct ct_impl_row *r = ct_impl_table; r < end_of_table(); r++)
        if (r->key)
            ct_nearest_try(&near, r->key, strlen(r->key));
    add_nearest(&t, &near);
    for (const struct ct_impl_row *r = ct_impl_table; r < end_of_table(); r++)
        if (r->key) {
            ct_text_addf(&t, "%s%s", before, r->key);
            before = ", ";
        }
    return refuse(&t);
}

static void add_values(struct ct_text *t, const struct ct_impl_row *key)
{
    const char *before = " Its values: ";

    for (const struct ct_impl_row *r = key; (r = next_value(r));) {
        ct_text_addf(t, "%s%s", before,
                     stands_for_numbers(r) ? "a number from 1" : r->value);
        before = ", ";
    }
}

static enum ct_status refuse_value(const struct ct_impl_row *key,
                                   struct word value)
{
    struct ct_nearest near = ct_nearest(value.s, value.n);
    struct ct_text t       = { 0 };

    ct_text_addf(&t, "%s has no value '%.*s'", key->key, shown(value),
                 value.s);
    for (const struct ct_impl_row *r = key; (r = next_value(r));)
        if (!stands_for_numbers(r))
            ct_nearest_try(&near, r->value, strlen(r->value));
    add_nearest(&t, &near);
    add_values(&t, key);
    return refuse(&t);
}

static enum ct_status refuse_list(const struct ct_impl_row *key,
                                  const char *what)
{
    struct ct_text t = { 0 };

    ct_text_addf(&t, "%s %s.", key->key, what);
    add_values(&t, key);
    return refuse(&t);
}

static enum ct_status check_item(struct word item)
{
    const struct word key       = cut(&item, ":");
    const struct ct_impl_row *k = key_row(key);
    int n                       = 0;

    if (!k)
        return refuse_key(key);
    if (item.n == 0)
        return refuse_list(k, "has no value behind it");
    if (asked_for(k->key).s != item.s)
        return refuse_list(k, "is named twice; give it all values at once");
    for (bool more = true; more; n++) {
        const char *before      = item.s;
        const struct word value = cut(&item, "+");

        more = item.s > before + value.n; /* a + was there */
        if (!value_row(k, value))
            return refuse_value(k, value);
    }
    if (n > 1 && !takes_several(k))
        return refuse_list(k, "takes one value");
    return CT_OK;
}

enum ct_status ct_impl_check(void)
{
    struct word rest = word_of(variable());

    while (rest.n > 0) {
        const struct word item = cut(&rest, ",");

        if (item.n > 0)
            CT_TRY(check_item(item));
    }
    return CT_OK;
}
