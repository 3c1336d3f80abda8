/* check.h - everything that is asked of one drawn net. */
#ifndef CT_TESTS_RANDOM_CHECK_H
#define CT_TESTS_RANDOM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct check_options {
    int         n_ways; /* beside the defaults; drawn by the net's seed */
    const char *only;   /* the one way to try; NULL: all */
    const char *type;   /* nets with a layer of this type alone; NULL: all */
    bool        gpu;    /* ways of the GPU too */
    bool        print;  /* every net */
    bool        keep;   /* the folders of nets that fail */
    double      shrink_seconds; /* 0: 30 */
};

enum check_outcome {
    CHECK_PASSED,
    CHECK_FAILED,     /* printed */
    CHECK_PASSED_OVER, /* rounding leads it astray, or no net came of it */
    CHECK_NOT_ASKED
};

enum check_outcome check_net(const struct check_options *o, uint64_t seed);

#endif
