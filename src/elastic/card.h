/* card.h - what a process of an elastic job tells the others about itself.
 *
 *     card   id u64, edition u32, machine u64, processes u64, pid u32,
 *            started u64, will u32, port u16, door u16, agent u64, its
 *            port u16, n u8, then n addresses (family u8, 16 bytes), data n
 *            u16, then its bytes, host n u8, then its bytes
 *
 * Other processes use the card to connect to it, to find out whether they can
 * observe its end, and to find its will page. */
#ifndef CT_ELASTIC_CARD_H
#define CT_ELASTIC_CARD_H

#include "comm/transport/address.h"
#include "cortado/status.h"

enum {
    CARD_ADDRESSES  = 8,
    CARD_DATA_BYTES = 256,
    CARD_HOST_BYTES = 64,
    CARD_WIRE_BYTES = 640 /* most bytes of a card */
};

struct elastic_card {
    uint64_t     id;        /* random; never 0 */
    uint32_t     edition;   /* a card with a higher edition replaces this one */
    uint64_t     machine;   /* ct_machine_number() */
    uint64_t     processes; /* processes with the same number can use its pid */
    uint32_t     pid;
    uint64_t     started;   /* start time, to tell it from an earlier process
                             * with this pid */
    uint32_t     will;      /* descriptor of its will page (will_page.h) */
    uint16_t     port;      /* in network order */
    uint16_t     door;      /* port that it shares with the other ranks of its
                             * agent, for who wants to join; 0: none */
    uint64_t     agent;     /* number of its agent; 0: none */
    uint16_t     agent_port; /* where that listens for letters */
    int          n_addresses;
    struct ct_ip address[CARD_ADDRESSES];
    size_t       data_bytes; /* its address for gradients: ct_tcp_address() */
    uint8_t      data[CARD_DATA_BYTES];
    char         host[CARD_HOST_BYTES];
};

/* Fills in this process's card, except id, ports, data and will. */
void card_of_this_process(struct elastic_card *out);
/* Adds the current addresses of this machine.  True: at least one is new. */
bool card_learn_addresses(struct elastic_card *c, const struct ct_ip *now,
                          int n_now);
/* Start time of process `pid` in ticks since boot; 0: no such process. */
uint64_t card_process_start(uint32_t pid);

size_t card_write(const struct elastic_card *c, uint8_t *out);
CT_MUST_CHECK enum ct_status card_read(const uint8_t *data, size_t bytes,
                                       struct elastic_card *out);

#endif
