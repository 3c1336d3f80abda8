/* cortado.c - the program: finds the subcommand and runs it. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/impl.h"
#include "help.h"
#include "launch.h"
#include "proto/nearest.h"

int command_failed(enum ct_status st)
{
    if (st != CT_ECOMM) /* what happened between ranks, each saw for itself */
        launch_await_turn();
    CT_ERROR("%s", ct_last_error());
    switch (st) {
    case CT_EINVAL:
    case CT_ESHAPE:
    case CT_EPARSE:
    case CT_ENOTFOUND:
    case CT_EEXIST:
    case CT_ENOTSUP:
        return EXIT_INPUT;
    default:
        return EXIT_RUNTIME;
    }
}

static int unknown(const char *name)
{
    struct ct_nearest near = ct_nearest(name, strlen(name));

    for (int i = 0; i < n_commands; i++)
        ct_nearest_try(&near, commands[i].name, strlen(commands[i].name));
    fprintf(stderr, "cortado: unknown command '%s'%s%s%s\n\n", name,
            near.best ? "; did you mean '" : "", near.best ? near.best : "",
            near.best ? "'?" : "");
    help_commands(stderr);
    return EXIT_USAGE;
}

/* Caffe takes flags before the command too: the first argument that is a
 * command's name is the command. */
static int find_command(int argc, char **argv, const struct command **out)
{
    for (int i = 1; i < argc; i++)
        if ((*out = command_named(argv[i])))
            return i;
    return 0;
}

/* Caffe's tools are programs of their own, some with `.bin` behind their
 * names: called by such a name, through a link, this is that tool. */
static const struct command *by_program_name(const char *program)
{
    const char *slash = strrchr(program, '/');
    char name[64];
    size_t n;

    snprintf(name, sizeof(name), "%s", slash ? slash + 1 : program);
    n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, ".bin") == 0)
        name[n - 4] = '\0';
    if (strcmp(name, "classification") == 0) /* of Caffe's C++ example */
        return command_named("classify");
    return command_named(name);
}

/* The environment is checked first, except for the commands that explain it. */
static int run_command(const struct command *c, int argc, char **argv)
{
    enum ct_status st = ct_impl_check();

    if (st == CT_OK || strcmp(c->name, "help") == 0 ||
        strcmp(c->name, "impl") == 0)
        return c->run(argc, argv);
    return command_failed(st);
}

int main(int argc, char **argv)
{
    const struct command *c = argc > 0 ? by_program_name(argv[0]) : NULL;
    char *name;
    int at;

    /* A file-size limit is a failed write like any other. */
    signal(SIGXFSZ, SIG_IGN);
    if (c) {
        argv[0] = (char *)(uintptr_t)c->name;
        return run_command(c, argc, argv);
    }
    if (argc < 2) {
        help_commands(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-version") == 0) {
        printf("cortado version %s\n", CT_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_commands(stdout);
        return EXIT_DONE;
    }
    at = find_command(argc, argv, &c);
    if (!at)
        return unknown(argv[1]);
    /* Bring the command to the front, in place of the program's name. */
    name = argv[at];
    memmove(argv + 1, argv, (size_t)at * sizeof(*argv));
    argv[1] = name;
    return run_command(c, argc - 1, argv + 1);
}
