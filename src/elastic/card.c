/* card.c - a process of a job introduces itself. */
#include "elastic/card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elastic/bytes.h"

_Static_assert(8 * 5 + 4 * 3 + 2 * 3 + 1 + CARD_ADDRESSES * 17 + 2 +
               CARD_DATA_BYTES + 1 + CARD_HOST_BYTES <= CARD_WIRE_BYTES,
               "a card is longer than there is room");

uint64_t card_process_start(uint32_t pid)
{
    char path[64], text[1024];
    unsigned long long ticks = 0;
    const char *at;
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    at = strrchr(text, ')'); /* a name may have blanks in it */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        ticks = strtoull(at, NULL, 10);
    return ticks;
}

void card_of_this_process(struct elastic_card *out)
{
    struct stat space;

    memset(out, 0, sizeof(*out));
    out->machine = ct_machine_number();
    if (stat("/proc/self/ns/pid", &space) == 0)
        out->processes = out->machine ^ (uint64_t)space.st_ino;
    out->pid         = (uint32_t)getpid();
    out->started     = card_process_start(out->pid);
    out->n_addresses = ct_list_addresses(out->address, CARD_ADDRESSES);
    if (gethostname(out->host, sizeof(out->host)) != 0)
        out->host[0] = '\0';
    out->host[sizeof(out->host) - 1] = '\0';
}

bool card_learn_addresses(struct elastic_card *c, const struct ct_ip *now,
                          int n_now)
{
    return ct_learn_addresses(now, n_now, c->address, CARD_ADDRESSES,
                              &c->n_addresses);
}

size_t card_write(const struct elastic_card *c, uint8_t *out)
{
    struct writer w = { out };

    put(&w, c->id, 8);
    put(&w, c->edition, 4);
    put(&w, c->machine, 8);
    put(&w, c->processes, 8);
    put(&w, c->pid, 4);
    put(&w, c->started, 8);
    put(&w, c->will, 4);
    put(&w, c->port, 2);
    put(&w, c->door, 2);
    put(&w, c->agent, 8);
    put(&w, c->agent_port, 2);
    put(&w, (uint64_t)c->n_addresses, 1);
    for (int i = 0; i < c->n_addresses; i++) {
        put(&w, c->address[i].family == AF_INET6 ? 6 : 4, 1);
        put_bytes(&w, c->address[i].ip, 16);
    }
    put(&w, c->data_bytes, 2);
    put_bytes(&w, c->data, c->data_bytes);
    put(&w, strlen(c->host), 1);
    put_bytes(&w, c->host, strlen(c->host));
    return (size_t)(w.at - out);
}

static enum ct_status take_addresses(struct reader *r, struct elastic_card *c)
{
    const uint64_t n = take(r, 1);

    if (n > CARD_ADDRESSES)
        return ct_fail(CT_EPARSE, "a card with %d addresses", (int)n);
    c->n_addresses = (int)n;
    for (int i = 0; i < c->n_addresses; i++) {
        const uint64_t family = take(r, 1);

        if (family != 4 && family != 6)
            return ct_fail(CT_EPARSE, "a card with an address of an unknown "
                           "kind");
        c->address[i].family = family == 6 ? AF_INET6 : AF_INET;
        take_bytes(r, c->address[i].ip, 16);
    }
    return CT_OK;
}

enum ct_status card_read(const uint8_t *data, size_t bytes,
                         struct elastic_card *out)
{
    struct reader r = { data, data + bytes, false };
    uint64_t n;

    memset(out, 0, sizeof(*out));
    out->id        = take(&r, 8);
    out->edition   = (uint32_t)take(&r, 4);
    out->machine   = take(&r, 8);
    out->processes = take(&r, 8);
    out->pid       = (uint32_t)take(&r, 4);
    out->started   = take(&r, 8);
    out->will      = (uint32_t)take(&r, 4);
    out->port      = (uint16_t)take(&r, 2);
    out->door      = (uint16_t)take(&r, 2);
    out->agent      = take(&r, 8);
    out->agent_port = (uint16_t)take(&r, 2);
    CT_TRY(take_addresses(&r, out));
    out->data_bytes = (size_t)take(&r, 2);
    if (out->data_bytes > CARD_DATA_BYTES)
        return ct_fail(CT_EPARSE, "a card with %zu bytes of address",
                       out->data_bytes);
    take_bytes(&r, out->data, out->data_bytes);
    n = take(&r, 1);
    if (n >= CARD_HOST_BYTES)
        return ct_fail(CT_EPARSE, "a card with a host of %d letters", (int)n);
    take_bytes(&r, out->host, n);
    for (const char *p = out->host; *p; p++)
        if (*p < ' ' || *p > '~') /* it goes to logs and terminals */
            return ct_fail(CT_EPARSE, "a card with a host that is no name");
    if (out->id == 0)
        return ct_fail(CT_EPARSE, "the card of nobody");
    return reader_end(&r, "a card");
}
