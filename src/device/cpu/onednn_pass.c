/* onednn_pass.c - a primitive, and how arrays come to it and from it. */
#ifdef CT_HAVE_ONEDNN
#include "device/cpu/onednn_pass.h"

#include <string.h>

#include "device/cpu/tiles16.h"

void ct_arrays_fini(struct ct_arrays *a)
{
    ct_md_fini(&a->src);
    ct_md_fini(&a->dst);
    ct_md_fini(&a->weights);
    ct_md_fini(&a->bias);
    ct_md_fini(&a->tiles);
}

void ct_pass_fini(struct ct_pass *p)
{
    ct_prim_fini(&p->prim);
    for (int i = 0; i < N_EDGES; i++) {
        ct_prim_fini(&p->edge[i].reorder);
        ct_prim_fini(&p->edge[i].write);
        ct_prim_fini(&p->edge[i].untile);
    }
    memset(p, 0, sizeof(*p));
}

void ct_pass_need(struct ct_pass_room *r, enum ct_buffer_of b, size_t bytes)
{
    if (r->bytes[b] < bytes)
        r->bytes[b] = bytes;
}

enum ct_status ct_pass_init(struct ct_pass_room *r, struct ct_pass *p,
                            dnnl_primitive_desc_t pd)
{
    CT_TRY(ct_prim_init(&p->prim, pd));
    if (ct_prim_slow(&p->prim))
        return CT_ENOTSUP;
    ct_pass_need(r, SCRATCH, ct_prim_scratch_bytes(&p->prim));
    return CT_OK;
}

/* The reorders between the caller's array and the primitive's. */
static enum ct_status edge_reorders(const struct ct_arrays *user,
                                    const struct ct_md *array,
                                    const struct ct_md *own, struct ct_edge *e)
{
    const bool weights = e->buffer == WEIGHTS;
    const bool tiles   = weights && ct_md_bytes(&user->tiles) && !e->tiles;

    if (e->direction == IN && tiles)
        CT_TRY(ct_prim_reorder(&e->untile, &user->tiles, own, false));
    if (e->straight)
        return CT_OK;
    if (e->direction == IN)
        return ct_prim_reorder(&e->reorder, array, own, false);
    CT_TRY(ct_prim_reorder(&e->reorder, own, array, e->direction == ADD));
    return weights ? ct_prim_reorder(&e->write, own, array, false) : CT_OK;
}

enum ct_status ct_pass_edge(struct ct_pass_room *r,
                            const struct ct_arrays *user, struct ct_pass *p,
                            int i, int arg, dnnl_query_t what,
                            enum ct_buffer_of buffer,
                            enum ct_direction direction)
{
    const struct ct_md *array = buffer == SRC   ? &user->src
                                : buffer == DST ? &user->dst
                                                : &user->weights;
    struct ct_edge *e = &p->edge[i];
    struct ct_md own  = { 0 };
    enum ct_status st;

    e->arg       = arg;
    e->buffer    = buffer;
    e->direction = direction;
    CT_TRY(ct_md_query(&own, p->prim.pd, what, 0));
    e->straight = direction != ADD && ct_md_equal(&own, array);
    e->tiles    = buffer == WEIGHTS && ct_md_bytes(&user->tiles) &&
               ct_md_equal(&own, &user->tiles);
    CT_TRY_GOTO(ct_prim_arg_md(&p->prim, arg, &own), st, out);
    CT_TRY_GOTO(edge_reorders(user, array, &own, e), st, out);
    if (!e->straight || e->untile.prim)
        ct_pass_need(r, buffer, ct_md_bytes(&own));
    ct_pass_need(r, SCRATCH, ct_prim_scratch_bytes(&e->write));
    ct_pass_need(r, SCRATCH, ct_prim_scratch_bytes(&e->reorder));
    ct_pass_need(r, SCRATCH, ct_prim_scratch_bytes(&e->untile));
out:
    ct_md_fini(&own);
    return st;
}

enum ct_status ct_pass_place(const struct ct_pass_room *r, struct ct_pass *p,
                             bool packed)
{
    const float *scratch = r->buffer[SCRATCH];

    CT_TRY(ct_prim_set(&p->prim, DNNL_ARG_SCRATCHPAD, scratch));
    for (int i = 0; i < N_EDGES; i++) {
        struct ct_edge *e = &p->edge[i];
        const float *ptr  = r->buffer[e->buffer];
        bool in           = e->direction == IN;

        CT_TRY(ct_prim_set(&e->untile, DNNL_ARG_TO, ptr));
        CT_TRY(ct_prim_set(&e->untile, DNNL_ARG_SCRATCHPAD, scratch));
        if (e->straight)
            continue;
        CT_TRY(ct_prim_set(&e->reorder, DNNL_ARG_SCRATCHPAD, scratch));
        if (e->buffer == WEIGHTS && packed)
            continue;
        CT_TRY(ct_prim_set(&p->prim, e->arg, ptr));
        CT_TRY(ct_prim_set(&e->reorder, in ? DNNL_ARG_TO : DNNL_ARG_FROM,
                           ptr));
        CT_TRY(ct_prim_set(&e->write, DNNL_ARG_FROM, ptr));
        CT_TRY(ct_prim_set(&e->write, DNNL_ARG_SCRATCHPAD, scratch));
    }
    return CT_OK;
}

static enum ct_status edge_in(const struct ct_pass_room *r, struct ct_pass *p,
                              struct ct_edge *e, const float *from, bool tiles)
{
    const bool tiled    = tiles && e->buffer == WEIGHTS;
    struct ct_prim *way = tiled ? &e->untile : &e->reorder;

    if (tiled ? e->tiles : e->straight)
        return ct_prim_set(&p->prim, e->arg, from);
    if (!from)
        return CT_OK;
    /* Another run may have passed the caller's array straight on. */
    if (e->tiles || e->straight)
        CT_TRY(ct_prim_set(&p->prim, e->arg, r->buffer[e->buffer]));
    CT_TRY(ct_prim_set(way, DNNL_ARG_FROM, from));
    return ct_prim_run(way);
}

/* Where the primitive writes: to the caller, or to the buffer. */
static const float *out_at(const struct ct_pass_room *r,
                           const struct ct_edge *e,
                           const struct ct_pass_args *a)
{
    bool straight = a->tiles && e->buffer == WEIGHTS ? e->tiles && a->write
                                                     : e->straight;

    return straight ? a->out : r->buffer[e->buffer];
}

static enum ct_status edge_out(const struct ct_conv *c,
                               const struct ct_pass_room *r,
                               struct ct_edge *e,
                               const struct ct_pass_args *a)
{
    struct ct_prim *way = a->write ? &e->write : &e->reorder;
    const float *from   = r->buffer[e->buffer];
    const int64_t o = c->desc.out_channels, i = c->in_group;

    if (out_at(r, e, a) == a->out)
        return CT_OK;
    if (e->tiles && a->tiles)
        return ct_axpby(c->dev, o * i * c->taps, 1, from, 1, a->out);
    if (e->tiles) {
        ct_tiles_out(o, i, c->taps, from, !a->write, a->out);
        return CT_OK;
    }
    CT_TRY(ct_prim_set(way, DNNL_ARG_TO, a->out));
    return ct_prim_run(way);
}

enum ct_status ct_pass_run(const struct ct_conv *c,
                           const struct ct_pass_room *r, struct ct_pass *p,
                           const struct ct_pass_args *a)
{
    struct ct_edge *last = &p->edge[N_EDGES - 1];

    CT_TRY(edge_in(r, p, &p->edge[0], a->in, a->tiles));
    CT_TRY(edge_in(r, p, &p->edge[1], a->more_in, a->tiles));
    if (last->straight || last->tiles)
        CT_TRY(ct_prim_set(&p->prim, last->arg, out_at(r, last, a)));
    CT_TRY(ct_prim_run(&p->prim));
    return edge_out(c, r, last, a);
}

#endif
