/* Every system call inside the sandbox, against the tables of SECURITY.md.
 *
 * No call is carried out: a filter of the test's own, installed before the sandbox, answers every
 * call whose sixth argument is PROBE with ENOSYS. The kernel asks all filters and takes the
 * strictest answer, and EPERM is stricter: so ENOSYS means that the sandbox lets the call through.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "process.h"
#include "system/sandbox.h"

enum { PROBE = 0x70726f62, N_CALLS = 1024, X32 = 0x40000000 };
enum { SKIPPED = 91 };

/* Calls that SECURITY.md may name. */
#define CALL(name)                                                                                 \
    { #name, SYS_##name }
static const struct {
    const char *name;
    int number;
} calls[] = {
    CALL(read),
    CALL(write),
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(preadv),
    CALL(pwritev),
    CALL(lseek),
    CALL(ppoll),
    CALL(pselect6),
    CALL(close),
    CALL(dup),
    CALL(flock),
    CALL(fstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(fstatfs),
    CALL(fsync),
    CALL(fdatasync),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fadvise64),
    CALL(sync_file_range),
    CALL(copy_file_range),
    CALL(mmap),
    CALL(munmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(madvise),
    CALL(mincore),
    CALL(brk),
    CALL(membarrier),
    CALL(set_robust_list),
    CALL(set_tid_address),
    CALL(sched_yield),
    CALL(sched_getaffinity),
    CALL(futex),
    CALL(rseq),
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(sigaltstack),
    CALL(restart_syscall),
    CALL(setitimer),
    CALL(getpid),
    CALL(gettid),
    CALL(getuid),
    CALL(geteuid),
    CALL(getcpu),
    CALL(getrusage),
    CALL(getrandom),
    CALL(sysinfo),
    CALL(uname),
    CALL(exit),
    CALL(exit_group),
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(clock_nanosleep),
    CALL(nanosleep),
    CALL(gettimeofday),
    CALL(openat),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(renameat),
    CALL(renameat2),
    CALL(unlinkat),
    CALL(linkat),
    CALL(mkdirat),
    CALL(getdents64),
    CALL(readlinkat),
    CALL(statfs),
    CALL(umask),
    CALL(fchmod),
    CALL(sendto),
    CALL(recvfrom),
    CALL(sendmsg),
    CALL(recvmsg),
    CALL(getsockopt),
    CALL(epoll_pwait),
    CALL(epoll_ctl),
    CALL(shmdt),
    CALL(sched_setaffinity),
#if defined(SYS_open) /* machines that are old enough to have both kinds */
    CALL(poll),
    CALL(select),
    CALL(time),
    CALL(open),
    CALL(access),
    CALL(rename),
    CALL(unlink),
    CALL(mkdir),
    CALL(readlink),
    CALL(stat),
    CALL(lstat),
    CALL(epoll_wait),
#endif
};
static const char *const absent[] = {"poll",     "select", "time",   "open",
                                     "access",   "rename", "unlink", "mkdir",
                                     "readlink", "stat",   "lstat",  "epoll_wait"};

/* The four kinds of sandboxes: what a program may need beside what is always allowed. */
typedef enum Kind { ALWAYS, DIRECTORIES, SOCKETS, AFFINITY, KINDS } Kind;
static const char *const kind_names[] = {"always", "directories", "sockets", "affinity"};
static bool allowed[KINDS][N_CALLS]; /* what the first table says */

static int number_of(const char *name) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0) return calls[i].number;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (strcmp(absent[i], name) == 0) return -1;
    fail_msg("SECURITY.md: this test does not know the system call '%s'", name);
    return -1;
}

/* Reads the rows whose first word is a kind. */
static int read_table(void **state) {
    size_t length, n = 0;
    char *text = file_read("SECURITY.md", &length), *at = strstr(text, "\n| kind | system calls |");
    (void)state;
    assert_non_null(at);
    for (char *row = strtok(at, "\n"); row && row[0] == '|'; row = strtok(NULL, "\n")) {
        Kind kind = ALWAYS;
        while (kind < KINDS && strncmp(row + 2, kind_names[kind], strlen(kind_names[kind])) != 0)
            kind++;
        if (kind == KINDS) continue; /* the head of the table */
        char *cell = strchr(row + 1, '|');
        for (char *name = strchr(cell, '`'); name; name = strchr(name, '`')) {
            char *end = strchr(++name, '`');
            assert_non_null(end);
            *end = '\0';
            int number = number_of(name);
            if (number >= 0) allowed[kind][number] = true;
            name = end + 1;
            n++;
        }
    }
    free(text);
    assert_true(n > 90);
    return 0;
}

/* ---- Probing ---------------------------------------------------------------------------------
 */

static bool passes(long call, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    errno = 0;
    bool is = syscall(call, a, b, c, d, 0UL, (unsigned long)PROBE) == -1 && errno == ENOSYS;
    /* Calls with fewer arguments leave the register of the sixth as it is. */
    syscall(SYS_getpid, 0UL, 0UL, 0UL, 0UL, 0UL, 0UL);
    return is;
}

static int install_probe(void) {
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 8 * 5},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PROBE},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRACE}, /* nobody traces: ENOSYS */
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        return SKIPPED;
    return passes(SYS_getpid, 0, 0, 0, 0) ? 0 : SKIPPED;
}

static int n_wrong;

static void expect(const char *what, unsigned long value, bool is, bool should_be) {
    if (is == should_be) return;
    n_wrong++;
    fprintf(stderr, "%s 0x%lx %s\n", what, value, is ? "passes" : "is refused");
}

#define SIZE(list) (sizeof(list) / sizeof *(list))

/* Whether SECURITY.md describes the call outside of the first table. */
static bool looks_at_arguments(long call, Kind kind) {
    static const long some[] = {SYS_fcntl,  SYS_ioctl, SYS_clone,    SYS_clone3,
                                SYS_tgkill, SYS_prctl, SYS_prlimit64};
    for (size_t i = 0; i < SIZE(some); i++)
        if (call == some[i]) return true;
#if defined(__x86_64__)
    if (call == 335 || call == 336) return true; /* uretprobe, uprobe: no filter is asked */
#endif
    return call == SYS_sched_setaffinity && kind != AFFINITY;
}

static void try_every_call(Kind kind) {
    for (long call = 0; call < N_CALLS; call++) {
        if (looks_at_arguments(call, kind)) continue;
        bool should = allowed[ALWAYS][call] || (kind != ALWAYS && allowed[kind][call]);
        expect("system call", (unsigned long)call, passes(call, 0, 0, 0, 0), should);
#if defined(__x86_64__) /* the same calls with 32-bit pointers */
        expect("x32 system call", (unsigned long)call, passes(call | X32, 0, 0, 0, 0), false);
#endif
    }
    for (int bit = 10; bit < 31; bit++)
        expect("system call", 1UL << bit, passes(1L << bit, 0, 0, 0, 0), false);
}

static bool is_among(unsigned long value, const unsigned long *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == value) return true;
    return false;
}

static void try_fcntl(void) {
    static const unsigned long commands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL};
    for (unsigned long command = 0; command < 4096; command++)
        if (command != F_SETFL)
            expect("fcntl", command, passes(SYS_fcntl, 0, command, 0, 0),
                   is_among(command, commands, SIZE(commands)));
    /* F_GETFL tells the kind of access and that files may be large; F_SETFL ignores both. */
    unsigned long harmless = O_APPEND | O_NONBLOCK | O_ACCMODE;
#if defined(__aarch64__)
    harmless |= 0400000;
#else
    harmless |= 0100000;
#endif
    for (int bit = 0; bit < 32; bit++)
        for (int other = 0; other < 32; other++) {
            unsigned long flags = 1UL << bit | 1UL << other;
            expect("F_SETFL", flags, passes(SYS_fcntl, 0, F_SETFL, flags, 0), !(flags & ~harmless));
        }
    expect("F_SETFL", 0, passes(SYS_fcntl, 0, F_SETFL, 0, 0), true);
}

static void try_ioctl(void) {
    static const unsigned long requests[] = {TCGETS,  TCSETS,     TCSETSW,
                                             TCSETSF, TIOCGWINSZ, FIONREAD};
    for (unsigned long request = 0; request < 0x10000; request++)
        expect("ioctl", request, passes(SYS_ioctl, 0, request, 0, 0),
               is_among(request, requests, SIZE(requests)));
}

static void try_arguments(Kind kind) {
    const unsigned long self = (unsigned long)getpid(),
                        others[] = {0, 1, self + 1, -1UL, 0xffffffff};
    for (int bit = 0; bit < 64; bit++) {
        unsigned long flag = 1UL << bit;
        expect("clone", flag, passes(SYS_clone, flag, 0, 0, 0), flag == CLONE_THREAD);
    }
    errno = 0;
    expect("clone3", 0, syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS, false);
    expect("tgkill", self, passes(SYS_tgkill, self, 0, 0, 0), true);
    for (size_t i = 0; i < SIZE(others); i++) {
        expect("tgkill", others[i], passes(SYS_tgkill, others[i], 0, 0, 0), false);
        expect("sched_setaffinity", others[i], passes(SYS_sched_setaffinity, others[i], 0, 0, 0),
               kind == AFFINITY || others[i] == 0);
    }
    for (unsigned long option = 0; option < 256; option++)
        expect("prctl", option, passes(SYS_prctl, option, 0, 0, 0), option == PR_SET_NAME);
    expect("prlimit64", 0, passes(SYS_prlimit64, 0, 0, 0, 0), true);
    for (int bit = 0; bit < 64; bit++)
        expect("prlimit64", 1UL << bit, passes(SYS_prlimit64, 0, 0, 1UL << bit, 0), false);
    for (int bit = 0; kind == SOCKETS && bit < 32; bit++) {
        unsigned long flag = 1UL << bit;
        expect("sendto", flag, passes(SYS_sendto, 0, 0, 0, flag), flag != MSG_FASTOPEN);
        expect("sendmsg", flag, passes(SYS_sendmsg, 0, 0, flag, 0), flag != MSG_FASTOPEN);
    }
    for (unsigned long mode = 1; kind == DIRECTORIES && mode <= 010000; mode <<= 1) {
        bool sets_id = mode & (S_ISUID | S_ISGID);
        expect("openat", mode, passes(SYS_openat, 0, 0, 0, mode), !sets_id);
        expect("fchmod", mode, passes(SYS_fchmod, 0, mode, 0, 0), !sets_id);
#if defined(SYS_open)
        expect("open", mode, passes(SYS_open, 0, 0, mode, 0), !sets_id);
#endif
    }
}

#if defined(__x86_64__)
static void end_without_32_bits(int signal_number) {
    (void)signal_number;
    _exit(n_wrong > 0);
}

/* The calls of 32-bit programs, by their own numbers; 20 is getpid. Comes last: some kernels end a
 * program that tries. */
static void try_32_bits(void) {
    long result = 20;
    signal(SIGILL, end_without_32_bits);
    signal(SIGSEGV, end_without_32_bits);
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    expect("int 0x80, call", 20, result > 0, false);
}
#else
static void try_32_bits(void) {}
#endif

/* Enters a sandbox of the kind in a process of its own, and tries. */
static int try_everything(Kind kind) {
    SandboxRules rules = {.sockets = kind == SOCKETS};
    SandboxReport report;
    Error error = {""};
    if (kind == DIRECTORIES) sandbox_allow_writing(&rules, "/tmp");
    if (kind == AFFINITY) setenv("OMP_PROC_BIND", "false", 1);
    int status = install_probe();
    if (status != 0) return status;
    if (sandbox_enter(&rules, &report, &error) != STATUS_OK || !report.system_calls) return SKIPPED;
    try_every_call(kind);
    try_fcntl();
    try_ioctl();
    try_arguments(kind);
    try_32_bits();
    return n_wrong > 0;
}

static void try_in_child(Kind kind) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        static const char *const variables[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                                "KMP_AFFINITY"};
        for (size_t i = 0; i < SIZE(variables); i++) unsetenv(variables[i]);
        _exit(try_everything(kind));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        print_message("this kernel or build lacks seccomp\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void what_is_always_allowed_is_what_the_table_says(void **state) {
    (void)state;
    try_in_child(ALWAYS);
}
static void directories_add_what_the_table_says(void **state) {
    (void)state;
    try_in_child(DIRECTORIES);
}
static void a_rank_adds_what_the_table_says(void **state) {
    (void)state;
    try_in_child(SOCKETS);
}
static void affinity_adds_what_the_table_says(void **state) {
    (void)state;
    try_in_child(AFFINITY);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(what_is_always_allowed_is_what_the_table_says),
        cmocka_unit_test(directories_add_what_the_table_says),
        cmocka_unit_test(a_rank_adds_what_the_table_says),
        cmocka_unit_test(affinity_adds_what_the_table_says),
    };
    return cmocka_run_group_tests_name("sandbox_calls", all, read_table, NULL);
}
