/* `run` takes models in other formats and converts each of them once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "convert/convert_target.h"
#include "process.h"
#include "tests/tier.h"

enum { DIM = 64, HIDDEN = 96, LAYERS = 2, HEADS = 4, VOCAB = 259, CONTEXT = 64 };

static char *checkpoint, *tokenizer, *cache;

/* Writes a llama2.c checkpoint with small weights and a tokenizer of single bytes. */
static void write_checkpoint(const char *path, uint32_t seed) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const int32_t header[] = {DIM, HIDDEN, LAYERS, HEADS, HEADS, VOCAB, CONTEXT};
    const size_t n = VOCAB * DIM + LAYERS * (2 * DIM + 4 * DIM * DIM + 3 * DIM * HIDDEN) + DIM +
                     CONTEXT * DIM / HEADS;
    fwrite(header, sizeof header, 1, file);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
        x *= 0.5f;
        fwrite(&x, sizeof x, 1, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_tokenizer_of(const char *path, int n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const int32_t longest = 6;
    fwrite(&longest, sizeof longest, 1, file);
    for (int i = 0; i < n; i++) {
        static const char *const specials[] = {"<unk>", "\n<s>\n", "\n</s>\n"};
        char text[16];
        const float score = (float)-i;
        if (i < 3) {
            snprintf(text, sizeof text, "%s", specials[i]);
        } else if (i < 259) {
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - 3));
        } else {
            snprintf(text, sizeof text, "word%d", i);
        }
        const int32_t length = (int32_t)strlen(text);
        fwrite(&score, sizeof score, 1, file);
        fwrite(&length, sizeof length, 1, file);
        fwrite(text, (size_t)length, 1, file);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_tokenizer(const char *path) {
    write_tokenizer_of(path, VOCAB);
}

static int set_up(void **state) {
    (void)state;
    checkpoint = build_path("tests/conversions.ckpt");
    tokenizer = build_path("tests/conversions-tok.bin");
    cache = build_path("tests/conversions-cache");
    write_checkpoint(checkpoint, 1);
    write_tokenizer(tokenizer);
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    assert_int_equal(p.status, 0);
    process_free(&p);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    rmdir(cache);
    unlink(checkpoint);
    unlink(tokenizer);
    free(checkpoint);
    free(tokenizer);
    free(cache);
    return 0;
}

#define FROM_CHECKPOINT                                                                            \
    "run", checkpoint, "-z", tokenizer, "--cache-dir", cache, "-s", "1", "-n", "20"

/* Checks a run that must succeed and returns whether it converted the model. *text, unless `text`
 * is NULL, gets what it printed. */
static bool converts(Process p, char **text) {
    if (p.status) print_message("status %d, stderr: %s", p.status, p.err);
    assert_int_equal(p.status, 0);
    bool now = strstr(p.err, "converting") != NULL;
    if (text) *text = strdup(p.out);
    process_free(&p);
    return now;
}

static size_t conversions_in_cache(void) {
    Process p = RUN("run", "--cache-list", "--cache-dir", cache);
    size_t n = 0;
    assert_int_equal(p.status, 0);
    assert_int_equal(sscanf(strstr(p.out, "MiB in "), "MiB in %zu", &n), 1);
    process_free(&p);
    return n;
}

/* The path of the only conversion in the cache, with another ending; the caller frees it. */
static char *sibling(const char *ending) {
    char *command = NULL;
    assert_true(asprintf(&command, "ls %s/*.bin", cache) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    size_t length = strcspn(p.out, "\n");
    assert_true(length > 4);
    char *path = strndup(p.out, length - 4);
    free(command);
    assert_true(asprintf(&command, "%s%s", path, ending) > 0);
    process_free(&p);
    free(path);
    return command;
}

static void a_model_is_converted_once(void **state) {
    (void)state;
    char *first, *second;
    assert_true(converts(RUN(FROM_CHECKPOINT), &first));
    assert_int_equal(conversions_in_cache(), 1);
    assert_false(converts(RUN(FROM_CHECKPOINT), &second));
    assert_string_equal(first, second);
    /* Another path to the same file finds the conversion, too. */
    char *path = NULL;
    assert_true(asprintf(&path, "./%s", checkpoint) > 0);
    if (checkpoint[0] != '/')
        assert_false(converts(RUN("run", path, "-z", tokenizer, "--cache-dir", cache), NULL));
    free(path);
    free(first);
    free(second);
}

static void another_type_or_tokenizer_is_another_conversion(void **state) {
    (void)state;
    char *other = build_path("tests/conversions-tok2.bin");
    converts(RUN(FROM_CHECKPOINT), NULL);
    assert_true(converts(RUN(FROM_CHECKPOINT, "--type", "q8"), NULL));
    assert_false(converts(RUN(FROM_CHECKPOINT, "--type", "q8"), NULL));
    write_tokenizer(other);
    assert_true(converts(RUN("run", checkpoint, "-z", other, "--cache-dir", cache), NULL));
    assert_false(converts(RUN(FROM_CHECKPOINT), NULL));
    unlink(other);
    free(other);
}

static void a_source_that_changed_is_converted_again(void **state) {
    (void)state;
    char *before, *after, *again;
    converts(RUN(FROM_CHECKPOINT), &before);
    write_checkpoint(checkpoint, 2);
    assert_true(converts(RUN(FROM_CHECKPOINT), &after));
    assert_string_not_equal(before, after);
    write_checkpoint(checkpoint, 1);
    assert_true(converts(RUN(FROM_CHECKPOINT), &again));
    assert_string_equal(before, again);
    free(before);
    free(after);
    free(again);
}

static void processes_that_want_the_same_convert_once(void **state) {
    (void)state;
    char *program = program_command("run"), *command = NULL;
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    assert_true(asprintf(&command,
                         "for i in 1 2 3 4 5 6; do %s %s -z %s --cache-dir %s -s 1 -n 5 >%s.$i & "
                         "done; wait; cat %s.?; rm %s.?",
                         program, checkpoint, tokenizer, cache, tokenizer, tokenizer,
                         tokenizer) > 0);
    p = RUN("/bin/sh", "-c", command);
    size_t n = 0;
    for (const char *at = p.err; (at = strstr(at, "converting ")); at++) n++;
    assert_int_equal(n, 1);
    assert_int_equal(conversions_in_cache(), 1);
    /* The processes that waited leave no lock behind. */
    char *entries = NULL;
    assert_true(asprintf(&entries, "ls -A %s | wc -l", cache) > 0);
    Process listed = RUN("/bin/sh", "-c", entries);
    assert_int_equal(atoi(listed.out), 1);
    process_free(&listed);
    free(entries);
    /* All six print the same text. */
    size_t length = p.out_length / 6;
    assert_int_equal(p.out_length % 6, 0);
    for (size_t i = 1; i < 6; i++) assert_memory_equal(p.out, p.out + i * length, length);
    process_free(&p);
    free(program);
    free(command);
}

/* Replaces the last half of the checkpoint in place, by the bytes of another seed, and sets its
 * time back as `cp -p` and `touch -r` do. */
static void overwrite_in_place(const char *path, uint32_t seed) {
    struct stat before;
    char *other = build_path("tests/conversions-over.ckpt");
    size_t length;
    assert_int_equal(stat(path, &before), 0);
    write_checkpoint(other, seed);
    char *bytes = file_read(other, &length);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes + length / 2, length - length / 2, (off_t)(length / 2)),
                     length - length / 2);
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    free(bytes);
    unlink(other);
    free(other);
}

/* A program that writes to the source while its first half is converted. */
static void overwrite_once(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    bool *overwritten = context;
    (void)step, (void)done, (void)total;
    if (!*overwritten) overwrite_in_place(checkpoint, 2);
    *overwritten = true;
}

/* What a backup (cp -al) and chmod do to the source meanwhile. */
static void link_once(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    const char **other = context;
    (void)step, (void)done, (void)total;
    if (*other) assert_int_equal(link(checkpoint, *other), 0);
    *other = NULL;
}

static void chmod_once(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    bool *changed = context;
    (void)step, (void)done, (void)total;
    if (!*changed) assert_int_equal(chmod(checkpoint, 0640), 0);
    *changed = true;
}

static void a_source_may_be_linked_and_chmodded_while_it_is_converted(void **state) {
    (void)state;
    Error error = {{0}};
    bool changed = false;
    char *target = build_path("tests/conversions-linked.bin");
    char *other = build_path("tests/conversions-link.ckpt");
    const char *name = other;
    ConvertOptions options = {.source.tokenizer = tokenizer,
                              .n_threads = 1,
                              .progress = link_once,
                              .progress_context = &name};
    unlink(other);
    unlink(target);
    assert_int_equal(chmod(checkpoint, 0644), 0);
    usleep(20000);
    if (convert_to_path(checkpoint, &options, NULL, target, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_null(name);
    unlink(other);
    unlink(target);
    usleep(20000);
    options.progress = chmod_once;
    options.progress_context = &changed;
    if (convert_to_path(checkpoint, &options, NULL, target, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_true(changed);
    unlink(target);
    free(other);
    free(target);
}

/* As tar does ("file changed as we read it"): neither half's owner asked for a mixture. */
static void a_source_that_is_changed_while_it_is_converted_is_refused(void **state) {
    (void)state;
    bool overwritten = false;
    Error error = {{0}};
    char *target = build_path("tests/conversions-mixture.bin");
    const ConvertOptions options = {.source.tokenizer = tokenizer,
                                    .n_threads = 1,
                                    .progress = overwrite_once,
                                    .progress_context = &overwritten};
    int fd = open(target, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    usleep(20000); /* the file's last change lies some ticks of the system's clock back */
    assert_int_equal(convert_source(checkpoint, &options, fd, &error), STATUS_FAILED);
    close(fd);
    assert_true(overwritten);
    assert_non_null(strstr(error.text, "conversions.ckpt: was changed while it was read"));
    overwritten = false;
    assert_int_equal(unlink(target), 0);
    assert_int_equal(convert_to_path(checkpoint, &options, NULL, target, &error), STATUS_FAILED);
    assert_int_equal(access(target, F_OK), -1);
    write_checkpoint(checkpoint, 1);
    free(target);
}

/* The value of "weights" or the like in a receipt; the caller frees it. */
static char *receipt_value(const char *path, const char *key) {
    size_t length;
    char *bytes = file_read(path, &length), *at = strstr(bytes, key);
    assert_non_null(at);
    at = strchr(at + strlen(key), ':');
    char *value = strndup(at, strcspn(at, ",}\n"));
    free(bytes);
    return value;
}

/* The conversion of bytes that were overwritten is found by its name: size, time and inode are as
 * they were. A receipt holds the digest of the present bytes, so its weights are made of them, as
 * the conversion in an empty cache (none) is. */
static void a_receipts_weights_are_those_of_its_source(void **state) {
    (void)state;
    char *receipt = build_path("tests/conversions.receipt");
    write_checkpoint(checkpoint, 1);
    assert_true(converts(RUN(FROM_CHECKPOINT), NULL));
    assert_false(converts(RUN(FROM_CHECKPOINT, "--receipt", receipt), NULL));
    size_t before = conversions_in_cache();
    usleep(20000);
    overwrite_in_place(checkpoint, 2);
    assert_true(converts(RUN(FROM_CHECKPOINT, "--receipt", receipt), NULL));
    char *kept = receipt_value(receipt, "\"weights\"");
    assert_false(converts(RUN(FROM_CHECKPOINT, "--receipt", receipt), NULL));
    Process p = RUN("run", checkpoint, "-z", tokenizer, "--cache-dir", "none", "-s", "1", "-n",
                    "20", "--receipt", receipt);
    assert_int_equal(p.status, 0);
    process_free(&p);
    char *anew = receipt_value(receipt, "\"weights\"");
    assert_string_equal(kept, anew);
    assert_int_equal(conversions_in_cache(), before); /* it took the place of the former */
    p = RUN(FROM_CHECKPOINT, "--replay", receipt);
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(kept);
    free(anew);
    unlink(receipt);
    free(receipt);
    p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    write_checkpoint(checkpoint, 1);
}

static void a_failed_conversion_leaves_nothing(void **state) {
    (void)state;
    char *bad = build_path("tests/conversions-bad.ckpt"), *entries = NULL;
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    size_t length;
    char *bytes = file_read(checkpoint, &length);
    memset(bytes + length / 2, 0xFF, 4); /* a NaN */
    file_write(bad, bytes, length);
    free(bytes);
    p = RUN("run", bad, "-z", tokenizer, "--cache-dir", cache);
    PROCESS_SAYS(p, 1, "not finite");
    assert_true(asprintf(&entries, "ls -A %s", cache) > 0);
    p = RUN("/bin/sh", "-c", entries);
    assert_string_equal(p.out, "");
    process_free(&p);
    unlink(bad);
    free(entries);
    free(bad);
}

/* Threads convert all of the tensors at once, and each of them is bad. */
static void the_first_of_several_bad_tensors_is_named(void **state) {
    (void)state;
    char *bad = build_path("tests/conversions-bad.ckpt"), *target = build_path("tests/bad.bin");
    size_t length, header = 7 * sizeof(int32_t);
    char *bytes = file_read(checkpoint, &length);
    memset(bytes + header, 0xFF, length - header);
    file_write(bad, bytes, length);
    for (unsigned i = 0; i < tier_count(5, 20, 100); i++) {
        Process p = RUN("export", bad, target, "-z", tokenizer, "-j", "8", "--force");
        PROCESS_SAYS(p, 1, "tensor 'token_embedding': row 0 holds a weight that is not finite");
    }
    unlink(bad);
    free(bytes), free(bad), free(target);
}

static void clearing_deletes_conversions_and_nothing_else(void **state) {
    (void)state;
    char *mine = NULL;
    converts(RUN(FROM_CHECKPOINT), NULL);
    assert_true(asprintf(&mine, "%s/mine.bin", cache) > 0);
    file_write(mine, "mine", 4);
    assert_int_equal(conversions_in_cache(), 1);
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    assert_non_null(strstr(p.out, "in 1 conversion deleted"));
    process_free(&p);
    assert_int_equal(conversions_in_cache(), 0);
    assert_int_equal(unlink(mine), 0);
    free(mine);
}

static void clear_the_cache(void) {
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    assert_int_equal(p.status, 0);
    process_free(&p);
}

static size_t bytes_in_cache(void) {
    char pattern[512];
    struct stat info;
    glob_t found;
    size_t bytes = 0;
    snprintf(pattern, sizeof pattern, "%s/*.bin", cache);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &info) == 0) bytes += (size_t)info.st_size;
    globfree(&found);
    return bytes;
}

static void a_limit_drops_what_was_longest_unused(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "bf16", "q8", "q6", "q5", "q4m", "q4"};
    clear_the_cache();
    assert_true(converts(RUN(FROM_CHECKPOINT, "--type", "f32"), NULL));
    char *oldest = sibling(".bin");
    int held = open(oldest, O_RDONLY | O_CLOEXEC); /* as a run that reads it */
    assert_int_equal(flock(held, LOCK_SH | LOCK_NB), 0);
    struct stat info;
    assert_int_equal(fstat(held, &info), 0);
    size_t limit = (size_t)info.st_size * 2;
    char text[32];
    snprintf(text, sizeof text, "%zu", limit);
    setenv("VERBATIM_CACHE_LIMIT", text, 1);
    for (size_t i = 1; i < sizeof types / sizeof *types; i++) {
        assert_true(converts(RUN(FROM_CHECKPOINT, "--type", types[i]), NULL));
        assert_true(bytes_in_cache() <= limit);
    }
    assert_false(converts(RUN(FROM_CHECKPOINT, "--type", "f32"), NULL)); /* it was not dropped */
    assert_true(converts(RUN(FROM_CHECKPOINT, "--type", "f16"), NULL));  /* it was */
    close(held);
    unsetenv("VERBATIM_CACHE_LIMIT");
    /* one that is larger than the limit drops none of the others */
    size_t before = conversions_in_cache();
    Process p = RUN(FROM_CHECKPOINT, "--type", "q8", "--cache-limit", "1K");
    assert_int_equal(p.status, 0);
    if (!strstr(p.err, "the limit is below that")) fail_msg("%s", p.err);
    process_free(&p);
    assert_int_equal(conversions_in_cache(), before);
    p = RUN(FROM_CHECKPOINT, "--cache-limit", "many");
    assert_int_equal(p.status, 2);
    process_free(&p);
    free(oldest);
}

/* A chat that has opened the conversion of `checkpoint` and waits for its input. */
typedef struct Reader {
    pid_t process;
    int input; /* the chat ends when this is closed */
} Reader;

static Reader start_reader(const char *conversion) {
    char *program = program_command("run"), *command = NULL;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(asprintf(&command, "exec %s %s -z %s --cache-dir %s -m chat -n 2 >/dev/null 2>&1",
                         program, checkpoint, tokenizer, cache) > 0);
    Reader reader = {.process = fork(), .input = ends[1]};
    assert_true(reader.process >= 0);
    if (reader.process == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    int fd = open(conversion, O_RDONLY | O_CLOEXEC), tries = 0;
    while (flock(fd, LOCK_EX | LOCK_NB) == 0) { /* until the chat has its lock */
        flock(fd, LOCK_UN);
        assert_true(tries++ < 3000);
        usleep(10000);
    }
    close(fd);
    free(program);
    free(command);
    return reader;
}

static void assert_reader_answers(Reader *reader) {
    int status;
    assert_int_equal(write(reader->input, "a\n", 2), 2);
    close(reader->input);
    assert_int_equal(waitpid(reader->process, &status, 0), reader->process);
    assert_int_equal(status, 0);
}

/* Conversions of changing files, two at once, beside a process that reads the first one. */
static void a_limit_holds_over_many_conversions_beside_a_reader(void **state) {
    (void)state;
    static const char *const types[] = {"q8", "q6", "q5", "f16", "q4m"};
    const size_t n = tier_count(6, 10, 50);
    char *others[2], *program = program_command("run"), *command = NULL, *expected, *text;
    others[0] = build_path("tests/conversions-many-0.ckpt");
    others[1] = build_path("tests/conversions-many-1.ckpt");
    clear_the_cache();
    converts(RUN(FROM_CHECKPOINT), &expected);
    char *first = sibling(".bin");
    const size_t limit = 2 * bytes_in_cache();
    Reader reader = start_reader(first);
    for (size_t i = 0; i < n; i += 2) {
        for (size_t k = 0; k < 2; k++) write_checkpoint(others[k], (uint32_t)(100 + i + k));
        assert_true(asprintf(&command,
                             "%s %s -z %s --cache-dir %s --cache-limit %zu -n 1 --type %s & p=$!; "
                             "%s %s -z %s --cache-dir %s --cache-limit %zu -n 1 --type q4 && "
                             "wait $p",
                             program, others[0], tokenizer, cache, limit, types[i / 2 % 5], program,
                             others[1], tokenizer, cache, limit) > 0);
        Process p = RUN("/bin/sh", "-c", command);
        if (p.status || !strstr(p.err, "converting")) fail_msg("%d: %s", p.status, p.err);
        process_free(&p);
        free(command);
        assert_true(bytes_in_cache() <= limit);
        assert_int_equal(access(first, F_OK), 0);
    }
    assert_true(n < 10 || conversions_in_cache() < n);
    assert_false(converts(RUN(FROM_CHECKPOINT), &text));
    assert_string_equal(text, expected);
    assert_reader_answers(&reader);
    for (size_t k = 0; k < 2; k++) {
        unlink(others[k]);
        free(others[k]);
    }
    free(first), free(program), free(expected), free(text);
}

static void without_a_cache_it_converts_into_memory(void **state) {
    (void)state;
    char *kept, *not_kept;
    clear_the_cache();
    converts(RUN(FROM_CHECKPOINT), &kept);
    assert_true(converts(
        RUN("run", checkpoint, "-z", tokenizer, "--cache-dir", "none", "-s", "1", "-n", "20"),
        &not_kept));
    assert_string_equal(kept, not_kept);
    assert_int_equal(access("none", F_OK), -1);
    Process p = RUN("run", "random:palm-540b", "--cache-dir", "none", "-i", "x", "-n", "1");
    assert_int_equal(p.status, 1);
    if (!strstr(p.err, "--cache-dir is none, and memory has")) fail_msg("%s", p.err);
    process_free(&p);
    free(kept);
    free(not_kept);
}

static void a_full_disk_is_no_reason_to_stop(void **state) {
    (void)state;
    char *text, *command = NULL, *program = program_command("run");
    clear_the_cache();
    converts(RUN(FROM_CHECKPOINT), &text);
    clear_the_cache();
    /* a disk of 64 KiB, which only this command sees */
    assert_true(asprintf(&command,
                         "exec unshare -rm sh -c 'mount -t tmpfs -o size=64k none %s || exit 99; "
                         "%s %s -z %s --cache-dir %s -s 1 -n 20 && test -z \"$(ls -A %s)\"'",
                         cache, program, checkpoint, tokenizer, cache, cache) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    bool possible = p.status != 99 && !strstr(p.err, "unshare");
    if (possible) {
        if (p.status != 0 || !strstr(p.err, "made in memory")) fail_msg("%d: %s", p.status, p.err);
        assert_string_equal(p.out, text);
    }
    process_free(&p);
    free(text), free(command), free(program);
    if (possible) return;
    print_message("no disk can be made here: skipped\n");
    skip();
}

static void one_is_cleared_by_what_people_call_it(void **state) {
    (void)state;
    clear_the_cache();
    static const char *const names[] = {"conversions.ckpt", "Conversions"};
    for (size_t i = 0; i < 2; i++) {
        converts(RUN(FROM_CHECKPOINT), NULL);
        Process p = RUN("run", "--cache-clear", names[i], "--cache-dir", cache);
        if (p.status) fail_msg("%s: %s", names[i], p.err);
        process_free(&p);
        assert_int_equal(conversions_in_cache(), 0);
    }
    /* of two that begin so neither */
    char *other = build_path("tests/conversions.other");
    write_checkpoint(other, 3);
    converts(RUN(FROM_CHECKPOINT), NULL);
    converts(RUN("run", other, "-z", tokenizer, "--cache-dir", cache, "-n", "2"), NULL);
    Process p = RUN("run", "--cache-clear", "conversions", "--cache-dir", cache);
    assert_int_equal(p.status, 1);
    if (!strstr(p.err, "of several names")) fail_msg("%s", p.err);
    process_free(&p);
    assert_int_equal(conversions_in_cache(), 2);
    unlink(other);
    free(other);
    clear_the_cache();
}

static void a_cache_that_cannot_be_read_is_not_called_empty(void **state) {
    (void)state;
    Process p = RUN("run", "--cache-list", "--cache-dir", tokenizer);
    PROCESS_SAYS(p, 1, "Not a directory");
    p = RUN("run", "--cache-clear", "--cache-dir", tokenizer);
    assert_int_equal(p.status, 1);
    process_free(&p);
    p = RUN("run", "--cache-list", "--cache-dir", "");
    assert_int_equal(p.status, 2);
    process_free(&p);
}

static void without_a_cache_directory_it_runs_all_the_same(void **state) {
    (void)state;
    char *program = program_command("run"), *command = NULL, *text, *expected;
    converts(RUN(FROM_CHECKPOINT), &expected);
    assert_true(asprintf(&command, "unset XDG_CACHE_HOME; HOME=/proc/none %s %s -z %s -s 1 -n 20",
                         program, checkpoint, tokenizer) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, "the conversion is not kept"));
    text = p.out;
    assert_string_equal(text, expected);
    process_free(&p);
    p = RUN("run", checkpoint, "-z", tokenizer, "--cache-dir", "/proc/none");
    PROCESS_SAYS(p, 1, "/proc/none: no conversion can be kept there");
    free(expected);
    free(program);
    free(command);
}

static void nothing_is_converted_in_vain(void **state) {
    (void)state;
    char *other = build_path("tests/conversions-tok3.bin");
    const struct {
        int tokens;
        const char *why;
    } wrong[] = {{VOCAB - 1, "ends within token 258"},
                 {VOCAB + 1, "holds more than the 259 tokens of the model"}};
    for (size_t i = 0; i < 2; i++) {
        write_tokenizer_of(other, wrong[i].tokens);
        Process p = RUN("run", checkpoint, "-z", other, "--cache-dir", cache);
        assert_int_equal(p.status, 1);
        assert_non_null(strstr(p.err, wrong[i].why));
        assert_null(strstr(p.err, "converting"));
        process_free(&p);
    }
    Process p = RUN("run", checkpoint, "--cache-dir", cache);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "has no tokenizer: give one with -z FILE"));
    assert_null(strstr(p.err, "converting"));
    process_free(&p);
    unlink(other);
    free(other);
}

static void a_source_is_no_target(void **state) {
    (void)state;
    size_t before, after;
    char *bytes = file_read(checkpoint, &before), *link = build_path("tests/conversions-link");
    unlink(link);
    assert_int_equal(
        symlink(checkpoint[0] == '/' ? checkpoint : strrchr(checkpoint, '/') + 1, link), 0);
    const char *const targets[] = {checkpoint, tokenizer, link};
    for (size_t i = 0; i < 3; i++) {
        Process p = RUN("export", checkpoint, targets[i], "-z", tokenizer);
        PROCESS_SAYS(p, 1, "belongs to the source; name another target");
    }
    char *same = file_read(checkpoint, &after);
    assert_int_equal(before, after);
    assert_memory_equal(bytes, same, before);
    unlink(link);
    free(link);
    free(bytes);
    free(same);
}

/* The source is whole. An error that blamed it would make the user download it again in vain. */
static void a_damaged_conversion_is_not_the_sources_fault(void **state) {
    (void)state;
    converts(RUN(FROM_CHECKPOINT), NULL);
    char *conversion = sibling(".bin");
    size_t length;
    char *bytes = file_read(conversion, &length);
    const struct {
        size_t length, flipped;
        const char *option, *says;
    } cases[] = {{0, 0, "--stats", "empty file"},
                 {length / 2, length - 1, "--info", "cut off"},
                 {length, 40, "--stats", "the header's checksum is wrong"},
                 {length, length / 2, "--verify", "the checksum of section 'data' is wrong"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes[cases[i].flipped] ^= 1;
        file_write(conversion, bytes, cases[i].length);
        bytes[cases[i].flipped] ^= 1;
        Process p = RUN(FROM_CHECKPOINT, cases[i].option);
        assert_int_equal(p.status, 1);
        assert_non_null(strstr(p.err, cases[i].says));
        assert_non_null(strstr(p.err, conversion));
        assert_non_null(strstr(p.err, "--cache-clear"));
        process_free(&p);
    }
    unlink(conversion);
    assert_true(converts(RUN(FROM_CHECKPOINT), NULL));
    free(bytes);
    free(conversion);
}

static void what_a_kill_left_goes_with_the_next_conversion(void **state) {
    (void)state;
    struct stat info;
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    converts(RUN(FROM_CHECKPOINT), NULL);
    char *left[2] = {NULL, NULL}, *held[2] = {NULL, NULL};
    static const char *const endings[] = {"tmp", "lock"};
    for (size_t i = 0; i < 2; i++) {
        assert_true(
            asprintf(&left[i], "%s/a-0123456789abcdef0123456789abcdef.%s", cache, endings[i]) > 0);
        assert_true(
            asprintf(&held[i], "%s/b-0123456789abcdef0123456789abcdef.%s", cache, endings[i]) > 0);
        file_write(left[i], "half", 4);
        file_write(held[i], "half", 4);
    }
    int lock = open(held[1], O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_true(converts(RUN(FROM_CHECKPOINT, "--type", "q8"), NULL));
    for (size_t i = 0; i < 2; i++) {
        assert_int_not_equal(stat(left[i], &info), 0);
        assert_int_equal(stat(held[i], &info), 0);
    }
    /* --cache-clear also leaves files alone that another process is working on. */
    p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    for (size_t i = 0; i < 2; i++) assert_int_equal(stat(held[i], &info), 0);
    close(lock);
    p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    for (size_t i = 0; i < 2; i++) {
        assert_int_not_equal(stat(held[i], &info), 0);
        free(left[i]);
        free(held[i]);
    }
}

static void a_lock_of_another_user_does_not_block(void **state) {
    (void)state;
    struct stat info;
    if (geteuid() != 0) {
        print_message("only root can leave things in another's name: skipped\n");
        skip();
    }
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    converts(RUN(FROM_CHECKPOINT), NULL);
    char *bin = sibling(".bin"), *locked = sibling(".lock"), *program = program_command("run");
    char *command = NULL;
    unlink(bin);
    file_write(locked, "", 0);
    assert_int_equal(chown(locked, 54321, 54321), 0);
    int lock = open(locked, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_true(asprintf(&command, "timeout 5 %s %s -z %s --cache-dir %s -n 5", program, checkpoint,
                         tokenizer, cache) > 0);
    p = RUN("/bin/sh", "-c", command);
    if (p.status != 0 || !strstr(p.err, "lock: belongs to user 54321"))
        fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
    assert_int_equal(stat(locked, &info), 0);
    assert_int_not_equal(stat(bin, &info), 0);
    close(lock);
    unlink(locked);
    free(bin), free(locked), free(program), free(command);
}

static void who_gives_up_waiting_spoils_nothing(void **state) {
    (void)state;
    struct stat info;
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    converts(RUN(FROM_CHECKPOINT), NULL);
    char *bin = sibling(".bin"), *partial = sibling(".tmp"), *locked = sibling(".lock");
    unlink(bin);
    file_write(partial, "half", 4);
    file_write(locked, "", 0);
    int lock = open(locked, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    char *program = program_command("run"), *command = NULL;
    assert_true(asprintf(&command,
                         "%s %s -z %s --cache-dir %s -n 5 2>%s.err & pid=$!; "
                         "while ! grep -q waiting %s.err; do sleep 0.05; done; "
                         "kill -INT $pid; wait $pid; s=$?; rm %s.err; exit $s",
                         program, checkpoint, tokenizer, cache, tokenizer, tokenizer,
                         tokenizer) > 0);
    p = RUN("/bin/bash", "-m", "-c", command);
    assert_int_equal(p.status, 130);
    process_free(&p);
    assert_int_equal(stat(partial, &info), 0);
    assert_int_equal(stat(locked, &info), 0);
    close(lock);
    free(program);
    free(command);
    free(bin);
    free(partial);
    free(locked);
}

/* Removes the line of --info that tells how much memory is free just now. */
static void drop_free_memory(char *info) {
    char *line = strstr(info, "\nmemory "), *end = line ? strchr(line + 1, '\n') : NULL;
    if (end) memmove(line, end, strlen(end) + 1);
}

static void a_look_at_a_model_converts_nothing(void **state) {
    (void)state;
    const char *const looks[] = {"--tokenize", "--detokenize", "--info"};
    char *entries = NULL, *before[3];
    Process p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    assert_true(asprintf(&entries, "ls -A %s", cache) > 0);
    for (size_t i = 0; i < 3; i++) {
        p = RUN("run", checkpoint, "-z", tokenizer, "--cache-dir", cache, looks[i], "-i", "72 105");
        assert_int_equal(p.status, 0);
        assert_string_equal(p.err, "");
        drop_free_memory(p.out);
        before[i] = strdup(p.out);
        process_free(&p);
    }
    p = RUN("/bin/sh", "-c", entries);
    assert_string_equal(p.out, "");
    process_free(&p);
    assert_string_equal(before[1], "Ef");
    assert_non_null(strstr(before[2], "\nvocab_size          259\n"));
    /* The output is the same when there is a conversion. */
    converts(RUN(FROM_CHECKPOINT), NULL);
    for (size_t i = 0; i < 3; i++) {
        p = RUN("run", checkpoint, "-z", tokenizer, "--cache-dir", cache, looks[i], "-i", "72 105");
        drop_free_memory(p.out);
        assert_string_equal(p.out, before[i]);
        process_free(&p);
        free(before[i]);
    }
    free(entries);
}

/* ---- A vocabulary alone -------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text) {
    const uint64_t length = strlen(text);
    fwrite(&length, sizeof length, 1, out);
    fwrite(text, 1, length, out);
}

static void put_key(FILE *out, const char *key, uint32_t type) {
    put_text(out, key);
    fwrite(&type, sizeof type, 1, out);
}

/* Writes a GGUF file (version 3) with "general.architecture" and a tokenizer of 259 tokens.
 * `per_layer`: its sizes differ from layer to layer, as gemma-4's do. `weights`: it has a tensor.
 */
static void write_vocabulary(const char *path, bool per_layer, bool weights) {
    enum { UINT32 = 4, INT32 = 5, FLOAT32 = 6, TEXT = 8, ARRAY = 9 };
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fwrite("GGUF\3\0\0", 1, 8, out);
    const uint64_t counts[] = {weights, per_layer ? 8 : 5}, n = VOCAB;
    fwrite(counts, sizeof counts, 1, out);
    put_key(out, "general.architecture", TEXT);
    put_text(out, per_layer ? "gemma4" : "llama");
    const char *const sizes[] = {"gemma4.feed_forward_length", "gemma4.attention.head_count",
                                 "gemma4.attention.head_count_kv"};
    for (size_t k = 0; per_layer && k < 3; k++) {
        const uint32_t list[] = {UINT32, 2, 0, 8, k == 2 ? 3 : 16}; /* type, count (u64), items */
        put_key(out, sizes[k], ARRAY);
        fwrite(list, sizeof list, 1, out);
    }
    put_key(out, "tokenizer.ggml.model", TEXT);
    put_text(out, "llama");
    const uint32_t kinds[] = {TEXT, FLOAT32, INT32};
    const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.scores",
                                "tokenizer.ggml.token_type"};
    for (size_t k = 0; k < 3; k++) {
        put_key(out, keys[k], ARRAY);
        fwrite(&kinds[k], sizeof kinds[k], 1, out);
        fwrite(&n, sizeof n, 1, out);
        for (int i = 0; i < VOCAB; i++) {
            static const char *const specials[] = {"<unk>", "<s>", "</s>"};
            char text[16];
            const float score = 0.0f;
            const int32_t type = i == 0 ? 2 : i < 3 ? 3 : 6;
            if (i < 3) {
                snprintf(text, sizeof text, "%s", specials[i]);
            } else {
                snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - 3));
            }
            if (k == 0) put_text(out, text);
            if (k == 1) fwrite(&score, sizeof score, 1, out);
            if (k == 2) fwrite(&type, sizeof type, 1, out);
        }
    }
    if (weights) {
        const uint32_t two = 2, words[] = {DIM, 0, VOCAB, 0, 0, 0, 0}; /* dims, f32, offset 0 */
        put_text(out, "token_embd.weight");
        fwrite(&two, sizeof two, 1, out);
        fwrite(words, sizeof words, 1, out);
    }
    for (long at = ftell(out); at % 32; at++) fputc(0, out);
    for (size_t i = 0; weights && i < 4 * DIM * VOCAB; i++) fputc(0, out);
    assert_int_equal(fclose(out), 0);
}

static void assert_only_looked_at(bool per_layer) {
    char *path = build_path("tests/conversions-vocabulary.gguf");
    write_vocabulary(path, per_layer, false);
    const char *const argv[] = {"run", path, "--cache-dir", cache, "--tokenize", NULL};
    Process p = process_run(argv, "Hi", 2);
    assert_int_equal(p.status, 0);
    assert_string_equal(p.err, "");
    assert_non_null(strstr(p.out, "75 108\n"));
    process_free(&p);
    p = RUN("run", path, "--cache-dir", cache, "--info");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "\ntokenizer           259 tokens\n"));
    process_free(&p);
    p = RUN("run", path, "--cache-dir", cache, "-i", "Hi");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "holds a vocabulary but no weights: it can tokenize, not"));
    assert_null(strstr(p.err, "converting"));
    process_free(&p);
    unlink(path);
    free(path);
}

static void a_vocabulary_alone_is_looked_at_but_not_run(void **state) {
    (void)state;
    assert_only_looked_at(false);
    assert_only_looked_at(true);
}

static void a_model_that_cannot_run_tokenizes(void **state) {
    (void)state;
    char *path = build_path("tests/conversions-weights.gguf");
    write_vocabulary(path, true, true);
    const char *const argv[] = {"run", path, "--cache-dir", cache, "--tokenize", NULL};
    Process p = process_run(argv, "Hi", 2);
    assert_int_equal(p.status, 0);
    assert_string_equal(p.err, "");
    assert_non_null(strstr(p.out, "75 108\n"));
    process_free(&p);
    p = RUN("run", path, "--cache-dir", cache, "--detokenize", "-i", "75 108");
    assert_string_equal(p.out, "Hi");
    process_free(&p);
    p = RUN("run", path, "--cache-dir", cache, "-i", "Hi");
    PROCESS_SAYS(p, 1, "is missing, and no value is usual");
    unlink(path);
    free(path);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_converted_once),
        cmocka_unit_test(another_type_or_tokenizer_is_another_conversion),
        cmocka_unit_test(a_source_that_changed_is_converted_again),
        cmocka_unit_test(processes_that_want_the_same_convert_once),
        cmocka_unit_test(a_source_that_is_changed_while_it_is_converted_is_refused),
        cmocka_unit_test(a_source_may_be_linked_and_chmodded_while_it_is_converted),
        cmocka_unit_test(a_receipts_weights_are_those_of_its_source),
        cmocka_unit_test(a_failed_conversion_leaves_nothing),
        cmocka_unit_test(the_first_of_several_bad_tensors_is_named),
        cmocka_unit_test(clearing_deletes_conversions_and_nothing_else),
        cmocka_unit_test(a_limit_drops_what_was_longest_unused),
        cmocka_unit_test(a_limit_holds_over_many_conversions_beside_a_reader),
        cmocka_unit_test(without_a_cache_it_converts_into_memory),
        cmocka_unit_test(a_full_disk_is_no_reason_to_stop),
        cmocka_unit_test(one_is_cleared_by_what_people_call_it),
        cmocka_unit_test(a_cache_that_cannot_be_read_is_not_called_empty),
        cmocka_unit_test(without_a_cache_directory_it_runs_all_the_same),
        cmocka_unit_test(nothing_is_converted_in_vain),
        cmocka_unit_test(a_source_is_no_target),
        cmocka_unit_test(a_damaged_conversion_is_not_the_sources_fault),
        cmocka_unit_test(what_a_kill_left_goes_with_the_next_conversion),
        cmocka_unit_test(a_lock_of_another_user_does_not_block),
        cmocka_unit_test(who_gives_up_waiting_spoils_nothing),
        cmocka_unit_test(a_look_at_a_model_converts_nothing),
        cmocka_unit_test(a_vocabulary_alone_is_looked_at_but_not_run),
        cmocka_unit_test(a_model_that_cannot_run_tokenizes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
