/* cmd_summary.c - `cortado summary MODEL`: the net as a table. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "help.h"
#include "net_flags.h"

static enum ct_status summarise(const struct net_flags *f, const char *path)
{
    bool test = !f->phase || strcmp(f->phase, "TRAIN") != 0;
    struct ct_net_options o = net_flags_options(
        f, test ? CAFFE__PHASE__TEST : CAFFE__PHASE__TRAIN);
    struct ct_net *net = NULL;
    char *table = NULL;
    enum ct_status st;

    if (f->phase && strcmp(f->phase, "TRAIN") != 0 &&
        strcmp(f->phase, "TEST") != 0)
        return ct_fail(CT_EINVAL, "--phase is TRAIN or TEST, not '%s'",
                       f->phase);
    o.quiet        = true;
    o.forward_only = test;
    CT_TRY(ct_net_create_file(path, &o, &net));
    st = ct_net_summary(net, &table);
    if (st == CT_OK)
        fputs(table, stdout);
    ct_free(table);
    ct_net_destroy(net);
    return st;
}

int cmd_summary(int argc, char **argv)
{
    struct net_flags f = { 0 };
    const struct flag flags[] = {
        NET_FLAGS(f),
        FLAG("phase", &f.phase),
        FLAG_END,
    };
    bool helped;
    enum ct_status st;

    ct_log_set_level(CT_LOG_WARNING);
    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc != 2) {
        help_usage(stderr, command_named("summary"));
        return EXIT_USAGE;
    }
    st = net_flags_apply(&f);
    if (st == CT_OK)
        st = summarise(&f, argv[1]);
    net_flags_fini(&f);
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
