/* What code could do that has taken over a rank of a cluster, in its sandbox. Run by
 * tests/test_mpi.c, by mpirun:
 *
 *     attack_rank FILE
 *     attack_rank --calls     the last rank tries every system call (tests/test_sandbox_calls.c)
 *
 * Each rank prints a line for each attempt that succeeds. FILE appears when mpirun can be made to
 * start a program. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ports/cluster/wire.h"
#include "system/sandbox.h"

enum { MOST_DESCRIPTORS = 256, MOST_THREADS = 64 };

/* What is looked up while files can still be opened. */
typedef struct Before {
    int statuses[MOST_THREADS]; /* /proc/self/task/N/status of the threads of MPI */
    size_t n_threads;
    int listening; /* a socket like the ones of MPI, which waits for connections */
    struct sockaddr_in elsewhere;
    bool to_starter; /* a descriptor leads to the program that started the ranks */
} Before;

static void say(const Wire *wire, const char *what) {
    printf("rank %zu %s\n", wire_rank(wire), what);
    fflush(stdout);
}

/* ---- Before the sandbox ---- */

static int listen_on_loopback(struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    if (fd < 0 || bind(fd, (struct sockaddr *)address, size) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &size) != 0)
        exit(90);
    return fd;
}

/* Whether a socket is connected to a port that the environment names as one of the starter's. */
static bool leads_to_starter(void) {
    static const char *const names[] = {
        "PMIX_SERVER_URI",  "PMIX_SERVER_URI2",  "PMIX_SERVER_URI21",    "PMIX_SERVER_URI3",
        "PMIX_SERVER_URI4", "PMIX_SERVER_URI41", "OMPI_MCA_orte_hnp_uri"};
    for (int fd = 3; fd < MOST_DESCRIPTORS; fd++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof peer;
        char port[16];
        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0) continue;
        if (peer.sin_family != AF_INET) return true; /* ranks are connected by TCP */
        snprintf(port, sizeof port, ":%u", ntohs(peer.sin_port));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const char *uri = getenv(names[i]), *at = uri ? strstr(uri, port) : NULL;
            if (at && (at[strlen(port)] < '0' || at[strlen(port)] > '9')) return true;
        }
    }
    return false;
}

static Before look_around(void) {
    Before b = {.to_starter = leads_to_starter()};
    struct sockaddr_in ignored;
    char path[64];
    b.listening = listen_on_loopback(&ignored);
    listen_on_loopback(&b.elsewhere);
    /* Threads have the numbers that follow the process's. */
    for (int id = getpid(); id < getpid() + 4096 && b.n_threads < MOST_THREADS; id++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/status", id);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) b.statuses[b.n_threads++] = fd;
    }
    return b;
}

/* ---- Inside ---- */

/* The ABI of PMIx_Spawn, from version 2 on. */
typedef struct PmixApp {
    char *cmd;
    char **argv, **env;
    char *cwd;
    int maxprocs;
    void *info;
    size_t n_info;
} PmixApp;

/* Asks the starter, by MPI's own connection, to make a file by a shell. */
static void start_a_shell(void *pmix, char *file) {
    char command[600], space[256] = "";
    int (*spawn)(void *, size_t, const PmixApp *, size_t, char *) =
        pmix ? (int (*)(void *, size_t, const PmixApp *, size_t, char *))dlsym(pmix, "PMIx_Spawn")
             : NULL;
    snprintf(command, sizeof command, "echo escaped > '%s'", file);
    char *words[] = {"/bin/sh", "-c", command, NULL};
    const PmixApp app = {.cmd = words[0], .argv = words, .cwd = "/", .maxprocs = 1};
    if (spawn) spawn(NULL, 0, &app, 1, space);
}

/* A listening socket can become one that has no peer, and a message can connect it. */
static bool connects_by_a_message(const Before *b) {
    shutdown(b->listening, SHUT_RDWR);
    return sendto(b->listening, "x", 1, MSG_FASTOPEN | MSG_DONTWAIT,
                  (const struct sockaddr *)&b->elsewhere, sizeof b->elsewhere) >= 0 ||
           errno == EINPROGRESS;
}

static bool connects(const Before *b) {
    return connect(b->listening, (const struct sockaddr *)&b->elsewhere, sizeof b->elsewhere) == 0;
}

/* Whether code outside the filter can be reached: a thread that was started before. */
static bool has_a_free_thread(const Before *b) {
    for (size_t i = 0; i < b->n_threads; i++) {
        char text[4096] = "";
        if (pread(b->statuses[i], text, sizeof text - 1, 0) <= 0) continue; /* has ended */
        if (!strstr(text, "Seccomp:\t2")) return true;
    }
    return false;
}

/* In a child, which has the rank's descriptors, and whose sandbox is that of a rank. The filter of
 * MPI's threads is the same: has_a_free_thread. */
int main_of_test_sandbox_calls(void);

int main(int argc, char **argv) {
    Wire *wire;
    Error error = {.text = ""};
    SandboxReport report;
    const SandboxRules rules = {.sockets = true};
    char *file = argc > 1 ? argv[1] : "";
    if (wire_open(&wire, &argc, &argv, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 90;
    }
    if (strcmp(file, "--calls") == 0) {
        bool last = wire_rank(wire) + 1 == wire_ranks(wire);
        int wrong = last ? main_of_test_sandbox_calls() : 0;
        wire_close(wire);
        return wrong;
    }
    const Before before = look_around();
    void *pmix = dlopen("libpmix.so.2", RTLD_NOW | RTLD_NOLOAD);
    if (sandbox_enter(&rules, &report, &error) != STATUS_OK || !report.system_calls) {
        fprintf(stderr, "no sandbox: %s\n", error.text);
        return 91;
    }
    if (before.to_starter) say(wire, "has a connection to mpirun");
    if (has_a_free_thread(&before)) say(wire, "has a thread without a sandbox");
    if (connects(&before)) say(wire, "makes a connection");
    if (connects_by_a_message(&before)) say(wire, "makes a connection by a message");
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0) say(wire, "makes a socket");
    if (wire_rank(wire) == 1) start_a_shell(pmix, file);
    if (access(file, F_OK) == 0) say(wire, "sees files");
    wire_close(wire);
    return 0;
}
