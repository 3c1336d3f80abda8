/* sync.c - the list of kinds of synchronisation. */
#include "dist/sync/sync.h"

#include <string.h>

#define DIST_SYNC(file) extern const struct dist_sync_type dist_sync_##file;
#include "dist/sync/syncs.def"
#undef DIST_SYNC

static const struct dist_sync_type *const types[] = {
#define DIST_SYNC(file) &dist_sync_##file,
#include "dist/sync/syncs.def"
#undef DIST_SYNC
};

enum { N_TYPES = sizeof(types) / sizeof(types[0]), N_FIRST = 3 };

/* Those that have flags of their own. */
static const struct {
    const char *name, *about;
} first[N_FIRST] = { { "bsp", "all ranks in step" },
                     { "ssp", "bounded lead" },
                     { "async", "no waiting" } };

const struct dist_sync_type *dist_sync_find(const char *word)
{
    const size_t n = strcspn(word, ":");

    for (int i = 0; i < N_TYPES; i++)
        if (strlen(types[i]->name) == n &&
            strncmp(types[i]->name, word, n) == 0)
            return types[i];
    return NULL;
}

const char *dist_sync_value(const char *word)
{
    const char *colon = strchr(word, ':');

    return colon ? colon + 1 : NULL;
}

enum ct_status dist_sync_check(const Caffe__DistributedParameter *o)
{
    const struct dist_sync_type *chosen = dist_sync_find(o->sync);
    const char *value                   = dist_sync_value(o->sync);

    if (chosen && value && !chosen->check)
        return ct_fail(CT_EINVAL, "--sync=%s: %s takes no value", o->sync,
                       chosen->name);
    for (int i = 0; i < N_TYPES; i++)
        if (types[i]->check)
            CT_TRY(types[i]->check(o, types[i] == chosen ? value : NULL));
    return CT_OK;
}

void dist_sync_describe(const struct dist_sync_type *t,
                        const Caffe__DistributedParameter *o,
                        struct ct_text *out)
{
    if (t->describe)
        t->describe(o, out);
    else
        ct_text_add(out, t->does);
}

void dist_sync_list(struct ct_text *out)
{
    for (int i = 0; i < N_FIRST; i++)
        ct_text_addf(out, "%s%s: %s", i ? "; " : "", first[i].name,
                     first[i].about);
    for (int i = 0; i < N_TYPES; i++)
        ct_text_addf(out, "; %s: %s", types[i]->name, types[i]->about);
}

void dist_sync_choices(struct ct_text *out)
{
    const char *word[N_FIRST + N_TYPES];

    for (int i = 0; i < N_FIRST; i++)
        word[i] = first[i].name;
    for (int i = 0; i < N_TYPES; i++)
        word[N_FIRST + i] = types[i]->name;
    ct_text_add_choices(out, word, N_FIRST + N_TYPES);
}
