/* look.h - which hosts answer, and which snapshots they have. */
#ifndef CT_APPS_LOOK_H
#define CT_APPS_LOOK_H

#include <stdint.h>

#include "hosts.h"

struct look_for {
    const char *program, *folder; /* which a host has to have */
    const char *prefix;           /* of the snapshots */
    int64_t     since; /* seconds since 1970: older ones are another job's */
};

struct look {
    bool    answers;
    bool    lacks;  /* it does not, because it cannot run the program */
    int64_t newest; /* the iteration of its newest snapshot; -1: none */
};

/* Asks all hosts at once, and waits for none of them longer than some seconds;
 * out[i] is of host i. */
CT_MUST_CHECK enum ct_status look_at(const struct hosts *h,
                                     const struct look_for *what,
                                     struct look *out);

#endif
