/* alone.c - the transport of a run without a launcher: one rank, no peers. */
#include "base/mem.h"
#include "comm/transport/transports.h"

static enum ct_status alone_send(struct ct_transport *t, int to, int tag,
                                 const void *data, size_t bytes,
                                 struct ct_request *out)
{
    (void)t, (void)tag, (void)data, (void)bytes, (void)out;
    return ct_fail(CT_EINVAL, "there is no rank %d: this one is alone", to);
}

static enum ct_status alone_receive(struct ct_transport *t, int from, int tag,
                                    void *data, size_t bytes,
                                    struct ct_request *out)
{
    return alone_send(t, from, tag, data, bytes, out);
}

static enum ct_status alone_test(struct ct_transport *t, struct ct_request *r,
                                 bool *done)
{
    (void)t, (void)r, (void)done;
    return ct_fail(CT_EINTERNAL, "a request of a rank that is alone");
}

static bool alone_cancel(struct ct_transport *t, struct ct_request *r)
{
    (void)t, (void)r;
    return true;
}

static void alone_abort(struct ct_transport *t, int code)
{
    (void)t, (void)code;
}

static void alone_destroy(struct ct_transport *t)
{
    ct_free(t);
}

static const struct ct_transport_ops alone_ops = {
    .name    = "alone",
    .send    = alone_send,
    .receive = alone_receive,
    .test    = alone_test,
    .cancel  = alone_cancel,
    .abort   = alone_abort,
    .destroy = alone_destroy,
};

static enum ct_status alone_create(struct ct_transport **out)
{
    struct ct_transport *t;

    CT_TRY(ct_alloc(1, sizeof(*t), "transport", &t));
    *t   = (struct ct_transport){ .ops = &alone_ops,
                                  .type = &ct_transport_alone, .size = 1 };
    *out = t;
    return CT_OK;
}

const struct ct_transport_type ct_transport_alone = {
    .name   = "alone",
    .about  = "one rank",
    .create = alone_create,
};
