/* onlooker.h - somebody who looks on while a database is made or read. */
#ifndef CT_DATA_ONLOOKER_H
#define CT_DATA_ONLOOKER_H

#include <stdint.h>

#include "cortado/status.h"

/* Called after every record with how many are done, of `total` or of an
 * unknown number when that is 0.  Whatever it returns but CT_OK ends the
 * work, which then returns it: CT_ESTOP when somebody has had enough. */
struct ct_watch {
    enum ct_status (*step)(void *arg, int64_t done, int64_t total);
    void *arg;
};

/* Nobody looks on where `w` is NULL. */
CT_MUST_CHECK static inline enum ct_status ct_watch_step(
    const struct ct_watch *w, int64_t done, int64_t total)
{
    return w ? w->step(w->arg, done, total) : CT_OK;
}

#endif
