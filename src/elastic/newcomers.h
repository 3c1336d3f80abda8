/* newcomers.h - who stays of those that came together, where not all can train.
 *
 * When the ranks of a view cannot train together, it is because of one that has
 * just come.  One that came alone knows that it is meant, and ends.  Of several
 * none can tell which it is: so the first of them stays, or as many as the job
 * needs ranks, and the others leave and ask again.  In the end each is alone
 * with those who can train, and only who does not fit ends. */
#ifndef CT_ELASTIC_NEWCOMERS_H
#define CT_ELASTIC_NEWCOMERS_H

#include "elastic/agreement.h"

/* This member came with view `v` and cannot train in it.  True: it may be
 * because of another one, so it asks for the next view; in this one it stays,
 * or asks to leave it.  False: it does not fit. */
bool newcomers_step_back(struct elastic_agreement *a,
                         const struct elastic_view *v);

#endif
