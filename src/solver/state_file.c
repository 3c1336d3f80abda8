/* state_file.c - a state in a file.
 *
 *     <prefix>_iter_<N>.solverstate        the message in protobuf's form
 *     <prefix>_iter_<N>.solverstate.h5     its fields as datasets:
 *         iter, learned_net, current_step, history/0, ...      Caffe's
 *         seed, n_passes/0, ..., state/<name>, and more numbers    our own
 *
 * The checksum is that of the message, so it is the same in both forms. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/blob_proto.h"
#include "data/hdf5.h"
#include "proto/edit.h"
#include "solver/state.h"

/* A protobuf buffer that only computes the checksum of packed bytes. */
struct sum {
    ProtobufCBuffer base;
    uint32_t        crc;
};

static void sum_append(ProtobufCBuffer *base, size_t n, const uint8_t *data)
{
    struct sum *s = (struct sum *)(void *)base;

    s->crc = ct_crc32c(s->crc, data, n);
}

static uint32_t sum_of(const Caffe__SolverState *m)
{
    Caffe__SolverState bare = *m; /* shares all that it points to */
    struct sum s            = { { sum_append }, 0 };

    bare.has_own_crc = false;
    protobuf_c_message_pack_to_buffer(&bare.base, &s.base);
    return s.crc;
}

/* ---- numbers of the message, which HDF5 stores under their names */

struct number {
    const char *name;
    size_t      has, at;
    bool        wide; /* 64 bits */
};

#define NUMBER(field, bits)                                      \
    { #field, offsetof(Caffe__SolverState, has_##field),         \
      offsetof(Caffe__SolverState, field), (bits) == 64 }

static const struct number numbers[] = {
    NUMBER(iter, 32),    NUMBER(current_step, 32), NUMBER(seed, 64),
    NUMBER(crc, 32),     NUMBER(own_crc, 32),      NUMBER(samples, 64),
    NUMBER(batch, 64),   NUMBER(n_ranks, 32),      NUMBER(job, 64),
};
enum { N_NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

static protobuf_c_boolean *has_number(Caffe__SolverState *m, int i)
{
    return (protobuf_c_boolean *)(void *)((char *)m + numbers[i].has);
}

static int64_t get_number(const Caffe__SolverState *m, int i)
{
    const char *at = (const char *)m + numbers[i].at;
    int64_t wide;
    int32_t narrow;

    memcpy(&wide, at, numbers[i].wide ? sizeof(wide) : 0);
    memcpy(&narrow, at, sizeof(narrow));
    return numbers[i].wide ? wide : narrow;
}

static void set_number(Caffe__SolverState *m, int i, int64_t value)
{
    const int32_t narrow = (int32_t)(uint32_t)(uint64_t)value;
    char *at             = (char *)m + numbers[i].at;

    *has_number(m, i) = true;
    if (numbers[i].wide)
        memcpy(at, &value, sizeof(value));
    else
        memcpy(at, &narrow, sizeof(narrow));
}

/* ---- HDF5 */

static enum ct_status write_blob(struct ct_hdf5 *h, const char *name,
                                 const Caffe__BlobProto *b)
{
    struct ct_shape shape = CT_SCALAR;

    CT_TRY(ct_blob_proto_shape(b, &shape));
    return ct_hdf5_write(h, name, shape, b->data);
}

static enum ct_status write_integers(struct ct_hdf5 *h, const char *group,
                                     size_t n, const int64_t *wide,
                                     const int32_t *narrow)
{
    char name[64];

    if (n > 0)
        CT_TRY(ct_hdf5_add_group(h, group));
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s/%zu", group, i);
        CT_TRY(ct_hdf5_write_int(h, name, wide ? wide[i] : narrow[i]));
    }
    return CT_OK;
}

static enum ct_status write_hdf5(struct ct_hdf5 *h, Caffe__SolverState *m)
{
    char name[1024];

    for (int i = 0; i < N_NUMBERS; i++)
        if (*has_number(m, i))
            CT_TRY(ct_hdf5_write_int(h, numbers[i].name, get_number(m, i)));
    if (m->learned_net)
        CT_TRY(ct_hdf5_write_string(h, "learned_net", m->learned_net));
    CT_TRY(ct_hdf5_add_group(h, "history"));
    for (size_t i = 0; i < m->n_history; i++) {
        snprintf(name, sizeof(name), "history/%zu", i);
        CT_TRY(write_blob(h, name, m->history[i]));
    }
    for (size_t i = 0; i < m->n_state; i++) {
        snprintf(name, sizeof(name), "state/%s", m->state_name[i]);
        CT_TRY(write_blob(h, name, m->state[i]));
    }
    CT_TRY(write_integers(h, "n_passes", m->n_n_passes, m->n_passes, NULL));
    return write_integers(h, "rank_file", m->n_rank_file, NULL, m->rank_file);
}

static enum ct_status save_hdf5(Caffe__SolverState *m, const char *path)
{
    struct ct_hdf5 *h = NULL;
    char *temp        = NULL;
    enum ct_status st, closed;

    CT_TRY_GOTO(ct_file_temp(path, &temp), st, out);
    CT_TRY_GOTO(ct_hdf5_create(temp, &h), st, out);
    st     = write_hdf5(h, m);
    closed = ct_hdf5_close(h);
    CT_TRY_GOTO(st != CT_OK ? st : closed, st, out);
    st = ct_file_commit(temp, path);
out:
    if (st != CT_OK)
        ct_file_discard(temp);
    ct_free(temp);
    return st;
}

static enum ct_status read_blob(struct ct_hdf5 *h, const char *name,
                                Caffe__BlobProto ***list, size_t *n)
{
    struct ct_blob view = { .shape = CT_SCALAR, .dev = ct_device_cpu() };
    Caffe__BlobProto *b = NULL;
    float *values       = NULL;
    enum ct_status st;

    CT_TRY(ct_hdf5_shape(h, name, &view.shape));
    view.count = ct_shape_count(&view.shape, 0, CT_END);
    CT_TRY_GOTO(ct_alloc((size_t)view.count + 1, sizeof(*values), "state",
                         &values), st, out);
    CT_TRY_GOTO(ct_hdf5_read(h, name, view.count, values), st, out);
    view.data.ptr = values;
    CT_TRY_GOTO(ct_blob_to_proto(&view, false, &b), st, out);
    CT_TRY_GOTO(ct_edit_insert(list, n, *n, b), st, out);
    b = NULL;
out:
    ct_message_free(b);
    ct_free(values);
    return st;
}

static enum ct_status read_integers(struct ct_hdf5 *h, const char *group,
                                    void *list, size_t *n, size_t size)
{
    char name[64];
    char *values;
    size_t count = 0;

    for (;; count++) {
        snprintf(name, sizeof(name), "%s/%zu", group, count);
        if (count > INT16_MAX || !ct_hdf5_has(h, name))
            break;
    }
    CT_TRY(ct_edit_resize(list, count, size));
    *n = count;
    memcpy(&values, list, sizeof(values));
    for (size_t i = 0; i < count; i++) {
        int64_t value  = 0;
        int32_t narrow;

        snprintf(name, sizeof(name), "%s/%zu", group, i);
        CT_TRY(ct_hdf5_read_int(h, name, &value));
        narrow = (int32_t)value;
        memcpy(values + i * size, size == sizeof(value) ? (void *)&value
                                                        : (void *)&narrow,
               size);
    }
    return CT_OK;
}

/* Values that ranks and layers keep, in the order of their names. */
static enum ct_status read_kept(struct ct_hdf5 *h, Caffe__SolverState *m)
{
    char **names = NULL, name[1024];
    int n        = 0;
    enum ct_status st = CT_OK;

    if (!ct_hdf5_has(h, "state"))
        return CT_OK;
    CT_TRY(ct_hdf5_list(h, "state", CT_HDF5_DATASETS, &names, &n));
    for (int i = 0; i < n && st == CT_OK; i++) {
        snprintf(name, sizeof(name), "state/%s", names[i]);
        st = read_blob(h, name, &m->state, &m->n_state);
        if (st == CT_OK)
            st = ct_edit_add_string(&m->state_name, &m->n_state_name,
                                    names[i]);
    }
    ct_hdf5_list_free(names, n);
    return st;
}

static enum ct_status read_history(struct ct_hdf5 *h, Caffe__SolverState *m)
{
    char **names = NULL, name[64];
    int n        = 0;

    if (!ct_hdf5_has(h, "history"))
        return CT_OK;
    CT_TRY(ct_hdf5_list(h, "history", CT_HDF5_DATASETS, &names, &n));
    ct_hdf5_list_free(names, n);
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof(name), "history/%d", k);
        CT_TRY(read_blob(h, name, &m->history, &m->n_history));
    }
    return CT_OK;
}

static enum ct_status read_hdf5(struct ct_hdf5 *h, const char *path,
                                Caffe__SolverState *m)
{
    char *model = NULL;
    int64_t value;
    enum ct_status st;

    if (!ct_hdf5_has(h, "iter") || !ct_hdf5_has(h, "history"))
        return ct_fail(CT_EPARSE, "%s is not a solver state: it lacks `iter` "
                       "or `history`", path);
    for (int i = 0; i < N_NUMBERS; i++)
        if (ct_hdf5_has(h, numbers[i].name)) {
            CT_TRY(ct_hdf5_read_int(h, numbers[i].name, &value));
            set_number(m, i, value);
        }
    if (ct_hdf5_has(h, "learned_net")) {
        CT_TRY(ct_hdf5_read_string(h, "learned_net", &model));
        st = ct_edit_string(&m->learned_net, model);
        ct_free(model);
        CT_TRY(st);
    }
    CT_TRY(read_history(h, m));
    CT_TRY(read_kept(h, m));
    CT_TRY(read_integers(h, "n_passes", &m->n_passes, &m->n_n_passes,
                         sizeof(*m->n_passes)));
    return read_integers(h, "rank_file", &m->rank_file, &m->n_rank_file,
                         sizeof(*m->rank_file));
}

static enum ct_status open_hdf5(const char *path, Caffe__SolverState **out)
{
    struct ct_hdf5 *h = NULL;
    enum ct_status st;

    CT_TRY(ct_edit_create(&caffe__solver_state__descriptor, out));
    CT_TRY(ct_hdf5_open(path, &h));
    st = read_hdf5(h, path, *out);
    (void)ct_hdf5_close(h);
    return st;
}

/* ---- both forms */

/* Sorts kept values by the bytes of their names, the order in which HDF5 lists
 * them, so that the checksum is the same. */
static void sort_kept(Caffe__SolverState *m)
{
    for (size_t i = 1; i < m->n_state; i++)
        for (size_t k = i; k > 0 && strcmp(m->state_name[k - 1],
                                           m->state_name[k]) > 0; k--) {
            Caffe__BlobProto *b = m->state[k];
            char *name          = m->state_name[k];

            m->state[k]          = m->state[k - 1];
            m->state_name[k]     = m->state_name[k - 1];
            m->state[k - 1]      = b;
            m->state_name[k - 1] = name;
        }
}

enum ct_status solver_state_write(Caffe__SolverState *m, const char *path)
{
    sort_kept(m);
    m->own_crc     = sum_of(m);
    m->has_own_crc = true;
    return solver_ends_with(path, ".h5") ? save_hdf5(m, path)
                                         : ct_binary_write(m, path);
}

enum ct_status solver_state_read(const char *path, Caffe__SolverState **out)
{
    Caffe__SolverState *m = NULL;
    enum ct_status st;

    st = solver_ends_with(path, ".h5")
             ? open_hdf5(path, &m)
             : ct_binary_read(&caffe__solver_state__descriptor, path, &m);
    if (st == CT_OK && m->n_state != m->n_state_name)
        st = ct_fail(CT_EPARSE, "%s is damaged: it has %zu names for %zu "
                     "values", path, m->n_state_name, m->n_state);
    /* Every writer sets both checksums or none. */
    if (st == CT_OK && (m->has_own_crc || m->has_crc) &&
        (!m->has_own_crc || m->own_crc != sum_of(m)))
        st = ct_fail(CT_EPARSE, "%s is damaged: its content does not have the "
                     "checksum that it should; resume from another snapshot, "
                     "which --snapshot=auto finds", path);
    if (st != CT_OK) {
        ct_message_free(m);
        return st;
    }
    *out = m;
    return CT_OK;
}

/* ---- the number of its job */

static bool skim_number(FILE *f, uint64_t *out)
{
    int c = 0;

    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        c = getc(f);
        if (c == EOF)
            return false;
        *out |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return false;
}

/* Protobuf's form, without the arrays. */
static int64_t skim(FILE *f)
{
    const unsigned job = protobuf_c_message_descriptor_get_field_by_name(
        &caffe__solver_state__descriptor, "job")->id;
    uint64_t key, n;

    while (skim_number(f, &key)) {
        const unsigned wire = key & 7;

        if (wire == 0 && skim_number(f, &n)) {
            if (key >> 3 == job)
                return (int64_t)n;
            continue;
        }
        n = wire == 1 ? 8 : wire == 5 ? 4 : 0;
        if (wire != 1 && wire != 5 && (wire != 2 || !skim_number(f, &n)))
            return 0;
        if (n > INT64_MAX || fseeko(f, (off_t)n, SEEK_CUR) != 0)
            return 0;
    }
    return 0;
}

static int64_t skim_hdf5(const char *path)
{
    struct ct_hdf5 *h = NULL;
    int64_t job       = 0;

    if (ct_hdf5_open(path, &h) == CT_OK && ct_hdf5_has(h, "job") &&
        ct_hdf5_read_int(h, "job", &job) != CT_OK)
        job = 0;
    (void)ct_hdf5_close(h);
    return job;
}

int64_t solver_state_job(const char *path)
{
    int64_t job = 0;
    FILE *f;

    if (solver_ends_with(path, ".h5"))
        return skim_hdf5(path);
    f = fopen(path, "re");
    if (f) {
        job = skim(f);
        fclose(f);
    }
    return job;
}
