/* mem.h - the only way to memory: 64-byte aligned, named, counted.
 *
 * Sizes are checked before the system is asked.  Tests use ct_mem_stats() to
 * prove that a training step allocates nothing and that nothing leaks. */
#ifndef CT_BASE_MEM_H
#define CT_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "cortado/mem.h"
#include "cortado/status.h"

enum { CT_ALIGN = 64 };

struct ct_mem_stats {
    uint64_t n_calls;    /* allocations made since the process started */
    uint64_t n_live;     /* allocations not yet freed */
    uint64_t live_bytes;
    uint64_t peak_bytes;
};

/* `name` must be a string literal: it is kept, not copied.  NULL on failure,
 * with ct_last_error() set; zero bytes give a valid pointer. */
void *ct_malloc(size_t bytes, const char *name);
void *ct_calloc(size_t n, size_t size, const char *name);
/* Zeros in place of what was there.  Whole pages take no memory until somebody
 * touches them. */
void ct_mem_clear(void *p, size_t bytes);
void *ct_realloc(void *p, size_t bytes, const char *name);
char *ct_strdup(const char *s, const char *name);

struct ct_mem_stats ct_mem_stats(void);

/* Log one warning a live allocation, by name; returns how many there are. */
uint64_t ct_mem_report_leaks(void);

/* Sets *out or fails with CT_ENOMEM: for CT_TRY chains. */
CT_MUST_CHECK enum ct_status ct_alloc(size_t n, size_t size, const char *name,
                                      void *out);

/* n * size, or false when it does not fit. */
static inline int ct_mul_fits(size_t n, size_t size, size_t *out)
{
    return !__builtin_mul_overflow(n, size, out);
}

#endif
