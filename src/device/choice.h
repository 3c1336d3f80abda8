/* choice.h - what measuring found to be the fastest, kept for the next run.
 *
 * A choice is a line "key = value" of $XDG_CACHE_HOME/cortado/NAME, or of
 * ~/.cache/cortado/NAME; other lines are left as they are.  The key says all
 * that the choice depends on: the machine, the library's version, the shape.
 * Where there is no such folder, or with CORTADO_CACHE=none, choices last as
 * long as the process.  A cache is never a reason to fail.
 *
 * Owned by one device and used by its thread. */
#ifndef CT_DEVICE_CHOICE_H
#define CT_DEVICE_CHOICE_H

#include <stdbool.h>

#include "cortado/status.h"

struct ct_choices;

CT_MUST_CHECK enum ct_status ct_choices_open(const char *name,
                                             struct ct_choices **out);
void ct_choices_close(struct ct_choices *c); /* takes NULL */

/* NULL where nothing is known; valid until the key is kept anew. */
const char *ct_choices_find(const struct ct_choices *c, const char *key);

/* Remembers it, and writes the file through a rename; what others write at the
 * same time is not lost.  Neither text has a newline, and the key no " = ".
 * Whether the file has it. */
bool ct_choices_keep(struct ct_choices *c, const char *key,
                     const char *value);
/* The file; NULL: there is none.  Valid until close. */
const char *ct_choices_path(const struct ct_choices *c);

/* Around a measurement whose outcome all who share the file are to have: from
 * `alone` to `go_on` nobody else is between the two, and what others have kept
 * is known.  So the first measures, undisturbed, and the others find what it
 * kept. */
void ct_choices_alone(struct ct_choices *c);
void ct_choices_go_on(struct ct_choices *c);

#endif
