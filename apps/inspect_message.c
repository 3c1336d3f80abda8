/* inspect_message.c - the pages of prototxt, caffemodel, solverstate and
 * binaryproto. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "core/blob_proto.h"
#include "inspect.h"

static const char *text_or(const char *s, const char *otherwise)
{
    return s && s[0] ? s : otherwise;
}

static int64_t blob_count(const Caffe__BlobProto *b)
{
    return (int64_t)(b->n_double_data ? b->n_double_data : b->n_data);
}

/* One line; false when the values are not as many as the shape says. */
static bool print_blob(const char *before, const Caffe__BlobProto *b)
{
    struct ct_shape shape;
    char text[128] = "a shape that makes no sense";
    int64_t n      = blob_count(b);
    bool fits      = ct_blob_proto_shape(b, &shape) == CT_OK;
    struct inspect_values v = inspect_values(
        b->data, b->n_double_data ? b->double_data : NULL, n);

    if (fits)
        ct_shape_text(&shape, text, sizeof(text));
    fits = fits && ct_shape_count(&shape, 0, CT_END) == n;
    printf("%s%-24s ", before, text);
    if (fits)
        inspect_print_values(&v);
    else
        printf("DAMAGED: %" PRId64 " values\n", n);
    return fits;
}

static const char *net_format(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layers; i++)
        if (net->layers[i]->layer)
            return ", V0 format";
    return net->n_layers ? ", V1 format" : "";
}

static void print_names(const char *before, size_t n, char *const *name)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i ? ", " : before, name[i]);
}

static const char *layer_phase(const Caffe__LayerParameter *l)
{
    for (size_t i = 0; i < l->n_include; i++)
        if (l->include[i]->has_phase)
            return l->include[i]->phase == CAFFE__PHASE__TRAIN ? "TRAIN"
                                                               : "TEST";
    return "";
}

static void print_layers(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];

        printf("  %-24s %-20s %-5s", text_or(l->name, "(no name)"),
               text_or(l->type, "(no type)"), layer_phase(l));
        print_names(" ", l->n_bottom, l->bottom);
        print_names(" -> ", l->n_top, l->top);
        putchar('\n');
    }
}

/* Layers with their blobs; returns how many blobs are not whole. */
static int print_weights(const Caffe__NetParameter *net)
{
    int64_t n_values = 0;
    int n_blobs = 0, n_bad = 0;
    char size[32];

    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];

        for (size_t k = 0; k < l->n_blobs; k++) {
            if (k == 0)
                printf("  %s (%s)\n", text_or(l->name, "(no name)"),
                       text_or(l->type, "no type"));
            n_bad += !print_blob("    ", l->blobs[k]);
            n_values += blob_count(l->blobs[k]);
            n_blobs++;
        }
    }
    printf("layers: %zu, blobs: %d, parameters: %" PRId64 ", %s of floats\n",
           net->n_layer, n_blobs, n_values,
           inspect_bytes(4 * n_values, size, sizeof(size)));
    return n_bad;
}

static enum ct_status page_net(struct inspect *in, Caffe__NetParameter *net,
                               bool binary)
{
    const char *format = net_format(net);

    printf("%s: %s \"%s\"%s\n", in->path, binary ? "caffemodel of net"
           : "net", text_or(net->name, ""), format);
    CT_TRY(ct_upgrade_net(net, in->path));
    if (binary) {
        in->whole = print_weights(net) == 0;
    } else {
        print_layers(net);
        printf("layers: %zu; `cortado summary` builds the net and shows "
               "shapes\n", net->n_layer);
    }
    return CT_OK;
}

static void page_file(const char *what, const char *path)
{
    if (path && path[0])
        printf("%-12s %s%s\n", what, path,
               ct_file_exists(path) ? "" : " (not found from here)");
}

static enum ct_status page_state(struct inspect *in, Caffe__SolverState *s)
{
    printf("%s: solverstate after iteration %d\n", in->path, s->iter);
    page_file("weights", s->learned_net);
    printf("%-12s %d\n", "lr step", s->current_step);
    if (s->n_n_passes)
        printf("%-12s %" PRId64 " batches drawn by the train net\n",
               "position", s->n_passes[0]);
    if (s->has_seed)
        printf("%-12s %" PRId64 "\n", "seed", s->seed);
    printf("%-12s %zu blobs\n", "history", s->n_history);
    for (size_t i = 0; i < s->n_history; i++)
        in->whole &= print_blob("  ", s->history[i]);
    for (size_t i = 0; i < s->n_state; i++) {
        printf("  state of %s\n",
               i < s->n_state_name ? s->state_name[i] : "a layer");
        in->whole &= print_blob("    ", s->state[i]);
    }
    return CT_OK;
}

static enum ct_status page_blob(struct inspect *in, Caffe__BlobProto *b)
{
    int64_t n = blob_count(b), plane = (int64_t)b->height * b->width;

    printf("%s: binaryproto, one blob%s\n", in->path,
           b->has_num ? " in the old form (num, channels, height, width)" : "");
    in->whole = print_blob("  ", b);
    if (!in->whole || !b->has_channels || b->num != 1 || b->channels > 4 ||
        !b->n_data || n != plane * b->channels)
        return CT_OK;
    for (int c = 0; c < b->channels; c++) {
        struct inspect_values v =
            inspect_values(b->data + c * plane, NULL, plane);

        printf("  channel %-16d ", c);
        inspect_print_values(&v);
    }
    return CT_OK;
}

static enum ct_status page_solver(struct inspect *in,
                                  Caffe__SolverParameter *s)
{
    char *text = NULL;

    printf("%s: solver\n", in->path);
    page_file("net", s->net);
    page_file("train_net", s->train_net);
    for (size_t i = 0; i < s->n_test_net; i++)
        page_file("test_net", s->test_net[i]);
    if (s->has_solver_type)
        printf("%-12s solver_type: upgrade_solver_proto_text brings it up to "
               "date\n", "old form");
    CT_TRY(ct_text_print(s, &text));
    printf("\n%s", text);
    ct_free(text);
    return CT_OK;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

/* A file that reads as neither is more likely the one its name says, so that
 * one's complaint is given. */
enum ct_status inspect_text(struct inspect *in)
{
    const ProtobufCMessageDescriptor *const net =
        &caffe__net_parameter__descriptor;
    const ProtobufCMessageDescriptor *const solver =
        &caffe__solver_parameter__descriptor;
    const char *name = strrchr(in->path, '/');
    bool first       = !strstr(name ? name : in->path, "solver");
    void *m          = NULL;
    enum ct_status st;

    for (int i = 0; i < 3; i++) {
        bool is_net = (i != 1) == first; /* and the first once more */

        st = ct_text_read(is_net ? net : solver, in->path, &m);
        if (st == CT_OK) {
            st = is_net ? page_net(in, m, false) : page_solver(in, m);
            break;
        }
    }
    ct_message_free(m);
    return st;
}

enum kind { KIND_MODEL, KIND_STATE, KIND_BLOB, N_KINDS };

static const struct {
    const char *suffix, *name;
    const ProtobufCMessageDescriptor *type;
} kinds[N_KINDS] = {
    [KIND_MODEL] = { ".caffemodel", "caffemodel",
                     &caffe__net_parameter__descriptor },
    [KIND_STATE] = { ".solverstate", "solverstate",
                     &caffe__solver_state__descriptor },
    [KIND_BLOB]  = { ".binaryproto", "binaryproto",
                     &caffe__blob_proto__descriptor },
};

/* Any message may read as another one with everything unknown. */
static bool has_content(enum kind kind, const void *m)
{
    const Caffe__NetParameter *net = m;
    const Caffe__SolverState *state = m;

    switch (kind) {
    case KIND_MODEL:
        return net->n_layer + net->n_layers > 0;
    case KIND_STATE:
        return state->has_iter;
    default:
        return blob_count(m) > 0;
    }
}

enum ct_status inspect_binary(struct inspect *in)
{
    int from = 0, to = N_KINDS, k;
    enum ct_status st = CT_OK;
    void *m = NULL;

    for (k = 0; k < N_KINDS; k++)
        if (ends_with(in->path, kinds[k].suffix)) {
            from = k;
            to   = k + 1;
        }
    for (k = from; k < to; k++) {
        st = ct_binary_read(kinds[k].type, in->path, &m);
        if (st == CT_OK && has_content((enum kind)k, m))
            break;
        ct_message_free(m);
        m = NULL;
    }
    if (k == to && to - from == 1)
        return ct_fail_in(st == CT_OK ? ct_fail(CT_EPARSE, "nothing in it")
                                      : st, "%s: damaged %s", in->path,
                          kinds[from].name);
    if (k == to)
        return ct_fail(CT_EPARSE, "%s is damaged, or no file of Caffe's: it "
                       "does not read as caffemodel, solverstate or "
                       "binaryproto", in->path);
    st = k == KIND_MODEL   ? page_net(in, m, true)
         : k == KIND_STATE ? page_state(in, m)
                           : page_blob(in, m);
    ct_message_free(m);
    return st;
}
