/* Hostile output files and inputs. Links and pipes planted where the program writes a file are not
 * followed, files are private to the user, and an input that never ends can be interrupted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "modes/batch/batch_files.h"
#include "tests/batch_cases.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tier.h"

enum { SOMEBODY = 54321 };

static char *directory, *model, *victim, *planted, *requests;

static int set_up(void **state) {
    (void)state;
    directory = fixture_directory();
    model = small_model(directory, "tiny,n_layers=1");
    victim = fixture_path(directory, "victim");
    planted = fixture_path(directory, "planted");
    requests = fixture_path(directory, "requests.jsonl");
    static const char lines[] = "{\"id\": 1, \"prompt\": \"the\", \"max_tokens\": 3}\n"
                                "{\"id\": 2, \"prompt\": 7}\n";
    file_write(requests, lines, sizeof lines - 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(model), free(victim), free(planted), free(requests);
    fixture_remove_directory(directory);
    return 0;
}

static void assert_unharmed(void) {
    size_t length;
    char *bytes = file_read(victim, &length);
    assert_int_equal(length, 8);
    assert_memory_equal(bytes, "precious", 8);
    free(bytes);
}

static void assert_refused(Process p, const char *why) {
    if (p.status != 1 || !strstr(p.err, why)) fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
    assert_unharmed();
}

static Process talk(const char *session) {
    const char *const argv[] = {"run", model, "-m", "chat", "-n", "3", "--session", session, NULL};
    return process_run(argv, "hello\n", 6);
}

static void what_another_user_left_is_not_written_to(void **state) {
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can leave things in another's name: skipped\n");
        skip();
    }
    file_write(victim, "precious", 8);
    assert_int_equal(symlink(victim, planted), 0);
    assert_int_equal(lchown(planted, SOMEBODY, SOMEBODY), 0);
    const char *why = "a link or a pipe of another user";
    assert_refused(RUN("run", model, "-i", "the", "-n", "3", "-o", planted), why);
    assert_refused(RUN("run", model, "--batch", requests, "-o", planted), why);
    assert_refused(RUN("run", model, "--batch", requests, "-o", planted, "--resume"), why);
    assert_refused(RUN("run", model, "--batch", requests, "--logits", planted), why);
    assert_refused(talk(planted), "symbolic link");
    unlink(planted);
    assert_int_equal(mkfifo(planted, 0666), 0);
    assert_int_equal(chown(planted, SOMEBODY, SOMEBODY), 0);
    assert_refused(RUN("run", model, "-i", "the", "-n", "3", "-o", planted), why);
    assert_refused(RUN("run", model, "--batch", requests, "-o", planted), why);
    unlink(planted);
    file_write(planted, "", 0);
    assert_int_equal(chown(planted, SOMEBODY, SOMEBODY), 0);
    assert_refused(talk(planted), "belongs to another user");
    assert_refused(RUN("run", model, "--batch", requests, "--logits", planted),
                   "belongs to another user");
    unlink(planted);
    unlink(victim);
}

/* Another user puts a link in the place of the results, and takes it away, as fast as it goes. */
static pid_t start_planting(void) {
    pid_t process = fork();
    if (process != 0) return process;
    if (setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0) _exit(1);
    for (;;) {
        if (symlink(victim, planted) != 0) unlink(planted);
        unlink(planted);
    }
}

static void a_link_that_appears_while_results_are_opened_is_not_followed(void **state) {
    (void)state;
    struct stat victims, opened;
    ResultFile file;
    Error error;
    if (geteuid() != 0) {
        print_message("only root can leave things in another's name: skipped\n");
        skip();
    }
    file_write(victim, "", 0); /* results are appended to empty files only */
    assert_int_equal(stat(victim, &victims), 0);
    assert_int_equal(chmod(directory, 0777), 0);
    pid_t planter = start_planting();
    size_t tries = tier_count(75, 2000, 2000), followed = 0, made = 0;
    for (size_t i = 0; i < tries; i++) {
        if (result_file_open(&file, planted, false, false, &error) == STATUS_OK) {
            assert_int_equal(fstat(file.fd, &opened), 0);
            followed += opened.st_ino == victims.st_ino;
            made++;
        }
        result_file_close(&file);
        unlink(planted);
    }
    kill(planter, SIGKILL);
    waitpid(planter, NULL, 0);
    assert_int_equal(chmod(directory, 0700), 0);
    print_message("of %zu tries %zu made a file\n", tries, made);
    assert_int_equal(followed, 0);
    unlink(planted), unlink(victim);
}

static void results_are_not_added_to_a_file_of_another_user(void **state) {
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can leave things in another's name: skipped\n");
        skip();
    }
    file_write(planted, "", 0);
    assert_int_equal(chmod(planted, 0666) | chown(planted, SOMEBODY, SOMEBODY), 0);
    Process p = RUN("run", model, "--batch", requests, "-o", planted);
    if (p.status != 1 || !strstr(p.err, "belongs to another user"))
        fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
    unlink(planted);
}

static void a_text_in_the_place_of_a_link_is_a_new_file(void **state) {
    (void)state;
    struct stat info;
    file_write(victim, "precious", 8);
    assert_int_equal(chmod(victim, 0666), 0);
    assert_int_equal(symlink(victim, planted), 0);
    mode_t user_s = umask(022);
    Process p = RUN("run", model, "-i", "the", "-n", "3", "-o", planted);
    umask(user_s);
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_unharmed();
    assert_int_equal(lstat(planted, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(info.st_mode & 022, 0); /* not the mode of what the link led to */
    unlink(planted);
    unlink(victim);
}

static void a_link_in_the_place_of_what_a_retry_writes_is_not_followed(void **state) {
    (void)state;
    struct stat info;
    char *results = fixture_path(directory, "results"), *retry;
    retry = fixture_path(directory, "results.retry");
    file_write(victim, "precious", 8);
    Process p = RUN("run", model, "--batch", requests, "-o", results);
    assert_int_equal(p.status, 3);
    process_free(&p);
    assert_int_equal(chmod(results, 0600), 0); /* which the retry keeps */
    assert_int_equal(symlink(victim, retry), 0);
    p = RUN("run", model, "--batch", requests, "-o", results, "--resume", "--retry-failed");
    assert_int_equal(p.status, 3);
    process_free(&p);
    assert_unharmed();
    assert_int_equal(lstat(results, &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_not_equal(access(retry, F_OK), 0);
    unlink(results), unlink(victim);
    free(results), free(retry);
}

static void saving_replaces_no_pipe_or_device(void **state) {
    (void)state;
    struct stat info;
    char command[600];
    assert_int_equal(mkfifo(planted, 0600), 0);
    const char *const argv[] = {"run", model, "-m", "chat", "-n", "3", NULL};
    int n = snprintf(command, sizeof command, "hello\n/save %s\n/quit\n", planted);
    Process p = process_run(argv, command, (size_t)n);
    assert_int_equal(p.status, 1); /* a command failed */
    if (!strstr(p.err, "planted: not a regular file")) fail_msg("%s", p.err);
    process_free(&p);
    assert_int_equal(lstat(planted, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    unlink(planted);
}

/* What the chat says to these commands on stderr. */
static Process chat_commands(const char *commands) {
    const char *const argv[] = {"run", model, "-m", "chat", "-n", "3", NULL};
    return process_run(argv, commands, strlen(commands));
}

static void saving_replaces_only_what_the_chat_saved(void **state) {
    (void)state;
    char commands[1200];
    file_write(victim, "precious", 8);
    snprintf(commands, sizeof commands, "/system be kind\n/save %s\n", victim);
    assert_refused(chat_commands(commands), "victim: exists already");
    snprintf(commands, sizeof commands, "/system a\n/save %s\n/system b\n/save %s\n", planted,
             planted);
    Process p = chat_commands(commands);
    size_t length;
    char *saved = file_read(planted, &length);
    if (strstr(p.err, "exists already") || !strstr(saved, "\"b\"")) fail_msg("%s", p.err);
    process_free(&p);
    free(saved);
    unlink(planted), unlink(victim);
}

static void inputs_that_never_end_can_be_stopped(void **state) {
    (void)state;
    int status;
    char *results = fixture_path(directory, "results");
    assert_true(
        batch_run_and_signal(model, "/dev/zero", results, NULL, 1000 * 1000, SIGTERM, &status));
    assert_int_equal(status, 128 + SIGTERM);
    unlink(results);
    free(results);
}

static void a_prompt_that_never_ends_can_be_stopped(void **state) {
    (void)state;
    char *program = build_path("run");
    Process p = RUN("/usr/bin/timeout", "--preserve-status", "0.5", program, model, "-n", "3", "-f",
                    "/dev/zero");
    if (p.status != 128 + SIGTERM && !strstr(p.err, "more than 1 GiB"))
        fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
    free(program);
}

static size_t files_here(void) {
    size_t n = 0;
    DIR *dir = opendir(directory);
    for (struct dirent *entry; (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Runs a program for half a second and sends it one signal, which it obeys within a second of its
 * processors. */
static void assert_ends_at_one(int number, const char *const *argv) {
    double seconds;
    Process p = process_signalled(argv, 500, number, &seconds);
    if (p.status != 128 + number || !strstr(p.err, "interrupted") || seconds > 1.0)
        fail_msg("%s, signal %d: %d, %.2f s: %s", argv[0], number, p.status, seconds, p.err);
    process_free(&p);
}

static void a_long_step_ends_within_a_second_of_the_first_signal(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    memcpy(text, "the cat sat on the mat. ", 24);
    for (size_t n = 24, more; n < BYTES; n += more) {
        more = n < BYTES - n ? n : BYTES - n;
        memcpy(text + n, text, more);
    }
    file_write(victim, text, BYTES);
    assert_ends_at_one(SIGTERM,
                       (const char *const[]){"run", model, "--tokenize", "-f", victim, NULL});
    unlink(victim);
    free(text);
}

static void a_conversion_ends_within_a_second_of_the_first_signal(void **state) {
    (void)state;
    char *output = fixture_path(directory, "output"), *cache = fixture_path(directory, "cache");
    size_t before = files_here();
    assert_ends_at_one(SIGTERM, (const char *const[]){"export", "--random", "tinyllama-1.1b",
                                                      "--type", "f32", output, NULL});
    for (int i = 0; i < 100 && files_here() > before; i++) usleep(20 * 1000);
    assert_int_equal(files_here(), before);
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_ends_at_one(SIGHUP, (const char *const[]){"run", "random:tinyllama-1.1b", "--cache-dir",
                                                     cache, "-i", "a", NULL});
    fixture_remove_directory(cache);
    free(output);
}

/* The pattern takes a time that is quadratic in the text, which is long enough for minutes. */
static void a_slow_pattern_ends_within_a_second_of_the_first_signal(void **state) {
    (void)state;
    enum { BYTES = 32 << 20 };
    static const char json[] =
        "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}},"
        "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a+b|.\"},"
        "\"behavior\":\"Isolated\",\"invert\":false}}";
    char *tokenizer = fixture_path(directory, "tokenizer.json"), *text = malloc(BYTES);
    assert_non_null(text);
    memset(text, 'a', BYTES);
    file_write(victim, text, BYTES);
    file_write(tokenizer, json, sizeof json - 1);
    assert_ends_at_one(SIGTERM, (const char *const[]){"run", model, "-z", tokenizer, "--tokenize",
                                                      "-f", victim, NULL});
    unlink(victim), unlink(tokenizer);
    free(text), free(tokenizer);
}

static void a_kill_leaves_no_unfinished_file(void **state) {
    (void)state;
    char *program = build_path("run"), *output = fixture_path(directory, "output");
    size_t before = files_here();
    /* The prompt does not end before the kill: how fast an endless file is refused is the
     * machine's. */
    Process p =
        RUN("/bin/sh", "-c", "sleep 1 | timeout -s KILL 0.3 \"$1\" \"$2\" -o \"$3\" -n 4 -f -",
            "sh", program, model, output);
    assert_int_equal(p.status, 137);
    process_free(&p);
    for (int i = 0; i < 100 && files_here() > before; i++) usleep(20 * 1000);
    assert_int_equal(files_here(), before);
    free(program), free(output);
}

/* Not replaced by a file of that name, which for root is a new /dev/stdout. */
static void an_open_file_is_written_to_by_its_name(void **state) {
    (void)state;
    char *program = build_path("run"), *output = fixture_path(directory, "opened");
    Process stdout_ = RUN("run", model, "-i", "the", "-n", "3", "-t", "0");
    Process p = RUN("/bin/sh", "-c",
                    "exec 3>\"$3\"; echo before >&3; \"$1\" \"$2\" -i the -n 3 -t 0 -o /dev/fd/3",
                    "sh", program, model, output);
    if (p.status != 0) fail_msg("%s", p.err);
    size_t length;
    char *written = file_read(output, &length);
    assert_memory_equal(written, "before\n", 7);
    assert_string_equal(written + 7, stdout_.out);
    process_free(&p), process_free(&stdout_);
    char *exporter = build_path("export");
    p = RUN("/bin/sh", "-c", "exec 3>\"$3\"; \"$1\" \"$2\" /dev/fd/3 --force", "sh", exporter,
            model, output);
    PROCESS_SAYS(p, 1, "/dev/fd/3: exists and is not a regular file");
    unlink(output);
    free(written), free(program), free(exporter), free(output);
}

static void assert_keeps(const char *path, Process p, const char *why) {
    size_t length;
    char *left = file_read(path, &length);
    if (strncmp(left, "keep", 4) != 0) fail_msg("%s was replaced: %s", path, why);
    free(left);
    PROCESS_SAYS(p, 2, why);
}

/* Files that the program made itself: a text's -o does not replace them; a receipt replaces one. */
static void holds_a_receipt_or_keys_and_values(const char *session) {
    char *kv = NULL;
    assert_true(asprintf(&kv, "%s.kv", session) > 0);
    unlink(session);
    Process p = RUN("run", model, "-m", "chat", "-i", "the", "-n", "3", "--session", session);
    PROCESS_SAYS(p, 0, "");
    p = RUN("run", model, "-i", "the", "-n", "3", "-o", kv);
    PROCESS_SAYS(p, 2, "holds the keys and values of a conversation");
    unlink(kv), unlink(session);
    for (int i = 0; i < 2; i++) {
        p = RUN("run", model, "-i", "the", "-n", "3", "--receipt", session);
        PROCESS_SAYS(p, 0, "");
    }
    p = RUN("run", model, "-i", "the", "-n", "3", "-o", session);
    PROCESS_SAYS(p, 2, "holds a receipt");
    unlink(session);
    free(kv);
}

/* What is read by the same command, a model, a conversation and a batch's results stay; other files
 * are replaced. */
static void a_result_replaces_nothing_that_is_read_or_kept(void **state) {
    (void)state;
    static const char kept[] = "keep {\"prompt\": \"the\"}\n";
    char *file = fixture_path(directory, "kept"), *at = fixture_path(directory, "link"), *other;
    char *shape = NULL, *adapter = NULL, *key = NULL;
    file_write(file, kept, sizeof kept - 1);
    assert_int_equal(symlink(file, at), 0);
    assert_true(asprintf(&shape, "@%s", file) > 0 && asprintf(&adapter, "a=%s:2", file) > 0 &&
                asprintf(&key, "%s.kv", file) > 0);
#define KEEPS(why, ...) assert_keeps(file, RUN("run", model, __VA_ARGS__), why)
    KEEPS("-f reads this file", "-f", file, "-o", file);
    KEEPS("-f reads this file", "-f", at, "-n", "2", "--receipt", file);
    KEEPS("-f reads this file", "-f", file, "-n", "2", "-o", at);
    KEEPS("--eval reads this file", "--eval", file, "-o", file);
    KEEPS("--eval-tasks reads this file", "--eval-tasks", file, "-o", file);
    KEEPS("--batch reads this file", "--batch", file, "--logits", file);
    KEEPS("--batch reads this file", "--batch", file, "--receipt", file);
    KEEPS("--batch reads this file", "--batch", file, "--check", model, "-o", file);
    KEEPS("--embed reads this file", "--embed", file, "--receipt", file);
    KEEPS("--json-schema reads this file", "-i", "a", "--json-schema", shape, "-o", file);
    KEEPS("-y reads this file", "-m", "chat", "-i", "a", "-y", shape, "-o", file);
    KEEPS("--lora reads this file", "-i", "a", "--lora", adapter, "-o", file);
    KEEPS("--session reads this file", "-m", "chat", "-i", "a", "--session", file, "-o", file);
    KEEPS("--receipt-key reads this file", "-i", "a", "--receipt-key", file, "--receipt", file);
    KEEPS("-o is empty: it names a file", "-i", "a", "-o", "");
    KEEPS("is also the file of another option", "-i", "a", "-o", "none", "--receipt", "none");
    assert_int_equal(rename(file, key), 0);
    assert_keeps(key, RUN("run", model, "-m", "chat", "-i", "a", "--session", file, "-o", key),
                 "--session reads this file");
    Process p = RUN("run", model, "-i", "the", "-n", "3", "-o", model);
    PROCESS_SAYS(p, 2, "the model reads this file");
    size_t length;
    char *bytes = file_read(model, &length);
    other = fixture_path(directory, "other.bin");
    file_write(other, bytes, length);
    free(bytes);
    p = RUN("run", model, "-i", "the", "-n", "3", "-o", other);
    PROCESS_SAYS(p, 2, "holds a model");
    file_write(other, "{\"verbatim_session\":1}\n", 23);
    p = RUN("run", model, "-i", "the", "-n", "3", "--receipt", other);
    PROCESS_SAYS(p, 2, "holds a conversation");
    holds_a_receipt_or_keys_and_values(other);
    /* of a batch: made by this program */
    char *batch = fixture_path(directory, "batch");
    static const char request[] = "{\"id\": 1, \"prompt\": \"a\", \"max_tokens\": 1}\n";
    file_write(batch, request, sizeof request - 1);
    unlink(other);
    p = RUN("run", model, "--batch", batch, "-o", other);
    PROCESS_SAYS(p, 0, "");
    char *results = file_read(other, &length);
    for (int i = 0; i < 5; i++) {
        p = i == 0   ? RUN("run", model, "-i", "the", "-n", "3", "-o", other)
            : i == 1 ? RUN("run", model, "--batch", batch, "--receipt", other)
            : i == 2 ? RUN("run", model, "--batch", batch, "--check", model, "-o", other)
            : i == 3 ? RUN("run", model, "--batch", batch, "--logits", other)
                     : RUN("run", "--merge", model, "--batch", batch, "-o", other);
        PROCESS_SAYS(p, 2, "holds the results of a batch; name another file");
        size_t left;
        char *now = file_read(other, &left);
        assert_int_equal(left, length);
        assert_memory_equal(now, results, left);
        free(now);
    }
    p = RUN("run", model, "--batch", batch, "--check", other, "-o", other); /* is meant */
    PROCESS_SAYS(p, 0, "");
    p = RUN("run", model, "--batch", batch, "--resume", "-o", other);
    PROCESS_SAYS(p, 0, "");
    unlink(batch);
    free(results), free(batch);
    file_write(other, "{\"id\": 5, \"text\": \"of a shape\"}\n", 32);
    p = RUN("run", model, "-i", "the", "-n", "3", "-o", other);
    PROCESS_SAYS(p, 0, "");
    file_write(other, "an earlier text\n", 16);
    p = RUN("run", model, "-i", "the", "-n", "3", "-o", other);
    PROCESS_SAYS(p, 0, "");
    unlink(file), unlink(at), unlink(other), unlink(key);
    free(file), free(at), free(other), free(shape), free(adapter), free(key);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_user_left_is_not_written_to),
        cmocka_unit_test(a_link_that_appears_while_results_are_opened_is_not_followed),
        cmocka_unit_test(results_are_not_added_to_a_file_of_another_user),
        cmocka_unit_test(a_text_in_the_place_of_a_link_is_a_new_file),
        cmocka_unit_test(a_link_in_the_place_of_what_a_retry_writes_is_not_followed),
        cmocka_unit_test(saving_replaces_no_pipe_or_device),
        cmocka_unit_test(saving_replaces_only_what_the_chat_saved),
        cmocka_unit_test(inputs_that_never_end_can_be_stopped),
        cmocka_unit_test(a_prompt_that_never_ends_can_be_stopped),
        cmocka_unit_test(a_long_step_ends_within_a_second_of_the_first_signal),
        cmocka_unit_test(a_conversion_ends_within_a_second_of_the_first_signal),
        cmocka_unit_test(a_slow_pattern_ends_within_a_second_of_the_first_signal),
        cmocka_unit_test(a_kill_leaves_no_unfinished_file),
        cmocka_unit_test(an_open_file_is_written_to_by_its_name),
        cmocka_unit_test(a_result_replaces_nothing_that_is_read_or_kept),
    };
    return cmocka_run_group_tests_name("planted", tests, set_up, tear_down);
}
