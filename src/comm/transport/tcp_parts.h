/* tcp_parts.h - what the files of the transport tcp share.
 *
 * On a connection: a hello of the one that connects, an answer of the other,
 * a proof that the first one talks now and has not been recorded, then frames
 * in both directions.
 *
 *     hello   magic 8 | number 16 | view 4 | rank 4 | tag 8
 *     answer  magic 8 | number 16 | tag 8
 *     proof   tag 8
 *     frame   kind 4 | tag 4 | bytes 8 | data, for MESSAGE and GRANTED
 *
 * Numbers are in the order of the host; a magic in another order is refused. */
#ifndef CT_COMM_TCP_PARTS_H
#define CT_COMM_TCP_PARTS_H

#include <stdatomic.h>

#include "comm/transport/tcp.h"

enum {
    TCP_KEY_BYTES = 16,
    TCP_NONCE_BYTES = 16,
    TCP_CALLS     = 8, /* addresses of an end that are tried at once */
    TCP_SMALL     = 8192,       /* bytes that are sent without being asked */
    TCP_EARLY     = 256 * 1024, /* bytes of those before one is received */
    TCP_INPUT     = 64 * 1024
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

/* What a tag is of. */
enum tcp_word { TCP_HELLO = 1, TCP_ANSWER, TCP_PROOF };

enum tcp_kind {
    TCP_MESSAGE = 1, /* a small message */
    TCP_OFFER,       /* a message of so many bytes waits for a GO */
    TCP_GO,          /* a receive with this tag is posted */
    TCP_GRANTED,     /* a message that a GO asked for */
    TCP_USED         /* so many bytes of small messages were received */
};

struct tcp_frame {
    uint32_t kind, tag;
    uint64_t bytes;
};

/* What epoll says an event is about; the first member of each. */
enum tcp_about { TCP_LISTENER, TCP_GUEST, TCP_CALL, TCP_PEER };

enum tcp_guest_state {
    TCP_UNKNOWN, /* it has not said a hello that is right */
    TCP_AWAITED, /* it has, for a view that is not open yet */
    TCP_PROVING, /* it was answered, and has to show that it talks now */
    TCP_N_GUESTS
};

/* A connection that somebody made to this end, and that is not a peer's yet. */
struct tcp_guest {
    enum tcp_about       about;
    enum tcp_guest_state state;
    int                  fd;
    struct tcp_guest    *next;
    double               since;  /* when that state began */
    size_t               n_read; /* of hello, or of proof */
    struct tcp_hello     hello;
    uint8_t              nonce[TCP_NONCE_BYTES]; /* of the answer */
    uint64_t             proof;
};

struct ct_tcp {
    enum tcp_about    about; /* the listener */
    int               listener, epoll;
    void             *address; /* owned */
    uint8_t           key[TCP_KEY_BYTES];
    struct tcp_guest *guests; /* the newest first */
    int               n_guests[TCP_N_GUESTS];
    struct tcp_view  *view; /* the one that is open; NULL: none */
    bool              knocked; /* somebody wants to be accepted */
};

/* A connection that this rank makes to one address of a peer. */
struct tcp_call {
    enum tcp_about    about;
    int               fd; /* -1: unused */
    bool              asked; /* hello is sent */
    struct tcp_peer  *peer;
    struct tcp_hello  hello;
    size_t            n_read; /* of answer */
    struct tcp_answer answer;
};

enum tcp_state {
    TCP_WAITING, /* a send: for its GO; a receive: for its message */
    TCP_QUEUED,  /* a send that is written when its turn comes */
    TCP_FILLING, /* a receive whose bytes are coming */
    TCP_DONE
};

/* A request; or a frame of our own, which no request knows (is_ours). */
struct tcp_operation {
    struct tcp_operation *next;
    struct tcp_peer      *peer;
    enum tcp_state        state;
    bool                  is_send, is_ours;
    bool                  asked;   /* a receive: GO was sent for it */
    bool                  offered; /* a receive: its message was offered */
    struct tcp_frame      frame;
    void                 *data;  /* a send's is never written */
    void                 *owned; /* data, where it is ours */
    size_t                bytes, got;
};

/* A message, or an offer of one, that nobody has received yet. */
struct tcp_early {
    struct tcp_early     *next;
    struct tcp_frame      frame;
    struct tcp_operation *taker; /* of one whose bytes are still coming */
    bool                  whole, unwanted;
    char                  data[];
};

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
    uint8_t           key[TCP_KEY_BYTES]; /* by which it knows others */
    struct tcp_view  *view;
    struct tcp_call   call[TCP_CALLS];
    bool              lost;
    char              why[96];
    /* Sending. */
    struct tcp_queue  out;     /* in this order */
    size_t            n_out;   /* bytes of the first that are written */
    bool              blocked; /* epoll tells when there is room */
    struct tcp_queue  offered; /* sends that wait for a GO */
    struct tcp_go    *go;      /* for messages that are still to be sent */
    int               n_go, most_go;
    size_t            n_early; /* bytes of small messages on their way */
    /* Receiving. */
    struct tcp_queue  posted;
    struct tcp_early *early;
    size_t            most_asked; /* the longest receive that GO was for */
    size_t            n_used;   /* bytes that the sender is to hear of */
    struct tcp_frame  frame;    /* whose data is coming */
    size_t            left;     /* bytes of it */
    struct tcp_operation *filling; /* takes it; NULL: */
    struct tcp_early *arriving;    /* or this; NULL: nobody */
    char             *at;          /* where it goes; NULL: nowhere */
    char             *input;       /* owned, TCP_INPUT bytes */
    size_t            n_input;
};

struct tcp_slab;

struct tcp_view {
    struct ct_transport   base;
    struct ct_tcp        *end; /* borrowed */
    uint32_t              number;
    struct tcp_peer      *peer; /* by rank; owned */
    int                  *host; /* owned */
    atomic_bool           is_over;
    struct tcp_operation *unused;
    struct tcp_slab      *slabs;
};

/* tcp_proof.c: numbers that nobody can know before, and what shows that their
 * sender has the key; `answer` is the other's, NULL: none yet. */
void tcp_draw(uint8_t *nonce);
uint64_t tcp_tag(const uint8_t *key, enum tcp_word word,
                 const struct tcp_hello *h, const uint8_t *answer);
uint64_t tcp_hash(const uint8_t *key, const void *data, size_t bytes);

/* tcp_end.c: accepts, connects, and lets peers read and write what they can. */
void tcp_progress(struct ct_tcp *e);
bool tcp_watch(const struct ct_tcp *e, int fd, void *about, bool write);
/* A process that was forked may have the socket as well.  Then to close it here
 * would neither end the connection nor its events, which are about what is
 * gone by then. */
void tcp_close(const struct ct_tcp *e, int fd);
/* Learns where the peer is, and calls it if it is this rank that calls.
 * CT_EINVAL: that is no address. */
CT_MUST_CHECK enum ct_status tcp_peer_address(struct tcp_peer *p,
                                              const void *address,
                                              size_t bytes);
void tcp_hang_up(struct tcp_peer *p);
/* Guests of the view that was opened become peers, older ones leave. */
void tcp_seat_guests(struct ct_tcp *e);

/* tcp_queue.c; NULL: there is no memory. */
struct tcp_operation *tcp_operation_new(struct tcp_peer *p);
void tcp_operation_drop(struct tcp_operation *o);
void tcp_slabs_free(struct tcp_view *v);
void tcp_queue_add(struct tcp_queue *q, struct tcp_operation *o);
bool tcp_queue_remove(struct tcp_queue *q, struct tcp_operation *o);
/* The first one with that tag; NULL: there is none. */
struct tcp_operation *tcp_queue_find(const struct tcp_queue *q, uint32_t tag);

/* tcp_peer.c */
/* The socket is the peer's from now on. */
void tcp_peer_connected(struct tcp_peer *p, int fd);
void tcp_peer_lose(struct tcp_peer *p, const char *why);
void tcp_peer_read(struct tcp_peer *p);
void tcp_peer_write(struct tcp_peer *p);
void tcp_peer_send(struct tcp_operation *o);
void tcp_peer_receive(struct tcp_operation *o);
/* Whatever state it is in: nobody touches its buffer any more. */
void tcp_peer_give_up(struct tcp_operation *o);
void tcp_peer_init(struct tcp_peer *p, struct tcp_view *v, int rank);
void tcp_peer_fini(struct tcp_peer *p);

#endif
