/* command.h - what every subcommand of `cortado` is made of. */
#ifndef CT_APPS_COMMAND_H
#define CT_APPS_COMMAND_H

#include "cortado/cortado.h"

/* What the program exits with. */
enum exit_code {
    EXIT_DONE    = 0,
    EXIT_USAGE   = 1, /* the command line makes no sense */
    EXIT_INPUT   = 2, /* a file or value that was given is bad */
    EXIT_RUNTIME = 3, /* something failed while running */
    EXIT_STOPPED = 4, /* training was asked to stop, and wrote a snapshot */
    EXIT_GAVE_UP = 5, /* to `cortado launch`: an agent's ranks were killed, and
                       * it has started others often enough */
    EXIT_EARLY   = 6, /* to `cortado launch`: ranks of the agent before this one
                       * still run */
    EXIT_ALONE   = 7  /* to `cortado launch`: an agent's ranks have waited for
                       * the others of the job in vain */
};

struct command {
    const char *name;
    const char *summary; /* a few words, for the list of commands */
    const char *usage;   /* what to type; a line for each form */
    const char *about;   /* what it does, in sentences */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

extern const struct command commands[];
extern const int n_commands;

/* The command of this name, or NULL. */
const struct command *command_named(const char *name);

int cmd_autopsy(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_board(int argc, char **argv);
int cmd_classify(int argc, char **argv);
int cmd_compute_image_mean(int argc, char **argv);
int cmd_convert_annoset(int argc, char **argv);
int cmd_convert_cifar_data(int argc, char **argv);
int cmd_convert_imageset(int argc, char **argv);
int cmd_convert_mnist_data(int argc, char **argv);
int cmd_convert_mnist_siamese_data(int argc, char **argv);
int cmd_device_query(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_draw(int argc, char **argv);
int cmd_extract_features(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_get_image_size(int argc, char **argv);
int cmd_impl(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_jobs(int argc, char **argv);
int cmd_join(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_make_digits(int argc, char **argv);
int cmd_make_shapes(int argc, char **argv);
int cmd_net(int argc, char **argv);
int cmd_partition_data(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_summary(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_time(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_upgrade_net_proto_binary(int argc, char **argv);
int cmd_upgrade_net_proto_text(int argc, char **argv);
int cmd_upgrade_solver_proto_text(int argc, char **argv);

/* Logs the latest error and gives the exit code that fits `st`. */
int command_failed(enum ct_status st);

#endif
