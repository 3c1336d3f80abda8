/* replay_inputs.c - for builds without libFuzzer: runs the files that are named
 * through a fuzz target, each of them shortened, and with some bytes
 * changed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* Changes end when so much time of the processor is spent. */
enum { MOST = 1 << 20, N_CUTS = 50, N_CHANGES = 300, MOST_S = 5 };

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The first byte, which may choose a reader, stays. */
static void change(const uint8_t *data, size_t n, uint32_t seed, uint8_t *room)
{
    memcpy(room, data, n);
    for (uint32_t k = 0; n > 1 && k < 1 + seed % 4; k++) {
        const size_t at = 1 + draw(&seed) % (n - 1);

        room[at] = (uint8_t)(draw(&seed) % 3 ? room[at] ^ 1u << seed % 8
                                             : draw(&seed));
    }
    (void)LLVMFuzzerTestOneInput(room, n);
}

static void replay(const uint8_t *data, size_t n, uint8_t *room)
{
    const uint32_t n_changes = n > 4096 ? N_CHANGES / 10 : N_CHANGES;

    for (size_t cut = 0; cut < n; cut += 1 + n / N_CUTS)
        (void)LLVMFuzzerTestOneInput(data, n - cut);
    for (uint32_t i = 0; i < n_changes && clock() < MOST_S * CLOCKS_PER_SEC;
         i++)
        change(data, n, i * 2654435761u + 1, room);
}

#ifdef __SANITIZE_ADDRESS__
/* HDF5 leaks when it opens a damaged file; targets count ours themselves. */
__attribute__((visibility("default"))) const char *
__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5\n";
}
#endif

int main(int argc, char **argv)
{
    uint8_t *data = malloc(MOST), *room = malloc(MOST);

    for (int i = 1; data && room && i < argc; i++) {
        FILE *f  = fopen(argv[i], "rb");
        size_t n = f ? fread(data, 1, MOST, f) : 0;

        if (!f)
            return 1;
        fclose(f);
        replay(data, n, room);
    }
    printf("%d inputs\n", argc - 1);
    free(data);
    free(room);
    return 0;
}
