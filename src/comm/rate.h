/* rate.h - a token bucket: how much may be sent, and when.
 *
 * Tokens are bytes.  They come at `per_s` a second, up to `most`; a message
 * goes when there is any token and takes all it needs, so the level may fall
 * below zero and the next ones wait until it is above again.  Over a time T
 * no more than per_s T + most + one message is sent. */
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
 * MB, GB a second, in thousands.  Reads up to the end or a colon, which *rest
 * points to. */
CT_MUST_CHECK enum ct_status ct_rate_parse(const char *text, double *bytes_s,
                                           const char **rest);

/* A second's tokens at most; none at the start. */
void ct_rate_init(struct ct_rate *r, double bytes_s, double now);
double ct_rate_level(struct ct_rate *r, double now);
/* True: take them and go.  False: wait. */
bool ct_rate_take(struct ct_rate *r, double now, size_t bytes);

#endif
