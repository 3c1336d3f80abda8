/* agent_deaths.h - what an agent knows of ranks that have ended.
 *
 * It tells the other processes of the job of those that it has seen end, with
 * what they were bound by: their members, and their agents.  So agents learn
 * together when nobody is left of a job:
 *
 *     each agent           keeps the newest view that any of the dead was in,
 *                          and who is in the views behind it that some of them
 *                          had agreed to
 *     all of these         are dead: then no later view can ever be decided,
 *                          because one of them would have had to agree
 *     the agent of rank 0  of the newest view begins the job anew
 *
 * tests/elastic/model.c tries this in every order of events.
 *
 * A rank counts as dead when its own agent has seen its end, and never because
 * it is silent.  So behind a parted network nobody begins the job anew, and no
 * two agents ever do. */
#ifndef CT_APPS_AGENT_DEATHS_H
#define CT_APPS_AGENT_DEATHS_H

#include "elastic/agreement.h"
#include "elastic/post.h"
#include "elastic/will_page.h"

enum { AGENT_GRAVES = 4 * ELASTIC_MEMBERS };

struct death;

/* Embedded; zero-initialised: nobody has ended yet. */
struct agent_deaths {
    struct death       *first; /* those that others may have to hear of, the
                                * oldest first */
    uint64_t            n_deaths; /* of ranks of this agent, so far */
    uint64_t            grave[AGENT_GRAVES]; /* a ring */
    bool                own[AGENT_GRAVES];   /* a rank of this agent */
    unsigned            n_graves;
    struct elastic_view newest; /* that a dead one was in, of `job` */
    uint64_t            next[ELASTIC_MEMBERS]; /* who is in views behind it that
                                 * some had agreed to */
    int                 n_next;
    bool                too_many; /* for `next` */
    uint8_t             job[POST_JOB_BYTES]; /* zeroes: none */
    int                 generation; /* the least of the job that counts */
};

/* A rank of this agent has ended, and left this page. */
void deaths_note_own(struct agent_deaths *d, struct post *p,
                     const struct will_page *page);
/* The letter of another agent: POST_DEAD. */
void deaths_take(struct agent_deaths *d, const uint8_t *letter, size_t bytes);
bool deaths_knows_job(const struct agent_deaths *d);
/* A rank of this agent is in that job, or is to join it; nothing changes where
 * a job is known. */
void deaths_learn_job(struct agent_deaths *d, const uint8_t *job);
/* Is that its job, which may have begun anew since, as far as it knows? */
bool deaths_may_be_of(const struct agent_deaths *d, const uint8_t *job);
/* All of the newest view have ended, and of those behind it that some had
 * agreed to; and its rank 0 was one of this agent. */
bool deaths_leave_job_to_us(const struct agent_deaths *d);
/* Was one of the dead in a newer view than this one, of that job?  Then nobody
 * goes on in this one. */
bool deaths_are_newer(const struct agent_deaths *d, const uint8_t *job,
                      const struct elastic_view *v);
/* A rank of this agent lives, and is bound by that: of who died before its view
 * was decided nobody needs to hear any more. */
void deaths_outlived(struct agent_deaths *d, const uint8_t *job,
                     const struct elastic_will *w);
/* This agent begins the job anew: what was before counts no more. */
void deaths_begin_anew(struct agent_deaths *d);

/* Tells everybody who has yet to hear of an end, for as long as that matters:
 * a network may be down for hours.  `over`: so is the job, which other agents
 * hear first; 0: it is not. */
void deaths_tell(struct agent_deaths *d, struct post *p, enum post_end over);
/* Has everybody heard who can be reached? */
bool deaths_are_told(const struct agent_deaths *d, const struct post *p);
void deaths_fini(struct agent_deaths *d);

#endif
