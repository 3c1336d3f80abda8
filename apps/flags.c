/* flags.c - the command line. */
#include "flags.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "proto/nearest.h"

static int glog_level;
static bool glog_switch;
static const char *glog_text;

/* Accepted so that existing scripts run; the log goes to stderr anyway. */
static const struct flag glog_flags[] = {
    { "logtostderr", FLAG_SWITCH, &glog_switch, NULL },
    { "alsologtostderr", FLAG_SWITCH, &glog_switch, NULL },
    { "colorlogtostderr", FLAG_SWITCH, &glog_switch, NULL },
    { "log_dir", FLAG_STRING, &glog_text, NULL },
    { "log_prefix", FLAG_SWITCH, &glog_switch, NULL },
    { "logbufsecs", FLAG_STRING, &glog_text, NULL },
    { "minloglevel", FLAG_INT, &glog_level, NULL },
    { "stderrthreshold", FLAG_STRING, &glog_text, NULL },
    { "v", FLAG_STRING, &glog_text, NULL },
    { "vmodule", FLAG_STRING, &glog_text, NULL },
    { NULL, FLAG_END, NULL, NULL },
};

static bool same_name(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b[i] == '\0' || (a[i] == '-' ? '_' : a[i]) != b[i])
            return false;
    return b[n] == '\0';
}

static const struct flag *find(const struct flag *flags, const char *name,
                               size_t n)
{
    for (; flags->kind != FLAG_END; flags++)
        if (same_name(name, flags->name, n))
            return flags;
    return NULL;
}

static bool is_switch(const struct flag *f)
{
    return f->kind == FLAG_SWITCH || f->kind == FLAG_MAYBE;
}

static bool set(const struct flag *f, const char *value)
{
    bool on = strcmp(value, "false") && strcmp(value, "0") &&
              strcmp(value, "no");
    char *end;

    errno = 0;
    switch (f->kind) {
    case FLAG_STRING:
        *(const char **)f->value = value;
        return true;
    case FLAG_INT: {
        long v = strtol(value, &end, 0);

        *(int *)f->value = (int)v;
        return *value && !*end && !errno && v >= INT_MIN && v <= INT_MAX;
    }
    case FLAG_DOUBLE:
        *(double *)f->value = strtod(value, &end);
        return *value && !*end && !errno;
    case FLAG_SWITCH:
        *(bool *)f->value = on;
        return true;
    case FLAG_MAYBE:
        *(const char **)f->value = on ? "true" : "false";
        return true;
    case FLAG_END:
        break;
    }
    return false;
}

static void say_unknown(const struct flag *flags, const char *name, size_t n)
{
    struct ct_nearest near = ct_nearest(name, n);

    for (; flags->kind != FLAG_END; flags++)
        ct_nearest_try(&near, flags->name, strlen(flags->name));
    fprintf(stderr, "cortado: unknown flag --%.*s%s%s%s\n", (int)n, name,
            near.best ? "; did you mean --" : "", near.best ? near.best : "",
            near.best ? "?" : "");
}

static void print_help(const struct flag *flags, const char *usage)
{
    printf("%s\n", usage);
    if (flags->kind != FLAG_END)
        printf("\nFlags:\n");
    for (; flags->kind != FLAG_END; flags++)
        if (flags->help)
            printf("  --%-18s %s\n", flags->name, flags->help);
}

/* One flag at argv[*i]; moves *i past its value. */
static bool take(const struct flag *flags, int argc, char **argv, int *i)
{
    const char *arg = argv[*i] + 1, *value;
    const struct flag *f;
    size_t n;

    arg += *arg == '-';
    n = strcspn(arg, "=");
    f = find(flags, arg, n);
    f = f ? f : find(glog_flags, arg, n);
    value = arg[n] == '=' ? arg + n + 1 : NULL;
    if (!f && n > 2 && strncmp(arg, "no", 2) == 0) {
        const struct flag *on = find(flags, arg + 2, n - 2);

        on = on ? on : find(glog_flags, arg + 2, n - 2);
        if (on && is_switch(on))
            return set(on, "false");
    }
    if (!f) {
        say_unknown(flags, arg, n);
        return false;
    }
    if (!value && is_switch(f))
        value = "true";
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value) {
        fprintf(stderr, "cortado: --%s needs a value\n", f->name);
        return false;
    }
    if (!set(f, value)) {
        fprintf(stderr, "cortado: --%s cannot be '%s'\n", f->name, value);
        return false;
    }
    return true;
}

bool flags_parse(const struct flag *flags, const char *usage, int *argc,
                 char **argv, bool *helped)
{
    int n = 1;

    *helped = false;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-help") == 0 ||
            strcmp(argv[i], "-h") == 0) {
            print_help(flags, usage);
            *helped = true;
            return false;
        }
        /* A lone '-' and negative numbers are arguments, not flags. */
        if (argv[i][0] != '-' || argv[i][1] == '\0' ||
            isdigit((unsigned char)argv[i][1])) {
            argv[n++] = argv[i];
        } else if (!take(flags, *argc, argv, &i)) {
            fprintf(stderr, "Try 'cortado %s --help'.\n", argv[0]);
            return false;
        }
    }
    *argc = n;
    if (glog_level > 0)
        ct_log_set_level(glog_level > 3 ? CT_LOG_NONE
                                        : (enum ct_log_level)glog_level);
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
