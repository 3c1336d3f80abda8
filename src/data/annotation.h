/* annotation.h - SSD's record of one sample: a datum and the objects in it.
 *
 *     AnnotatedDatum   1 datum  2 type (0: boxes)  3 annotation_group
 *     AnnotationGroup  1 group_label  2 annotation
 *     Annotation       1 instance_id  2 bbox
 *     NormalizedBBox   1 xmin  2 ymin  3 xmax  4 ymax  6 difficult
 *
 * A box is in parts of the image's width and height. */
#ifndef CT_DATA_ANNOTATION_H
#define CT_DATA_ANNOTATION_H

#include "core/box.h"
#include "data/datum.h"

struct ct_object {
    struct ct_bbox box;
    int32_t        label, instance;
    bool           difficult;
};

/* Embedded; zeroed is empty.  Its memory is used again. */
struct ct_objects {
    struct ct_object *at; /* in `room` */
    int64_t           n;
    struct ct_room    room;
};
CT_MUST_CHECK enum ct_status ct_objects_add(struct ct_objects *o,
                                            const struct ct_object *one);
void ct_objects_fini(struct ct_objects *o);

struct ct_annotated {
    struct ct_datum datum; /* points into the record */
    bool            has_boxes; /* the record has a type */
};

/* Every length is checked.  Refuses boxes that are not finite or turned
 * inside out, and types other than boxes; out->datum is whole. */
CT_MUST_CHECK enum ct_status ct_annotated_read(struct ct_bytes record,
                                               struct ct_annotated *out,
                                               struct ct_objects *objects);

/* Replaces what `out` held by the message; `datum` is a message already.
 * Objects of one label follow one another, in one group. */
CT_MUST_CHECK enum ct_status ct_annotated_write(
    struct ct_bytes datum, const struct ct_objects *objects,
    struct ct_text *out);

/* An annotated datum without an annotation type: its label is all there is. */
CT_MUST_CHECK enum ct_status ct_annotated_write_datum(struct ct_bytes datum,
                                                      struct ct_text *out);

#endif
