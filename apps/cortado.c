/* cortado.c - the program: finds the subcommand and runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "proto/nearest.h"

static const struct command commands[] = {
    { "train", "train or finetune a model", cmd_train },
    { "test", "score a model", cmd_test },
    { "classify", "say what images show", cmd_classify },
    { "time", "benchmark a model layer by layer", cmd_time },
    { "bench", "measure how fast a model trains", cmd_bench },
    { "summary", "print a model's layers, shapes and sizes", cmd_summary },
    { "net", "test and measure the network between ranks", cmd_net },
    { "plan", "predict a model's training on many ranks", cmd_plan },
    { "device_query", "show the devices there are", cmd_device_query },
    { "plot", "draw the curves of a training log", cmd_plot },
    { "make_digits", "make up a set of digits to train on", cmd_make_digits },
    { "inspect", "show what is in a file or database", cmd_inspect },
    { "convert_imageset", "a database from image files",
      cmd_convert_imageset },
    { "convert_mnist_data", "a database from MNIST's files",
      cmd_convert_mnist_data },
    { "convert_mnist_siamese_data", "a database of pairs from MNIST's files",
      cmd_convert_mnist_siamese_data },
    { "convert_cifar_data", "databases from CIFAR-10's files",
      cmd_convert_cifar_data },
    { "compute_image_mean", "the mean image of a database",
      cmd_compute_image_mean },
    { "partition_data", "deal a database out to several ranks",
      cmd_partition_data },
    { "extract_features", "databases of what blobs hold",
      cmd_extract_features },
    { "upgrade_net_proto_text", "an older net prototxt in today's form",
      cmd_upgrade_net_proto_text },
    { "upgrade_net_proto_binary", "an older caffemodel in today's form",
      cmd_upgrade_net_proto_binary },
    { "upgrade_solver_proto_text", "an older solver in today's form",
      cmd_upgrade_solver_proto_text },
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void usage(FILE *to)
{
    fprintf(to, "usage: cortado COMMAND [FLAGS]\n\ncommands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-26s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n'cortado COMMAND --help' shows its flags; "
                "'cortado --version' the version.\n");
}

int command_failed(enum ct_status st)
{
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

    for (int i = 0; i < N_COMMANDS; i++)
        ct_nearest_try(&near, commands[i].name, strlen(commands[i].name));
    fprintf(stderr, "cortado: unknown command '%s'%s%s%s\n\n", name,
            near.best ? "; did you mean '" : "", near.best ? near.best : "",
            near.best ? "'?" : "");
    usage(stderr);
    return EXIT_USAGE;
}

/* Caffe takes flags before the command too: the first argument that is a
 * command's name is the command. */
static int find_command(int argc, char **argv, const struct command **out)
{
    for (int i = 1; i < argc; i++)
        for (int c = 0; c < N_COMMANDS; c++)
            if (strcmp(argv[i], commands[c].name) == 0) {
                *out = &commands[c];
                return i;
            }
    return 0;
}

/* Caffe's tools are programs of their own: called by such a name, through a
 * link, this is that tool. */
static const struct command *by_program_name(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name  = slash ? slash + 1 : program;

    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct command *c = argc > 0 ? by_program_name(argv[0]) : NULL;
    char *name;
    int at;

    /* A file-size limit is a failed write like any other. */
    signal(SIGXFSZ, SIG_IGN);
    if (c) {
        argv[0] = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
        return c->run(argc, argv);
    }
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-version") == 0) {
        printf("cortado version %s\n", CT_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return EXIT_DONE;
    }
    at = find_command(argc, argv, &c);
    if (!at)
        return unknown(argv[1]);
    /* Bring the command to the front, in place of the program's name. */
    name = argv[at];
    memmove(argv + 1, argv, (size_t)at * sizeof(*argv));
    argv[1] = name;
    return c->run(argc - 1, argv + 1);
}
