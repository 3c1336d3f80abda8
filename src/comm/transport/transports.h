/* transports.h - the list of transports, and the choice among them.
 *
 * A transport is one const struct ct_transport_type in one file of this folder,
 * and one line in transports.def: `--transport` and `--help` follow that list.
 * Nothing outside this folder knows what is below a transport. */
#ifndef CT_COMM_TRANSPORTS_H
#define CT_COMM_TRANSPORTS_H

#include "comm/transport.h"

struct ct_text;

struct ct_transport_type {
    const char *name;  /* what --transport= takes */
    const char *about; /* a few words for lists */
    /* This process's end of it, among the ranks that were started with it. */
    enum ct_status (*create)(struct ct_transport **out);
    /* Optional: has a launcher started this process as one of several that the
     * transport connects?  Without it: it connects no processes. */
    bool (*launched)(void);

    /* The rest is optional, and about the library below.  Its name and version
     * in one line, "Open MPI v4.1.4". */
    const char *(*version)(char *text, size_t bytes);
    /* What it allows threads: "serialized", "multiple"; "none" before it has
     * started. */
    const char *(*thread_level)(void);
    /* Whether it sends and sums memory of a GPU, as far as it says so. */
    bool (*takes_gpu_memory)(void);
    /* Is it open in this process?  After destroy: left so on purpose, and the
     * program flushes its files and ends with _exit(). */
    bool (*left_open)(void);
};

#define CT_TRANSPORT(file) \
    extern const struct ct_transport_type ct_transport_##file;
#include "comm/transport/transports.def"
#undef CT_TRANSPORT

const struct ct_transport_type *ct_transport_find(const char *name); /* NULL */
/* What --transport= takes, as text, each with a few words. */
void ct_transport_choices(struct ct_text *out);
/* The transport of that name; "auto" is the one that a launcher started this
 * process for, or else `alone`.  CT_EINVAL, with the choices, for another name,
 * and for a transport that would leave a launched rank by itself. */
CT_MUST_CHECK enum ct_status ct_transport_choose(
    const char *name, const struct ct_transport_type **out);
/* Chooses and creates. */
CT_MUST_CHECK enum ct_status ct_transport_open(const char *name,
                                               struct ct_transport **out);

/* Facts about the library below a transport, with an answer for those that
 * have none: "none", "none", false. */
const char *ct_transport_version(const struct ct_transport_type *type,
                                 char *text, size_t bytes);
const char *ct_transport_thread_level(const struct ct_transport_type *type);
bool ct_transport_takes_gpu_memory(const struct ct_transport_type *type);
/* Is any transport's library open in this process? */
bool ct_transports_left_open(void);

/* launched.c: how many processes a launcher started, as it says in the
 * environment; 0: none did. */
int ct_launched_size(void);
/* Which of them this one is. */
int ct_launched_rank(void);
/* True when it started several. */
bool ct_launched(void);

#endif
