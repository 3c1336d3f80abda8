/* cmd_import.c - `cortado import MODEL.onnx OUT.prototxt OUT.caffemodel`. */
#include "proto/edit.h"
#include "tool.h"

/* The net, first with its weights, then without. */
static enum ct_status write_net(Caffe__NetParameter *net, const char *prototxt,
                                const char *weights)
{
    CT_TRY(ct_binary_write(net, weights));
    for (size_t i = 0; i < net->n_layer; i++) {
        Caffe__LayerParameter *l = net->layer[i];

        while (l->n_blobs > 0)
            ct_edit_remove(&l->blobs, &l->n_blobs, l->n_blobs - 1);
    }
    return ct_text_write(net, prototxt);
}

int cmd_import(int argc, char **argv)
{
    struct ct_onnx_options o = { 0 };
    Caffe__NetParameter *net = NULL;
    int batch = 1, code;
    const struct flag flags[] = {
        FLAG("batch", &batch),
        FLAG_END,
    };
    enum ct_status st;

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    o.batch = batch;
    st = batch < 1 ? ct_fail(CT_EINVAL, "--batch is a size of at least 1, not "
                             "%d", batch)
                   : ct_onnx_import(argv[1], &o, &net);
    if (st == CT_OK)
        st = write_net(net, argv[2], argv[3]);
    ct_message_free(net);
    return tool_end(st);
}
