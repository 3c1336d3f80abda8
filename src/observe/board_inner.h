/* board_inner.h - inside a board. */
#ifndef CT_OBSERVE_BOARD_INNER_H
#define CT_OBSERVE_BOARD_INNER_H

#include <stdatomic.h>

#include "observe/board.h"

enum { BOARD_MOST_RUNS = 256, BOARD_TOKEN = 32 };

/* The latest lines of a run's series.jsonl, as text, and where it goes on. */
struct board_latest {
    long   next;
    char  *iteration, *norms; /* owned; NULL: none */
    char **test;              /* per test net; owned */
    int    n_tests;
};

struct ct_board {
    struct ct_board_options options;
    char          **folder; /* as given; owned */
    char           *run[BOARD_MOST_RUNS]; /* run folders; owned */
    int             n_runs;
    struct board_latest latest[BOARD_MOST_RUNS]; /* per run */
    char            token[BOARD_TOKEN + 1];
    atomic_bool     open;   /* loopback: reading takes no token */
    struct ct_http *http;
    char            url[400];
};

/* A file of the page, by its path; NULL: there is none. */
struct board_asset {
    const char          *path, *type;
    const unsigned char *data;
    size_t               n_bytes;
};
const struct board_asset *board_asset_find(const char *path);

/* board_files.c: looks for run folders that are new. */
void board_find_runs(struct ct_board *b);
/* What a run is called: the last part of its path, or all of it where another
 * run has the same. */
const char *board_run_name(const struct ct_board *b, int run);
/* A list of all runs, as JSON. */
void board_list(struct ct_board *b, struct ct_text *out);
/* One file of a run, empty or null where it is not written yet; false: no run
 * has such a file. */
bool board_file(const struct ct_board *b, int run, const char *name,
                const struct ct_http_request *r, struct ct_http_answer *out);

/* board_latest.c: reads on in a run's series; and forgets it. */
void board_latest_read(struct ct_board *b, int run);
void board_latest_fini(struct board_latest *l);

/* metrics.c */
void board_metrics(struct ct_board *b, struct ct_text *out);

#endif
