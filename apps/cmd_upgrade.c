/* cmd_upgrade.c - `cortado upgrade_net_proto_text`, `upgrade_net_proto_binary`
 * and `upgrade_solver_proto_text`: older files in today's form. */
#include <stdio.h>
#include <string.h>

#include "log_lines.h"
#include "tool.h"

static bool net_is_old(const Caffe__NetParameter *net)
{
    if (net->n_layers > 0 || net->n_input > 0)
        return true;
    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];

        if (l->type && strcmp(l->type, "BatchNorm") == 0 && l->n_param == 3)
            return true;
    }
    return false;
}

static enum ct_status upgrade_net(bool binary, const char *from,
                                  const char *to)
{
    const ProtobufCMessageDescriptor *type = &caffe__net_parameter__descriptor;
    Caffe__NetParameter *net               = NULL;
    enum ct_status st;

    CT_TRY(binary ? ct_binary_read(type, from, &net)
                  : ct_text_read(type, from, &net));
    if (!net_is_old(net))
        CT_WARN("File already in latest proto format: %s", from);
    st = ct_upgrade_net(net, from);
    if (st == CT_OK)
        st = binary ? ct_binary_write(net, to) : ct_text_write(net, to);
    ct_message_free(net);
    if (st == CT_OK)
        CT_INFO("Wrote upgraded NetParameter %s proto to %s",
                binary ? "binary" : "text", to);
    return st;
}

static enum ct_status upgrade_solver(const char *from, const char *to)
{
    Caffe__SolverParameter *solver = NULL;
    enum ct_status st = CT_OK;

    CT_TRY(ct_text_read(&caffe__solver_parameter__descriptor, from, &solver));
    /* As Caffe does it: snapshot_prefix is filled in together with the type,
     * and not in a solver that is new already. */
    if (solver->has_solver_type)
        st = ct_upgrade_solver(solver, from);
    else
        CT_WARN("File already in latest proto format: %s", from);
    if (st == CT_OK)
        st = ct_text_write(solver, to);
    ct_message_free(solver);
    if (st == CT_OK)
        CT_INFO("Wrote upgraded SolverParameter text proto to %s", to);
    return st;
}

enum kind { NET_TEXT, NET_BINARY, SOLVER_TEXT };

static int run(enum kind kind, int argc, char **argv)
{
    const struct flag flags[] = { FLAG_END };
    int code;
    enum ct_status st;

    if (!tool_parse(flags, 2, 2, &argc, argv, &code))
        return code;
    /* Upgrading goes on past what it can leave out, with ERROR lines in the
     * log: those make the exit code. */
    st = kind == SOLVER_TEXT ? upgrade_solver(argv[1], argv[2])
                             : upgrade_net(kind == NET_BINARY, argv[1],
                                           argv[2]);
    if (st == CT_OK && log_lines_n_errors() > 0) {
        CT_ERROR("Encountered error(s) while upgrading %s; see details above.",
                 argv[1]);
        return EXIT_INPUT;
    }
    return tool_end(st);
}

int cmd_upgrade_net_proto_text(int argc, char **argv)
{
    return run(NET_TEXT, argc, argv);
}

int cmd_upgrade_net_proto_binary(int argc, char **argv)
{
    return run(NET_BINARY, argc, argv);
}

int cmd_upgrade_solver_proto_text(int argc, char **argv)
{
    return run(SOLVER_TEXT, argc, argv);
}
