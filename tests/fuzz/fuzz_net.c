/* fuzz_net.c - any prototxt as a net that is built and run, forward and
 * backward.
 *
 * Bytes alone seldom make a net: the seeds are small nets of all kinds of
 * layers, and mostly a number in them is changed.  Nets whose blobs are large
 * are built and not run; layers that read files are left out. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "cortado/access.h"
#include "cortado/log.h"
#include "cortado/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* libFuzzer's; replay_inputs.c has none. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most,
                               unsigned seed);
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t n_bytes,
                                              size_t most);

enum { MOST_VALUES = 20000, MOST_LAYERS = 40, MOST_BYTES = 1 << 20 };

/* A prototxt may ask for any amount of memory.  It gets little here (the linker
 * leads calls of base/mem here), so that large nets end at once, and some of
 * them half-way. */
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return bytes > MOST_BYTES ? NULL : __real_aligned_alloc(align, bytes);
}

void *__real_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
    return n > MOST_BYTES ? MAP_FAILED
                          : __real_mmap(p, n, prot, flags, fd, at);
}

/* What runs code of its own, or reads and writes files, is not for here. */
static bool is_allowed(const Caffe__NetParameter *m)
{
    static const char *const not[] = { "Python", "HDF5Output", "Data",
                                       "AnnotatedData", "ImageData",
                                       "WindowData", "HDF5Data",
                                       "VideoData", "DetectionOutput" };

    for (size_t i = 0; i < m->n_layer; i++)
        for (size_t k = 0; k < sizeof(not) / sizeof(not[0]); k++)
            if (m->layer[i]->type && strcmp(m->layer[i]->type, not[k]) == 0)
                return false;
    return m->n_plugin == 0 && m->n_layer <= MOST_LAYERS;
}

/* Of all blobs and parameters; more than MOST_VALUES: too many. */
static int64_t n_values(const struct ct_net *net)
{
    int64_t n = 0;

    for (int i = 0; i < ct_net_n_blobs(net) && n <= MOST_VALUES; i++)
        n += ct_net_blob(net, i)->count;
    for (int i = 0; i < ct_net_n_params(net) && n <= MOST_VALUES; i++)
        n += ct_net_param(net, i)->blob->count;
    return n;
}

static void run(const Caffe__NetParameter *m, Caffe__Phase phase)
{
    const struct ct_net_options o = { .phase = phase, .seed = 1,
                                      .quiet = true };
    struct ct_net *net = NULL;
    double loss;

    if (ct_net_create(m, &o, &net) != CT_OK) {
        CT_ASSERT(ct_last_error()[0]);
        return;
    }
    if (n_values(net) <= MOST_VALUES)
        for (int i = 0; i < 2; i++)
            if (ct_net_forward(net, &loss) != CT_OK ||
                (phase == CAFFE__PHASE__TRAIN &&
                 ct_net_backward(net) != CT_OK))
                CT_ASSERT(ct_last_error()[0]);
    ct_net_destroy(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    Caffe__NetParameter *m = NULL;

    ct_log_set_level(CT_LOG_NONE);
    if (ct_text_parse(&caffe__net_parameter__descriptor, (const char *)data,
                      n_bytes, "fuzz", &m) == CT_OK &&
        ct_upgrade_net(m, "fuzz") == CT_OK && is_allowed(m)) {
        run(m, CAFFE__PHASE__TRAIN);
        run(m, CAFFE__PHASE__TEST);
    }
    ct_message_free(m);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}

static bool begins_number(const uint8_t *data, size_t i)
{
    return i > 0 && data[i] >= '0' && data[i] <= '9' &&
           (data[i - 1] == ' ' || data[i - 1] == '-');
}

/* Another number in place of one; now and then whatever libFuzzer does. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most,
                               unsigned seed)
{
    static const char *const number[] = {
        "0", "1", "-1", "2", "3", "4", "5", "7", "8", "16", "17", "100",
        "0.5", "-0.5", "1e-30", "1e30", "255", "256", "65535", "65536",
        "1000000", "2147483647", "2147483648", "4294967295",
        "-2147483648", "9223372036854775807",
    };
    const char *to = number[seed / 16 % (sizeof(number) / sizeof(number[0]))];
    const size_t n_to = strlen(to);
    size_t n_numbers = 0, wanted, from = 0, end;

    for (size_t i = 0; i < n_bytes; i++)
        n_numbers += begins_number(data, i);
    if (seed % 16 == 0 || n_numbers == 0 || n_bytes + n_to > most)
        return LLVMFuzzerMutate(data, n_bytes, most);
    wanted = seed / 512 % n_numbers;
    for (size_t i = 0; i < n_bytes; i++)
        if (begins_number(data, i) && wanted-- == 0)
            from = i;
    from -= data[from - 1] == '-';
    for (end = from + 1; end < n_bytes && data[end] != ' ';)
        end++;
    memmove(data + from + n_to, data + end, n_bytes - end);
    memcpy(data + from, to, n_to);
    return n_bytes - (end - from) + n_to;
}
