/* onednn.c - oneDNN's engine, memory descriptions and primitives. */
#ifdef CT_HAVE_ONEDNN
#include "device/cpu/onednn.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

/* A description as oneDNN's functions take it. */
#if DNNL_VERSION_MAJOR >= 3
#define MD(m) ((m)->d)
#else
#define MD(m) (&(m)->d)
#endif

/* The process's; written once, under pthread_once. */
static struct {
    dnnl_engine_t         engine;
    dnnl_stream_t         stream;
    dnnl_primitive_attr_t attr[2][2]; /* by add and relu */
    dnnl_status_t         status;
} dnnl;
static pthread_once_t dnnl_once = PTHREAD_ONCE_INIT;

/* What is done to a result before it is written. */
static dnnl_status_t append_ends(dnnl_post_ops_t ops, bool add, bool relu)
{
    dnnl_status_t s = dnnl_success;

#if DNNL_VERSION_MAJOR >= 3
    if (add)
        s = dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
    if (relu && s == dnnl_success)
        s = dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
#else
    if (add)
        s = dnnl_post_ops_append_sum(ops, 1);
    if (relu && s == dnnl_success)
        s = dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
#endif
    return s;
}

static dnnl_status_t start_attribute(bool add, bool relu,
                                     dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s     = dnnl_primitive_attr_create(out);

    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(*out,
                                                    dnnl_scratchpad_mode_user);
    if (s == dnnl_success)
        s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success)
        s = append_ends(ops, add, relu);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return s;
}

static void start(void)
{
    dnnl.status = dnnl_engine_create(&dnnl.engine, dnnl_cpu, 0);
    if (dnnl.status == dnnl_success)
        dnnl.status = dnnl_stream_create(&dnnl.stream, dnnl.engine,
                                         dnnl_stream_default_flags);
    for (int i = 0; i < 4 && dnnl.status == dnnl_success; i++)
        dnnl.status = start_attribute(i / 2, i % 2, &dnnl.attr[i / 2][i % 2]);
}

enum ct_status ct_dnnl_start(void)
{
    pthread_once(&dnnl_once, start);
    return ct_dnnl_check(dnnl.status, "making the CPU engine");
}

dnnl_engine_t ct_dnnl_engine(void)
{
    return dnnl.engine;
}

const_dnnl_primitive_attr_t ct_dnnl_attr(void)
{
    return dnnl.attr[false][false];
}

const_dnnl_primitive_attr_t ct_dnnl_end_attr(bool add, bool relu)
{
    return dnnl.attr[add][relu];
}

enum ct_status ct_dnnl_check(dnnl_status_t s, const char *call)
{
    switch (s) {
    case dnnl_success:
        return CT_OK;
    case dnnl_unimplemented:
        return CT_ENOTSUP;
    case dnnl_out_of_memory:
        return ct_fail(CT_ENOMEM, "oneDNN is out of memory: %s", call);
    default:
        return ct_fail(CT_EDEVICE, "oneDNN reported error %d: %s", (int)s,
                       call);
    }
}

static enum ct_status md_tag(struct ct_md *m, int n_axes, const int64_t *dims,
                             dnnl_format_tag_t tag, enum ct_dtype dtype)
{
    const dnnl_data_type_t type = dtype == CT_BF16 ? dnnl_bf16 : dnnl_f32;
    dnnl_dims_t d               = { 0 };

    memcpy(d, dims, (size_t)n_axes * sizeof(*d));
#if DNNL_VERSION_MAJOR >= 3
    CT_DNNL(dnnl_memory_desc_create_with_tag(&m->d, n_axes, d, type, tag));
#else
    CT_DNNL(dnnl_memory_desc_init_by_tag(&m->d, n_axes, d, type, tag));
#endif
    return CT_OK;
}

enum ct_status ct_md_typed(struct ct_md *m, int n_axes, const int64_t *dims,
                           enum ct_layout layout, enum ct_dtype dtype)
{
    static const dnnl_format_tag_t tags[][7] = {
        [CT_PLAIN]     = { 0, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde,
                           dnnl_abcdef },
        [CT_BLOCKED8]  = { 0, 0, 0, dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b, 0 },
        [CT_BLOCKED16] = { 0, 0, 0, dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b,
                           0 },
        [CT_NHWC]      = { 0, 0, 0, dnnl_acb, dnnl_acdb, dnnl_acdeb, 0 },
    };

    if (n_axes < 1 || n_axes > 6 || !tags[layout][n_axes])
        return CT_ENOTSUP;
    return md_tag(m, n_axes, dims, tags[layout][n_axes], dtype);
}

enum ct_status ct_md_layout(struct ct_md *m, int n_axes, const int64_t *dims,
                            enum ct_layout layout)
{
    return ct_md_typed(m, n_axes, dims, layout, CT_F32);
}

enum ct_status ct_md_tiles(struct ct_md *m, const int64_t *dims)
{
    return md_tag(m, 4, dims, dnnl_ABcd16b16a, CT_F32);
}

enum ct_status ct_md_matrix(struct ct_md *m, int64_t rows, int64_t cols,
                            bool turned)
{
    return md_tag(m, 2, (const int64_t[]){ rows, cols },
                  turned ? dnnl_ba : dnnl_ab, CT_F32);
}

enum ct_status ct_md_any(struct ct_md *m, int n_axes, const int64_t *dims,
                         enum ct_dtype dtype)
{
    return md_tag(m, n_axes, dims, dnnl_format_tag_any, dtype);
}

enum ct_status ct_md_query(struct ct_md *m, const_dnnl_primitive_desc_t pd,
                           dnnl_query_t what, int index)
{
#if DNNL_VERSION_MAJOR >= 3
    const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(pd, what, index);

    if (!d)
        return CT_ENOTSUP;
    CT_DNNL(dnnl_memory_desc_clone(&m->d, d));
#else
    const dnnl_memory_desc_t *d = dnnl_primitive_desc_query_md(pd, what, index);

    if (!d)
        return CT_ENOTSUP;
    m->d = *d;
#endif
    return CT_OK;
}

bool ct_md_equal(const struct ct_md *a, const struct ct_md *b)
{
    return dnnl_memory_desc_equal(MD(a), MD(b));
}

size_t ct_md_bytes(const struct ct_md *m)
{
    return dnnl_memory_desc_get_size(MD(m));
}

void ct_md_fini(struct ct_md *m)
{
#if DNNL_VERSION_MAJOR >= 3
    if (m->d)
        dnnl_memory_desc_destroy(m->d);
#endif
    memset(m, 0, sizeof(*m));
}

enum ct_status ct_prim_init(struct ct_prim *p, dnnl_primitive_desc_t pd)
{
    struct ct_md scratch = { 0 };
    enum ct_status st;

    p->pd = pd;
    CT_DNNL(dnnl_primitive_create(&p->prim, pd));
    CT_TRY(ct_md_query(&scratch, pd, dnnl_query_scratchpad_md, 0));
    st = ct_md_bytes(&scratch) > 0
             ? ct_prim_arg_md(p, DNNL_ARG_SCRATCHPAD, &scratch)
             : CT_OK;
    ct_md_fini(&scratch);
    return st;
}

enum ct_status ct_prim_arg_md(struct ct_prim *p, int arg,
                              const struct ct_md *m)
{
    dnnl_memory_t memory;

    CT_ASSERT(p->n_arg < CT_PRIM_ARGS);
    CT_DNNL(dnnl_memory_create(&memory, MD(m), dnnl.engine, DNNL_MEMORY_NONE));
    p->arg[p->n_arg++] = (dnnl_exec_arg_t){ arg, memory };
    return CT_OK;
}

enum ct_status ct_prim_arg(struct ct_prim *p, int arg, dnnl_query_t what,
                           int index)
{
    struct ct_md m = { 0 };
    enum ct_status st;

    CT_TRY(ct_md_query(&m, p->pd, what, index));
    st = ct_prim_arg_md(p, arg, &m);
    ct_md_fini(&m);
    return st;
}

enum ct_status ct_prim_reorder(struct ct_prim *p, const struct ct_md *from,
                               const struct ct_md *to, bool add)
{
    dnnl_primitive_desc_t pd;

    CT_DNNL(dnnl_reorder_primitive_desc_create(
        &pd, MD(from), dnnl.engine, MD(to), dnnl.engine,
        ct_dnnl_end_attr(add, false)));
    CT_TRY(ct_prim_init(p, pd));
    CT_TRY(ct_prim_arg_md(p, DNNL_ARG_FROM, from));
    return ct_prim_arg_md(p, DNNL_ARG_TO, to);
}

size_t ct_prim_scratch_bytes(const struct ct_prim *p)
{
    struct ct_md m = { 0 };
    size_t bytes   = 0;

    if (p->pd &&
        ct_md_query(&m, p->pd, dnnl_query_scratchpad_md, 0) == CT_OK)
        bytes = ct_md_bytes(&m);
    ct_md_fini(&m);
    return bytes;
}

bool ct_prim_slow(const struct ct_prim *p)
{
    const char *name = "";

    return dnnl_primitive_desc_query(p->pd, dnnl_query_impl_info_str, 0,
                                     &name) == dnnl_success &&
           (strstr(name, "ref") || strstr(name, "simple"));
}

void ct_prim_fini(struct ct_prim *p)
{
    for (int i = 0; i < p->n_arg; i++)
        dnnl_memory_destroy(p->arg[i].memory);
    if (p->prim)
        dnnl_primitive_destroy(p->prim);
    if (p->pd)
        dnnl_primitive_desc_destroy(p->pd);
    for (int i = 0; i < p->n_own; i++)
        ct_free(p->own[i]);
    memset(p, 0, sizeof(*p));
}

enum ct_status ct_prim_own(struct ct_prim *p, int arg, void **out,
                           size_t *bytes)
{
#if DNNL_VERSION_MAJOR >= 3
    const_dnnl_memory_desc_t d;
#else
    const dnnl_memory_desc_t *d;
#endif

    *out = NULL;
    for (int i = 0; i < p->n_arg; i++) {
        if (p->arg[i].arg != arg)
            continue;
        CT_ASSERT(p->n_own < CT_PRIM_OWN);
        CT_DNNL(dnnl_memory_get_memory_desc(p->arg[i].memory, &d));
        CT_TRY(ct_alloc(1, dnnl_memory_desc_get_size(d), "oneDNN buffer",
                        &p->own[p->n_own]));
        *out = p->own[p->n_own++];
        if (bytes)
            *bytes = dnnl_memory_desc_get_size(d);
    }
    return ct_prim_set(p, arg, *out);
}

enum ct_status ct_prim_set(struct ct_prim *p, int arg, const void *ptr)
{
    /* oneDNN's memory objects do not tell inputs from outputs. */
    void *handle = (void *)(uintptr_t)ptr;

    for (int i = 0; i < p->n_arg; i++)
        if (p->arg[i].arg == arg)
            CT_DNNL(dnnl_memory_set_data_handle(p->arg[i].memory, handle));
    return CT_OK;
}

enum ct_status ct_prim_run(struct ct_prim *p)
{
    CT_DNNL(dnnl_primitive_execute(p->prim, dnnl.stream, p->n_arg, p->arg));
    CT_DNNL(dnnl_stream_wait(dnnl.stream));
    return CT_OK;
}

#endif
