/* address.h - addresses and sockets of processes. */
#ifndef CT_COMM_ADDRESS_H
#define CT_COMM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address of an interface, without a port. */
struct ct_ip {
    uint16_t family; /* AF_INET or AF_INET6 */
    uint8_t  ip[16]; /* the first 4 for AF_INET */
};

/* A number of this machine and its network namespace.  Processes with equal
 * numbers can connect over the loopback interface. */
uint64_t ct_machine_number(void);

/* The addresses of this machine that others may reach: those of interfaces
 * that are up, or of the one that CORTADO_INTERFACE names.  Returns how
 * many. */
int ct_list_addresses(struct ct_ip *out, int most);
/* Adds the addresses in `now` to a list of *n.  Addresses that are not in `now`
 * stay in the list, because their link may come back.  True: the list has
 * grown. */
bool ct_learn_addresses(const struct ct_ip *now, int n_now, struct ct_ip *list,
                        int most, int *n);
/* The address for processes with the same ct_machine_number(). */
struct ct_ip ct_loopback_address(void);

/* A non-blocking socket that listens on all interfaces; -1: errno has the
 * cause.  *port is in network order; 0: any port, which is filled in. */
int ct_listen(uint16_t *port);
/* A socket that holds the port and does not listen: connections are refused. */
int ct_reserve_port(uint16_t *port);
/* The port of such a socket, in network order; 0: it has none. */
uint16_t ct_port_of(int fd);
/* A non-blocking socket that is connecting; -1: errno has the cause.  port is
 * in network order. */
int ct_connect(const struct ct_ip *to, uint16_t port);

#endif
