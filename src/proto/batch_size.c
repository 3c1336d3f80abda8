/* batch_size.c - where a net says how many samples a batch has. */
#include "proto/batch_size.h"

#include <string.h>

uint32_t *ct_batch_size(Caffe__LayerParameter *l)
{
    const char *type = l->type ? l->type : "";

    if (l->data_param && (strcmp(type, "Data") == 0 ||
                          strcmp(type, "AnnotatedData") == 0))
        return &l->data_param->batch_size;
    if (l->image_data_param && (strcmp(type, "ImageData") == 0 ||
                                strcmp(type, "ImageSegData") == 0))
        return &l->image_data_param->batch_size;
    if (l->dense_image_data_param && strcmp(type, "DenseImageData") == 0)
        return &l->dense_image_data_param->batch_size;
    if (l->hdf5_data_param && strcmp(type, "HDF5Data") == 0)
        return &l->hdf5_data_param->batch_size;
    if (l->window_data_param && strcmp(type, "WindowData") == 0)
        return &l->window_data_param->batch_size;
    if (l->memory_data_param && strcmp(type, "MemoryData") == 0)
        return &l->memory_data_param->batch_size;
    if (l->data_param && l->data_param->has_batch_size && l->n_bottom == 0 &&
        strcmp(type, "Python") == 0)
        return &l->data_param->batch_size;
    return NULL;
}

/* Where a layer brings samples in otherwise: Input and DummyData. */
static size_t shapes_of(const Caffe__LayerParameter *l,
                        Caffe__BlobShape ***shapes)
{
    const char *type = l->type ? l->type : "";

    *shapes = NULL;
    if (l->input_param && strcmp(type, "Input") == 0) {
        *shapes = l->input_param->shape;
        return l->input_param->n_shape;
    }
    if (l->dummy_data_param && strcmp(type, "DummyData") == 0) {
        *shapes = l->dummy_data_param->shape;
        return l->dummy_data_param->n_shape;
    }
    return 0;
}

int64_t ct_batch_of(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layer; i++) {
        const uint32_t *size = ct_batch_size(net->layer[i]);
        Caffe__BlobShape **shapes;

        if (size && *size > 0)
            return *size;
        if (shapes_of(net->layer[i], &shapes) && shapes[0]->n_dim)
            return shapes[0]->dim[0];
    }
    return 0;
}

void ct_batch_set(Caffe__NetParameter *net, int64_t from, int64_t to)
{
    for (size_t i = 0; i < net->n_layer; i++) {
        uint32_t *size = ct_batch_size(net->layer[i]);
        Caffe__BlobShape **shapes;
        size_t n = shapes_of(net->layer[i], &shapes);

        if (size && *size == from)
            *size = (uint32_t)to;
        for (size_t k = 0; k < n; k++)
            if (shapes[k]->n_dim && shapes[k]->dim[0] == from)
                shapes[k]->dim[0] = to;
    }
}
