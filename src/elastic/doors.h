/* doors.h - asks several addresses at the same time whether they have a job. */
#ifndef CT_ELASTIC_DOORS_H
#define CT_ELASTIC_DOORS_H

#include "elastic/member.h"

enum door_state {
    DOOR_UNREACHED, /* no route, or no reaction of the host in time */
    DOOR_SHUT,      /* the host refuses the connection */
    DOOR_HUNG_UP,   /* the connection was made, and closed without an answer */
    DOOR_SILENT,    /* the connection is accepted, but no answer comes in
                     * time */
    DOOR_OF_OTHERS, /* another job answers */
    DOOR_ANSWERED
};

struct doors_question {
    int            what;    /* see member.h */
    double         seconds; /* to wait for an answer; 0: ten */
    const uint8_t *job;     /* that is to answer MEMBER_ASK_ROLL, or to end;
                             * borrowed; NULL: any may answer */
};

/* Returns after the first answer; the caller frees it with ct_free.  NULL: no
 * answer. */
void doors_ask(const struct elastic_door *door, int n, const uint8_t *secret,
               const struct doors_question *question, enum door_state *state,
               char **answer);

/* Do these say of all n_hosts hosts that the job is not there?  host: that each
 * of the n doors is of. */
bool doors_deny(const enum door_state *state, const int *host, int n,
                int n_hosts);

/* The text of an answer, to be freed with ct_free; NULL: not an answer. */
char *doors_read_answer(const uint8_t *letter, size_t bytes);

#endif
