/* getrandom, which wasi-libc has not; no_system.c defines it. */
#ifndef BROWSER_SYS_RANDOM_H
#define BROWSER_SYS_RANDOM_H

#include <sys/types.h>

ssize_t getrandom(void *bytes, size_t n, unsigned flags);

#endif
