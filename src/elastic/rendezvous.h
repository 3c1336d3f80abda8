/* rendezvous.h - where the processes of a job find each other.
 *
 *     host:port[,host:port...]   of any member; the first address is where a
 *                                job begins, if none can be found
 *     file:FOLDER                on a disk that all see: members leave their
 *                                addresses there, and the secret
 *     :port among these          where this process itself is to be found
 *     again:host:port,...        the first is an address of this host, whose
 *                                agent before this one was lost: it joins, and
 *                                never begins a job
 *     nothing                    the job begins here, on any port
 *
 * Whoever finds a job joins it; of those that find none, one begins it.  Who
 * cannot tell, because it does not reach a host of the list, or a member that
 * touched its file lately, begins none. */
#ifndef CT_ELASTIC_RENDEZVOUS_H
#define CT_ELASTIC_RENDEZVOUS_H

#include "elastic/member.h"

struct rendezvous {
    uint8_t             secret[SEAL_SECRET_BYTES];
    int                 door;  /* a socket for strangers; -1: none */
    uint16_t            port;  /* of `door`, in network order */
    bool                founds;
    struct elastic_door knock[MEMBER_DOORS];
    int                 word[MEMBER_DOORS]; /* of a list, that a door is of */
    int                 n_knock;
    int                 own; /* a door of that list that is this process's;
                              * -1: any that is free */
    char               *file; /* that this process left; owned, or NULL */
};

extern const char rendezvous_again[];

/* `where` and `secret_file` may be NULL.  Who cannot tell whether there is a
 * job waits for so long to see. */
CT_MUST_CHECK enum ct_status rendezvous_open_within(struct rendezvous *r,
                                                    const char *where,
                                                    const char *secret_file,
                                                    double orphan);
/* The same for a minute. */
CT_MUST_CHECK enum ct_status rendezvous_open(struct rendezvous *r,
                                             const char *where,
                                             const char *secret_file);
/* For those who only want to call: doors and the secret. */
CT_MUST_CHECK enum ct_status rendezvous_find(struct rendezvous *r,
                                             const char *where,
                                             const char *secret_file);
/* Looks again who is there: doors of those who have come to a folder since. */
void rendezvous_look(struct rendezvous *r, const char *where);
void rendezvous_close(struct rendezvous *r);

/* Asks whoever is behind one of the doors; *out is for the caller to
 * ct_free.  CT_ENOTFOUND: nobody answers. */
CT_MUST_CHECK enum ct_status rendezvous_ask(const struct rendezvous *r,
                                            int what, char **out);

#endif
