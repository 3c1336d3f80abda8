/* transports.c - the list of transports, and the choice among them. */
#include "comm/transport/transports.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const struct ct_transport_type *const types[] = {
#define CT_TRANSPORT(file) &ct_transport_##file,
#include "comm/transport/transports.def"
#undef CT_TRANSPORT
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]), WORD_BYTES = 96 };

const struct ct_transport_type *ct_transport_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

void ct_transport_choices(struct ct_text *out)
{
    char text[N_TYPES][WORD_BYTES];
    const char *word[N_TYPES + 1] = { "auto" };

    for (int i = 0; i < N_TYPES; i++) {
        snprintf(text[i], sizeof(text[i]), "%s (%s)", types[i]->name,
                 types[i]->about);
        word[i + 1] = text[i];
    }
    ct_text_add_choices(out, word, N_TYPES + 1);
}

static enum ct_status unknown(const char *name)
{
    struct ct_text choices = { 0 };

    ct_transport_choices(&choices);
    ct_fail(CT_EINVAL, "--transport=%s: there is no such transport; use %s",
            name, choices.s ? choices.s : "auto");
    ct_text_fini(&choices);
    return CT_EINVAL;
}

static const struct ct_transport_type *launched(void)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i]->launched && types[i]->launched())
            return types[i];
    return &ct_transport_alone;
}

enum ct_status ct_transport_choose(const char *name,
                                   const struct ct_transport_type **out)
{
    *out = strcmp(name, "auto") == 0 ? launched() : ct_transport_find(name);
    if (!*out)
        return unknown(name);
    if (!(*out)->launched && ct_launched())
        return ct_fail(CT_EINVAL, "--transport=%s connects no processes, and "
                       "a launcher has started several; use auto (for runs "
                       "that are to be apart set CORTADO_DISTRIBUTED=0)",
                       name);
    return CT_OK;
}

enum ct_status ct_transport_open(const char *name, struct ct_transport **out)
{
    const struct ct_transport_type *type;

    CT_TRY(ct_transport_choose(name, &type));
    return type->create(out);
}

enum ct_status ct_transport_check(const struct ct_transport *t)
{
    return t->is_over && atomic_load(t->is_over)
               ? ct_fail(CT_ECOMM, "rank %d: the view is over", t->rank)
               : CT_OK;
}

const char *ct_transport_version(const struct ct_transport_type *type,
                                 char *text, size_t bytes)
{
    if (type->version)
        return type->version(text, bytes);
    snprintf(text, bytes, "none");
    return text;
}

const char *ct_transport_thread_level(const struct ct_transport_type *type)
{
    return type->thread_level ? type->thread_level() : "none";
}

bool ct_transport_takes_gpu_memory(const struct ct_transport_type *type)
{
    return type->takes_gpu_memory && type->takes_gpu_memory();
}

bool ct_transports_left_open(void)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i]->left_open && types[i]->left_open())
            return true;
    return false;
}
