/* cmd_join.c - `cortado join`: ranks of this machine for a running job.
 *
 * The job says how it was started: its folder and its flags.  The ranks start
 * in the same way, and find the job at the address that was given. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "command.h"
#include "elastic/rendezvous.h"
#include "flags.h"
#include "help.h"

struct join_flags {
    const char *secret_file;
    int         ranks, threads;
};

/* Flags that are this machine's own. */
static bool is_own(const char *word)
{
    static const char *const own[] = { "ranks", "threads", "rendezvous",
                                       "secret_file", "weights", "snapshot" };
    const char *name = word + strspn(word, "-");
    const size_t n   = strcspn(name, "=");

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strlen(own[i]) == n && strncmp(own[i], name, n) == 0)
            return true;
    return false;
}

/* A command line under way. */
struct words {
    char **word; /* owned */
    int    n;
    char  *room; /* for those that this machine says itself */
    size_t bytes;
};

static enum ct_status add_own(struct words *w, const char *name,
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
static enum ct_status add_all_own(struct words *w, const char *where,
                                  const struct join_flags *f, bool is_program)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", f->ranks);
    CT_TRY(add_own(w, "ranks", number));
    snprintf(number, sizeof(number), "%d", f->threads);
    if (!is_program)
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

/* The words of a description, from its second line on, that are not this
 * machine's, and what it says instead of those.  Those of `cortado launch`
 * begin with that word; behind `--` are those of a program. */
static enum ct_status build_words(char *description, const char *where,
                                  const struct join_flags *f, struct words *w,
                                  char **folder)
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
        if (!flags || !is_own(word))
            w->word[w->n++] = word;
        else if (!strchr(word, '=')) /* its value is the next word */
            (void)!take_line(&rest);
    }
    return CT_OK;
}

static enum ct_status join(const char *where, const struct join_flags *f,
                           int *code)
{
    struct rendezvous r = { .door = -1 };
    char *description = NULL, *folder = NULL, room[4 * PATH_MAX];
    struct words w    = { .room = room, .bytes = sizeof(room) };
    enum ct_status st;

    CT_TRY_GOTO(rendezvous_find(&r, where, f->secret_file), st, out);
    CT_TRY_GOTO(rendezvous_ask(&r, MEMBER_ASK_DESCRIPTION, &description), st,
                out);
    CT_TRY_GOTO(build_words(description, where, f, &w, &folder), st, out);
    if (!folder || chdir(folder) != 0) {
        st = ct_fail(CT_ENOTFOUND, "the job runs in %s, which is not here: %s",
                     folder ? folder : "no folder", strerror(errno));
        goto out;
    }
    *code = strcmp(w.word[0], "launch") == 0 ? cmd_launch(w.n, w.word)
                                             : cmd_train(w.n, w.word);
out:
    rendezvous_close(&r);
    ct_free(w.word);
    ct_free(description);
    return st;
}

int cmd_join(int argc, char **argv)
{
    struct join_flags f       = { .ranks = 1 };
    const struct flag flags[] = { FLAG("secret_file", &f.secret_file),
                                  FLAG("ranks", &f.ranks),
                                  FLAG("threads", &f.threads), FLAG_END };
    char secret[PATH_MAX], folder[PATH_MAX], where[PATH_MAX + 8];
    int code = EXIT_DONE;
    enum ct_status st;
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        help_usage(stderr, command_named("join"));
        return EXIT_USAGE;
    }
    /* The job's folder may be another one. */
    if (f.secret_file && realpath(f.secret_file, secret))
        f.secret_file = secret;
    if (strncmp(argv[1], "file:", 5) == 0 && realpath(argv[1] + 5, folder))
        snprintf(where, sizeof(where), "file:%s", folder);
    else
        snprintf(where, sizeof(where), "%s", argv[1]);
    st = join(where, &f, &code);
    return st == CT_OK ? code : command_failed(ct_fail_in(st, "%s", argv[1]));
}
