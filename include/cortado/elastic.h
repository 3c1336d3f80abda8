/* cortado/elastic.h - a solver among processes that come and go.
 *
 * A process makes its solver alone, as it likes, and enters the job with it:
 * who begins the job trains from where its solver stands, and who comes later
 * gets all that the others have.  From then on ct_solver_step() and
 * ct_solver_solve() go on when others are lost, leave or come; every rank calls
 * them alike.  What the solver's nets were is gone after each change (see
 * `view` in cortado/events.h): ask for them again. */
#ifndef CT_ELASTIC_H
#define CT_ELASTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/dist.h"
#include "cortado/solver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_elastic;

/* NULL and 0 where nothing is said. */
struct ct_elastic_options {
    const char *size;        /* "MIN:MAX" processes train; or any number */
    const char *rendezvous;  /* HOST:PORT,... or file:FOLDER */
    const char *secret_file;
    double      suspect, orphan; /* seconds */
    /* How to start another one, for `cortado join`: folder, then a word a
     * line. */
    const char *description;
    /* Fields of `distributed { }` as text.  What the solver says goes before
     * `road`, and `distributed` before both. */
    const char *road, *distributed;
};

/* Did an agent, `cortado launch`, start this process as a rank?  It has said
 * then where the job is, and of the options the last two alone count. */
CT_API bool ct_elastic_launched(void);

CT_API CT_MUST_CHECK enum ct_status ct_elastic_open(
    const struct ct_elastic_options *o, struct ct_elastic **out);
/* Waits for a place in the job.  The solver may have trained and been restored,
 * has no exchange, and is the only one.  CT_ESTOP: the process was asked to
 * leave. */
CT_API CT_MUST_CHECK enum ct_status ct_elastic_enter(struct ct_elastic *e,
                                                     struct ct_solver *s);
/* NULL before it has entered. */
CT_API struct ct_dist *ct_elastic_dist(const struct ct_elastic *e);
/* Views are numbered; 0 before it has entered. */
CT_API uint32_t ct_elastic_view(const struct ct_elastic *e);
/* Who came and went before this view; "" at first.  Until the next one. */
CT_API const char *ct_elastic_why(const struct ct_elastic *e);

/* It is to leave the job after the iteration under way: training then ends with
 * CT_ESTOP here, and goes on elsewhere.  On any thread, also in a handler of
 * signals. */
CT_API void ct_elastic_leave(struct ct_elastic *e);
/* It was asked to leave, and too few would stay: the whole job is to end. */
CT_API bool ct_elastic_ends(struct ct_elastic *e);

/* Takes NULL.  The solver goes on alone.  `done`: training is over, and all
 * ranks come here with it: nobody goes before the last one has come. */
CT_API void ct_elastic_close(struct ct_elastic *e, bool done);

#ifdef __cplusplus
}
#endif
#endif
