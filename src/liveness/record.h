/* record.h - what a rank did last, written to a file.
 *
 * A record is text: lines of a key and a value, then one line per collective,
 * the oldest first, with tabs between its fields:
 *
 *     entry  channel  sequence  what  bytes  of  state  seconds ago  took
 *
 * docs/reference/run_folder.md describes it. */
#ifndef CT_LIVENESS_RECORD_H
#define CT_LIVENESS_RECORD_H

#include "liveness/pulse_page.h"

/* Records of this page's rank go to `folder`, which is made.  Where ranks stay
 * the same, that of an earlier job goes; else a rank of an earlier view may
 * have left it, and live_records_forget() is called once a job. */
CT_MUST_CHECK enum ct_status live_record_keep(struct live_page *page,
                                               const char *folder);
/* All records of an earlier job go. */
void live_records_forget(const char *folder);
/* Writes FOLDER/rank-R.txt; on any thread, in any process that has the page
 * mapped.  Nothing happens where no record is to be kept.  What goes wrong is
 * logged. */
void live_record_write(const struct live_page *page, const char *why);

#endif
