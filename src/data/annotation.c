/* annotation.c - the wire format of AnnotatedDatum, read and written by hand.
 */
#include "data/annotation.h"

#include <math.h>
#include <string.h>

#include "cortado/proto.h"
#include "data/fields.h"

enum { MOST_OBJECTS = 1 << 20 };

enum ct_status ct_objects_add(struct ct_objects *o,
                              const struct ct_object *one)
{
    const size_t bytes = ((size_t)o->n + 1) * sizeof(*one);

    if (o->n >= MOST_OBJECTS)
        return ct_fail(CT_EPARSE, "an image with more than %d objects",
                       MOST_OBJECTS);
    if (o->room.bytes < bytes) {
        struct ct_room more = { 0 };

        CT_TRY(ct_room_grow(&more, 2 * bytes + 16 * sizeof(*one)));
        if (o->n > 0)
            memcpy(more.ptr, o->at, (size_t)o->n * sizeof(*one));
        ct_room_fini(&o->room);
        o->room = more;
    }
    o->at         = o->room.ptr;
    o->at[o->n++] = *one;
    return CT_OK;
}

void ct_objects_fini(struct ct_objects *o)
{
    ct_room_fini(&o->room);
    *o = (struct ct_objects){ 0 };
}

static enum ct_status no_annotation(const char *what)
{
    return ct_fail(CT_EPARSE, "no sound %s", what);
}

static enum ct_status box_read(struct ct_bytes message, struct ct_object *out)
{
    struct ct_fields in = ct_fields_of(message);
    struct ct_bbox *b   = &out->box;
    float *const part[] = { &b->xmin, &b->ymin, &b->xmax, &b->ymax };
    struct ct_field f   = { 0 };

    while (in.at < in.end) {
        if (!ct_field_next(&in, &f))
            return no_annotation("bbox");
        if (f.number >= 1 && f.number <= 4) {
            if (f.type != CT_FIXED32)
                return no_annotation("bbox");
            memcpy(part[f.number - 1], f.bytes.ptr, sizeof(float));
        } else if (f.number == 6 && f.type == CT_VARINT) {
            out->difficult = f.varint != 0;
        }
    }
    if (!isfinite(b->xmin) || !isfinite(b->ymin) || !isfinite(b->xmax) ||
        !isfinite(b->ymax) || b->xmax < b->xmin || b->ymax < b->ymin)
        return ct_fail(CT_EPARSE, "an object of label %d has the box %g %g %g "
                       "%g: xmin, ymin, xmax and ymax must be numbers in "
                       "this order", out->label, (double)b->xmin,
                       (double)b->ymin, (double)b->xmax, (double)b->ymax);
    return CT_OK;
}

static enum ct_status object_read(struct ct_bytes message, int32_t label,
                                  struct ct_objects *objects)
{
    struct ct_fields in  = ct_fields_of(message);
    struct ct_object one = { .label = label };
    struct ct_field f    = { 0 };

    while (in.at < in.end) {
        if (!ct_field_next(&in, &f))
            return no_annotation("annotation");
        if (f.number == 1 && f.type == CT_VARINT)
            one.instance = (int32_t)f.varint;
        else if (f.number == 2 && f.type == CT_BYTES)
            CT_TRY(box_read(f.bytes, &one));
        else if (f.number <= 2)
            return no_annotation("annotation");
    }
    return ct_objects_add(objects, &one);
}

static enum ct_status group_read(struct ct_bytes message,
                                 struct ct_objects *objects)
{
    struct ct_fields in = ct_fields_of(message);
    struct ct_field f   = { 0 };
    int32_t label       = 0;

    /* The label may stand behind the objects. */
    for (int round = 0; round < 2; round++, in = ct_fields_of(message))
        while (in.at < in.end) {
            if (!ct_field_next(&in, &f))
                return no_annotation("annotation_group");
            if (f.number == 1 && f.type == CT_VARINT)
                label = (int32_t)f.varint;
            else if (f.number == 2 && f.type == CT_BYTES) {
                if (round == 1)
                    CT_TRY(object_read(f.bytes, label, objects));
            } else if (f.number <= 2)
                return no_annotation("annotation_group");
            if (round == 0 && label < 0)
                return ct_fail(CT_EPARSE, "group_label is %d: labels are 0 "
                               "and above", label);
        }
    return CT_OK;
}

enum ct_status ct_annotated_read(struct ct_bytes record,
                                 struct ct_annotated *out,
                                 struct ct_objects *objects)
{
    struct ct_fields in   = ct_fields_of(record);
    struct ct_bytes datum = { NULL, 0 };
    struct ct_field f     = { 0 };

    *out       = (struct ct_annotated){ 0 };
    objects->n = 0;
    while (in.at < in.end) {
        if (!ct_field_next(&in, &f) || (f.number == 1 && f.type != CT_BYTES))
            return ct_fail(CT_EPARSE, "a record of %zu bytes that is no "
                           "annotated datum (records of convert_imageset are "
                           "for Data layers)", record.n);
        if (f.number == 1) {
            datum = f.bytes;
        } else if (f.number == 2 && f.type == CT_VARINT) {
            if (f.varint != CAFFE__ANNOTATED_DATUM__ANNOTATION_TYPE__BBOX)
                return ct_fail(CT_EPARSE, "an annotated datum of type %llu: "
                               "only 0, boxes, is known",
                               (unsigned long long)f.varint);
            out->has_boxes = true;
        } else if (f.number == 3 && f.type == CT_BYTES) {
            CT_TRY(group_read(f.bytes, objects));
        } else if (f.number <= 3) {
            return no_annotation("annotated datum");
        }
    }
    if (!datum.ptr)
        return ct_fail(CT_EPARSE, "an annotated datum without an image");
    return ct_datum_read(datum, &out->datum);
}

static enum ct_status put_object(const struct ct_object *o,
                                 struct ct_text *box, struct ct_text *one,
                                 struct ct_text *group)
{
    box->n_bytes = one->n_bytes = 0;
    ct_put_float(box, 1, o->box.xmin);
    ct_put_float(box, 2, o->box.ymin);
    ct_put_float(box, 3, o->box.xmax);
    ct_put_float(box, 4, o->box.ymax);
    ct_put_int(box, 6, o->difficult);
    ct_put_int(one, 1, o->instance);
    ct_put_bytes(one, 2, (struct ct_bytes){ box->s, box->n_bytes });
    ct_put_bytes(group, 2, (struct ct_bytes){ one->s, one->n_bytes });
    return box->failed || one->failed || group->failed ? CT_ENOMEM : CT_OK;
}

enum ct_status ct_annotated_write(struct ct_bytes datum,
                                  const struct ct_objects *objects,
                                  struct ct_text *out)
{
    struct ct_text group = { 0 }, one = { 0 }, box = { 0 };
    enum ct_status st = CT_OK;

    out->n_bytes = 0;
    ct_put_bytes(out, 1, datum);
    ct_put_int(out, 2, CAFFE__ANNOTATED_DATUM__ANNOTATION_TYPE__BBOX);
    for (int64_t i = 0; i < objects->n && st == CT_OK; i++) {
        const int32_t label = objects->at[i].label;

        if (i == 0 || label != objects->at[i - 1].label) {
            group.n_bytes = 0;
            ct_put_int(&group, 1, label);
        }
        st = put_object(&objects->at[i], &box, &one, &group);
        if (i + 1 == objects->n || label != objects->at[i + 1].label)
            ct_put_bytes(out, 3, (struct ct_bytes){ group.s, group.n_bytes });
    }
    ct_text_fini(&group);
    ct_text_fini(&one);
    ct_text_fini(&box);
    return st == CT_OK && out->failed ? CT_ENOMEM : st;
}

enum ct_status ct_annotated_write_datum(struct ct_bytes datum,
                                        struct ct_text *out)
{
    out->n_bytes = 0;
    ct_put_bytes(out, 1, datum);
    return out->failed ? CT_ENOMEM : CT_OK;
}
