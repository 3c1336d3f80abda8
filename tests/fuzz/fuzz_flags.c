/* fuzz_flags.c - any command line: its first line is the command, each line
 * behind it an argument.
 *
 * A flag's value goes where its kind says.  What is taken of the flags of ranks
 * becomes a plan for four ranks, or a clear refusal.  Values have no slash, so
 * that --log_dir names no folder that there is. */
#include <string.h>

#include "../../apps/command.h"
#include "../../apps/dist_flags.h"
#include "../../apps/flag_table.h"
#include "../../apps/flags.h"
#include "../../apps/help.h"
#include "../../apps/launch.h"
#include "base/mem.h"
#include "base/units.h"
#include "dist/plan/plan.h"
#include "fuzz_file.h"

enum { MOST_FLAGS = 256, MOST_WORDS = 64 };

/* The program's other files, which print and start things. */
const struct command *command_named(const char *name)
{
    (void)name;
    return NULL;
}

void help_command(FILE *to, const struct command *c)
{
    (void)to, (void)c;
}

void launch_await_turn(void)
{
}

union place {
    const char *text;
    int         whole;
    double      real;
    bool        on;
};

static enum flag_place place_for(const struct flag_info *f)
{
    return f->kind == FLAG_INT      ? PLACE_INT
           : f->kind == FLAG_DOUBLE ? PLACE_DOUBLE
           : f->kind == FLAG_SWITCH ? PLACE_BOOL
                                    : PLACE_TEXT;
}

/* Every flag that the command has; those of ranks go to `d`. */
static void list_flags(const char *command, struct dist_flags *d,
                       union place *place, struct flag *out)
{
    const struct flag of_ranks[] = { DIST_FLAGS(*d) };
    const size_t n_of_ranks = sizeof(of_ranks) / sizeof(of_ranks[0]);
    int n = 0;

    for (int i = 0; i < n_flag_table && n < MOST_FLAGS - 1; i++) {
        const struct flag_info *f = &flag_table[i];

        if (f->group == GROUP_LOG || !flag_is_of(f, command))
            continue;
        out[n] = (struct flag){ f->name, place_for(f), &place[n] };
        for (size_t k = 0; k < n_of_ranks; k++)
            if (strcmp(of_ranks[k].name, f->name) == 0)
                out[n] = of_ranks[k];
        n++;
    }
    out[n] = (struct flag)FLAG_END;
}

static void make_plan(const struct dist_flags *d)
{
    const struct dist_facts facts = { .size = 4, .n_hosts = 2,
                                      .iter_size = 1, .learns = true };
    Caffe__DistributedParameter *o = NULL;
    struct dist_plan plan;
    struct ct_text text = { 0 };
    double x;

    if (dist_flags_merge(d, NULL, &o) != CT_OK ||
        dist_resolve(o, &facts, &plan) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    else
        dist_plan_explain(&plan, o, &facts, &text);
    ct_text_fini(&text);
    ct_message_free(o);
    if (d->bandwidth && (ct_parse_seconds(d->bandwidth, &x) == CT_OK ||
                         ct_parse_flops(d->bandwidth, &x) == CT_OK))
        CT_ASSERT(x >= 0);
}

/* Cuts `text` into words; returns how many. */
static int cut(char *text, char **word)
{
    int n = 0;

    while (text && n < MOST_WORDS)
        word[n++] = strsep(&text, "\n");
    word[n] = NULL;
    return n;
}

static bool is_command(const char *name)
{
    for (int i = 0; i < n_flag_table; i++)
        if (flag_table[i].commands[0] && name[0] &&
            flag_is_of(&flag_table[i], name))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    union place place[MOST_FLAGS] = { { 0 } };
    struct flag flags[MOST_FLAGS];
    struct dist_flags d = { 0 };
    char *text = ct_calloc(n_bytes + 1, 1, "words"), *word[MOST_WORDS + 1];
    bool helped = false;
    int n;

    ct_log_set_level(CT_LOG_NONE);
    memcpy(text, data, n_bytes);
    n = cut(text, word);
    if (!memchr(data, '/', n_bytes) && is_command(word[0])) {
        list_flags(word[0], &d, place, flags);
        if (flags_parse(flags, &n, word, &helped)) {
            const char **list = NULL;

            CT_ASSERT(n >= 1 && !helped);
            make_plan(&d);
            if (d.shares)
                (void)flags_list((char *)d.shares, &list);
            ct_free(list);
        }
    }
    ct_free(text);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
