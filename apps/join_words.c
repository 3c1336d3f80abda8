/* join_words.c - the command line with which ranks join a job. */
#include "join_words.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Flags that are this machine's own; --threads is, if it is given. */
static bool is_own(const char *word, const struct join_flags *f)
{
    const char *const own[] = { "ranks", "rendezvous", "secret_file",
                                "weights", "snapshot",
                                f->threads > 0 ? "threads" : "" };
    const char *name = word + strspn(word, "-");
    const size_t n   = strcspn(name, "=");

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strlen(own[i]) == n && strncmp(own[i], name, n) == 0)
            return true;
    return false;
}

static enum ct_status add_own(struct join_words *w, const char *name,
                              const char *value)
{
    const int n = snprintf(w->room, w->bytes, "--%s=%s", name, value);

    if (n < 0 || (size_t)n >= w->bytes)
        return ct_fail(CT_EINVAL, "--%s: %d letters are too many", name, n);
    w->word[w->n++] = w->room;
    w->room += n + 1;
    w->bytes -= (size_t)n + 1;
    return CT_OK;
}

/* What this machine says instead of what the job's said. */
static enum ct_status add_all_own(struct join_words *w, const char *where,
                                  const struct join_flags *f, bool is_program)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", f->ranks);
    CT_TRY(add_own(w, "ranks", number));
    snprintf(number, sizeof(number), "%d", f->threads);
    if (!is_program && f->threads > 0)
        CT_TRY(add_own(w, "threads", number));
    else if (f->threads > 0 && setenv("OMP_NUM_THREADS", number, 1) != 0)
        return ct_fail(CT_ENOMEM, "the environment: %s", strerror(errno));
    CT_TRY(add_own(w, "rendezvous", where));
    return f->secret_file ? add_own(w, "secret_file", f->secret_file) : CT_OK;
}

/* A word may be empty; NULL: there is none. */
static char *take_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *end  = '\0';
    *rest = end + 1;
    return line;
}

enum ct_status join_words_build(char *description, const char *where,
                                const struct join_flags *f,
                                struct join_words *w, char **folder)
{
    static char train[] = "train";
    size_t lines        = 8;
    char *rest          = description, *word;
    bool is_program;

    for (const char *p = description; *p; p++)
        lines += *p == '\n';
    CT_TRY(ct_alloc(lines, sizeof(*w->word), "a command line", &w->word));
    *folder    = take_line(&rest);
    word       = take_line(&rest);
    is_program = word && strcmp(word, "launch") == 0;
    w->word[w->n++] = is_program ? word : train;
    CT_TRY(add_all_own(w, where, f, is_program));
    if (is_program)
        word = take_line(&rest);
    for (bool flags = true; word; word = take_line(&rest)) {
        flags &= strcmp(word, "--") != 0;
        if (!flags || !is_own(word, f))
            w->word[w->n++] = word;
        else if (!strchr(word, '=')) /* its value is the next word */
            (void)!take_line(&rest);
    }
    return CT_OK;
}
