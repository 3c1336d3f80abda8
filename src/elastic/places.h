/* places.h - places where a job may be, and whether it is there.
 *
 * In a network partition the job may continue at places that this process
 * cannot reach.  Only a host that answers proves that it has no job. */
#ifndef CT_ELASTIC_PLACES_H
#define CT_ELASTIC_PLACES_H

#include "elastic/member.h"

enum { PLACE_BYTES = 128 }; /* most bytes of the name of a place */

/* Places where the job may be: hosts, or files of members in a folder.  Each
 * has one or more doors. */
struct places {
    struct elastic_door door[MEMBER_DOORS];
    int                 place[MEMBER_DOORS]; /* place of each door */
    int                 n_doors;
    char                name[MEMBER_DOORS][PLACE_BYTES];
    bool                counts[MEMBER_DOORS]; /* the job may be there: silence
                                               * does not prove that it is
                                               * not */
    bool                here[MEMBER_DOORS]; /* all its doors are addresses of
                                             * this machine, where a process
                                             * that exists takes calls */
    int                 n;
    bool                lost;    /* the last one that was added had no room */
    bool                is_more; /* one that counts has no room, or a door of
                                  * one */
    char                silent[PLACE_BYTES]; /* who takes calls and says
                                              * nothing */
};

/* Those that are likely to answer come first: there is room for so many. */
void places_add(struct places *p, const char *name, bool counts);
/* Adds a door to the last place; nothing happens where that had no room. */
void places_add_door(struct places *p, const struct elastic_door *d);
/* Is that an address of this machine? */
bool places_is_here(const struct ct_ip *ip);

enum places_verdict { PLACES_NO_JOB, PLACES_JOB, PLACES_UNKNOWN };

/* PLACES_UNKNOWN: *who is a place that counts and cannot be reached, or had no
 * room, or a place that accepts connections and does not answer, as a job that
 * hangs would. */
void places_find_job(struct places *p, const uint8_t *secret,
                     enum places_verdict *out, const char **who);
/* For how long one looks. */
struct places_patience {
    double most; /* seconds */
    bool (*gives_up)(void *arg); /* asked now and then; NULL: it does not */
    void  *arg;
};

static inline bool places_gives_up(const struct places_patience *p)
{
    return p->gives_up && p->gives_up(p->arg);
}

/* After PLACES_UNKNOWN: waits until it is time to look again.  CT_EIO: more
 * than `most` seconds have passed since `begin`; CT_ESTOP: it was given up. */
CT_MUST_CHECK enum ct_status places_wait(const char *who, double begin,
                                         const struct places_patience *p);

#endif
