/* tfevents.c - files that TensorBoard reads. */
#include "observe/tfevents.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cortado/net.h"
#include "observe/histogram.h"

/* Field numbers, by message. */
enum {
    EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_GRAPH = 4,
    EVENT_SUMMARY = 5, EVENT_SESSION = 7,
    SESSION_STATUS = 1, SESSION_START = 1,
    SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5,
    HISTOGRAM_MIN = 1, HISTOGRAM_MAX = 2, HISTOGRAM_NUM = 3, HISTOGRAM_SUM = 4,
    HISTOGRAM_SQUARES = 5, HISTOGRAM_LIMIT = 6, HISTOGRAM_BUCKET = 7,
    GRAPH_NODE = 1, NODE_NAME = 1, NODE_OP = 2, NODE_INPUT = 3, NODE_DEVICE = 4
};

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };

static void little(struct ct_text *t, uint64_t v, int n)
{
    unsigned char b[8];

    for (int i = 0; i < n; i++)
        b[i] = (unsigned char)(v >> 8 * i);
    ct_text_add_bytes(t, b, (size_t)n);
}

static void varint(struct ct_text *t, uint64_t v)
{
    while (v >= 0x80) {
        little(t, (v & 0x7f) | 0x80, 1);
        v >>= 7;
    }
    little(t, v, 1);
}

static void key(struct ct_text *t, int field, int wire)
{
    varint(t, (uint64_t)field << 3 | (uint64_t)wire);
}

static void add_double(struct ct_text *t, int field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    key(t, field, FIXED64);
    little(t, bits, 8);
}

static void add_float(struct ct_text *t, int field, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    key(t, field, FIXED32);
    little(t, bits, 4);
}

static void add_bytes(struct ct_text *t, int field, const void *s, size_t n)
{
    key(t, field, BYTES);
    varint(t, n);
    ct_text_add_bytes(t, s, n);
}

static void add_string(struct ct_text *t, int field, const char *s)
{
    add_bytes(t, field, s, strlen(s));
}

/* A message inside `t`; frees it. */
static void add_message(struct ct_text *t, int field, struct ct_text *inner)
{
    add_bytes(t, field, inner->s ? inner->s : "", inner->n_bytes);
    t->failed |= inner->failed;
    ct_text_fini(inner);
}

static uint32_t masked_crc(const void *data, size_t n)
{
    const uint32_t c = ct_crc32c(0, data, n);

    return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

static struct ct_text event(double time, int64_t step)
{
    struct ct_text e = { 0 };

    add_double(&e, EVENT_TIME, time);
    if (step != 0) {
        key(&e, EVENT_STEP, VARINT);
        varint(&e, (uint64_t)step);
    }
    return e;
}

/* Appends a record; frees it. */
static void record(struct ct_text *out, struct ct_text *e)
{
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)e->n_bytes >> 8 * i);
    if (e->failed) {
        out->failed = 1;
    } else {
        ct_text_add_bytes(out, length, sizeof(length));
        little(out, masked_crc(length, sizeof(length)), 4);
        ct_text_add_bytes(out, e->s, e->n_bytes);
        little(out, masked_crc(e->s, e->n_bytes), 4);
    }
    ct_text_fini(e);
}

void ct_tf_begin(struct ct_text *out, double time, int64_t step)
{
    struct ct_text e = event(time, 0), session = { 0 };

    add_string(&e, EVENT_VERSION, "brain.Event:2");
    record(out, &e);
    e = event(time, step);
    key(&session, SESSION_STATUS, VARINT);
    varint(&session, SESSION_START);
    add_message(&e, EVENT_SESSION, &session);
    record(out, &e);
}

/* A summary of one value, which is in `value` but for its tag. */
static void summary(struct ct_text *out, double time, int64_t step,
                    struct ct_text *value)
{
    struct ct_text e = event(time, step), s = { 0 };

    add_message(&s, SUMMARY_VALUE, value);
    add_message(&e, EVENT_SUMMARY, &s);
    record(out, &e);
}

void ct_tf_scalar(struct ct_text *out, double time, int64_t step,
                  const char *tag, double value)
{
    struct ct_text v = { 0 };

    add_string(&v, VALUE_TAG, tag);
    add_float(&v, VALUE_SIMPLE, (float)value);
    summary(out, time, step, &v);
}

void ct_tf_histogram(struct ct_text *out, double time, int64_t step,
                     const char *tag, const struct ct_histogram *h)
{
    struct ct_text v = { 0 }, m = { 0 }, limits = { 0 }, buckets = { 0 };
    uint64_t bits;

    add_double(&m, HISTOGRAM_MIN, h->min);
    add_double(&m, HISTOGRAM_MAX, h->max);
    add_double(&m, HISTOGRAM_NUM, (double)h->n);
    add_double(&m, HISTOGRAM_SUM, h->sum);
    add_double(&m, HISTOGRAM_SQUARES, h->squares);
    for (int i = 0; i < CT_HISTOGRAM_BINS; i++) {
        const double limit = ct_histogram_limit(h, i);
        const double count = (double)h->count[i];

        memcpy(&bits, &limit, sizeof(bits));
        little(&limits, bits, 8);
        memcpy(&bits, &count, sizeof(bits));
        little(&buckets, bits, 8);
    }
    add_message(&m, HISTOGRAM_LIMIT, &limits);
    add_message(&m, HISTOGRAM_BUCKET, &buckets);
    add_string(&v, VALUE_TAG, tag);
    add_message(&v, VALUE_HISTOGRAM, &m);
    summary(out, time, step, &v);
}

/* Who writes the blob last before layer i reads it; -1: nobody. */
static int writer_of(const struct ct_net *net, int i, int blob)
{
    for (int l = i - 1; l >= 0; l--)
        for (int t = 0; t < ct_net_io(net, l).n_top; t++)
            if (ct_net_top_id(net, l, t) == blob)
                return l;
    return -1;
}

static void add_node(struct ct_text *graph, const struct ct_net *net, int i)
{
    const struct ct_layer *l = ct_net_layer(net, i);
    struct ct_text node      = { 0 };

    add_string(&node, NODE_NAME, l->name);
    add_string(&node, NODE_OP, l->type->name);
    for (int b = 0; b < ct_net_io(net, i).n_bottom; b++) {
        const int from = writer_of(net, i, ct_net_bottom_id(net, i, b));

        if (from >= 0)
            add_string(&node, NODE_INPUT, ct_net_layer(net, from)->name);
    }
    add_string(&node, NODE_DEVICE, ct_device_name(l->dev));
    add_message(graph, GRAPH_NODE, &node);
}

void ct_tf_graph(struct ct_text *out, double time, const struct ct_net *net)
{
    struct ct_text e = event(time, 0), graph = { 0 };

    for (int i = 0; i < ct_net_n_layers(net); i++)
        add_node(&graph, net, i);
    add_message(&e, EVENT_GRAPH, &graph);
    record(out, &e);
}
