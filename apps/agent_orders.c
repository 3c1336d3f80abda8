/* agent_orders.c - lines that a launcher sends to an agent. */
#include "agent_orders.h"

#include <stdio.h>

/* Bytes behind an order, or a zero in it, make it none. */
static void read_line(struct agent_orders *o, void (*obey)(int number))
{
    int number, end = 0;

    o->line[o->n] = '\0';
    if (!o->too_long && sscanf(o->line, "signal %3d%n", &number, &end) == 1 &&
        (size_t)end == o->n)
        obey(number);
    o->n        = 0;
    o->too_long = false;
}

void orders_take(struct agent_orders *o, const char *bytes, size_t n,
                 void (*obey)(int number))
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] == '\n')
            read_line(o, obey);
        else if (o->n < sizeof(o->line) - 1)
            o->line[o->n++] = bytes[i];
        else
            o->too_long = true;
}
