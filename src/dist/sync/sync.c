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

const struct dist_sync_type *dist_sync_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

void dist_sync_describe(struct ct_text *out)
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
