/* test_impl.c - CORTADO_IMPL: what it may say, and what that means. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/impl.h"
#include "device/kernels.h"
#include "testing/test.h"

static void unset(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
}

static void set(const char *text)
{
    test_defer(unset, NULL);
    ASSERT(setenv("CORTADO_IMPL", text, 1) == 0);
}

static void refused(const char *text, const char *because)
{
    set(text);
    ASSERT_STATUS(CT_EINVAL, ct_impl_check());
    ASSERT_HAS("CORTADO_IMPL: ", ct_last_error());
    ASSERT_HAS(because, ct_last_error());
    ASSERT_HAS("'cortado impl' explains them", ct_last_error());
}

TEST(impl, unset_and_empty_leave_everything_as_usual)
{
    static const char *const nothing[] = { NULL, "", ",", ",," };

    for (int i = 0; i < 4; i++) {
        if (nothing[i])
            set(nothing[i]);
        else
            unset(NULL);
        ASSERT_OK(ct_impl_check());
        ASSERT(ct_impl_allowed("conv", "ref"));
        ASSERT(ct_impl_allowed("fuse", "layers"));
        ASSERT(!ct_impl_allowed("fuse", "none"));
        ASSERT(ct_impl_allowed("engines", "any"));
        ASSERT(!ct_impl_allowed("engines", "repeating"));
        ASSERT(!ct_impl_forced("conv"));
        ASSERT(ct_impl_number("chain") == 0);
    }
    ASSERT(ct_impl_asked());
    set("");
    ASSERT(!ct_impl_asked());
}

/* They become usual when tests/gpu/run has passed with them. */
TEST(impl, ways_that_have_not_run_on_a_gpu_are_not_usual)
{
    static const char *const ways[][2] = {
        { "mask", "next" }, { "mask", "all" },         { "clamp", "pool" },
        { "ends", "conv" }, { "ends", "faster" },      { "thin", "conv" },
        { "norms", "one" }, { "product", "shared" },   { "rounding", "large" },
        { "weights", "ahead" },
    };

    unset(NULL);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        ASSERT(!ct_impl_allowed(ways[i][0], ways[i][1]));
}

TEST(impl, each_key_is_forced_by_its_own_item)
{
    set("conv:gemm,,pool:ref,");
    ASSERT_OK(ct_impl_check());
    ASSERT(ct_impl_forced("conv"));
    ASSERT(ct_impl_forced("pool"));
    ASSERT(!ct_impl_forced("lrn"));
    ASSERT(ct_impl_allowed("conv", "gemm"));
    ASSERT(!ct_impl_allowed("conv", "ref"));
    ASSERT(ct_impl_allowed("pool", "ref"));
    ASSERT(!ct_impl_allowed("pool", "rows"));
    ASSERT(ct_impl_allowed("lrn", "onednn"));
    ASSERT(ct_impl_allowed("fuse", "layers"));
    set("fuse:none");
    ASSERT_OK(ct_impl_check());
    ASSERT(!ct_impl_allowed("fuse", "layers"));
    ASSERT(ct_impl_allowed("fuse", "none"));
}

TEST(impl, a_plus_allows_several_values)
{
    set("conv:tiles+gemm,pool:ref,update:early+late");
    ASSERT_OK(ct_impl_check());
    ASSERT(ct_impl_allowed("conv", "tiles"));
    ASSERT(ct_impl_allowed("conv", "gemm"));
    ASSERT(!ct_impl_allowed("conv", "ref"));
    ASSERT(!ct_impl_allowed("conv", "onednn"));
    ASSERT(ct_impl_allowed("update", "early"));
    ASSERT(ct_impl_allowed("update", "late"));
    refused("conv:tiles+gem", "conv has no value 'gem'; did you mean 'gemm'?");
    refused("conv:tiles+", "conv has no value ''");
    refused("conv:+tiles", "conv has no value ''");
    refused("conv:tiles++gemm", "conv has no value ''");
    refused("fuse:layers+none", "fuse takes one value");
    refused("chain:none+4", "chain takes one value");
}

TEST(impl, an_unknown_key_is_refused_with_the_known_ones)
{
    refused("fuze:none", "unknown key 'fuze'; did you mean 'fuse'?");
    ASSERT_HAS("Its keys: conv, pool, lrn, ", ct_last_error());
    ASSERT_HAS(", mirror, tree, factors", ct_last_error());
    refused("conv:gemm, pool:ref", "unknown key ' pool'; did you mean 'pool'");
    refused("con:gemm", "unknown key 'con'; did you mean 'conv'?");
    refused("convs:gemm", "unknown key 'convs'");
    refused(":gemm", "unknown key ''");
    refused("conv=gemm", "unknown key 'conv=gemm'");
    refused("pool:ref,nothing like it:1", "unknown key 'nothing like it'");
    ASSERT(!strstr(ct_last_error(), "did you mean"));
}

TEST(impl, an_unknown_value_is_refused_with_those_of_its_key)
{
    refused("fuse:nnoe", "fuse has no value 'nnoe'; did you mean 'none'? "
            "Its values: layers, none. ");
    refused("pool:ref,conv:fastest", "conv has no value 'fastest'");
    ASSERT_HAS("'fastest'. Its values: amx, bf16, ", ct_last_error());
    refused("conv:gemms", "did you mean 'gemm'?");
    refused("conv", "conv has no value behind it");
    refused("conv:", "conv has no value behind it");
    refused("conv:gemm:ref", "conv has no value 'gemm:ref'");
    refused("pool:gemm", "pool has no value 'gemm'");
    refused("conv:gemm,conv:ref", "conv is named twice");
}

TEST(impl, a_number_stands_where_the_table_has_one)
{
    set("pool:ref,chain:12");
    ASSERT_OK(ct_impl_check());
    ASSERT(ct_impl_number("chain") == 12);
    ASSERT(!ct_impl_allowed("chain", "none"));
    ASSERT(!ct_impl_allowed("chain", "auto"));
    set("chain:none");
    ASSERT_OK(ct_impl_check());
    ASSERT(ct_impl_number("chain") == 0);
    ASSERT(ct_impl_allowed("chain", "none"));
    refused("chain:N", "Its values: auto, none, a number from 1");
    refused("chain:0", "chain has no value '0'");
    refused("chain:-3", "chain has no value '-3'");
    refused("chain:3x", "chain has no value '3x'");
    refused("chain:99999999999", "chain has no value '99999999999'");
    refused("fuse:3", "fuse has no value '3'");
}

TEST(impl, a_long_text_is_refused_with_the_whole_list)
{
    char text[4096];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    refused(text, ", mirror, tree, factors");
}

TEST(impl, the_table_is_whole)
{
    const char *key = NULL;
    int n_values = 0, n_usual = 0;

    ASSERT(ct_impl_table[0].key);
    for (int i = 0; i < ct_impl_n_rows; i++) {
        const struct ct_impl_row *r = &ct_impl_table[i];

        ASSERT(!r->key != !r->value);
        ASSERT(r->meaning && *r->meaning);
        for (int j = i + 1; j < ct_impl_n_rows; j++) {
            const struct ct_impl_row *other = &ct_impl_table[j];

            if (r->value && other->key)
                break;
            ASSERT(!(r->key && other->key && !strcmp(r->key, other->key)));
            ASSERT(!(r->value && other->value &&
                     !strcmp(r->value, other->value)));
        }
        if (r->key) {
            ASSERT(i == 0 || (n_values > 1 && n_usual > 0));
            ASSERT(r->usual && *r->usual);
            ASSERT(r->group < CT_IMPL_GROUPS);
            key      = r->key;
            n_values = n_usual = 0;
            continue;
        }
        n_values++;
        n_usual += r->allowed;
        unset(NULL);
        if (strcmp(r->value, "N") != 0)
            ASSERT(ct_impl_allowed(key, r->value) == r->allowed);
    }
    ASSERT(n_values > 1 && n_usual > 0);
}

/* The signal that ends a process which asks; 0: none. */
static int ended_by(const char *key, const char *value)
{
    int status      = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        (void)ct_impl_allowed(key, value);
        _exit(0);
    }
    ASSERT(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(impl, code_that_asks_for_what_the_table_lacks_stops)
{
    ASSERT(ended_by("conv", "ref") == 0);
    ASSERT(ended_by("conv", "refs") == SIGABRT);
    ASSERT(ended_by("con", "ref") == SIGABRT);
    ASSERT(ended_by("fuse", "") == SIGABRT);
}

static void unset_core(void *unused)
{
    (void)unused;
    unsetenv("OPENBLAS_CORETYPE");
}

/* OpenBLAS has read it when the process began: here it is a word only. */
TEST(impl, what_a_user_forces_openblas_to_is_left_to_it)
{
    char words[256];

    if (getenv("OPENBLAS_CORETYPE"))
        test_skip("OPENBLAS_CORETYPE is set");
    if (strstr(ct_cpu_kernels(words, sizeof(words)), " Prescott,") &&
        __builtin_cpu_supports("avx2"))
        ASSERT(!ct_cpu_blas_is_current());
    test_defer(unset_core, NULL);
    ASSERT(setenv("OPENBLAS_CORETYPE", "Prescott", 1) == 0);
    ASSERT(ct_cpu_blas_is_current());
}
