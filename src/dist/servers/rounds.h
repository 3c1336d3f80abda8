/* rounds.h - iterations that do not wait for everyone.
 *
 * Servers report who has pushed for the current iteration; the first server
 * decides who is in it, and all of them close it with that mask:
 *
 *     all who are waited for are in            at once
 *     the deadline is over, a quorum is in     without the rest
 *
 * The deadline is a time after the first has come (deadline), a multiple of
 * what iterations usually take (patience; a running mean over those before),
 * or the later of both.  The quorum is a share of the samples.
 *
 * The iteration's gradient is the mean over the samples that are in.  A rank
 * that comes late gets the newest values at once and goes on from there; its
 * gradient is thrown away, and it draws the same samples again, or counts by
 * half for each iteration that it is late.  Rank 0 is always waited for: it
 * tests and writes snapshots for all. */
#ifndef CT_DIST_SERVERS_ROUNDS_H
#define CT_DIST_SERVERS_ROUNDS_H

#include "comm/ps/ps.h"
#include "solver/exchange.h"

struct ct_dist;
struct dist_round;

/* From this tag on they are others'. */
enum { DIST_ROUND_TAG_FREE = CT_PS_TAG_FREE + 3 };

CT_MUST_CHECK enum ct_status dist_round_create(struct ct_dist *d,
                                               struct dist_round **out);
void dist_round_destroy(struct dist_round *r); /* takes NULL */
/* Comm thread: reports, decisions, heartbeats. */
CT_MUST_CHECK enum ct_status dist_round_progress(struct dist_round *r);

/* First server: is this rank, which trains, one that is not waited for? */
bool dist_round_suspects(const struct dist_round *r, int rank);

/* On a worker, when its answer is in: was it left behind?  Rank 0 logs who
 * was. */
CT_MUST_CHECK enum ct_status dist_round_finish(struct dist_round *r,
                                               const struct ct_ps_head *latest,
                                               int *ahead, bool *again);
/* How many batches each rank is behind, into a snapshot; and back, on the same
 * number of ranks, where each draws on from its own. */
CT_MUST_CHECK enum ct_status dist_round_save(const struct dist_round *r,
                                             const struct ct_keep *keep);
CT_MUST_CHECK enum ct_status dist_round_restore(struct dist_round *r,
                                                const struct ct_keep *keep);
/* Rank 0, at the end: how many iterations were short, and of whom. */
void dist_round_report(const struct dist_round *r);

#endif
