/* tuning.h - whether implementations are measured, and how long that may take.
 *
 * Implementations of an operation differ in their last bits, so what was
 * measured is kept (choice.h) and a seed's result repeats on a machine.  The
 * rule, ct_tuning_rule():
 *
 *     canonical training, whose bits are the same anywhere; an operation that
 *     CORTADO_IMPL forces; CORTADO_TUNE=off         nothing is looked up
 *     CORTADO_TUNE=measure                          all that is not known is
 *                                                   measured, without limits
 *     nets that are only looked at (cortado summary, time --plan, trials of
 *     shapes and memory); ranks that train together; other operations that
 *     CORTADO_IMPL forces                           what is known is used
 *     else                                          what is not known and
 *                                                   small is measured
 *
 * Ranks do not measure because they would time each other.  They use what
 * their host knows, and hosts may know different things: gradients are summed
 * and parameters stand once, so replicas stay equal in every bit, and results
 * equal those of one rank to rounding, as with any other number of ranks.
 *
 * Owned by a net and used by its thread; workspaces borrow it. */
#ifndef CT_DEVICE_TUNING_H
#define CT_DEVICE_TUNING_H

#include <stdbool.h>

#include "cortado/status.h"

struct ct_choices;

enum ct_tuning_mode { CT_TUNING_OFF, CT_TUNING_KNOWN, CT_TUNING_MEASURE };

/* What the rule goes by. */
struct ct_tuning_case {
    const char *word;      /* CORTADO_TUNE; NULL: not set */
    bool        forced;    /* CORTADO_IMPL says what does the operation */
    bool        compared;  /* CORTADO_IMPL says anything at all */
    bool        canonical;
    bool        looked_at;
    int         n_ranks;
};

enum ct_tuning_mode ct_tuning_rule(const struct ct_tuning_case *c);

struct ct_tuning {
    enum ct_tuning_mode mode;
    struct ct_choices  *choices; /* owned; NULL: off */
    bool                running; /* between begin and end */
    bool                all;     /* whatever it takes */
    bool                packs;   /* weights will lie in tiles where they can */
    double              left;    /* seconds; below 0: no more */
    double              seconds; /* spent on */
    int                 n;       /* operations, since begin */
    bool                kept;    /* and the file has them all */
};

/* `name` is the file of choices.  CT_EINVAL: CORTADO_TUNE is another word. */
CT_MUST_CHECK enum ct_status ct_tuning_init(struct ct_tuning *t,
                                            const struct ct_tuning_case *c,
                                            const char *name);
void ct_tuning_fini(struct ct_tuning *t);

/* Around the measuring of a net's operations: nobody else on this machine
 * measures meanwhile, and what others have kept is known.  `end` logs,
 * unless `what` it was is NULL. */
void ct_tuning_begin(struct ct_tuning *t);
void ct_tuning_end(struct ct_tuning *t, const char *what);

/* Whether an operation of so many multiply-adds may be measured. */
bool ct_tuning_may(const struct ct_tuning *t, double macs);
/* What came out, and how long it took. */
void ct_tuning_keep(struct ct_tuning *t, const char *key, const char *value,
                    double seconds);
/* What it is to be where no time is left: measured in the next run it would
 * change that one's bits. */
void ct_tuning_settle(struct ct_tuning *t, const char *key, const char *value);

#endif
