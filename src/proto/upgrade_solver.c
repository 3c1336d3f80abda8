/* upgrade_solver.c - older solvers to today's form.
 *
 *     solver_type: ADAM             type: "Adam"
 *     snapshot_prefix               where it is not set, the solver's path
 *                                   without extension; where it is a folder,
 *                                   the solver's file name inside it
 *
 * Nets that stand inside the solver are upgraded with it. */
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cortado/log.h"
#include "proto/edit.h"

#define SOLVER(name) [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__##name]

static enum ct_status solver_type(Caffe__SolverParameter *s, const char *path)
{
    static const char *const type[] = {
        SOLVER(SGD) = "SGD",           SOLVER(NESTEROV) = "Nesterov",
        SOLVER(ADAGRAD) = "AdaGrad",   SOLVER(RMSPROP) = "RMSProp",
        SOLVER(ADADELTA) = "AdaDelta", SOLVER(ADAM) = "Adam",
    };
    const char *fallback = caffe__solver_parameter__type__default_value;

    if (!s->has_solver_type)
        return CT_OK;
    if (s->type && s->type != fallback)
        return ct_fail(CT_EINVAL,
                       "%s: solver_type and type are the same thing: keep "
                       "type: \"%s\" and remove solver_type",
                       path, s->type);
    if ((size_t)s->solver_type >= sizeof(type) / sizeof(type[0]))
        return ct_fail(CT_EINVAL, "%s: unknown solver_type %d", path,
                       (int)s->solver_type);
    CT_INFO("Upgrading solver_type of %s to type: \"%s\"", path,
            type[s->solver_type]);
    s->type = NULL; /* the default belongs to nobody */
    CT_TRY(ct_edit_string(&s->type, type[s->solver_type]));
    s->has_solver_type = 0;
    s->solver_type     = CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__SGD;
    return CT_OK;
}

/* The path without the extension of its last part; a point that starts the
 * name starts no extension. */
static size_t solver_stem_bytes(const char *path, size_t name_at)
{
    const char *dot = strrchr(path + name_at, '.');

    if (!dot || dot == path + name_at || strcmp(path + name_at, "..") == 0)
        return strlen(path);
    return (size_t)(dot - path);
}

static enum ct_status solver_prefix(Caffe__SolverParameter *s, const char *path)
{
    const char *slash     = strrchr(path, '/');
    size_t name_at        = slash ? (size_t)(slash - path) + 1 : 0;
    size_t stem           = solver_stem_bytes(path, name_at);
    struct ct_text prefix = { 0 };
    struct stat info;
    enum ct_status st;

    if (!s->snapshot_prefix) {
        ct_text_add_bytes(&prefix, path, stem);
    } else if (stat(s->snapshot_prefix, &info) == 0 && S_ISDIR(info.st_mode)) {
        size_t n = strlen(s->snapshot_prefix);

        ct_text_addf(&prefix, "%s%s%.*s", s->snapshot_prefix,
                     s->snapshot_prefix[n - 1] == '/' ? "" : "/",
                     (int)(stem - name_at), path + name_at);
    } else {
        return CT_OK;
    }
    if (prefix.failed) {
        ct_text_fini(&prefix);
        return CT_ENOMEM;
    }
    CT_INFO("snapshot_prefix %s, it is set to %s",
            s->snapshot_prefix ? "is a folder" : "was not given", prefix.s);
    st = ct_edit_string(&s->snapshot_prefix, prefix.s);
    ct_text_fini(&prefix);
    return st;
}

enum ct_status ct_upgrade_solver(Caffe__SolverParameter *solver,
                                 const char *path)
{
    CT_TRY(solver_type(solver, path));
    CT_TRY(solver_prefix(solver, path));
    if (solver->net_param)
        CT_TRY(ct_upgrade_net(solver->net_param, path));
    if (solver->train_net_param)
        CT_TRY(ct_upgrade_net(solver->train_net_param, path));
    for (size_t i = 0; i < solver->n_test_net_param; i++)
        CT_TRY(ct_upgrade_net(solver->test_net_param[i], path));
    return CT_OK;
}
