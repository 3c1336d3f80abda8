/* cortado/status.h - what a fallible function returns, and how it says why.
 *
 * Every function that can fail returns enum ct_status.  The first one that
 * knows the cause calls ct_fail(); callers pass the status on with CT_TRY.
 * The text stays readable through ct_last_error() on the same thread until
 * the next failure there.  The library never prints it, exits or aborts. */
#ifndef CT_STATUS_H
#define CT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define CT_API        __attribute__((visibility("default")))
#define CT_MUST_CHECK __attribute__((warn_unused_result))
#define CT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

enum ct_status {
    CT_OK = 0,
    CT_EINVAL,    /* a value that makes no sense: prototxt, flag, argument */
    CT_ESHAPE,    /* shapes that do not fit together */
    CT_EPARSE,    /* a text or binary file that is malformed */
    CT_EIO,       /* the operating system refused to read or write */
    CT_ENOTFOUND, /* a file, layer, blob or key that is not there */
    CT_EEXIST,    /* something that would be overwritten */
    CT_ENOMEM,    /* out of memory, or a size beyond all limits */
    CT_ENOTSUP,   /* legal, but not by this build, device or layer */
    CT_EDEVICE,   /* a device library reported an error */
    CT_ECOMM,     /* a peer or the transport failed */
    CT_ENAN,      /* training produced a value that is not finite */
    CT_ESTOP,     /* stopped on request; no failure */
    CT_EINTERNAL, /* our own bug */
    CT_N_STATUS
};

/* "bad input", "out of memory": a few words for a message. */
CT_API const char *ct_status_name(enum ct_status s);

/* The text of this thread's latest failure; "" when there was none. */
CT_API const char *ct_last_error(void);

/* Record the cause and return `code`. */
CT_API CT_PRINTF(2, 3) enum ct_status ct_fail(enum ct_status code,
                                              const char *fmt, ...);

/* Put "context: " before the text of the latest failure and return `code`;
 * for callers that know the file or layer the failing function did not. */
CT_API CT_PRINTF(2, 3) enum ct_status ct_fail_in(enum ct_status code,
                                                 const char *fmt, ...);

#define CT_TRY(call)                                                         \
    do {                                                                     \
        enum ct_status ct_try_status = (call);                               \
        if (ct_try_status != CT_OK)                                          \
            return ct_try_status;                                            \
    } while (0)

/* For functions that own something: sets `st` and jumps to `label`. */
#define CT_TRY_GOTO(call, st, label)                                         \
    do {                                                                     \
        (st) = (call);                                                       \
        if ((st) != CT_OK)                                                   \
            goto label;                                                      \
    } while (0)

/* Our own invariants.  Stays on in release; never has a side effect. */
#define CT_ASSERT(cond)                                                      \
    ((cond) ? (void)0 : ct_assert_failed(#cond, __FILE__, __LINE__))
CT_API __attribute__((noreturn)) void ct_assert_failed(const char *cond,
                                                       const char *file,
                                                       int line);

#ifdef __cplusplus
}
#endif
#endif
