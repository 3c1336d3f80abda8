/* peers.c - commands that several ranks run together. */
#include "peers.h"

#include <stdio.h>
#include <unistd.h>

#include "comm/transport.h"

static enum ct_status joined(struct ct_dist *d,
                             enum ct_status (*run)(struct ct_dist *d,
                                                   void *arg), void *arg)
{
    if (ct_dist_rank(d) > 0 && ct_log_level() < CT_LOG_ERROR)
        ct_log_set_level(CT_LOG_ERROR);
    if (d)
        CT_INFO("Rank %d of %d on %d host(s)", ct_dist_rank(d),
                ct_dist_size(d), ct_dist_n_hosts(d));
    CT_TRY(run(d, arg));
    /* Nobody leaves while another is still at work. */
    return ct_dist_same(d, "end", 0);
}

int peers_run(const Caffe__DistributedParameter *options,
              enum ct_status (*run)(struct ct_dist *d, void *arg), void *arg)
{
    struct ct_dist *d = NULL;
    enum ct_status st = ct_dist_create(options, &d);
    int code          = EXIT_DONE;

    if (st == CT_OK)
        st = joined(d, run, arg);
    if (st != CT_OK) {
        code = command_failed(st);
        ct_dist_abort(d, code);
    }
    ct_dist_destroy(d);
    if (ct_mpi_left_open()) { /* some MPIs hang in their own end */
        fflush(NULL);
        _exit(code);
    }
    return code;
}
