/* restarts.c - how often something starts again. */
#include "restarts.h"

#include "base/clock.h"

static const double well_seconds = 600;

void restarts_began(struct restarts *r)
{
    r->began      = ct_now();
    r->next_start = 0;
}

void restarts_ended(struct restarts *r)
{
    if (ct_now() - r->began < well_seconds)
        return;
    r->n     = 0;
    r->pause = 0;
}

void restarts_plan(struct restarts *r, double least, double most)
{
    r->pause = r->pause == 0            ? least
               : 2 * r->pause < most ? 2 * r->pause
                                        : most;
    r->next_start = ct_now() + r->pause;
}
