/* Checks for memory growth: a batch and a chat run side by side for SOAK_MINUTES (20), and a
 * thousand sessions are saved and loaded. Memory may exceed its peak of the first fifth of the time
 * by only a little.
 *
 * Under AddressSanitizer (`make soak BUILD=build/asan` after `make asan`) the quarantine of freed
 * memory is kept small, so that only leaks show as growth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "modes/batch/batch_files.h"
#include "tests/batch_cases.h"
#include "tests/dialogue_cases.h"
#include "tests/fixture.h"
#include "tests/small_model.h"

enum { SLACK_KILOBYTES = 4096 };

/* AddressSanitizer keeps freed memory in a quarantine, 256 MiB by default, which looks like growth.
 * These options apply to this program; fed_start sets them for the programs that it runs. */
#define SANITIZER_OPTIONS "quarantine_size_mb=1"
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return SANITIZER_OPTIONS;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns a process's private (anonymous) resident memory in KiB. */
static long private_memory(pid_t pid) {
    char path[64], line[256];
    long kilobytes = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file)) sscanf(line, "RssAnon: %ld", &kilobytes);
    fclose(file);
    return kilobytes;
}

/* A process's peak memory in KiB: in the first fifth of the time, and overall. */
typedef struct Memory {
    long early, most;
} Memory;

static void look(Memory *m, pid_t pid, double share_of_time) {
    long kilobytes = private_memory(pid);
    if (share_of_time < 0.2 && kilobytes > m->early) m->early = kilobytes;
    if (kilobytes > m->most) m->most = kilobytes;
}

/* `known` KiB may be added to what was there early. */
static void assert_flat(const Memory *m, const char *what, long known) {
    print_message("%s: %ld KiB early, %ld KiB at most, %ld of them known\n", what, m->early,
                  m->most, known);
    assert_true(m->early > 0);
    if (m->most > m->early + known + SLACK_KILOBYTES) fail_msg("%s: grows", what);
}

/* What a batch keeps of n requests, in KiB: their keys, so that none is answered twice. */
static long key_kilobytes(size_t n) {
    KeySet keys = {0};
    for (size_t i = 0; i < n; i++)
        assert_true(keyset_add(&keys, record_key_of_line(i + 1, i), KEY_SEEN));
    size_t bytes = keys.capacity * sizeof *keys.entries;
    keyset_free(&keys);
    return (long)(bytes / 1024);
}

/* ---- Programs fed line by line --------------------------------------------------------------- */

typedef struct Fed {
    const char *name;
    char *(*line)(size_t i); /* makes input line i, malloc'ed with its newline */
    pid_t pid;
    int in, out;
    char *pending; /* input not yet written */
    size_t at;
    size_t said, heard; /* lines written; lines read back */
    Memory memory;
} Fed;

static void fed_start(Fed *fed, const char *const *argv) {
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    char *program = build_path(argv[0]);
    fed->pid = fork();
    if (fed->pid == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(to[0], 0);
        dup2(from[1], 1);
        if (!getenv("SOAK_VERBOSE")) dup2(nothing, 2);
        setenv("ASAN_OPTIONS", SANITIZER_OPTIONS, 1);
        execv(program, (char *const *)argv);
        _exit(127);
    }
    free(program);
    close(to[0]);
    close(from[1]);
    fed->in = to[1];
    fed->out = from[0];
    fcntl(fed->in, F_SETFL, O_NONBLOCK);
    fcntl(fed->out, F_SETFL, O_NONBLOCK);
}

static void fed_write(Fed *fed) {
    if (!fed->pending) {
        fed->pending = fed->line(fed->said++);
        fed->at = 0;
    }
    ssize_t n = write(fed->in, fed->pending + fed->at, strlen(fed->pending + fed->at));
    if (n > 0) fed->at += (size_t)n;
    if (fed->pending[fed->at]) return;
    free(fed->pending);
    fed->pending = NULL;
}

static void fed_read(Fed *fed) {
    char bytes[65536];
    ssize_t n = read(fed->out, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++) fed->heard += bytes[i] == '\n';
}

/* Closes the program's input, reads the rest of its output and expects exit status 0. */
static void fed_finish(Fed *fed) {
    int status;
    struct pollfd p = {.fd = fed->out, .events = POLLIN};
    while (fed->pending) {
        fed_write(fed);
        if (poll(&p, 1, 10) > 0) fed_read(fed);
    }
    close(fed->in);
    while (poll(&p, 1, 60000) > 0 && !(p.revents & POLLHUP && !(p.revents & POLLIN))) fed_read(fed);
    close(fed->out);
    assert_int_equal(waitpid(fed->pid, &status, 0), fed->pid);
    if (status != 0) fail_msg("%s ended with %x", fed->name, status);
}

static char *batch_line(size_t i) {
    char *line = NULL;
    json_t *request = batch_case(i);
    char *text = json_dumps(request, JSON_COMPACT);
    assert_true(asprintf(&line, "%s\n", text) > 0);
    free(text);
    json_decref(request);
    return line;
}

/* Makes line i of the chat: a question, or after 300 lines /reset. Each conversation overflows the
 * context many times. */
static char *chat_line(size_t i) {
    char *line = NULL;
    assert_true((i % 300 == 299 ? asprintf(&line, "/reset\n")
                                : asprintf(&line, "What do you do on day %zu?\n", i)) > 0);
    return line;
}

static void batch_and_chat_for_minutes_in_flat_memory(void **state) {
    (void)state;
    const char *minutes = getenv("SOAK_MINUTES");
    double seconds = 60.0 * (minutes ? atof(minutes) : 20.0), start, next = 0.0;
    size_t heard_early = 0;
    char *directory = fixture_directory(), *model = small_model_stories(directory);
    if (!model) model = small_model(directory, "tiny,context=512");
    signal(SIGPIPE, SIG_IGN);
    Fed fed[] = {{.name = "batch", .line = batch_line}, {.name = "chat", .line = chat_line}};
    enum { N = sizeof fed / sizeof *fed };
    fed_start(&fed[0], (const char *const[]){"run", model, "--batch", "-", "--max-concurrent", "16",
                                             "-j", "1", NULL});
    fed_start(&fed[1], (const char *const[]){"run", "models/stories.bin", "-m", "chat", "-n", "24",
                                             "-c", "256", "-j", "1", NULL});
    start = now();
    for (double past = 0.0; past < seconds; past = now() - start) {
        struct pollfd p[2 * N];
        for (size_t i = 0; i < N; i++) {
            p[2 * i] = (struct pollfd){.fd = fed[i].in, .events = POLLOUT};
            p[2 * i + 1] = (struct pollfd){.fd = fed[i].out, .events = POLLIN};
        }
        if (poll(p, 2 * N, 200) < 0) continue;
        for (size_t i = 0; i < N; i++) {
            if (p[2 * i].revents & (POLLERR | POLLHUP)) fail_msg("%s ended early", fed[i].name);
            if (p[2 * i].revents & POLLOUT) fed_write(&fed[i]);
            if (p[2 * i + 1].revents & POLLIN) fed_read(&fed[i]);
        }
        if (past < next) continue;
        next = past + 1.0;
        for (size_t i = 0; i < N; i++) look(&fed[i].memory, fed[i].pid, past / seconds);
        if (past / seconds < 0.2) heard_early = fed[0].heard;
    }
    for (size_t i = 0; i < N; i++) fed_finish(&fed[i]);
    print_message("%.0f s: %zu requests, %zu results; %zu messages\n", seconds, fed[0].said,
                  fed[0].heard, fed[1].said);
    assert_int_equal(fed[0].said, fed[0].heard);
    /* On a busy machine the first fifth of the time may bring fewer than a fifth of the keys. */
    long later = key_kilobytes(fed[0].said) - key_kilobytes(heard_early);
    for (size_t i = 0; i < N; i++) assert_flat(&fed[i].memory, fed[i].name, i == 0 ? later : 0);
    free(model);
    fixture_remove_directory(directory);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void a_thousand_sessions_saved_and_loaded_in_flat_memory(void **state) {
    (void)state;
    enum { TIMES = 1000, TURNS = 5 };
    char *directory = fixture_directory(), *path = fixture_path(directory, "session");
    char *kv = fixture_path(directory, "session.kv");
    Memory memory = {0};
    Opened o;
    opened_open(&o, "models/stories.bin", NULL, 256, 8);
    for (size_t i = 0; i < TIMES; i++) {
        Dialogue d = dialogue_of(&o, path);
        if (conversation_length(&d.conversation) != i % TURNS * 2)
            fail_msg("%zu: %zu messages were loaded", i, conversation_length(&d.conversation));
        dialogue_said(&d, "What do you like?");
        AnswerStats stats = dialogue_answered(&d);
        if (i % TURNS && stats.n_cached == 0) fail_msg("%zu: nothing of its cache was loaded", i);
        dialogue_close(&d);
        if (i % TURNS == TURNS - 1) unlink(path), unlink(kv);
        look(&memory, getpid(), (double)i / TIMES);
    }
    opened_close(&o);
    assert_flat(&memory, "sessions", 0);
    free(path);
    free(kv);
    fixture_remove_directory(directory);
}

int main(void) {
    /* AddressSanitizer's quarantine of freed memory would look like growth: keep it small. */
    setenv("ASAN_OPTIONS", "quarantine_size_mb=4:malloc_context_size=4", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_sessions_saved_and_loaded_in_flat_memory),
        cmocka_unit_test(batch_and_chat_for_minutes_in_flat_memory),
    };
    return cmocka_run_group_tests_name("soak_long", tests, NULL, NULL);
}
