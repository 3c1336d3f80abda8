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
 * What a codec leaves out of a gradient it keeps and adds to the next one
 * (error feedback), so that over time sum(sent) + residual = sum(gradients).
 * A value that is not finite is never kept: it reaches every rank as one that
 * is not finite, as it does without a codec, and its residual becomes 0. */
#ifndef CT_DIST_CODEC_CODEC_H
#define CT_DIST_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

/* Codes with one scale for so many floats; runs are cut at multiples of it. */
enum { DIST_CHUNK = 512 };

struct ct_comm;
struct ct_text;
struct dist_codec_type;
struct dist_wire;

/* What --compress= says. */
struct dist_codec {
    const struct dist_codec_type *type; /* NULL: none */
    double  ratio;  /* topk: of the values that travel */
    int64_t rank;   /* powersgd */
    /* Codecs that hold values back: iterations before they act, -1 for a tenth
     * of all; and the one from which on they leave nothing out any more, so
     * that noise settles and nothing stays behind.  0: none. */
    int64_t warmup, end;
};

/* Names the random numbers of a run: element i draws by (key, hi, at + i). */
struct dist_draw {
    uint64_t key, hi, at; /* at: a multiple of 8 */
};

struct dist_codec_type {
    const char *name;
    const char *usage; /* how --compress= is written; NULL: just the name */
    /* Optional: reads what stands behind the colon; NULL when nothing does. */
    enum ct_status (*parse)(const char *arg, struct dist_codec *out);
    /* Does it take a parameter of so many rows and columns, or is that one
     * better summed as it is?  A bias has one row. */
    bool (*takes)(const struct dist_codec *codec, int64_t rows, int64_t cols);

    /* Run codecs: bytes of n floats, a multiple of 4. */
    size_t (*bytes)(int64_t n);
    /* With a residual: codes x + residual, which becomes what is left. */
    void (*encode)(const struct dist_draw *draw, int64_t n, const float *x,
                   float *residual, void *code);
    /* y = or += the values of a code. */
    void (*decode)(int64_t n, const void *code, bool add, float *y);
    bool feedback; /* keeps a residual */

    /* Sum codecs: reserve gives a bucket what it needs, once; sum turns its
     * coded values into their sum; sends is what that sends, to the byte. */
    enum ct_status (*reserve)(struct dist_wire *w);
    enum ct_status (*sum)(struct ct_comm *c, struct dist_wire *w);
    double (*sends)(const struct ct_comm *c, const struct dist_wire *w);
    /* Sum codecs: what a rank of `size` sends for a parameter that it takes,
     * after the warm-up; `dense` is what it sends without a codec.  For
     * choices. */
    double (*predict)(const struct dist_codec *codec, int size, int64_t rows,
                      int64_t cols, double dense);
    /* Sum codecs that servers can add up: the bytes of a slice's code in an
     * iteration, no more than the floats have; w->coded becomes a code; coded
     * += a code. */
    size_t (*push_bytes)(const struct dist_wire *w, int64_t iter);
    void (*push)(struct dist_wire *w, int64_t iter, void *code);
    enum ct_status (*add)(const struct dist_wire *w, int64_t iter,
                          const void *code, float *coded);
    /* Run codecs: servers that add up answer in the same form. */
    bool both_ways;
    /* Run codecs: factors may travel in its codes, 16 bits a value.  They are
     * multiplied, not added, so nothing may be held back of them. */
    bool for_factors;
    /* Accumulates momentum itself, so that the solver does not. */
    bool momentum;
    /* Nanoseconds a float that coding and decoding take, for choices. */
    double ns_per_float;
};

/* What --compress= takes, as text: "none, bf16, ... or powersgd:RANK". */
void dist_codec_choices(struct ct_text *out);
/* "none" leaves out->type NULL. */
CT_MUST_CHECK enum ct_status dist_codec_parse(const char *text,
                                              struct dist_codec *out);

/* Sets warmup and end for a training that ends at max_iter: half as many
 * iterations at its end as at its start. */
void dist_codec_schedule(struct dist_codec *codec, int max_iter);
/* Is everything sent in this iteration? */
bool dist_codec_rests(const struct dist_codec *codec, int64_t iter);
/* ":WARMUP" or nothing, at the end of an argument; false: neither. */
bool dist_codec_parse_warmup(const char *text, struct dist_codec *out);

/* What a rank sends for a parameter in one run, and the seconds that coding
 * them takes; for choosing roads.  `codec` may be none. */
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
