/* rounds.h - iterations that do not wait for everyone.
 *
 * Servers report which ranks have pushed for the current iteration.  The first
 * server decides which ranks are part of it, and all servers close the
 * iteration with that mask:
 *
 *     all ranks that count have pushed         at once
 *     deadline over, quorum reached            without the others
 *
 * The deadline is a time after the first push (deadline), a multiple of the
 * usual duration of an iteration (patience; a running mean), or the later of
 * both.  The quorum is a fraction of the samples.
 *
 * The gradient of the iteration is the mean over the samples that arrived.  A
 * late rank gets the newest values at once and continues with them.  Its
 * gradient is dropped and it draws the same samples again, or its gradient
 * counts by half for each iteration that it is late.  Servers always wait for
 * rank 0, because it tests and writes snapshots. */
#ifndef CT_DIST_SERVERS_ROUNDS_H
#define CT_DIST_SERVERS_ROUNDS_H

#include "comm/ps/ps.h"
#include "solver/exchange.h"

struct ct_dist;
struct dist_round;

/* The first tag that rounds do not use. */
enum { DIST_ROUND_TAG_FREE = CT_PS_TAG_FREE + 3 };

CT_MUST_CHECK enum ct_status dist_round_create(struct ct_dist *d,
                                               struct dist_round **out);
void dist_round_destroy(struct dist_round *r); /* takes NULL */
/* On the comm thread: sends and receives reports, decisions and heartbeats. */
CT_MUST_CHECK enum ct_status dist_round_progress(struct dist_round *r);

/* On the first server: is this worker suspect, so that nobody waits for it? */
bool dist_round_suspects(const struct dist_round *r, int rank);

/* On a worker, when its answer has arrived: was it too late?  Rank 0 logs the
 * late ranks. */
CT_MUST_CHECK enum ct_status dist_round_finish(struct dist_round *r,
                                               const struct ct_ps_head *latest,
                                               int *ahead, bool *again);
/* Saves how many batches each rank is behind; restores it on the same number of
 * ranks. */
CT_MUST_CHECK enum ct_status dist_round_save(const struct dist_round *r,
                                             const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status dist_round_restore(struct dist_round *r,
                                                const struct ct_keep *keep);
/* On rank 0, at the end: logs how many iterations were incomplete, and which
 * ranks missed them. */
void dist_round_report(const struct dist_round *r);

#endif
