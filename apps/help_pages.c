/* help_pages.c - the tables as flags.md and cortado.1 of docs/reference. */
#include <string.h>

#include "help.h"

enum { LINE_BYTES = 512 };

static const char *or_dash(const char *text)
{
    return text ? text : "";
}

/* A table cell: `|` would end it. */
static void cell(FILE *to, const char *text)
{
    for (; *text; text++)
        fprintf(to, *text == '|' ? "\\|" : "%c", *text);
}

static void markdown_group(FILE *to, enum flag_group group)
{
    fprintf(to, "\n## %s flags\n%c%s.\n\n", flag_group_name(group),
            flag_group_about(group)[0] - 'a' + 'A',
            flag_group_about(group) + 1);
    fprintf(to, "| flag | commands | default | meaning |\n"
                "|---|---|---|---|\n");
    for (int i = 0; i < n_flag_table; i++) {
        const struct flag_info *f = &flag_table[i];
        char line[LINE_BYTES];

        if (f->group != group)
            continue;
        fprintf(to, "| `--%s%s%s` | %s | %s | ", f->name, f->value ? "=" : "",
                or_dash(f->value), f->commands[0] ? f->commands : "all",
                or_dash(f->initial));
        cell(to, flag_help(f, line, sizeof(line)));
        fprintf(to, " |\n");
    }
}

void help_markdown(FILE *to)
{
    fprintf(to, "# Commands, flags, environment\n\n"
                "This page is printed by `cortado help --markdown`, out of "
                "the tables that the program itself works with.\n\n"
                "A flag takes one dash or two, `-` or `_` inside its name, "
                "and `=` or a space before its value. A switch takes none: "
                "`--overlap`, `--nooverlap`, `--overlap=false`. The flags of "
                "the groups ranks, network and faults stand in the solver "
                "prototxt as well, e.g. `distributed { road: \"allreduce\" "
                "}`; a flag wins.\n\n## Commands\n");
    for (int i = 0; i < n_commands; i++)
        fprintf(to, "\n### %s\n```\n%s\n```\n%s\n", commands[i].name,
                commands[i].usage, commands[i].about);
    for (int g = 0; g < N_FLAG_GROUPS; g++)
        markdown_group(to, (enum flag_group)g);
    fprintf(to, "\n## Environment variables\n\n| variable | meaning |\n"
                "|---|---|\n");
    for (int i = 0; i < n_env_table; i++) {
        fprintf(to, "| `%s=", env_table[i].name);
        cell(to, env_table[i].value);
        fprintf(to, "` | ");
        cell(to, env_table[i].help);
        fprintf(to, " |\n");
    }
    fprintf(to, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n"
                "| 0 | done |\n| 1 | the command line is wrong |\n"
                "| 2 | bad input: a file or value that was given |\n"
                "| 3 | a failure at run time |\n"
                "| 4 | training was asked to stop and wrote a snapshot |\n");
}

/* Text of a manual page: a hyphen that may be typed, no line that starts
 * with a dot, no backslash that is read. */
static void roff(FILE *to, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", to);
    for (; *text; text++)
        fprintf(to, *text == '-' ? "\\-" : *text == '\\' ? "\\e" : "%c",
                *text);
}

static void man_flag(FILE *to, const struct flag_info *f)
{
    char line[LINE_BYTES];

    fprintf(to, ".TP\n\\fB\\-\\-%s\\fR%s\\fI", f->name, f->value ? "=" : "");
    roff(to, or_dash(f->value));
    fprintf(to, "\\fR\n");
    roff(to, flag_help(f, line, sizeof(line)));
    if (f->initial)
        fprintf(to, " (default %s)", f->initial);
    if (f->commands[0])
        fprintf(to, ".\n[%s]\n", f->commands);
    else
        fprintf(to, ".\n");
}

static void man_commands(FILE *to)
{
    fprintf(to, ".SH COMMANDS\n");
    for (int i = 0; i < n_commands; i++) {
        fprintf(to, ".TP\n.B ");
        for (const char *c = commands[i].usage; *c; c++)
            if (*c == '\n')
                fprintf(to, "\n.TQ\n.B ");
            else
                fprintf(to, *c == '-' ? "\\-" : "%c", *c);
        fputc('\n', to);
        roff(to, commands[i].about);
        fputc('\n', to);
    }
}

static void man_flags(FILE *to)
{
    fprintf(to, ".SH FLAGS\n"
                "The commands that take a flag stand in brackets.\n");
    for (int g = 0; g < N_FLAG_GROUPS; g++) {
        fprintf(to, ".SS %s: ", flag_group_name((enum flag_group)g));
        roff(to, flag_group_about((enum flag_group)g));
        fputc('\n', to);
        for (int i = 0; i < n_flag_table; i++)
            if (flag_table[i].group == (enum flag_group)g)
                man_flag(to, &flag_table[i]);
    }
}

static const char man_head[] =
    ".TH CORTADO 1 \"\" \"Cortado " CT_VERSION "\" \"User Commands\"\n"
    ".SH NAME\ncortado \\- train, test and time Caffe models\n"
    ".SH SYNOPSIS\n.B cortado\n.I COMMAND\n[\\fIFLAGS\\fR] "
    "[\\fIARGUMENTS\\fR]\n.br\n.B cortado help\n[\\fICOMMAND\\fR]\n"
    ".SH DESCRIPTION\n.B cortado\n"
    "reads the prototxt, caffemodel, solverstate and database files of Caffe\n"
    "and computes what Caffe computes.\n"
    "Commands and flags are those of the\n.B caffe\nprogram and its tools.\n"
    "A flag takes one dash or two, \\- or _ inside its name, and an equals\n"
    "sign or a space before its value.\n";

static const char man_tail[] =
    ".SH OUTPUT\n"
    "Log lines go to standard error in the format of glog and with Caffe's\n"
    "sentences, so that programs which parse Caffe's logs work.\n"
    "On a terminal a progress line is added.\n"
    ".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nThe command line is wrong."
    "\n.TP\n.B 2\nBad input: a file or value that was given.\n"
    ".TP\n.B 3\nA failure at run time.\n"
    ".TP\n.B 4\nTraining was asked to stop and wrote a snapshot.\n"
    ".SH EXAMPLES\n.TP\nTrain, and go on after an interruption:\n"
    ".B cortado train \\-\\-solver=solver.prototxt \\-\\-snapshot=auto\n"
    ".TP\nScore a model:\n"
    ".B cortado test \\-\\-model=net.prototxt "
    "\\-\\-weights=net_iter_500.caffemodel\n";

void help_man(FILE *to)
{
    fputs(man_head, to);
    man_commands(to);
    man_flags(to);
    fprintf(to, ".SH ENVIRONMENT\n");
    for (int i = 0; i < n_env_table; i++) {
        fprintf(to, ".TP\n\\fB%s\\fR=\\fI", env_table[i].name);
        roff(to, env_table[i].value);
        fprintf(to, "\\fR\n");
        roff(to, env_table[i].help);
        fprintf(to, ".\n");
    }
    fputs(man_tail, to);
}
