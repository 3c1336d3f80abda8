/* tuning.c - the rule and the limits of measuring. */
#include "device/tuning.h"

#include <string.h>

#include "cortado/device.h"
#include "cortado/log.h"
#include "device/choice.h"

/* A net's start is not to wait for longer, in seconds. */
static const double MOST_SECONDS = 1;
/* Of all passes of an operation, for each thread: 10 to 20 ms.  Beyond that
 * the order of implementations is settled by arithmetic, not by overheads. */
static const double MOST_MACS = 8e8;

enum ct_tuning_mode ct_tuning_rule(const struct ct_tuning_case *c)
{
    if (c->canonical || c->forced || (c->word && strcmp(c->word, "off") == 0))
        return CT_TUNING_OFF;
    if (c->word && strcmp(c->word, "measure") == 0)
        return CT_TUNING_MEASURE;
    return c->looked_at || c->compared || c->n_ranks > 1 ? CT_TUNING_KNOWN
                                                         : CT_TUNING_MEASURE;
}

static enum ct_status check_word(const char *word)
{
    if (!word || !*word || strcmp(word, "off") == 0 ||
        strcmp(word, "measure") == 0)
        return CT_OK;
    return ct_fail(CT_EINVAL, "CORTADO_TUNE is '%.100s'; it can be off or "
                   "measure", word);
}

enum ct_status ct_tuning_init(struct ct_tuning *t,
                              const struct ct_tuning_case *c,
                              const char *name)
{
    CT_TRY(check_word(c->word));
    t->mode = ct_tuning_rule(c);
    t->all  = c->word && strcmp(c->word, "measure") == 0;
    t->left = MOST_SECONDS;
    return t->mode == CT_TUNING_OFF ? CT_OK
                                    : ct_choices_open(name, &t->choices);
}

void ct_tuning_fini(struct ct_tuning *t)
{
    ct_choices_close(t->choices);
    *t = (struct ct_tuning){ 0 };
}

void ct_tuning_begin(struct ct_tuning *t)
{
    if (t->mode != CT_TUNING_MEASURE)
        return;
    ct_choices_alone(t->choices);
    t->running = true;
    t->kept    = true;
    t->seconds = 0;
    t->n       = 0;
}

void ct_tuning_end(struct ct_tuning *t, const char *what)
{
    const char *path = ct_choices_path(t->choices);

    if (!t->running)
        return;
    t->running = false;
    ct_choices_go_on(t->choices);
    if (t->n > 0 && what)
        CT_INFO("measured %d %s%s in %.2f s, kept in %s", t->n, what,
                t->n == 1 ? "" : "s", t->seconds,
                path && t->kept ? path : "memory only");
}

bool ct_tuning_may(const struct ct_tuning *t, double macs)
{
    return t->running &&
           (t->all || macs <= MOST_MACS * ct_device_cpu_threads());
}

void ct_tuning_keep(struct ct_tuning *t, const char *key, const char *value,
                    double seconds)
{
    t->kept &= ct_choices_keep(t->choices, key, value);
    t->left -= seconds;
    t->seconds += seconds;
    t->n++;
}

void ct_tuning_settle(struct ct_tuning *t, const char *key, const char *value)
{
    t->kept &= ct_choices_keep(t->choices, key, value);
}
