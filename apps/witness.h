/* witness.h - a process beside a rank that tells how the rank ended.
 *
 * Launchers end the other ranks as soon as they see that one has died, some of
 * them at once and with SIGKILL, so no survivor can be counted on to speak; a
 * rank alone on its host has none.  A child of the rank can: it sleeps until
 * its parent is gone, and holds the parent's connection to the launcher open
 * until it has said who died, where, and in which iteration. */
#ifndef CT_APPS_WITNESS_H
#define CT_APPS_WITNESS_H

struct ct_dist;

struct witness {
    int to; /* a socket; -1: there is none */
};

/* Before MPI starts and before there is another thread. */
void witness_start(struct witness *w);
/* From here on it knows what the rank is at. */
void witness_introduce(const struct witness *w, struct ct_dist *d);
/* The rank ends in an orderly way, or tells of its end itself. */
void witness_dismiss(struct witness *w);

#endif
