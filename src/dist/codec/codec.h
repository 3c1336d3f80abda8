/* codec.h - gradients in fewer bytes: what every codec offers.
 *
 * A codec is one const struct dist_codec_type in one file, and one line in
 * codecs.def: `--compress`, `--help` and `cortado plan` follow that list.
 * There are two kinds:
 *
 *     run codecs     encode and decode a run of floats by itself, in a number
 *                    of bytes that depends on n alone; code_runs.c sums
 *                    such codes over ranks.  bf16, fp16, onebit, qsgd
 *     sum codecs     sum a bucket over ranks in their own way.  topk, powersgd
 *
 * A codec keeps what it leaves out of a gradient and adds it to the next one
 * (error feedback), so sum(sent) + residual = sum(gradients).  A value that is
 * not finite is never kept: every rank receives a value that is not finite, as
 * without a codec, and its residual becomes 0. */
#ifndef CT_DIST_CODEC_CODEC_H
#define CT_DIST_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

/* Floats that share one scale in a code; runs are divided at multiples of
 * it. */
enum { DIST_CHUNK = 512 };

struct ct_comm;
struct ct_text;
struct dist_codec_type;
struct dist_wire;

/* A parsed --compress=. */
struct dist_codec {
    const struct dist_codec_type *type; /* NULL: none */
    double  ratio;  /* topk: fraction of the values that travel */
    int64_t rank;   /* powersgd */
    /* Codecs that hold values back: iterations before the codec starts, -1 for
     * a tenth of all; the iteration at which it stops, so that nothing stays
     * held back. 0: none. */
    int64_t warmup, end;
};

/* Selects the random numbers of a run: element i uses (key, hi, at + i). */
struct dist_draw {
    uint64_t key, hi, at; /* at: a multiple of 8 */
};

struct dist_codec_type {
    const char *name;
    const char *usage; /* syntax of --compress=; NULL: just the name */
    /* Optional: parses the text after the colon; NULL: no colon. */
    enum ct_status (*parse)(const char *arg, struct dist_codec *out);
    /* Does it encode a parameter of this shape, or should that be summed as
     * floats?  A bias has one row. */
    bool (*takes)(const struct dist_codec *codec, int64_t rows, int64_t cols);

    /* Run codecs: bytes of the code of n floats, a multiple of 4. */
    size_t (*bytes)(int64_t n);
    /* With a residual: encodes x + residual and writes what is left out back to
     * residual. */
    void (*encode)(const struct dist_draw *draw, int64_t n, const float *x,
                   float *residual, void *code);
    /* y = or += the values of a code. */
    void (*decode)(int64_t n, const void *code, bool add, float *y);
    bool feedback; /* keeps a residual */

    /* Sum codecs: reserve allocates the state of a bucket, once; sum replaces
     * its coded values by their sum over ranks. */
    enum ct_status (*reserve)(struct dist_wire *w);
    enum ct_status (*sum)(struct ct_comm *c, struct dist_wire *w);
    /* Sum codecs: the exact bytes that sum() sends. */
    double (*sends)(const struct ct_comm *c, const struct dist_wire *w);
    /* Sum codecs: predicted bytes that a rank of `size` sends for a parameter
     * that is encoded, after the warm-up; `dense`: bytes without a codec.  For
     * choosing roads. */
    double (*predict)(const struct dist_codec *codec, int size, int64_t rows,
                      int64_t cols, double dense);
    /* Sum codecs that work with servers: the bytes of a slice's code in an
     * iteration, at most those of its floats; encodes w->coded; adds the values
     * of a code to `coded`. */
    size_t (*push_bytes)(const struct dist_wire *w, int64_t iter);
    void (*push)(struct dist_wire *w, int64_t iter, void *code);
    enum ct_status (*add)(const struct dist_wire *w, int64_t iter,
                          const void *code, float *coded);
    /* Run codecs: servers that add up encode their answers, too. */
    bool both_ways;
    /* Run codecs: factors may be encoded with it, in 16 bits per value.
     * Factors are multiplied, not added, so nothing may be held back. */
    bool for_factors;
    /* The codec applies momentum, and the solver does not. */
    bool momentum;
    /* Nanoseconds per float for encoding and decoding, for choosing roads. */
    double ns_per_float;
};

/* The values of --compress= as text: "none, bf16, ... or powersgd:RANK". */
void dist_codec_choices(struct ct_text *out);
/* "none" leaves out->type NULL. */
CT_MUST_CHECK enum ct_status dist_codec_parse(const char *text,
                                              struct dist_codec *out);

/* Sets warmup and end for a training that ends at max_iter: half as many
 * iterations at its end as at its start. */
void dist_codec_schedule(struct dist_codec *codec, int max_iter);
/* Does the codec pause in this iteration, so that everything is sent? */
bool dist_codec_rests(const struct dist_codec *codec, int64_t iter);
/* Parses ":WARMUP" or nothing at the end of an argument; false: neither. */
bool dist_codec_parse_warmup(const char *text, struct dist_codec *out);

/* Predicted bytes that a rank sends for a parameter, and seconds for encoding
 * it; for choosing roads.  `codec` may be none. */
double dist_codec_bytes(const struct dist_codec *codec, int size, int64_t rows,
                        int64_t cols);
double dist_codec_seconds(const struct dist_codec *codec, int size,
                          int64_t rows, int64_t cols);

static inline int64_t dist_chunks(int64_t n)
{
    return (n + DIST_CHUNK - 1) / DIST_CHUNK;
}

static inline size_t dist_round4(int64_t bytes)
{
    return (size_t)((bytes + 3) & ~(int64_t)3);
}

#endif
