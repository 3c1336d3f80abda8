/* fuzz_environment.c - any values of environment variables.
 *
 * A line NAME=VALUE sets one; everybody who reads such variables then looks.
 * Values have no slash, and folders are below one that there is not, so that
 * nothing is written anywhere. */
#include <string.h>

#include "../../apps/log_lines.h"
#include "base/mem.h"
#include "comm/transport/tcp.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "cortado/net.h"
#include "device/choice.h"
#include "device/impl.h"
#include "fuzz_file.h"

static const char *const names[] = {
    "CORTADO_IMPL", "CORTADO_TUNE", "CORTADO_CACHE", "CORTADO_PLUGINS",
    "CORTADO_PYTHON_PLUGIN", "CORTADO_DISTRIBUTED", "CORTADO_INTERFACE",
    "XDG_CACHE_HOME", "HOME", "TMPDIR", "GLOG_minloglevel",
    "GLOG_stderrthreshold", "GLOG_log_dir", "GLOG_logtostderr",
    "GLOG_alsologtostderr", "GLOG_colorlogtostderr", "GLOG_log_prefix",
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
    "MPI_LOCALNRANKS", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
    "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_SIZE",
    "JSM_NAMESPACE_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_RANK",
};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

static bool is_folder(const char *name)
{
    return strcmp(name, "XDG_CACHE_HOME") == 0 || strcmp(name, "HOME") == 0 ||
           strcmp(name, "TMPDIR") == 0;
}

static void set_variable(const char *name, const char *value)
{
    char folder[512];

    snprintf(folder, sizeof(folder), "/nowhere/%.400s", value);
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(name, names[i]) == 0)
            setenv(name, is_folder(name) ? folder : value, 1);
}

static void set_variables(char *text)
{
    char *line, *value;

    for (int i = 0; i < N_NAMES; i++)
        unsetenv(names[i]);
    setenv("CORTADO_TUNE", "off", 1);
    while ((line = strsep(&text, "\n"))) {
        value = strchr(line, '=');
        if (!value || strchr(value, '/'))
            continue;
        *value++ = '\0';
        set_variable(line, value);
    }
}

static void look_at_switches(void)
{
    const char *key = NULL;
    const bool good = ct_impl_check() == CT_OK;

    if (!good)
        CT_ASSERT(ct_last_error()[0]);
    for (int i = 0; i < ct_impl_n_rows; i++) {
        const struct ct_impl_row *r = &ct_impl_table[i];

        if (r->key) {
            key = r->key;
            CT_ASSERT(ct_impl_number(key) >= 0);
            CT_ASSERT(!ct_impl_forced(key) || ct_impl_asked());
        } else if (strcmp(r->value, "N") != 0) {
            (void)ct_impl_allowed(key, r->value);
        }
    }
}

static void look_at_ranks(void)
{
    CT_ASSERT(ct_launched_size() >= 0);
    (void)ct_launched_rank();
    if (ct_launched())
        CT_ASSERT(ct_launched_size() != 1);
}

/* A small net, which reads what it is built by; times nothing unless asked. */
static void build_net(void)
{
    static const char text[] =
        "layer { name: 'i' type: 'Input' top: 'x' "
        "  input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }"
        "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
        "  convolution_param { num_output: 2 kernel_size: 3 } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"
        "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' "
        "  pooling_param { kernel_size: 2 } }";
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TEST,
                                      .quiet = true };
    Caffe__NetParameter *m = NULL;
    struct ct_net *net     = NULL;

    CT_ASSERT(ct_text_parse(&caffe__net_parameter__descriptor, text,
                            strlen(text), "net", &m) == CT_OK);
    if (ct_net_create(m, &o, &net) != CT_OK ||
        ct_net_forward(net, NULL) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    ct_net_destroy(net);
    ct_message_free(m);
}

static void look_at_the_rest(void)
{
    struct ct_choices *c = NULL;
    struct ct_tcp *end   = NULL;

    if (ct_choices_open("choices", &c) == CT_OK)
        (void)ct_choices_keep(c, "key", "value");
    ct_choices_close(c);
    if (getenv("CORTADO_INTERFACE") && ct_tcp_create(&end) == CT_OK)
        ct_tcp_destroy(end);
    log_lines_defaults();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char *text = ct_calloc(n_bytes + 1, 1, "variables");

    ct_log_set_level(CT_LOG_NONE);
    if (text) {
        memcpy(text, data, n_bytes);
        set_variables(text);
    }
    ct_free(text);
    look_at_switches();
    look_at_ranks();
    if (ct_impl_asked())
        build_net();
    look_at_the_rest();
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
