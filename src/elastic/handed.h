/* handed.h - what an agent passes to a rank that is another program.
 *
 * The program inherits a file in memory with all that a member needs, including
 * the secret.  The variable CORTADO_HANDED has its descriptor.  Only the
 * process that the agent started may use it, because the agent notices the end
 * of that process but not of its children. */
#ifndef CT_ELASTIC_HANDED_H
#define CT_ELASTIC_HANDED_H

#include "elastic/member.h"

/* What a program receives: all of `config` except digest, last and placed. */
struct handed {
    struct member_config config; /* its secret and texts are the members
                                  * below */
    uint8_t  secret[SEAL_SECRET_BYTES];
    char    *description, *file; /* owned */
};

/* In the agent's child, before exec: keeps descriptors open and sets the
 * variable. */
CT_MUST_CHECK enum ct_status handed_give(const struct member_config *c);
/* Did an agent start this process as a rank? */
bool handed_is_there(void);
/* Reads the file; only once. */
CT_MUST_CHECK enum ct_status handed_take(struct handed *out);
void handed_fini(struct handed *h);

#endif
