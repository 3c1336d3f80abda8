/* choice.c - choices in memory and in the user's cache folder. */
#include "device/choice.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

struct choice {
    char          *key, *value;
    struct choice *next;
};

struct ct_choices {
    struct ct_text path; /* empty: kept in memory only */
    struct choice *first;
    int            lock; /* of the file; -1: not held */
};

enum { MOST_BYTES = 1 << 20 }; /* of a file; a larger one is begun anew */

static void choice_free(struct choice *e)
{
    if (e) {
        ct_free(e->key);
        ct_free(e->value);
        ct_free(e);
    }
}

void ct_choices_close(struct ct_choices *c)
{
    while (c && c->first) {
        struct choice *e = c->first;

        c->first = e->next;
        choice_free(e);
    }
    if (c) {
        ct_choices_go_on(c);
        ct_text_fini(&c->path);
    }
    ct_free(c);
}

static struct choice *find(const struct ct_choices *c, const char *key)
{
    for (struct choice *e = c->first; e; e = e->next)
        if (strcmp(e->key, key) == 0)
            return e;
    return NULL;
}

const char *ct_choices_find(const struct ct_choices *c, const char *key)
{
    const struct choice *e = find(c, key);

    return e ? e->value : NULL;
}

/* A copy of n bytes as a string. */
static char *copy_of(const char *s, size_t n)
{
    char *to = ct_malloc(n + 1, "choice");

    if (to) {
        memcpy(to, s, n);
        to[n] = '\0';
    }
    return to;
}

/* The last word on a key counts. */
static void remember(struct ct_choices *c, const char *key, size_t n_key,
                     const char *value, size_t n_value)
{
    struct choice *e = ct_calloc(1, sizeof(*e), "choice"), *old;

    if (!e)
        return;
    e->key   = copy_of(key, n_key);
    e->value = copy_of(value, n_value);
    if (!e->key || !e->value) {
        choice_free(e);
        return;
    }
    old = find(c, e->key);
    if (old) {
        char *gone = old->value;

        old->value = e->value;
        e->value   = gone;
        choice_free(e);
    } else {
        e->next  = c->first;
        c->first = e;
    }
}

/* Where the value of a line of n bytes starts; NULL: it is no choice. */
static const char *value_in(const char *line, size_t n)
{
    for (size_t i = 1; i + 3 < n; i++)
        if (memcmp(line + i, " = ", 3) == 0)
            return line + i + 3;
    return NULL;
}

/* The file's text; NULL where there is none, or too much. */
static char *text_of(const struct ct_choices *c)
{
    char *text = NULL;
    size_t n   = 0;

    if (!c->path.s || !ct_file_exists(c->path.s) ||
        ct_file_read(c->path.s, &text, &n) != CT_OK)
        return NULL;
    if (n > MOST_BYTES) {
        ct_free(text);
        return NULL;
    }
    return text;
}

static void read_file(struct ct_choices *c)
{
    char *text = text_of(c);

    for (const char *line = text; line && *line;) {
        size_t n          = strcspn(line, "\n");
        const char *value = value_in(line, n);

        if (value)
            remember(c, line, (size_t)(value - 3 - line), value,
                     n - (size_t)(value - line));
        line += n + (line[n] == '\n');
    }
    ct_free(text);
}

/* The folder, made where it is missing. */
static void find_path(struct ct_choices *c, const char *name)
{
    const char *off = getenv("CORTADO_CACHE"), *home = getenv("HOME");
    const char *xdg = getenv("XDG_CACHE_HOME");
    struct ct_text t = { 0 };

    if ((off && strcmp(off, "none") == 0) ||
        !((xdg && *xdg) || (home && *home)))
        return;
    ct_text_add(&t, xdg && *xdg ? xdg : home);
    if (!(xdg && *xdg))
        ct_text_add(&t, "/.cache");
    if (!t.failed)
        (void)mkdir(t.s, 0700);
    ct_text_add(&t, "/cortado");
    if (!t.failed)
        (void)mkdir(t.s, 0700);
    ct_text_addf(&t, "/%s", name);
    if (t.failed)
        ct_text_fini(&t);
    else
        c->path = t;
}

enum ct_status ct_choices_open(const char *name, struct ct_choices **out)
{
    CT_TRY(ct_alloc(1, sizeof(**out), "choices", out));
    (*out)->lock = -1;
    find_path(*out, name);
    read_file(*out);
    return CT_OK;
}

/* The lock is a file of its own: the one with the choices is replaced.  Where
 * there can be none, everybody goes on. */
static void lock(struct ct_choices *c)
{
    struct ct_text t = { 0 };

    if (!c->path.s || c->lock >= 0)
        return;
    ct_text_addf(&t, "%s.lock", c->path.s);
    if (!t.failed)
        c->lock = open(t.s, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ct_text_fini(&t);
    if (c->lock >= 0)
        (void)flock(c->lock, LOCK_EX);
}

void ct_choices_alone(struct ct_choices *c)
{
    lock(c);
    read_file(c);
}

void ct_choices_go_on(struct ct_choices *c)
{
    if (c->lock >= 0)
        (void)close(c->lock);
    c->lock = -1;
}

/* The file as it is, for others may have written to it, and one more line in
 * place of what it says about the key. */
static bool write_file(const struct ct_choices *c, const char *key,
                       const char *value)
{
    char *text       = text_of(c);
    size_t n_key     = strlen(key);
    struct ct_text t = { 0 };
    bool written;

    for (const char *line = text; line && *line;) {
        size_t n = strcspn(line, "\n");

        if (strncmp(line, key, n_key) != 0 ||
            strncmp(line + n_key, " = ", 3) != 0) {
            ct_text_add_bytes(&t, line, n);
            ct_text_add(&t, "\n");
        }
        line += n + (line[n] == '\n');
    }
    ct_text_addf(&t, "%s = %s\n", key, value);
    /* A full disk or a folder of others: nothing is lost but time. */
    written = !t.failed && ct_file_write(c->path.s, t.s, t.n_bytes) == CT_OK;
    ct_text_fini(&t);
    ct_free(text);
    return written;
}

bool ct_choices_keep(struct ct_choices *c, const char *key, const char *value)
{
    const bool held = c->lock >= 0;
    bool written;

    remember(c, key, strlen(key), value, strlen(value));
    if (!c->path.s)
        return false;
    if (!held)
        lock(c);
    written = write_file(c, key, value);
    if (!held)
        ct_choices_go_on(c);
    return written;
}

const char *ct_choices_path(const struct ct_choices *c)
{
    return c ? c->path.s : NULL;
}
