/* What a user of `run` sees: texts, messages and exit statuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <jansson.h>

#include "fixture.h"
#include "core/isa.h"
#include "process.h"

/* A model with generated weights, made once for all tests. */
static char *tiny, *scratch;

static int make_models(void **state) {
    (void)state;
    tiny = build_path("tests/cli-tiny.bin");
    scratch = build_path("tests/cli-scratch");
    /* The tests do not use the user's own cache. */
    char *cache = build_path("tests/cli-cache"), *absolute = NULL;
    mkdir(cache, 0700);
    absolute = realpath(cache, NULL);
    setenv("XDG_CACHE_HOME", absolute, 1);
    free(absolute);
    free(cache);
    /* -f here and below: a run that was killed, by a time limit on a busy machine, leaves its
     * files. */
    Process p = RUN("export", "--random", "tiny,context=256", tiny, "-q", "-f");
    if (p.status) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    process_free(&p);
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    Process p = RUN("run", "--cache-clear");
    process_free(&p);
    unlink(tiny);
    unlink(scratch);
    free(tiny);
    free(scratch);
    return 0;
}

/* The program must end with `status` and one line on stderr that contains `message`. */
static void assert_fails(Process p, int status, const char *message) {
    if (p.status != status || !strstr(p.err, message))
        print_message("status %d, stderr: %s", p.status, p.err);
    assert_int_equal(p.status, status);
    assert_non_null(strstr(p.err, message));
    assert_true(strncmp(p.err, "run: ", 5) == 0);
    assert_ptr_equal(strchr(p.err, '\n'), p.err + p.err_length - 1);
    assert_int_equal(p.out_length, 0);
    process_free(&p);
}

static void assert_prints(Process p, const char *text) {
    if (p.status) print_message("status %d, stderr: %s", p.status, p.err);
    assert_int_equal(p.status, 0);
    assert_string_equal(p.out, text);
    process_free(&p);
}

/* The text of a run that must succeed; malloc'ed. */
static char *text_of(Process p) {
    if (p.status) print_message("status %d, stderr: %s", p.status, p.err);
    assert_int_equal(p.status, 0);
    char *text = p.out;
    free(p.err);
    return text;
}

#define PROMPT "Once upon a time, there was a little girl named Lily. She loved to play outside."
#define HOW "-t", "0.9", "-s", "11", "-n", "60", "--ignore-eos", "--logit-bias", "0=-1000"
#define SAMPLED tiny, "-i", PROMPT, HOW

static void the_text_is_the_same_on_any_thread_count(void **state) {
    (void)state;
    static const char *const counts[] = {"2", "3", "5"};
    char *text = text_of(RUN("run", SAMPLED, "-j", "1"));
    for (size_t i = 0; i < 3; i++) assert_prints(RUN("run", SAMPLED, "-j", counts[i]), text);
    free(text);
}

static void the_text_is_the_same_with_any_chunk(void **state) {
    (void)state;
    static const char *const chunks[] = {"1", "7", "64", "512"};
    char *text = text_of(RUN("run", SAMPLED));
    for (size_t i = 0; i < 4; i++) assert_prints(RUN("run", SAMPLED, "--chunk", chunks[i]), text);
    free(text);
}

static void the_text_is_the_same_on_every_instruction_set(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "bf16", "q8", "q4"};
    char *typed = build_path("tests/cli-typed.bin");
    for (size_t k = 0; k < 5; k++) {
        Process p = RUN("export", "--random", "tiny", "-t", types[k], typed, "-q", "-f");
        assert_int_equal(p.status, 0);
        process_free(&p);
        char *text = text_of(RUN("run", typed, "-s", "4", "-n", "40", "--isa", "reference"));
        for (size_t i = 1; isa_available(i); i++)
            assert_prints(RUN("run", typed, "-s", "4", "-n", "40", "--isa", isa_available(i)->name),
                          text);
        free(text);
    }
    unlink(typed);
    free(typed);
}

static void a_seed_gives_its_text_and_another_seed_another(void **state) {
    (void)state;
    char *text = text_of(RUN("run", tiny, "-s", "1", "-n", "30"));
    assert_prints(RUN("run", tiny, "-s", "1", "-n", "30"), text);
    char *other = text_of(RUN("run", tiny, "-s", "2", "-n", "30"));
    assert_string_not_equal(text, other);
    free(text);
    free(other);
}

static void a_drawn_seed_is_told_and_gives_the_text_again(void **state) {
    (void)state;
    Process p = RUN("run", tiny, "-n", "30", "--stats");
    assert_int_equal(p.status, 0);
    static const char *const lines[] = {
        "load: ", "prefill: ", "decode: ", "text: ", "memory: ", "machine: ", "seed: "};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(p.err, lines[i]));
    char seed[32];
    assert_int_equal(sscanf(strstr(p.err, "seed:"), "seed: %31s", seed), 1);
    assert_prints(RUN("run", tiny, "-n", "30", "-s", seed), p.out);
    process_free(&p);
}

/* The MiB that --stats tells. */
static double memory_told(void) {
    Process p = RUN("run", tiny, "-n", "3", "--stats");
    const char *at = strstr(p.err, "memory: ");
    assert_non_null(at);
    double told = strtod(at + strlen("memory: "), NULL);
    process_free(&p);
    return told;
}

/* OpenMP's library ended the process with "libgomp: Thread creation failed". */
static void an_address_space_too_small_for_all_threads_has_fewer(void **state) {
    (void)state;
    char *program = program_command("run"), *command = NULL;
    Process alone = RUN("run", "models/stories.bin", "-i", "Once", "-n", "3", "-s", "1", "-j", "1");
    size_t n_ran = 0, n_told = 0;
    for (int kib = 30000; kib <= 150000; kib += 15000) {
        assert_true(asprintf(&command,
                             "ulimit -v %d; exec %s models/stories.bin -i Once -n 3 -s 1 -j 9", kib,
                             program) > 0);
        Process p = RUN("/bin/sh", "-c", command);
        if (strstr(p.err, "libgomp")) fail_msg("%d KiB: %s", kib, p.err);
        if (p.status == 0) assert_string_equal(p.out, alone.out);
        n_ran += p.status == 0;
        n_told += p.status == 0 && strstr(p.err, " of 9 threads: the address space is limited");
        process_free(&p);
        free(command);
    }
    process_free(&alone);
    free(program);
    if (n_ran == 0) skip(); /* a sanitizer takes more at once */
    assert_true(n_told > 0);
}

static void the_memory_told_is_not_that_of_whoever_started_the_program(void **state) {
    (void)state;
    enum { HELD = 256 }; /* MiB */
    double told = memory_told();
    char *held = malloc(HELD << 20);
    assert_non_null(held);
    memset(held, 1, HELD << 20);
    double beside = memory_told();
    assert_int_equal(held[(HELD << 20) - 1], 1);
    free(held);
    assert_true(told > 1.0 && beside > 1.0 && beside < told + HELD / 2.0);
}

static void the_statistics_name_what_reads_a_long_prompt_faster(void **state) {
    (void)state;
    static const char says[] = "f16 weights are multiplied in float32: --type q8 reads prompts";
    char *typed = build_path("tests/cli-typed.bin"), text[301];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    Process p = RUN("export", "--random", "tiny,context=512", "-t", "f16", typed, "-q", "-f");
    assert_int_equal(p.status, 0);
    process_free(&p);
    p = RUN("run", typed, "-i", text, "-n", "2", "--stats");
    assert_non_null(strstr(p.err, says));
    process_free(&p);
    p = RUN("run", typed, "-i", "x", "-n", "2", "--stats");
    assert_null(strstr(p.err, says));
    process_free(&p);
    unlink(typed);
    free(typed);
}

static void a_prompt_comes_from_the_line_a_file_or_stdin(void **state) {
    (void)state;
    char *text = text_of(RUN("run", SAMPLED));
    file_write(scratch, PROMPT, strlen(PROMPT));
    assert_prints(RUN("run", tiny, "-f", scratch, HOW), text);
    static const char *const dash[] = {"-i", "-f"};
    for (size_t i = 0; i < 2; i++) {
        const char *const argv[] = {"run", tiny, dash[i], "-", HOW, NULL};
        assert_prints(process_run(argv, PROMPT, strlen(PROMPT)), text);
    }
    free(text);
}

/* Runs `run -i TEXT` with this descriptor as stdin; true when it says that text waits there. */
static bool hints_at(int fd) {
    char *command = NULL, *program = program_command("run");
    assert_true(asprintf(&command, "exec %s '%s' -i abc -n 2 <&%d", program, tiny, fd) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    assert_int_equal(p.status, 0);
    bool hints = strstr(p.err, "text waits on stdin") != NULL;
    process_free(&p);
    free(command);
    free(program);
    return hints;
}

static void text_on_stdin_follows_the_prompt_or_is_hinted_at(void **state) {
    (void)state;
    char *text = text_of(RUN("run", tiny, "-i", "Say:\n" PROMPT, HOW, "--echo"));
    const char *const both[] = {"run", tiny, "-i", "Say:", "-f", "-", HOW, "--echo", NULL};
    assert_prints(process_run(both, PROMPT, strlen(PROMPT)), text);
    file_write(scratch, PROMPT, strlen(PROMPT));
    assert_prints(RUN("run", tiny, "-i", "Say:", "-f", scratch, HOW, "--echo"), text);
    /* A byte order mark is not part of the text; an empty text is told about. */
    file_write(scratch, "\xEF\xBB\xBFSay:\n" PROMPT, strlen("\xEF\xBB\xBFSay:\n" PROMPT));
    assert_prints(RUN("run", tiny, "-f", scratch, HOW, "--echo"), text);
    free(text);
    file_write(scratch, "", 0);
    Process empty = RUN("run", tiny, "-f", scratch, HOW);
    PROCESS_SAYS(empty, 0, " is empty: the text starts from nothing");
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_false(hints_at(pipes[0])); /* a pipe that stays open and empty is not waited for */
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_true(hints_at(pipes[0]));
    const char *const bare[] = {"run", tiny, "-n", "2", "-s", "1", NULL};
    file_write(scratch, "abc", 3);
    char *command = NULL, *program = program_command("run");
    assert_true(asprintf(&command, "exec %s '%s' -n 2 <'%s'", program, tiny, scratch) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    assert_non_null(strstr(p.err, "-f - takes it as the prompt"));
    process_free(&p);
    const char *const said[] = {"run", tiny, "-m", "chat", "-i", "Hi", "-n", "2", NULL};
    p = process_run(said, PROMPT, strlen(PROMPT));
    assert_non_null(strstr(p.err, "-f - puts it after the prompt of -i"));
    process_free(&p);
    p = process_run(bare, NULL, 0);
    assert_null(strstr(p.err, "stdin"));
    process_free(&p);
    free(command);
    free(program);
    close(pipes[0]);
    close(pipes[1]);
    file_write(scratch, "one\ntwo\n", 8);
    int file = open(scratch, O_RDONLY);
    assert_true(file >= 0);
    assert_true(hints_at(file));
    assert_int_equal(lseek(file, 4, SEEK_SET), 4); /* as in: while read line; do run ...; done */
    assert_false(hints_at(file));
    close(file);
}

static void echo_writes_the_prompt_before_the_text(void **state) {
    (void)state;
    char *text = text_of(RUN("run", SAMPLED)), *both = NULL;
    assert_true(asprintf(&both, "%s%s", PROMPT, text) > 0);
    assert_prints(RUN("run", SAMPLED, "--echo"), both);
    free(text);
    free(both);
}

static void new_tokens_are_counted_and_the_context_ends_the_text(void **state) {
    (void)state;
    Process p = RUN("run", tiny, "-i", "abc", "-n", "5", "--ignore-eos", "--stats");
    assert_non_null(strstr(p.err, "text:    5 tokens (limit)"));
    assert_non_null(strstr(p.err, "prefill: 4 tokens"));
    process_free(&p);
    /* The prompt takes 4 of 100 positions. The 97th token is chosen, but needs no position. */
    p = RUN("run", tiny, "-i", "abc", "-n", "0", "-c", "100", "--ignore-eos", "--stats");
    PROCESS_SAYS(p, 0, "text:    97 tokens (limit)");
}

static void text_ends_before_a_stop_string(void **state) {
    (void)state;
    char *text = text_of(RUN("run", SAMPLED, "--special"));
    size_t length = strlen(text);
    assert_true(length > 40);
    /* As a stop string, any piece of the text ends it where the piece first occurs. */
    for (size_t at = 10; at + 7 < length; at += 13) {
        char stop[8] = {0}, *expected = NULL;
        memcpy(stop, text + at, 5);
        if ((text[at] & 0xC0) == 0x80 || (text[at + 5] & 0xC0) == 0x80) continue;
        size_t first = (size_t)(strstr(text, stop) - text);
        assert_true(asprintf(&expected, "%.*s\n", (int)first, text) > 0);
        assert_prints(RUN("run", SAMPLED, "--special", "--stop", "not there", "--stop", stop),
                      expected);
        free(expected);
    }
    free(text);
}

#define STORIES "models/stories.bin"

/* A batch takes what -s takes, and ids of any size keep their digits in results, which --resume and
 * --check find again. (2^64 - 1 and 2^64 - 2 are the same double.) */
static void seeds_and_ids_beyond_64_bits_are_taken(void **state) {
    static const char lines[] =
        "{\"id\":18446744073709551615,\"prompt\":\"The\",\"max_tokens\":8,\"temperature\":1,"
        "\"seed\":18446744073709551615}\n"
        "{\"id\":18446744073709551614,\"prompt\":\"The\",\"max_tokens\":8,\"temperature\":1,"
        "\"seed\":9223372036854775808}\n"
        "{\"id\":18446744073709551615,\"prompt\":\"again\",\"max_tokens\":1}\n"
        "{\"id\":3,\"prompt\":\"The\",\"seed\":18446744073709551616}\n"
        "{\"id\":4,\"prompt\":\"The\",\"max_tokens\":9223372036854775808}\n"
        "{\"id\":5.0,\"prompt\":\"The\"}\n";
    static const char *const seeds[] = {"18446744073709551615", "9223372036854775808"};
    static const char *const ids[] = {"18446744073709551615", "18446744073709551614"};
    char *results = build_path("tests/big-ids");
    (void)state;
    unlink(results);
    file_write(scratch, lines, strlen(lines));
    Process p = RUN("run", STORIES, "--batch", scratch, "-o", results, "--ordered");
    assert_int_equal(p.status, 3);
    process_free(&p);
    size_t length;
    char *out = file_read(results, &length);
    for (int i = 0; i < 2; i++) {
        char head[64];
        snprintf(head, sizeof head, "{\"id\": %s, \"text\": ", ids[i]);
        const char *line = strstr(out, head);
        if (!line) fail_msg("no %s: %s", head, out);
        json_t *text =
            json_loads(line + strlen(head), JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
        Process one = RUN("run", STORIES, "-i", "The", "-n", "8", "-t", "1", "-s", seeds[i]);
        assert_memory_equal(one.out, json_string_value(text), json_string_length(text));
        process_free(&one);
        json_decref(text);
    }
    assert_non_null(strstr(out, "an earlier line has the same id, 18446744073709551615"));
    assert_non_null(strstr(out, "'seed': 18446744073709551616 is out of range"));
    assert_non_null(strstr(out, "'max_tokens': 9.2233720368547758e+18 is out of range"));
    assert_non_null(strstr(out, "'id' must be a text or a whole number"));
    p = RUN("run", STORIES, "--batch", scratch, "-o", results, "--ordered", "--resume");
    process_free(&p);
    size_t resumed_length;
    char *resumed = file_read(results, &resumed_length);
    assert_string_equal(resumed, out); /* nothing is answered a second time */
    p = RUN("run", STORIES, "--batch", scratch, "--check", results);
    if (!strstr(p.out, "{\"id\": 18446744073709551614, \"same\": true}"))
        fail_msg("%s%s", p.out, p.err);
    process_free(&p);
    free(resumed);
    free(out);
    unlink(results);
    free(results);
}

/* Of a batch's request --render shows the prompt that the batch takes: its clock (docs/batch.md: 1
 * January 2025), no tools where it has none or may call none, and no second system prompt. */
static void a_request_is_rendered_as_the_batch_renders_it(void **state) {
    (void)state;
    static const char template[] =
        "{# knows the role developer #}{{ strftime_now('%Y-%m-%d') }}{% if tools is not none %} {{ "
        "tools | length }}{% endif %}"
        "{% for m in messages %} {{ m.role }}:{{ m.content }}{% endfor %}";
    static const struct {
        const char *line, *prompt;
    } cases[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tools\": []",
         "2025-01-01 system:Be kind user:hi"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tool_choice\": \"none\", "
         "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]",
         "2025-01-01 system:Be kind user:hi"},
        {"{\"messages\": [{\"role\": \"developer\", \"content\": \"a\"}, "
         "{\"role\": \"user\", \"content\": \"hi developer\"}]",
         "2025-01-01 developer:a user:hi developer"},
    };
    file_write(scratch, template, strlen(template));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = NULL, *rest = ", \"max_tokens\": 1, \"return_prompt\": true}\n";
        assert_true(asprintf(&line, "%s%s", cases[i].line, rest) > 0);
        assert_prints(RUN("run", STORIES, "--chat-template", scratch, "-y", "Be kind", "--render",
                          "-i", line),
                      cases[i].prompt);
        const char *const argv[] = {
            "run", STORIES, "--chat-template", scratch, "-y", "Be kind", "--batch", "-", NULL};
        Process p = process_run(argv, line, strlen(line));
        json_t *result = json_loads(p.out, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(result, "prompt")), cases[i].prompt);
        json_decref(result);
        process_free(&p);
        free(line);
    }
}

/* The text of --render has the ids of --tokenize -m chat, and a batch takes the same prompt. */
static void a_conversation_can_be_seen_as_the_model_gets_it(void **state) {
    (void)state;
    static const char shown[] = "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\n"
                                "Hello<|im_end|>\n<|im_start|>assistant\n";
    static const char request[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind\"}, {\"role\": \"user\", "
        "\"content\": [{\"type\": \"text\", \"text\": \"Hello\"}]}], \"max_tokens\": 2}\n";
    char *text = text_of(RUN("run", STORIES, "--render", "-y", "Be kind", "-i", "Hello"));
    assert_string_equal(text, shown);
    assert_prints(RUN("run", STORIES, "--render", "-i", request), shown);
    char *ids =
        text_of(RUN("run", STORIES, "--tokenize", "-m", "chat", "-y", "Be kind", "-i", "Hello"));
    assert_prints(RUN("run", STORIES, "--tokenize", "--special", "-i", text), ids);
    size_t spaces = 0;
    for (const char *c = ids; *c; c++) spaces += *c == ' ';
    const char *const argv[] = {"run", STORIES, "--batch", "-", NULL};
    Process p = process_run(argv, request, strlen(request));
    assert_int_equal(p.status, 0);
    assert_int_equal(atoi(strstr(p.out, "\"prompt_tokens\": ") + 17), spaces + 1);
    process_free(&p);
    assert_fails(RUN("run", STORIES, "--render"), 1, "what does the user say?");
    file_write(scratch, "Be kind\r\n", 9);
    char *at = NULL;
    assert_true(asprintf(&at, "@%s", scratch) > 0);
    assert_prints(RUN("run", STORIES, "--render", "-y", at, "-i", "Hello"), shown);
    assert_fails(RUN("run", STORIES, "-i", at), 2, "a prompt is read from a file by -f");
    assert_prints(RUN("run", STORIES, "--render", "-y", "@@LICENSE", "-i", "Hello"),
                  "<|im_start|>system\n@LICENSE<|im_end|>\n<|im_start|>user\n"
                  "Hello<|im_end|>\n<|im_start|>assistant\n");
    file_write(scratch, "Be\0kind", 7);
    assert_fails(RUN("run", STORIES, "--render", "-y", at, "-i", "Hello"), 1, "is not UTF-8 text");
    assert_fails(RUN("run", STORIES, "--render", "-y", "@/no/such", "-i", "Hello"), 1,
                 "/no/such: No such file or directory");
    free(at);
    free(text);
    free(ids);
}

static void the_description_comes_as_json_as_well(void **state) {
    (void)state;
    Process p = RUN("run", STORIES, "--info", "--json"), plain = RUN("run", STORIES, "--info");
    json_t *json = json_loads(p.out, 0, NULL);
    json_int_t parameters = 0, bytes = 0, context = 0;
    assert_int_equal(json_unpack(json, "{s:I, s:{s:{s:I}}, s:{s:I}}", "parameters", &parameters,
                                 "types", "vector", "bytes", &bytes, "cache", "context", &context),
                     0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "parameters          %lld\n", (long long)parameters);
    assert_non_null(strstr(plain.out, wanted));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json, "config"), "n_layers")), 4);
    assert_true(bytes > 0 && context > 0);
    assert_true(json_is_string(json_object_get(json, "chat_template")));
    json_decref(json);
    process_free(&p);
    process_free(&plain);
}

static void completion_keeps_the_spaces_of_a_name(void **state) {
    (void)state;
    char *directory = fixture_directory(), *name = fixture_path(directory, "my model.gguf");
    file_write(name, "x", 1);
    Process p =
        RUN("/bin/sh", "-c",
            "command -v bash >/dev/null || exit 9; cd \"$1\" && at=$PWD && cd - >/dev/null; "
            "exec bash -c 'source docs/completions/verbatim.bash; COMP_WORDS=(verbatim \"$1/my\");"
            " COMP_CWORD=1; _verbatim; printf \"%s|%s\" ${#COMPREPLY[@]} \"${COMPREPLY[0]}\"' "
            "bash \"$at\"",
            "sh", directory);
    if (p.status != 9) {
        char wanted[600];
        snprintf(wanted, sizeof wanted, "1|%s", name);
        assert_string_equal(p.out, wanted);
    }
    process_free(&p);
    free(name);
    fixture_remove_directory(directory);
}

static void a_biased_token_rules_the_text(void **state) {
    (void)state;
    assert_prints(RUN("run", tiny, "-n", "4", "--logit-bias", "65=1000"), "AAAA\n");
    /* A token that ends the text ends it at once. */
    assert_prints(RUN("run", tiny, "-n", "4", "--logit-bias", "257=1000"), "\n");
    assert_prints(
        RUN("run", tiny, "-n", "2", "--special", "--ignore-eos", "--logit-bias", "257=1000"),
        "<|end|><|end|>\n");
}

static void characters_are_never_cut_in_two(void **state) {
    (void)state;
    /* The prompt is the first two bytes of a snowman. */
    for (int n = 1; n <= 4; n++) {
        char number[4];
        snprintf(number, sizeof number, "%d", n);
        Process p = RUN("run", tiny, "-i", "\xE2\x98", "-n", number);
        assert_int_equal(p.status, 1); /* half a character is not text */
        process_free(&p);
    }
    const char *const ids[] = {"run", tiny, "--detokenize", "-i", "226 152 131 65 226 152 131",
                               NULL};
    assert_prints(process_run(ids, NULL, 0), "\u2603A\u2603");
}

static void text_becomes_ids_and_text_again(void **state) {
    (void)state;
    /* Both options filter stdin to stdout, byte for byte, and add nothing. */
    const char *const there[] = {"run", tiny, "--tokenize", NULL};
    const char *const back[] = {"run", tiny, "--detokenize", NULL};
    Process p = process_run(there, "Hi \u2603!\n", strlen("Hi \u2603!\n"));
    assert_string_equal(p.out, "72 105 32 226 152 131 33 10\n");
    assert_prints(process_run(back, p.out, p.out_length), "Hi \u2603!\n");
    process_free(&p);
    assert_prints(RUN("run", tiny, "--tokenize", "--bos", "-i", "Hi"), "256 72 105\n");
    assert_prints(RUN("run", tiny, "--tokenize", "-i", "<|end|>"), "60 124 101 110 100 124 62\n");
    assert_prints(RUN("run", tiny, "--tokenize", "--special", "-i", "<|end|>"), "257\n");
    assert_fails(RUN("run", tiny, "--detokenize", "-i", "5 x"), 1,
                 "'x' is not a token id from 0 to 299");
    assert_fails(RUN("run", tiny, "--detokenize", "-i", "300"), 1,
                 "'300' is not a token id from 0 to 299");
}

static void output_goes_to_a_file_whole_or_not_at_all(void **state) {
    (void)state;
    char *text = text_of(RUN("run", SAMPLED));
    size_t length;
    file_write(scratch, "old", 3);
    assert_prints(RUN("run", SAMPLED, "-o", scratch), "");
    char *written = file_read(scratch, &length);
    assert_string_equal(written, text);
    free(written);
    /* A run that fails leaves the old file. */
    Process p = RUN("run", tiny, "-i", PROMPT, "-o", scratch, "-c", "10");
    assert_int_equal(p.status, 1);
    process_free(&p);
    written = file_read(scratch, &length);
    assert_string_equal(written, text);
    free(written);
    free(text);
    assert_prints(RUN("run", SAMPLED, "-o", "/dev/null"), "");
    assert_fails(RUN("run", SAMPLED, "-o", "/no/such/place"), 1,
                 "/no/such/place: cannot be written: No such file or directory");
    assert_fails(RUN("run", SAMPLED, "-o", "/dev/full"), 1,
                 "/dev/full: cannot be written: No space left on device");
    /* The name of the temporary file beside it is too long. */
    char name[260] = "/tmp/";
    memset(name + 5, 'x', sizeof name - 6);
    assert_fails(RUN("run", SAMPLED, "-o", name), 1, "cannot be written: File name too long");
}

static void help_that_does_not_arrive_is_a_failure(void **state) {
    (void)state;
    static const char *const lines[] = {"run --help", "run --version", "run --cache-list",
                                        "export --help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *name = strdup(lines[i]), *command = NULL;
        *strchr(name, ' ') = '\0';
        char *program = program_command(name);
        assert_true(asprintf(&command, "%s %s >/dev/full", program, strchr(lines[i], ' ')) > 0);
        Process p = RUN("/bin/sh", "-c", command);
        PROCESS_SAYS(p, 1, ": stdout: cannot be written: No space left on device\n");
        free(command);
        free(program);
        free(name);
    }
}

static void what_is_no_model_is_said_to_be_none(void **state) {
    (void)state;
    char *path = build_path("tests/cli-wrong"), *named = build_path("tests/cli-wrong.onnx");
    size_t length;
    assert_fails(RUN("run", "/no/such/model.bin"), 1,
                 "/no/such/model.bin: No such file or directory");
    assert_fails(RUN("run", "tests"), 1, "tests: no model in this directory");
    file_write(path, "", 0);
    assert_fails(RUN("run", path), 1, "empty");
    file_write(path, "This is a text about models, not a model.", 41);
    assert_fails(RUN("run", path), 1, path);
    file_write(path, "PK\3\4 and so on, as torch.save writes it.....", 44);
    assert_fails(RUN("run", path), 1, "safetensors");
    file_write(named, "\x08\x07\x12\x07pytorch and so on, for long enough", 37);
    assert_fails(RUN("run", named), 1, "ONNX");
    char *whole = file_read(tiny, &length);
    static const size_t cuts[] = {4, 20, 100, 1000, 50000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        file_write(path, whole, cuts[i]);
        assert_fails(RUN("run", path), 1, path);
    }
    file_write(path, whole, length - 1);
    assert_fails(RUN("run", path), 1, path);
    free(whole);
    unlink(path);
    unlink(named);
    free(path);
    free(named);
}

static void wrong_usage_ends_with_status_2(void **state) {
    (void)state;
    assert_fails(RUN("run", "-t"), 2, "-t needs a value: -t X");
    assert_fails(RUN("run", tiny, "-t", "-1"), 2, "-t: -1 is out of range");
    assert_fails(RUN("run", tiny, "-j", "0"), 2, "-j: 0 is out of range");
    assert_fails(RUN("run", tiny, "--temp", "1"), 2, "did you mean --temperature X?");
    assert_fails(RUN("run", tiny, "-i"), 2, "-i needs a value");
    assert_fails(RUN("run", tiny, "a prompt"), 2, "a prompt goes after -i");
    assert_fails(RUN("run", tiny, "--isa", "mmx"), 2, "no instruction set 'mmx' on this machine");
    assert_fails(RUN("run", tiny, "--logit-bias", "5"), 2, "'5' is not ID=X");
    /* The forms that llama.cpp's help shows. */
    assert_fails(RUN("run", tiny, "--logit-bias", "5+1"), 2, "'5+1' is written as 5=+1");
    assert_fails(RUN("run", tiny, "--logit-bias", "5-inf"), 2, "'5-inf' is written as 5=-1e6");
}

static void a_prompt_that_cannot_be_used_is_refused(void **state) {
    (void)state;
    assert_fails(RUN("run", tiny, "-i", PROMPT, "-c", "10"), 1,
                 "the prompt is 81 tokens long, but the context has 10 positions");
    assert_fails(RUN("run", tiny, "-i", "caf\xE9 noir"), 1,
                 "the prompt is not UTF-8 text: byte 0xe9 at offset 3");
    /* No file: no command makes it a text, and "the prompt" and "the shape" are no names of files.
     */
    assert_fails(RUN("run", tiny, "-i", "\xFF\xFEzz"), 1,
                 "the prompt is not UTF-8 text: byte 0xff at offset 0");
    assert_fails(RUN("run", tiny, "-i", "\x1F\x8B\x08\x08\xFF"), 1,
                 "the prompt is not UTF-8 text: byte 0x8b at offset 1");
    assert_fails(RUN("run", tiny, "--regex", "\xFF\xFEzz"), 1,
                 "the shape is not UTF-8 text: byte 0xff at offset 0");
    assert_fails(RUN("run", tiny, "-f", "/no/such/file"), 1,
                 "/no/such/file: No such file or directory");
    assert_fails(RUN("run", tiny, "-f", "tests"), 1, "tests: Is a directory");
    file_write(scratch, "\x1F\x8B\x08\x08\xFF", 5);
    assert_fails(RUN("run", tiny, "-f", scratch), 1,
                 "compressed by gzip; a pipe unpacks it: zcat ");
    assert_fails(RUN("run", tiny, "-i", "Sum up:", "-f", scratch), 1,
                 "compressed by gzip; a pipe unpacks it: zcat ");
    /* A command that is suggested for a pipe names no file "stdin". */
    file_write(scratch, "\xFF\xFE\n\0", 4);
    char *run = program_command("run"), *piped = NULL;
    assert_true(asprintf(&piped, "%s %s -f - <%s", run, tiny, scratch) > 0);
    assert_fails(RUN("/bin/sh", "-c", piped), 1, "UTF-16: iconv -f UTF-16 -t UTF-8 FILE");
    free(piped);
    free(run);
    file_write(scratch, "\xFF\xFE{\0}\0", 6);
    assert_fails(RUN("run", tiny, "--eval-tasks", scratch), 1, "is not UTF-8 text but UTF-16");
    assert_fails(RUN("run", tiny, "--logit-bias", "300=1"), 1,
                 "token 300 is outside the vocabulary of 300");
}

static void a_reader_that_leaves_is_no_error(void **state) {
    (void)state;
    char *program = program_command("run"), *command = NULL;
    assert_true(asprintf(&command,
                         "{ %s %s -n 0 --ignore-eos -s 1; echo $? >%s; } | head -c 10 >/dev/null",
                         program, tiny, scratch) > 0);
    assert_prints(RUN("/bin/sh", "-c", command), "");
    size_t length;
    char *status = file_read(scratch, &length);
    assert_string_equal(status, "0\n");
    free(status);
    free(command);
    free(program);
}

/* A file must not get the descriptor of a standard stream that the parent has closed. */
static void a_closed_stream_is_not_mistaken_for_a_file(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *err;
        int status;
    } cases[] = {{"-i - <&-", "run: stdin: Bad file descriptor\n", 1},
                 {"-i a -n 3 >&-", "run: stdout: cannot be written: Bad file descriptor\n", 1},
                 {"-i a -n 3 --stats 2>&-", "", 0}};
    char *program = program_command("run");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *command = NULL;
        assert_true(asprintf(&command, "exec %s %s %s", program, tiny, cases[i].arguments) > 0);
        Process p = RUN("/bin/sh", "-c", command);
        assert_string_equal(p.err, cases[i].err);
        assert_int_equal(p.status, cases[i].status);
        process_free(&p);
        free(command);
    }
    free(program);
}

/* A larger model is certainly still running when the signal comes. */
static void ctrl_c_ends_with_status_130(void **state) {
    (void)state;
    char *program = program_command("run"), *large = build_path("tests/cli-large.bin"),
         *command = NULL;
    Process p = RUN("export", "--random", "tiny,dim=256,n_layers=8,context=100000", large, "-q",
                    "--force"); /* a run that was killed leaves it */
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_true(asprintf(&command,
                         "%s %s -n 0 --ignore-eos -j 1 -s 1 >%s & pid=$!; "
                         "while [ ! -s %s ]; do sleep 0.05; done; "
                         "kill -INT $pid; wait $pid",
                         program, large, scratch, scratch) > 0);
    unlink(scratch);
    /* Background jobs of a shell without job control ignore Ctrl-C; bash -m has job control. */
    p = RUN("/bin/bash", "-m", "-c", command);
    if (p.status != 130) print_message("status %d, stderr: %s", p.status, p.err);
    PROCESS_SAYS(p, 130, "run: interrupted\n");
    unlink(large);
    free(large);
    free(command);
    free(program);
}

static void info_and_verify_tell_what_a_file_holds(void **state) {
    (void)state;
    Process p = RUN("run", tiny, "--info");
    assert_int_equal(p.status, 0);
    static const char *const lines[] = {
        "\ndim                 64\n", "\nn_layers            2\n", "\ncontext             256\n",
        "\ntokenizer           300 tokens\n", "\ncache               f32: 512 bytes a token"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(p.out, lines[i]));
    process_free(&p);
    p = RUN("run", tiny, "--verify");
    assert_int_equal(p.status, 0);
    process_free(&p);
    /* Flip one bit of the weights. */
    size_t length;
    char *bytes = file_read(tiny, &length);
    bytes[length - 300] ^= 1;
    file_write(scratch, bytes, length);
    free(bytes);
    assert_fails(RUN("run", scratch, "--verify"), 1, "checksum");
}

/* The model in models/, found from wherever the program was built. */
static void without_a_model_the_default_one_tells_its_story_to_the_end(void **state) {
    (void)state;
    char *story = text_of(RUN("run", "-s", "1"));
    char *named = text_of(RUN("run", "models/stories.bin", "-s", "1", "-n", "0"));
    assert_string_equal(story, named);
    assert_true(strlen(story) > 200);
    free(story);
    free(named);
    story = text_of(RUN("run", "-i", "A fox", "-s", "1", "-n", "5"));
    named = text_of(RUN("run", "models/stories.bin", "-i", "A fox", "-s", "1", "-n", "5"));
    assert_string_equal(story, named);
    free(story);
    free(named);
}

static char *scratch_file(const char *name, const char *bytes) {
    char *path = build_path(name);
    file_write(path, bytes, strlen(bytes));
    return path;
}

static void what_is_no_model_is_told_what_to_do_instead(void **state) {
    (void)state;
    assert_fails(
        RUN("run", "Once upon a time"), 1,
        "no file is called 'Once upon a time'; a prompt goes after -i: run -i 'Once upon a "
        "time'\n");
    assert_fails(RUN("run", "It's late"), 1, "run -i \"It's late\"\n");
    /* One word is the name of a model that was not fetched, or else a short prompt. */
    assert_fails(RUN("run", "Hello"), 1,
                 "no file is called Hello, and no model that --list finds. Nothing is downloaded "
                 "here: ollama pull Hello, or ./get ORG/NAME; a prompt goes after -i: -i Hello\n");
    static const char *const names[] = {"gpt2", "qwen3", "phi3:mini"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "here: ollama pull %s, or ./get ORG/NAME\n", names[i]);
        assert_fails(RUN("run", names[i]), 1, wanted);
    }
    assert_fails(RUN("run", "Someone/Some-Model"), 1,
                 "./get Someone/Some-Model fetches it; then: run Someone/Some-Model\n");
    assert_fails(RUN("run", "llama3.2:1b"), 1,
                 "no file is called llama3.2:1b, and no model that --list finds. Nothing is "
                 "downloaded here: ollama pull llama3.2:1b, or ./get ORG/NAME\n");
    assert_fails(RUN("run", "https://huggingface.co/Org/Name"), 1,
                 "./get Org/Name fetches it, and prints how to run it\n");
    assert_fails(RUN("run", "hf.co/Org/Name:Q4_K_M"), 1, "./get Org/Name:Q4_K_M fetches it, ");
    assert_fails(RUN("run", "https://huggingface.co/Org/Name/resolve/main/a-q8.gguf?download=true"),
                 1, "./get Org/Name:a-q8.gguf fetches it, and prints how to run it\n");
    assert_fails(RUN("run", "no/such.gguf"), 1, "no/such.gguf: No such file or directory\n");
    assert_fails(RUN("run", "Nothing", "-i", "Hi"), 1,
                 "no file is called Nothing, and no model that --list finds. Nothing is downloaded "
                 "here: ollama pull Nothing, or ./get ORG/NAME\n");
    assert_fails(RUN("run", ""), 1, "the model's name is empty\n");
    assert_fails(RUN("run", tiny, "-i", "Hi", "--type", "float16"), 2,
                 "--type: no type is called 'float16'; did you mean f16?\n");
    static const struct {
        const char *name, *bytes, *advice;
    } files[] = {
        {"tests/cli.pth", "PK\3\4....", "model.save_pretrained(\"DIR\") writes safetensors"},
        {"tests/cli.pt", "\x80\2....", "a PyTorch pickle, which can run code and is not read"},
        {"tests/cli-pytorch_model.bin", "\x80\2....", "then give DIR"},
        {"tests/cli.onnx", "\b\7\x12....", "an ONNX graph, which is not read; give the Hugging"},
        {"tests/cli.safetensors", "x", "one file of a model; give the directory that holds"},
        {"tests/cli.gguf", "version https://git-lfs.github.com/spec/v1\n", "run git lfs pull"},
        {"tests/cli.json", "{}", "one file of a model; give the directory that holds"},
        {"tests/cli.jsonl", "{}", "a text, not a model; a file of requests goes after --batch"},
        {"tests/cli.csv", "text\nOnce", "a table, not a model; its rows are prompts with --batch"},
        {"tests/cli.txt", "Once", "a text, not a model; a prompt goes after -f"},
        {"tests/Modelfile", "FROM ./x.gguf", "run the model of its FROM, with SYSTEM after -y"},
        {"tests/cli.md", "# Once", "a text, not a model; a prompt goes after -f"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = scratch_file(files[i].name, files[i].bytes);
        assert_fails(RUN("run", path), 1, files[i].advice);
        unlink(path);
        free(path);
    }
    char *directory = build_path("tests/cli-ggufs");
    mkdir(directory, 0700);
    assert_fails(RUN("run", directory), 1, "no model in this directory (config.json is missing)");
    char *adapter = scratch_file("tests/cli-ggufs/adapter_config.json", "{}");
    assert_fails(RUN("run", directory), 1,
                 "a LoRA adapter, which stands beside its model: run MODEL --lora NAME=");
    unlink(adapter);
    free(adapter);
    char *b = scratch_file("tests/cli-ggufs/b.gguf", "x"),
         *a = scratch_file("tests/cli-ggufs/a.gguf", "x");
    assert_fails(RUN("run", directory), 1, "name a file in it, like ");
    unlink(a);
    unlink(b);
    rmdir(directory);
    free(a);
    free(b);
    free(directory);
}

static void help_and_version_are_printed(void **state) {
    (void)state;
    Process p = RUN("run", "--help");
    assert_int_equal(p.status, 0);
    assert_int_equal(p.err_length, 0);
    assert_non_null(strstr(p.out, "Usage: run [MODEL] [options]"));
    process_free(&p);
    p = RUN("run", "--help", "chat");
    assert_int_equal(p.status, 0);
    assert_true(strncmp(p.out, "Chat (-m chat)", 14) == 0);
    assert_null(strstr(p.out, "--threads"));
    process_free(&p);
    assert_fails(RUN("run", "--help", "xyzzy"), 2, "no option mentions 'xyzzy'");
    p = RUN("run", "--version");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "verbatim 0."));
    assert_non_null(strstr(p.out, "PCRE2"));
    process_free(&p);
}

/* Expects every option that the program's help names in a text, after `before`. */
static void knows_every_option(const char *text, const char *before, const Process *help,
                               size_t least) {
    size_t n = 0;
    for (char *at = help->out; (at = strstr(at, "--")); n++) {
        char spelled[64];
        at += 2;
        snprintf(spelled, sizeof spelled, "%s%.*s", before, (int)strcspn(at, " \n,"), at);
        if (!strstr(text, spelled)) fail_msg("no %s", spelled);
    }
    assert_true(n >= least);
}

/* The part of a text from one mark to another, malloc'ed. */
static char *part_of(const char *text, const char *from, const char *to) {
    const char *begin = strstr(text, from), *end = begin ? strstr(begin, to) : NULL;
    if (!end) fail_msg("no '%s' to '%s'", from, to);
    return strndup(begin, (size_t)(end - begin));
}

/* The helps of the other programs, their manuals and their completions name the same options. */
static void manuals_and_completions_of_other_programs_know_their_options(void **state) {
    (void)state;
    size_t length;
    char *bash = file_read("docs/completions/verbatim.bash", &length);
    char *zsh = file_read("docs/completions/_verbatim", &length);
    static const char *const names[] = {"export", "bench", "get", "serve"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64], mark[64];
        snprintf(path, sizeof path, "docs/man/verbatim-%s.1", names[i]);
        char *page = file_read(path, &length);
        snprintf(mark, sizeof mark, "_verbatim_%s() {", names[i]);
        char *in_bash = part_of(bash, mark, "\n}");
        snprintf(mark, sizeof mark, "$service == verbatim-%s ", names[i]);
        char *in_zsh = part_of(zsh, mark, i == 3 ? "\n)" : "\nfi");
        bool is_script = i >= 2;
        Process p = i == 2   ? RUN("/bin/sh", "-c",
                                   "sed -n '/list)/,/-\\*)/p' get | "
                                     "grep -o -e '--[a-z]*'; echo --help")
                    : i == 3 ? RUN("/bin/sh", "-c",
                                   "sed -n 's/^  \\(--[a-z]*\\) .*/\\1/p' "
                                   "integrations/openai/verbatim_server.py")
                             : RUN(names[i], "--help");
        assert_int_equal(p.status, 0);
        knows_every_option(page, is_script ? "\\-\\-" : "Fl -", &p, is_script ? 3 : 6);
        knows_every_option(in_bash, "--", &p, 3);
        knows_every_option(in_zsh, "--", &p, 3);
        process_free(&p);
        free(page), free(in_bash), free(in_zsh);
    }
    free(bash), free(zsh);
}

static void stories260K_writes_its_published_text(void **state) {
    (void)state;
    size_t length;
    char *checkpoint, *tokenizer, *exported = build_path("tests/cli-stories.bin");
    if (!shared_data("stories260K/stories260K.bin")) {
        print_message("stories260K is not here: skipped\n");
        free(exported);
        skip();
    }
    checkpoint = strdup(shared_data("stories260K/stories260K.bin"));
    tokenizer = strdup(shared_data("stories260K/tok512.bin"));
    char *text = file_read(shared_data("stories260K/expected-greedy-200.txt"), &length);
    char *line = NULL;
    assert_true(asprintf(&line, "%s\n", text) > 0);
    assert_prints(RUN("run", checkpoint, "-z", tokenizer, "-t", "0", "-n", "200"), line);
    Process p = RUN("export", checkpoint, exported, "-z", tokenizer, "-q", "-f");
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_prints(RUN("run", exported, "-t", "0", "-n", "200"), line);
    for (size_t i = 0; isa_available(i); i++)
        assert_prints(RUN("run", exported, "-t", "0", "-n", "200", "-j", "3", "--isa",
                          isa_available(i)->name),
                      line);
    unlink(exported);
    free(exported);
    free(checkpoint);
    free(tokenizer);
    free(text);
    free(line);
}

/* What a program prints where these words, of which "F" and "@F" are a file of this text, are its
 * arguments. */
static char *printed_of_file(const char *const words[10], const char *text, size_t length) {
    const char *argv[12] = {words[0]};
    char *at = NULL, *printed = NULL;
    file_write(scratch, text, length);
    assert_true(asprintf(&at, "@%s", scratch) > 0);
    for (size_t i = 1; words[i]; i++)
        argv[i] = strcmp(words[i], "F") == 0    ? scratch
                  : strcmp(words[i], "@F") == 0 ? at
                  : strcmp(words[i], "M") == 0  ? tiny
                                                : words[i];
    static const char lines[] = "a\nab\n{\"a\":1}\n1\n";
    Process p = process_run(argv, lines, sizeof lines - 1);
    assert_true(asprintf(&printed, "%d\n%s\n%s", p.status, p.out, p.err) > 0);
    process_free(&p);
    free(at);
    return printed;
}

/* U+FEFF at the beginning of a file says how it is encoded (RFC 3629, section 6): whoever reads the
 * text must not see it. */
static void a_byte_order_mark_is_no_part_of_any_text(void **state) {
    (void)state;
    static const struct {
        const char *words[10], *text;
    } cases[] = {
        {{"run", "M", "--eval", "F"}, "Once upon a time there was a fox."},
        {{"run", STORIES, "--tokenize", "-f", "F"}, "Once upon a time"},
        {{"run", STORIES, "--tokenize", "-i", "Say:", "-f", "F"}, "Once upon a time"},
        {{"run", STORIES, "--render", "-f", "F"}, "Hello"},
        {{"run", STORIES, "--render", "-f", "F"}, "[{\"role\": \"user\", \"content\": \"Hi\"}]"},
        {{"run", STORIES, "--render", "-i", "Hi", "-y", "@F"}, "Be kind"},
        {{"run", STORIES, "--render", "-i", "Hi", "--chat-template", "F"},
         "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"},
        {{"run", "M", "--score", "json", "-f", "F"}, "Once upon a time"},
        {{"run", "M", "-f", "F", "-n", "4", "-t", "0", "--echo"}, "Once upon a time"},
        {{"run", "--regex", "@F", "--shape-test", "-"}, "ab?"},
        {{"run", "--grammar", "@F", "--shape-test", "-"}, "root ::= \"a\" \"b\"?\n"},
        {{"run", "--json-schema", "@F", "--shape-test", "-"}, "{\"type\": \"object\"}"},
        {{"run", "--regex", "ab?", "--shape-test", "F"}, "ab\nb\n"},
        {{"run", "M", "--eval-tasks", "F"},
         "{\"context\": \"One\", \"choices\": [\" two\", \" three\"], \"answer\": 0}\n"},
        {{"run", "M", "--batch", "F"},
         "{\"prompt\": \"a\", \"max_tokens\": 2, \"temperature\": 0}\n"},
        {{"run", "M", "--batch", "F", "--batch-text", "-n", "2", "-t", "0"}, "a\nb\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char marked[200];
        int n = snprintf(marked, sizeof marked, "\xEF\xBB\xBF%s", cases[i].text);
        char *wanted = printed_of_file(cases[i].words, marked + 3, (size_t)n - 3);
        char *printed = printed_of_file(cases[i].words, marked, (size_t)n);
        if (strcmp(printed, wanted) != 0)
            fail_msg("%s %s: %s\nwithout the mark: %s", cases[i].words[1], cases[i].words[2],
                     printed, wanted);
        free(wanted);
        free(printed);
    }
}

/* The line end that `echo` and editors put after a text is not part of a message (llama.cpp drops
 * the one of -f and -sysf, common/arg.cpp); it is part of a text that is continued or measured. CR
 * is a character like any other, but in CR LF at the end of a line. */
static void one_line_end_behind_a_piped_message_is_the_pipes(void **state) {
    (void)state;
    static const struct {
        const char *piped, *message;
    } cases[] = {{"Hello", "Hello"},       {"Hello\n", "Hello"},     {"Hello\r\n", "Hello"},
                 {"Hello\n\n", "Hello\n"}, {"a\r\nb\r\n", "a\r\nb"}, {"Hello\r", "Hello\r"}};
    static const char *const ways[][12] = {
        {"run", STORIES, "--render", "-f", "F"},
        {"run", STORIES, "-m", "chat", "--tokenize", "-f", "F"},
        {"run", STORIES, "-m", "chat", "-f", "F", "-n", "3", "-t", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            const char *typed[12];
            memcpy(typed, ways[k], sizeof typed);
            for (size_t w = 0; typed[w]; w++) {
                if (strcmp(typed[w], "-f") == 0) typed[w] = "-i";
                if (strcmp(typed[w], "F") == 0) typed[w] = cases[i].message;
            }
            const char *of_file[12];
            memcpy(of_file, ways[k], sizeof of_file);
            for (size_t w = 0; of_file[w]; w++)
                if (strcmp(of_file[w], "F") == 0) of_file[w] = scratch;
            file_write(scratch, cases[i].piped, strlen(cases[i].piped));
            char *piped = text_of(process_run(of_file, NULL, 0));
            char *wanted = text_of(process_run(typed, NULL, 0));
            if (strcmp(piped, wanted) != 0)
                fail_msg("case %zu, way %zu: %s\ntyped: %s", i, k, piped, wanted);
            free(piped);
            free(wanted);
        }
    }
    const char *const single[] = {"run", STORIES, "-m", "chat", "--single-turn",
                                  "-n",  "3",     "-t", "0",    NULL};
    const char *const typed[] = {"run", STORIES, "-m", "chat", "-i", "Hello there",
                                 "-n",  "3",     "-t", "0",    NULL};
    char *wanted = text_of(process_run(typed, NULL, 0));
    assert_prints(process_run(single, "Hello there\n", 12), wanted);
    free(wanted);
    /* Texts that are continued or measured stay as they stand. */
    static const char *const whole[10] = {"run", STORIES, "--tokenize", "-f", "F"};
    char *with = printed_of_file(whole, "Hello\r\n", 7),
         *without = printed_of_file(whole, "Hello", 5);
    assert_string_not_equal(with, without);
    free(with);
    free(without);
}

/* A regular expression in a file is a line, and so is each text that is tested. */
static void lines_of_texts_end_with_lf_or_crlf(void **state) {
    (void)state;
    static const char *const of_file[10] = {"run", "--regex", "@F", "--shape-test", "-"},
                             *const tested[10] = {"run", "--regex", "ab?", "--shape-test", "F"};
    char *wanted = printed_of_file(of_file, "ab?", 3);
    assert_non_null(strstr(wanted, "1: accepted\n2: accepted\n3: refused"));
    char *lf = printed_of_file(of_file, "ab?\n", 4), *crlf = printed_of_file(of_file, "ab?\r\n", 5);
    assert_string_equal(lf, wanted);
    assert_string_equal(crlf, wanted);
    free(lf);
    free(crlf);
    free(wanted);
    wanted = printed_of_file(tested, "a\nab\nb\n", 7);
    crlf = printed_of_file(tested, "a\r\nab\r\nb\r\n", 10);
    assert_string_equal(crlf, wanted);
    free(crlf);
    free(wanted);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_order_mark_is_no_part_of_any_text),
        cmocka_unit_test(one_line_end_behind_a_piped_message_is_the_pipes),
        cmocka_unit_test(lines_of_texts_end_with_lf_or_crlf),
        cmocka_unit_test(the_text_is_the_same_on_any_thread_count),
        cmocka_unit_test(the_text_is_the_same_with_any_chunk),
        cmocka_unit_test(the_text_is_the_same_on_every_instruction_set),
        cmocka_unit_test(a_seed_gives_its_text_and_another_seed_another),
        cmocka_unit_test(a_drawn_seed_is_told_and_gives_the_text_again),
        cmocka_unit_test(an_address_space_too_small_for_all_threads_has_fewer),
        cmocka_unit_test(the_memory_told_is_not_that_of_whoever_started_the_program),
        cmocka_unit_test(the_statistics_name_what_reads_a_long_prompt_faster),
        cmocka_unit_test(a_prompt_comes_from_the_line_a_file_or_stdin),
        cmocka_unit_test(text_on_stdin_follows_the_prompt_or_is_hinted_at),
        cmocka_unit_test(echo_writes_the_prompt_before_the_text),
        cmocka_unit_test(new_tokens_are_counted_and_the_context_ends_the_text),
        cmocka_unit_test(text_ends_before_a_stop_string),
        cmocka_unit_test(a_request_is_rendered_as_the_batch_renders_it),
        cmocka_unit_test(seeds_and_ids_beyond_64_bits_are_taken),
        cmocka_unit_test(a_conversation_can_be_seen_as_the_model_gets_it),
        cmocka_unit_test(the_description_comes_as_json_as_well),
        cmocka_unit_test(completion_keeps_the_spaces_of_a_name),
        cmocka_unit_test(a_biased_token_rules_the_text),
        cmocka_unit_test(characters_are_never_cut_in_two),
        cmocka_unit_test(text_becomes_ids_and_text_again),
        cmocka_unit_test(output_goes_to_a_file_whole_or_not_at_all),
        cmocka_unit_test(help_that_does_not_arrive_is_a_failure),
        cmocka_unit_test(what_is_no_model_is_said_to_be_none),
        cmocka_unit_test(wrong_usage_ends_with_status_2),
        cmocka_unit_test(a_prompt_that_cannot_be_used_is_refused),
        cmocka_unit_test(a_reader_that_leaves_is_no_error),
        cmocka_unit_test(a_closed_stream_is_not_mistaken_for_a_file),
        cmocka_unit_test(ctrl_c_ends_with_status_130),
        cmocka_unit_test(info_and_verify_tell_what_a_file_holds),
        cmocka_unit_test(without_a_model_the_default_one_tells_its_story_to_the_end),
        cmocka_unit_test(what_is_no_model_is_told_what_to_do_instead),
        cmocka_unit_test(help_and_version_are_printed),
        cmocka_unit_test(manuals_and_completions_of_other_programs_know_their_options),
        cmocka_unit_test(stories260K_writes_its_published_text),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
