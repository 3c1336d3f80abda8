/* cmd_impl.c - `cortado impl`: the table of CORTADO_IMPL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "device/impl.h"
#include "flags.h"
#include "help.h"

enum { VALUE_COLUMN = 4, USUAL_COLUMN = 6, MEANING_COLUMN = 15 };

static const char *const group_name[CT_IMPL_GROUPS] = {
    [CT_IMPL_OPERATIONS] = "Operations",
    [CT_IMPL_NETS]       = "Nets and solvers",
    [CT_IMPL_GPUS]       = "GPUs",
    [CT_IMPL_RANKS]      = "Between ranks",
};

static void print_key(const struct ct_impl_row *r)
{
    printf("\n%s: %s\n%*susual:", r->key, r->meaning, USUAL_COLUMN, "");
    help_wrapped(stdout, r->usual, USUAL_COLUMN, USUAL_COLUMN + 6);
}

static void print_value(const char *key, const struct ct_impl_row *r)
{
    const int n         = ct_impl_number(key);
    const bool number   = strcmp(r->value, "N") == 0;
    const bool in_force = number ? n > 0 : ct_impl_allowed(key, r->value);
    char name[32];

    snprintf(name, sizeof(name), number && n > 0 ? "%s=%d" : "%s", r->value,
             n);
    printf("  %s %-*s", !r->built ? "-" : in_force ? "*" : " ",
           MEANING_COLUMN - VALUE_COLUMN, name);
    help_wrapped(stdout, r->meaning, MEANING_COLUMN, MEANING_COLUMN);
}

int cmd_impl(int argc, char **argv)
{
    const struct flag flags[] = { FLAG_END };
    const char *variable      = getenv("CORTADO_IMPL");
    const char *key           = NULL;
    int group                 = -1;
    enum ct_status st;
    bool helped;

    if (!flags_parse(flags, &argc, argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (argc > 1) {
        help_usage(stderr, command_named("impl"));
        return EXIT_USAGE;
    }
    if (variable && *variable)
        printf("CORTADO_IMPL is %s\n", variable);
    else
        printf("CORTADO_IMPL is not set\n");
    printf("* in force: may be used    - not in this build\n");
    for (int i = 0; i < ct_impl_n_rows; i++) {
        const struct ct_impl_row *r = &ct_impl_table[i];

        if (r->key && (int)r->group != group) {
            group = (int)r->group;
            printf("\n%s\n", group_name[group]);
        }
        if (r->key) {
            key = r->key;
            print_key(r);
        } else {
            print_value(key, r);
        }
    }
    st = ct_impl_check();
    return st == CT_OK ? EXIT_DONE : command_failed(st);
}
