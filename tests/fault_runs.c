#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fault_runs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"

/* clang links the address sanitizer into the program itself, ahead of any LD_PRELOAD library. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHIM_POSSIBLE 0
#endif
#endif
#ifndef SHIM_POSSIBLE
#define SHIM_POSSIBLE 1
#endif

static const char *const mode_names[] = {"export", "generate",  "chat", "batch",
                                         "shapes", "attention", "merge"};
static const char *const kind_names[] = {"memory", "mmap",   "read", "write",
                                         "fsync",  "rename", "lock", "short"};
static const char *const results[] = {"export.bin", "text",           "session", "results",
                                      "shaped",     "attention.json", "merged"};

/* Requests whose answers have a shape, which the last ones share. */
static const char shaped[] =
    "{\"id\": 1, \"prompt\": \"a\", \"json_schema\": {\"type\": \"object\", \"properties\": "
    "{\"p\": "
    "{\"type\": \"number\", \"minimum\": 0.5}, \"q\": {\"enum\": [\"one\", \"two\"]}}, "
    "\"required\": "
    "[\"q\"], \"minProperties\": 2, \"additionalProperties\": {\"type\": \"boolean\"}}}\n"
    "{\"id\": 2, \"prompt\": \"b\", \"regex\": \"[a-f]{3,9}(one|two)+[0-9]*\"}\n"
    "{\"id\": 3, \"prompt\": \"c\", \"grammar\": \"root ::= \\\"(\\\" list \\\")\\\"\\nlist ::= "
    "[a-z]+ | root "
    "root\", \"n\": 2}\n"
    "{\"id\": 4, \"prompt\": \"d\", \"regex\": \"[a-f]{3,9}(one|two)+[0-9]*\"}\n";

/* ---- One run --------------------------------------------------------------------------------- */

typedef struct Outcome {
    int status;
    char said[4096]; /* beginning of stderr */
} Outcome;

static void child(const FaultRuns *r, FaultMode mode, const char *result, int err) {
    char fd[16];
    int input = open(mode == FAULT_CHAT ? r->requests : "/dev/null", O_RDONLY);
    char *program = build_path(mode == FAULT_EXPORT ? "export" : "run");
    const char *const arguments[FAULT_MODES][20] = {
        {program, r->source, result, "-j", "1", "-q"},
        {program, r->model, "-i", "Once", "-n", "6", "-s", "1", "-j", "2", "-o", result},
        {program, r->model, "-m", "chat", "-n", "3", "-t", "0", "-j", "1", "--session", result,
         "--chat-template", r->source},
        {program, r->model, "--batch", r->requests, "--batch-text", "-n", "3", "-j", "1",
         "--ordered", "-o", result},
        {program, r->model, "--batch", r->shaped, "-n", "16", "-j", "1", "--on-length", "close",
         "--ordered", "-o", result},
        {program, r->model, "-i", "Once upon a time", "-j", "2", "--attention", result},
        {program, "--merge", r->parts[0], r->parts[1], "--batch", r->requests, "-o", result}};
    const char *argv[20];
    size_t n = 0;
    for (; arguments[mode][n]; n++) argv[n] = arguments[mode][n];
    if (mode == FAULT_CHAT) n -= 2; /* without a template: plain roles and text */
    argv[n] = NULL;
    snprintf(fd, sizeof fd, "%d", r->fd);
    setenv("VERBATIM_FAULTS", fd, 1);
    setenv("LD_PRELOAD", r->shim, 1);
    /* Sanitizer reports and leaks exit with 99, a status that the programs never return. */
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:exitcode=99", 1);
    setenv("XDG_STATE_HOME", r->directory, 1);
    dup2(input, 0);
    dup2(open("/dev/null", O_WRONLY), 1);
    dup2(err, 2);
    alarm(20); /* survives execv */
    execv(program, (char *const *)argv);
    _exit(127);
}

static Outcome run_once(FaultRuns *r, FaultMode mode, const char *result) {
    Outcome o;
    int err[2], status;
    size_t length = 0;
    ssize_t n;
    char rest[4096];
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) child(r, mode, result, err[1]);
    close(err[1]);
    while ((n = read(err[0], length < sizeof o.said - 1 ? o.said + length : rest,
                     length < sizeof o.said - 1 ? sizeof o.said - 1 - length : sizeof rest)) > 0)
        if (length < sizeof o.said - 1) length += (size_t)n;
    o.said[length] = '\0';
    close(err[0]);
    assert_int_equal(waitpid(process, &status, 0), process);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return o;
}

/* ---- What must be true afterwards ------------------------------------------------------------ */

static void remove_results(const FaultRuns *r) {
    DIR *dir = opendir(r->directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        for (size_t i = 0; i < FAULT_MODES; i++)
            if (strncmp(entry->d_name, results[i], strlen(results[i])) == 0)
                unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static bool has_temporary(const FaultRuns *r) {
    bool has = false;
    DIR *dir = opendir(r->directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        has |= strstr(entry->d_name, ".tmp") != NULL;
    closedir(dir);
    return has;
}

/* Returns true when a temporary file was left by a program that ended by itself. When it
 * ended at once, for lack of memory, the process that removes the file ends a moment later. */
static bool left_something(const FaultRuns *r) {
    for (int i = 0; i < 100 && has_temporary(r); i++) usleep(20000);
    return has_temporary(r);
}

/* Whether each of the lines is the wanted one, or an error for want of memory. */
static bool has_right_lines(const char *bytes, const char *wanted) {
    while (*bytes && *wanted) {
        const char *end = strchr(bytes, '\n'), *wanted_end = strchr(wanted, '\n');
        if (!end || !wanted_end) return true; /* cut off by the fault */
        size_t n = (size_t)(end - bytes);
        bool names = memmem(bytes, n, "\"error\": {", 10) && memmem(bytes, n, "emory", 5);
        if (!names && (n != (size_t)(wanted_end - wanted) || memcmp(bytes, wanted, n) != 0))
            return false;
        bytes = end + 1;
        wanted = wanted_end + 1;
    }
    return true;
}

/* Returns true when the file holds the result of a run without a fault. The results of a batch and
 * a conversation contain times and random ids, so only their numbers of lines are compared. */
static bool is_whole(const FaultRuns *r, FaultMode mode, const char *path) {
    size_t length, lines = 0, wanted = 0;
    char *bytes = file_read(path, &length);
    bool same;
    if (mode != FAULT_CHAT && mode != FAULT_BATCH) {
        same = length == r->wanted_length[mode] && memcmp(bytes, r->wanted[mode], length) == 0;
    } else {
        for (size_t i = 0; i < length; i++) lines += bytes[i] == '\n';
        for (size_t i = 0; i < r->wanted_length[mode]; i++) wanted += r->wanted[mode][i] == '\n';
        same = lines == wanted;
    }
    free(bytes);
    return same;
}

static bool is_right(const FaultRuns *r, const char *path) {
    size_t length;
    char *bytes = file_read(path, &length);
    bool right = has_right_lines(bytes, r->wanted[FAULT_SHAPES]);
    free(bytes);
    return right;
}

static const char *wrong(FaultRuns *r, FaultMode mode, const char *path, const Outcome *o,
                         const Outcome *again) {
    bool failed = o->status != 0, exists = access(path, F_OK) == 0;
    if (o->status >= 128) return "it ended in a signal, or hung";
    bool some = o->status == 3 && (mode == FAULT_BATCH || mode == FAULT_SHAPES);
    if (o->status != 0 && o->status != 1 && !some)
        return "its exit status is none that it should have";
    if (failed && o->status == 1 && o->said[0] == '\0') return "it failed without a word";
    if (!failed && (!exists || !is_whole(r, mode, path)))
        return "it succeeded, but the file is not whole";
    if (mode == FAULT_SHAPES && exists && !is_right(r, path))
        return "a line is neither the wanted one nor an error for want of memory";
    bool whole_only = mode != FAULT_CHAT && mode != FAULT_BATCH && mode != FAULT_SHAPES;
    if (failed && whole_only && exists && !is_whole(r, mode, path))
        return "it failed and left half a file";
    if (again->status != 0 && again->status != 3) return "the same command does not work any more";
    return NULL;
}

void fault_runs_try(FaultRuns *r, FaultMode mode, FaultKind kind, long step, bool goes_on) {
    char *path = fixture_path(r->directory, results[mode]);
    unsigned bad = 0;
    for (long n = 1;; n += step) {
        remove_results(r);
        memset(r->faults, 0, sizeof *r->faults);
        r->faults->fails[kind] = n;
        r->faults->goes_on = goes_on;
        Outcome o = run_once(r, mode, path), again = {0};
        bool injected = r->faults->failed > 0;
        if (o.status < 128 && kind != FAULT_RENAME && left_something(r)) {
            print_message("%s: %s %ld: left a temporary file\n", mode_names[mode], kind_names[kind],
                          n);
            bad++;
        }
        const char *what = NULL;
        if (mode == FAULT_CHAT || mode == FAULT_BATCH || mode == FAULT_SHAPES) {
            if (mode == FAULT_SHAPES) what = wrong(r, mode, path, &o, &again);
            memset(r->faults, 0, sizeof *r->faults);
            if (mode != FAULT_CHAT) unlink(path);
            Outcome second = run_once(r, mode, path);
            again.status = second.status;
            if (second.status) memcpy(o.said, second.said, sizeof o.said);
            if (mode != FAULT_CHAT && o.status == 0 && is_whole(r, mode, path)) again.status = 0;
        }
        if (!what && !(mode == FAULT_CHAT && o.status == 0 && again.status == 0))
            what = wrong(r, mode, path, &o, &again);
        if (what) {
            print_message("%s: %s %ld%s: %s: status %d, then %d: %s\n", mode_names[mode],
                          kind_names[kind], n, goes_on ? " and on" : "", what, o.status,
                          again.status, o.said);
            bad++;
        }
        if (!injected) break;
        r->injected++;
        r->refused += o.status != 0;
        if (bad > 8) break;
    }
    free(path);
    remove_results(r);
    if (bad) fail_msg("%u faults were not stood", bad);
}

/* ---- Setting up ------------------------------------------------------------------------------ */

FaultRuns *fault_runs_new(void) {
    char *shim = build_path("tests/faults.so");
    const char *runner = getenv("VERBATIM_RUNNER");
    if (!SHIM_POSSIBLE || (runner && *runner)) {
        free(shim);
        return NULL;
    }
    FaultRuns *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->shim = realpath(shim, NULL);
    if (!r->shim) fail_msg("%s is not built", shim);
    free(shim);
    r->directory = fixture_directory();
    r->model = small_model(r->directory, "tiny,n_layers=1");
    r->tokenizer = fixture_path(r->directory, "tokenizer.bin");
    r->source = strdup("random:tiny");
    Fixture f = fixture_load("llama-gqa");
    free(r->source);
    r->source = fixture_source(&f);
    fixture_free(&f);
    r->requests = fixture_path(r->directory, "requests");
    file_write(r->requests, "one\ntwo\nthree\n", 14);
    r->shaped = fixture_path(r->directory, "requests.jsonl");
    file_write(r->shaped, shaped, sizeof shaped - 1);
    for (size_t i = 0; i < 2; i++) {
        r->parts[i] = fixture_path(r->directory, i ? "part-2" : "part-1");
        Process part = RUN("run", r->model, "--batch", r->requests, "--batch-text", "-n", "3",
                           "--shard", i ? "2/2" : "1/2", "-o", r->parts[i]);
        assert_int_equal(part.status, 0);
        process_free(&part);
    }
    r->fd = memfd_create("faults", 0);
    assert_int_equal(ftruncate(r->fd, sizeof *r->faults), 0);
    r->faults = mmap(NULL, sizeof *r->faults, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    assert_ptr_not_equal(r->faults, MAP_FAILED);
    for (FaultMode mode = 0; mode < FAULT_MODES; mode++) {
        char *path = fixture_path(r->directory, results[mode]);
        memset(r->faults, 0, sizeof *r->faults);
        Outcome o = run_once(r, mode, path);
        if (o.status != 0) fail_msg("%s: %d: %s", mode_names[mode], o.status, o.said);
        print_message("%s:", mode_names[mode]);
        for (size_t k = 0; k < FAULT_KINDS; k++) r->calls[mode][k] = r->faults->calls[k];
        for (size_t k = 0; k < FAULT_KINDS; k++)
            print_message(" %s %ld", kind_names[k], (long)r->faults->calls[k]);
        print_message("\n");
        r->wanted[mode] = file_read(path, &r->wanted_length[mode]);
        free(path);
    }
    remove_results(r);
    return r;
}

void fault_runs_free(FaultRuns *r) {
    if (!r) return;
    print_message("%lu faults, %lu of them ended the run with an error\n", r->injected, r->refused);
    munmap(r->faults, sizeof *r->faults);
    close(r->fd);
    for (FaultMode mode = 0; mode < FAULT_MODES; mode++) free(r->wanted[mode]);
    fixture_remove_directory(r->source);
    free(r->model);
    free(r->tokenizer);
    free(r->requests);
    free(r->shaped);
    for (size_t i = 0; i < 2; i++) free(r->parts[i]);
    free(r->shim);
    fixture_remove_directory(r->directory);
    free(r);
}
