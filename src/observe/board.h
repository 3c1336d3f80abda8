/* board.h - what the live page shows: run folders, served as files.
 *
 * The page, its script and a few files of each run folder can be had, by name;
 * there is no way to ask for another.  Beyond loopback every answer about a
 * run takes the token; changing a run takes it always.
 *
 *     GET  /                     the page; and /app.js, /style.css, ...
 *     GET  /api/runs             all runs, with what their run.json says
 *     GET  /api/runs/3/FILE      a file of the run; of those that grow, whole
 *                                lines: ?from=N from byte N on, ?thin=N about
 *                                N lines of all, 1: the last; X-Next is where
 *                                to go on
 *     POST /api/runs/3/ACTION    snapshot, trace, stop: of the run that serves
 *     GET  /metrics              for Prometheus                            */
#ifndef CT_OBSERVE_BOARD_H
#define CT_OBSERVE_BOARD_H

#include "observe/http.h"

struct ct_board;

struct ct_board_options {
    const char        *address;  /* as for ct_http_create() */
    const char *const *folder;   /* run folders, or folders of such */
    int                n_folders;
    /* What a button asks for, "snapshot", "trace" or "stop", on the server's
     * thread; NULL: the page has no buttons. */
    bool (*act)(const char *action, void *arg);
    void *arg;
};

CT_MUST_CHECK enum ct_status ct_board_create(const struct ct_board_options *o,
                                             struct ct_board **out);
void ct_board_destroy(struct ct_board *b); /* takes NULL */

/* The address to open, with the token behind a '#'. */
const char *ct_board_url(const struct ct_board *b);
bool ct_board_is_loopback(const struct ct_board *b);

/* When a page is open, waits a moment until it has seen how the run ended.
 * Takes NULL. */
void ct_board_linger(const struct ct_board *b);

/* An answer to a request, as the server's thread gives it; for tests. */
void ct_board_answer(const struct ct_http_request *r,
                     struct ct_http_answer *out, void *board);

#endif
