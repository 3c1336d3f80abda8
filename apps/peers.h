/* peers.h - commands that several ranks run together. */
#ifndef CT_APPS_PEERS_H
#define CT_APPS_PEERS_H

#include "command.h"
#include "cortado/dist.h"

/* Joins the ranks that a launcher started (alone: d is NULL), runs, leaves
 * them; rank 0 alone logs.  A rank that fails takes all along, so that nobody
 * waits.  Returns the exit code, EXIT_STOPPED where run gives CT_ESTOP.  The
 * options may be NULL. */
int peers_run(const Caffe__DistributedParameter *options,
              enum ct_status (*run)(struct ct_dist *d, void *arg), void *arg);

/* SIGTERM may be a request that the rank can meet: `accept` is asked, on a
 * thread of its own, and the rank lives on if it says so.  A launcher that ends
 * the ranks because one of them has died is not asked for.  NULL: no longer.
 * It may be set before the ranks have joined. */
void peers_set_accept(bool (*accept)(void));

/* Called once, on a thread of its own, when a signal ends this rank; NULL: no
 * longer.  When this returns the one before is not called any more. */
void peers_set_last_words(void (*say)(void *arg), void *arg);

#endif
