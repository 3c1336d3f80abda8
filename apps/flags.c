/* flags.c - the command line. */
#include "flags.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "command.h"
#include "flag_table.h"
#include "help.h"
#include "launch.h"
#include "log_lines.h"
#include "proto/nearest.h"

/* One flag of a command: what the table says of it, and where it goes. */
struct found {
    const struct flag_info *info;
    const struct flag      *flag;
};

static bool same_name(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b[i] == '\0' || (a[i] == '-' ? '_' : a[i]) != b[i])
            return false;
    return b[n] == '\0';
}

static const struct flag *place_of(const struct flag *flags, const char *name)
{
    for (; flags->name; flags++)
        if (strcmp(flags->name, name) == 0)
            return flags;
    return NULL;
}

static const struct flag *list_of(const struct flag *flags,
                                  const struct flag_info *info)
{
    return info->group == GROUP_LOG ? log_lines_flags : flags;
}

static struct found find(const struct flag *flags, const char *command,
                         const char *name, size_t n)
{
    for (int i = 0; i < n_flag_table; i++) {
        const struct flag_info *info = &flag_table[i];

        if (flag_is_of(info, command) && same_name(name, info->name, n))
            return (struct found){ info, place_of(list_of(flags, info),
                                                  info->name) };
    }
    return (struct found){ NULL, NULL };
}

/* The table and the command's list say the same, or the program is wrong. */
static void check_table(const struct flag *flags, const char *command)
{
    for (int i = 0; i < n_flag_table; i++)
        if (flag_is_of(&flag_table[i], command))
            CT_ASSERT(place_of(list_of(flags, &flag_table[i]),
                               flag_table[i].name));
    for (; flags->name; flags++) {
        struct found f = find(flags, command, flags->name,
                              strlen(flags->name));

        CT_ASSERT(f.info && f.flag == flags);
        CT_ASSERT(flags->place == PLACE_TEXT ||
                  (flags->place == PLACE_INT && f.info->kind == FLAG_INT) ||
                  (flags->place == PLACE_DOUBLE &&
                   f.info->kind == FLAG_DOUBLE) ||
                  (flags->place == PLACE_BOOL && f.info->kind == FLAG_SWITCH));
    }
}

static bool is_switch(const struct flag_info *f)
{
    return f->kind == FLAG_SWITCH || f->kind == FLAG_MAYBE;
}

static bool one_of(const char *value, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(value, *words) == 0)
            return true;
    return false;
}

static bool set_switch(const struct flag *f, const char *value)
{
    static const char *const yes[] = { "true", "1", "yes", "t", "y", NULL };
    static const char *const no[]  = { "false", "0", "no", "f", "n", NULL };
    const bool on                  = one_of(value, yes);

    if (f->place == PLACE_BOOL)
        *(bool *)f->value = on;
    else
        *(const char **)f->value = on ? "true" : "false";
    return on || one_of(value, no);
}

static bool set(const struct found *f, const char *value)
{
    char *end    = NULL;
    long whole   = 0;
    double real  = 0;

    errno = 0;
    if (is_switch(f->info))
        return set_switch(f->flag, value);
    if (f->info->kind == FLAG_INT)
        whole = strtol(value, &end, 0);
    else if (f->info->kind == FLAG_DOUBLE)
        real = strtod(value, &end);
    if (end && (!*value || *end || errno || whole < INT_MIN ||
                whole > INT_MAX))
        return false;
    if (f->flag->place == PLACE_INT)
        *(int *)f->flag->value = (int)whole;
    else if (f->flag->place == PLACE_DOUBLE)
        *(double *)f->flag->value = real;
    else
        *(const char **)f->flag->value = value;
    return true;
}

static void say_unknown(const char *command, const char *name, size_t n)
{
    struct ct_nearest near = ct_nearest(name, n);

    for (int i = 0; i < n_flag_table; i++)
        if (flag_is_of(&flag_table[i], command))
            ct_nearest_try(&near, flag_table[i].name,
                           strlen(flag_table[i].name));
    fprintf(stderr, "cortado: unknown flag --%.*s%s%s%s\n", (int)n, name,
            near.best ? "; did you mean --" : "", near.best ? near.best : "",
            near.best ? "?" : "");
}

/* One flag at argv[*i]; moves *i past its value. */
static bool take(const struct flag *flags, int argc, char **argv, int *i)
{
    const char *arg = argv[*i] + 1, *value;
    char line[512];
    struct found f;
    size_t n;

    arg += *arg == '-';
    n     = strcspn(arg, "=");
    f     = find(flags, argv[0], arg, n);
    value = arg[n] == '=' ? arg + n + 1 : NULL;
    if (!f.info && n > 2 && strncmp(arg, "no", 2) == 0) {
        struct found on = find(flags, argv[0], arg + 2, n - 2);

        if (on.info && is_switch(on.info))
            return set(&on, "false");
    }
    if (!f.info) {
        launch_await_turn();
        say_unknown(argv[0], arg, n);
        return false;
    }
    if (!value && is_switch(f.info))
        value = "true";
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value) {
        fprintf(stderr, "cortado: --%s needs a value: --%s=%s\n",
                f.info->name, f.info->name, f.info->value);
        return false;
    }
    if (!set(&f, value)) {
        fprintf(stderr, "cortado: --%s cannot be '%s': %s\n", f.info->name,
                value, flag_help(f.info, line, sizeof(line)));
        return false;
    }
    return true;
}

const char *flags_peek(const char *command, char *const *words,
                       const char *name)
{
    static const struct flag none[] = { FLAG_END };
    const char *value               = NULL;

    for (; *words; words++) {
        const char *arg = *words + (words[0][0] == '-') +
                          (strncmp(*words, "--", 2) == 0);
        const size_t n  = strcspn(arg, "=");
        struct found f  = { NULL, NULL };

        if (arg != *words)
            f = find(none, command, arg, n);
        if (!f.info || is_switch(f.info))
            continue;
        if (arg[n] != '=' && !words[1])
            break;
        arg = arg[n] == '=' ? arg + n + 1 : *++words;
        if (strcmp(f.info->name, name) == 0)
            value = arg;
    }
    return value;
}

enum ct_status flags_keep_words(int argc, char **argv, char ***out)
{
    CT_TRY(ct_alloc((size_t)argc + 1, sizeof(**out), "a command line", out));
    for (int i = 0; i < argc; i++)
        (*out)[i] = argv[i];
    return CT_OK;
}

bool flags_parse(const struct flag *flags, int *argc, char **argv,
                 bool *helped)
{
    int n = 1;

    check_table(flags, argv[0]);
    log_lines_defaults();
    *helped = false;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-help") == 0 ||
            strcmp(argv[i], "-h") == 0) {
            help_command(stdout, command_named(argv[0]));
            *helped = true;
            return false;
        }
        /* A lone '-' and negative numbers are arguments, not flags. */
        if (argv[i][0] != '-' || argv[i][1] == '\0' ||
            isdigit((unsigned char)argv[i][1])) {
            argv[n++] = argv[i];
        } else if (!take(flags, *argc, argv, &i)) {
            fprintf(stderr, "Try 'cortado help %s'.\n", argv[0]);
            return false;
        }
    }
    *argc = n;
    if (log_lines_apply(program_invocation_short_name) != CT_OK) {
        fprintf(stderr, "cortado: %s\n", ct_last_error());
        return false;
    }
    return true;
}

int flags_list(char *text, const char ***out)
{
    int n = 0, most = 1;
    char *part;

    for (const char *c = text; *c; c++)
        most += *c == ',';
    *out = ct_calloc((size_t)most, sizeof(**out), "flag list");
    while (*out && text && *text && (part = strsep(&text, ",")))
        (*out)[n++] = part;
    return n;
}
