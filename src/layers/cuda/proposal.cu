/* proposal.cu - Proposal on a GPU; formulas as in proposal.h.
 *
 *     decode    boxes, and a key for each            a thread a box
 *     sort      keys of an image, the best first     bitonic, in tiles
 *     suppress  which are kept                       a block an image
 *     write     their rows
 *
 * The host sees how many are kept, since the tops' shape is its business.
 * What is kept, and its order, is the CPU's. */
#include "device/cuda/kernel.h"
#include "layers/cuda/slots.h"
#include "layers/proposal.h"

typedef unsigned long long rank_t; /* see score_key() */

enum { TILE = 2048, CHUNK = 64, BLOCK = 1024 };

#define NOTHING (~(rank_t)0)

/* Lower keys are higher scores, and of equal ones lower indices. */
__device__ static inline rank_t score_key(float score, int64_t i)
{
    const unsigned bits = __float_as_uint(score == 0 ? 0 : score);
    const unsigned up   = bits >> 31 ? ~bits : bits | 0x80000000u;

    return (rank_t)~up << 32 | (unsigned)i;
}

__global__ static void decode(int64_t n, struct proposal s,
                              const struct pixel_box *anchor,
                              const float *scores, const float *codes,
                              const float *sizes, struct pixel_box *box,
                              rank_t *key)
{
    CT_TURN();
    const int64_t boxes = s.anchors * s.h * s.w;

    CT_KERNEL_EACH (k, n) {
        const int64_t image = k / s.padded, i = k % s.padded;
        const float *size   = sizes + image * s.sizes;
        struct pixel_box b;
        float score;

        key[k] = NOTHING;
        if (i >= boxes)
            continue;
        b     = proposal_box(&s, anchor, codes + image * 4 * boxes, size, i);
        score = proposal_score(&s, scores + image * 2 * boxes, i);
        box[image * boxes + i] = b;
        if (proposal_counts(&s, &b, score, size))
            key[k] = score_key(score, i);
    }
}

/* Pair t of those that lie `stride` apart is put in order: upwards in every
 * other run of `size` keys.  `from` is the place of key[0]. */
__device__ static inline void put_in_order(rank_t *key, int64_t t,
                                           int64_t stride, int64_t size,
                                           int64_t padded, int64_t from)
{
    const int64_t i = 2 * stride * (t / stride) + t % stride, j = i + stride;
    const bool up   = ((from + i) % padded & size) == 0;
    const rank_t a = key[i], b = key[j];

    if (a > b == up) {
        key[i] = b;
        key[j] = a;
    }
}

/* A block and its tile: sizes first to last, of each all strides that fit. */
__global__ static void sort_tiles(int tile, int64_t first, int64_t last,
                                  int64_t padded, rank_t *key)
{
    CT_TURN();
    __shared__ rank_t here[TILE];
    const int64_t from = (int64_t)blockIdx.x * tile;
    const int t        = threadIdx.x;

    here[t]            = key[from + t];
    here[t + tile / 2] = key[from + t + tile / 2];
    for (int64_t size = first; size <= last; size *= 2)
        for (int stride = (int)(size < tile ? size : tile) / 2; stride > 0;
             stride /= 2) {
            __syncthreads();
            put_in_order(here, t, stride, size, padded, from);
        }
    __syncthreads();
    key[from + t]            = here[t];
    key[from + t + tile / 2] = here[t + tile / 2];
}

/* Strides that are larger than a tile. */
__global__ static void sort_far(int64_t n, int64_t stride, int64_t size,
                                int64_t padded, rank_t *key)
{
    CT_TURN();
    CT_KERNEL_EACH (t, n)
        put_in_order(key, t, stride, size, padded, 0);
}

static enum ct_status sort_keys(const struct ct_device *d,
                                const struct proposal *s, rank_t *key)
{
    const int64_t n     = s->n * s->padded;
    const int tile      = (int)(s->padded < TILE ? s->padded : TILE);
    const unsigned grid = (unsigned)(n / tile);

    sort_tiles<<<grid, tile / 2, 0, ct_cuda_stream(d)>>>(tile, 2, tile,
                                                         s->padded, key);
    CT_TRY(CT_CUDA_LAUNCHED(d, "sort_tiles"));
    for (int64_t size = 2 * tile; size <= s->padded; size *= 2) {
        for (int64_t stride = size / 2; stride >= tile; stride /= 2)
            CT_TRY(CT_LAUNCH(d, n / 2, sort_far, n / 2, stride, size,
                             s->padded, key));
        sort_tiles<<<grid, tile / 2, 0, ct_cuda_stream(d)>>>(
            tile, size, size, s->padded, key);
        CT_TRY(CT_CUDA_LAUNCHED(d, "sort_tiles"));
    }
    return CT_OK;
}

__device__ static inline bool meets(const struct proposal &s,
                                    const struct pixel_box &a,
                                    const struct pixel_box &b)
{
    return !(pixel_box_overlap(&a, &b) <= s.nms_thresh);
}

/* A block, an image: a chunk of candidates at a time is held against those that
 * are kept and against each other; then one thread keeps of them what it can.
 * Thread t has candidate t % CHUNK. */
__global__ static void suppress(struct proposal s, const rank_t *key,
                                const struct pixel_box *box, int32_t *kept,
                                int32_t *count)
{
    CT_TURN();
    __shared__ struct pixel_box here[CHUNK];
    __shared__ int32_t index[CHUNK];
    __shared__ rank_t out, with[CHUNK]; /* bits of candidates */
    __shared__ int n_kept;
    const int64_t boxes = s.anchors * s.h * s.w;
    const int64_t most  = s.before < boxes ? s.before : boxes;
    const int c = threadIdx.x % CHUNK, first = threadIdx.x / CHUNK;

    key += blockIdx.x * s.padded;
    box += blockIdx.x * boxes;
    kept += blockIdx.x * s.after;
    if (threadIdx.x == 0)
        n_kept = 0;
    for (int64_t at = 0; at < most && key[at] != NOTHING; at += CHUNK) {
        const bool there = at + c < most && key[at + c] != NOTHING;
        bool drop        = !there;
        rank_t mine      = 0;

        if (threadIdx.x < CHUNK) {
            index[c] = there ? (int32_t)(unsigned)key[at + c] : 0;
            here[c]  = box[index[c]];
            with[c]  = 0;
        }
        if (threadIdx.x == 0)
            out = 0;
        __syncthreads();
        for (int k = first; k < n_kept && !drop; k += BLOCK / CHUNK)
            drop = meets(s, here[c], box[kept[k]]);
        for (int k = first; k < c && !drop; k += BLOCK / CHUNK)
            if (meets(s, here[c], here[k]))
                mine |= (rank_t)1 << k;
        if (drop)
            atomicOr(&out, (rank_t)1 << c);
        if (mine)
            atomicOr(&with[c], mine);
        __syncthreads();
        if (threadIdx.x == 0) {
            rank_t alive = 0;

            for (int k = 0; k < CHUNK && n_kept < s.after; k++)
                if (!(out >> k & 1) && !(with[k] & alive)) {
                    alive |= (rank_t)1 << k;
                    kept[n_kept++] = index[k];
                }
        }
        __syncthreads();
        if (n_kept >= s.after)
            break;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        count[blockIdx.x] = n_kept;
}

/* The regions of one image, or all of it where none is kept. */
__global__ static void write_rows(int64_t n, bool whole, int64_t image,
                                  struct proposal s, const float *size,
                                  const struct pixel_box *box,
                                  const int32_t *kept, const float *scores,
                                  float *row, float *score)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n) {
        const struct pixel_box all = { 0, 0, size[1] - 1, size[0] - 1 };
        const struct pixel_box b   = whole ? all : box[kept[i]];
        float *to                  = row + i * PROPOSAL_ROW;

        to[0] = (float)image;
        to[1] = b.x1;
        to[2] = b.y1;
        to[3] = b.x2;
        to[4] = b.y2;
        if (score)
            score[i] = whole ? 0 : proposal_score(&s, scores, kept[i]);
    }
}

/* Reshapes the tops for what is kept and fills them. */
static enum ct_status write_tops(struct ct_layer *l, const struct ct_io *io)
{
    const struct proposal *s = (const struct proposal *)l->state;
    const int64_t boxes      = s->anchors * s->h * s->w;
    const float *scores = ct_data(io->bottom[PROPOSAL_SCORES]);
    const float *size   = ct_data(io->bottom[PROPOSAL_SIZES]);
    const struct pixel_box *box = (const struct pixel_box *)ct_data(s->box);
    const int32_t *kept = (const int32_t *)ct_data(s->kept);
    int64_t rows = 0, at = 0;

    for (int64_t i = 0; i < s->n; i++)
        rows += s->host_count[i] > 0 ? s->host_count[i] : 1;
    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(rows, PROPOSAL_ROW)));
    if (io->n_top > 1)
        CT_TRY(ct_reshape(io->top[1], CT_SHAPE(rows)));
    for (int64_t i = 0; i < s->n; i++) {
        const bool whole = s->host_count[i] == 0;
        const int64_t n  = whole ? 1 : s->host_count[i];

        CT_TRY(CT_LAUNCH(l->dev, n, write_rows, n, whole, i, *s,
                         size + i * s->sizes, box + i * boxes,
                         kept + i * s->after, scores + i * 2 * boxes,
                         ct_data(io->top[0]) + at * PROPOSAL_ROW,
                         io->n_top > 1 ? ct_data(io->top[1]) + at : NULL));
        at += n;
    }
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_proposal_forward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct proposal *s = (const struct proposal *)l->state;
    const struct ct_device *d = l->dev;
    const float *size     = ct_data(io->bottom[PROPOSAL_SIZES]);
    struct pixel_box *box = (struct pixel_box *)ct_data(s->box);
    rank_t *key           = (rank_t *)ct_data(s->key);
    int32_t *kept         = (int32_t *)ct_data(s->kept);
    int32_t *count        = kept + s->n * s->after;
    const int64_t n       = s->n * s->padded;

    CT_TRY(d->ops->to_host(d, (size_t)(s->n * s->sizes) * sizeof(*size), size,
                           s->host_size));
    CT_TRY(ct_proposal_check(l, s->host_size));
    CT_TRY(CT_LAUNCH(d, n, decode, n, *s,
                     (const struct pixel_box *)ct_data(s->anchor),
                     (const float *)ct_data(io->bottom[PROPOSAL_SCORES]),
                     (const float *)ct_data(io->bottom[PROPOSAL_CODES]), size,
                     box, key));
    CT_TRY(sort_keys(d, s, key));
    suppress<<<(unsigned)s->n, BLOCK, 0, ct_cuda_stream(d)>>>(*s, key, box,
                                                              kept, count);
    CT_TRY(CT_CUDA_LAUNCHED(d, "suppress"));
    CT_TRY(d->ops->to_host(d, (size_t)s->n * sizeof(*count), count,
                           s->host_count));
    return write_tops(l, io);
}
