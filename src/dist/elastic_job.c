/* elastic_job.c - cortado/elastic.h: the solver of a program takes part in an
 * elastic job. */
#include "cortado/elastic.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/access.h"
#include "cortado/log.h"
#include "dist/engine.h"
#include "elastic/agreement.h"
#include "elastic/handed.h"
#include "elastic/rendezvous.h"
#include "solver/solver_inner.h"

struct ct_elastic {
    struct handed     handed; /* its config: how this process joins */
    struct rendezvous meet;   /* its door is -1 if an agent keeps it */
    char             *rendezvous, *secret_file, *road, *distributed; /* owned */
    bool              launched;
    atomic_bool       leaves;
    struct elastic_member *_Atomic member; /* owned; NULL: not entered */
    struct ct_dist   *dist;      /* owned */
    struct ct_solver *solver;    /* borrowed; NULL: not entered */
    int               level;     /* log level of rank 0 */
};

static const double usual_suspect = 3, usual_orphan = 60;

bool ct_elastic_launched(void)
{
    return handed_is_there();
}

/* ---- Options. */

static enum ct_status keep(const char *text, char **out)
{
    if (!text)
        return CT_OK;
    *out = ct_strdup(text, "an option");
    return *out ? CT_OK : CT_ENOMEM;
}

static enum ct_status take_own(struct ct_elastic *e,
                               const struct ct_elastic_options *o)
{
    struct member_config *c = &e->handed.config;

    c->suspect = o->suspect != 0 ? o->suspect : usual_suspect;
    c->orphan  = o->orphan != 0 ? o->orphan : usual_orphan;
    if (!(c->suspect > 0) || !(c->orphan > 0))
        return ct_fail(CT_EINVAL, "suspect and orphan are seconds, more than "
                       "0");
    c->will = c->door = -1;
    CT_TRY(member_read_size(o->size, &c->least, &c->most));
    CT_TRY(keep(o->rendezvous, &e->rendezvous));
    CT_TRY(keep(o->secret_file, &e->secret_file));
    CT_TRY(keep(o->description, &e->handed.description));
    c->description = e->handed.description;
    return CT_OK;
}

enum ct_status ct_elastic_open(const struct ct_elastic_options *o,
                               struct ct_elastic **out)
{
    struct ct_elastic *e = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*e), "an elastic job", &e));
    e->meet.door = -1;
    e->level     = (int)ct_log_level();
    e->launched  = handed_is_there();
    CT_TRY_GOTO(keep(o->road, &e->road), st, out);
    CT_TRY_GOTO(keep(o->distributed, &e->distributed), st, out);
    if (ct_dist_launched())
        st = ct_fail(CT_EINVAL, "an elastic job has its own processes: start "
                     "them without mpirun");
    else
        st = e->launched ? handed_take(&e->handed) : take_own(e, o);
out:
    if (st == CT_OK)
        *out = e;
    else
        ct_elastic_close(e, false);
    return st;
}

/* ---- Entering. */

static void placed(void *arg, const struct elastic_place *p)
{
    const struct ct_elastic *e = arg;

    member_hush(p, e->level);
}

/* A digest of the solver, the shapes, the options of gradients and the version,
 * which must be equal on all ranks. */
static enum ct_status digest_of(const struct ct_elastic *e,
                                const struct ct_solver *s, uint64_t *out)
{
    const char *words[] = { e->road, e->distributed, ct_version() };
    uint32_t crc        = 0;

    CT_TRY(ct_solver_digest(s, out));
    for (int i = 0; i < 3; i++)
        if (words[i])
            crc = ct_crc32c(crc, words[i], strlen(words[i]));
    *out ^= crc;
    return CT_OK;
}

static enum ct_status meet(struct ct_elastic *e)
{
    struct member_config *c = &e->handed.config;

    CT_TRY(rendezvous_open(&e->meet, e->rendezvous, e->secret_file));
    c->secret  = e->meet.secret;
    c->door    = e->meet.door;
    c->file    = e->meet.file;
    c->founds  = e->meet.founds;
    c->n_knock = e->meet.n_knock;
    memcpy(c->knock, e->meet.knock, sizeof(c->knock));
    return CT_OK;
}

/* The member is created directly after meet(), which opens the door, because
 * nobody answers at the door without a member. */
static enum ct_status begin_member(struct ct_elastic *e, struct ct_solver *s)
{
    struct member_config *c  = &e->handed.config;
    struct elastic_member *m = NULL;

    c->last   = s->param->max_iter;
    c->placed = placed;
    c->arg    = e;
    c->prepares = true;
    CT_TRY(digest_of(e, s, &c->digest));
    if (!e->launched)
        CT_TRY(meet(e));
    CT_TRY(member_create(c, &m));
    atomic_store(&e->member, m);
    if (atomic_load(&e->leaves)) /* ct_elastic_leave() was called before */
        member_leave(m);
    return CT_OK;
}

/* The batch is that of all ranks together, unless an option says otherwise. */
static enum ct_status options_of(const struct ct_elastic *e,
                                 const struct ct_solver *s,
                                 Caffe__DistributedParameter **out)
{
    struct ct_text defaults = { 0 };
    enum ct_status st;

    ct_text_addf(&defaults, "batch: 'global' %s", e->road ? e->road : "");
    st = defaults.failed
             ? CT_ENOMEM
             : dist_read_options(defaults.s, s->param->distributed,
                                 e->distributed ? e->distributed : "", out);
    ct_text_fini(&defaults);
    return st;
}

static int64_t began_at(const struct dist_entry *how)
{
    return how->began ? how->began(how->arg) : 0;
}

/* If no rank has parameters, restores the newest snapshot of the job.  Without
 * one all begin as rank 0 was asked to, or with what rank 0 got from others
 * before they left. */
static enum ct_status find_state(const struct dist_entry *how,
                                 struct ct_solver *s,
                                 const struct ct_exchange *x)
{
    enum ct_status st;

    if (!how->again && x->facts.n_full > 0)
        return CT_OK;
    solver_forget_others(s);
    st = solver_resume_newest(s, solver_own_origin(x, began_at(how)));
    if (st == CT_ENOTFOUND && s->standing.half)
        return ct_fail(CT_EIO, "all ranks that had the parameters are gone "
                       "while this process got them, and the job had written "
                       "no snapshot: start it again");
    if (st == CT_ENOTFOUND && s->iter > 0)
        CT_WARN("All ranks that trained are gone; this process has the "
                "parameters of iteration %d, and goes on from there", s->iter);
    else if (st == CT_ENOTFOUND)
        CT_WARN("All ranks that had the parameters are gone, and the job had "
                "written no snapshot: it begins again");
    if (st == CT_ENOTFOUND)
        return CT_OK;
    CT_TRY(st);
    CT_WARN("All ranks that had the parameters are gone: training goes on from "
            "iteration %d, the newest snapshot", s->iter);
    s->standing.half = false;
    return CT_OK;
}

static void prepare(void *arg, const struct ct_expected *e)
{
    solver_prepare_now(arg, e);
}

static enum ct_status take_place(const struct elastic_membership *members,
                                 const struct dist_entry *how,
                                 const Caffe__DistributedParameter *options,
                                 struct ct_solver *s, struct ct_dist **dist)
{
    const struct dist_preparer preparer = { prepare, s };
    struct ct_exchange *x;

    CT_TRY(dist_create_elastic(members, options, &preparer, dist));
    x = ct_dist_exchange(*dist);
    if (!x || !x->facts.commits)
        return ct_fail(CT_ENOTSUP, "servers keep the parameters in this mode, "
                       "and are lost with a process that has them: programs "
                       "of their own train in step (sync: 'bsp' or 'local', "
                       "without servers, groups and deadline), or use cortado "
                       "train");
    if (x->facts.n_full == x->facts.size || x->facts.n_full == 0)
        CT_TRY(find_state(how, s, x));
    CT_TRY(solver_join(s, x));
    return how->begin(how->arg, s->iter);
}

enum ct_status dist_enter_elastic(const struct elastic_membership *members,
                                  const struct dist_entry *how,
                                  const Caffe__DistributedParameter *options,
                                  struct ct_solver *s, struct ct_dist **dist)
{
    enum ct_status st;
    bool again;

    do {
        st = take_place(members, how, options, s, dist);
        if (st == CT_OK)
            return CT_OK;
        again = dist_asks_again(members, *dist, st);
        if (s->options.exchange)
            ct_solver_leave(s);
        ct_dist_destroy(*dist);
        *dist = NULL;
    } while (again); /* the view ended before this rank was in it, or not all
                      * fit */
    solver_prepare_fini(s);   /* it reads the options, which the caller frees */
    return st;
}

static enum ct_status begin(void *arg, int iter)
{
    return member_begin(arg, iter);
}

static int64_t began(void *arg)
{
    return member_began(arg);
}

enum ct_status ct_elastic_enter(struct ct_elastic *e, struct ct_solver *s)
{
    Caffe__DistributedParameter *options = NULL;
    struct dist_entry how = { .began = began, .begin = begin };
    int64_t batch;
    enum ct_status st;

    CT_TRY(options_of(e, s, &options));
    e->handed.config.stall = options->stall;
    st = solver_batch_of(s->param, &s->options, &batch);
    if (st == CT_OK)
        st = member_limit_size(dist_most_ranks(options, batch),
                               e->handed.config.least, &e->handed.config.most);
    if (st == CT_OK)
        st = begin_member(e, s);
    if (st == CT_OK) {
        how.again = member_founds_again(e->member);
        how.arg   = e->member;
        st = dist_enter_elastic(member_asks(e->member), &how, options, s,
                                &e->dist);
    }
    ct_message_free(options);
    if (st == CT_OK)
        e->solver = s;
    return st;
}

/* ---- Taking part, and leaving. */

struct ct_dist *ct_elastic_dist(const struct ct_elastic *e)
{
    return e->dist;
}

uint32_t ct_elastic_view(const struct ct_elastic *e)
{
    return e->dist ? e->dist->elastic.place.view : 0;
}

const char *ct_elastic_why(const struct ct_elastic *e)
{
    return e->dist ? e->dist->elastic.place.why : "";
}

void ct_elastic_leave(struct ct_elastic *e)
{
    struct elastic_member *m;

    atomic_store(&e->leaves, true);
    m = atomic_load(&e->member);
    if (m)
        member_leave(m);
}

bool ct_elastic_ends(struct ct_elastic *e)
{
    struct elastic_member *m = atomic_load(&e->member);

    return m && member_ends_job(m);
}

/* No rank leaves before all are done: the others might have to go on with fewer
 * ranks than the job needs. */
static void meet_last(struct ct_elastic *e)
{
    if (solver_meet_last(e->solver) != CT_OK)
        CT_WARN("%s; training is done", ct_last_error());
}

void ct_elastic_close(struct ct_elastic *e, bool done)
{
    struct elastic_member *m;

    if (!e)
        return;
    if (e->solver && done)
        meet_last(e);
    if (e->solver)
        ct_solver_leave(e->solver);
    ct_dist_destroy(e->dist);
    m = atomic_exchange(&e->member, NULL);
    if (m && done)
        member_done(m, true);
    member_destroy(m);
    rendezvous_close(&e->meet);
    handed_fini(&e->handed);
    ct_free(e->rendezvous);
    ct_free(e->secret_file);
    ct_free(e->road);
    ct_free(e->distributed);
    ct_log_set_level((enum ct_log_level)e->level);
    ct_free(e);
}
