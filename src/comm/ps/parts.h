/* parts.h - functions that both sides of a parameter server use. */
#ifndef CT_COMM_PS_PARTS_H
#define CT_COMM_PS_PARTS_H

#include "comm/ps/ps.h"

enum { PS_DEPTH = 4 }; /* messages in flight on a channel */

/* The slices of one server, in order; the caller ct_free's *out. */
CT_MUST_CHECK enum ct_status ps_slices_of(const struct ct_ps_table *t,
                                          int server, int **out);
/* Fails if this is not the expected message. */
CT_MUST_CHECK enum ct_status ps_check(const struct ct_ps_head *h, int from,
                                      uint64_t seq, int slice);

/* A single server with more than four workers sends sums down a binary tree, so
 * that its link carries each sum twice and not once per worker:
 *
 *     place 0: the server; places 1, 2, ...: the workers in other processes;
 *     place i forwards to places 2i + 1 and 2i + 2                          */
enum { PS_FEW_WORKERS = 4, PS_FAN = 2 };
bool ps_spreads(const struct ct_ps_config *c);
int ps_place(const struct ct_ps_config *c, int worker);
/* The rank at a place; -1: none. */
int ps_rank_at(const struct ct_ps_config *c, int place);

/* Sizes of messages, including heads. */
size_t ps_push_bytes(const struct ct_ps_config *c, int slice, int64_t turn);
size_t ps_answer_bytes(const struct ct_ps_config *c, int slice);

CT_MUST_CHECK enum ct_status ps_server_create(struct ct_ps *p);
void ps_server_destroy(struct ct_ps *p);
CT_MUST_CHECK enum ct_status ps_server_progress(struct ct_ps *p);
/* Takes a push of the worker in this process; *out false: no room yet. */
CT_MUST_CHECK enum ct_status ps_server_push(struct ct_ps *p,
                                            const void *message, bool *out);
void ps_server_pull(struct ct_ps *p, const struct ct_ps_pull *pull);

CT_MUST_CHECK enum ct_status ps_client_create(struct ct_ps *p);
void ps_client_destroy(struct ct_ps *p);
void ps_client_reset(struct ct_ps *p, const float *x, int64_t clock);
/* Takes an answer of the server in this process. */
void ps_client_answer(struct ct_ps *p, const void *message);

#endif
