/* fuzz_annotation_file.c - any bytes as an annotation file of convert_annoset.
 *
 * The first byte chooses the form.  What is read must be sound enough to be
 * written and read as a record. */
#include <stdint.h>

#include "../../apps/annotation_file.h"
#include "base/mem.h"
#include "cortado/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const unsigned char pixel[] = { 0x08, 1, 0x10, 1, 0x18, 1, 0x22, 1, 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const char *const form[] = { "xml", "json", "txt" };
    Caffe__LabelMapItem item, *items = &item;
    Caffe__LabelMap map;
    struct ct_objects objects = { 0 }, again = { 0 };
    struct ct_text record     = { 0 };
    struct ct_annotated a;
    char name[] = "cat";

    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0)
        return 0;
    caffe__label_map__init(&map);
    caffe__label_map_item__init(&item);
    item.name      = name;
    item.has_label = 1;
    item.label     = 1;
    map.n_item     = 1;
    map.item       = &items;
    if (annotation_read(&(struct annotation_source){ form[data[0] % 3], &map },
                        (const char *)data + 1, n_bytes - 1, "fuzz", 100, 50,
                        &objects) == CT_OK) {
        CT_ASSERT(ct_annotated_write((struct ct_bytes){ pixel, sizeof(pixel) },
                                     &objects, &record) == CT_OK);
        CT_ASSERT(ct_annotated_read((struct ct_bytes){ record.s,
                                                       record.n_bytes },
                                    &a, &again) == CT_OK);
        CT_ASSERT(again.n == objects.n);
    }
    ct_objects_fini(&objects);
    ct_objects_fini(&again);
    ct_text_fini(&record);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
