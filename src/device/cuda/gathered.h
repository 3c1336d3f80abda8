/* gathered.h - the gradient at the end of a residual block, read as a sum over
 * channels goes (ct_channel_sum_from); for .cu files alone. */
#ifndef CT_DEVICE_CUDA_GATHERED_H
#define CT_DEVICE_CUDA_GATHERED_H

#include "device/cuda/channel_kernels.h"
#include "device/cuda/thin_map.h"
#include "device/cuda/vector.h"

/* Which y are above 0: of y itself, all of them if it is NULL. */
template <typename T>
struct by_values {
    enum { AHEAD = CT_AHEAD / 2 };
    const T *y;

    template <int K>
    using raw = ct_pack<K, T>;

    template <int K>
    __device__ raw<K> fetch(int64_t i) const
    {
        return y ? ct_load_pack<K>(y + i) : raw<K>{};
    }
    template <int K>
    __device__ bool above(int64_t, const raw<K> &r, int k) const
    {
        return !y || ct_load(r.v + k) > 0;
    }
    bool aligned() const { return ct_aligned(y); }
};

/* The same of bits that forward wrote, a byte for 16 bytes of y. */
template <typename T>
struct by_bits {
    enum { AHEAD = 3 }; /* four would not fit into registers */
    const uint8_t *bits;

    template <int K>
    using raw = unsigned;

    template <int K>
    __device__ unsigned fetch(int64_t i) const
    {
        return bits[i / CT_VECTOR(T)];
    }
    template <int K>
    __device__ bool above(int64_t i, unsigned r, int k) const
    {
        return r >> (K == 1 ? (int)(i % CT_VECTOR(T)) : k) & 1;
    }
    bool aligned() const { return true; }
};

/* e = dy + dy2 where y is above 0: read on the way, and written for those who
 * want it, rounded as they see it.  Each of the two may be NULL. */
template <typename T, typename M>
struct gathered {
    enum { AHEAD = M::AHEAD };
    typedef T type;
    const T  *dy, *dy2;
    M         mask;
    T        *e;

    template <int K>
    struct raw {
        ct_pack<K, T> dy, dy2;
        typename M::template raw<K> mask;
    };

    template <int K>
    __device__ raw<K> fetch(int64_t i) const
    {
        raw<K> r = {};

        if (dy)
            r.dy = ct_load_pack<K>(dy + i);
        if (dy2)
            r.dy2 = ct_load_pack<K>(dy2 + i);
        r.mask = mask.template fetch<K>(i);
        return r;
    }
    template <int K>
    __device__ ct_pack<K, T> take(int64_t i, const raw<K> &r) const
    {
        ct_pack<K, T> out;

#pragma unroll
        for (int k = 0; k < K; k++) {
            const float sum = ct_load(r.dy.v + k) + ct_load(r.dy2.v + k);

            ct_store(out.v + k, mask.template above<K>(i, r.mask, k) ? sum
                                                                      : 0);
        }
        ct_store_pack<K>(e + i, out);
        return out;
    }
    template <typename R>
    __device__ int64_t where(int64_t i, const R &) const
    {
        return i;
    }
    bool aligned() const
    {
        return ct_aligned(dy) && ct_aligned(dy2) && mask.aligned() &&
               ct_aligned(e);
    }
};

/* The same e of a dy and dy2 that are thin; at the positions between it is
 * 0. */
template <typename T, typename M>
struct gathered_thin {
    enum { AHEAD = M::AHEAD };
    typedef T type;
    struct gathered<T, M> all;
    struct ct_thin        at;

    template <int K>
    struct raw {
        typename gathered<T, M>::template raw<K> r;
        struct ct_thin_cell cell;
    };

    template <int K>
    __device__ raw<K> fetch(int64_t i) const
    {
        raw<K> r = {};

        r.cell = ct_thin_find(&at, i);
        if (all.dy)
            r.r.dy = ct_load_pack<K>(all.dy + i);
        if (all.dy2)
            r.r.dy2 = ct_load_pack<K>(all.dy2 + i);
        r.r.mask = all.mask.template fetch<K>(r.cell.place);
        return r;
    }
    template <int K>
    __device__ ct_pack<K, T> take(int64_t, const raw<K> &r) const
    {
        const ct_pack<K, T> zero = {};

        for (int y = 0; y < r.cell.rows; y++)
            for (int x = y == 0; x < r.cell.columns; x++)
                ct_store_pack<K>(all.e + r.cell.place +
                                     ct_thin_offset(&at, y, x),
                                 zero);
        return all.template take<K>(r.cell.place, r.r);
    }
    template <typename R>
    __device__ int64_t where(int64_t, const R &r) const
    {
        return r.cell.place;
    }
    bool aligned() const { return all.aligned(); }
};

#endif
