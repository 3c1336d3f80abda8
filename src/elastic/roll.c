/* roll.c - reads the roll of a job. */
#include "elastic/roll.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

bool roll_read_job(const char *text, uint8_t job[POST_JOB_BYTES])
{
    for (int i = 0; i < POST_JOB_BYTES; i++) {
        unsigned byte;

        if (strspn(text, "0123456789abcdef") < 2 ||
            sscanf(text, "%2x", &byte) != 1)
            return false;
        job[i] = (uint8_t)byte;
        text += 2;
    }
    return true;
}

static bool read_head(const char *text, uint8_t job[POST_JOB_BYTES])
{
    return strncmp(text, "job ", 4) == 0 && roll_read_job(text + 4, job);
}

/* False: that is no line of an agent. */
static bool read_agent(const char *line, uint64_t *agent, int *door)
{
    return sscanf(line, "agent %16" SCNx64 ", door %6d", agent, door) == 2 &&
           *door >= 0 && *door <= UINT16_MAX;
}

enum ct_status roll_read(const char *text, struct elastic_roll **out)
{
    struct elastic_roll *r = NULL;
    const char *line       = text;

    CT_TRY(ct_alloc(1, sizeof(*r), "a roll", &r));
    if (!read_head(text, r->job)) {
        ct_free(r);
        return ct_fail(CT_EPARSE, "that is no roll of a job");
    }
    while ((line = strchr(line, '\n')) && r->n < ELASTIC_MEMBERS) {
        line++;
        r->n += read_agent(line, &r->agent[r->n], &r->door[r->n]);
    }
    *out = r;
    return CT_OK;
}

bool roll_is_of(const char *answer, const uint8_t job[POST_JOB_BYTES])
{
    uint8_t its[POST_JOB_BYTES];

    return read_head(answer, its) && post_same_job(its, job);
}
