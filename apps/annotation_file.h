/* annotation_file.h - the annotations of one image, as sets publish them.
 *
 *     xml   VOC's: annotation { size, object { name, difficult, bndbox } }
 *     json  COCO's, an image in each file: { "image": { "width", "height" },
 *           "annotation": [ { "bbox": [x, y, w, h], "category_id",
 *           "iscrowd" } ] }
 *     txt   a line "label xmin ymin xmax ymax" for each object, in pixels
 *
 * Names of xml and ids of json are looked up in a label map. */
#ifndef CT_APPS_ANNOTATION_FILE_H
#define CT_APPS_ANNOTATION_FILE_H

#include "cortado/proto.h"
#include "data/annotation.h"

struct annotation_source {
    const char            *form; /* "xml", "json" or "txt" */
    const Caffe__LabelMap *map;  /* NULL: none, for txt */
};

/* Refuses a form that nobody knows, and a label map that names a label or an
 * object twice. */
CT_MUST_CHECK enum ct_status annotation_source_check(
    const struct annotation_source *s);

/* Objects in parts of the image, by label.  `width` and `height` are the
 * image's; xml and json may have their own.  Errors name `path`. */
CT_MUST_CHECK enum ct_status annotation_read(const struct annotation_source *s,
                                             const char *text, size_t n_bytes,
                                             const char *path, int width,
                                             int height,
                                             struct ct_objects *out);

#endif
