/* post_inner.h - a post, for the files that it is made of. */
#ifndef CT_ELASTIC_POST_INNER_H
#define CT_ELASTIC_POST_INNER_H

#include "elastic/post.h"

/* post.c.  Is that the number of a job? */
bool post_is_job(const uint8_t *job);
bool post_has_ended(const struct post *p, uint64_t id);

/* post_letters.c.  The first letter on a line that this process opened. */
void post_put_hello(const struct post *p, struct post_peer *q);

#endif
