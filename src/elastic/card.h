/* card.h - a process of a job introduces itself.
 *
 *     card   id u64, edition u32, machine u64, processes u64, pid u32,
 *            started u64, will u32, port u16, n u8, then n addresses
 *            (family u8, 16 bytes), data n u16, then its bytes, host n u8,
 *            then its bytes
 *
 * With it others call it, tell whether they can see it end, and find its last
 * will. */
#ifndef CT_ELASTIC_CARD_H
#define CT_ELASTIC_CARD_H

#include "comm/transport/address.h"
#include "cortado/status.h"

enum {
    CARD_ADDRESSES  = 8,
    CARD_DATA_BYTES = 256,
    CARD_HOST_BYTES = 64,
    CARD_WIRE_BYTES = 640 /* no card is longer */
};

struct elastic_card {
    uint64_t     id;        /* drawn at random; never 0 */
    uint32_t     edition;   /* a later one counts: addresses may come */
    uint64_t     machine;   /* ct_machine_number() */
    uint64_t     processes; /* who has the same number sees it by its pid */
    uint32_t     pid;
    uint64_t     started;   /* the pid's, not one's that had it before */
    uint32_t     will;      /* will_page.h: its file */
    uint16_t     port;      /* in network order */
    int          n_addresses;
    struct ct_ip address[CARD_ADDRESSES];
    size_t       data_bytes; /* where it takes gradients: ct_tcp_address() */
    uint8_t      data[CARD_DATA_BYTES];
    char         host[CARD_HOST_BYTES];
};

/* This process's, but for id, port, data and will. */
void card_of_this_process(struct elastic_card *out);
/* Adds the addresses that this machine has now.  True: some are new. */
bool card_learn_addresses(struct elastic_card *c, const struct ct_ip *now,
                          int n_now);
/* When process `pid` was started, in ticks since the machine was; 0: there is
 * none. */
uint64_t card_process_start(uint32_t pid);

size_t card_write(const struct elastic_card *c, uint8_t *out);
CT_MUST_CHECK enum ct_status card_read(const uint8_t *data, size_t bytes,
                                       struct elastic_card *out);

#endif
