/* branches.cu - branches whose channels are joined, in one pass over memory.
 *
 * Rows of all channels are shared out as tiles.h has it: a thread has one
 * vector of every so many rows, and so one branch. */
#include "device/cuda/branches.h"

#include "device/cuda/column_sums.h"
#include "device/cuda/elementwise.h"

/* As ct_branches, counted in vectors; branch i begins at vector first[i]. */
struct plan {
    int         n, first[CT_BRANCHES], width[CT_BRANCHES];
    const void *from[CT_BRANCHES], *dy[CT_BRANCH_DIFFS]; /* x, or the mask */
    void       *to[CT_BRANCHES], *y;
    float      *db[CT_BRANCHES];
    bool        sums; /* whether there is a db */
};

/* What a thread has of its branch. */
struct mine {
    const uint4 *from;
    uint4       *to;
    int          width, column;
};

__device__ static inline struct mine mine_of(const struct plan &p, int column)
{
    struct mine m = {};

#pragma unroll
    for (int i = 0; i < CT_BRANCHES; i++)
        if (i < p.n && column >= p.first[i]) {
            m.from   = (const uint4 *)p.from[i];
            m.to     = (uint4 *)p.to[i];
            m.width  = p.width[i];
            m.column = column - p.first[i];
        }
    return m;
}

/* Where the sum of a channel goes; vectors have `v` of them. */
struct in_branches {
    const struct plan *p;
    int                v;

    __device__ float *operator()(int channel) const
    {
        float *to = NULL;

#pragma unroll
        for (int i = 0; i < CT_BRANCHES; i++)
            if (i < p->n && channel >= p->first[i] * v)
                to = p->db[i] ? p->db[i] + channel - p->first[i] * v : NULL;
        return to;
    }
};

__global__ static void __launch_bounds__(CT_BLOCK, 4)
    join(const __grid_constant__ struct plan p, struct ct_columns m)
{
    CT_TURN();
    enum { AHEAD = 4 };
    const struct ct_column at =
        ct_column_of(&m, blockIdx.x, blockIdx.y, threadIdx.x);
    const struct mine my = mine_of(p, at.column);

    for (int r = at.row; r < m.rows; r += AHEAD * at.step) {
        uint4 v[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * at.step < m.rows)
                v[a] = my.from[(r + a * at.step) * my.width + my.column];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * at.step < m.rows)
                ((uint4 *)p.y)[(r + a * at.step) * m.row + at.column] = v[a];
    }
}

template <typename T>
__device__ static inline void add_vector(const uint4 &v, float *sum)
{
    enum { EACH = CT_VECTOR(T) / 4 };
    const T *const type = NULL;

    ct_add(type, v.x, sum);
    ct_add(type, v.y, sum + EACH);
    ct_add(type, v.z, sum + 2 * EACH);
    ct_add(type, v.w, sum + 3 * EACH);
}

/* The sum of N vectors, rounded once. */
template <int N, typename T>
__device__ static inline uint4 total(const uint4 (&v)[N])
{
    float sum[CT_VECTOR(T)] = {};
    uint4 out               = v[0];

#pragma unroll
    for (int i = 0; i < N && N > 1; i++)
        add_vector<T>(v[i], sum);
#pragma unroll
    for (int i = 0; i < CT_VECTOR(T) && N > 1; i++)
        ct_store((T *)&out + i, sum[i]);
    return out;
}

template <typename T>
__device__ static inline uint4 masked(const uint4 &v, const uint4 &mask)
{
    const T *const type = NULL;

    return make_uint4(ct_keep(type, v.x, mask.x), ct_keep(type, v.y, mask.y),
                      ct_keep(type, v.z, mask.z), ct_keep(type, v.w, mask.w));
}

/* From N arrays dy.  A branch that nobody wants is not even read. */
template <int N, typename T>
__global__ static void __launch_bounds__(CT_BLOCK, 4)
    part(const __grid_constant__ struct plan p, struct ct_columns m,
         float *parts, unsigned *turn)
{
    CT_TURN();
    enum { V = CT_VECTOR(T), AHEAD = N == 1 ? 4 : N == 2 ? 2 : 1 };
    __shared__ __align__(16) float tile[CT_COLUMN_TILE(V)];
    const struct ct_column at =
        ct_column_of(&m, blockIdx.x, blockIdx.y, threadIdx.x);
    const struct mine my = mine_of(p, at.column);
    float sum[V] = {};

    for (int r = my.to ? at.row : m.rows; r < m.rows; r += AHEAD * at.step) {
        uint4 v[AHEAD][N], mask[AHEAD];

#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * at.step < m.rows) {
#pragma unroll
                for (int i = 0; i < N; i++)
                    v[a][i] = ((const uint4 *)p.dy[i])[
                        (r + a * at.step) * m.row + at.column];
                if (my.from)
                    mask[a] =
                        my.from[(r + a * at.step) * my.width + my.column];
            }
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (r + a * at.step < m.rows) {
                uint4 g = total<N, T>(v[a]);

                if (my.from)
                    g = masked<T>(g, mask[a]);
                add_vector<T>(g, sum);
                my.to[(r + a * at.step) * my.width + my.column] = g;
            }
    }
    if (p.sums)
        ct_column_sums<V>(m, sum, tile, parts, turn, in_branches{ &p, V });
}

/* False where vectors or their sharing out do not fit. */
static bool make_plan(const struct ct_device *d, const struct ct_branches *b,
                      struct plan *p, struct ct_columns *m)
{
    const int vector = 16 / (int)ct_dtype_bytes(b->dtype);
    int64_t all      = 0;
    bool fits        = b->n > 0 && b->n <= CT_BRANCHES && ct_aligned(b->y);

    for (int i = 0; fits && i < b->n; i++) {
        const struct ct_branch *of = &b->of[i];

        fits = of->channels > 0 && of->channels % vector == 0 &&
               ct_aligned(of->x) && ct_aligned(of->dx) &&
               ct_aligned(of->mask);
        p->first[i] = (int)(all / vector);
        p->width[i] = (int)(of->channels / vector);
        all += of->channels;
    }
    p->n = b->n;
    p->y = b->y;
    return fits && b->rows > 0 && b->rows * all <= INT32_MAX &&
           ct_columns_make(b->rows, all / vector, vector,
                           4 * ct_cuda(d)->n_multiprocessors, 1,
                           CT_CUDA_PARTS, CT_CUDA_TURNS, m);
}

static dim3 grid_of(const struct ct_columns *m)
{
    return dim3((unsigned)m->groups, (unsigned)m->shares);
}

extern "C" enum ct_status ct_cuda_branches_forward(
    const struct ct_device *d, const struct ct_branches *b)
{
    struct plan p = {};
    struct ct_columns m;

    if (!make_plan(d, b, &p, &m))
        return CT_ENOTSUP;
    for (int i = 0; i < b->n; i++)
        p.from[i] = b->of[i].x;
    return CT_START(d, grid_of(&m), CT_BLOCK, 0, join, p, m);
}

template <int N>
static enum ct_status start(const struct ct_device *d, enum ct_dtype dtype,
                            const struct plan &p, const struct ct_columns &m)
{
    CT_BY_TYPE(dtype, T,
               return CT_START(d, grid_of(&m), CT_BLOCK, 0, (part<N, T>), p, m,
                               (float *)ct_cuda_parts(d), ct_cuda_turns(d)));
}

extern "C" enum ct_status ct_cuda_branches_backward(
    const struct ct_device *d, const struct ct_branches *b)
{
    struct plan p = {};
    struct ct_columns m;

    if (!make_plan(d, b, &p, &m) || b->n_dy < 1 || b->n_dy > CT_BRANCH_DIFFS)
        return CT_ENOTSUP;
    for (int i = 0; i < b->n_dy; i++) {
        p.dy[i] = b->dy[i];
        if (!ct_aligned(b->dy[i]))
            return CT_ENOTSUP;
    }
    for (int i = 0; i < b->n; i++) {
        p.from[i] = b->of[i].mask;
        p.to[i]   = b->of[i].dx;
        p.db[i]   = b->of[i].dx ? b->of[i].db : NULL;
        p.sums    = p.sums || p.db[i];
    }
    switch (b->n_dy) {
    case 1:
        return start<1>(d, b->dtype, p, m);
    case 2:
        return start<2>(d, b->dtype, p, m);
    case 3:
        return start<3>(d, b->dtype, p, m);
    case 4:
        return start<4>(d, b->dtype, p, m);
    case 5:
        return start<5>(d, b->dtype, p, m);
    default:
        return start<6>(d, b->dtype, p, m);
    }
}
