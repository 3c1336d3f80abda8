/* pages.h - memory in large pages.
 *
 * A processor finds pages of 2 MB with fewer look-ups than those of 4 KB, and
 * the system zeroes one large page sooner than 512 small ones.  Linux gives
 * large pages to private memory that asks for them.  Shared memory gets small
 * ones on most systems, and large ones only when somebody has them made. */
#ifndef CT_BASE_PAGES_H
#define CT_BASE_PAGES_H

#include <stddef.h>

enum { CT_LARGE_PAGE = 2 << 20 };

/* Private memory, zeroed, that begins where a large page may begin.  `protect`
 * is that of mmap(); PROT_NONE: only addresses, to map a file there.  NULL:
 * there is none.  For munmap(). */
void *ct_pages_map(size_t bytes, int protect);

/* Makes large pages of all blocks that lie within these bytes of a shared
 * mapping, wherever the system can.  What is there stays, and others may read
 * and write it meanwhile.  Blocks that nobody has used become zeros. */
void ct_pages_enlarge(const void *at, size_t bytes);

#endif
