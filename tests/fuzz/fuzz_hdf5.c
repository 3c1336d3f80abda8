/* fuzz_hdf5.c - HDF5 files that are whole, and hold anything.
 *
 * The bytes are a script: each group of eight makes a dataset or a group with
 * a name, a type and a shape of its own; none is written, so that a small file
 * can say that it holds terabytes.  It is then read as data, as weights and as
 * a solver's state.  Bytes that are no HDF5 are fuzz_state's: the library reads
 * those, and allocates what a damaged file asks for. */
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "cortado/net.h"
#include "data/hdf5_inner.h"
#include "fuzz_file.h"
#include "solver/state.h"

#ifdef CT_HAVE_HDF5
enum { STEP = 8, MOST_STEPS = 24, MOST_READ = 1 << 14 };

static const char *const names[] = {
    "data", "label", "iter", "current_step", "learned_net", "history",
    "history/0", "history/1", "data/ip", "data/ip/0", "data/ip/1", "x",
};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

static hid_t type_of(int kind)
{
    switch (kind % 8) {
    case 0: return H5Tcopy(H5T_IEEE_F32LE);
    case 1: return H5Tcopy(H5T_IEEE_F64BE);
    case 2: return H5Tcopy(H5T_STD_I32LE);
    case 3: return H5Tcopy(H5T_STD_U64LE);
    case 4: return H5Tcopy(H5T_C_S1);
    case 5: return H5Tvlen_create(H5T_IEEE_F32LE);
    case 6: return H5Tarray_create2(H5T_STD_I8LE, 1, &(hsize_t){ 3 });
    default: return H5Tcreate(H5T_OPAQUE, 5);
    }
}

static hid_t space_of(const uint8_t *s, int *rank, hsize_t *dim)
{
    *rank = s[2] % 11;
    for (int i = 0; i < *rank; i++)
        dim[i] = (hsize_t)(s[3 + i % 4] % 8)
                 << (s[7] & 1 << i % 8 ? s[3 + (i + 1) % 4] % 33 : 0);
    return s[2] >= 224   ? H5Screate(H5S_NULL)
           : *rank == 0 ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(*rank, dim, NULL);
}

static void make_one(hid_t file, const uint8_t *s)
{
    const char *name = names[s[0] % N_NAMES];
    hsize_t dim[11], chunk[11];
    hid_t type, space, how, set;
    hsize_t side;
    int rank;

    if (s[1] >= 192) {
        ct_h5_close(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT));
        return;
    }
    type  = type_of(s[1]);
    space = space_of(s, &rank, dim);
    side  = rank > 2 ? 4 : 1024;
    how   = H5Pcreate(H5P_DATASET_CREATE);
    for (int i = 0; i < rank; i++)
        chunk[i] = dim[i] && dim[i] < side ? dim[i] : side;
    if (rank > 0 && s[2] < 224)
        H5Pset_chunk(how, rank, chunk);
    set = space < 0 ? -1
                    : H5Dcreate2(file, name, type, space, H5P_DEFAULT, how,
                                 H5P_DEFAULT);
    ct_h5_close(set);
    ct_h5_close(how);
    ct_h5_close(space);
    ct_h5_close(type);
}

static void make_file(const char *path, const uint8_t *data, size_t n_bytes)
{
    struct ct_hdf5 *h = NULL;
    struct h5_guard g;

    if (ct_hdf5_create(path, &h) != CT_OK)
        abort();
    g = ct_h5_enter();
    for (size_t i = 0; (i + 1) * STEP <= n_bytes && i < MOST_STEPS; i++)
        make_one(h->file, data + i * STEP);
    ct_h5_leave(g);
    (void)ct_hdf5_close(h);
}

static void read_names(struct ct_hdf5 *h)
{
    for (int i = 0; i < N_NAMES; i++) {
        struct ct_shape shape = { 0 };
        char **list           = NULL;
        float *x;
        int64_t count;
        int n;

        if (ct_hdf5_list(h, names[i], CT_HDF5_DATASETS, &list, &n) == CT_OK)
            ct_hdf5_list_free(list, n);
        if (ct_hdf5_shape(h, names[i], &shape) != CT_OK) {
            CT_ASSERT(ct_last_error()[0]);
            continue;
        }
        count = ct_shape_count(&shape, 0, CT_END);
        CT_ASSERT(count >= 0);
        x = count <= MOST_READ ? ct_calloc((size_t)count + 1, sizeof(*x), "x")
                               : NULL;
        if (x && ct_hdf5_read(h, names[i], count, x) == CT_OK &&
            shape.n_axes > 0 && shape.dim[0] > 0)
            (void)!ct_hdf5_read_rows(h, names[i], shape.dim[0] - 1, 1, x);
        ct_free(x);
    }
}

/* As weights, of a net that has such layers. */
static void load_weights(const char *path)
{
    static const char text[] =
        "layer { name: 'i' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 1 dim: 3 } } }"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
        "  inner_product_param { num_output: 2 } }";
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TEST,
                                      .quiet = true };
    static Caffe__NetParameter *m;
    struct ct_net *net = NULL;

    if (!m && ct_text_parse(&caffe__net_parameter__descriptor, text,
                            strlen(text), "net", &m) != CT_OK)
        abort();
    if (ct_net_create(m, &o, &net) != CT_OK)
        abort();
    if (ct_net_load(net, path) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    ct_net_destroy(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *path      = fuzz_file(data, 0, ".solverstate.h5");
    Caffe__SolverState *m = NULL;
    struct ct_hdf5 *h     = NULL;

    ct_log_set_level(CT_LOG_NONE);
    make_file(path, data, n_bytes);
    if (ct_hdf5_open(path, &h) == CT_OK)
        read_names(h);
    (void)ct_hdf5_close(h);
    if (solver_state_read(path, &m) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    ct_message_free(m);
    load_weights(path);
    unlink(path);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    (void)data, (void)n_bytes;
    return 0;
}
#endif
