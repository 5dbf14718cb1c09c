/* The limits of this process's own control group and of the groups above it (Linux cgroups, version
 * 1 and 2; man 7 cgroups). */
#ifndef CONTROL_GROUP_H
#define CONTROL_GROUP_H

/* Both read the files below `root`, "" for the machine's own and a folder for tests. The smallest
 * limit on the way from the group to the root counts; HUGE_VAL: there is none. A container shows
 * its own group as the root of the hierarchy, or the path of the host, whose upper part it does not
 * see: the lowest folder that exists counts then. */

/* Processors' worth of time: quota divided by period. */
double control_group_processors(const char *root);

/* Bytes that are left; the page cache, which the kernel gives up, is free. */
double control_group_memory(const char *root);

#endif
