#include "sandbox.h"

const char *sandbox_text(const SandboxReport *report) {
    if (report->files) return report->system_calls ? "files and system calls" : "files";
    return report->system_calls ? "system calls" : "none";
}

/* At its end AddressSanitizer looks for leaks from a process of its own, which reads this one's
 * memory: everything that a sandbox forbids. Its builds go without. */
#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_POSSIBLE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_POSSIBLE 0
#endif
#endif
#ifndef SANDBOX_POSSIBLE
#define SANDBOX_POSSIBLE 1
#endif

#if defined(__linux__) && SANDBOX_POSSIBLE

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Landlock: the kernel's own names are missing from older headers --------------------- */

enum { LL_CREATE = 444, LL_ADD_RULE = 445, LL_RESTRICT = 446, LL_VERSION = 1, LL_PATH_BENEATH = 1 };

enum {
    LL_EXECUTE = 1 << 0,
    LL_WRITE_FILE = 1 << 1,
    LL_READ_FILE = 1 << 2,
    LL_READ_DIR = 1 << 3,
    LL_REMOVE_DIR = 1 << 4,
    LL_REMOVE_FILE = 1 << 5,
    LL_MAKE_DIR = 1 << 7,
    LL_MAKE_REG = 1 << 8,
    LL_REFER = 1 << 13,    /* from version 2 */
    LL_TRUNCATE = 1 << 14, /* from version 3 */
    LL_VERSION_1 = (1 << 13) - 1
};

typedef struct LandlockRuleset {
    uint64_t files;
    uint64_t network; /* from version 4 */
} LandlockRuleset;

typedef struct __attribute__((packed)) LandlockPath {
    uint64_t allowed;
    int32_t parent;
} LandlockPath;

static Status allow_below(int ruleset, const char *directory, uint64_t rights, Error *error) {
    LandlockPath path = {rights, open(directory, O_PATH | O_CLOEXEC)};
    if (path.parent < 0) return error_set(error, "%s: cannot open: %s", directory, strerror(errno));
    long result = syscall(LL_ADD_RULE, ruleset, LL_PATH_BENEATH, &path, 0);
    int reason = errno;
    close(path.parent);
    if (result == 0) return STATUS_OK;
    return error_set(error, "%s: cannot keep it open to the sandbox: %s", directory,
                     strerror(reason));
}

static Status add_rules(int ruleset, const SandboxRules *rules, uint64_t handled, Error *error) {
    uint64_t reading = LL_READ_FILE | LL_READ_DIR;
    uint64_t writing = reading | LL_WRITE_FILE | LL_REMOVE_DIR | LL_REMOVE_FILE | LL_MAKE_DIR |
                       LL_MAKE_REG | LL_REFER | LL_TRUNCATE;
    for (size_t i = 0; rules->readable[i]; i++)
        if (allow_below(ruleset, rules->readable[i], reading & handled, error) != STATUS_OK)
            return STATUS_FAILED;
    for (size_t i = 0; rules->writable[i]; i++)
        if (allow_below(ruleset, rules->writable[i], writing & handled, error) != STATUS_OK)
            return STATUS_FAILED;
    return STATUS_OK;
}

static Status close_file_system(const SandboxRules *rules, bool *closed, Error *error) {
    long version = syscall(LL_CREATE, NULL, 0, LL_VERSION);
    *closed = false;
    if (version < 1) return STATUS_OK; /* an old kernel, or switched off */
    LandlockRuleset handled = {.files = LL_VERSION_1};
    if (version >= 2) handled.files |= LL_REFER;
    if (version >= 3) handled.files |= LL_TRUNCATE;
    size_t size = sizeof handled.files;
    if (version >= 4) {
        handled.network = 3; /* bind and connect over TCP */
        size = sizeof handled;
    }
    int ruleset = (int)syscall(LL_CREATE, &handled, size, 0);
    if (ruleset < 0)
        return error_set(error, "cannot make a sandbox for files: %s", strerror(errno));
    Status status = add_rules(ruleset, rules, handled.files, error);
    if (status == STATUS_OK && syscall(LL_RESTRICT, ruleset, 0) != 0)
        status = error_set(error, "cannot close the file system: %s", strerror(errno));
    close(ruleset);
    *closed = status == STATUS_OK;
    return status;
}

/* ---- seccomp --------------------------------------------------------------------------- */

#if defined(HAVE_LIBSECCOMP)

#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <termios.h>

/* libseccomp's own macros leave out a field that they do not use. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* What arithmetic on open files, threads and a terminal needs; everything else is refused.
 * Memory may be made executable: PCRE2 compiles the tokenizer's pattern to machine code. */
static const int harmless[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(preadv),
    SCMP_SYS(pwritev),
    SCMP_SYS(lseek),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(fcntl),
    SCMP_SYS(dup),
    SCMP_SYS(flock),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(fadvise64),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(copy_file_range),
    SCMP_SYS(fstatfs),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(mincore),
    SCMP_SYS(brk),
    SCMP_SYS(membarrier),
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getcpu),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrusage),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

/* Names and renames of files: Landlock says below which directories. */
static const int on_paths[] = {
    SCMP_SYS(open),       SCMP_SYS(openat),     SCMP_SYS(access),  SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2), SCMP_SYS(stat),       SCMP_SYS(lstat),   SCMP_SYS(rename),
    SCMP_SYS(renameat),   SCMP_SYS(renameat2),  SCMP_SYS(unlink),  SCMP_SYS(unlinkat),
    SCMP_SYS(linkat),     SCMP_SYS(mkdir),      SCMP_SYS(mkdirat), SCMP_SYS(getdents64),
    SCMP_SYS(readlink),   SCMP_SYS(readlinkat), SCMP_SYS(statfs),  SCMP_SYS(umask),
    SCMP_SYS(fchmod),
};

static const unsigned long terminal_requests[] = {TCGETS,  TCSETS,     TCSETSW,
                                                  TCSETSF, TIOCGWINSZ, FIONREAD};

static int allow_all(scmp_filter_ctx filter, const int *calls, size_t n) {
    int result = 0;
    for (size_t i = 0; i < n; i++) {
        if (calls[i] < 0) continue; /* this machine does not have it */
        int added = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
        if (added != 0) result = added;
    }
    return result;
}

static int allow_some(scmp_filter_ctx filter) {
    int result = 0, added;
    for (size_t i = 0; i < sizeof terminal_requests / sizeof *terminal_requests; i++) {
        added = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                 SCMP_A1(SCMP_CMP_EQ, terminal_requests[i]));
        if (added != 0) result = added;
    }
    /* Threads, not processes. clone3 hides its flags from the filter: the C library falls back
     * on clone when it seems to be missing. */
    added = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    if (added != 0) result = added;
    added = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (added != 0) result = added;
    /* abort() and pthread_kill: signals to this very process. */
    added = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    if (added != 0) result = added;
    /* Reading limits, not setting them. */
    added =
        seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A2(SCMP_CMP_EQ, 0));
    if (added != 0) result = added;
    /* Names for memory and threads. */
    added = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
    return added != 0 ? added : result;
}

static Status filter_calls(bool paths, bool *filtered, Error *error) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    *filtered = false;
    if (!filter) return error_set(error, "no memory for a system call filter");
    int result = allow_all(filter, harmless, sizeof harmless / sizeof *harmless);
    if (result == 0 && paths)
        result = allow_all(filter, on_paths, sizeof on_paths / sizeof *on_paths);
    if (result == 0) result = allow_some(filter);
    if (result == 0) {
        int loaded = seccomp_load(filter);
        /* A kernel without seccomp is no error. */
        if (loaded == 0) *filtered = true;
        if (loaded != 0 && loaded != -EINVAL && loaded != -ENOSYS) result = loaded;
    }
    seccomp_release(filter);
    if (result == 0) return STATUS_OK;
    return error_set(error, "cannot filter system calls: %s", strerror(-result));
}

#else

static Status filter_calls(bool paths, bool *filtered, Error *error) {
    (void)paths, (void)error;
    *filtered = false;
    return STATUS_OK;
}

#endif

Status sandbox_enter(const SandboxRules *rules, SandboxReport *report, Error *error) {
    *report = (SandboxReport){false, false};
    omp_get_max_threads(); /* LLVM's runtime opens shared memory when it is first called */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return error_set(error, "cannot give up new privileges: %s", strerror(errno));
    if (close_file_system(rules, &report->files, error) != STATUS_OK) return STATUS_FAILED;
    bool paths = rules->readable[0] || rules->writable[0];
    return filter_calls(paths, &report->system_calls, error);
}

#else

Status sandbox_enter(const SandboxRules *rules, SandboxReport *report, Error *error) {
    (void)rules, (void)error;
    *report = (SandboxReport){false, false};
    return STATUS_OK;
}

#endif
