/* record.h - writes the last collectives of a rank to a file.
 *
 * A record is text: lines of a key and a value, then one line per collective,
 * oldest first, with tabs between the fields:
 *
 *     entry  channel  sequence  what  bytes  of  state  seconds ago  took
 *
 * docs/reference/run_folder.md describes it. */
#ifndef CT_LIVENESS_RECORD_H
#define CT_LIVENESS_RECORD_H

#include "liveness/pulse_page.h"

/* Makes `folder`, and sets it as the place for records of this page's rank.  If
 * the job is not elastic, removes the record of an earlier job.  In an elastic
 * job the old record may be that of an earlier view, so live_records_forget()
 * is called once per job instead. */
CT_MUST_CHECK enum ct_status live_record_keep(struct live_page *page,
                                               const char *folder);
/* Removes all records in the folder. */
void live_records_forget(const char *folder);
/* Writes FOLDER/rank-R.txt; on any thread, in any process that has mapped the
 * page.  Does nothing without live_record_keep().  Failures are logged. */
void live_record_write(const struct live_page *page, const char *why);

#endif
