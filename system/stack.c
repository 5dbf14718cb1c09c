#include "system/stack.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STACK_NEEDED = 128 << 10 };

bool stack_suffices(void) {
    static const char why[] = ": the stack is limited to less than 128 KiB (ulimit -s)\n";
    const char *name = program_invocation_short_name;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_NEEDED) return true;
    if (write(STDERR_FILENO, name, strlen(name)) > 0 &&
        write(STDERR_FILENO, why, sizeof why - 1) > 0)
        errno = 0;
    return false;
}
