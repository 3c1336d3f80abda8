/* pulse.h - where a rank stands, for its peers to read while it works.
 *
 * The compute thread writes what it is at, both it and the comm thread whom
 * they wait for, and a watching thread that the process lives.  Everything is
 * atomic, and a pulse may lie in memory that other processes map: a reader may
 * see parts of two states, which does no harm in a message.  Writing takes some
 * tens of nanoseconds. */
#ifndef CT_BASE_PULSE_H
#define CT_BASE_PULSE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum ct_pulse_phase {
    CT_PULSE_START, /* building nets, loading weights */
    CT_PULSE_DATA,
    CT_PULSE_FORWARD,
    CT_PULSE_BACKWARD,
    CT_PULSE_EXCHANGE,
    CT_PULSE_UPDATE,
    CT_PULSE_TEST,
    CT_PULSE_SNAPSHOT,
    CT_PULSE_SERVING, /* a rank that serves and does not train */
    CT_PULSE_DONE,    /* it has nothing left to do; others may */
    CT_PULSE_LEAVING, /* the end of the run */
    CT_PULSE_N_PHASES
};

enum { CT_PULSE_WORDS = 5 };

/* Who waits for peers: one may, while the other goes on. */
enum ct_pulse_thread { CT_PULSE_COMPUTE, CT_PULSE_COMM, CT_PULSE_THREADS };

struct ct_pulse_wait {
    atomic_uint_least64_t since; /* 0: it does not */
    atomic_int            peer;  /* for whom; -1: for all */
};

/* Times are microseconds of the monotonic clock, one for a whole host. */
struct ct_pulse {
    /* The compute thread's: */
    atomic_uint_least64_t changed; /* when it last moved on */
    atomic_int            phase, iter;
    atomic_uint_least64_t layer[CT_PULSE_WORDS]; /* the start of its name */
    /* Of each thread that waits for peers: */
    struct ct_pulse_wait  wait[CT_PULSE_THREADS];
    /* The comm thread's: */
    atomic_uint           sequence; /* collectives begun */
    /* The watching thread's: */
    atomic_uint_least64_t beat; /* when it last looked */
    /* Figures that only grow, or stand for now; for those who watch a run: */
    atomic_uint_least64_t waited; /* us that the solver waited for peers */
    atomic_uint_least64_t sent;   /* bytes */
    atomic_uint_least64_t memory; /* bytes that the process has in RAM */
    atomic_uint_least64_t device_memory; /* bytes it has on its GPU; 0: none */
};

/* A pulse at one moment, for messages.  `waiting` is the longest wait of the
 * threads, and `peer` is for whom. */
struct ct_pulse_view {
    uint64_t changed, waiting, beat;
    uint64_t waited, sent, memory, device_memory;
    int32_t  phase, iter, peer;
    uint32_t sequence;
    char     layer[CT_PULSE_WORDS * 8 + 1];
};

uint64_t ct_pulse_now(void);
void ct_pulse_init(struct ct_pulse *p);
/* `layer` may be NULL.  Does nothing for p NULL. */
void ct_pulse_set(struct ct_pulse *p, enum ct_pulse_phase phase,
                  const char *layer);
void ct_pulse_iter(struct ct_pulse *p, int iter);
/* `since` 0: this thread waits no more. */
void ct_pulse_tell_wait(struct ct_pulse *p, enum ct_pulse_thread thread,
                        int peer, uint64_t since);
struct ct_pulse_view ct_pulse_view(const struct ct_pulse *p);
/* The other way around, for a pulse that came in a message. */
void ct_pulse_put(struct ct_pulse *p, const struct ct_pulse_view *v);

/* This process's part of the machine's memory, in bytes; 0: unknown. */
uint64_t ct_process_memory(void);

/* "forward", "exchange" and so on. */
const char *ct_pulse_phase_name(int phase);

/* "iteration 57, backward of layer conv1". */
const char *ct_pulse_text(const struct ct_pulse_view *v, char *text,
                          size_t bytes);

#endif
