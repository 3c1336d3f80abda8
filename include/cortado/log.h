/* cortado/log.h - one log, in glog's line format.
 *
 *     I1115 09:30:00.123456 12345 solver.c:210] Iteration 100, loss = 0.5
 *
 * Caffe's log parsers read these lines.  The library logs through this and
 * nowhere else; a program may redirect or silence it.  The sink and level are
 * process-wide: set them before starting threads. */
#ifndef CT_LOG_H
#define CT_LOG_H

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ct_log_level {
    CT_LOG_INFO,
    CT_LOG_WARNING,
    CT_LOG_ERROR,
    CT_LOG_FATAL,
    CT_LOG_NONE /* as a minimum level: silence */
};

/* `line` is complete, ends in '\n' and is valid during the call only. */
typedef void (*ct_log_fn)(enum ct_log_level level, const char *line,
                          void *arg);

CT_API void ct_log_set_sink(ct_log_fn sink, void *arg); /* NULL: stderr */
/* One more who gets every line that the sink gets; NULL: nobody.  When this
 * returns the listener before is not called any more. */
CT_API void ct_log_set_listener(ct_log_fn listener, void *arg);
CT_API void ct_log_set_level(enum ct_log_level minimum);
CT_API enum ct_log_level ct_log_level(void);
/* From now on every line, whatever the level, is also written to this file,
 * which is made anew; NULL: no longer. */
CT_API CT_MUST_CHECK enum ct_status ct_log_copy_to(const char *path);

CT_API CT_PRINTF(4, 5) void ct_log_write(enum ct_log_level level,
                                         const char *file, int line,
                                         const char *fmt, ...);

#define CT_INFO(...) ct_log_write(CT_LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define CT_WARN(...)                                                         \
    ct_log_write(CT_LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#define CT_ERROR(...)                                                        \
    ct_log_write(CT_LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
