/* test_annotation.c - the wire format of AnnotatedDatum against protobuf-c's.
 */
#include "data/annotation.h"

#include "base/mem.h"
#include "cortado/proto.h"
#include "testing/test.h"

/* A datum of 1 x 1 x 2 bytes. */
static const unsigned char datum[] = { 0x08, 1, 0x10, 1, 0x18, 2,
                                       0x22, 2, 'a', 'b' };
static const struct ct_bytes datum_bytes = { datum, sizeof(datum) };

static const struct ct_object two[] = {
    { { .25f, .5f, .75f, 1 }, 3, 0, false },
    { { 0, 0, .5f, .125f }, 3, 1, true },
};

static void fini_objects(void *arg)
{
    ct_objects_fini(arg);
}

static void fini_text(void *arg)
{
    ct_text_fini(arg);
}

static struct ct_text record;
static struct ct_objects found;

/* `record` holds both objects and one more of label 7. */
static void write_three(void)
{
    static struct ct_objects o;
    struct ct_object last = { { .1f, .2f, .3f, .4f }, 7, 0, false };

    o      = (struct ct_objects){ 0 };
    record = (struct ct_text){ 0 };
    found  = (struct ct_objects){ 0 };
    test_defer(fini_objects, &o);
    test_defer(fini_objects, &found);
    test_defer(fini_text, &record);
    ASSERT_OK(ct_objects_add(&o, &two[0]));
    ASSERT_OK(ct_objects_add(&o, &two[1]));
    ASSERT_OK(ct_objects_add(&o, &last));
    ASSERT_OK(ct_annotated_write(datum_bytes, &o, &record));
}

TEST(annotation, written_records_are_protobuf_messages)
{
    Caffe__AnnotatedDatum *m = NULL;

    write_three();
    ASSERT_OK(ct_binary_parse(&caffe__annotated_datum__descriptor, record.s,
                              record.n_bytes, "test", &m));
    ASSERT(m->has_type && m->datum->width == 2);
    ASSERT_INT(2, m->n_annotation_group);
    ASSERT_INT(3, m->annotation_group[0]->group_label);
    ASSERT_INT(2, m->annotation_group[0]->n_annotation);
    ASSERT_INT(1, m->annotation_group[0]->annotation[1]->instance_id);
    ASSERT(m->annotation_group[0]->annotation[1]->bbox->difficult);
    ASSERT_FLOAT(.75, m->annotation_group[0]->annotation[0]->bbox->xmax, 0);
    ASSERT_INT(7, m->annotation_group[1]->group_label);
    ASSERT_FLOAT(.4f, m->annotation_group[1]->annotation[0]->bbox->ymax, 0);
    ct_message_free(m);
}

TEST(annotation, what_was_written_is_read)
{
    struct ct_annotated a;

    write_three();
    ASSERT_OK(ct_annotated_read((struct ct_bytes){ record.s, record.n_bytes },
                                &a, &found));
    ASSERT(a.has_boxes && a.datum.data.n == 2);
    ASSERT_INT(3, found.n);
    for (int i = 0; i < 2; i++) {
        ASSERT_INT(two[i].label, found.at[i].label);
        ASSERT_INT(two[i].instance, found.at[i].instance);
        ASSERT_INT(two[i].difficult, found.at[i].difficult);
        ASSERT_FLOAT(two[i].box.xmin, found.at[i].box.xmin, 0);
        ASSERT_FLOAT(two[i].box.ymin, found.at[i].box.ymin, 0);
        ASSERT_FLOAT(two[i].box.xmax, found.at[i].box.xmax, 0);
        ASSERT_FLOAT(two[i].box.ymax, found.at[i].box.ymax, 0);
    }
    ASSERT_INT(7, found.at[2].label);
}

/* Fields may come in any order, so the label may follow the objects. */
TEST(annotation, a_label_behind_its_objects_counts)
{
    static const unsigned char late[] = {
        0x0a, 10, 0x08, 1, 0x10, 1, 0x18, 2, 0x22, 2, 'a', 'b', 0x10, 0,
        0x1a, 6, 0x12, 2, 0x12, 0, 0x08, 5,
    };
    struct ct_annotated a;

    write_three();
    ASSERT_OK(ct_annotated_read((struct ct_bytes){ late, sizeof(late) }, &a,
                                &found));
    ASSERT_INT(1, found.n);
    ASSERT_INT(5, found.at[0].label);
}

TEST(annotation, records_cut_short_never_pass_for_the_whole)
{
    write_three();
    for (size_t n = 0; n < record.n_bytes; n++) {
        unsigned char *copy = ct_malloc(n, "cut record"); /* for ASan */
        struct ct_annotated a;
        enum ct_status st;

        memcpy(copy, record.s, n);
        st = ct_annotated_read((struct ct_bytes){ copy, n }, &a, &found);
        ASSERT(st == CT_EPARSE || found.n < 3);
        ct_free(copy);
    }
}

static void refused(const struct ct_object *one, const char *why)
{
    struct ct_objects o = { 0 };
    struct ct_annotated a;

    ASSERT_OK(ct_objects_add(&o, one));
    ASSERT_OK(ct_annotated_write(datum_bytes, &o, &record));
    ct_objects_fini(&o);
    ASSERT_STATUS(CT_EPARSE,
                  ct_annotated_read((struct ct_bytes){ record.s,
                                                       record.n_bytes },
                                    &a, &found));
    ASSERT_HAS(why, ct_last_error());
}

TEST(annotation, boxes_without_sense_are_refused)
{
    write_three();
    refused(&(struct ct_object){ { .5f, 0, .4f, 1 }, 1, 0, false },
            "in this order");
    refused(&(struct ct_object){ { 0, .5f, 1, .4f }, 1, 0, false },
            "label 1");
    refused(&(struct ct_object){ { NAN, 0, 1, 1 }, 1, 0, false }, "nan");
    refused(&(struct ct_object){ { 0, 0, INFINITY, 1 }, 1, 0, false }, "inf");
    refused(&(struct ct_object){ { 0, 0, 1, 1 }, -2, 0, false },
            "group_label is -2");
}

TEST(annotation, a_datum_alone_is_told_from_an_annotated_one)
{
    struct ct_annotated a;

    write_three();
    ASSERT_STATUS(CT_EPARSE, ct_annotated_read(datum_bytes, &a, &found));
    ASSERT_HAS("Data layers", ct_last_error());
}
