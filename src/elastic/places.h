/* places.h - places where a job may be, and whether it is there.
 *
 * A network may have parted: then the job goes on at places that this process
 * does not reach.  Only a host that says so itself proves that no job is
 * there. */
#ifndef CT_ELASTIC_PLACES_H
#define CT_ELASTIC_PLACES_H

#include "elastic/member.h"

enum { PLACE_BYTES = 128 }; /* of the name of a place */

/* Places where the job may be: hosts, or what members left in a folder.  Each
 * has one or more doors. */
struct places {
    struct elastic_door door[MEMBER_DOORS];
    int                 place[MEMBER_DOORS]; /* of a door */
    int                 n_doors;
    char                name[MEMBER_DOORS][PLACE_BYTES];
    bool                counts[MEMBER_DOORS]; /* somebody may well be there:
                                               * that nobody answers is no
                                               * proof */
    int                 n;
    char                silent[PLACE_BYTES]; /* who takes calls and says
                                              * nothing */
};

void places_add(struct places *p, const char *name, bool counts);
/* To the last place. */
void places_add_door(struct places *p, const struct elastic_door *d);
/* Is that an address of this machine? */
bool places_is_here(const struct ct_ip *ip);

enum places_verdict { PLACES_NO_JOB, PLACES_JOB, PLACES_UNKNOWN };

/* PLACES_UNKNOWN: *who is a place that counts and is not reached, or somebody
 * who takes calls and says nothing, as a job that stands still would. */
void places_find_job(struct places *p,
                                             const uint8_t *secret,
                                             enum places_verdict *out,
                                             const char **who);
/* After that verdict: until it is time for another look.  CT_EIO: since `begin`
 * it has taken longer than `most` seconds. */
CT_MUST_CHECK enum ct_status places_wait(const char *who, double begin,
                                         double most);

#endif
