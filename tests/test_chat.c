/* The chat over pipes: messages and answers, sessions in files, reasoning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/chat_person.h"
#include "tests/process.h"

static Process talk(const char *input, const char *const *more) {
    char *program = build_path("run");
    const char *argv[32] = {program, chat_home.model, "-m", "chat", "-s", "3", "-n", "6"};
    size_t n = 8;
    while (*more) argv[n++] = *more++;
    Process p = process_run(argv, input, strlen(input));
    free(program);
    return p;
}

#define TALK(input, ...) talk(input, (const char *const[]){__VA_ARGS__, NULL})

static void a_pipe_gives_a_message_a_line_and_gets_answers_alone(void **state) {
    (void)state;
    Process p = TALK("hello\nhow are you\n", "--kv-type", "f32");
    assert_int_equal(p.status, 0);
    assert_null(strchr(p.out, '\033'));
    assert_null(strstr(p.out, "> "));
    Process one = TALK("", "-i", "hello", "--kv-type", "f32");
    assert_int_equal(one.status, 0);
    /* The first of two answers is that of a conversation with one message. */
    assert_memory_equal(p.out, one.out, one.out_length);
    assert_int_equal(p.out[one.out_length], '\n');
    process_free(&p);
    process_free(&one);
    p = TALK("hello\nhow are you\n", "-n", "1", "--kv-type", "f32", "--ignore-eos");
    assert_non_null(strstr(p.err, "(2 answers were cut by -n or by the end of the context)"));
    process_free(&p);
}

/* A file of Windows: CR LF and a byte order mark. Only the messages count. */
static void lines_of_a_pipe_may_end_with_cr_lf(void **state) {
    (void)state;
    Process lf = TALK("Hello!\n\"\"\"\na\nb\n\"\"\"\nc\\\nd\n/quit\nNEVER\n", "--kv-type", "f32");
    Process crlf = TALK("\xEF\xBB\xBFHello!\r\n\"\"\"\r\na\r\nb\r\n\"\"\"\r\nc\\\r\nd\r\n/quit\r\n"
                        "NEVER\r\n",
                        "--kv-type", "f32");
    assert_int_equal(lf.status, 0);
    assert_int_equal(crlf.status, 0);
    assert_string_equal(crlf.out, lf.out);
    assert_string_equal(crlf.err, lf.err);
    process_free(&crlf);
    crlf = TALK("a\rb\n", "--kv-type", "f32"); /* no end of a line */
    Process same = TALK("", "-i", "a\rb", "--kv-type", "f32");
    assert_string_equal(crlf.out, same.out);
    process_free(&lf);
    process_free(&crlf);
    process_free(&same);
}

/* A conversation that an editor has saved with a byte order mark and CR LF goes on. */
static void a_session_may_have_a_byte_order_mark(void **state) {
    (void)state;
    char *path = build_path("tests/marked-session");
    static const char messages[] = "{\"role\":\"user\",\"content\":\"one\"}";
    unlink(path);
    Process p = TALK("one\n", "--session", path);
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t length, n = 3;
    char *text = file_read(path, &length), *marked = malloc(2 * length + 3);
    assert_non_null(strstr(text, messages));
    memcpy(marked, "\xEF\xBB\xBF", 3);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n') marked[n++] = '\r';
        marked[n++] = text[i];
    }
    file_write(path, marked, n);
    p = TALK("two\n", "--session", path);
    assert_int_equal(p.status, 0);
    assert_null(strstr(p.err, "damaged"));
    process_free(&p);
    free(text);
    text = file_read(path, &length);
    assert_memory_equal(text, marked, n);
    assert_non_null(strstr(text + n, "two"));
    unlink(path);
    free(text);
    free(marked);
    free(path);
}

static void a_single_turn_takes_all_of_stdin_as_one_message(void **state) {
    (void)state;
    Process p = TALK("one\ntwo\n", "--single-turn", "--kv-type", "f32");
    Process same =
        TALK("", "-i", "one\ntwo", "--kv-type", "f32"); /* the last line's end is the pipe's */
    assert_int_equal(p.status, 0);
    assert_string_equal(p.out, same.out);
    process_free(&p);
    process_free(&same);
    p = TALK("", "-i", "one", "--kv-type", "f32", "--stats");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, "prompt:  "));
    assert_non_null(strstr(p.err, "memory:  "));
    assert_non_null(strstr(p.err, "seed:    3\n"));
    process_free(&p);
    p = TALK("", "-f", "/dev/null");
    PROCESS_SAYS(p, 1, "there is no message: the text to answer is empty");
    p = TALK("a\xff\n", "--kv-type", "f32");
    PROCESS_SAYS(p, 1, "a message that is not UTF-8: byte 0xff at offset 1");
    /* Of one message no command can follow, so the error names none. */
    p = TALK("", "-i", "a message that does not fit into so few positions", "-c", "8");
    assert_int_equal(p.status, 1);
    assert_null(strstr(p.err, "/retry"));
    assert_null(strstr(p.err, "/edit"));
    assert_null(strstr(p.err, "goes on"));
    assert_non_null(strstr(p.err, ", -c "));
    process_free(&p);
}

static void load_looks_at_the_file_before_it_asks_what_may_be_erased(void **state) {
    (void)state;
    char *session = chat_inside("load-first");
    Process p = TALK("hello\n/load /nonexistent\n", "--session", session);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "/nonexistent: No such file"));
    assert_null(strstr(p.err, "would erase"));
    process_free(&p);
    free(session);
}

static void a_template_is_a_file_and_not_the_name_of_a_form(void **state) {
    (void)state;
    Process p = TALK("hello\n", "--chat-template", "chatml");
    PROCESS_SAYS(p, 1, "--chat-template chatml: no such file: it takes a template of Jinja");
}

/* A script whose text is empty must not get the next lines of stdin answered instead. */
static void a_message_that_is_empty_is_refused(void **state) {
    (void)state;
    Process p = TALK("hello\n", "-i", "");
    assert_int_equal(p.status, 2);
    assert_string_equal(p.out, "");
    assert_non_null(strstr(p.err, "-i is empty: there is no message to answer"));
    process_free(&p);
    p = TALK("", "--single-turn");
    PROCESS_SAYS(p, 1, "there is no message: the text to answer is empty");
}

static void edit_through_a_pipe_opens_no_editor_that_waits_for_a_terminal(void **state) {
    (void)state;
    char *program = build_path("run");
    Process p =
        RUN("/bin/sh", "-c", "unset VISUAL EDITOR; echo /edit | timeout 20 \"$1\" \"$2\" -m chat",
            "sh", program, chat_home.model);
    PROCESS_SAYS(p, 1, "/edit opens an editor, which needs a terminal");
    free(program);
}

/* Ctrl-C stops a line without an end, unless its length does so first. */
static void an_editor_takes_no_messages_of_a_pipe_and_writes_nothing_among_answers(void **state) {
    (void)state;
    enum { LINES = 3000 }; /* more than is read ahead */
    static const char script[] = "#!/bin/sh\ncat >\"$0.read\"\necho screen\nexit 1\n";
    char *editor = chat_inside("editor"), *read = chat_inside("editor.read");
    char *program = build_path("run"), *input = calloc(LINES, 16), *at = input;
    file_write(editor, script, strlen(script));
    assert_int_equal(chmod(editor, 0700), 0);
    at += sprintf(at, "/edit\n");
    for (int i = 0; i < LINES; i++) at += sprintf(at, "/set seed %d\n", i);
    at += sprintf(at, "hello\n");
    Process p = process_run(
        (const char *const[]){
            "/bin/sh", "-c",
            "export EDITOR=\"$1\"; exec setsid -w timeout 60 \"$2\" \"$3\" -m chat -n 2 -s 3", "sh",
            editor, program, chat_home.model, NULL},
        input, strlen(input));
    size_t length;
    char *taken = file_read(read, &length);
    assert_int_equal(length, 0);
    assert_null(strstr(p.out, "screen"));
    assert_true(p.out_length > 0); /* the message after the command is answered */
    assert_non_null(strstr(p.err, "screen"));
    assert_non_null(strstr(p.err, "no message came back"));
    process_free(&p);
    free(taken);
    free(input);
    free(program);
    free(editor);
    free(read);
}

static void a_line_without_an_end_can_be_stopped(void **state) {
    (void)state;
    char *program = build_path("run");
    Process p = RUN("/bin/sh", "-c",
                    "timeout --preserve-status -s INT -k 30 1 \"$1\" \"$2\" -m chat </dev/zero",
                    "sh", program, chat_home.model);
    if (p.status != 130) {
        assert_int_equal(p.status, 1);
        assert_non_null(strstr(p.err, "Message too long"));
    }
    process_free(&p);
    free(program);
}

static void answers_that_cannot_be_written_are_a_failure(void **state) {
    (void)state;
    char *program = build_path("run");
    Process p =
        RUN("/bin/sh", "-c", "yes hello | head -8 | \"$1\" \"$2\" -m chat -s 5 -n 6 >/dev/full",
            "sh", program, chat_home.model);
    PROCESS_SAYS(p, 1, "run: stdout: cannot be written: No space left on device\n");
    p = RUN("/bin/bash", "-c",
            "yes | \"$1\" \"$2\" -m chat -s 5 -n 6 | head -c 1 >/dev/null; exit ${PIPESTATUS[1]}",
            "sh", program, chat_home.model);
    assert_int_equal(p.status, 0); /* a reader that closes the pipe is not an error */
    process_free(&p);
    free(program);
}

static void a_zero_byte_is_told_and_cuts_no_message(void **state) {
    (void)state;
    static const char input[] = "one\0two\nthree\n/tokens\n";
    char *path = chat_inside("zero"), *program = build_path("run");
    const char *argv[] = {program, chat_home.model, "-m", "chat", "-n", "3", NULL};
    Process p = process_run(argv, input, sizeof input - 1);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "zero byte"));
    assert_non_null(strstr(p.err, "2 messages")); /* "three" and its answer */
    process_free(&p);
    file_write(path, input, sizeof input - 1);
    p = RUN("run", chat_home.model, "-m", "chat", "-n", "3", "-f", path);
    PROCESS_SAYS(p, 1, "zero byte");
    free(path);
    free(program);
}

static void unknown_commands_and_bad_settings_are_told_and_change_nothing(void **state) {
    (void)state;
    Process p = TALK("/frobnicate\n/set temperature hot\n/set top-p 3\n/set tokens -1\n"
                     "/set seed 1.5\n/load /nonexistent\n"
                     "/save /nonexistent/x\n/save\n/undo\n/retry\n/tokens\n",
                     "--kv-type", "f32");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "run: 8 messages or commands failed: the reasons are above"));
    assert_non_null(strstr(p.err, "no command /frobnicate"));
    assert_non_null(strstr(p.err, "needs a number"));
    assert_non_null(strstr(p.err, "top-p must be from 0 to 1"));
    assert_non_null(strstr(p.err, "tokens must be"));
    assert_non_null(strstr(p.err, "seed must be a whole number"));
    assert_non_null(strstr(p.err, "/nonexistent: No such file"));
    assert_non_null(strstr(p.err, "/nonexistent/x"));
    assert_non_null(strstr(p.err, "/save needs a file's name"));
    assert_non_null(strstr(p.err, "nothing to take back"));
    assert_non_null(strstr(p.err, "no message to answer"));
    assert_non_null(strstr(p.err, "0 messages"));
    process_free(&p);
}

static void a_mistyped_setting_or_command_is_told_the_right_one(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"/set foo", "no setting 'foo': /set alone lists them\n"},
        {"/set temp 0.5", "no setting 'temp'; did you mean temperature?\n"},
        {"/set num_predict 5", "no setting 'num-predict'; did you mean tokens?\n"},
        {"/set repeat_penalty 2", "no setting 'repeat-penalty'; did you mean repetition-penalty?"},
        {"/set num_ctx 4096", "no setting 'num-ctx': the context is chosen at the start: -c N\n"},
        {"/set system be", "no setting 'system': /system TEXT sets the system prompt\n"},
        {"/hlep", "no command /hlep; did you mean /help?\n"},
        {"/model", "no command /model: a chat has one model; "},
        {"/temperature 0", "no command /temperature: /set temperature VALUE sets it\n"},
        {"/frobnicate now", "no command /frobnicate: /help lists them\n"},
        {"/set seed -1", "seed must be a whole number from 0 up\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *lines;
        assert_true(asprintf(&lines, "%s\n", cases[i].line) > 0);
        Process p = TALK(lines, "-n", "2");
        assert_int_equal(p.status, 1);
        if (!strstr(p.err, cases[i].says)) fail_msg("%s", p.err);
        process_free(&p);
        free(lines);
    }
    Process p = TALK("/set parameter temperature 0.25\n/set temperature\n/set reasoning\n/h\n/q\n"
                     "hello\n",
                     "-n", "2");
    assert_int_equal(p.status, 0);
    assert_int_equal(p.out_length, 0); /* /q left */
    assert_non_null(strstr(p.err, "temperature          0.25\nreasoning            auto\n/help "));
    process_free(&p);
}

static void a_session_is_not_erased_without_a_question(void **state) {
    (void)state;
    char *session = chat_inside("precious.jsonl");
    Process p =
        TALK("one\ntwo\n/reset\n/load LICENSE\n/tokens\n", "--session", session, "-y", "be");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "/reset would erase 4 messages of "));
    assert_non_null(strstr(p.err, "precious.jsonl; /reset yes does it"));
    assert_non_null(strstr(p.err, "/load would erase 4 messages of "));
    process_free(&p);
    chat_assert_said(session, "\"two\"");
    Person *who = SIT_DOWN("-n", "2", "--session", session);
    person_expect(who, "> ");
    person_type(who, "/reset\n");
    person_expect(who, "this erases 4 messages of ");
    person_expect(who, "erase them? [y/N] ");
    person_type(who, "\n");
    person_expect(who, "(nothing was erased)");
    person_expect(who, "\n> ");
    chat_assert_said(session, "\"two\"");
    person_type(who, "/reset\n");
    person_expect(who, "? [y/N] ");
    person_type(who, "y\n");
    person_expect(who, "(a new conversation)");
    assert_int_equal(person_leave(who), 0);
    p = TALK("one\n/reset yes\n/tokens\n", "--session", session);
    assert_int_equal(p.status, 0);
    process_free(&p);
    /* What no file keeps may be dropped. */
    p = TALK("one\n/reset\n/tokens\n", "--kv-type", "f32");
    PROCESS_SAYS(p, 0, " 0 messages");
    free(session);
}

static void exit_is_a_message_of_a_pipe(void **state) {
    (void)state;
    Process p = TALK("exit\n/tokens\n", "--kv-type", "f32");
    assert_non_null(strstr(p.err, " 2 messages"));
    process_free(&p);
}

static void lines_that_are_joined_to_a_command_are_not_lost(void **state) {
    (void)state;
    Process p = TALK("/set seed 7\\\nhello\\\n/tokens\n", "--kv-type", "f32");
    PROCESS_SAYS(p, 0, " 2 messages");
}

static void undo_takes_back_as_many_as_it_is_told(void **state) {
    (void)state;
    Process p = TALK("one\ntwo\nthree\n/undo 2\n/tokens\n", "--kv-type", "f32");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, "(taken back, and what followed: two)"));
    assert_non_null(strstr(p.err, " 2 messages"));
    process_free(&p);
    p = TALK("one\n/undo 5\n/undo many\n/stats now\n/tokens\n", "--kv-type", "f32");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "/undo 5: there is 1\n"));
    assert_non_null(strstr(p.err, "/undo takes a number of exchanges"));
    assert_non_null(strstr(p.err, "/stats takes no argument"));
    assert_non_null(strstr(p.err, " 2 messages"));
    process_free(&p);
}

/* `n` words, each of one token or more; malloc'ed. */
static char *long_text(size_t n) {
    char *text = malloc(3 * n + 1);
    for (size_t i = 0; i < n; i++) memcpy(text + 3 * i, "no ", 3);
    text[3 * n] = '\0';
    return text;
}

static void what_does_not_fit_is_counted_and_taken_back(void **state) {
    (void)state;
    char *text = long_text(600), *input = NULL, *session = chat_inside("too-long");
    assert_true(asprintf(&input, "%s\n/tokens\nhello\n/tokens\n", text) > 0);
    Process p = TALK(input, "--session", session);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "the message does not fit: "));
    assert_non_null(strstr(p.err, "but the context has 512; the conversation goes on without it"));
    assert_non_null(strstr(p.err, "512 tokens, 0 messages"));
    assert_non_null(strstr(p.err, "512 tokens, 2 messages"));
    assert_non_null(strstr(p.err, "run: 1 message or command failed: the reasons are above"));
    assert_null(strstr(p.err, "/retry"));
    process_free(&p);
    p = TALK("", "-i", text);
    assert_int_equal(p.status, 1);
    process_free(&p);
    p = TALK("\xFF\nhello\n", "--kv-type", "f32");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "UTF-8"));
    assert_true(p.out_length > 0);
    process_free(&p);
    free(text), free(input), free(session);
}

/* A larger -c let a message in that this context does not hold. */
/* A conversation that outgrows the context says so, also into a pipe. */
static void what_is_left_out_is_said_when_it_happens(void **state) {
    (void)state;
    char *text = long_text(80), *input = NULL;
    assert_true(asprintf(&input, "%s\n%s\n%s\n", text, text, text) > 0);
    Process p = TALK(input, "-n", "4");
    const char *said = strstr(p.err, "(the context is full: the oldest ");
    if (!said) fail_msg("%d: %s", p.status, p.err);
    assert_non_null(strstr(said, "left out)"));
    process_free(&p);
    free(text), free(input);
}

static void a_resumed_message_that_does_not_fit_is_counted(void **state) {
    (void)state;
    char *session = chat_inside("outgrown"), *text = long_text(600), *line = NULL;
    Process made = TALK("/quit\n", "--session", session);
    process_free(&made);
    FILE *file = fopen(session, "a");
    assert_non_null(file);
    assert_true(asprintf(&line, "{\"role\":\"user\",\"content\":\"%s\"}\n", text) > 0);
    assert_true(fputs(line, file) >= 0);
    fclose(file);
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    person_expect(p, "the message does not fit: ");
    person_expect(p, "(/undo"); /* a note ends its lines between words */
    person_expect(p, "> ");
    person_type(p, "/tokens\n");
    person_expect(p, "of 512 tokens, 1 message:");
    person_expect(p, " the last one does not fit");
    person_expect(p, "\n> ");
    person_type(p, "/undo\n");
    person_expect(p, "taken back");
    assert_int_equal(person_leave(p), 0);
    free(session), free(text), free(line);
}

static void a_message_that_does_not_fit_can_be_shortened_in_the_editor(void **state) {
    (void)state;
    char *session = chat_inside("shortened"), *editor = chat_inside("shortens"),
         *text = long_text(600);
    static const char script[] = "#!/bin/sh\ncut -c 1-20 \"$1\" > \"$1\".x && mv \"$1\".x \"$1\"\n";
    file_write(editor, script, sizeof script - 1);
    chmod(editor, 0700);
    setenv("EDITOR", editor, 1);
    unsetenv("VISUAL");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    person_expect(p, "> ");
    person_type(p, text);
    person_type(p, "\n");
    person_expect(p, "/edit opens it to be shortened");
    person_expect(p, "\n> ");
    person_type(p, "/edit\n");
    assert_int_equal(person_leave(p), 0);
    chat_assert_said(session, "\"no no no no no no no\"");
    free(session), free(editor), free(text);
}

static void a_conversation_is_saved_and_loaded(void **state) {
    (void)state;
    char *saved = chat_inside("saved.jsonl"), input[600];
    snprintf(input, sizeof input, "/system be kind\nhello\n/tokens\n/save %s\n", saved);
    mode_t mask = umask(022);
    Process p = TALK(input, "--kv-type", "f32");
    umask(mask);
    assert_int_equal(p.status, 0);
    /* All three count the same: the question and the answer. */
    assert_non_null(strstr(p.err, "tokens, 2 messages and the system prompt"));
    assert_non_null(strstr(p.err, "saved 2 messages and the system prompt to "));
    /* What was said is private, also where the user named the file. */
    struct stat info;
    assert_int_equal(stat(saved, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    snprintf(input, sizeof input, "/load %s\n/system\n/retry\n", saved);
    Process q = TALK(input, "--kv-type", "f32");
    assert_non_null(strstr(q.err, "loaded 2 messages and the system prompt from "));
    assert_non_null(strstr(q.err, "be kind"));
    process_free(&p);
    process_free(&q);
    free(saved);
}

/* The cache saves time only: the answer is given and kept. */
static void a_cache_that_cannot_be_kept_is_a_remark(void **state) {
    (void)state;
    char *program = program_command("run"), *session = chat_inside("nocache"), *command = NULL;
    assert_true(asprintf(&command,
                         "ulimit -f 1; printf 'a\nb\n' | %s %s -m chat -n 1 -t 0 --session %s; "
                         "echo status $?",
                         program, chat_home.model, session) > 0);
    Process p = RUN("/bin/bash", "-c", command);
    if (!strstr(p.out, "status 0") ||
        !strstr(p.err, ".kv: cannot write: File too large: the conversation is kept, and computed"))
        fail_msg("%s%s", p.out, p.err);
    assert_null(strstr(strstr(p.err, ".kv") + 1, ".kv")); /* once */
    process_free(&p);
    size_t length, lines = 0;
    char *text = file_read(session, &length);
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    assert_int_equal(lines, 5);
    free(text), free(program), free(session), free(command);
}

static void a_session_that_cannot_be_saved_is_an_error(void **state) {
    (void)state;
    char *program = program_command("run"), *session = chat_inside("short"), *command = NULL;
    /* A file may hold 1 KiB. */
    assert_true(asprintf(&command,
                         "ulimit -f 1; printf '%%3000d\\n/tokens\\n' 7 | "
                         "%s %s -m chat -n 3 --session %s",
                         program, chat_home.model, session) > 0);
    Process p = RUN("/bin/bash", "-c", command);
    if (p.status != 1 || !strstr(p.err, "short: not all of the conversation could be saved"))
        fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
    free(program), free(session), free(command);
}

static void a_session_of_another_model_is_refused(void **state) {
    (void)state;
    char *session = chat_inside("other"), *other = chat_inside("other.bin");
    Process made = RUN("export", "--random", "tiny,context=512,n_layers=2", other, "-q");
    Process p = TALK("hello\n", "--session", session);
    Process q = RUN("run", other, "-m", "chat", "--session", session, "-i", "x", "-n", "2");
    assert_int_equal(made.status + p.status, 0);
    assert_int_equal(q.status, 1);
    assert_non_null(strstr(q.err, "a conversation with another model"));
    process_free(&made);
    process_free(&p);
    process_free(&q);
    free(session);
    free(other);
}

static void a_damaged_session_keeps_what_can_be_read(void **state) {
    (void)state;
    char *session = chat_inside("damaged"), *aside = chat_inside("damaged.damaged");
    Process p = TALK("one\ntwo\nthree\n", "--session", session);
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t length;
    char *whole = file_read(session, &length);
    size_t second_line = (size_t)(strchr(whole, '\n') - whole) + 1;
    for (size_t at = second_line; at < length; at += 29) {
        /* Truncated at that byte, then with that byte changed. */
        char *broken = malloc(length + 1);
        memcpy(broken, whole, length + 1);
        file_write(session, broken, at);
        p = TALK("/tokens\n", "--session", session);
        assert_int_equal(p.status, 0);
        process_free(&p);
        unlink(aside); /* from the round before */
        broken[at] = '\001';
        file_write(session, broken, length);
        p = TALK("/tokens\n", "--session", session);
        PROCESS_SAYS(p, 0, "damaged");
        size_t kept_length;
        char *kept = file_read(aside, &kept_length);
        assert_int_equal(kept_length, length);
        assert_memory_equal(kept, broken, length);
        free(kept);
        free(broken);
        unlink(aside);
    }
    /* A second damaged file does not replace the first. */
    file_write(aside, "earlier", 7);
    file_write(session, whole, length - 1);
    p = TALK("/tokens\n", "--session", session);
    PROCESS_SAYS(p, 0, "damaged.damaged.2)");
    char *earlier = file_read(aside, &length);
    assert_string_equal(earlier, "earlier");
    free(earlier);
    free(whole);
    free(session);
    free(aside);
}

static void what_is_no_conversation_stays_where_it_is(void **state) {
    (void)state;
    char *notes = chat_inside("notes.txt");
    file_write(notes, "notes\n", 6);
    Process p = TALK("hello\n", "--session", notes);
    PROCESS_SAYS(p, 1, "notes.txt: not a conversation");
    size_t length;
    char *left = file_read(notes, &length);
    assert_string_equal(left, "notes\n");
    free(left);
    /* Lines and objects of JSON that are of another kind: requests, results, a receipt. */
    static const char *const others[] = {"{\"prompt\": \"the\"}\n",
                                         "{\"line\": 1, \"text\": \"a\"}\n",
                                         "{\n \"verbatim_receipt\": 2\n}\n"};
    char *kv = chat_inside("notes.txt.kv"), *aside = chat_inside("notes.txt.damaged");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        file_write(notes, others[i], strlen(others[i]));
        p = TALK("hello\n", "--session", notes);
        PROCESS_SAYS(p, 1, "notes.txt: not a conversation");
        left = file_read(notes, &length);
        assert_string_equal(left, others[i]);
        free(left);
        assert_int_not_equal(access(kv, F_OK), 0);
        assert_int_not_equal(access(aside, F_OK), 0);
    }
    free(kv);
    free(aside);
    free(notes);
}

/* The file beside a conversation is emptied when another model made it, but not a user's own. */
static void a_file_of_the_user_beside_a_conversation_is_left(void **state) {
    (void)state;
    char *session = chat_inside("mine"), *kv = chat_inside("mine.kv");
    static const char *const held[] = {"notes", "notes that are longer than the start of a file\n"};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        size_t length;
        file_write(kv, held[i], strlen(held[i]));
        unlink(session);
        Process p = TALK("hello\n", "--session", session);
        PROCESS_SAYS(p, 0, "mine.kv: not used: it holds something else");
        char *left = file_read(kv, &length);
        assert_string_equal(left, held[i]);
        free(left);
    }
    unlink(session), unlink(kv);
    free(session), free(kv);
}

/* Neither the disk nor the model has to be good for no trace to be left. */
static void a_conversation_that_could_not_begin_leaves_no_files(void **state) {
    (void)state;
    char *session = chat_inside("begun"), *kv = chat_inside("begun.kv"),
         *program = build_path("run");
    Process p;
#ifndef __clang__ /* its OpenMP library keeps a file of shared memory and ends without it */
    p = RUN("/bin/sh", "-c",
            "trap '' XFSZ; ulimit -f 0; exec \"$1\" \"$2\" -m chat -i hello --session \"$3\"", "sh",
            program, chat_home.model, session);
    PROCESS_SAYS(p, 1, "begun: cannot be written");
    assert_int_not_equal(access(session, F_OK), 0);
    assert_int_not_equal(access(kv, F_OK), 0);
#endif
    char *cut = chat_inside("cut.bin");
    file_write(cut, "verbatim", 8);
    p = RUN("run", cut, "-m", "chat", "-i", "hello", "--session", session);
    PROCESS_SAYS(p, 1, "cut.bin");
    assert_int_not_equal(access(session, F_OK), 0);
    assert_int_not_equal(access(kv, F_OK), 0);
    /* A file that was there stays, although it is empty. */
    file_write(session, "", 0);
    p = RUN("run", cut, "-m", "chat", "-i", "hello", "--session", session);
    PROCESS_SAYS(p, 1, "cut.bin");
    assert_int_equal(access(session, F_OK), 0);
    free(session), free(kv), free(program), free(cut);
}

static void a_directory_that_cannot_be_written_is_an_error_before_anything_is_said(void **state) {
    (void)state;
    Process p = TALK("hello\n", "--session", "/proc/verbatim-session");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "/proc/verbatim-session"));
    assert_int_equal(p.out_length, 0);
    process_free(&p);
}

static void a_symbolic_link_is_not_followed(void **state) {
    (void)state;
    char *session = chat_inside("link"), *target = chat_inside("target");
    assert_int_equal(symlink(target, session), 0);
    Process p = TALK("hello\n", "--session", session);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "symbolic link"));
    assert_int_not_equal(access(target, F_OK), 0);
    process_free(&p);
    free(session);
    free(target);
}

static void reasoning_that_the_template_does_not_know_is_said(void **state) {
    (void)state;
    static const char nothing[] = "knows no reasoning", effort[] = "reads no reasoning_effort";
    Process p = TALK("/set reasoning on\n/set reasoning-effort high\n", "--kv-type", "f32");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, nothing));
    assert_non_null(strstr(p.err, effort));
    process_free(&p);
    p = TALK("/tokens\n", "--reasoning", "on");
    assert_non_null(strstr(p.err, nothing));
    process_free(&p);
    char *path = chat_inside("thinks.jinja");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{% if enable_thinking %}<think>{% endif %}{{ messages[0].content }}", f);
    assert_int_equal(fclose(f), 0);
    p = TALK("/set reasoning on\n", "--chat-template", path);
    assert_int_equal(p.status, 0);
    assert_null(strstr(p.err, nothing));
    process_free(&p);
    free(path);
}

/* Says lines to a chat with a template whose prompts begin a reasoning. */
static Process talk_reasoning(const char *input, const char *marks) {
    char *path = chat_inside("reasoning.jinja"), text[256];
    int n = snprintf(text, sizeof text,
                     "{# </think> %s #}{%% for m in messages %%}{{ m.content }}{%% endfor %%}%s",
                     marks, strchr(marks, '|') ? "" : "<think>");
    file_write(path, text, (size_t)n);
    Process p = TALK(input, "--chat-template", path, "-n", "60", "--reasoning-budget", "5");
    free(path);
    return p;
}

/* The saved conversation has reasoning and answer apart, whatever marks the model writes. */
static void reasoning_ends_by_its_budget_and_is_kept_apart(void **state) {
    static const char *const marks[] = {"", "<|channel|> <|message|>"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *path = chat_inside("reasoning.jsonl"), input[512];
        snprintf(input, sizeof input,
                 "/set hide-reasoning on\nhello\n/set hide-reasoning off\n/save %s\n", path);
        unlink(path);
        Process p = talk_reasoning(input, marks[i]);
        assert_int_equal(p.status, 0);
        size_t n;
        char *saved = file_read(path, &n);
        if (i == 0) {
            assert_null(strstr(p.out, "think>"));
            assert_non_null(strstr(saved, "\"reasoning_content\":\""));
        }
        assert_null(strstr(p.out, "<|"));
        /* The prompt opens the reasoning; what closes it on the screen has been opened there. */
        Process shown = talk_reasoning("hello\n", marks[i]);
        char *close = strstr(shown.out, "</think>"), *open = strstr(shown.out, "<think>");
        assert_true(i > 0 || (open && close && open < close));
        process_free(&shown);
        assert_null(strstr(saved, "think>"));
        free(saved);
        process_free(&p);
        free(path);
    }
}

#define LIKE_QWEN_3_5 "tests/fixtures/chat_templates/parameters.jinja"

/* The messages of a chat with a model with states: two questions, each answered by "Fine." after
 * whatever reasoning there is. */
static json_t *messages_of_states(const char *of_states, const char *reasoning) {
    char *path = chat_inside("states.jsonl"), *program = build_path("run"), input[512];
    const char *const argv[] = {program,
                                of_states,
                                "-m",
                                "chat",
                                "-s",
                                "3",
                                "-n",
                                "40",
                                "--choice",
                                "Fine.",
                                "--reasoning",
                                reasoning,
                                "--reasoning-budget",
                                "5",
                                "--chat-template",
                                LIKE_QWEN_3_5,
                                NULL};
    size_t length;
    snprintf(input, sizeof input, "Hi\n And you? \n/save %s\n", path);
    unlink(path);
    Process p = process_run(argv, input, strlen(input));
    if (p.status != 0) fail_msg("%s", p.err);
    char *saved = file_read(path, &length);
    json_t *messages = json_array();
    for (const char *line = strchr(saved, '\n') + 1; *line; line = strchr(line, '\n') + 1)
        json_array_append_new(messages, json_loads(line, JSON_DISABLE_EOF_CHECK, NULL));
    free(saved);
    process_free(&p);
    free(program);
    free(path);
    return messages;
}

/* The next prompt holds the last answer's reasoning and nothing of the one before. */
static void a_model_with_states_thinks_as_qwen_3_5s_template_has_it(void **state) {
    (void)state;
    char *of_states = chat_inside("states.bin"), expected[1024];
    Process made = RUN("export", "--random",
                       "tiny,context=512,vocab_size=290,n_layers=4,attend=4,state_heads=4,"
                       "state_key_heads=2,state_key_dim=16,state_value_dim=16,state_kernel=4",
                       of_states, "-z", "tests/fixtures/marks_tokenizer.json", "-q");
    assert_int_equal(made.status, 0);
    process_free(&made);
    for (int thinks = 0; thinks < 2; thinks++) {
        const char *choice = thinks ? "on" : "off";
        json_t *messages = messages_of_states(of_states, choice);
        assert_int_equal(json_array_size(messages), 4);
        json_t *first = json_object_get(json_array_get(messages, 1), "reasoning_content");
        json_t *last = json_object_get(json_array_get(messages, 3), "reasoning_content");
        assert_int_equal(json_string_length(first) > 0, thinks);
        assert_int_equal(json_string_length(last) > 0, thinks);
        snprintf(expected, sizeof expected,
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nFine.<|im_end|>\n"
                 "<|im_start|>user\nAnd you?<|im_end|>\n<|im_start|>assistant\n"
                 "<think>\n%s\n</think>\n\nFine.<|im_end|>\n<|im_start|>assistant\n<think>\n%s",
                 thinks ? json_string_value(last) : "", thinks ? "" : "\n</think>\n\n");
        char *request = json_dumps(messages, 0);
        Process p = RUN("run", of_states, "--render", "-i", request, "--chat-template",
                        LIKE_QWEN_3_5, "--reasoning", choice);
        assert_string_equal(p.out, expected);
        process_free(&p);
        free(request);
        json_decref(messages);
    }
    free(of_states);
}

static void settings_of_reasoning_are_checked(void **state) {
    (void)state;
    Process p =
        talk_reasoning("/set reasoning maybe\n/set reasoning off\n/set reasoning-effort low\n"
                       "/set reasoning_budget 99999999999\n/set reasoning-budget off\n"
                       "/set hide-reasoning 1\n/set\n",
                       "");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "reasoning must be auto, on or off"));
    assert_non_null(strstr(p.err, "reasoning-budget must be a number of tokens, or off"));
    assert_non_null(strstr(p.err, "hide-reasoning must be on or off"));
    assert_non_null(strstr(p.err, "reasoning            off\n"));
    assert_non_null(strstr(p.err, "reasoning-effort     low\n"));
    assert_non_null(strstr(p.err, "reasoning-budget     off\n"));
    process_free(&p);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_that_the_template_does_not_know_is_said),
        cmocka_unit_test(reasoning_ends_by_its_budget_and_is_kept_apart),
        cmocka_unit_test(a_model_with_states_thinks_as_qwen_3_5s_template_has_it),
        cmocka_unit_test(settings_of_reasoning_are_checked),
        cmocka_unit_test(a_pipe_gives_a_message_a_line_and_gets_answers_alone),
        cmocka_unit_test(lines_of_a_pipe_may_end_with_cr_lf),
        cmocka_unit_test(a_session_may_have_a_byte_order_mark),
        cmocka_unit_test(a_single_turn_takes_all_of_stdin_as_one_message),
        cmocka_unit_test(a_template_is_a_file_and_not_the_name_of_a_form),
        cmocka_unit_test(load_looks_at_the_file_before_it_asks_what_may_be_erased),
        cmocka_unit_test(a_message_that_is_empty_is_refused),
        cmocka_unit_test(edit_through_a_pipe_opens_no_editor_that_waits_for_a_terminal),
        cmocka_unit_test(an_editor_takes_no_messages_of_a_pipe_and_writes_nothing_among_answers),
        cmocka_unit_test(a_line_without_an_end_can_be_stopped),
        cmocka_unit_test(answers_that_cannot_be_written_are_a_failure),
        cmocka_unit_test(a_zero_byte_is_told_and_cuts_no_message),
        cmocka_unit_test(unknown_commands_and_bad_settings_are_told_and_change_nothing),
        cmocka_unit_test(a_mistyped_setting_or_command_is_told_the_right_one),
        cmocka_unit_test(a_session_is_not_erased_without_a_question),
        cmocka_unit_test(exit_is_a_message_of_a_pipe),
        cmocka_unit_test(lines_that_are_joined_to_a_command_are_not_lost),
        cmocka_unit_test(undo_takes_back_as_many_as_it_is_told),
        cmocka_unit_test(what_does_not_fit_is_counted_and_taken_back),
        cmocka_unit_test(what_is_left_out_is_said_when_it_happens),
        cmocka_unit_test(a_resumed_message_that_does_not_fit_is_counted),
        cmocka_unit_test(a_message_that_does_not_fit_can_be_shortened_in_the_editor),
        cmocka_unit_test(a_conversation_is_saved_and_loaded),
        cmocka_unit_test(a_cache_that_cannot_be_kept_is_a_remark),
        cmocka_unit_test(a_session_that_cannot_be_saved_is_an_error),
        cmocka_unit_test(a_session_of_another_model_is_refused),
        cmocka_unit_test(a_damaged_session_keeps_what_can_be_read),
        cmocka_unit_test(what_is_no_conversation_stays_where_it_is),
        cmocka_unit_test(a_file_of_the_user_beside_a_conversation_is_left),
        cmocka_unit_test(a_conversation_that_could_not_begin_leaves_no_files),
        cmocka_unit_test(a_directory_that_cannot_be_written_is_an_error_before_anything_is_said),
        cmocka_unit_test(a_symbolic_link_is_not_followed),
    };
    return cmocka_run_group_tests_name("chat", tests, chat_home_make, chat_home_remove);
}
