/* cmd_draw.c - `cortado draw`: a net as a picture. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "command.h"
#include "help.h"
#include "net/phase.h"
#include "net_flags.h"
#include "observe/draw.h"
#include "picture.h"

struct draw_flags {
    struct net_flags net;
    const char      *layout;
};

/* The layers that the phase has; --phase=ALL: every layer. */
static enum ct_status read_net(const struct draw_flags *f, const char *path,
                               Caffe__NetParameter **out)
{
    const char *phase = f->net.phase ? f->net.phase : "TRAIN";
    const bool test   = strcmp(phase, "TEST") == 0;
    struct ct_net_options o = net_flags_options(
        &f->net, test ? CAFFE__PHASE__TEST : CAFFE__PHASE__TRAIN);
    Caffe__NetParameter *all = NULL;
    enum ct_status st;

    if (!test && strcmp(phase, "TRAIN") != 0 && strcmp(phase, "ALL") != 0)
        return ct_fail(CT_EINVAL, "--phase is TRAIN, TEST or ALL, not '%s'",
                       phase);
    CT_TRY(ct_net_param_read(path, &all));
    if (strcmp(phase, "ALL") == 0) {
        *out = all;
        return CT_OK;
    }
    st = net_filter(all, &o, out);
    ct_message_free(all);
    return st;
}

static enum ct_status draw_graphviz(const Caffe__NetParameter *net,
                                    struct ct_text *svg)
{
    struct ct_text dot = { 0 };
    enum ct_status st  = ct_draw_dot(net, &dot);

    if (st == CT_OK)
        st = ct_render_dot(&dot, svg);
    ct_text_fini(&dot);
    return st;
}

static enum ct_status draw_net(const char *layout,
                               const Caffe__NetParameter *net,
                               struct ct_text *svg)
{
    enum ct_status st;

    if (strcmp(layout, "own") == 0)
        return ct_draw_net(net, svg);
    if (strcmp(layout, "graphviz") == 0)
        return draw_graphviz(net, svg);
    if (strcmp(layout, "auto") != 0)
        return ct_fail(CT_EINVAL, "--layout is auto, own or graphviz, not "
                       "'%s'", layout);
    st = draw_graphviz(net, svg);
    return st == CT_ENOTSUP ? ct_draw_net(net, svg) : st;
}

static enum ct_status draw(const struct draw_flags *f, const char *from,
                           const char *to)
{
    Caffe__NetParameter *net = NULL;
    struct ct_text picture   = { 0 };
    const char *end          = strrchr(to, '.');
    enum ct_status st        = read_net(f, from, &net);

    if (st == CT_OK && end && strcmp(end, ".dot") == 0) {
        st = ct_draw_dot(net, &picture);
        if (st == CT_OK)
            st = ct_file_write(to, picture.s, picture.n_bytes);
    } else if (st == CT_OK) {
        st = draw_net(f->layout, net, &picture);
        if (st == CT_OK)
            st = picture_write(&picture, to);
    }
    ct_text_fini(&picture);
    ct_message_free(net);
    return st == CT_EINVAL ? ct_fail_in(st, "%s", from) : st;
}

int cmd_draw(int argc, char **argv)
{
    struct draw_flags f = { .layout = "auto" };
    const struct flag flags[] = {
        FLAG("phase", &f.net.phase),
        FLAG("level", &f.net.level),
        FLAG("stage", &f.net.stage),
        FLAG("layout", &f.layout),
        FLAG_END,
    };
    enum ct_status st;
    bool helped;

    ct_log_set_level(CT_LOG_WARNING);
    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 3) {
        fprintf(stderr, "cortado draw: needs a net and a file to write\n");
        help_usage(stderr, command_named("draw"));
        return EXIT_USAGE;
    }
    st = net_flags_apply(&f.net);
    if (st == CT_OK)
        st = draw(&f, argv[1], argv[2]);
    net_flags_fini(&f.net);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
