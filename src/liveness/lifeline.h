/* lifeline.h - a connection that ends when a rank of another host does.
 *
 * Rank 0 listens; every rank that it cannot map connects.  When a process ends,
 * however that happens, its system closes the connection, and the other end
 * sees it at once; when a host is lost, the system's own probes find out within
 * LINE_LOST_S.  Whoever leaves as planned says so before.
 *
 *     rank r -> 0    hello: nonce of rank 0's page, number of rank r
 *     rank 0 -> r    'a'
 *     rank r -> 0    'c'   from here on its end is a death ...
 *     either         'g'   ... but for a goodbye
 *
 * Where no connection comes about, a firewall between perhaps, silence is
 * noticed by --stall.  The watching thread's alone, but for the offer. */
#ifndef CT_LIVENESS_LIFELINE_H
#define CT_LIVENESS_LIFELINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

enum { LINE_ADDRESSES = 8, LINE_LOST_S = 40 };

/* Where rank 0 listens; sent to the others. */
struct live_offer {
    uint64_t nonce;
    uint32_t address[LINE_ADDRESSES]; /* in network order */
    uint32_t n;                       /* of these; 0: it does not listen */
    uint16_t port, pad;               /* in network order */
};

struct live_line {
    int  fd; /* -1: none */
    bool sure;  /* an end of it is a death */
    bool leaves; /* the other one has said goodbye */
};

enum live_line_state { LIVE_LINE_WELL, LIVE_LINE_ENDED, LIVE_LINE_LOST };

/* Rank 0: a socket that listens, or -1. */
int live_line_listen(uint64_t nonce, struct live_offer *out);
/* Rank 0: takes a connection; the rank that it is of, or -1: none. */
int live_line_accept(int listener, const struct live_offer *offer, int size,
                     struct live_line *out);
/* The others: to rank 0, within some seconds. */
struct live_line live_line_connect(const struct live_offer *offer, int rank);
/* When it can be read.  It is closed where it is not well any more, or where
 * the other one left. */
enum live_line_state live_line_look(struct live_line *line);
/* This rank leaves. */
void live_line_leave(struct live_line *line);

#endif
