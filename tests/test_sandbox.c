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
#include <netinet/in.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/sandbox.h"
#include "system/standard_streams.h"

/* Each function tries something forbidden and returns true when it succeeded. */
static bool opens_a_file(void) {
    return open("/etc/passwd", O_RDONLY) >= 0;
}
static bool makes_a_file(void) {
    return open("/tmp/verbatim-escaped", O_CREAT | O_RDWR, 0600) >= 0;
}
static bool has_a_socket(void) {
    return socket(AF_INET, SOCK_STREAM, 0) >= 0;
}
static bool has_a_local_socket(void) {
    return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}
static bool runs_a_program(void) {
    char *arguments[] = {"/bin/true", NULL};
    execve("/bin/true", arguments, arguments + 1);
    return false; /* only a refusal returns */
}
static bool forks(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    return child > 0;
}
static bool traces(void) {
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}
static bool signals_others(void) {
    return kill(1, 0) == 0;
}
/* The kernel would send a signal of our choice, such as SIGKILL, to that process whenever the
 * descriptor becomes ready. */
static bool has_others_signalled(void) {
    return fcntl(STDERR_FILENO, F_SETOWN, getppid()) == 0 ||
           fcntl(STDERR_FILENO, F_SETSIG, SIGKILL) == 0;
}
/* A terminal would send SIGIO to the programs in its foreground, which ends those without a
 * handler.
 */
static bool has_a_terminal_signal(void) {
    return fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_ASYNC) == 0;
}
static bool removes_a_file(void) {
    return unlink("/tmp/verbatim-sandbox-victim") == 0;
}
static bool changes_directory(void) {
    return chdir("/") == 0;
}
static pid_t tests; /* this program's process; inside the sandbox nobody may ask for it */
static bool moves_another_process(void) {
    cpu_set_t processors;
    return sched_getaffinity(tests, sizeof processors, &processors) == 0 &&
           sched_setaffinity(tests, sizeof processors, &processors) == 0;
}

typedef struct Attempt {
    const char *name;
    bool (*succeeds)(void);
} Attempt;

static const Attempt attempts[] = {
    {"opens a file", opens_a_file},
    {"makes a file", makes_a_file},
    {"has a socket", has_a_socket},
    {"has a local socket", has_a_local_socket},
    {"runs a program", runs_a_program},
    {"forks", forks},
    {"traces", traces},
    {"signals others", signals_others},
    {"has others signalled", has_others_signalled},
    {"has a terminal signal", has_a_terminal_signal},
    {"removes a file", removes_a_file},
    {"changes directory", changes_directory},
    {"moves another process", moves_another_process},
};

/* Runs `body` in a child process, because a process cannot leave the sandbox; returns its exit
 * status. */
static int in_child(int (*body)(const SandboxRules *), const SandboxRules *rules) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(body(rules));
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int enter(const SandboxRules *rules) {
    SandboxReport report;
    Error error = {""};
    if (sandbox_enter(rules, &report, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 90;
    }
    return report.files && report.system_calls ? 0 : 91;
}

static int try_everything(const SandboxRules *rules) {
    int entered = enter(rules);
    if (entered != 0) return entered;
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        if (attempts[i].succeeds()) {
            fprintf(stderr, "inside the sandbox somebody %s\n", attempts[i].name);
            return 1;
        }
    }
    return 0;
}

static int try_in_a_worker(const SandboxRules *rules) {
    int entered = enter(rules), result = 2;
    if (entered != 0) return entered;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        result = 0;
        for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
            if (attempts[i].succeeds()) result = 1;
    }
    return result;
}

static int work(const SandboxRules *rules) {
    FILE *file = tmpfile();
    int entered = enter(rules), sum = 0;
    if (entered != 0) return entered;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int i = 0; i < 1000; i++) sum += i;
    if (sum != 499500) return 2;
    if (fprintf(file, "%d", sum) < 0 || fflush(file) != 0 || fseek(file, 0, SEEK_SET) != 0)
        return 3;
    char *big = malloc(64 << 20);
    if (!big) return 4;
    memset(big, 1, 64 << 20);
    free(big);
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    if (fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(STDIN_FILENO, F_SETFL, flags) != 0)
        return 6;
    void *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return code == MAP_FAILED ? 5 : 0;
}

static int write_below(const SandboxRules *rules) {
    char path[300], other[300];
    int entered = enter(rules);
    if (entered != 0) return entered;
    snprintf(path, sizeof path, "%s/new", rules->writable[0]);
    snprintf(other, sizeof other, "%s/renamed", rules->writable[0]);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0) return 2;
    if (fchmod(fd, 0600) != 0) return 5;
    if (fchmod(fd, 04755) == 0 || fchmod(fd, 02755) == 0) return 6;
    if (open(other, O_CREAT | O_RDWR, 04755) >= 0) return 7;
    if (rename(path, other) != 0 || unlink(other) != 0) return 3;
    return opens_a_file() || makes_a_file() || has_a_socket() ? 4 : 0;
}

static const SandboxRules nothing = {.writable = {NULL}};

static void skip_when(int result) {
    if (result != 91) return;
    print_message("this kernel or build lacks Landlock or seccomp\n");
    skip();
}

static void nothing_forbidden_succeeds_in_the_main_thread(void **state) {
    (void)state;
    close(open("/tmp/verbatim-sandbox-victim", O_CREAT | O_RDWR, 0600));
    int result = in_child(try_everything, &nothing);
    skip_when(result);
    assert_int_equal(result, 0);
    assert_int_equal(unlink("/tmp/verbatim-sandbox-victim"), 0);
}

static void nothing_forbidden_succeeds_in_a_worker(void **state) {
    (void)state;
    close(open("/tmp/verbatim-sandbox-victim", O_CREAT | O_RDWR, 0600));
    int result = in_child(try_in_a_worker, &nothing);
    skip_when(result);
    assert_int_equal(result, 0);
    assert_int_equal(unlink("/tmp/verbatim-sandbox-victim"), 0);
}

static void arithmetic_threads_memory_and_open_files_still_work(void **state) {
    (void)state;
    int result = in_child(work, &nothing);
    skip_when(result);
    assert_int_equal(result, 0);
}

static void only_the_named_directory_is_writable(void **state) {
    (void)state;
    char directory[] = "/tmp/verbatim-sandbox-XXXXXX";
    assert_non_null(mkdtemp(directory));
    SandboxRules rules = {.writable = {directory, NULL}};
    int result = in_child(write_below, &rules);
    rmdir(directory);
    skip_when(result);
    assert_int_equal(result, 0);
}

static int keep_only(const SandboxRules *rules) {
    char *words[] = {"run", "--chat-template=/dev/fd/11", "/proc/self/fd/13", NULL};
    (void)rules;
    for (int fd = 9; fd < 15; fd++)
        if (dup2(STDIN_FILENO, fd) != fd) return 2;
    standard_streams_only(words);
    for (int fd = 0; fd < 64; fd++)
        if ((fcntl(fd, F_GETFD) != -1) != (fd < 3 || fd == 11 || fd == 13)) return 100 + fd;
    return 0;
}

static void descriptors_of_the_parent_are_closed_unless_they_are_named(void **state) {
    (void)state;
    assert_int_equal(in_child(keep_only, &nothing), 0);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    tests = getpid();
    const struct CMUnitTest all[] = {
        cmocka_unit_test(nothing_forbidden_succeeds_in_the_main_thread),
        cmocka_unit_test(nothing_forbidden_succeeds_in_a_worker),
        cmocka_unit_test(arithmetic_threads_memory_and_open_files_still_work),
        cmocka_unit_test(only_the_named_directory_is_writable),
        cmocka_unit_test(descriptors_of_the_parent_are_closed_unless_they_are_named),
    };
    return cmocka_run_group_tests_name("sandbox", all, NULL, NULL);
}
