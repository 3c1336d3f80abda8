/* agent_orders.h - lines that a launcher on another host sends to an agent.
 *
 *     signal N        one of passed_on[], for the ranks
 *
 * Any other line, and one that is longer than all orders, is skipped. */
#ifndef CT_APPS_AGENT_ORDERS_H
#define CT_APPS_AGENT_ORDERS_H

#include <stdbool.h>
#include <stddef.h>

/* The line of which the end has not come; zero-initialised: nothing has. */
struct agent_orders {
    char   line[32];
    size_t n;
    bool   too_long;
};

/* The next bytes, which may end in the middle of a line.  Each order is passed
 * to `obey`. */
void orders_take(struct agent_orders *o, const char *bytes, size_t n,
                 void (*obey)(int number));

#endif
