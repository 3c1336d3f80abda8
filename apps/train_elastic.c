/* train_elastic.c - `cortado train --elastic`: a training among processes that
 * come and go. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "dist/engine.h"
#include "proto/edit.h"
#include "signals.h"
#include "solver/solver_inner.h"
#include "train.h"

static enum ct_status fit_elastic(const struct train_flags *f,
                                  Caffe__SolverParameter *p)
{
    if (f->net.precision && strcmp(f->net.precision, "fp16") == 0)
        return ct_fail(CT_ENOTSUP, "--precision=fp16 scales losses by what "
                       "each process has seen; use bf16 with --elastic");
    if (ct_dist_launched())
        return ct_fail(CT_EINVAL, "--elastic brings its own processes: start "
                       "it without mpirun");
    return dist_flags_global_batch(&p->distributed);
}

/* The end of a training.  Where servers keep the parameters, all are there
 * until the last one has what it asked for.  If the view ends before, the
 * newest snapshot is all there is, and may be older than what this rank has
 * done: it begins again with the others, unless they are through.  Ranks that
 * only serve end as the others do. */
static enum ct_status part(struct elastic_member *m, struct ct_dist *d,
                           enum ct_status st)
{
    struct ct_exchange *x = ct_dist_exchange(d);
    int stopped           = st == CT_ESTOP;
    enum ct_status met    = CT_OK;

    if (x->facts.commits && stopped) {
        if (member_is_in(m)) /* all ranks stop; who leaves is not in it */
            member_done(m, false);
        return st;
    }
    if (!x->facts.commits && !d->gone)
        met = x->job->broadcast(x, &stopped, sizeof(stopped));
    if (!x->facts.commits && met == CT_OK)
        met = ct_dist_end(d);
    if (met != CT_OK && !member_hears_done(m))
        return met;
    member_done(m, !stopped);
    return stopped ? ct_fail(CT_ESTOP, "training was asked to stop") : CT_OK;
}

/* Once; a GPU is chosen by the rank's number on its host, each time. */
static enum ct_status apply_flags(struct train_job *j, int local)
{
    struct net_flags *f = &j->flags->net;

    if (f->device && !f->gpu)
        return CT_OK;
    f->local  = local;
    f->solver = j->param;
    return net_flags_apply(f);
}

/* All ranks draw the same seed. */
static void draw_seed(struct train_job *j)
{
    Caffe__SolverParameter *p = j->param;

    j->draws |= !p->has_random_seed || p->random_seed < 0;
    if (!j->draws)
        return;
    p->has_random_seed = true;
    p->random_seed     = (int64_t)solver_seed_of(member_seed(j->member));
}

/* Who waits for a place builds nets for the one that it is likely to get. */
static void prepare(void *arg, const struct ct_expected *e)
{
    struct train_job *j = arg;
    struct net_flags *f = &j->flags->net;
    struct ct_solver_options o;

    if (f->gpu || apply_flags(j, 0) != CT_OK)
        return;
    draw_seed(j);
    o = (struct ct_solver_options){ .device = f->device, .level = f->level,
                                    .stage = f->stages,
                                    .n_stage = f->n_stages };
    solver_prepare_first(j->param, &o, e, &j->prepared);
}

/* A view may end while this process comes in, or have come with one that does
 * not fit; then it comes again. */
static enum ct_status train_member(struct elastic_member *m, void *arg)
{
    struct train_job *j = arg;
    const struct dist_preparer preparer = { prepare, j };
    struct ct_dist *d   = NULL;
    enum ct_status st;
    bool again;

    signal(SIGPIPE, SIG_IGN);
    j->member = m;
    CT_TRY(train_signals_read(&j->flags->signals, m));
    train_signals_catch(); /* who asks it to leave need not wait */
    train_signals_catch_requests();
    signals_aside(true); /* which lets them in */
    do {
        st = dist_create_elastic(member_asks(m), j->param->distributed,
                                 &preparer, &d);
        if (st == CT_OK)
            draw_seed(j);
        if (st == CT_OK)
            st = apply_flags(j, ct_dist_local_rank(d));
        if (st == CT_OK)
            st = train_as_rank(j, d);
        if (d && (st == CT_OK || st == CT_ESTOP))
            st = part(m, d, st);
        again = dist_asks_again(member_asks(m), d, st);
        ct_dist_destroy(d);
        d = NULL;
    } while (again);
    solver_preparation_destroy(j->prepared);
    j->prepared = NULL;
    train_signals_forget_member();
    return st;
}

/* The net is read once: it may change on the disk while views do. */
static enum ct_status take_net(Caffe__SolverParameter *p)
{
    char **path                   = p->net ? &p->net : &p->train_net;
    Caffe__NetParameter **message = p->net ? &p->net_param
                                           : &p->train_net_param;

    if (!*path || *message)
        return CT_OK;
    CT_TRY(ct_net_param_read(*path, message));
    ct_edit_free(*path);
    *path = NULL;
    return CT_OK;
}

/* A digest of what must be equal on all members.  Weights need not be: those of
 * the first member count. */
static enum ct_status digest_of(const struct train_flags *f,
                                const Caffe__SolverParameter *p, uint64_t *out)
{
    Caffe__SolverParameter *copy = NULL;
    char *text                   = NULL;
    enum ct_status st;
    uint32_t crc;

    CT_TRY(ct_message_copy(p, &copy));
    while (copy->n_weights > 0)
        ct_edit_free(copy->weights[--copy->n_weights]);
    st = ct_text_print(copy, &text);
    if (st == CT_OK) {
        crc  = ct_crc32c(0, text, strlen(text));
        crc  = ct_crc32c(crc, ct_version(), strlen(ct_version()));
        crc  = ct_crc32c(crc, &f->net.level, sizeof(f->net.level));
        *out = f->net.stage ? ct_crc32c(crc, f->net.stage,
                                        strlen(f->net.stage))
                            : crc;
    }
    ct_free(text);
    ct_message_free(copy);
    return st;
}

/* What the ranks that this process starts would do by themselves, on CPUs. */
static int explain_elastic(const struct train_job *j)
{
    const int n         = j->flags->ranks > 1 ? j->flags->ranks : 1;
    struct ct_text text = { 0 };
    enum ct_status st   = dist_explain_elastic(j->param->distributed, n, &text);

    if (st == CT_OK && text.failed)
        st = CT_ENOMEM;
    if (st == CT_OK)
        fputs(text.s, stdout);
    ct_text_fini(&text);
    return st == CT_OK ? 0 : command_failed(st);
}

static enum ct_status batch_of(struct net_flags *f,
                               const Caffe__SolverParameter *p, int64_t *out)
{
    struct ct_solver_options o = { .level = f->level };

    CT_TRY(net_flags_stages(f));
    o.stage   = f->stages;
    o.n_stage = f->n_stages;
    return solver_batch_of(p, &o, out);
}

int train_elastic(struct train_job *j)
{
    const struct train_flags *f = j->flags;
    struct elastic_flags flags  = f->elastic;
    uint64_t digest             = 0;
    int64_t batch               = 0;
    enum ct_status st           = fit_elastic(f, j->param);

    if (st == CT_OK && f->explain)
        return explain_elastic(j);
    if (st == CT_OK)
        st = dist_check_elastic(j->param->distributed);
    if (st == CT_OK)
        st = take_net(j->param);
    if (st == CT_OK)
        st = digest_of(f, j->param, &digest);
    if (st == CT_OK)
        st = batch_of(&j->flags->net, j->param, &batch);
    flags.most = dist_most_ranks(j->param->distributed, batch);
    return st == CT_OK ? elastic_run(&flags, f->ranks, digest,
                                     j->param->max_iter, train_member, j)
                       : command_failed(st);
}
