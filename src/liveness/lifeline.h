/* lifeline.h - a connection that ends when a rank of another host ends.
 *
 * Rank 0 listens; every rank whose pulse it cannot map connects.  If a process
 * ends for any reason, its kernel closes the connection, and the other end sees
 * it at once.  If a host is lost, probes of the kernel notice it within
 * LINE_LOST_S.  A rank that leaves as planned says so first.
 *
 *     rank r -> 0    hello: nonce of rank 0's page, number of rank r
 *     rank 0 -> r    'a'
 *     rank r -> 0    'c'   after this an end of the line means a death
 *     either         'g'   goodbye: an end after this does not
 *
 * If a rank cannot connect, for example because of a firewall, only --stall
 * notices its death.  Only the watching thread uses lines; the offer is read by
 * others, too. */
#ifndef CT_LIVENESS_LIFELINE_H
#define CT_LIVENESS_LIFELINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

enum { LINE_ADDRESSES = 8, LINE_LOST_S = 40 };

/* The addresses where rank 0 listens; sent to the others. */
struct live_offer {
    uint64_t nonce;
    uint32_t address[LINE_ADDRESSES]; /* in network order */
    uint32_t n;                       /* number of addresses; 0: rank 0 does
                                       * not listen */
    uint16_t port, pad;               /* in network order */
};

struct live_line {
    int  fd; /* -1: none */
    bool sure;  /* the end of the line means a death */
    bool leaves; /* the other rank has said goodbye */
};

enum live_line_state { LIVE_LINE_WELL, LIVE_LINE_ENDED, LIVE_LINE_LOST };

/* Rank 0: returns a socket that listens; -1: failed. */
int live_line_listen(uint64_t nonce, struct live_offer *out);
/* Rank 0: accepts a connection and returns the number of its rank; -1: none. */
int live_line_accept(int listener, const struct live_offer *offer, int size,
                     struct live_line *out);
/* Other ranks: connects to rank 0, within some seconds. */
struct live_line live_line_connect(const struct live_offer *offer, int rank);
/* Call it when the line is readable.  Closes a line that has ended or is
 * lost. */
enum live_line_state live_line_look(struct live_line *line);
/* Says goodbye and closes the line. */
void live_line_leave(struct live_line *line);

#endif
