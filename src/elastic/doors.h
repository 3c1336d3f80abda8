/* doors.h - asks who is behind some doors, all of them at the same time. */
#ifndef CT_ELASTIC_DOORS_H
#define CT_ELASTIC_DOORS_H

#include "elastic/member.h"

enum door_state {
    DOOR_UNREACHED, /* no road, or no word of that host in time */
    DOOR_SHUT,      /* the host is there: nobody listens, or hangs up */
    DOOR_SILENT,    /* somebody takes the call and says nothing in time */
    DOOR_ANSWERED
};

/* Ends with the first answer, for the caller to ct_free: NULL where there is
 * none.  `what` as in member.h. */
void doors_ask(const struct elastic_door *door, int n, const uint8_t *secret,
               int what, enum door_state *state, char **answer);

/* The text of an answer, for the caller to ct_free; NULL: it is none. */
char *doors_read_answer(const uint8_t *letter, size_t bytes);

#endif
