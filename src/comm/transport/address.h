/* address.h - where processes are reached over sockets. */
#ifndef CT_COMM_ADDRESS_H
#define CT_COMM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address of an interface, without a port. */
struct ct_ip {
    uint16_t family; /* AF_INET or AF_INET6 */
    uint8_t  ip[16]; /* of which AF_INET has 4 */
};

/* A number for this machine and its network namespace: processes that have the
 * same one reach each other by the loopback interface. */
uint64_t ct_machine_number(void);

/* The addresses of this machine that others may reach: those of interfaces
 * that are up, or of the one that CORTADO_INTERFACE names.  Returns how
 * many. */
int ct_list_addresses(struct ct_ip *out, int most);
/* Adds those of now to the *n of a list.  One that is gone stays there: its
 * link may come back.  True: there are others now. */
bool ct_learn_addresses(const struct ct_ip *now, int n_now, struct ct_ip *list,
                        int most, int *n);
/* Where whoever has this machine's number is. */
struct ct_ip ct_loopback_address(void);

/* A socket that listens on all interfaces, without waiting; -1: errno says why.
 * *port is in network order; 0: any, and it is filled in. */
int ct_listen(uint16_t *port);
/* The same before listen(): callers are refused. */
int ct_reserve_port(uint16_t *port);
/* The port of such a socket, in network order; 0: it has none. */
uint16_t ct_port_of(int fd);
/* A socket that is being connected; -1: errno says why.  port as above. */
int ct_connect(const struct ct_ip *to, uint16_t port);

#endif
