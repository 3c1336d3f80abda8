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

/* The words of a description, from its second line on, that are not this
 * machine's; what it says instead of those. */
static enum ct_status build_words(char *description, const char *where,
                                  const struct join_flags *f, char *own,
                                  size_t own_bytes, char ***out, int *n)
{
    size_t lines = 8;
    char *save   = NULL;
    int k        = 0;

    for (const char *p = description; *p; p++)
        lines += *p == '\n';
    CT_TRY(ct_alloc(lines, sizeof(**out), "a command line", out));
    (*out)[k++] = strtok_r(description, "\n", &save);
    for (char *word; (word = strtok_r(NULL, "\n", &save));) {
        if (!is_own(word))
            (*out)[k++] = word;
        else if (!strchr(word, '=')) /* its value is the next word */
            (void)!strtok_r(NULL, "\n", &save);
    }
    for (int i = 0; i < 4; i++) {
        const char *form[] = { "--ranks=%d", "--threads=%d" };
        const int bytes =
            i < 2 ? snprintf(own, own_bytes, form[i],
                             i == 0 ? f->ranks : f->threads)
            : i == 2 ? snprintf(own, own_bytes, "--rendezvous=%s", where)
                     : snprintf(own, own_bytes, "--secret_file=%s",
                                f->secret_file ? f->secret_file : "");

        if (i == 3 && !f->secret_file)
            continue;
        if (bytes < 0 || (size_t)bytes >= own_bytes)
            return ct_fail(CT_EINVAL, "an address or a file of %d letters",
                           bytes);
        (*out)[k++] = own;
        own += bytes + 1;
        own_bytes -= (size_t)bytes + 1;
    }
    *n = k;
    return CT_OK;
}

static enum ct_status join(const char *where, const struct join_flags *f,
                           int *code)
{
    struct rendezvous r = { .door = -1 };
    char *description = NULL, **words = NULL, own[4 * PATH_MAX];
    enum ct_status st;
    int n = 0;

    CT_TRY_GOTO(rendezvous_find(&r, where, f->secret_file), st, out);
    CT_TRY_GOTO(rendezvous_ask(&r, MEMBER_ASK_DESCRIPTION, &description), st,
                out);
    CT_TRY_GOTO(build_words(description, where, f, own, sizeof(own), &words,
                            &n), st, out);
    if (chdir(words[0]) != 0) {
        st = ct_fail(CT_ENOTFOUND, "the job runs in %s, which is not here: %s",
                     words[0], strerror(errno));
        goto out;
    }
    words[0] = (char[]){ "train" };
    *code    = cmd_train(n, words);
out:
    rendezvous_close(&r);
    ct_free(words);
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
