/* Giving up rights before untrusted bytes are parsed.
 *
 * A program opens the files that it needs, then calls sandbox_enter, before it reads an untrusted
 * byte and before it starts a thread (threads inherit the restrictions). From then on the process
 * cannot use the network, start programs, or read and trace other processes, and reaches only the
 * directories that it named. Landlock closes the file system, seccomp everything else. Where the
 * kernel lacks one of them, which is not an error, the other still holds. Linux only: elsewhere
 * there is no sandbox, and the report says so. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/status.h"

enum { SANDBOX_MAX_DIRS = 8 };

typedef struct SandboxRules {
    /* Sockets that are open already may be used; no new one can be made, and none connected. */
    bool sockets;
    /* Directories below which files may be read, created, renamed and removed, then NULL. Almost
     * all modes name none: their files are open already, and errand.h gives them their names. */
    const char *writable[SANDBOX_MAX_DIRS + 1];
} SandboxRules;

/* The parts of the sandbox that the kernel has put in force. */
typedef struct SandboxReport {
    bool files;        /* Landlock closes the file system */
    bool system_calls; /* seccomp lets only harmless calls through */
} SandboxReport;

/* Adds a directory (borrowed; NULL is passed over) to those that may be written in. */
void sandbox_allow_writing(SandboxRules *rules, const char *directory);

/* Fails only when a directory of the rules cannot be opened, or when the kernel has Landlock or
 * seccomp and then refuses to apply it. */
Status sandbox_enter(const SandboxRules *rules, SandboxReport *report, Error *error);

/* The report in words: "files and system calls", "files", "system calls" or "none". */
const char *sandbox_text(const SandboxReport *report);

#endif
