/* ends.c - a transport for each rank of a test, in this process. */
#include "testing/ends.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/transport/tcp.h"

enum { MOST = 32 };

/* The table of one end: destroy ends the process's side of it, too. */
struct own_ops {
    struct ct_transport_ops ops; /* first: what a transport points to */
    void (*destroy)(struct ct_transport *t);
    struct ct_tcp *end;
};

bool test_ends_are_sockets(void)
{
    const char *name = getenv("CORTADO_TEST_TRANSPORT");

    return name && strcmp(name, "tcp") == 0;
}

static void destroy(struct ct_transport *t)
{
    struct own_ops *own = (struct own_ops *)(uintptr_t)t->ops;

    own->destroy(t);
    ct_tcp_destroy(own->end);
    ct_free(own);
}

static enum ct_status open_end(struct ct_tcp *end,
                               const struct ct_tcp_view *view,
                               struct ct_transport **out)
{
    struct own_ops *own;

    CT_TRY(ct_tcp_open(end, view, out));
    CT_TRY(ct_alloc(1, sizeof(*own), "test end", &own));
    own->ops         = *(*out)->ops;
    own->destroy     = own->ops.destroy;
    own->ops.destroy = destroy;
    own->end         = end;
    (*out)->ops      = &own->ops;
    (*out)->threads  = true;
    return CT_OK;
}

enum ct_status test_ends(int size, const struct ct_loopback_options *options,
                         struct ct_transport **out)
{
    struct ct_tcp *end[MOST];
    const void *address[MOST];
    size_t bytes[MOST];
    struct ct_tcp_view view = { .number = 1, .size = size,
                                .address = address, .address_bytes = bytes,
                                .host = options ? options->host : NULL };

    if (!test_ends_are_sockets())
        return ct_loopback_create(size, options, out);
    if (size > MOST)
        return ct_fail(CT_EINVAL, "%d ranks", size);
    for (int r = 0; r < size; r++) {
        CT_TRY(ct_tcp_create(&end[r]));
        address[r] = ct_tcp_address(end[r], &bytes[r]);
    }
    for (view.rank = 0; view.rank < size; view.rank++)
        CT_TRY(open_end(end[view.rank], &view, &out[view.rank]));
    return CT_OK;
}
