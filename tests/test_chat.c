/* The chat as its users see it: in a pseudo-terminal and over pipes. */
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
#include <jansson.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "chat/word_wrap.h"
#include "process.h"

static char *model, *directory;

static int make_model(void **state) {
    (void)state;
    directory = build_path("tests/chat-XXXXXX");
    assert_non_null(mkdtemp(directory));
    /* The program ignores a relative $XDG_STATE_HOME and would use the tester's own history. */
    char *absolute = realpath(directory, NULL);
    assert_non_null(absolute);
    free(directory);
    directory = absolute;
    assert_true(asprintf(&model, "%s/tiny.bin", directory) > 0);
    Process p = RUN("export", "--random", "tiny,context=512,n_layers=1", model, "-q");
    assert_int_equal(p.status, 0);
    process_free(&p);
    return 0;
}

static int remove_model(void **state) {
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
    free(model);
    free(directory);
    return 0;
}

static char *inside(const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    return path;
}

/* ---- A person at a terminal ---------------------------------------------------------------- */

typedef struct Person {
    pid_t process;
    int terminal;
    char screen[1 << 16]; /* everything that was written so far */
    size_t length, seen;  /* bytes on the screen; bytes that `expect` has passed */
} Person;

/* Starts the program in a terminal of 80 x 24; `arguments` end in NULL. */
static Person *sit_down(const char *const *arguments) {
    Person *p = calloc(1, sizeof *p);
    struct winsize size = {24, 80, 0, 0};
    char *program = build_path("run");
    p->process = terminal_fork(&p->terminal, &size);
    if (p->process == 0) {
        const char *argv[32] = {program, model, "-m", "chat", "-s", "3"};
        size_t n = 6;
        while (*arguments) argv[n++] = *arguments++;
        setenv("TERM", "xterm", 1);
        signal(SIGHUP, SIG_DFL); /* ignored where the tests run under nohup */
        setenv("XDG_STATE_HOME", directory, 1);
        unsetenv("NO_COLOR");
        execv(program, (char *const *)argv);
        _exit(127);
    }
    free(program);
    return p;
}

#define SIT_DOWN(...) sit_down((const char *const[]){__VA_ARGS__, NULL})

/* Removes the control sequences that a terminal obeys without showing anything. */
static void hide_marks_of_pastes(Person *p) {
    static const char *const marks[] = {"\033[?2004h", "\033[?2004l"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(marks[i]);
        for (char *at = p->screen + p->seen; (at = strstr(at, marks[i])); p->length -= n)
            memmove(at, at + n, strlen(at + n) + 1);
    }
}

static bool read_more(Person *p, int milliseconds) {
    struct pollfd wait = {p->terminal, POLLIN, 0};
    if (poll(&wait, 1, milliseconds) != 1) return false;
    ssize_t n = read(p->terminal, p->screen + p->length, sizeof p->screen - 1 - p->length);
    if (n <= 0) return false;
    for (ssize_t i = 0; i < n; i++)
        if (p->screen[p->length + (size_t)i] == '\0') p->screen[p->length + (size_t)i] = ' ';
    p->length += (size_t)n;
    p->screen[p->length] = '\0';
    hide_marks_of_pastes(p);
    return true;
}

/* Counts the seconds that a test waits, without those in which the test itself was stopped (as on a
 * machine that is being measured). */
typedef struct Patience {
    time_t last;
    int seconds;
} Patience;

static bool patience_ends(Patience *patience) {
    time_t now = time(NULL);
    if (now != patience->last) patience->seconds++;
    patience->last = now;
    return patience->seconds > 60;
}

/* Waits until `text` appears after what was seen before. */
static void expect(Person *p, const char *text) {
    Patience patience = {0};
    const char *at;
    while (!(at = strstr(p->screen + p->seen, text))) {
        if (patience_ends(&patience) ||
            (!read_more(p, 1000) && waitpid(p->process, NULL, WNOHANG) != 0)) {
            print_message("screen: %s\n", p->screen + p->seen);
            fail_msg("'%s' did not appear", text);
        }
    }
    p->seen = (size_t)(at - p->screen) + strlen(text);
}

/* Waits until the screen no longer changes: what is redrawn after a key that clears the line, and
 * how, varies. */
static void wait_until_quiet(Person *p) {
    for (int i = 0; i < 10; i++) read_more(p, 100);
    p->seen = p->length;
}

/* Types the text in pieces, and reads the screen between them: a terminal's queues are short. */
static void type(Person *p, const char *text) {
    for (size_t length = strlen(text), n; length > 0; text += n, length -= n) {
        n = length < 256 ? length : 256;
        assert_int_equal(write(p->terminal, text, n), (ssize_t)n);
        while (length > n && read_more(p, 5)) {
        }
    }
}

/* Waits for the end of the program and returns its exit status. */
static int stand_up(Person *p) {
    int status = 0;
    Patience patience = {0};
    while (waitpid(p->process, &status, WNOHANG) == 0) {
        read_more(p, 50);
        if (patience_ends(&patience)) {
            kill(p->process, SIGKILL);
            print_message("screen: %s\n", p->screen + p->seen);
            fail_msg("the program did not end");
        }
    }
    read_more(p, 0);
    bool clean = (p->length > 0 && p->screen[p->length - 1] == '\n') || !WIFEXITED(status) ||
                 WEXITSTATUS(status) != 0;
    close(p->terminal);
    free(p);
    assert_true(clean); /* the shell's prompt must begin a line */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool ended(const Person *p) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)p->process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

/* Presses Ctrl-D at the prompt until the program ends: a key is lost when it is pressed while the
 * terminal changes its mode. */
static int leave(Person *p) {
    expect(p, "\n> ");
    for (int i = 0; i < 30 && !ended(p); i++) {
        type(p, "\004");
        for (int k = 0; k < 10; k++) read_more(p, 100);
    }
    return stand_up(p);
}

static void a_conversation_goes_back_and_forth_and_ctrl_d_leaves(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "5");
    expect(p, "/help lists the commands");
    expect(p, "> ");
    type(p, "hello\n");
    expect(p, "\n> ");
    type(p, "/tokens\n");
    expect(p, "tokens, 2 messages");
    assert_int_equal(leave(p), 0);
}

static void ctrl_c_clears_a_line_and_stops_an_answer(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "0", "--ignore-eos", "-c", "200000");
    expect(p, "> ");
    type(p, "half a line\003");
    wait_until_quiet(p);
    type(p, "go\n");
    expect(p, "go");
    usleep(300000);
    type(p, "\003");
    expect(p, "(interrupted)");
    expect(p, "\n> ");
    type(p, "/tokens\n");
    expect(p, "2 messages"); /* the conversation is kept */
    expect(p, "\n> ");
    type(p, "\003");
    wait_until_quiet(p);
    type(p, "/quit\n");
    assert_int_equal(stand_up(p), 0);
}

static void tab_completes_commands(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "5");
    expect(p, "> ");
    type(p, "/tok\t\n");
    expect(p, "0 messages");
    expect(p, "\n> ");
    type(p, "/s\t");
    expect(p, "/system");
    expect(p, "/stats");
    type(p, "\003");
    wait_until_quiet(p);
    type(p, "/stats\n");
    expect(p, "sandbox: ");
    expect(p, "\n> ");
    type(p, "/quit\n");
    assert_int_equal(stand_up(p), 0);
}

static void lines_join_by_backslash_quotes_and_pasting(void **state) {
    (void)state;
    char *session = inside("lines");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "one\\\n");
    expect(p, "... ");
    type(p, "two\n");
    expect(p, "\n> ");
    type(p, "\"\"\"\n");
    expect(p, "... ");
    type(p, "three\n");
    expect(p, "... ");
    type(p, "four\n");
    expect(p, "... ");
    type(p, "\"\"\"\n");
    expect(p, "\n> ");
    type(p, "five\nsix\n"); /* at once, like a paste */
    assert_int_equal(leave(p), 0);
    size_t length;
    char *text = file_read(session, &length);
    assert_non_null(strstr(text, "\"one\\ntwo\""));
    assert_non_null(strstr(text, "\"three\\nfour\""));
    assert_non_null(strstr(text, "\"five\\nsix\""));
    free(text);
    free(session);
}

static void pasted_code_keeps_its_tabs_and_a_path_is_no_command(void **state) {
    (void)state;
    char *session = inside("code");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "def f():\n\treturn 1\n\tpass\n");
    expect(p, "\n> ");
    type(p, "/usr/bin/env is a path\n");
    assert_int_equal(leave(p), 0);
    size_t length;
    char *text = file_read(session, &length);
    assert_non_null(strstr(text, "\"def f():\\n\\treturn 1\\n\\tpass\""));
    assert_non_null(strstr(text, "\"/usr/bin/env is a path\""));
    free(text);
    free(session);
}

static void assert_said(const char *session, const char *line) {
    size_t length;
    char *text = file_read(session, &length);
    if (!strstr(text, line)) fail_msg("no %s in %s", line, text);
    free(text);
}

static void ctrl_c_right_behind_enter_stops_the_answer(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "0", "--ignore-eos", "-c", "200000");
    expect(p, "> ");
    type(p, "go\n\003");
    expect(p, "(interrupted)");
    assert_int_equal(leave(p), 0);
}

static void a_paste_that_begins_with_a_command_is_taken_line_by_line(void **state) {
    (void)state;
    char *session = inside("commands");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "/set seed 7\n/set top-k 5\none\ntwo\n/set seed\n/reset\n");
    expect(p, "seed                 7");
    expect(p, "erase them? [y/N] "); /* a person answers this, not a line of the paste */
    type(p, "n\n");
    expect(p, "\n> ");
    type(p, "/system be\nbrief\n/set top-k\n/quit\nlost\n");
    expect(p, "top-k                5");
    assert_int_equal(stand_up(p), 0);
    assert_said(session, "\"one\\ntwo\"");
    assert_said(session, "\"be\\nbrief\"");
    free(session);
}

static void a_paste_of_many_lines_is_one_message(void **state) {
    (void)state;
    char *session = inside("pasted"), long_paste[9000] = "";
    Person *p = SIT_DOWN("-n", "2", "-c", "9000", "--session", session);
    expect(p, "> ");
    type(p, "one\ntwo\nthree\nfour\n"); /* a paste without bracketed paste */
    expect(p, "\n> ");
    type(p, "\033[200~five\tsix\rseven\reight\033[201~"); /* a bracketed paste */
    expect(p, "eight");
    type(p, "!\n"); /* the paste waits for Enter, and more can be typed */
    expect(p, "\n> ");
    /* This paste is longer than a terminal's queue. */
    strcpy(long_paste, "\033[200~");
    for (int i = 0; i < 600; i++) sprintf(long_paste + strlen(long_paste), "line %d\r", i);
    strcat(long_paste, "end\033[201~");
    type(p, long_paste);
    expect(p, "end");
    type(p, "\n");
    assert_int_equal(leave(p), 0);
    assert_said(session, "\"one\\ntwo\\nthree\\nfour\"");
    assert_said(session, "\"five\\tsix\\nseven\\neight!\"");
    assert_said(session, "\\nline 598\\nline 599\\nend");
    free(session);
}

static void letters_of_all_scripts_are_typed_and_taken_back(void **state) {
    (void)state;
    char *session = inside("letters");
    setenv("LC_ALL", "C", 1); /* text is UTF-8 in every locale */
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    unsetenv("LC_ALL");
    expect(p, "> ");
    type(p, "caf\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x99\x82x\177\177.\n");
    assert_int_equal(leave(p), 0);
    assert_said(session, "caf\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD .");
    free(session);
}

static void a_line_survives_a_change_of_the_window(void **state) {
    (void)state;
    char *session = inside("resized");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "half a ");
    expect(p, "half a ");
    struct winsize size = {10, 30, 0, 0};
    ioctl(p->terminal, TIOCSWINSZ, &size);
    expect(p, "> half a "); /* the line is drawn again */
    type(p, "line\n");
    assert_int_equal(leave(p), 0);
    assert_said(session, "\"half a line\"");
    free(session);
}

static void history_survives(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "2");
    expect(p, "> ");
    type(p, "/set temperature 0.125\n");
    assert_int_equal(leave(p), 0);
    p = SIT_DOWN("-n", "2");
    expect(p, "> ");
    type(p, "\033[A\n"); /* the up key */
    expect(p, "/set temperature 0.125");
    expect(p, "\n> ");
    type(p, "/set\n");
    expect(p, "temperature          0.125");
    assert_int_equal(leave(p), 0);
}

static void history_goes_through_no_link_of_another_user(void **state) {
    (void)state;
    enum { SOMEBODY = 65534 };
    if (geteuid() != 0) {
        print_message("only root can plant another user's link\n");
        skip();
    }
    char *history = inside("verbatim/history"), *victim = inside("precious"),
         *state_directory = inside("verbatim");
    for (int i = 0; i < 2; i++) { /* another user's link, then another user's directory */
        file_write(victim, "precious\n", 9);
        unlink(history);
        assert_int_equal(symlink(victim, history), 0);
        if (i == 0) assert_int_equal(lchown(history, SOMEBODY, SOMEBODY), 0);
        if (i == 1) assert_int_equal(chown(state_directory, SOMEBODY, SOMEBODY), 0);
        Person *p = SIT_DOWN("--no-sandbox", "-n", "2");
        expect(p, "> ");
        type(p, "/set temperature 0.25\n");
        assert_int_equal(leave(p), 0);
        size_t length;
        char *left = file_read(victim, &length);
        assert_string_equal(left, "precious\n");
        free(left);
    }
    assert_int_equal(chown(state_directory, 0, 0), 0);
    unlink(history);
    free(history);
    free(victim);
    free(state_directory);
}

static void the_editor_writes_a_message(void **state) {
    (void)state;
    char *session = inside("edited"), *editor = inside("editor");
    file_write(editor, "#!/bin/sh\necho 'from the editor' > \"$1\"\n", 39);
    chmod(editor, 0700);
    setenv("EDITOR", editor, 1);
    unsetenv("VISUAL");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "/edit\n");
    expect(p, "from the editor");
    assert_int_equal(leave(p), 0);
    size_t length;
    char *text = file_read(session, &length);
    assert_non_null(strstr(text, "\"from the editor\""));
    free(text);
    free(session);
    free(editor);
}

static void an_editor_that_is_left_without_writing_sends_nothing(void **state) {
    (void)state;
    char *session = inside("unwritten");
    setenv("EDITOR", "true", 1); /* leaves at once, as :q! does */
    unsetenv("VISUAL");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "/edit not to be sent\n");
    expect(p, "(nothing was written in the editor: no message)");
    assert_int_equal(leave(p), 0);
    setenv("EDITOR", "touch", 1); /* as :wq does */
    p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, "/edit to be sent\n");
    assert_int_equal(leave(p), 0);
    assert_said(session, "\"content\":\"to be sent\"");
    size_t length;
    char *text = file_read(session, &length);
    assert_null(strstr(text, "not to be"));
    free(text);
    free(session);
}

static void tab_completes_files_and_settings(void **state) {
    (void)state;
    char *home = inside("home"), *path = inside("home/a long name.jsonl");
    mkdir(home, 0700);
    setenv("HOME", home, 1);
    Person *p = SIT_DOWN("-n", "2");
    expect(p, "> ");
    type(p, "hello\n");
    expect(p, "\n> ");
    type(p, "/save \"~/a long name.jsonl\"\n"); /* quotes and ~ */
    expect(p, "(saved 2 messages to ");
    assert_int_equal(access(path, R_OK), 0);
    expect(p, "\n> ");
    type(p, "/load ~/a lo\t\n");
    expect(p, "(loaded 2 messages from ");
    expect(p, "\n> ");
    type(p, "/save ~/a short name\n");
    expect(p, "(saved 2");
    expect(p, "\n> ");
    type(p, "/load ~/\t\t"); /* "a ", then the list */
    expect(p, "a long name.jsonl  a short name");
    type(p, "\003");
    wait_until_quiet(p);
    type(p, "/set temp\t0.375\n");
    expect(p, "> ");
    type(p, "/set reasoning-\t");
    expect(p, "reasoning-effort  reasoning-budget");
    type(p, "\003");
    wait_until_quiet(p);
    type(p, "/set\n");
    expect(p, "temperature          0.375");
    assert_int_equal(leave(p), 0);
    free(home), free(path);
}

static void a_kill_loses_at_most_the_answer_in_progress(void **state) {
    (void)state;
    char *session = inside("killed");
    Person *p = SIT_DOWN("-n", "6", "--session", session);
    expect(p, "> ");
    type(p, "first\n");
    expect(p, "\n> ");
    kill(p->process, SIGKILL);
    assert_int_equal(stand_up(p), 128 + SIGKILL);
    /* After a kill during an answer the question is in the file, and is answered on resuming. */
    p = SIT_DOWN("-n", "0", "-c", "200000", "--ignore-eos", "--session", session);
    expect(p, "(2 messages so far)");
    expect(p, "> ");
    type(p, "second\n");
    expect(p, "second");
    usleep(300000);
    kill(p->process, SIGKILL);
    assert_int_equal(stand_up(p), 128 + SIGKILL);
    p = SIT_DOWN("-n", "6", "--session", session);
    expect(p, "/help lists the commands");
    expect(p, "(3 messages so far)");
    expect(p, "no answer yet: second");
    expect(p, "\n> ");
    type(p, "/tokens\n");
    expect(p, "tokens, 4 messages");
    assert_int_equal(leave(p), 0);
    free(session);
}

/* The settings of a terminal that no program has changed. */
static struct termios fresh_terminal(void) {
    struct termios settings;
    struct winsize size = {24, 80, 0, 0};
    int terminal;
    pid_t process = terminal_fork(&terminal, &size);
    if (process == 0) _exit(0);
    assert_int_equal(tcgetattr(terminal, &settings), 0);
    waitpid(process, NULL, 0);
    close(terminal);
    return settings;
}

static void a_signal_to_end_leaves_the_terminal_as_it_was(void **state) {
    static const int signals[] = {SIGTERM, SIGHUP};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct termios before, after;
        Person *p = SIT_DOWN("-n", i < 2 ? "6" : "0", "-c", "200000", "--ignore-eos");
        before = fresh_terminal();
        expect(p, "> ");
        if (i < 2) { /* at the prompt */
            type(p, "half a line");
            expect(p, "half a line");
        } else { /* in an answer */
            type(p, "hello\n");
            expect(p, "hello");
            usleep(200000);
        }
        kill(p->process, signals[i % 2]);
        Patience patience = {0};
        while (!ended(p) && !patience_ends(&patience)) read_more(p, 50);
        assert_int_equal(tcgetattr(p->terminal, &after), 0);
        assert_int_equal(after.c_lflag, before.c_lflag);
        assert_int_equal(after.c_iflag, before.c_iflag);
        assert_int_equal(stand_up(p), 130);
    }
}

static void ctrl_c_stops_the_reading_of_a_long_message(void **state) {
    (void)state;
    char *session = inside("long"), *text = malloc(200000);
    size_t n = (size_t)sprintf(text, "{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 9000; i++) n += (size_t)sprintf(text + n, "word and more. ");
    n += (size_t)sprintf(text + n, "\"}\n");
    file_write(session, text, n);
    Person *p = SIT_DOWN("-n", "2", "-c", "200000", "--session", session);
    expect(p, "its first line names no model");
    expect(p, "its messages (1) go on");
    expect(p, "(1 message so far)");
    expect(p, "reading the prompt [");
    type(p, "\003");
    expect(p, "\r\033[K\033[2m(interrupted)"); /* it replaces the progress line */
    expect(p, "\n> ");
    type(p, "/undo\n");
    expect(p, "(taken back: word and more.");
    expect(p, "...)");
    assert_true(p->length < sizeof p->screen / 2);
    assert_int_equal(leave(p), 0);
    free(text);
    free(session);
}

/* Keys typed one after another, each as some terminal sends it, and the line that they make. */
static void keys_of_every_terminal_move_and_insert_nothing(void **state) {
    (void)state;
    static const struct Typing {
        const char *keys, *line;
    } typings[] = {
        /* Ctrl-Left, Alt-Left, Alt-B (xterm, rxvt, an old xterm), then a letter before the word */
        {"one two\033[1;5DA", "one Atwo"},
        {"one two\033[1;3DA", "one Atwo"},
        {"one two\033ODA", "one twAo"},
        {"one two\033OdA", "one Atwo"},
        {"one two\033[5DA", "one Atwo"},
        {"one two\033\033[DA", "one Atwo"},
        {"one two\033bA", "one Atwo"},
        /* Ctrl-Right, Alt-Right, Alt-F */
        {"one two\001\033[1;5CA", "oneA two"},
        {"one two\001\033[1;3CA", "oneA two"},
        {"one two\001\033OcA", "oneA two"},
        {"one two\001\033fA", "oneA two"},
        /* Home and End: xterm, application mode, vt220, rxvt, with Ctrl */
        {"one\033[HA\033[FB", "AoneB"},
        {"one\033OHA\033OFB", "AoneB"},
        {"one\033[1~A\033[4~B", "AoneB"},
        {"one\033[7~A\033[8~B", "AoneB"},
        {"one\033[1;5HA\033[1;5FB", "AoneB"},
        /* Delete, Ctrl-Delete, Alt-D */
        {"one two\001\033[3~", "ne two"},
        {"one two\001\033[3;5~", " two"},
        {"one two\001\033[3^", " two"},
        {"one two\001\033d", " two"},
        /* Shift with an arrow; keys that do nothing: page down, F1, F5, Insert, Shift-Tab, focus */
        {"one\033[1;2DA", "onAe"},
        {"one\033[6~\033OP\033[15~\033[2~\033[Z\033[I\033[[B\033[27;5;9~\033[97;5uA", "oneA"},
        {"one\033OM", "one"},
    };
    char *session = inside("keys");
    Person *p = SIT_DOWN("-n", "1", "--session", session);
    for (size_t i = 0; i < sizeof typings / sizeof *typings; i++) {
        char line[64];
        expect(p, "> ");
        type(p, typings[i].keys);
        if (!strstr(typings[i].keys, "\033OM")) type(p, "\n");
        expect(p, "\n> ");
        p->seen -= 3;
        snprintf(line, sizeof line, "\"content\":\"%s\"}\n", typings[i].line);
        size_t length;
        char *text = file_read(session, &length), *last = text;
        for (char *at = text; (at = strstr(at, "\"user\"")); at++) last = at;
        if (!strstr(last, line)) fail_msg("%zu: no %s in %s", i, line, last);
        free(text);
    }
    assert_int_equal(leave(p), 0);
    free(session);
}

static void page_up_looks_for_what_the_line_begins_with(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "1");
    expect(p, "> ");
    type(p, "/set seed 77\n");
    expect(p, "\n> ");
    type(p, "/set tokens 3\n");
    expect(p, "\n> ");
    type(p, "/set seed 5\n");
    expect(p, "\n> ");
    type(p, "/set seed 7\033[5~\n");
    expect(p, "\n> ");
    type(p, "/set\n");
    expect(p, "seed                 77");
    assert_int_equal(leave(p), 0);
}

static void ctrl_z_stops_the_program_and_fg_goes_on(void **state) {
    (void)state;
    char *program = build_path("run");
    Person *p = calloc(1, sizeof *p);
    struct winsize size = {24, 80, 0, 0};
    p->process = terminal_fork(&p->terminal, &size);
    if (p->process == 0) {
        setenv("TERM", "xterm", 1);
        setenv("XDG_STATE_HOME", directory, 1);
        execl("/bin/bash", "bash", "-c",
              "set -m; \"$0\" \"$1\" -m chat -n 2; echo \"stopped with $?\"; fg >/dev/null",
              program, model, (char *)NULL);
        _exit(127);
    }
    expect(p, "> ");
    type(p, "half a line\032");
    expect(p, "stopped with 148");
    expect(p, "> half a line");
    type(p, "\n");
    assert_int_equal(leave(p), 0);
    free(program);
}

static void what_people_type_from_habit_works(void **state) {
    (void)state;
    static const char *const ways[] = {"exit\n", "quit\n", "/exit\n", "/bye\n"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        Person *p = SIT_DOWN("-n", "2");
        expect(p, "> ");
        if (i == 0) {
            type(p, "/?\n");
            expect(p, "another answer to the last message");
            expect(p, "\n> ");
            type(p, "/clear\n");
            expect(p, "(a new conversation)");
            expect(p, "\n> ");
        }
        type(p, ways[i]);
        assert_int_equal(stand_up(p), 0);
    }
}

static void a_cut_answer_and_a_repeated_one_are_told(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "3", "-t", "0", "--ignore-eos", "-y", "be kind");
    expect(p, "/help lists the commands");
    expect(p, "\n> ");
    assert_null(strstr(p->screen, "so far")); /* the system prompt is no message */
    type(p, "hello\n");
    expect(p, "(cut after 3 tokens, as -n says: /set tokens N changes it)");
    expect(p, "\n> ");
    type(p, "/retry\n");
    expect(p, "(at temperature 0 the same message gets the same answer");
    expect(p, "(cut after 3 tokens");
    expect(p, "\n> ");
    type(p, "/tokens\n");
    expect(p, "tokens, 2 messages");
    expect(p, "\n> ");
    type(p, "/set tokens 0\n");
    expect(p, "\n> ");
    type(p, "again\n");
    expect(p, "(cut: the context of 512 tokens is full)");
    assert_int_equal(leave(p), 0);
}

static void a_message_of_one_chunk_shows_that_it_is_read(void **state) {
    (void)state;
    char text[400] = "";
    for (int i = 0; i < 120; i++) strcat(text, "no ");
    Person *p = SIT_DOWN("-n", "2");
    expect(p, "> ");
    type(p, strcat(text, "\n"));
    expect(p, "reading the prompt [...");
    expect(p, "\r\033[K"); /* and makes room for the answer */
    assert_int_equal(leave(p), 0);
}

static void what_is_typed_ahead_stays_out_of_the_answer(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "900", "--ignore-eos", "-c", "200000");
    expect(p, "> ");
    type(p, "go\n");
    expect(p, "go\r\n");
    expect(p, " "); /* of the answer */
    type(p, "ahead of time");
    expect(p, "(cut after 900 tokens");
    char *end = strstr(p->screen, "(cut after");
    *end = '\0';
    assert_null(strstr(p->screen, "ahead"));
    *end = '(';
    expect(p, "> ahead of time");
    type(p, "\003");
    assert_int_equal(leave(p), 0);
}

static void ctrl_z_in_an_answer_leaves_a_terminal_that_echoes(void **state) {
    (void)state;
    char *program = build_path("run");
    Person *p = calloc(1, sizeof *p);
    struct winsize size = {24, 80, 0, 0};
    p->process = terminal_fork(&p->terminal, &size);
    if (p->process == 0) {
        setenv("TERM", "xterm", 1);
        setenv("XDG_STATE_HOME", directory, 1);
        execl(
            "/bin/bash", "bash", "-c",
            "set -m; \"$0\" \"$1\" -m chat -n 0 --ignore-eos -c 200000; echo \"stopped with $?\"; "
            "stty -a | grep -q -- -echo' ' && echo silent || echo loud; fg >/dev/null",
            program, model, (char *)NULL);
        _exit(127);
    }
    expect(p, "> ");
    type(p, "go\n");
    expect(p, "go\r\n");
    expect(p, " ");
    type(p, "\032");
    expect(p, "stopped with 148");
    expect(p, "loud\r\n");
    expect(p, " "); /* the answer goes on: Ctrl-C is no longer the shell's */
    type(p, "\003");
    expect(p, "(interrupted)");
    assert_int_equal(leave(p), 0);
    free(program);
}

static void an_answer_survives_a_change_of_the_window(void **state) {
    (void)state;
    Person *p = SIT_DOWN("-n", "0", "--ignore-eos", "-c", "200000");
    expect(p, "> ");
    type(p, "go\n");
    expect(p, "go");
    struct winsize size = {10, 30, 0, 0};
    ioctl(p->terminal, TIOCSWINSZ, &size);
    usleep(200000);
    type(p, "\003");
    expect(p, "(interrupted)");
    assert_int_equal(leave(p), 0);
}

static const struct Wrapping {
    const char *text, *lines;
} wrappings[] = {
    {"the quick brown fox jumps over the dog\nnext",
     "the quick brown fox\njumps over the dog\nnext"},
    {"twenty columns, here them all", "twenty columns, here\nthem all"},
    {"two  blanks  at the end  ", "two  blanks  at the\nend  "},
    {"a verylongwordwithoutanyplacetobreakit b", "a verylongwordwithoutanyplacetobreakit b"},
    {"- an item of a list, long\n    - and one in it, long, too",
     "- an item of a list,\nlong\n    - and one in it,\nlong, too"},
    {"```c\nint a_long_line_of_code = 1; // keep\n```\nwords that are wrapped again",
     "```c\nint a_long_line_of_code = 1; // keep\n```\nwords that are\nwrapped again"},
    {"~~~\n``` is no end of this fence here\n~~~\n",
     "~~~\n``` is no end of this fence here\n~~~\n"},
    {"\tindented code with many words in it", "\tindented code with many words in it"},
    {"| a row | of a table | that is wide |", "| a row | of a table | that is wide |"},
    {"\xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 x",
     "\xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9 "
     "\xC3\xA9t\xC3\xA9\nx"},
    /* Characters of two columns each, which need no blank between them. */
    {"\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0\xE5\xA5\xBD"
     "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0",
     "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0\xE5\xA5\xBD"
     "\xE4\xBD\xA0\xE5\xA5\xBD\xE4\xBD\xA0\xE5\xA5\xBD\n\xE4\xBD\xA0"},
};

/* At 20 columns, in pieces of any size. Without a margin nothing changes. */
static void lines_end_between_words_and_code_stays_as_it_is(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrappings / sizeof *wrappings; i++) {
        const char *text = wrappings[i].text;
        size_t length = strlen(text);
        for (size_t piece = 1; piece <= 2 * length; piece++) {
            size_t columns = piece > length ? 0 : 20, n;
            const char *lines = columns ? wrappings[i].lines : text;
            WordWrap wrap = {0};
            TextBuffer out = {0};
            for (size_t at = 0; at < length; at += n) {
                n = length - at < piece ? length - at : piece;
                word_wrap_put(&wrap, text + at, n, columns, &out);
            }
            word_wrap_flush(&wrap, columns, &out);
            text_put(&out, "", 1, 0);
            assert_string_equal(out.bytes, lines);
            text_free(&out);
            word_wrap_free(&wrap);
        }
    }
}

static void an_answer_breaks_no_word_at_the_margin(void **state) {
    (void)state;
    static const char answer[] = "the answer of many words goes on and on until it comes to the "
                                 "margin of the terminal, where it goes on in the next line";
    Person *p = SIT_DOWN("--choice", answer);
    expect(p, "> ");
    type(p, "hello\n");
    expect(p, "the margin of the\r\nterminal, where it goes on in the next line\r\n");
    p->seen -= 2;
    assert_int_equal(leave(p), 0);
    Process whole = RUN("run", model, "-m", "chat", "-i", "hello", "--choice", answer);
    assert_memory_equal(whole.out, answer, strlen(answer));
    process_free(&whole);
}

/* ---- Pipes --------------------------------------------------------------------------------- */

static Process talk(const char *input, const char *const *more) {
    char *program = build_path("run");
    const char *argv[32] = {program, model, "-m", "chat", "-s", "3", "-n", "6"};
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
}

/* Ctrl-C stops a line without an end, unless its length does so first. */
static void a_line_without_an_end_can_be_stopped(void **state) {
    (void)state;
    char *program = build_path("run");
    Process p = RUN("/bin/sh", "-c",
                    "timeout --preserve-status -s INT -k 30 1 \"$1\" \"$2\" -m chat </dev/zero",
                    "sh", program, model);
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
            "sh", program, model);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "run: stdout: cannot be written: No space left on device\n"));
    process_free(&p);
    p = RUN("/bin/bash", "-c",
            "yes | \"$1\" \"$2\" -m chat -s 5 -n 6 | head -c 1 >/dev/null; exit ${PIPESTATUS[1]}",
            "sh", program, model);
    assert_int_equal(p.status, 0); /* a reader that closes the pipe is no error */
    process_free(&p);
    free(program);
}

static void a_zero_byte_is_told_and_cuts_no_message(void **state) {
    (void)state;
    static const char input[] = "one\0two\nthree\n/tokens\n";
    char *path = inside("zero"), *program = build_path("run");
    const char *argv[] = {program, model, "-m", "chat", "-n", "3", NULL};
    Process p = process_run(argv, input, sizeof input - 1);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "zero byte"));
    assert_non_null(strstr(p.err, "2 messages")); /* "three" and its answer */
    process_free(&p);
    file_write(path, input, sizeof input - 1);
    p = RUN("run", model, "-m", "chat", "-n", "3", "-f", path);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "zero byte"));
    process_free(&p);
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
    char *session = inside("precious.jsonl");
    Process p = TALK("one\ntwo\n/reset\n/load x\n/tokens\n", "--session", session, "-y", "be");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "/reset would erase 4 messages of "));
    assert_non_null(strstr(p.err, "precious.jsonl; /reset yes does it"));
    assert_non_null(strstr(p.err, "/load would erase 4 messages of "));
    process_free(&p);
    assert_said(session, "\"two\"");
    Person *who = SIT_DOWN("-n", "2", "--session", session);
    expect(who, "> ");
    type(who, "/reset\n");
    expect(who, "this erases 4 messages of ");
    expect(who, "erase them? [y/N] ");
    type(who, "\n");
    expect(who, "(nothing was erased)");
    expect(who, "\n> ");
    assert_said(session, "\"two\"");
    type(who, "/reset\n");
    expect(who, "? [y/N] ");
    type(who, "y\n");
    expect(who, "(a new conversation)");
    assert_int_equal(leave(who), 0);
    p = TALK("one\n/reset yes\n/tokens\n", "--session", session);
    assert_int_equal(p.status, 0);
    process_free(&p);
    /* What no file keeps may be dropped. */
    p = TALK("one\n/reset\n/tokens\n", "--kv-type", "f32");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, " 0 messages"));
    process_free(&p);
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
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, " 2 messages"));
    process_free(&p);
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
    char *text = long_text(600), *input = NULL, *session = inside("too-long");
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
static void a_resumed_message_that_does_not_fit_is_counted(void **state) {
    (void)state;
    char *session = inside("outgrown"), *text = long_text(600), *line = NULL;
    Process made = TALK("/quit\n", "--session", session);
    process_free(&made);
    FILE *file = fopen(session, "a");
    assert_non_null(file);
    assert_true(asprintf(&line, "{\"role\":\"user\",\"content\":\"%s\"}\n", text) > 0);
    assert_true(fputs(line, file) >= 0);
    fclose(file);
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "the message does not fit: ");
    expect(p, "(/undo takes it back)");
    expect(p, "> ");
    type(p, "/tokens\n");
    expect(p, "of 512 tokens, 1 message:");
    expect(p, " the last one does not fit");
    expect(p, "\n> ");
    type(p, "/undo\n");
    expect(p, "taken back");
    assert_int_equal(leave(p), 0);
    free(session), free(text), free(line);
}

static void a_message_that_does_not_fit_can_be_shortened_in_the_editor(void **state) {
    (void)state;
    char *session = inside("shortened"), *editor = inside("shortens"), *text = long_text(600);
    static const char script[] = "#!/bin/sh\ncut -c 1-20 \"$1\" > \"$1\".x && mv \"$1\".x \"$1\"\n";
    file_write(editor, script, sizeof script - 1);
    chmod(editor, 0700);
    setenv("EDITOR", editor, 1);
    unsetenv("VISUAL");
    Person *p = SIT_DOWN("-n", "2", "--session", session);
    expect(p, "> ");
    type(p, text);
    type(p, "\n");
    expect(p, "/edit opens it to be shortened");
    expect(p, "\n> ");
    type(p, "/edit\n");
    assert_int_equal(leave(p), 0);
    assert_said(session, "\"no no no no no no no\"");
    free(session), free(editor), free(text);
}

static void a_conversation_is_saved_and_loaded(void **state) {
    (void)state;
    char *saved = inside("saved.jsonl"), input[600];
    snprintf(input, sizeof input, "/system be kind\nhello\n/save %s\n", saved);
    Process p = TALK(input, "--kv-type", "f32");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, "saved 3 messages"));
    snprintf(input, sizeof input, "/load %s\n/system\n/retry\n", saved);
    Process q = TALK(input, "--kv-type", "f32");
    assert_non_null(strstr(q.err, "loaded 3 messages"));
    assert_non_null(strstr(q.err, "be kind"));
    process_free(&p);
    process_free(&q);
    free(saved);
}

static void a_session_that_cannot_be_saved_is_an_error(void **state) {
    (void)state;
    char *program = program_command("run"), *session = inside("short"), *command = NULL;
    /* A file may hold 1 KiB. */
    assert_true(asprintf(&command,
                         "ulimit -f 1; printf '%%3000d\\n/tokens\\n' 7 | "
                         "%s %s -m chat -n 3 --session %s",
                         program, model, session) > 0);
    Process p = RUN("/bin/bash", "-c", command);
    if (p.status != 1 || !strstr(p.err, "short: not all of the conversation could be saved"))
        fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
    free(program), free(session), free(command);
}

static void a_session_of_another_model_is_refused(void **state) {
    (void)state;
    char *session = inside("other"), *other = inside("other.bin");
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
    char *session = inside("damaged"), *aside = inside("damaged.damaged");
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
        assert_int_equal(p.status, 0);
        assert_non_null(strstr(p.err, "damaged"));
        process_free(&p);
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
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, "damaged.damaged.2)"));
    process_free(&p);
    char *earlier = file_read(aside, &length);
    assert_string_equal(earlier, "earlier");
    free(earlier);
    free(whole);
    free(session);
    free(aside);
}

static void what_is_no_conversation_stays_where_it_is(void **state) {
    (void)state;
    char *notes = inside("notes.txt");
    file_write(notes, "notes\n", 6);
    Process p = TALK("hello\n", "--session", notes);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "notes.txt: not a conversation"));
    process_free(&p);
    size_t length;
    char *left = file_read(notes, &length);
    assert_string_equal(left, "notes\n");
    free(left);
    free(notes);
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
    char *session = inside("link"), *target = inside("target");
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
    char *path = inside("thinks.jinja");
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
    char *path = inside("reasoning.jinja"), text[256];
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
        char *path = inside("reasoning.jsonl"), input[512];
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
        assert_null(strstr(saved, "think>"));
        free(saved);
        process_free(&p);
        free(path);
    }
}

#define LIKE_QWEN_3_5 "tests/fixtures/chat_templates/parameters.jinja"

/* The messages of a chat with a model with states: two questions, each answered by "Fine." behind
 * whatever reasoning there is. */
static json_t *messages_of_states(const char *of_states, const char *reasoning) {
    char *path = inside("states.jsonl"), *program = build_path("run"), input[512];
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
    char *of_states = inside("states.bin"), expected[1024];
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_that_the_template_does_not_know_is_said),
        cmocka_unit_test(reasoning_ends_by_its_budget_and_is_kept_apart),
        cmocka_unit_test(a_model_with_states_thinks_as_qwen_3_5s_template_has_it),
        cmocka_unit_test(settings_of_reasoning_are_checked),
        cmocka_unit_test(a_conversation_goes_back_and_forth_and_ctrl_d_leaves),
        cmocka_unit_test(ctrl_c_clears_a_line_and_stops_an_answer),
        cmocka_unit_test(tab_completes_commands),
        cmocka_unit_test(lines_join_by_backslash_quotes_and_pasting),
        cmocka_unit_test(pasted_code_keeps_its_tabs_and_a_path_is_no_command),
        cmocka_unit_test(ctrl_c_right_behind_enter_stops_the_answer),
        cmocka_unit_test(a_paste_that_begins_with_a_command_is_taken_line_by_line),
        cmocka_unit_test(a_paste_of_many_lines_is_one_message),
        cmocka_unit_test(letters_of_all_scripts_are_typed_and_taken_back),
        cmocka_unit_test(a_line_survives_a_change_of_the_window),
        cmocka_unit_test(history_survives),
        cmocka_unit_test(history_goes_through_no_link_of_another_user),
        cmocka_unit_test(the_editor_writes_a_message),
        cmocka_unit_test(an_editor_that_is_left_without_writing_sends_nothing),
        cmocka_unit_test(tab_completes_files_and_settings),
        cmocka_unit_test(a_kill_loses_at_most_the_answer_in_progress),
        cmocka_unit_test(a_signal_to_end_leaves_the_terminal_as_it_was),
        cmocka_unit_test(ctrl_c_stops_the_reading_of_a_long_message),
        cmocka_unit_test(keys_of_every_terminal_move_and_insert_nothing),
        cmocka_unit_test(page_up_looks_for_what_the_line_begins_with),
        cmocka_unit_test(ctrl_z_stops_the_program_and_fg_goes_on),
        cmocka_unit_test(what_people_type_from_habit_works),
        cmocka_unit_test(a_cut_answer_and_a_repeated_one_are_told),
        cmocka_unit_test(lines_end_between_words_and_code_stays_as_it_is),
        cmocka_unit_test(an_answer_breaks_no_word_at_the_margin),
        cmocka_unit_test(a_message_of_one_chunk_shows_that_it_is_read),
        cmocka_unit_test(what_is_typed_ahead_stays_out_of_the_answer),
        cmocka_unit_test(ctrl_z_in_an_answer_leaves_a_terminal_that_echoes),
        cmocka_unit_test(an_answer_survives_a_change_of_the_window),
        cmocka_unit_test(a_pipe_gives_a_message_a_line_and_gets_answers_alone),
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
        cmocka_unit_test(a_resumed_message_that_does_not_fit_is_counted),
        cmocka_unit_test(a_message_that_does_not_fit_can_be_shortened_in_the_editor),
        cmocka_unit_test(a_conversation_is_saved_and_loaded),
        cmocka_unit_test(a_session_that_cannot_be_saved_is_an_error),
        cmocka_unit_test(a_session_of_another_model_is_refused),
        cmocka_unit_test(a_damaged_session_keeps_what_can_be_read),
        cmocka_unit_test(what_is_no_conversation_stays_where_it_is),
        cmocka_unit_test(a_directory_that_cannot_be_written_is_an_error_before_anything_is_said),
        cmocka_unit_test(a_symbolic_link_is_not_followed),
    };
    return cmocka_run_group_tests_name("chat", tests, make_model, remove_model);
}
