/* hosts.c - the hosts of a job, and how to reach them. */
#include "hosts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static bool is_here(const char *name)
{
    char own[256] = "";
    size_t n;

    (void)!gethostname(own, sizeof(own) - 1);
    n = strcspn(own, ".");
    return strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
           strcmp(name, own) == 0 ||
           (strlen(name) == n && strncmp(name, own, n) == 0);
}

/* A name goes to ssh, which takes what begins with a dash for a flag. */
static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "0123456789.-_@", s[i]))
            return false;
    return n > 0 && n < sizeof(((struct host *)0)->name) && s[0] != '-';
}

enum ct_status hosts_read(struct hosts *h, const char *list)
{
    memset(h, 0, sizeof(*h));
    while (*list) {
        const size_t all = strcspn(list, ","), n = strcspn(list, ":,");
        struct host *one = &h->host[h->n];
        long ranks       = 1;
        char *end        = NULL;

        if (n < all)
            ranks = strtol(list + n + 1, &end, 10);
        if (!is_name(list, n) || ranks < 1 || ranks > 256 ||
            (end && end != list + all) || h->n == HOSTS_MOST)
            return ct_fail(CT_EINVAL, "--hosts is HOST:RANKS,..., with at most "
                           "%d hosts of 256 ranks, not '%s'", HOSTS_MOST,
                           list);
        memcpy(one->name, list, n);
        one->n_ranks = (int)ranks;
        one->is_here = is_here(one->name);
        h->n_ranks += one->n_ranks;
        h->n++;
        list += all + (list[all] == ',');
    }
    return h->n > 0 ? CT_OK : ct_fail(CT_EINVAL, "--hosts names no host");
}

void hosts_here(struct hosts *h, int n_ranks)
{
    memset(h, 0, sizeof(*h));
    h->host[0] = (struct host){ "localhost", n_ranks, true };
    h->n       = 1;
    h->n_ranks = n_ranks;
}

/* A word as a shell reads it. */
static void quote(struct ct_text *t, const char *word)
{
    ct_text_add(t, " '");
    for (; *word; word++)
        if (*word == '\'')
            ct_text_add(t, "'\\''");
        else
            ct_text_add_bytes(t, word, 1);
    ct_text_add(t, "'");
}

void hosts_become(const struct host *h, const char *folder,
                  const char *const *words)
{
    struct ct_text command = { 0 };
    const char *by_srun[]  = { "srun", "--overlap", "--nodes=1", "--ntasks=1",
                               "--nodelist", h->name, "sh", "-c", NULL, NULL };
    /* A connection of our own: one that others use ends with us, too.  A host
     * that is gone without a word is noticed after half a minute. */
    const char *by_ssh[]   = { "ssh", "-oBatchMode=yes", "-oConnectTimeout=10",
                               "-oControlMaster=no", "-oControlPath=none",
                               "-oServerAliveInterval=10",
                               "-oServerAliveCountMax=3",
                               "--", h->name, NULL, NULL };
    const bool in_slurm    = getenv("SLURM_JOB_ID") != NULL;
    const char **call      = in_slurm ? by_srun : by_ssh;

    if (h->is_here) {
        if (chdir(folder) == 0)
            execvp(words[0], (char **)(uintptr_t)words);
        return;
    }
    ct_text_add(&command, "cd");
    quote(&command, folder);
    ct_text_add(&command, " && exec");
    for (; *words; words++)
        quote(&command, *words);
    call[in_slurm ? 8 : 9] = command.s;
    if (!command.failed)
        execvp(call[0], (char **)(uintptr_t)call);
    ct_text_fini(&command);
}
