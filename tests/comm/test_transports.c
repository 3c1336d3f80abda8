/* test_transports.c - the list of transports, and the choice among them. */
#include <stdlib.h>

#include "base/text.h"
#include "comm/transport/transports.h"
#include "testing/test.h"

/* What a launcher says; NULL: there is none.  The status and the type of
 * `name` under it. */
static enum ct_status choose(const char *n_processes, const char *name,
                             const struct ct_transport_type **out)
{
    static const char *const variable[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS",
        "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "FLUX_JOB_SIZE",
        "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "CORTADO_DISTRIBUTED",
    };
    enum ct_status st;

    for (size_t i = 0; i < sizeof(variable) / sizeof(variable[0]); i++)
        unsetenv(variable[i]);
    if (n_processes)
        setenv("OMPI_COMM_WORLD_SIZE", n_processes, 1);
    st = ct_transport_choose(name, out);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    return st;
}

TEST(transports, auto_is_what_the_launcher_started_or_alone)
{
    const struct ct_transport_type *type = NULL;

    ASSERT_OK(choose(NULL, "auto", &type));
    ASSERT_STR("alone", type->name);
    ASSERT_OK(choose("1", "auto", &type));
    ASSERT_STR("alone", type->name);
    ASSERT_OK(choose("4", "auto", &type));
    ASSERT_STR("mpi", type->name);
    ASSERT_OK(choose("4", "mpi", &type));
    ASSERT_STR("mpi", type->name);
}

/* Each of them would train by itself and overwrite the others' files. */
TEST(transports, ranks_that_a_launcher_started_are_not_left_by_themselves)
{
    static const char *const one_rank[] = { "loopback", "alone" };
    const struct ct_transport_type *type = NULL;

    for (int i = 0; i < 2; i++) {
        ASSERT_OK(choose(NULL, one_rank[i], &type));
        ASSERT_STR(one_rank[i], type->name);
        ASSERT_STATUS(CT_EINVAL, choose("2", one_rank[i], &type));
        ASSERT_HAS(one_rank[i], ct_last_error());
        ASSERT_HAS("CORTADO_DISTRIBUTED=0", ct_last_error());
    }
}

TEST(transports, an_unknown_name_gets_the_list)
{
    static const char *const name[] = {
#define CT_TRANSPORT(file) #file,
#include "comm/transport/transports.def"
#undef CT_TRANSPORT
    };
    const struct ct_transport_type *type = NULL;
    struct ct_text text = { 0 };

    ASSERT_STATUS(CT_EINVAL, choose(NULL, "pigeon", &type));
    ASSERT_HAS("--transport=pigeon", ct_last_error());
    ct_transport_choices(&text);
    ASSERT_HAS(text.s, ct_last_error());
    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        type = ct_transport_find(name[i]);
        ASSERT(type && type->create && type->about);
        ASSERT_HAS(name[i], text.s);
        ASSERT_HAS(type->about, text.s);
    }
    ct_text_fini(&text);
}

TEST(transports, one_rank_comes_by_name)
{
    static const char *const name[] = { "loopback", "alone" };
    char text[64];

    for (int i = 0; i < 2; i++) {
        struct ct_transport *t = NULL, *subset = NULL, *limit = NULL;

        ASSERT_OK(ct_transport_open(name[i], &t));
        ASSERT_STR(name[i], t->type->name);
        ASSERT_INT(0, t->rank);
        ASSERT_INT(1, t->size);
        ASSERT_STR("none", ct_transport_version(t->type, text, sizeof(text)));
        ASSERT_STR("none", ct_transport_thread_level(t->type));
        ASSERT(!ct_transport_takes_gpu_memory(t->type));
        /* What stands before a transport is of its type. */
        ASSERT_OK(ct_subset_create(t, 0, 1, &subset));
        ASSERT(subset->type == t->type);
        subset->ops->destroy(subset);
        ASSERT_OK(ct_limit_create(t, 1e9, NULL, NULL, &limit));
        ASSERT_STR(name[i], limit->type->name);
        limit->ops->destroy(limit);
    }
    ASSERT(!ct_transports_left_open());
}
