/* roll.h - the number of a job and the doors of its agents, for who has lost an
 * agent and seeks the job.
 *
 *     job 32 hexadecimal digits
 *     agent 16 hexadecimal digits, door N       for each member of its view
 *
 * Several jobs may have the same secret, and one of them may have a port that
 * belonged to another one.  Their numbers tell them apart. */
#ifndef CT_ELASTIC_ROLL_H
#define CT_ELASTIC_ROLL_H

#include "elastic/agreement.h"
#include "elastic/member.h"

struct elastic_roll {
    uint8_t  job[POST_JOB_BYTES];
    int      n;
    uint64_t agent[ELASTIC_MEMBERS]; /* of each member; 0: it has none */
    int      door[ELASTIC_MEMBERS];  /* port; 0: it has none */
};

/* 32 digits; false: these are others. */
bool roll_read_job(const char *text, uint8_t job[POST_JOB_BYTES]);
/* *out is to be freed with ct_free. */
CT_MUST_CHECK enum ct_status roll_read(const char *text,
                                       struct elastic_roll **out);
/* The same of who answers with MEMBER_ASK_ROLL; false: of nobody. */
bool roll_is_of(const char *answer, const uint8_t job[POST_JOB_BYTES]);

#endif
