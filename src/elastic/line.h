/* line.h - a connection to another process of the job, or of one that wants to
 * be.
 *
 * After the greeting of seal.h it carries frames in both directions:
 *
 *     frame   bytes u32, then so many sealed bytes
 *
 * Nothing waits: whoever owns a line steps it when its socket is ready.  A
 * greeting can be one that was recorded; only a frame that opens is proof that
 * the other end knows the secret.  Until then a line takes little memory. */
#ifndef CT_ELASTIC_LINE_H
#define CT_ELASTIC_LINE_H

#include "comm/transport/address.h"
#include "elastic/seal.h"

enum {
    LINE_FRAME_BYTES = 4 << 20,
    LINE_FIRST_BYTES = 4096, /* of the first frame that an end takes */
    LINE_OUT_BYTES   = 16 << 20,
    LINE_REMEMBERED  = 1024
};

/* The last greetings that proved the secret: none is answered twice. */
struct line_memory {
    uint64_t number[LINE_REMEMBERED]; /* in a ring */
    unsigned n;
};

enum line_state {
    LINE_CLOSED,
    LINE_CALLING,  /* the caller: until it is connected */
    LINE_GREETING, /* what the other end has to say first */
    LINE_BEGINNING, /* the answerer: what it has to say after that */
    LINE_OPEN
};

/* Embedded; zero-initialised is closed. */
struct elastic_line {
    enum line_state     state;
    bool                proven; /* the other end knows the secret, now */
    int                 fd;
    int                 epoll;   /* that looks at fd, with `watched` */
    bool                watched;
    const uint8_t      *secret; /* borrowed */
    double              since;  /* when it was made */
    struct elastic_seal seal;
    uint8_t             greeting[SEAL_ANSWER_BYTES];
    size_t              n_greeting; /* bytes of it that have come */
    uint8_t            *in, *out;   /* owned */
    size_t              n_in, in_room, n_out, n_sent, out_room;
    int                 error; /* errno, where a call failed */
    struct line_memory *memory; /* borrowed; of who is called; NULL: none */
};

/* `frame` is the line's. */
typedef void (*line_take_fn)(void *arg, const uint8_t *frame, size_t bytes);

/* Begins a call; false: there is no way to that address. */
bool line_call(struct elastic_line *l, const struct ct_ip *to, uint16_t port,
               const uint8_t *secret);
/* A connection that was accepted becomes the line's. */
void line_answer(struct elastic_line *l, int fd, const uint8_t *secret);
/* Writes and reads what can be; `take` gets each frame, and must not close the
 * line.  False: it is at its end, and closed. */
bool line_step(struct elastic_line *l, line_take_fn take, void *arg);
/* Of an open line: a frame to send, in parts.  False: it is not open, or the
 * other end takes nothing any more. */
bool line_put(struct elastic_line *l, const void *data, size_t bytes);
void line_close(struct elastic_line *l);
/* In a forked process, whose parent goes on with the line. */
void line_leave(struct elastic_line *l);

static inline bool line_wants_to_write(const struct elastic_line *l)
{
    return l->state == LINE_CALLING || l->n_sent < l->n_out;
}

#endif
