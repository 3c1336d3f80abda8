/* journal.h - writes the run folder: what a training run was and did.
 *
 * docs/reference/run_folder.md describes the files.  Rank 0 has a journal; the
 * thread that trains only notes what happens in a bounded queue, and a thread
 * of the journal's own writes.  When the queue is full, notes are lost and
 * counted; when the disk is, the journal ends with one warning.  Training goes
 * on in either case. */
#ifndef CT_OBSERVE_JOURNAL_H
#define CT_OBSERVE_JOURNAL_H

#include "cortado/dist.h"
#include "cortado/solver.h"

struct ct_journal;

struct ct_journal_options {
    const char        *folder;  /* made where it is not there */
    const char        *version; /* of the program */
    int                argc;    /* the command line */
    char *const       *argv;
    struct ct_dist    *dist;    /* NULL: alone.  Borrowed until destroy */
    const char        *address; /* of the live page; NULL: none */
    /* Time layers by the clock, in some iterations; where layers run on a GPU
     * that is how they are timed in any case. */
    bool               clock_layers;
    bool               asleep;  /* until ct_journal_wake() */
};

/* Makes the folder and begins to keep the log.  Everything is copied.  A disk
 * that is full ends the journal with a warning, and this is CT_OK. */
CT_MUST_CHECK enum ct_status ct_journal_create(
    const struct ct_journal_options *options, struct ct_journal **out);

/* False: something could not be written, and the journal has ended. */
bool ct_journal_is_kept(const struct ct_journal *j);

/* All ranks call it, those without a journal with NULL, before they train:
 * measures the links between up to 16 ranks. */
CT_MUST_CHECK enum ct_status ct_journal_measure_links(struct ct_journal *j,
                                                      struct ct_dist *d);

/* For struct ct_solver_options.pulse: the journal looks there. */
struct ct_pulse *ct_journal_pulse(struct ct_journal *j);

/* Follows this solver, which is restored already where it is to be.  Call
 * once.  What cannot be written ends the journal, not the run.  Destroy the
 * journal when the solver no longer trains, before the solver. */
CT_MUST_CHECK enum ct_status ct_journal_follow(struct ct_journal *j,
                                               struct ct_solver *s);

/* Where ranks come and go every one of them has a journal, and rank 0's is
 * awake.  On the thread that trains: it sleeps while ranks change (no other
 * thread looks at them then), and wakes, with the live page's address or NULL,
 * where this process is rank 0 now.  Both take NULL, and may come twice.  What
 * cannot be written ends the journal, not the run. */
void ct_journal_sleep(struct ct_journal *j);
CT_MUST_CHECK enum ct_status ct_journal_wake(struct ct_journal *j,
                                             const char *address);

/* This process is about to be ended, or training has failed and nothing can be
 * freed: writes what there is, at once, on the calling thread's time.  Takes
 * NULL. */
void ct_journal_last_words(struct ct_journal *j, const char *why);

/* Writes the rest and ends the thread.  Takes NULL. */
void ct_journal_destroy(struct ct_journal *j);

/* runs/<net>-<time>, for a run whose folder has no name; ct_free'd by the
 * caller. */
CT_MUST_CHECK enum ct_status ct_journal_default_folder(
    const Caffe__SolverParameter *p, char **out);

#endif
