/* test_shape.c - shapes and blobs. */
#include "core/blob_proto.h"
#include "core/buffer.h"
#include "cortado/blob.h"
#include "testing/test.h"

TEST(shape, counts_ranges_and_scalars)
{
    struct ct_shape s = CT_SHAPE(2, 3, 4), scalar = CT_SCALAR;

    ASSERT_OK(ct_shape_check(&s));
    ASSERT_INT(24, ct_shape_count(&s, 0, CT_END));
    ASSERT_INT(12, ct_shape_count(&s, 1, CT_END));
    ASSERT_INT(3, ct_shape_count(&s, 1, 2));
    ASSERT_INT(1, ct_shape_count(&s, 2, 2));
    ASSERT_INT(1, ct_shape_count(&scalar, 0, CT_END));
}

TEST(shape, impossible_shapes_are_refused)
{
    struct ct_shape negative = CT_SHAPE(2, -1);
    struct ct_shape huge = CT_SHAPE(1 << 30, 1 << 30, 1 << 30);
    struct ct_shape empty = CT_SHAPE(0, 1 << 30);
    struct ct_shape hidden = CT_SHAPE(0, 1 << 30, 1 << 30, 1 << 30);
    struct ct_shape axes = { .n_axes = 33 };

    ASSERT_STATUS(CT_ESHAPE, ct_shape_check(&negative));
    ASSERT_STATUS(CT_ESHAPE, ct_shape_check(&huge));
    ASSERT_STATUS(CT_ESHAPE, ct_shape_check(&hidden));
    ASSERT_STATUS(CT_ESHAPE, ct_shape_check(&axes));
    ASSERT_OK(ct_shape_check(&empty));
    ASSERT_INT(0, ct_shape_count(&empty, 0, CT_END));
}

TEST(shape, axes_count_from_both_ends)
{
    struct ct_shape s = CT_SHAPE(2, 3, 4);
    int axis;

    ASSERT_OK(ct_shape_axis(&s, -1, &axis));
    ASSERT_INT(2, axis);
    ASSERT_OK(ct_shape_axis(&s, -3, &axis));
    ASSERT_INT(0, axis);
    ASSERT_STATUS(CT_EINVAL, ct_shape_axis(&s, 3, &axis));
    ASSERT_STATUS(CT_EINVAL, ct_shape_axis(&s, -4, &axis));
}

TEST(shape, is_written_as_caffe_writes_it)
{
    struct ct_shape s = CT_SHAPE(64, 20, 24, 24);
    char buf[64];

    ASSERT_STR("64 20 24 24 (737280)", ct_shape_text(&s, buf, sizeof(buf)));
}

static void free_blob(void *b)
{
    ct_blob_destroy(b);
}

static struct ct_blob *new_blob(void)
{
    struct ct_blob *b;

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &b));
    test_defer(free_blob, b);
    return b;
}

TEST(shape, a_blob_keeps_its_memory_while_it_fits)
{
    struct ct_blob *b = new_blob();
    const float *data;

    ASSERT_OK(ct_reshape(b, CT_SHAPE(4, 4)));
    data = ct_data(b);
    ASSERT_FLOAT(0, data[15], 0);
    ASSERT_OK(ct_reshape(b, CT_SHAPE(2, 3)));
    ASSERT(ct_data(b) == data);
    ASSERT_INT(6, b->count);
    ASSERT_OK(ct_reshape(b, CT_SHAPE(5, 5)));
    ASSERT_FLOAT(0, ct_data(b)[24], 0);
}

TEST(shape, blobs_that_share_live_as_long_as_the_last)
{
    struct ct_blob *a, *b = new_blob();

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &a));
    ASSERT_OK(ct_reshape(a, CT_SHAPE(3)));
    ASSERT_OK(ct_reshape(b, CT_SHAPE(3)));
    ct_data(a)[1] = 7;
    ct_blob_share_data(b, a);
    ct_blob_destroy(a);
    ASSERT_FLOAT(7, ct_data(b)[1], 0);
}

TEST(shape, blocked_layouts_pad_channels)
{
    struct ct_shape s = CT_SHAPE(2, 20, 3, 3);

    ASSERT_INT(360, ct_layout_count(&s, CT_PLAIN));
    ASSERT_INT(2 * 32 * 9, ct_layout_count(&s, CT_BLOCKED16));
    ASSERT_INT(2 * 24 * 9, ct_layout_count(&s, CT_BLOCKED8));
}

TEST(shape, old_files_with_four_axes_fit_shorter_shapes)
{
    Caffe__BlobProto p = CAFFE__BLOB_PROTO__INIT;
    struct ct_shape matrix = CT_SHAPE(10, 20), row = CT_SHAPE(20);
    struct ct_shape other = CT_SHAPE(20, 10), five = CT_SHAPE(1, 1, 1, 10, 20);

    p.has_num = p.has_channels = p.has_height = p.has_width = true;
    p.num = p.channels = 1;
    p.height           = 10;
    p.width            = 20;
    ASSERT(ct_blob_proto_fits(&p, &matrix));
    ASSERT(!ct_blob_proto_fits(&p, &other));
    ASSERT(!ct_blob_proto_fits(&p, &row));
    ASSERT(!ct_blob_proto_fits(&p, &five));
    p.height = 1;
    ASSERT(ct_blob_proto_fits(&p, &row));
}

TEST(shape, a_blob_survives_its_message)
{
    struct ct_blob *a = new_blob(), *b = new_blob();
    Caffe__BlobProto *p = NULL;

    ASSERT_OK(ct_reshape(a, CT_SHAPE(2, 2)));
    ASSERT_OK(ct_reshape(b, CT_SHAPE(2, 2)));
    for (int i = 0; i < 4; i++) {
        ct_data(a)[i] = (float)i;
        ct_diff(a)[i] = (float)-i;
    }
    ASSERT_OK(ct_blob_to_proto(a, true, &p));
    ASSERT_OK(ct_blob_from_proto(p, b));
    ASSERT_FLOAT(3, ct_data(b)[3], 0);
    ASSERT_FLOAT(-3, ct_diff(b)[3], 0);
    p->n_data = 3;
    ASSERT_STATUS(CT_EPARSE, ct_blob_from_proto(p, b));
    p->n_data = 4;
    ct_message_free(p);
}
