/* rendezvous.h - where the processes of a job find each other.
 *
 *     host:port[,host:port...]   addresses of members; if no job is found, it
 *                                starts at the first address
 *     file:FOLDER                a folder that all hosts see: members write
 *                                their addresses and the secret there
 *     :port in the list          the port of this process
 *     again:host:port,...        the first is an address of this host, whose
 *                                previous agent was lost: this one joins and
 *                                never starts a job
 *     first:host:port,...        the same, but nobody has heard of the job: if
 *                                it is found at none of the others, it starts
 *                                here
 *     nothing                    the job starts here, on any port
 *
 * A process that finds a job joins it.  If none is found, one of the processes
 * starts it.  A process that cannot reach a host of the list, or a member that
 * touched its file recently, does not know and never starts a job. */
#ifndef CT_ELASTIC_RENDEZVOUS_H
#define CT_ELASTIC_RENDEZVOUS_H

#include "elastic/member.h"

struct elastic_roll;
struct places_patience;

struct rendezvous {
    uint8_t             secret[SEAL_SECRET_BYTES];
    uint64_t            agent; /* number of this process, from `cortado
                                * launch`; 0: none */
    uint8_t             job[POST_JOB_BYTES]; /* the job to find; zeroes: any */
    int                 door;  /* socket for processes that want to join; -1:
                                * none */
    uint16_t            port;  /* of `door`, in network order */
    bool                founds;
    bool                is_taken; /* ranks of the agent before this one have
                                   * its port */
    struct elastic_door knock[MEMBER_DOORS];
    int                 word[MEMBER_DOORS]; /* number of the list entry of each
                                             * door */
    int                 n_knock;
    int                 own; /* list entry of this process; -1: any that is
                              * free */
    char               *file; /* the file of this process in the folder; owned;
                               * or NULL */
};

extern const char rendezvous_again[], rendezvous_first[];

/* `where` and `secret_file` may be NULL.  Waits so long at most to find out
 * whether there is a job. */
CT_MUST_CHECK enum ct_status rendezvous_open_while(
    struct rendezvous *r, const char *where, const char *secret_file,
    const struct places_patience *p);
/* The same for `orphan` seconds. */
CT_MUST_CHECK enum ct_status rendezvous_open_within(struct rendezvous *r,
                                                    const char *where,
                                                    const char *secret_file,
                                                    double orphan);
/* The same with one minute. */
CT_MUST_CHECK enum ct_status rendezvous_open(struct rendezvous *r,
                                             const char *where,
                                             const char *secret_file);
/* Only finds doors and the secret, for processes that do not join. */
CT_MUST_CHECK enum ct_status rendezvous_find(struct rendezvous *r,
                                             const char *where,
                                             const char *secret_file);
/* Looks again: adds the doors of members that have come to a folder since. */
void rendezvous_look(struct rendezvous *r, const char *where);
void rendezvous_close(struct rendezvous *r);

/* Asks all doors; *out is the first answer, to be freed with ct_free.
 * CT_ENOTFOUND: no answer. */
CT_MUST_CHECK enum ct_status rendezvous_ask(const struct rendezvous *r,
                                            int what, char **out);
/* The roll of the job, asked for at the addresses of a list for so many seconds
 * at most.  `job`: its number, as another one may have such an address by now;
 * NULL: not known.  `what` is MEMBER_ASK_ROLL, or MEMBER_ASK_END where the
 * number is known.  *out is to be freed with ct_free.  CT_ENOTFOUND: none of
 * the addresses has the job; CT_ECOMM: one of them may have it. */
CT_MUST_CHECK enum ct_status rendezvous_call_roll(const char *list,
                                                  const uint8_t *secret,
                                                  const uint8_t *job, int what,
                                                  double seconds,
                                                  struct elastic_roll **out);

#endif
