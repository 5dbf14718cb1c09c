/* Giving up rights before a stranger's bytes are parsed.
 *
 * A program opens the files that it needs, then calls sandbox_enter, before any untrusted byte
 * is read and before the first thread starts: threads inherit what it takes away. From then on
 * the process has no network, starts no programs, reads and traces nobody else, and reaches
 * only the directories that it named. Landlock closes the file system, seccomp everything
 * else; where the kernel lacks one of them the other still holds, and an old kernel is no
 * error. Linux only; elsewhere nothing is in force and the report says so. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/status.h"

enum { SANDBOX_MAX_DIRS = 8 };

typedef struct SandboxRules {
    /* Directories below which files may be read, or read, created, renamed and removed.
     * NULL-terminated; most modes name none, for their files are open already. */
    const char *readable[SANDBOX_MAX_DIRS + 1];
    const char *writable[SANDBOX_MAX_DIRS + 1];
} SandboxRules;

typedef struct SandboxReport {
    bool files;        /* Landlock closes the file system */
    bool system_calls; /* seccomp lets only harmless calls through */
} SandboxReport;

/* Adds a directory (borrowed; NULL is passed over) to those that may be written in. */
void sandbox_allow_writing(SandboxRules *rules, const char *directory);

/* Fails only when a directory that a rule names cannot be opened, or when the kernel offers
 * the means and then refuses them. */
Status sandbox_enter(const SandboxRules *rules, SandboxReport *report, Error *error);

/* What is in force, for people: "files and system calls", "files", ..., "none". */
const char *sandbox_text(const SandboxReport *report);

#endif
