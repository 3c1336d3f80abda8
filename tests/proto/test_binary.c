/* test_binary.c - the wire format, sound and hostile. */
#include <limits.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cortado/proto.h"
#include "node.h"
#include "testing/test.h"

#define NET  &caffe__net_parameter__descriptor
#define BLOB &caffe__blob_proto__descriptor

static enum ct_status parse(const ProtobufCMessageDescriptor *type,
                            const void *data, size_t n, void *out)
{
    return ct_binary_parse(type, data, n, "m.caffemodel", out);
}

/* `n` bytes are refused with a message that holds `error` and the source. */
static void refuse(const ProtobufCMessageDescriptor *type, const char *data,
                   size_t n, const char *error)
{
    void *m = NULL;

    ASSERT_STATUS(CT_EPARSE, parse(type, data, n, &m));
    ASSERT_HAS("m.caffemodel", ct_last_error());
    ASSERT_HAS(error, ct_last_error());
    ASSERT(!m);
}

/* A net with one of everything, in the wire format; ct_free'd by the
 * caller. */
static uint8_t *sample(size_t *n)
{
    static const char text[] =
        "name: 'n' input_dim: [1, 300] layer { name: 'c' type: 'Clip' "
        "loss_weight: 2 propagate_down: true clip_param { min: 1 max: 2 } "
        "blobs { shape { dim: 2 dim: 300 } data: [1, 2] double_data: 3 } "
        "pooling_param { pool: AVE } } layers { type: RELU "
        "blob_share_mode: PERMISSIVE }";
    Caffe__NetParameter *net = NULL;
    uint8_t *data;

    ASSERT_OK(ct_text_parse(NET, text, strlen(text), "t", &net));
    *n   = protobuf_c_message_get_packed_size(&net->base);
    data = ct_malloc(*n, "sample");
    protobuf_c_message_pack(&net->base, data);
    ct_message_free(net);
    return data;
}

TEST(binary, a_message_reads_back)
{
    Caffe__NetParameter *net = NULL;
    size_t n;
    uint8_t *data = sample(&n);

    ASSERT_OK(parse(NET, data, n, &net));
    ct_free(data);
    ASSERT_STR("n", net->name);
    ASSERT_INT(300, net->input_dim[1]);
    ASSERT_INT(300, net->layer[0]->blobs[0]->shape->dim[1]);
    ASSERT_FLOAT(2, net->layer[0]->blobs[0]->data[1], 0);
    ASSERT_FLOAT(2, net->layer[0]->clip_param->max, 0);
    ct_message_free(net);
}

/* Field 5 as wire type 5 (one float a tag) and as type 2 (packed); Caffe's
 * older writers had both. */
TEST(binary, blob_data_is_packed_or_not)
{
    static const char loose[]  = "\x2d\0\0\x80\x3f\x2d\0\0\0\x40";
    static const char packed[] = "\x2a\x08\0\0\x80\x3f\0\0\0\x40";
    static const char mixed[]  = "\x2a\x04\0\0\x80\x3f\x2d\0\0\0\x40";
    const char *const form[]   = { loose, packed, mixed };
    const size_t bytes[]       = { 10, 10, 11 };

    for (int i = 0; i < 3; i++) {
        Caffe__BlobProto *b = NULL;

        ASSERT_OK(parse(BLOB, form[i], bytes[i], &b));
        ASSERT_INT(2, b->n_data);
        ASSERT_FLOAT(1, b->data[0], 0);
        ASSERT_FLOAT(2, b->data[1], 0);
        ct_message_free(b);
    }
}

TEST(binary, a_legacy_blob_has_four_dimensions)
{
    Caffe__BlobProto *b = NULL;

    ASSERT_OK(parse(BLOB, "\x08\x01\x10\x03\x18\x04\x20\x05", 8, &b));
    ASSERT_INT(1, b->num);
    ASSERT_INT(3, b->channels);
    ASSERT_INT(4, b->height);
    ASSERT_INT(5, b->width);
    ASSERT(!b->shape);
    ct_message_free(b);
}

TEST(binary, unknown_fields_are_kept)
{
    static const char data[] = "\xa0\x06\x07"; /* field 100 is 7 */
    Caffe__Datum *d = NULL, *copy = NULL;
    char path[512];
    char *back = NULL;
    size_t n   = 0;

    snprintf(path, sizeof(path), "%s/s", test_folder());
    ASSERT_OK(parse(&caffe__datum__descriptor, data, 3, &d));
    ASSERT_INT(1, d->base.n_unknown_fields);
    ASSERT_OK(ct_message_copy(d, &copy));
    ASSERT_OK(ct_binary_write(copy, path));
    ASSERT_OK(ct_file_read(path, &back, &n));
    ASSERT_INT(3, n);
    ASSERT_INT(0, memcmp(back, data, 3));
    ct_free(back);
    ct_message_free(d);
    ct_message_free(copy);
}

/* As protobuf treats them: a number without a name is no value. */
TEST(binary, unknown_enum_numbers_are_dropped)
{
    Caffe__PoolingParameter *p = NULL;
    Caffe__V1LayerParameter *l = NULL;

    ASSERT_OK(parse(&caffe__pooling_parameter__descriptor, "\x08\x63\x10\x02",
                    4, &p));
    ASSERT(!p->has_pool);
    ASSERT_INT(CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX, p->pool);
    ASSERT_INT(2, p->kernel_size);
    ct_message_free(p);
    /* blob_share_mode (1002): 1, 9, 0 */
    ASSERT_OK(parse(&caffe__v1_layer_parameter__descriptor,
                    "\xd0\x3e\x01\xd0\x3e\x09\xd0\x3e\x00", 9, &l));
    ASSERT_INT(2, l->n_blob_share_mode);
    ASSERT_INT(1, l->blob_share_mode[0]);
    ASSERT_INT(0, l->blob_share_mode[1]);
    ct_message_free(l);
}

TEST(binary, malformed_bytes_are_refused_with_their_place)
{
    refuse(NET, "\x0a\x05n", 3, "a field is truncated at byte 0");
    refuse(NET, "\x0a\x01n\x28", 4, "a field is truncated at byte 3");
    refuse(NET, "\x0a\x01n\x80", 4, "no field number at byte 3");
    refuse(NET, "\x02\x01n", 3, "no field number at byte 0");
    refuse(NET, "\x80\x80\x80\x80\x80\x01\x00", 7, "no field number");
    refuse(NET, "\x0b\x0c", 2, "an unknown wire type at byte 0");
    refuse(NET, "\x0f\x00", 2, "an unknown wire type at byte 0");
    refuse(NET, "\x08\x05", 2, "field \"name\" has wire type 0");
    refuse(BLOB, "\x2a\x03\0\0\x80", 5, "a packed list is truncated");
    refuse(BLOB, "\x3a\x03\x0a\x01\x80", 5, "a packed list is truncated");
    refuse(NET, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11,
           "a field is truncated at byte 0");
    refuse(&caffe__layer_parameter__descriptor, "\xa2\x09\x05\x0d\0\0\0\0", 8,
           "caffe.ClipParameter at byte 3 needs the field \"max\"");
}

/* Cut anywhere a message is whole by chance or refused; never read beyond. */
TEST(binary, a_message_cut_anywhere_is_refused_or_shorter)
{
    size_t n, n_refused = 0;
    uint8_t *data = sample(&n);

    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = ct_malloc(cut, "exact"); /* for the sanitizer */
        void *m       = NULL;

        memcpy(part, data, cut);
        if (parse(NET, part, cut, &m) != CT_OK)
            n_refused++;
        ct_message_free(m);
        ct_free(part);
    }
    /* Whole only between the five fields of the net. */
    ASSERT_INT(n - 5, n_refused);
    ct_free(data);
}

TEST(binary, flipped_bits_never_crash)
{
    size_t n;
    uint8_t *data = sample(&n);

    for (size_t bit = 0; bit < 8 * n; bit++) {
        void *m = NULL;

        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (parse(NET, data, n, &m) == CT_OK) {
            char *text = NULL;

            ASSERT_OK(ct_text_print(m, &text));
            ct_free(text);
        }
        ct_message_free(m);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        struct ct_philox r = ct_philox(1, 0, i);
        uint8_t old        = data[r.v[0] % n];
        void *m            = NULL;

        data[r.v[0] % n] = (uint8_t)r.v[1];
        if (parse(NET, data, n, &m) == CT_OK)
            ct_message_free(m);
        data[r.v[0] % n] = old;
    }
    ct_free(data);
}

/* Three bytes make a layer of a thousand: a small file that asks for gigabytes
 * is refused before they are allocated. */
TEST(binary, a_small_file_cannot_ask_for_much_memory)
{
    size_t n      = 3 << 20;
    uint8_t *data = ct_malloc(n, "bomb");
    void *m       = NULL;

    for (size_t i = 0; i < n; i += 3)
        memcpy(data + i, "\xa2\x06\x00", 3); /* layer {} */
    ASSERT_STATUS(CT_ENOMEM, parse(NET, data, n, &m));
    ASSERT_HAS("needs more memory than a file of its size may",
               ct_last_error());
    ct_free(data);
}

TEST(binary, more_than_two_gigabytes_are_refused)
{
    char path[512];
    void *m = NULL;

    ASSERT_STATUS(CT_ENOTSUP, parse(NET, "", (size_t)INT_MAX + 1, &m));
    ASSERT_HAS("2147483648 bytes", ct_last_error());
    /* A sparse file: its size alone is looked at. */
    snprintf(path, sizeof(path), "%s/large", test_folder());
    ASSERT_OK(ct_file_write(path, "x", 1));
    ASSERT_INT(0, truncate(path, (off_t)INT_MAX + 1));
    ASSERT_STATUS(CT_ENOTSUP, ct_binary_read(NET, path, &m));
    ASSERT_HAS(path, ct_last_error());
}

/* The message only says that it is large: nothing is read of it. */
TEST(binary, a_message_too_large_is_not_written)
{
    Caffe__BlobProto b = CAFFE__BLOB_PROTO__INIT;
    float one          = 1;
    char path[512];

    snprintf(path, sizeof(path), "%s/large", test_folder());
    b.n_data = 600000000;
    b.data   = &one;
    ASSERT_STATUS(CT_ENOTSUP, ct_binary_write(&b, path));
    ASSERT_HAS("HDF5", ct_last_error());
    ASSERT(!ct_file_exists(path));
}

TEST(binary, files_that_caffe_wrote_are_read_and_written_alike)
{
    Caffe__BlobProto *b = NULL;
    char path[512];
    const char *mean = test_recorded("caffe_files/mean.binaryproto");
    char *before = NULL, *after = NULL;
    size_t n = 0, n_after = 0;

    ASSERT_OK(ct_file_read(mean, &before, &n));
    ASSERT_OK(ct_binary_read(BLOB, mean, &b));
    ASSERT_INT((int64_t)b->num * b->channels * b->height * b->width, b->n_data);
    snprintf(path, sizeof(path), "%s/mean", test_folder());
    ASSERT_OK(ct_binary_write(b, path));
    ASSERT_OK(ct_file_read(path, &after, &n_after));
    ASSERT_INT(n, n_after);
    ASSERT_INT(0, memcmp(before, after, n));
    ct_free(before);
    ct_free(after);
    ct_message_free(b);
}

TEST(binary, nesting_is_limited)
{
    char data[400];
    size_t n = 0;
    void *m  = NULL;

    /* Each turn wraps all so far into one more child; a length is one byte
     * up to 127 and two from there. */
    for (int depth = 1; depth <= 100; depth++) {
        size_t head = n < 128 ? 2 : 3;

        memmove(data + head, data, n);
        data[0] = 0x0a;
        data[1] = (char)(n < 128 ? n : (n & 0x7f) | 0x80);
        if (head == 3)
            data[2] = (char)(n >> 7);
        n += head;
        if (depth < 100) {
            ASSERT_OK(parse(&node_type, data, n, &m));
            ct_message_free(m);
            m = NULL;
        }
    }
    refuse(&node_type, data, n, "too many messages inside each other");
}
