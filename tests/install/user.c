/* user.c - a program outside the project that uses the installed library. */
#include <cortado/blob.h>
#include <cortado/layer.h>
#include <cortado/log.h>
#include <cortado/proto.h>
#include <stdio.h>
#include <string.h>

static const char prototxt[] = "name: 'relu1' type: 'ReLU' bottom: 'x' "
                               "top: 'y' relu_param { negative_slope: 0.5 }";

static enum ct_status run(void)
{
    const float want[] = { -1, 2, -0.5f, 4 };
    struct ct_run about = { .seed = 1, .size = 1 };
    struct ct_blob *x = NULL, *y = NULL;
    struct ct_layer *layer = NULL;
    Caffe__LayerParameter *param = NULL;

    CT_TRY(ct_text_parse(&caffe__layer_parameter__descriptor, prototxt,
                         strlen(prototxt), "user.c", &param));
    CT_TRY(ct_blob_create(ct_device_cpu(), &x));
    CT_TRY(ct_blob_create(ct_device_cpu(), &y));
    CT_TRY(ct_reshape(x, CT_SHAPE(2, 2)));
    memcpy(ct_data(x), (float[]){ -2, 2, -1, 4 }, sizeof(want));

    struct ct_io io = { &x, &y, 1, 1, NULL };
    CT_TRY(ct_layer_create(param, ct_device_cpu(), &about,
                           CAFFE__PHASE__TEST, &layer));
    CT_TRY(ct_layer_setup(layer, &io));
    CT_TRY(ct_layer_forward(layer, &io));
    if (memcmp(ct_data(y), want, sizeof(want)) != 0)
        return ct_fail(CT_EINTERNAL, "ReLU gives other values");
    ct_layer_destroy(layer);
    ct_blob_destroy(x);
    ct_blob_destroy(y);
    ct_message_free(param);
    return CT_OK;
}

int main(void)
{
    if (run() != CT_OK) {
        fprintf(stderr, "user: %s\n", ct_last_error());
        return 1;
    }
    puts("user: the installed library works");
    return 0;
}
