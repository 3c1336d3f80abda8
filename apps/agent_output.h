/* agent_output.h - what the programs of an agent print.
 *
 * The output of an agent on another host goes to the connection that started
 * it.  When that is lost, most programs would end at the next line that they
 * print, though their job goes on.  So a process of its own, which outlives the
 * agent, passes the output on, and takes it when nobody reads it any more. */
#ifndef CT_APPS_AGENT_OUTPUT_H
#define CT_APPS_AGENT_OUTPUT_H

#include <sys/types.h>

#include "cortado/status.h"

struct agent_output {
    int   to[2]; /* for standard output and error of programs; -1: as they
                  * are */
    pid_t pid;   /* of that process; 0: there is none */
};

/* Where output goes to a connection; before anything is opened that it must not
 * hold. */
CT_MUST_CHECK enum ct_status agent_output_begin(struct agent_output *o);
/* In a child that is to become a program. */
void agent_output_give(const struct agent_output *o);
/* All programs have ended: waits a moment until all is passed on. */
void agent_output_end(struct agent_output *o);

#endif
