/* rate.h - a token bucket, which limits how many bytes are sent per second.
 *
 * Tokens are bytes.  `per_s` of them arrive per second, and the bucket holds at
 * most `most`.  A message may be sent if there is any token, and takes as many
 * as it has bytes.  So the level may fall below zero, and the next messages
 * wait until it is positive again.  In a time T at most per_s T + most + one
 * message are sent. */
#ifndef CT_COMM_RATE_H
#define CT_COMM_RATE_H

#include <stdbool.h>
#include <stddef.h>

#include "cortado/status.h"

struct ct_rate {
    double per_s, most;
    double level, last; /* tokens, at time `last` */
};

/* "100mbit", "1gbit", "12.5MB": a number and bit, kbit, mbit, gbit or B, kB,
 * MB, GB per second; k, M, G are powers of 1000.  Reads up to the end or a
 * colon, where *rest points to. */
CT_MUST_CHECK enum ct_status ct_rate_parse(const char *text, double *bytes_s,
                                           const char **rest);

/* The bucket holds the tokens of one second and starts empty. */
void ct_rate_init(struct ct_rate *r, double bytes_s, double now);
double ct_rate_level(struct ct_rate *r, double now);
/* True: the tokens are taken, and the message may be sent.  False: wait. */
bool ct_rate_take(struct ct_rate *r, double now, size_t bytes);

#endif
