/* ucx.h - ranks that come and go, over UCX: comm/transport/tcp.h's functions,
 * to put the two through the same trials. */
#ifndef CT_BENCH_UCX_H
#define CT_BENCH_UCX_H

#include "comm/transport/tcp.h"

/* What one view leaves to the next. */
enum ct_ucx_way {
    CT_UCX_KEEP, /* endpoints between members that stay; whoever was left
                    behind comes back with a new worker */
    CT_UCX_SAME, /* the worker; endpoints are closed by force and made anew */
    CT_UCX_NEW,  /* nothing: each view has a worker of its own */
};

struct ct_ucx;

CT_MUST_CHECK enum ct_status ct_ucx_create(enum ct_ucx_way way,
                                           struct ct_ucx **out);
void ct_ucx_destroy(struct ct_ucx *e); /* no view is open */
/* Borrowed until a view is destroyed. */
const void *ct_ucx_address(const struct ct_ucx *e, size_t *bytes);
/* Between views: others may still wait for answers to old messages. */
void ct_ucx_progress(struct ct_ucx *e);

/* Needs `over` before requests are cancelled.  `cancel` says false for a
 * message that UCX does not let go of within some seconds. */
CT_MUST_CHECK enum ct_status ct_ucx_open(struct ct_ucx *e,
                                         const struct ct_tcp_view *v,
                                         struct ct_transport **out);
/* Rank `rank` is lost; all ranks are if it is this rank's own number. */
void ct_ucx_lose(struct ct_transport *t, int rank);

#endif
