/* The limits of this process's own control group and of the groups above it (Linux cgroups, version
 * 1 and 2; man 7 cgroups). */
#ifndef CONTROL_GROUP_H
#define CONTROL_GROUP_H

/* What the groups allow; the smallest limit on the way up counts. HUGE_VAL: no limit. */
typedef struct GroupLimits {
    double processors; /* worth of time: quota divided by period */
    double memory;     /* bytes that are left; the page cache, which the kernel gives up, is free */
} GroupLimits;

/* Reads the files below `root`, "" for the machine's own and a folder for tests. A container shows
 * its own group as the root of the hierarchy, or the path of the host, whose upper part it does not
 * see: the lowest folder that exists counts then. */
GroupLimits control_group_limits(const char *root);

#endif
