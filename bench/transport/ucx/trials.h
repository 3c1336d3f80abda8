/* trials.h - what the coordinator of a trial and its members tell each other,
 * over a socket that keeps messages whole. */
#ifndef CT_BENCH_TRIALS_H
#define CT_BENCH_TRIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMBERS = 3, ADDRESS = 4096, ENOUGH = 3, NOBODY = -1 };

/* To a member: a view that opens, the end of one (size 0), or, with view 0,
 * the end of the member. */
struct order {
    uint32_t view;
    int      rank, size;
    int      lost; /* rank; at the end of a view; NOBODY: none */
    size_t   bytes[MEMBERS];
    char     address[MEMBERS][ADDRESS];
};

enum report_kind {
    LEFT,    /* the view, or the start; with the address for the next one */
    ROUNDS,  /* ENOUGH rounds of messages came as they should */
    FAILED,  /* the transport reports an error of the messages with `peer` */
    STUCK,   /* no message has come or left for some seconds */
    GARBLED, /* a message has wrong bytes, or a cancelled buffer has new ones */
};

struct report {
    enum report_kind what;
    uint32_t view;
    int      rank, peer, round;
    unsigned not_received, not_sent; /* STUCK: a bit for each rank */
    int      n_kept; /* buffers that cancel did not let go of, so far */
    size_t   bytes;
    char     text[ADDRESS]; /* or the address */
};

/* A member's life; `engine` is "tcp" or a way of UCX. */
_Noreturn void member_live(int fd, const char *engine, uint64_t seed);

#endif
