/* cores.h - how many cores this process may use. */
#ifndef CT_BASE_CORES_H
#define CT_BASE_CORES_H

/* Those that it is bound to, and no more than its control groups give it time
 * for (a container's limit), in whole ones: threads that wait for each other
 * all stand still when that time is used up. */
int ct_cores(void);
/* The same for processes that are bound to n cores together. */
int ct_cores_of(int n);

/* For tests.  The least limit of the groups that `groups` lists (as in
 * /proc/self/cgroup) and of those above them, under `root`, in cores; 0: there
 * is none. */
double ct_cores_quota(const char *groups, const char *root);

#endif
