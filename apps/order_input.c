/* order_input.c - the orders of a launcher as they come. */
#include "order_input.h"

#include <poll.h>
#include <unistd.h>

#include "passed_on.h"

bool order_input_read(struct order_input *o)
{
    char bytes[64];
    const ssize_t n = read(o->fd, bytes, sizeof(bytes));

    if (n > 0)
        orders_take(&o->orders, bytes, (size_t)n, passed_on_note);
    return n > 0;
}

bool order_input_asks_for_end(struct order_input *o,
                              const struct signal_flags *f)
{
    struct pollfd p = { .fd = o->fd, .events = POLLIN };

    while (poll(&p, 1, 0) > 0 && order_input_read(o))
        ;
    for (int i = 0; i < N_PASSED_ON; i++)
        if (signal_flags_end(f, passed_on[i]) && passed_on_has(passed_on[i]))
            return true;
    return false;
}
