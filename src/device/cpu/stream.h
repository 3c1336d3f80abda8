/* stream.h - stores that go past the caches.
 *
 * A store to memory that is in no cache first reads the line.  Results that
 * nobody reads soon, in arrays larger than the caches, are written without
 * that: a third less memory traffic where a loop reads one array and writes
 * another.  Elsewhere such stores are slower than usual ones. */
#ifndef CT_DEVICE_CPU_STREAM_H
#define CT_DEVICE_CPU_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does an array of so many bytes fit into no cache? */
bool ct_stream_pays(size_t bytes);
/* Copies n floats.  Other threads see them after the next atomic operation of
 * this one, as with usual stores. */
void ct_stream_copy(int64_t n, const float *from, float *to);

#endif
