/* cmd_device_query.c - `cortado device_query`: what can be trained on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "device/peak.h"
#include "flags.h"

static void cpu_name(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[512];

    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(out, size, "%s", strchr(line, ':') + 2);
            out[strcspn(out, "\n")] = '\0';
            break;
        }
    if (f)
        fclose(f);
}

/* "", "all", or numbers with commas between them. */
static bool is_list(const char *text)
{
    return strcmp(text, "all") == 0 ||
           (strspn(text, "0123456789,") == strlen(text));
}

static bool is_asked_for(const char *list, int number)
{
    bool found = !list[0] || strcmp(list, "all") == 0;

    while (!found && *list) {
        char *end;

        found = strtol(list, &end, 10) == number && end > list;
        list  = end + (*end == ',');
    }
    return found;
}

int cmd_device_query(int argc, char **argv)
{
    const char *gpu = "";
    const struct flag flags[] = {
        FLAG("gpu", &gpu),
        FLAG_END,
    };
    struct ct_peak peak;
    char name[256];
    bool helped;

    if (!flags_parse(flags, &argc,
                     argv, &helped))
        return helped ? EXIT_DONE : EXIT_USAGE;
    if (!is_list(gpu))
        return command_failed(ct_fail(CT_EINVAL, "--gpu is all or numbers of "
                                      "GPUs, such as 0,1, not '%s'", gpu));
    if (!getenv("OMP_NUM_THREADS"))
        ct_device_cpu_set_threads(0);
    cpu_name(name, sizeof(name));
    printf("CPU:             %s\n", name);
    printf("Cores:           %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    printf("Threads used:    %d\n", ct_device_cpu_threads());
    printf("Vector unit:     %s\n", ct_cpu_vector_name());
    printf("Memory:          %.1f GB\n",
           (double)sysconf(_SC_PHYS_PAGES) *
               (double)sysconf(_SC_PAGE_SIZE) / 1e9);
    peak = ct_cpu_peak_flops();
    printf("Measured peak:   %.1f GFLOP/s (fp32, all threads), %.1f on "
           "average\n", peak.best / 1e9, peak.mean / 1e9);
    printf("GPUs:            %d\n", ct_device_cuda_count());
    for (int i = 0; i < ct_device_cuda_count(); i++) {
        const struct ct_device *d;

        if (!is_asked_for(gpu, i))
            continue;
        if (ct_device_cuda_open(i, CT_FP32, &d) != CT_OK)
            return command_failed(CT_EDEVICE);
        printf("GPU %d:           %s\n", i, ct_device_name(d));
        ct_device_close(d);
    }
    return EXIT_DONE;
}
