/* line.h - a connection to another process of the job, or to one that wants to
 * join it.
 *
 * After the greeting of seal.h it carries frames in both directions:
 *
 *     frame   length u32, then that many sealed bytes
 *
 * No function waits: the owner of a line calls line_step() when its socket is
 * ready.  A greeting may be a replay of a recorded one; only a frame that can
 * be opened proves that the other end knows the secret.  Until then a line uses
 * little memory. */
#ifndef CT_ELASTIC_LINE_H
#define CT_ELASTIC_LINE_H

#include "comm/transport/address.h"
#include "elastic/seal.h"

enum {
    LINE_FRAME_BYTES = 4 << 20,
    LINE_FIRST_BYTES = 4096, /* most bytes of the first frame that an end
                              * accepts */
    LINE_OUT_BYTES   = 16 << 20,
    LINE_REMEMBERED  = 1024
};

/* The last greetings with a valid proof; none is answered twice. */
struct line_memory {
    uint64_t number[LINE_REMEMBERED]; /* in a ring */
    unsigned n;
};

enum line_state {
    LINE_CLOSED,
    LINE_CALLING,  /* caller: not connected yet */
    LINE_GREETING, /* waits for the first message of the other end */
    LINE_BEGINNING, /* answerer: waits for `begin` */
    LINE_OPEN
};

/* Embedded; zero-initialised is closed. */
struct elastic_line {
    enum line_state     state;
    bool                proven; /* the other end has proved that it knows the
                                 * secret */
    int                 fd;
    int                 epoll;   /* watches fd; see `watched` */
    bool                watched;
    const uint8_t      *secret; /* borrowed */
    double              since;  /* time of creation */
    struct elastic_seal seal;
    uint8_t             greeting[SEAL_ANSWER_BYTES];
    size_t              n_greeting; /* bytes received of it */
    uint8_t            *in, *out;   /* owned */
    size_t              n_in, in_room, n_out, n_sent, out_room;
    int                 error; /* errno of a failed call */
    struct line_memory *memory; /* of the answerer; borrowed; NULL: none */
};

/* `frame` belongs to the line. */
typedef void (*line_take_fn)(void *arg, const uint8_t *frame, size_t bytes);

/* Starts to connect; false: no route to that address. */
bool line_call(struct elastic_line *l, const struct ct_ip *to, uint16_t port,
               const uint8_t *secret);
/* Takes ownership of an accepted connection. */
void line_answer(struct elastic_line *l, int fd, const uint8_t *secret);
/* Writes and reads without waiting.  Passes each frame to `take`, which must
 * not close the line.  False: the line has ended and is closed. */
bool line_step(struct elastic_line *l, line_take_fn take, void *arg);
/* Queues a frame.  False: the line is not open, or the other end does not
 * read. */
bool line_put(struct elastic_line *l, const void *data, size_t bytes);
void line_close(struct elastic_line *l);
/* In a forked process: drops the line without ending it for the parent. */
void line_leave(struct elastic_line *l);

static inline bool line_wants_to_write(const struct elastic_line *l)
{
    return l->state == LINE_CALLING || l->n_sent < l->n_out;
}

#endif
