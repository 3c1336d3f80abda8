/* read.c - nets and solvers from files, in today's form. */
#include "cortado/proto.h"

static enum ct_status read_net(enum ct_status st, Caffe__NetParameter *net,
                               const char *path, Caffe__NetParameter **out)
{
    CT_TRY(st);
    st = ct_upgrade_net(net, path);
    if (st != CT_OK) {
        ct_message_free(net);
        return st;
    }
    *out = net;
    return CT_OK;
}

enum ct_status ct_net_param_read(const char *path, Caffe__NetParameter **out)
{
    Caffe__NetParameter *net = NULL;
    enum ct_status st =
        ct_text_read(&caffe__net_parameter__descriptor, path, &net);

    return read_net(st, net, path, out);
}

enum ct_status ct_net_param_read_binary(const char *path,
                                        Caffe__NetParameter **out)
{
    Caffe__NetParameter *net = NULL;
    enum ct_status st =
        ct_binary_read(&caffe__net_parameter__descriptor, path, &net);

    return read_net(st, net, path, out);
}

enum ct_status ct_solver_param_read(const char *path,
                                    Caffe__SolverParameter **out)
{
    Caffe__SolverParameter *solver = NULL;
    enum ct_status st;

    CT_TRY(ct_text_read(&caffe__solver_parameter__descriptor, path, &solver));
    st = ct_upgrade_solver(solver, path);
    if (st != CT_OK) {
        ct_message_free(solver);
        return st;
    }
    *out = solver;
    return CT_OK;
}
