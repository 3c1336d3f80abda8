/* multi_box_loss.cu - MultiBoxLoss on a GPU; formulas as in multi_box_loss.c,
 * choices as in multi_box_match.c and multi_box_mine.c.
 *
 *     gather   rows of truths to lists, one an image       one block
 *     match    priors with truths                          a block an image
 *     score    labels, and losses that mining compares     a thread a prior
 *     mine     which priors count                          a block an image
 *     total    sums of both losses, then the loss
 *
 * Nothing comes to the host, and sums have a fixed order.  A truth out of
 * range cannot be refused as on the CPU: the loss becomes NaN. */
#include "layers/cuda/loss_kernels.h"
#include "layers/multi_box_loss.h"

/* A pair of a truth and a prior, see pair_key(). */
typedef unsigned long long pair_t;

enum { BLOCK = 1024, CHUNK = 1024, NEAR = 64 };

#define LEAST_OVERLAP 1e-6f
#define MINING(name) CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__##name

/* Everything, as kernels see it.  Behind the bottoms: the layer's scratch. */
struct boxes {
    struct ct_multibox p;
    int          images, priors, rows;
    const float *loc, *conf, *prior, *truth;
    double      *part;    /* 2 an image: locations, confidences */
    pair_t       *best;    /* of a truth: see pair_key() */
    int         *n_match; /* an image */
    int         *first;   /* of an image in list; one more */
    int         *list;    /* rows, image by image */
    float       *z;       /* the normaliser */
    int         *bad;     /* a truth is out of range */
    int         *match, *label; /* a prior: a place in its image's list */
    float       *score;   /* of a prior: overlap, then what mining compares */
};

/* Higher overlaps are higher keys, and of equal ones lower priors. */
__device__ static inline pair_t pair_key(float overlap, int prior)
{
    return (pair_t)__float_as_uint(overlap) << 32 | (0xffffffffu -
                                                    (unsigned)prior);
}

__device__ static inline int key_prior(pair_t k)
{
    return (int)(0xffffffffu - (unsigned)k);
}

__device__ static inline struct ct_bbox box_at(const float *x)
{
    return { x[0], x[1], x[2], x[3] };
}

__device__ static inline struct ct_bbox truth_box(const struct boxes &b,
                                                  int i, int g)
{
    return box_at(b.truth + (int64_t)b.list[b.first[i] + g] * CT_TRUTH_ROW +
                  CT_TRUTH_BOX);
}

__device__ static inline int truth_label(const struct boxes &b, int i, int g)
{
    return b.p.agnostic
               ? b.p.background + 1
               : (int)b.truth[(int64_t)b.list[b.first[i] + g] * CT_TRUTH_ROW +
                              CT_TRUTH_LABEL];
}

/* The image of a row; -1: it does not count; -2: it is out of range. */
__device__ static int image_of(const struct boxes &b, const float *row)
{
    const float item = row[CT_TRUTH_ITEM], label = row[CT_TRUTH_LABEL];

    if (!(item >= 0))
        return -1;
    if (!(item < (float)b.images) || !(label >= 0) ||
        label == (float)b.p.background ||
        (!b.p.agnostic && !(label < (float)b.p.classes)))
        return -2;
    return b.p.difficult || row[CT_TRUTH_DIFFICULT] == 0 ? (int)item : -1;
}

/* One block.  Twice over all rows, a chunk of them at a time: a thread counts
 * the rows of its image, then puts them down in their order. */
__global__ static void gather(struct boxes b)
{
    CT_TURN();
    __shared__ int image[CHUNK];

    if (threadIdx.x == 0) {
        *b.bad     = 0;
        b.first[0] = 0;
    }
    for (int i = threadIdx.x; i < b.images; i += blockDim.x)
        b.first[i + 1] = 0;
    for (int round = 0; round < 2; round++) {
        for (int at = 0; at < b.rows; at += CHUNK) {
            const int n = b.rows - at < CHUNK ? b.rows - at : CHUNK;

            __syncthreads();
            for (int k = threadIdx.x; k < n; k += blockDim.x) {
                image[k] = image_of(b, b.truth + (int64_t)(at + k) *
                                                     CT_TRUTH_ROW);
                if (image[k] == -2)
                    *b.bad = 1;
            }
            __syncthreads();
            for (int i = threadIdx.x; i < b.images; i += blockDim.x)
                for (int k = 0; k < n; k++)
                    if (image[k] == i && round == 0)
                        b.first[i + 1]++;
                    else if (image[k] == i)
                        b.list[b.first[i + 1]++] = at + k;
        }
        __syncthreads();
        /* Counts become places: first[i + 1] is where image i begins, and
         * where it ends once its rows are down. */
        if (round == 0 && threadIdx.x == 0)
            for (int i = 0, sum = 0; i < b.images; i++) {
                const int n = b.first[i + 1];

                b.first[i + 1] = sum;
                sum += n;
            }
        __syncthreads();
    }
}

__device__ static inline bool is_outside(struct ct_bbox x)
{
    return x.xmin < 0 || x.xmin > 1 || x.ymin < 0 || x.ymin > 1 ||
           x.xmax < 0 || x.xmax > 1 || x.ymax < 0 || x.ymax > 1;
}

/* A block: the free prior that overlaps truth g, whose box is t, most; 0:
 * none. */
__device__ static pair_t best_prior(const struct boxes &b, int i,
                                    struct ct_bbox t)
{
    const int *match       = b.match + (int64_t)i * b.priors;
    pair_t best             = 0;

    for (int p = threadIdx.x; p < b.priors; p += blockDim.x) {
        float o;

        if (match[p] != CT_BOX_NONE)
            continue;
        o = ct_bbox_overlap(box_at(b.prior + 4 * p), t);
        if (o > LEAST_OVERLAP && pair_key(o, p) > best)
            best = pair_key(o, p);
    }
    return ct_block_max(best);
}

/* A block: every truth of image i gets its prior, the best pair first. */
__device__ static void bipartite(const struct boxes &b, int i, int n)
{
    __shared__ int winner;
    pair_t *best = b.best + b.first[i];
    int *match  = b.match + (int64_t)i * b.priors;

    for (int g = 0; g < n; g++) {
        const pair_t k = best_prior(b, i, truth_box(b, i, g));

        if (threadIdx.x == 0)
            best[g] = k;
    }
    for (int left = n; left > 0; left--) {
        pair_t top = 0;

        __syncthreads();
        if (threadIdx.x == 0)
            winner = n;
        for (int g = threadIdx.x; g < n; g += blockDim.x)
            top = best[g] > top ? best[g] : top;
        top = ct_block_max(top);
        if (top == 0)
            return;
        __syncthreads();
        for (int g = threadIdx.x; g < n; g += blockDim.x)
            if (best[g] == top)
                atomicMin(&winner, g);
        __syncthreads();
        if (threadIdx.x == 0) {
            match[key_prior(top)] = winner;
            best[winner]          = 0;
        }
        __syncthreads();
        for (int g = 0; g < n; g++) {
            pair_t k;

            if (best[g] == 0 || key_prior(best[g]) != key_prior(top))
                continue;
            k = best_prior(b, i, truth_box(b, i, g));
            if (threadIdx.x == 0)
                best[g] = k;
            __syncthreads();
        }
    }
}

/* A block an image; the first boxes of its truths are at hand. */
__global__ static void __launch_bounds__(BLOCK) match_priors(struct boxes b)
{
    CT_TURN();
    __shared__ struct ct_bbox box[NEAR];
    const int i  = blockIdx.x;
    const int n  = b.first[i + 1] - b.first[i];
    int *match   = b.match + (int64_t)i * b.priors;
    int *near    = b.label + (int64_t)i * b.priors;
    float *score = b.score + (int64_t)i * b.priors;
    int matched  = 0;

    for (int g = threadIdx.x; g < n && g < NEAR; g += blockDim.x)
        box[g] = truth_box(b, i, g);
    __syncthreads();
    for (int p = threadIdx.x; p < b.priors; p += blockDim.x) {
        const struct ct_bbox x = box_at(b.prior + 4 * p);

        const bool out = b.p.inside_only && is_outside(x);
        float most     = 0;
        int nearest    = -1;

        for (int g = 0; g < n && !out; g++) {
            const float o = ct_bbox_overlap(x, g < NEAR ? box[g]
                                                        : truth_box(b, i, g));

            nearest = o > LEAST_OVERLAP && o > most ? g : nearest;
            most    = nearest == g ? o : most;
        }
        match[p] = out ? CT_BOX_OUTSIDE : CT_BOX_NONE;
        score[p] = most;
        near[p]  = nearest;
    }
    __syncthreads();
    bipartite(b, i, n);
    __syncthreads();
    for (int p = threadIdx.x; p < b.priors; p += blockDim.x) {
        if (!b.p.bipartite && match[p] == CT_BOX_NONE && near[p] >= 0 &&
            score[p] >= b.p.threshold)
            match[p] = near[p];
        matched += match[p] >= 0;
    }
    matched = ct_block_sum(matched);
    if (threadIdx.x == 0)
        b.n_match[i] = matched;
}

/* d of a matched prior's location. */
__device__ static void off(const struct boxes &b, int64_t at, float *d)
{
    const int i = (int)(at / b.priors), p = (int)(at % b.priors);
    const float *prior = b.prior + 4 * p;

    ct_multibox_off(&b.p, prior, prior + 4 * (int64_t)b.priors,
                    truth_box(b, i, b.match[at]), b.loc + 4 * at, prior, d);
}

/* What mining may not choose is below every loss. */
#define NEVER (-1.0f)

__global__ static void score_priors(struct boxes b, int64_t n)
{
    CT_TURN();
    CT_KERNEL_EACH (at, n) {
        const int i     = (int)(at / b.priors);
        const int match = b.match[at];
        const bool hard = b.p.mining == MINING(HARD_EXAMPLE);
        const bool can  = hard || (match == CT_BOX_NONE &&
                                  b.score[at] < b.p.neg_overlap);
        const int label = match >= 0 ? truth_label(b, i, match)
                                     : b.p.background;
        float score     = NEVER, d[4];

        /* Without truths an image counts only where everything does. */
        b.label[at] = b.p.mining != MINING(NONE) &&
                              b.first[i + 1] == b.first[i]
                          ? CT_BOX_NO_LABEL : label;
        if (b.p.mining != MINING(NONE) && can) {
            score = ct_multibox_conf_loss(b.p.logistic, b.p.classes,
                                          b.conf + at * b.p.classes, label);
            if (hard && match >= 0) {
                off(b, at, d);
                score += ct_multibox_loc_loss(b.p.smooth, d);
            }
            score = score < 0 ? 0 : score;
        }
        b.score[at] = score;
    }
}

/* Counts the digits of those threads of a warp that take part: once for each
 * that differs, because many are the same. */
__device__ static void count_digits(bool takes_part, int digit, int *count)
{
    const int lane = threadIdx.x % 32;
    unsigned left  = __ballot_sync(~0u, takes_part);

    while (left) {
        const int first     = __ffs((int)left) - 1;
        const int of        = __shfl_sync(~0u, digit, first);
        const unsigned same = __ballot_sync(~0u, takes_part && digit == of);

        if (lane == first)
            atomicAdd(&count[of], __popc(same));
        left &= ~same;
    }
}

/* The first warp: the digit at which counts, from the highest digit down, add
 * up to k, which is 1 at least; *rest is what k lacks before it. */
__device__ static void choose_digit(const int *count, int k, unsigned *digit,
                                    int *rest)
{
    enum { EACH = 256 / 32 };
    const int lane = threadIdx.x;
    int mine = 0, up_to;

    for (int j = 0; j < EACH; j++)
        mine += count[255 - EACH * lane - j];
    up_to = mine;
    for (int o = 1; o < 32; o *= 2) {
        const int before = __shfl_up_sync(~0u, up_to, o);

        up_to += lane >= o ? before : 0;
    }
    if (up_to < k || up_to - mine >= k)
        return;
    k -= up_to - mine;
    for (int d = 255 - EACH * lane;; d--) {
        if (count[d] >= k) {
            *digit = (unsigned)d;
            *rest  = k;
            return;
        }
        k -= count[d];
    }
}

/* A block: the least score, as bits, of the k highest of `score`, and how many
 * of those equal to it are among them; digit by digit from the highest. */
__device__ static unsigned least_of(const float *score, int n, int k,
                                    int *equal)
{
    __shared__ int count[256];
    __shared__ unsigned digit;
    __shared__ int rest;
    unsigned least = 0;

    *equal = k;
    for (int shift = 24; k > 0 && shift >= 0; shift -= 8) {
        __syncthreads();
        for (int c = threadIdx.x; c < 256; c += blockDim.x)
            count[c] = 0;
        __syncthreads();
        for (int at = 0; at < n; at += blockDim.x) {
            const int p      = at + (int)threadIdx.x;
            const float s    = p < n ? score[p] : NEVER;
            const unsigned r = __float_as_uint(s);
            const bool fits  = shift == 24 ||
                              r >> (shift + 8) == least >> (shift + 8);

            count_digits(s != NEVER && fits, (int)(r >> shift & 255), count);
        }
        __syncthreads();
        if (threadIdx.x < 32)
            choose_digit(count, *equal, &digit, &rest);
        __syncthreads();
        least |= digit << shift;
        *equal = rest;
    }
    return least;
}

/* A block: prior p's number among those for which `is` is true, in order; all
 * threads call it, `seen` counts those of earlier calls. */
__device__ static int place_of(bool is, int *seen)
{
    __shared__ int warp_sum[32];
    const unsigned mask = __ballot_sync(~0u, is);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int before = __popc(mask & ((1u << lane) - 1)), all = 0;

    __syncthreads();
    if (lane == 0)
        warp_sum[warp] = __popc(mask);
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++) {
        before += w < warp ? warp_sum[w] : 0;
        all += warp_sum[w];
    }
    before += *seen;
    *seen += all;
    return before;
}

/* A block an image: the label of what does not count goes. */
__global__ static void __launch_bounds__(BLOCK) mine(struct boxes b)
{
    CT_TURN();
    const int i     = blockIdx.x;
    const bool hard = b.p.mining == MINING(HARD_EXAMPLE);
    const float *score = b.score + (int64_t)i * b.priors;
    int *match = b.match + (int64_t)i * b.priors;
    int *label = b.label + (int64_t)i * b.priors;
    int can = 0, equal, seen = 0, matched = 0;
    int64_t most;
    unsigned least;

    if (b.first[i + 1] == b.first[i])
        return;
    for (int p = threadIdx.x; p < b.priors; p += blockDim.x)
        can += score[p] != NEVER;
    can   = ct_block_sum(can);
    most  = hard ? b.p.sample_size
                 : (int64_t)((float)b.n_match[i] * b.p.neg_ratio);
    most  = most < can ? most : can;
    least = least_of(score, b.priors, (int)most, &equal);
    for (int at = 0; at < b.priors; at += blockDim.x) {
        const int p       = at + (int)threadIdx.x;
        const bool there  = p < b.priors && score[p] != NEVER;
        const unsigned r  = there ? __float_as_uint(score[p]) : 0;
        const bool is     = there && r == least;
        const int place   = place_of(is, &seen);
        const bool chosen = most > 0 && there &&
                            (r > least || (is && place < equal));

        if (p >= b.priors)
            continue;
        if (match[p] == CT_BOX_OUTSIDE || (!chosen && (hard || match[p] < 0)))
            label[p] = CT_BOX_NO_LABEL;
        if (hard && match[p] >= 0 && !chosen)
            match[p] = CT_BOX_NONE;
        matched += match[p] >= 0;
    }
    matched = ct_block_sum(matched);
    if (threadIdx.x == 0)
        b.n_match[i] = matched;
}

/* A block an image: its two sums. */
__global__ static void __launch_bounds__(BLOCK) sum_images(struct boxes b)
{
    CT_TURN();
    const int64_t first = (int64_t)blockIdx.x * b.priors;
    double loc = 0, conf = 0;

    for (int p = threadIdx.x; p < b.priors; p += blockDim.x) {
        const int64_t at = first + p;
        float d[4];

        if (b.match[at] >= 0) {
            off(b, at, d);
            loc += (double)ct_multibox_loc_loss(b.p.smooth, d);
        }
        if (b.label[at] >= 0)
            conf += (double)ct_multibox_conf_loss(b.p.logistic, b.p.classes,
                                                  b.conf + at * b.p.classes,
                                                  b.label[at]);
    }
    loc  = ct_block_sum(loc);
    conf = ct_block_sum(conf);
    if (threadIdx.x == 0) {
        b.part[2 * blockIdx.x]     = loc;
        b.part[2 * blockIdx.x + 1] = conf;
    }
}

/* fixed as in loss.h. */
__global__ static void __launch_bounds__(BLOCK) total(struct boxes b,
                                                      double fixed,
                                                      float *loss)
{
    CT_TURN();
    double sum = 0, n = 0;

    for (int i = threadIdx.x; i < b.images; i += blockDim.x) {
        sum += b.p.count_loc ? (double)b.p.loc_weight * b.part[2 * i] : 0;
        sum += b.p.count_conf ? b.part[2 * i + 1] : 0;
        n += b.n_match[i];
    }
    sum = ct_block_sum(sum);
    n   = ct_block_sum(n);
    if (threadIdx.x > 0)
        return;
    n     = fixed > 0 ? fixed : n > 1 ? n : 1;
    *b.z  = (float)n;
    *loss = *b.bad ? NAN : (float)(sum / n);
}

static struct boxes boxes_of(const struct multi_box_loss *m,
                             const struct ct_io *io)
{
    float *at      = ct_data(m->state);
    const int64_t each = m->n * m->priors;
    struct boxes b = {};

    b.p       = m->p;
    b.images  = (int)m->n;
    b.priors  = (int)m->priors;
    b.rows    = (int)m->rows;
    b.loc     = ct_data(io->bottom[0]);
    b.conf    = ct_data(io->bottom[1]);
    b.prior   = ct_data(io->bottom[2]);
    b.truth   = ct_data(io->bottom[3]);
    b.part    = (double *)at;
    b.best    = (pair_t *)(at + 4 * m->n);
    b.n_match = (int *)(at + 4 * m->n + 2 * m->rows);
    b.first   = b.n_match + m->n;
    b.list    = b.first + m->n + 1;
    b.bad     = b.list + m->rows;
    b.z       = (float *)(b.bad + 1);
    b.match   = b.bad + 2;
    b.label   = b.match + each;
    b.score   = (float *)(b.label + each);
    return b;
}

extern "C" enum ct_status ct_cuda_multi_box_loss_forward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct multi_box_loss *m = (const struct multi_box_loss *)l->state;
    const struct boxes b = boxes_of(m, io);
    cudaStream_t stream  = ct_cuda_stream(l->dev);

    gather<<<1, CHUNK, 0, stream>>>(b);
    CT_TRY(CT_CUDA_LAUNCHED(l->dev, "gather"));
    match_priors<<<(unsigned)m->n, BLOCK, 0, stream>>>(b);
    CT_TRY(CT_CUDA_LAUNCHED(l->dev, "match_priors"));
    CT_TRY(CT_LAUNCH(l->dev, m->n * m->priors, score_priors, b,
                     m->n * m->priors));
    if (m->p.mining != MINING(NONE)) {
        mine<<<(unsigned)m->n, BLOCK, 0, stream>>>(b);
        CT_TRY(CT_CUDA_LAUNCHED(l->dev, "mine"));
    }
    sum_images<<<(unsigned)m->n, BLOCK, 0, stream>>>(b);
    CT_TRY(CT_CUDA_LAUNCHED(l->dev, "sum_images"));
    total<<<1, BLOCK, 0, stream>>>(b, ct_loss_fixed(&m->loss, m->n, m->priors),
                                   ct_data(io->top[0]));
    return CT_CUDA_LAUNCHED(l->dev, "total");
}

__global__ static void loc_grad(struct boxes b, int64_t n, const float *weight,
                                float *out)
{
    CT_TURN();
    const float scale = *weight / *b.z * b.p.loc_weight;

    CT_KERNEL_EACH (at, n) {
        const float *variance = b.prior + 4 * (b.priors + at % b.priors);
        float d[4] = { 0, 0, 0, 0 };

        if (b.match[at] >= 0)
            off(b, at, d);
        for (int k = 0; k < 4; k++) {
            if (b.p.smooth)
                d[k] = d[k] > 1 ? 1 : d[k] < -1 ? -1 : d[k];
            d[k] *= scale / (b.p.scaled ? variance[k] : 1);
        }
        for (int k = 0; k < 4; k++)
            out[4 * at + k] = d[k];
    }
}

/* `out` is all zeros: few priors count. */
__global__ static void conf_grad(struct boxes b, int64_t n,
                                 const float *weight, float *out)
{
    CT_TURN();
    const float scale = *weight / *b.z;
    const int classes = b.p.classes;

    CT_KERNEL_EACH (at, n) {
        const float *x = b.conf + at * classes;
        float *y = out + at * classes, top = x[0], sum = 0;

        if (b.label[at] < 0)
            continue;
        for (int c = 1; c < classes; c++)
            top = x[c] > top ? x[c] : top;
        for (int c = 0; c < classes && !b.p.logistic; c++)
            sum += expf(x[c] - top);
        for (int c = 0; c < classes; c++)
            y[c] = scale * (b.p.logistic ? 1 / (1 + expf(-x[c]))
                                         : expf(x[c] - top) / sum) -
                   (c == b.label[at] ? scale : 0);
    }
}

extern "C" enum ct_status ct_cuda_multi_box_loss_backward(
    struct ct_layer *l, const struct ct_io *io)
{
    const struct multi_box_loss *m = (const struct multi_box_loss *)l->state;
    const struct boxes b  = boxes_of(m, io);
    const int64_t n       = m->n * m->priors;
    const float *weight   = ct_diff(io->top[0]);

    if (io->want_grad[0])
        CT_TRY(CT_LAUNCH(l->dev, n, loc_grad, b, n, weight,
                         ct_diff(io->bottom[0])));
    if (!io->want_grad[1])
        return CT_OK;
    CT_TRY(ct_fill(l->dev, io->bottom[1]->count, 0, ct_diff(io->bottom[1])));
    return CT_LAUNCH(l->dev, n, conf_grad, b, n, weight,
                     ct_diff(io->bottom[1]));
}
