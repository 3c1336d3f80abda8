/* logbook.h - the last collectives of a rank, for an autopsy.
 *
 * A ring in memory that other processes may map, so that survivors can read the
 * last steps of a rank that has died.  The comm thread writes to it, and the
 * compute thread, which sums in shared memory.  Everything is atomic.  A reader
 * may see parts of an entry that is being written; such an entry has the number
 * 0.  Writing an entry takes about a tenth of a microsecond. */
#ifndef CT_COMM_LOGBOOK_H
#define CT_COMM_LOGBOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cortado/status.h"

enum {
    CT_LOGBOOK_ENTRIES     = 256,
    CT_LOGBOOK_WHAT_WORDS  = 3, /* of 8 bytes */
    CT_LOGBOOK_LABEL_WORDS = 5
};

enum ct_logbook_state {
    CT_LOGBOOK_BEGUN,
    CT_LOGBOOK_DONE,
    CT_LOGBOOK_FAILED
};

/* An entry.  A channel is one comm or one piece of shared memory; all ranks
 * number the collectives of a channel equally. */
struct ct_logbook_slot {
    atomic_uint_least64_t number; /* of entries, from 1 on; 0: being written */
    atomic_uint_least64_t channel, sequence, bytes;
    atomic_uint_least64_t begun, ended; /* us, ct_pulse_now(); ended 0: not
                                         * yet */
    atomic_uint_least64_t what[CT_LOGBOOK_WHAT_WORDS];
    atomic_uint_least64_t label[CT_LOGBOOK_LABEL_WORDS];
    atomic_int            state;
};

struct ct_logbook {
    atomic_uint_least64_t  n; /* entries so far */
    struct ct_logbook_slot slot[CT_LOGBOOK_ENTRIES];
};

/* A copy of an entry. */
struct ct_logbook_entry {
    uint64_t number, channel, sequence, bytes, begun, ended;
    char     what[8 * CT_LOGBOOK_WHAT_WORDS + 1];
    char     label[8 * CT_LOGBOOK_LABEL_WORDS + 1]; /* may be empty */
    enum ct_logbook_state state;
};

/* Records that a collective begins; `label` may be NULL.  Returns the number of
 * the entry, or 0 if b is NULL. */
uint64_t ct_logbook_begin(struct ct_logbook *b, uint64_t channel,
                          uint64_t sequence, const char *what, uint64_t bytes,
                          const char *label);
/* Records the end of a collective.  Does nothing if the entry is no longer in
 * the ring, or for number 0. */
void ct_logbook_end(struct ct_logbook *b, uint64_t number, enum ct_status st);
/* The comm thread writes through a pen, which has at most one open entry for
 * all comms.  Private to the process, unlike the book. */
struct ct_logbook_pen {
    struct ct_logbook *book; /* borrowed */
    uint64_t           open;  /* the open entry; 0: none */
    const char        *label; /* of entries that follow; borrowed */
};
/* Ends the open entry and begins another. */
void ct_logbook_pen_begin(struct ct_logbook_pen *p, uint64_t channel,
                          uint64_t sequence, const char *what,
                          uint64_t bytes);
void ct_logbook_pen_end(struct ct_logbook_pen *p, enum ct_status st);

/* Copies entry `number`; false: it is not in the ring. */
bool ct_logbook_read(const struct ct_logbook *b, uint64_t number,
                     struct ct_logbook_entry *out);

#endif
