/* tcp_parts.h - shared by the files of the transport tcp.
 *
 * On a connection the caller sends a hello, and the other side answers.  The
 * caller then proves that its hello is not a recorded one.  After that both
 * sides send frames.
 *
 *     hello   magic 8 | number 16 | view 4 | rank 4 | tag 8
 *     answer  magic 8 | number 16 | tag 8
 *     proof   tag 8
 *     frame   kind 4 | tag 4 | bytes 8 | data, for MESSAGE and GRANTED
 *
 * Numbers are in the byte order of the host; a magic in another order is
 * refused. */
#ifndef CT_COMM_TCP_PARTS_H
#define CT_COMM_TCP_PARTS_H

#include <stdatomic.h>

#include "comm/transport/tcp.h"

enum {
    TCP_KEY_BYTES = 16,
    TCP_NONCE_BYTES = 16,
    TCP_CALLS     = 8, /* addresses of an end that are tried */
    TCP_SMALL     = 8192,       /* messages up to this size need no GO */
    TCP_EARLY     = 256 * 1024, /* limit of small messages that are not yet
                                 * received, in bytes */
    TCP_INPUT     = 64 * 1024   /* bytes of a peer's input buffer */
};

static const uint64_t tcp_hello_magic  = 0x326f6c6c65687463,
                      tcp_answer_magic = 0x3272657773746331;

struct tcp_hello {
    uint64_t magic;
    uint8_t  nonce[TCP_NONCE_BYTES];
    uint32_t view, rank;
    uint64_t tag;
};

struct tcp_answer {
    uint64_t magic;
    uint8_t  nonce[TCP_NONCE_BYTES];
    uint64_t tag;
};

/* What a tag proves. */
enum tcp_word { TCP_HELLO = 1, TCP_ANSWER, TCP_PROOF };

enum tcp_kind {
    TCP_MESSAGE = 1, /* a small message */
    TCP_OFFER,       /* a message of `bytes` bytes waits for a GO */
    TCP_GO,          /* a receive with this tag is posted */
    TCP_GRANTED,     /* the message for a GO */
    TCP_USED         /* `bytes` bytes of small messages were received */
};

struct tcp_frame {
    uint32_t kind, tag;
    uint64_t bytes;
};

/* The kind of object of an epoll event; the first member of each of them. */
enum tcp_about { TCP_LISTENER, TCP_GUEST, TCP_CALL, TCP_PEER };

enum tcp_guest_state {
    TCP_UNKNOWN, /* no correct hello so far */
    TCP_AWAITED, /* correct hello for a view that is not open yet */
    TCP_PROVING, /* answered; the proof is missing */
    TCP_N_GUESTS
};

/* An accepted connection that does not belong to a peer yet. */
struct tcp_guest {
    enum tcp_about       about;
    enum tcp_guest_state state;
    int                  fd;
    struct tcp_guest    *next;
    double               since;  /* when this state began */
    size_t               n_read; /* bytes of hello or proof */
    struct tcp_hello     hello;
    uint8_t              nonce[TCP_NONCE_BYTES]; /* of the answer */
    uint64_t             proof;
};

struct ct_tcp {
    enum tcp_about    about; /* the listener */
    int               listener, epoll;
    void             *address; /* owned */
    uint8_t           key[TCP_KEY_BYTES];
    struct tcp_guest *guests; /* newest first; owned */
    int               n_guests[TCP_N_GUESTS]; /* per state */
    struct tcp_view  *view; /* the open view; NULL: none */
    bool              knocked; /* connections can be accepted */
};

/* A connection that this rank makes to one address of a peer. */
struct tcp_call {
    enum tcp_about    about;
    int               fd; /* -1: unused */
    bool              asked; /* the hello is sent */
    struct tcp_peer  *peer;
    struct tcp_hello  hello;
    size_t            n_read; /* bytes of answer */
    struct tcp_answer answer;
};

enum tcp_state {
    TCP_WAITING, /* a send waits for its GO, a receive for its message */
    TCP_QUEUED,  /* a send in the output queue */
    TCP_FILLING, /* a receive whose bytes are arriving */
    TCP_DONE
};

/* A request, or a frame of the transport itself (is_ours). */
struct tcp_operation {
    struct tcp_operation *next;
    struct tcp_peer      *peer;
    enum tcp_state        state;
    bool                  is_send, is_ours;
    bool                  asked;   /* a receive: its GO was sent */
    bool                  offered; /* a receive: its message was offered */
    struct tcp_frame      frame;
    void                 *data;  /* that of a send is only read */
    void                 *owned; /* data, if the operation owns it */
    size_t                bytes, got;
};

/* A message without a receive, or an offer without one. */
struct tcp_early {
    struct tcp_early     *next;
    struct tcp_frame      frame;
    struct tcp_operation *taker; /* a receive that was posted while the bytes
                                  * were arriving; NULL: none */
    bool                  whole; /* all bytes have arrived */
    bool                  unwanted; /* its receive was cancelled */
    char                  data[];
};

/* GOs of one tag that no send has used yet. */
struct tcp_go {
    uint32_t tag;
    int      n;
};

struct tcp_queue {
    struct tcp_operation *first, **last;
};

struct tcp_peer {
    enum tcp_about    about;
    int               fd;   /* -1: not connected */
    int               rank;
    bool              local; /* on this machine */
    uint8_t           key[TCP_KEY_BYTES]; /* key of the peer's end */
    struct tcp_view  *view;
    struct tcp_call   call[TCP_CALLS];
    bool              lost;
    char              why[96];
    /* Sending. */
    struct tcp_queue  out;     /* frames to be written, in order */
    size_t            n_out;   /* bytes of the first frame that are written */
    bool              blocked; /* epoll reports when more can be written */
    struct tcp_queue  offered; /* sends that wait for a GO */
    struct tcp_go    *go;      /* GOs for later messages; owned */
    int               n_go, most_go;
    size_t            n_early; /* bytes of small messages for which no USED has
                                * arrived */
    /* Receiving. */
    struct tcp_queue  posted;     /* receives that wait */
    struct tcp_early *early;      /* oldest first; owned */
    size_t            most_asked; /* size of the longest receive with a GO */
    size_t            n_used;   /* received bytes that USED will report */
    struct tcp_frame  frame;    /* frame whose data is arriving */
    size_t            left;     /* bytes of it that are missing */
    struct tcp_operation *filling; /* receive of that frame, or NULL */
    struct tcp_early *arriving;    /* without a receive; or NULL */
    char             *at;          /* next byte of the data; NULL: discarded */
    char             *input;       /* owned, TCP_INPUT bytes */
    size_t            n_input;
};

struct tcp_slab;

struct tcp_view {
    struct ct_transport   base;
    struct ct_tcp        *end; /* borrowed */
    uint32_t              number;
    struct tcp_peer      *peer; /* per rank; owned */
    int                  *host; /* owned */
    atomic_bool           is_over;
    struct tcp_operation *unused;
    struct tcp_slab      *slabs;
};

/* tcp_proof.c: random numbers, and tags which prove that their sender has the
 * key.  `answer`: the nonce of the other side; NULL: none yet. */
void tcp_draw(uint8_t *nonce);
uint64_t tcp_tag(const uint8_t *key, enum tcp_word word,
                 const struct tcp_hello *h, const uint8_t *answer);
uint64_t tcp_hash(const uint8_t *key, const void *data, size_t bytes);

/* tcp_end.c: accepts, connects, reads from peers and writes to them, without
 * waiting. */
void tcp_progress(struct ct_tcp *e);
bool tcp_watch(const struct ct_tcp *e, int fd, void *about, bool write);
/* Ends a connection and its events.  close() alone would not: a forked process
 * may have the socket, too, and events would then name freed memory. */
void tcp_close(const struct ct_tcp *e, int fd);
/* Sets the address of a peer, and calls it if this rank is the lower one.
 * CT_EINVAL: the bytes are not an address. */
CT_MUST_CHECK enum ct_status tcp_peer_address(struct tcp_peer *p,
                                              const void *address,
                                              size_t bytes);
void tcp_hang_up(struct tcp_peer *p);
/* Answers guests that wait for the view that was opened, and closes those of
 * older views. */
void tcp_seat_guests(struct ct_tcp *e);

/* tcp_queue.c; NULL: no memory. */
struct tcp_operation *tcp_operation_new(struct tcp_peer *p);
void tcp_operation_drop(struct tcp_operation *o);
void tcp_slabs_free(struct tcp_view *v);
void tcp_queue_add(struct tcp_queue *q, struct tcp_operation *o);
bool tcp_queue_remove(struct tcp_queue *q, struct tcp_operation *o);
/* The first one with this tag; NULL: none. */
struct tcp_operation *tcp_queue_find(const struct tcp_queue *q, uint32_t tag);

/* tcp_peer.c */
/* Takes ownership of the socket. */
void tcp_peer_connected(struct tcp_peer *p, int fd);
void tcp_peer_lose(struct tcp_peer *p, const char *why);
void tcp_peer_read(struct tcp_peer *p);
void tcp_peer_write(struct tcp_peer *p);
void tcp_peer_send(struct tcp_operation *o);
void tcp_peer_receive(struct tcp_operation *o);
/* Cancels an operation in any state; its buffer is free after the call. */
void tcp_peer_give_up(struct tcp_operation *o);
void tcp_peer_init(struct tcp_peer *p, struct tcp_view *v, int rank);
void tcp_peer_fini(struct tcp_peer *p);

#endif
