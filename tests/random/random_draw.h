/* random_draw.h - nets and solvers drawn at random, from a seed.
 *
 * A drawn case is a solver with its net and its data: everything that a
 * training run needs.  The same seed gives the same case.  Layers are added
 * one by one; each time the net so far is built and run, so that shapes are
 * known and values stay in a range where float32 can be compared. */
#ifndef CT_TESTS_RANDOM_DRAW_H
#define CT_TESTS_RANDOM_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/proto.h"
#include "cortado/shape.h"

/* The plainest way that there is: see ways.c. */
extern const char *const draw_plainest;

struct drawn {
    uint64_t                seed;
    Caffe__SolverParameter *solver; /* owned; the net is its net_param */
    int                     batch;  /* samples of one pass */
    bool                    deals;  /* samples are independent, losses means:
                                       ranks can divide the batch */
    bool                    batch_norm; /* ranks can if they share statistics */
    bool                    has_test;
    bool                    python; /* has layers of drawn_layers.py */
    int                     parts; /* micro-batches of a canonical run */
    int                     canonical_ranks; /* 1 to `parts` */
    float                  *arrays[2]; /* MemoryData's; NULL: none.  Owned */
};

/* Draws a case whose data lies in `folder`, an existing one.  CT_ENOTFOUND:
 * no net came of this seed. */
CT_MUST_CHECK enum ct_status draw_case(uint64_t seed, const char *folder,
                                       struct drawn *out);
void draw_fini(struct drawn *c);
/* kinds_python.c: whether nets may have Python layers. */
bool draw_has_python(void);

/* A stream of random numbers. */
struct stream {
    uint64_t key, at;
};
int    stream_below(struct stream *s, int n);      /* 0 to n - 1 */
bool   stream_chance(struct stream *s, int percent);
double stream_between(struct stream *s, double low, double high);

/* random_data.c: the databases, files and arrays that sources read. */
struct data_shape {
    int rows, batch;
    int channels, height, width; /* of x and x2 */
    int width2;                  /* of v: rows x width2 */
    int classes;                 /* of y; t has values for each */
    int time;                    /* sequences of seq and cont side by side */
};
CT_MUST_CHECK enum ct_status data_write(uint64_t seed, const char *folder,
                                        const struct data_shape *d);
/* What a record has beside its image: AnnotatedData's objects, or its label
 * in a record of that kind. */
enum data_notes { DATA_PLAIN, DATA_OBJECTS, DATA_LABELS };
CT_MUST_CHECK enum ct_status data_write_db(uint64_t seed, const char *folder,
                                           const char *backend,
                                           const struct data_shape *d,
                                           enum data_notes notes);
CT_MUST_CHECK enum ct_status data_write_images(uint64_t seed,
                                               const char *folder,
                                               const struct data_shape *d);
/* The images, and beside each of them one of labels, as a list of pairs; or
 * windows of them, foreground and background. */
enum ct_status data_write_maps(uint64_t seed, const char *folder,
                               const struct data_shape *d);
enum ct_status data_write_windows(uint64_t seed, const char *folder,
                                  const struct data_shape *d);
CT_MUST_CHECK enum ct_status data_make_arrays(uint64_t seed,
                                              const struct data_shape *d,
                                              struct drawn *out);
/* Every net that reads arrays is told where they are, before it runs. */
struct ct_net;
CT_MUST_CHECK enum ct_status data_feed(const struct drawn *c,
                                       struct ct_net *net);

#endif
