/* agent_doors.c - where an agent's next rank finds the job. */
#include "agent_doors.h"

#include <string.h>

enum { DOORS = MEMBER_DOORS / 2 };

static void learn(struct agent_doors *d, const struct ct_ip *at, uint16_t port)
{
    for (int i = 0; i < DOORS; i++)
        if (d->door[i].port == port &&
            memcmp(&d->door[i].at, at, sizeof(*at)) == 0)
            return;
    d->door[d->n++ % DOORS] = (struct elastic_door){ *at, port };
}

void agent_doors_learn(struct agent_doors *d, const struct elastic_card *own,
                       const struct elastic_card *c)
{
    const bool near         = c->machine == own->machine;
    const struct ct_ip here = ct_loopback_address();

    if (c->door == 0 || (near && c->door == own->door))
        return;
    if (near)
        learn(d, &here, c->door);
    for (int i = 0; i < c->n_addresses && !near; i++)
        learn(d, &c->address[i], c->door);
}

static void knock_at(struct member_config *m, const struct ct_ip *at,
                     uint16_t port)
{
    if (m->n_knock < MEMBER_DOORS)
        m->knock[m->n_knock++] = (struct elastic_door){ *at, port };
}

static void knock_at_rank(struct member_config *m,
                          const struct elastic_card *own,
                          const struct elastic_card *c)
{
    const bool near         = c->machine == own->machine;
    const struct ct_ip here = ct_loopback_address();

    for (int i = 0; i < (near ? 1 : c->n_addresses); i++)
        knock_at(m, near ? &here : &c->address[i], c->port);
}

void agent_doors_knock(const struct agent_doors *d, const struct post *p,
                       struct member_config *out)
{
    for (int i = 0; i < DOORS && d->door[i].port != 0; i++)
        knock_at(out, &d->door[i].at, d->door[i].port);
    for (const struct post_peer *q = p->peers; q; q = q->next)
        if (q->card.agent != q->card.id) /* which takes nobody in */
            knock_at_rank(out, &p->config.card, &q->card);
}
