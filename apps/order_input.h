/* order_input.h - the orders of a launcher (agent_orders.h) as they come.
 *
 * They count as signals that have come (passed_on.h).  When the launcher is
 * gone, nobody sends any. */
#ifndef CT_APPS_ORDER_INPUT_H
#define CT_APPS_ORDER_INPUT_H

#include "agent_orders.h"
#include "train_signals.h"

/* Zero-initialised but for the descriptor. */
struct order_input {
    int                 fd;
    struct agent_orders orders;
};

/* Waits until something comes; false: nothing will any more. */
bool order_input_read(struct order_input *o);
/* Reads what is there already.  Has any of it asked for the end, as ranks
 * understand that?  Then it still counts for whoever takes it. */
bool order_input_asks_for_end(struct order_input *o,
                              const struct signal_flags *f);

#endif
