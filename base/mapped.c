#include "base/mapped.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/shown_text.h"

enum { MAX_MAPPED = 256 };

typedef struct Mapped {
    atomic_bool taken;           /* the slot is in use; mapped_remember may still be filling it */
    _Atomic(const char *) bytes; /* NULL: the handler skips the slot */
    size_t length;
    const char *path;
} Mapped;

/* Global, because a signal handler reads it. */
static Mapped mapped[MAX_MAPPED];

void mapped_remember(const void *bytes, size_t length, const char *path) {
    for (size_t i = 0; i < MAX_MAPPED; i++) {
        bool free_slot = false;
        if (!atomic_compare_exchange_strong(&mapped[i].taken, &free_slot, true)) continue;
        mapped[i].length = length;
        mapped[i].path = path;
        atomic_store(&mapped[i].bytes, bytes);
        return;
    }
}

void mapped_forget(const void *bytes) {
    for (size_t i = 0; i < MAX_MAPPED; i++) {
        if (atomic_load(&mapped[i].bytes) != bytes) continue;
        atomic_store(&mapped[i].bytes, NULL);
        atomic_store(&mapped[i].taken, false);
        return;
    }
}

static const char *path_at(uintptr_t address) {
    for (size_t i = 0; i < MAX_MAPPED; i++) {
        uintptr_t start = (uintptr_t)atomic_load(&mapped[i].bytes);
        /* The mapping ends with a whole page. */
        if (start && address >= start && address - start < mapped[i].length + 4096)
            return mapped[i].path;
    }
    return "a mapped file";
}

/* Writes the message with one call, so that lines of several threads do not mix, and without
 * control characters, so that the name of a file cannot steer a terminal. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    static const char reason[] =
        ": cannot be read any more: it became shorter while it was in use, or its disk failed\n";
    char line[4096 + sizeof reason];
    size_t length = 0, used;
    (void)number, (void)context;
    const char *const parts[] = {program_invocation_short_name, ": ",
                                 path_at((uintptr_t)info->si_addr)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        length += shown_text(parts[i], strlen(parts[i]), line + length, 4096 - length, &used);
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\n') line[i] = '?'; /* the message is one line */
    memcpy(line + length, reason, sizeof reason - 1);
    length += sizeof reason - 1;
    if (write(STDERR_FILENO, line, length) < 0) _exit(1);
    _exit(1);
}

void mapped_watch(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
