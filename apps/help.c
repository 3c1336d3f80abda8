/* help.c - `cortado help` and --help: the tables as text. */
#include "help.h"

#include <stdlib.h>
#include <string.h>

#include "flags.h"
#include "proto/nearest.h"

enum { WIDTH = 79, INDENT = 28, TEXT_BYTES = 512 };

void help_wrapped(FILE *to, const char *text, int indent, int at)
{
    while (*text) {
        const int n = (int)strcspn(text, " ");

        if (at > indent && at + 1 + n > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', to);
            at++;
        }
        for (int i = 0; i < n; i++)
            fputc(text[i] == '\t' ? ' ' : text[i], to);
        at += n;
        text += n + (text[n] == ' ');
    }
    fputc('\n', to);
}

/* "  NAME" and beside it, or on the next line, what it means. */
static void entry(FILE *to, const char *name, const char *text)
{
    const int n = fprintf(to, "  %s", name);

    if (n >= INDENT)
        fprintf(to, "\n%*s", INDENT, "");
    else
        fprintf(to, "%*s", INDENT - n, "");
    help_wrapped(to, text, INDENT, INDENT);
}

void help_usage(FILE *to, const struct command *c)
{
    const char *line = c->usage, *before = "usage: ";

    while (*line) {
        const size_t n = strcspn(line, "\n");
        char text[TEXT_BYTES];

        snprintf(text, sizeof(text), "%.*s", (int)n, line);
        fputs(before, to);
        help_wrapped(to, text, 11, 7);
        before = "       ";
        line += n + (line[n] == '\n');
    }
}

static void help_group(FILE *to, enum flag_group group, const char *command)
{
    bool any = false;

    for (int i = 0; i < n_flag_table; i++) {
        const struct flag_info *f = &flag_table[i];
        char name[TEXT_BYTES], text[2 * TEXT_BYTES], line[TEXT_BYTES];

        if (f->group != group || !flag_is_of(f, command))
            continue;
        if (!any)
            fprintf(to, "\n%s flags: %s\n", flag_group_name(group),
                    flag_group_about(group));
        any = true;
        snprintf(name, sizeof(name), "--%s%s%s", f->name, f->value ? "=" : "",
                 f->value ? f->value : "");
        snprintf(text, sizeof(text), f->initial ? "%s (default\t%s)" : "%s",
                 flag_help(f, line, sizeof(line)), f->initial);
        entry(to, name, text);
    }
}

void help_command(FILE *to, const struct command *c)
{
    help_usage(to, c);
    fputc('\n', to);
    help_wrapped(to, c->about, 0, 0);
    for (int g = 0; g < GROUP_LOG; g++)
        help_group(to, (enum flag_group)g, c->name);
    fprintf(to, "\nFlags of the log: 'cortado help log'.  Environment "
                "variables: 'cortado help\nenvironment'.\n");
}

void help_commands(FILE *to)
{
    fprintf(to, "usage: cortado COMMAND [FLAGS] [ARGUMENTS]\n\ncommands:\n");
    for (int i = 0; i < n_commands; i++)
        fprintf(to, "  %-26s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n'cortado help COMMAND' explains a command; "
                "'cortado --version' prints the version.\n");
}

static void help_environment(FILE *to)
{
    fprintf(to, "Environment variables:\n");
    for (int i = 0; i < n_env_table; i++) {
        const struct env_info *e = &env_table[i];
        char name[TEXT_BYTES];

        snprintf(name, sizeof(name), "%s=%s", e->name, e->value);
        entry(to, name, e->help);
    }
}

static int help_topic(const char *topic)
{
    const struct command *c = command_named(topic);
    struct ct_nearest near  = ct_nearest(topic, strlen(topic));

    if (c) {
        help_command(stdout, c);
        return EXIT_DONE;
    }
    if (strcmp(topic, "log") == 0) {
        help_group(stdout, GROUP_LOG, "");
        return EXIT_DONE;
    }
    if (strcmp(topic, "environment") == 0) {
        help_environment(stdout);
        return EXIT_DONE;
    }
    for (int i = 0; i < n_commands; i++)
        ct_nearest_try(&near, commands[i].name, strlen(commands[i].name));
    fprintf(stderr, "cortado help: there is no command '%s'%s%s%s\n", topic,
            near.best ? "; did you mean '" : "", near.best ? near.best : "",
            near.best ? "'?" : "");
    return EXIT_USAGE;
}

int cmd_help(int argc, char **argv)
{
    bool markdown = false, man = false, helped;
    const struct flag flags[] = { FLAG("markdown", &markdown),
                                  FLAG("man", &man), FLAG_END };

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc > 2 || (argc == 2 && (markdown || man)) || (markdown && man)) {
        help_usage(stderr, command_named("help"));
        return EXIT_USAGE;
    }
    if (argc == 2)
        return help_topic(argv[1]);
    if (markdown)
        help_markdown(stdout);
    else if (man)
        help_man(stdout);
    else
        help_commands(stdout);
    return EXIT_DONE;
}
