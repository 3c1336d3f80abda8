/* bindings.c - plain functions over the structs, for bindings. */
#include "cortado/access.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "layers/deal.h"
#include "net/arena.h"
#include "net/training.h"
#include "proto/edit.h"
#include "solver/solver_inner.h"

#ifndef CT_VERSION
#define CT_VERSION "unknown"
#endif

const char *ct_version(void)
{
    return CT_VERSION;
}

uint64_t ct_n_live_allocations(void)
{
    return ct_mem_stats().n_live;
}

enum ct_status ct_fail_text(enum ct_status code, const char *text)
{
    return ct_fail(code, "%s", text);
}

void ct_log_text(enum ct_log_level level, const char *file, int line,
                 const char *text)
{
    ct_log_write(level, file, line, "%s", text);
}

int ct_blob_n_axes(const struct ct_blob *b)
{
    return b->shape.n_axes;
}

int64_t ct_blob_dim(const struct ct_blob *b, int i)
{
    return b->shape.dim[i];
}

int64_t ct_blob_count(const struct ct_blob *b)
{
    return b->count;
}

uint32_t ct_blob_version(const struct ct_blob *b)
{
    return b->version;
}

static enum ct_status shape_of(int n_axes, const int64_t *dim,
                               struct ct_shape *out)
{
    if (n_axes < 0 || n_axes > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "a shape of %d axes; up to %d are possible",
                       n_axes, CT_MAX_AXES);
    *out = (struct ct_shape){ .n_axes = n_axes };
    for (int i = 0; i < n_axes; i++)
        out->dim[i] = dim[i];
    return CT_OK;
}

enum ct_status ct_blob_reshape(struct ct_blob *b, int n_axes,
                               const int64_t *dim)
{
    struct ct_shape shape;

    CT_TRY(shape_of(n_axes, dim, &shape));
    if (ct_reshape(b, shape) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "blob %s", b->name ? b->name : "");
    return CT_OK;
}

float *ct_blob_address(const struct ct_blob *b, bool diff)
{
    return diff ? ct_diff(b) : ct_data(b);
}

bool ct_blob_on_host(const struct ct_blob *b)
{
    return b->dev->kind == CT_CPU;
}

/* Allocates memory for the values or the gradient, if there is none. */
static enum ct_status give_memory(struct ct_blob *b, bool diff)
{
    struct ct_tensor *t = diff ? &b->diff : &b->data;
    size_t bytes        = ct_tensor_bytes(&b->shape, t);
    struct ct_buffer *fresh;

    if (t->ptr && t->room_bytes >= bytes)
        return CT_OK;
    CT_TRY(ct_buffer_create(b->dev, bytes, "blob", &fresh));
    ct_tensor_place(t, fresh, 0, bytes);
    ct_buffer_drop(fresh);
    if (diff)
        b->no_diff = false; /* a reshape now also resizes the gradient */
    return CT_OK;
}

enum ct_status ct_blob_pull(const struct ct_blob *b, bool diff, float *to)
{
    if (!(diff ? ct_diff(b) : ct_data(b))) {
        memset(to, 0, (size_t)b->count * sizeof(*to));
        return CT_OK;
    }
    return ct_blob_get(b, diff, to);
}

enum ct_status ct_blob_push(struct ct_blob *b, bool diff, const float *from)
{
    CT_TRY(give_memory(b, diff));
    return ct_blob_put(b, diff, from);
}

enum ct_status ct_precision_asked(const char *path, bool solver, int *out)
{
    Caffe__SolverParameter *s = NULL;
    Caffe__NetParameter *net  = NULL;
    enum ct_precision p       = CT_FP32;
    enum ct_status st         = CT_OK;

    if (solver) {
        CT_TRY(ct_solver_param_read(path, &s));
        st = ct_solver_precision(s, &p);
        ct_message_free(s);
    } else {
        CT_TRY(ct_net_param_read(path, &net));
        p = ct_net_precision(net);
        ct_message_free(net);
    }
    *out = (int)p;
    return st;
}

enum ct_status ct_blob_hold(struct ct_blob *b, bool diff, float **values,
                            struct ct_buffer **hold)
{
    struct ct_tensor *t = diff ? &b->diff : &b->data;

    if (b->dev->kind != CT_CPU || t->layout != CT_PLAIN)
        return ct_fail(CT_ENOTSUP, "blob %s: its values are not in the host's "
                       "memory in plain layout", b->name ? b->name : "");
    CT_TRY(give_memory(b, diff));
    *values = t->ptr;
    *hold   = ct_buffer_use(t->buffer);
    return CT_OK;
}

void ct_blob_release(struct ct_buffer *hold)
{
    ct_buffer_drop(hold);
}

const char *ct_layer_type_at(int i)
{
    return ct_layer_at(i)->name;
}

const char *ct_layer_name(const struct ct_layer *l)
{
    return l->name;
}

const char *ct_layer_type_name(const struct ct_layer *l)
{
    return l->type->name;
}

int ct_layer_phase(const struct ct_layer *l)
{
    return (int)l->phase;
}

int ct_layer_n_blobs(const struct ct_layer *l)
{
    return l->n_blob;
}

struct ct_blob *ct_layer_blob(const struct ct_layer *l, int i)
{
    return l->blob[i];
}

int ct_layer_rank(const struct ct_layer *l)
{
    return l->run->rank;
}

int ct_layer_size(const struct ct_layer *l)
{
    return l->run->size;
}

uint64_t ct_layer_key(const struct ct_layer *l)
{
    return l->key;
}

int64_t ct_layer_batch_size(const struct ct_layer *l)
{
    const Caffe__DataParameter *p = l->param->data_param;

    return p && p->has_batch_size ? (int64_t)p->batch_size : -1;
}

void ct_layer_shard(const struct ct_layer *l, int64_t batch, int64_t out[4])
{
    const struct ct_shard s = l->run->own_data
                                  ? ct_shard_even(l->run->rank, l->run->size,
                                                  batch, 1)
                                  : ct_deal_shard(l, batch);

    out[0] = s.step;
    out[1] = s.first;
    out[2] = s.count;
    out[3] = s.share;
}

enum ct_status ct_layer_add_zeros(struct ct_layer *l, int n_axes,
                                  const int64_t *dim)
{
    struct ct_shape shape;

    CT_TRY(shape_of(n_axes, dim, &shape));
    return ct_layer_add_blob(l, shape, NULL);
}

enum ct_status ct_layer_shape_tops(struct ct_layer *l,
                                   struct ct_blob *const *bottom,
                                   int n_bottom, struct ct_blob *const *top,
                                   int n_top)
{
    const struct ct_io io = { bottom, top, n_bottom, n_top, NULL };

    return l->type->reshape(l, &io);
}

enum ct_status ct_net_open(const char *path, const struct ct_device *device,
                           int phase, int level, const char *const *stage,
                           int n_stage, uint64_t seed, int rank, int size,
                           struct ct_net **out)
{
    const struct ct_net_options options = {
        .device     = device,
        .phase      = phase ? CAFFE__PHASE__TEST : CAFFE__PHASE__TRAIN,
        .level      = level,
        .stage      = stage,
        .n_stage    = n_stage,
        .seed       = seed,
        .rank       = rank,
        .size       = size,
        .keep_blobs = true,
    };

    return ct_net_create_file(path, &options, out);
}

int ct_net_n_bottoms(const struct ct_net *net, int layer)
{
    return ct_net_io(net, layer).n_bottom;
}

int ct_net_n_tops(const struct ct_net *net, int layer)
{
    return ct_net_io(net, layer).n_top;
}

static enum ct_status set_type(Caffe__SolverParameter *p, const char *type)
{
    /* The default text belongs to the schema and must not be freed. */
    if (p->type == caffe__solver_parameter__type__default_value)
        p->type = NULL;
    return ct_edit_string(&p->type, type);
}

enum ct_status ct_solver_open(const char *path, const struct ct_device *device,
                              const char *type, int64_t seed, int rank,
                              int size, struct ct_exchange *exchange,
                              ct_action_fn action, void *arg,
                              struct ct_solver **out)
{
    const struct ct_solver_options options = {
        .device     = device,
        .rank       = exchange ? exchange->facts.rank : rank,
        .size       = exchange ? exchange->facts.size : size,
        .exchange   = exchange,
        .action     = action,
        .arg        = arg,
        .keep_blobs = true,
    };
    Caffe__SolverParameter *p = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_param_read(path, &p));
    st = type ? set_type(p, type) : CT_OK;
    if (p->random_seed < 0 && seed >= 0) {
        p->has_random_seed = true;
        p->random_seed     = seed;
    }
    if (st == CT_OK)
        st = ct_solver_create(p, &options, out);
    ct_message_free(p);
    return st;
}

const char *ct_solver_type(const struct ct_solver *s)
{
    return s->rule->name;
}

int ct_solver_max_iter(const struct ct_solver *s)
{
    return s->param->max_iter;
}

int ct_solver_display(const struct ct_solver *s)
{
    return s->param->display;
}

int ct_solver_iter_size(const struct ct_solver *s)
{
    return s->param->iter_size;
}

bool ct_solver_layer_wise_reduce(const struct ct_solver *s)
{
    return s->param->layer_wise_reduce;
}

float ct_solver_base_lr(const struct ct_solver *s)
{
    return s->param->base_lr;
}

void ct_solver_set_base_lr(struct ct_solver *s, float rate)
{
    s->param->has_base_lr = true;
    s->param->base_lr     = rate;
}

bool ct_solver_is_stopped(const struct ct_solver *s)
{
    return s->stop;
}

void ct_solver_clear_stop(struct ct_solver *s)
{
    s->stop = false;
}

/* Fields that name files.  Their paths may differ between ranks. */
static bool names_a_file(const char *line)
{
    static const char *const field[] = {
        "net:", "train_net:", "test_net:", "snapshot_prefix:", "weights:",
        "source:", "root_folder:", "mean_file:",
    };

    line += strspn(line, " ");
    for (size_t i = 0; i < sizeof(field) / sizeof(field[0]); i++)
        if (strncmp(line, field[i], strlen(field[i])) == 0)
            return true;
    return false;
}

enum ct_status ct_solver_digest(const struct ct_solver *s, uint64_t *out)
{
    uint32_t words = 0, shapes = 0;
    char *text = NULL;

    CT_TRY(ct_text_print(s->param, &text));
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");

        if (!names_a_file(line))
            words = ct_crc32c(words, line, n);
        line += n + (line[n] == '\n');
    }
    ct_free(text);
    for (int i = 0; i < ct_net_n_params(s->net); i++) {
        const struct ct_shape *y = &ct_net_param(s->net, i)->blob->shape;

        shapes = ct_crc32c(shapes, y->dim,
                           (size_t)y->n_axes * sizeof(y->dim[0]));
    }
    *out = (uint64_t)shapes << 32 | words;
    return CT_OK;
}

enum ct_status ct_solver_attach(struct ct_solver *s)
{
    return solver_attach(s);
}

void ct_solver_send_late(struct ct_solver *s, bool late)
{
    s->peers.after_backward = late;
}

void ct_solver_leave(struct ct_solver *s)
{
    struct ct_exchange *x = s->options.exchange;

    solver_prepare_fini(s);
    if (x)
        x->ops->detach(x, s->net);
    if (ct_net_own_diffs(s->net) != CT_OK)
        CT_WARN("the gradients stay in shared memory: %s", ct_last_error());
    ct_net_set_layer_done(s->net, NULL, NULL);
    ct_net_set_layer_start(s->net, NULL, NULL);
    solver_leave_pulse(s);
    s->last_pass        = false;
    s->peers.attached   = (struct ct_attached){ 0 };
    s->options.exchange = NULL;
}
