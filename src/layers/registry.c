/* registry.c - the table of layer types: those of layers.def, then those that
 * a program or a plug-in added.  The second part only ever grows, so a reader
 * needs no lock. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cortado/plugin.h"

#define CT_LAYER(file) extern const struct ct_layer_type ct_layer_##file;
#include "layers/layers.def"
#undef CT_LAYER

static const struct ct_layer_type *const types[] = {
#define CT_LAYER(file) &ct_layer_##file,
#include "layers/layers.def"
#undef CT_LAYER
};

enum { N_OWN = sizeof(types) / sizeof(types[0]), MOST_ADDED = 256 };

static const struct ct_layer_type *added[MOST_ADDED];
static atomic_int n_added;
static pthread_mutex_t add_lock = PTHREAD_MUTEX_INITIALIZER;

int ct_layer_n_types(void)
{
    return N_OWN + atomic_load(&n_added);
}

const struct ct_layer_type *ct_layer_at(int i)
{
    return i < N_OWN ? types[i] : added[i - N_OWN];
}

const struct ct_layer_type *ct_layer_find(const char *name)
{
    for (int i = 0; i < ct_layer_n_types(); i++)
        if (strcmp(ct_layer_at(i)->name, name) == 0)
            return ct_layer_at(i);
    return NULL;
}

enum ct_status ct_layer_register(const struct ct_layer_type *type)
{
    enum ct_status st = CT_OK;

    pthread_mutex_lock(&add_lock);
    if (ct_layer_find(type->name))
        st = ct_fail(CT_EEXIST, "there is a layer type %s already",
                     type->name);
    else if (atomic_load(&n_added) == MOST_ADDED)
        st = ct_fail(CT_ENOTSUP, "layer type %s is one too many: %d can be "
                     "added", type->name, MOST_ADDED);
    else {
        added[atomic_load(&n_added)] = type;
        atomic_fetch_add(&n_added, 1);
    }
    pthread_mutex_unlock(&add_lock);
    return st;
}
