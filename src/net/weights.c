/* weights.c - reads and writes parameters by layer name. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/blob_proto.h"
#include "cortado/log.h"
#include "data/hdf5.h"
#include "net/net_inner.h"
#include "net/training.h"
#include "proto/edit.h"

static enum ct_status wrong_shape(const char *source, const char *layer, int i,
                                  const struct ct_shape *theirs,
                                  const struct ct_shape *ours)
{
    char a[256], b[256];

    return ct_fail(CT_ESHAPE, "%s: cannot copy parameter %d of layer '%s': its "
                   "shape is %s there and %s here; rename the layer to learn "
                   "it from scratch", source, i, layer,
                   ct_shape_text(theirs, a, sizeof(a)),
                   ct_shape_text(ours, b, sizeof(b)));
}

static enum ct_status copy_layer(struct ct_layer *l,
                                 const Caffe__LayerParameter *from,
                                 const char *source)
{
    if (from->n_blobs != (size_t)l->n_blob)
        return ct_fail(CT_ESHAPE, "%s: layer '%s' has %zu parameter(s) there "
                       "and %d here", source, l->name, from->n_blobs,
                       l->n_blob);
    for (int i = 0; i < l->n_blob; i++) {
        struct ct_shape theirs = CT_SCALAR;

        if (!ct_blob_proto_fits(from->blobs[i], &l->blob[i]->shape)) {
            CT_TRY(ct_blob_proto_shape(from->blobs[i], &theirs));
            return wrong_shape(source, l->name, i, &theirs,
                               &l->blob[i]->shape);
        }
        if (ct_blob_from_proto(from->blobs[i], l->blob[i]) != CT_OK)
            return ct_fail_in(CT_EPARSE, "%s: parameter %d of layer '%s'",
                              source, i, l->name);
    }
    return CT_OK;
}

/* Warns if a file had no parameter for a net that has some. */
static void warn_unmatched(const struct ct_net *net, const char *source,
                           int n_matched)
{
    int first = 0;

    while (first < net->n_layer && net->layer[first].layer->n_blob == 0)
        first++;
    if (n_matched == 0 && first < net->n_layer)
        CT_WARN("%s: no layer there has the name of a layer here that has "
                "parameters (such as '%s'): nothing was copied", source,
                net->layer[first].layer->name);
}

enum ct_status ct_net_copy_weights(struct ct_net *net,
                                   const Caffe__NetParameter *from,
                                   const char *source)
{
    int n_matched = 0;

    ct_net_params_changed(net);
    for (size_t i = 0; i < from->n_layer; i++) {
        const char *name = from->layer[i]->name ? from->layer[i]->name : "";
        int target       = ct_net_find_layer(net, name);

        if (target < 0) {
            CT_INFO("Ignoring source layer %s", name);
        } else {
            CT_TRY(copy_layer(net->layer[target].layer, from->layer[i],
                              source));
            n_matched += net->layer[target].layer->n_blob > 0;
        }
    }
    warn_unmatched(net, source, n_matched);
    return CT_OK;
}

static enum ct_status load_hdf5_layer(struct ct_net *net, int layer,
                                      struct ct_hdf5 *h, const char *path)
{
    struct net_layer *nl = &net->layer[layer];
    struct ct_layer *l   = nl->layer;

    for (int i = 0; i < l->n_blob; i++) {
        struct ct_text name  = { 0 };
        struct ct_shape have = CT_SCALAR;
        const struct ct_net_param *owner = &net->params[nl->param_id[i]];
        enum ct_status st = CT_OK;

        ct_text_addf(&name, "/data/%s/%d", l->name, i);
        if (name.failed)
            return CT_ENOMEM;
        /* Files have a shared parameter once, at its owner. */
        if (!ct_hdf5_has(h, name.s)) {
            if (owner->layer == layer && owner->index == i)
                st = ct_fail(CT_ENOTFOUND, "%s: layer '%s' has no parameter "
                             "%d", path, l->name, i);
        } else if ((st = ct_hdf5_shape(h, name.s, &have)) == CT_OK) {
            if (!ct_shape_equal(&have, &l->blob[i]->shape))
                st = wrong_shape(path, l->name, i, &have, &l->blob[i]->shape);
            else
                st = ct_hdf5_load(h, name.s, l->blob[i], false);
        }
        ct_text_fini(&name);
        CT_TRY(st);
    }
    return CT_OK;
}

static enum ct_status load_hdf5(struct ct_net *net, const char *path)
{
    struct ct_hdf5 *h = NULL;
    int n_matched     = 0;
    enum ct_status st = CT_OK;

    CT_TRY(ct_hdf5_open(path, &h));
    if (!ct_hdf5_has(h, "/data"))
        st = ct_fail(CT_EPARSE, "%s holds no weights: there is no group "
                     "/data in it", path);
    ct_net_params_changed(net);
    for (int i = 0; i < net->n_layer && st == CT_OK; i++) {
        struct ct_text group = { 0 };

        ct_text_addf(&group, "/data/%s", net->layer[i].layer->name);
        if (group.failed)
            st = CT_ENOMEM;
        else if (ct_hdf5_has(h, group.s)) {
            st = load_hdf5_layer(net, i, h, path);
            n_matched += net->layer[i].layer->n_blob > 0;
        }
        ct_text_fini(&group);
    }
    (void)ct_hdf5_close(h);
    if (st == CT_OK)
        warn_unmatched(net, path, n_matched);
    return st;
}

enum ct_status ct_net_load(struct ct_net *net, const char *path)
{
    Caffe__NetParameter *from = NULL;
    enum ct_status st;

    CT_TRY(ct_file_expect(path));
    if (ct_hdf5_is(path))
        return load_hdf5(net, path);
    CT_TRY(ct_net_param_read_binary(path, &from));
    st = from->n_layer > 0 ? ct_net_copy_weights(net, from, path)
                           : ct_fail(CT_EPARSE, "%s holds no weights: it "
                                     "is empty or no caffemodel", path);
    ct_message_free(from);
    return st;
}

static enum ct_status share_layer(struct ct_layer *l, const struct ct_layer *o)
{
    if (l->n_blob != o->n_blob)
        return ct_fail(CT_ESHAPE, "layer '%s' has %d parameter(s) in one net "
                       "and %d in the other", l->name, l->n_blob, o->n_blob);
    for (int i = 0; i < l->n_blob; i++) {
        if (!ct_shape_equal(&l->blob[i]->shape, &o->blob[i]->shape))
            return wrong_shape("shared weights", l->name, i,
                               &o->blob[i]->shape, &l->blob[i]->shape);
        ct_blob_share_data(l->blob[i], o->blob[i]);
    }
    return CT_OK;
}

enum ct_status ct_net_share_weights(struct ct_net *net,
                                    const struct ct_net *from)
{
    bool all = true;

    ct_net_params_changed(net);
    for (int i = 0; i < net->n_layer; i++) {
        struct ct_layer *l = net->layer[i].layer;
        int source         = ct_net_find_layer(from, l->name);

        if (source >= 0)
            CT_TRY(share_layer(l, from->layer[source].layer));
        else
            all &= l->n_blob == 0;
    }
    /* No parameter uses the net's own arena any more. */
    if (all) {
        ct_buffer_drop(net->arena_data);
        net->arena_data = ct_buffer_use(from->arena_data);
    }
    return CT_OK;
}

static enum ct_status add_blobs(const struct ct_layer *l, bool with_diff,
                                Caffe__LayerParameter *to)
{
    while (to->n_blobs > 0)
        ct_edit_remove(&to->blobs, &to->n_blobs, to->n_blobs - 1);
    for (int i = 0; i < l->n_blob; i++) {
        Caffe__BlobProto *b;

        CT_TRY(ct_blob_to_proto(l->blob[i], with_diff, &b));
        if (ct_edit_insert(&to->blobs, &to->n_blobs, to->n_blobs, b) !=
            CT_OK) {
            ct_message_free(b);
            return CT_ENOMEM;
        }
    }
    return CT_OK;
}

enum ct_status ct_net_to_message(const struct ct_net *net, bool with_diff,
                                 Caffe__NetParameter **out)
{
    Caffe__NetParameter *m = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_edit_create(&caffe__net_parameter__descriptor, &m), st,
                out);
    CT_TRY_GOTO(ct_edit_string(&m->name, ct_net_name(net)), st, out);
    for (int i = 0; i < net->n_layer; i++) {
        Caffe__LayerParameter *l = NULL;

        CT_TRY_GOTO(ct_message_copy(net->param->layer[i], &l), st, out);
        st = ct_edit_insert(&m->layer, &m->n_layer, m->n_layer, l);
        if (st != CT_OK)
            ct_message_free(l);
        else
            st = add_blobs(net->layer[i].layer, with_diff, l);
        CT_TRY_GOTO(st, st, out);
    }
    *out = m;
    m    = NULL;
out:
    ct_message_free(m);
    return st;
}

enum ct_status ct_net_save(const struct ct_net *net, const char *path,
                           bool with_diff)
{
    Caffe__NetParameter *m = NULL;
    enum ct_status st;

    CT_TRY(ct_net_to_message(net, with_diff, &m));
    st = ct_binary_write(m, path);
    ct_message_free(m);
    return st;
}

/* Writes a dataset of the file from the copy `b` of a parameter. */
static enum ct_status save_blob(struct ct_hdf5 *h, const char *name,
                                const Caffe__BlobProto *b, bool diff)
{
    struct ct_shape shape = CT_SCALAR;

    CT_TRY(ct_blob_proto_shape(b, &shape));
    return ct_hdf5_write(h, name, shape, diff ? b->diff : b->data);
}

/* Writes the group of one layer with the parameters that it owns.  `name` is a
 * buffer for paths, because names of layers may have any length. */
static enum ct_status save_layer(const struct ct_net *net, int layer,
                                 const Caffe__LayerParameter *from,
                                 struct ct_hdf5 *h, const char *root,
                                 bool diff, struct ct_text *name)
{
    const struct ct_layer *l = net->layer[layer].layer;

    name->n_bytes = 0;
    ct_text_addf(name, "%s/%s", root, l->name);
    CT_TRY(name->failed ? CT_ENOMEM : ct_hdf5_add_group(h, name->s));
    for (int i = 0; i < l->n_blob; i++) {
        const struct ct_net_param *p =
            &net->params[net->layer[layer].param_id[i]];

        if (p->layer != layer || p->index != i ||
            (diff && from->blobs[i]->n_diff == 0))
            continue;
        name->n_bytes = 0;
        ct_text_addf(name, "%s/%s/%d", root, l->name, i);
        CT_TRY(name->failed ? CT_ENOMEM
                            : save_blob(h, name->s, from->blobs[i], diff));
    }
    return CT_OK;
}

static enum ct_status save_part(const struct ct_net *net,
                                const Caffe__NetParameter *from,
                                struct ct_hdf5 *h, const char *root, bool diff)
{
    struct ct_text name = { 0 };
    enum ct_status st   = ct_hdf5_add_group(h, root);

    for (int i = 0; i < net->n_layer && st == CT_OK; i++)
        st = save_layer(net, i, from->layer[i], h, root, diff, &name);
    ct_text_fini(&name);
    return st;
}

enum ct_status ct_net_message_hdf5(const struct ct_net *net,
                                   const Caffe__NetParameter *from,
                                   const char *path, bool with_diff)
{
    struct ct_hdf5 *h = NULL;
    char *temp        = NULL;
    enum ct_status st, closed;

    CT_TRY_GOTO(ct_file_temp(path, &temp), st, out);
    CT_TRY_GOTO(ct_hdf5_create(temp, &h), st, out);
    st = save_part(net, from, h, "data", false);
    if (st == CT_OK && with_diff && net->arena_diff)
        st = save_part(net, from, h, "diff", true);
    closed = ct_hdf5_close(h);
    CT_TRY_GOTO(st != CT_OK ? st : closed, st, out);
    st = ct_file_commit(temp, path);
out:
    if (st != CT_OK && temp)
        ct_file_discard(temp);
    ct_free(temp);
    return st;
}

enum ct_status ct_net_save_hdf5(const struct ct_net *net, const char *path,
                                bool with_diff)
{
    Caffe__NetParameter *m = NULL;
    enum ct_status st;

    CT_TRY(ct_net_to_message(net, with_diff, &m));
    st = ct_net_message_hdf5(net, m, path, with_diff);
    ct_message_free(m);
    return st;
}
