/* handed.h - what an agent hands down to a rank that is another program.
 *
 * A file in memory that the program inherits has all that a member needs, the
 * secret too; the variable CORTADO_HANDED says which descriptor it is.  Only
 * the process that the agent started may use it: of that one it sees the end,
 * and not of a process which that one starts. */
#ifndef CT_ELASTIC_HANDED_H
#define CT_ELASTIC_HANDED_H

#include "elastic/member.h"

/* What a program is handed: of `config` all but digest, last and placed. */
struct handed {
    struct member_config config; /* its secret and texts lie below */
    uint8_t  secret[SEAL_SECRET_BYTES];
    char    *description, *file; /* owned */
};

/* In the agent's child, before it becomes the program: descriptors stay open
 * and the variable is set. */
CT_MUST_CHECK enum ct_status handed_give(const struct member_config *c);
/* Did an agent start this process as a rank? */
bool handed_is_there(void);
/* Takes it, once. */
CT_MUST_CHECK enum ct_status handed_take(struct handed *out);
void handed_fini(struct handed *h);

#endif
