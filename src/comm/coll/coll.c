/* coll.c - the list of algorithms that sum, and the choice of one. */
#include "comm/coll/coll.h"

#include <string.h>

#include "base/text.h"
#include "comm/coll/tune.h"

#define CT_ALLREDUCE(file) extern const struct ct_allreduce_type ct_coll_##file;
#include "comm/coll/coll.def"
#undef CT_ALLREDUCE

static const struct ct_allreduce_type *const types[CT_N_ALLREDUCE] = {
#define CT_ALLREDUCE(file) &ct_coll_##file,
#include "comm/coll/coll.def"
#undef CT_ALLREDUCE
};

const struct ct_allreduce_type *ct_allreduce_at(int i)
{
    return i >= 0 && i < CT_N_ALLREDUCE ? types[i] : NULL;
}

const struct ct_allreduce_type *ct_allreduce_find(const char *name)
{
    for (int i = 0; i < CT_N_ALLREDUCE; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

bool ct_allreduce_available(const struct ct_comm *c,
                            const struct ct_allreduce_type *type)
{
    return !type->available || type->available(c);
}

void ct_allreduce_choices(const char *more, struct ct_text *out)
{
    const char *word[CT_N_ALLREDUCE + 2] = { "auto" };

    for (int i = 0; i < CT_N_ALLREDUCE; i++)
        word[i + 1] = types[i]->name;
    word[CT_N_ALLREDUCE + 1] = more;
    ct_text_add_choices(out, word, CT_N_ALLREDUCE + (more ? 2 : 1));
}

enum ct_status ct_allreduce_parse(const char *name, const char *more,
                                  const struct ct_allreduce_type **out)
{
    struct ct_text choices = { 0 };

    *out = ct_allreduce_find(name);
    if (*out || strcmp(name, "auto") == 0)
        return CT_OK;
    ct_allreduce_choices(more, &choices);
    ct_fail(CT_EINVAL, "--reduce=%s: there is no such way to sum; use %s",
            name, choices.s ? choices.s : "auto");
    ct_text_fini(&choices);
    return CT_EINVAL;
}

const struct ct_allreduce_type *ct_allreduce_usual(const struct ct_place *place,
                                                   double bytes)
{
    for (int i = 0; i < CT_N_ALLREDUCE; i++)
        if (types[i]->is_usual && types[i]->is_usual(place, bytes))
            return types[i];
    return &ct_coll_ring;
}

struct ct_cost ct_allreduce_cost(const struct ct_allreduce_type *type,
                                 const struct ct_links *links,
                                 const struct ct_place *place, double n)
{
    const struct ct_terms t = ct_terms(links, place, sizeof(float) * n);

    return place->size > 1 ? type->cost(&t) : (struct ct_cost){ 0 };
}

const struct ct_allreduce_type *ct_allreduce_choose(const struct ct_comm *c,
                                                    int64_t n)
{
    double bytes = (double)n * sizeof(float);

    for (int i = 0; i < c->n_choices; i++)
        if (bytes <= c->choice[i].up_to_bytes)
            return c->choice[i].type;
    return ct_allreduce_usual(&c->place, bytes);
}

enum ct_status ct_allreduce(struct ct_comm *c, float *x, int64_t n)
{
    const struct ct_allreduce_type *type = ct_allreduce_choose(c, n);
    enum ct_status st                    = type->run(c, x, n);

    /* All ranks know that they cannot share memory; x has not changed. */
    if (st == CT_ENOTSUP && type == &ct_coll_shared && c->place.window_failed)
        return ct_allreduce_choose(c, n)->run(c, x, n);
    return st;
}
