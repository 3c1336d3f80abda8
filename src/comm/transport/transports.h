/* transports.h - the list of transports, and the choice among them.
 *
 * A transport is one const struct ct_transport_type in one file of this folder,
 * and one line in transports.def; `--transport` and `--help` use that list.
 * Code outside this folder does not know the library below a transport. */
#ifndef CT_COMM_TRANSPORTS_H
#define CT_COMM_TRANSPORTS_H

#include "comm/transport.h"

struct ct_text;

struct ct_transport_type {
    const char *name;  /* for --transport */
    const char *about; /* a few words for lists */
    /* Creates the end of this process. */
    enum ct_status (*create)(struct ct_transport **out);
    /* Optional: whether a launcher started this process as one of several that
     * the transport connects.  NULL: it connects no processes. */
    bool (*launched)(void);

    /* The others are optional and concern the library below.  Its name and
     * version in one line, "Open MPI v4.1.4". */
    const char *(*version)(char *text, size_t bytes);
    /* Its thread level: "serialized", "multiple"; "none" before it has
     * started. */
    const char *(*thread_level)(void);
    /* Whether it says that it can send and sum memory of a GPU. */
    bool (*takes_gpu_memory)(void);
    /* Whether it is open in this process.  If it is open after destroy, the
     * program must flush its files and end with _exit(). */
    bool (*left_open)(void);
};

#define CT_TRANSPORT(file) \
    extern const struct ct_transport_type ct_transport_##file;
#include "comm/transport/transports.def"
#undef CT_TRANSPORT

/* Finds a transport by name; NULL: there is none. */
const struct ct_transport_type *ct_transport_find(const char *name);
/* Adds the values of --transport to `out`, each with a few words. */
void ct_transport_choices(struct ct_text *out);
/* The transport of that name; "auto": the one for which a launcher started this
 * process, otherwise `alone`.  CT_EINVAL: the name is unknown (the message
 * lists the choices), or the transport connects no processes although a
 * launcher started several. */
CT_MUST_CHECK enum ct_status ct_transport_choose(
    const char *name, const struct ct_transport_type **out);
/* Chooses and creates. */
CT_MUST_CHECK enum ct_status ct_transport_open(const char *name,
                                               struct ct_transport **out);

/* Facts about the library below a transport; without a library "none", "none"
 * and false. */
const char *ct_transport_version(const struct ct_transport_type *type,
                                 char *text, size_t bytes);
const char *ct_transport_thread_level(const struct ct_transport_type *type);
bool ct_transport_takes_gpu_memory(const struct ct_transport_type *type);
/* Whether the library of any transport is open in this process. */
bool ct_transports_left_open(void);

/* launched.c: the number of processes that a launcher started, from the
 * environment; 0: no launcher. */
int ct_launched_size(void);
/* The number of this process among them. */
int ct_launched_rank(void);
/* Whether a launcher started several. */
bool ct_launched(void);

#endif
