/* agent_doors.h - where an agent's next rank finds the job.
 *
 * The ranks of an agent share a door, which stays where it is while they die
 * and others come in their place.  So an agent whose ranks were all lost finds
 * the job behind the doors of other agents, even if every rank that its own
 * ones knew is gone, too. */
#ifndef CT_APPS_AGENT_DOORS_H
#define CT_APPS_AGENT_DOORS_H

#include "elastic/member.h"

struct agent_doors {
    struct elastic_door door[MEMBER_DOORS / 2]; /* a ring */
    unsigned            n;
};

/* `c`: the card of a rank that a dead one knew; `own`: the agent's. */
void agent_doors_learn(struct agent_doors *d, const struct elastic_card *own,
                       const struct elastic_card *c);
/* Adds to where the next rank knocks: these doors, and the processes that the
 * agent tells of deaths. */
void agent_doors_knock(const struct agent_doors *d, const struct post *p,
                       struct member_config *out);

#endif
