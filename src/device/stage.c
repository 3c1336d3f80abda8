/* stage.c - copies between a device and the CPU; on the CPU, plain ones. */
#include "device/stage.h"

#include <string.h>

#include "base/mem.h"

static enum ct_status host_alloc(const struct ct_device *d, size_t bytes,
                                 const char *name, void **out)
{
    (void)d;
    return ct_alloc(bytes ? bytes : 1, 1, name, out);
}

static void host_free(const struct ct_device *d, void *p)
{
    (void)d;
    ct_free(p);
}

static enum ct_status host_create(const struct ct_device *d, int n_marks,
                                  struct ct_stage **out)
{
    (void)d, (void)n_marks;
    return ct_alloc(1, sizeof(**out), "stage", out);
}

static void host_destroy(struct ct_stage *s)
{
    ct_free(s);
}

static enum ct_status host_nothing(struct ct_stage *s)
{
    (void)s;
    return CT_OK;
}

static enum ct_status host_mark(struct ct_stage *s, int i)
{
    (void)s, (void)i;
    return CT_OK;
}

static enum ct_status host_copy(struct ct_stage *s, size_t bytes,
                                const void *from, void *to)
{
    (void)s;
    memcpy(to, from, bytes);
    return CT_OK;
}

static const struct ct_stage_ops host_ops = {
    .alloc     = host_alloc,
    .free      = host_free,
    .create    = host_create,
    .destroy   = host_destroy,
    .wait      = host_mark,
    .begin     = host_nothing,
    .out       = host_copy,
    .mark      = host_mark,
    .join      = host_nothing,
    .in        = host_copy,
    .follow_in = host_nothing,
};

static const struct ct_stage_ops *ops_of(const struct ct_device *d)
{
    return d->kind == CT_CPU ? &host_ops : ct_cuda_stage_ops();
}

enum ct_status ct_stage_create(const struct ct_device *d, int n_marks,
                               struct ct_stage **out)
{
    CT_TRY(ops_of(d)->create(d, n_marks, out));
    (*out)->ops = ops_of(d);
    (*out)->dev = d;
    return CT_OK;
}

void ct_stage_destroy(struct ct_stage *s)
{
    if (s)
        s->ops->destroy(s);
}

enum ct_status ct_stage_alloc(const struct ct_device *d, size_t bytes,
                              const char *name, void *out)
{
    return ops_of(d)->alloc(d, bytes, name, out);
}

void ct_stage_free(const struct ct_device *d, void *p)
{
    if (p)
        ops_of(d)->free(d, p);
}

void ct_stage_expect(struct ct_stage *s)
{
    s->turn++;
}

enum ct_status ct_stage_wait(struct ct_stage *s, int i)
{
    return s->ops->wait(s, i);
}

void ct_stage_judge(struct ct_stage *s, enum ct_status (*judge)(void *arg),
                    void *arg)
{
    s->judge     = judge;
    s->judge_arg = arg;
}

enum ct_status ct_stage_begin(struct ct_stage *s)
{
    return s->ops->begin(s);
}

enum ct_status ct_stage_out(struct ct_stage *s, size_t bytes,
                            const void *from, void *to)
{
    return bytes ? s->ops->out(s, bytes, from, to) : CT_OK;
}

enum ct_status ct_stage_mark(struct ct_stage *s, int i)
{
    return s->ops->mark(s, i);
}

enum ct_status ct_stage_join(struct ct_stage *s)
{
    return s->ops->join(s);
}

enum ct_status ct_stage_in(struct ct_stage *s, size_t bytes, const void *from,
                           void *to)
{
    return bytes ? s->ops->in(s, bytes, from, to) : CT_OK;
}

enum ct_status ct_stage_follow_in(struct ct_stage *s)
{
    return s->ops->follow_in(s);
}
