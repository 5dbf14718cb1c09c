/* Untrusted text cannot steer a terminal, and files are private to the user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dirent.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/shown_text.h"
#include "fixture.h"
#include "process.h"
#include "small_model.h"
#include "system/terminal.h"

/* An operating system command that sets the title, a colour, a C1 control, DEL, two controls of
 * writing directions. */
#define HOSTILE                                                                                    \
    "a\033]0;title\007b\033[31mc\xC2\x9B"                                                          \
    "d\x7F"                                                                                        \
    "e\xE2\x80\xAE"                                                                                \
    "f\xE2\x81\xA6"
#define HARMLESS "a^[]0;title^Gb^[[31mc^[[d^?e<U+202E>f<U+2066>"

static char *directory, *model;

static int set_up(void **state) {
    (void)state;
    directory = fixture_directory();
    char *made = small_model(directory, NULL);
    /* The name of the file is hostile as well. */
    model = fixture_path(directory, HOSTILE);
    assert_int_equal(rename(made, model), 0);
    free(made);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(model);
    fixture_remove_directory(directory);
    return 0;
}

/* All that `run` shows on a terminal of this size (NULL: any), where these keys were typed (NULL:
 * none). */
static char *screen_of(const struct winsize *size, const char *const *arguments, const char *keys,
                       int expected) {
    char *program = build_path("run"), *text = calloc(1, 1 << 16);
    int terminal, status;
    size_t length = 0;
    ssize_t n;
    pid_t child = terminal_fork(&terminal, size);
    if (child == 0) {
        const char *argv[32] = {program};
        size_t count = 1;
        while (*arguments) argv[count++] = *arguments++;
        execv(program, (char *const *)argv);
        _exit(127);
    }
    if (keys) assert_int_equal(write(terminal, keys, strlen(keys)), strlen(keys));
    while ((n = read(terminal, text + length, (1 << 16) - 1 - length)) > 0) length += (size_t)n;
    close(terminal);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) fail_msg("%s", text);
    free(program);
    /* Only the program's own progress line moves the cursor. */
    for (char *at; (at = strstr(text, "\r\033[K"));) memmove(at, at + 4, strlen(at + 4) + 1);
    return text;
}

static char *screen(const char *const *arguments, const char *keys, int expected) {
    return screen_of(NULL, arguments, keys, expected);
}

#define SCREEN(status, ...) screen((const char *const[]){__VA_ARGS__, NULL}, NULL, status)
#define TYPED(keys, ...) screen((const char *const[]){__VA_ARGS__, NULL}, keys, 0)

static void assert_harmless(char *text) {
    if (!strstr(text, HARMLESS) || strchr(text, '\033') || strchr(text, '\007') ||
        strstr(text, "\xC2\x9B"))
        fail_msg("shown: %s", text);
    free(text);
}

static void text_on_a_terminal_has_no_controls(void **state) {
    (void)state;
    assert_harmless(SCREEN(0, model, "-i", HOSTILE, "--echo", "-n", "2", "-s", "1"));
    assert_harmless(SCREEN(0, model, "-i", HOSTILE, "--echo", "-n", "2", "--stats"));
}

/* A line that the margin would cut ends before the word; the text is otherwise that of a pipe. */
static void a_text_breaks_no_word_at_the_margin(void **state) {
    (void)state;
    enum { COLUMNS = 40 };
    const struct winsize size = {.ws_row = 24, .ws_col = COLUMNS};
    static const char *const how[] = {
        "models/stories.bin", "-i", "Once", "--echo", "-s", "5", "-n", "60", NULL};
    char *shown = screen_of(&size, how, NULL, 0);
    Process p = RUN("run", how[0], how[1], how[2], how[3], how[4], how[5], how[6], how[7]);
    assert_int_equal(p.status, 0);
    size_t n_lines = 0;
    for (char *at = shown; (at = strstr(at, "\r\n")); n_lines++) memmove(at, at + 1, strlen(at));
    assert_true(n_lines > p.out_length / COLUMNS);
    char *lines = strdup(shown);
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= COLUMNS);
    assert_int_equal(strlen(shown), p.out_length);
    for (size_t i = 0; i < p.out_length; i++)
        assert_true(shown[i] == p.out[i] || (shown[i] == '\n' && p.out[i] == ' '));
    free(lines);
    free(shown);
    process_free(&p);
}

/* What a terminal shows of a long text that is stopped in the middle of a line, by Ctrl-C or, where
 * `late`, by the clock that ends a program which does not stop. */
static void assert_line_ends(bool late) {
    char *program = build_path("run"), text[1 << 14] = "";
    int terminal, status;
    size_t length = 0;
    ssize_t n;
    pid_t child = terminal_fork(&terminal, NULL);
    if (child == 0) {
        execl(program, program, "models/stories.bin", "-i", "Once upon a time", "-c", "100000",
              "-n", "0", "--ignore-eos", NULL);
        _exit(127);
    }
    while (length < 100 && (n = read(terminal, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)n;
    if (late)
        assert_int_equal(kill(child, SIGALRM), 0);
    else
        assert_int_equal(write(terminal, "\003", 1), 1);
    while (length < sizeof text - 1 &&
           (n = read(terminal, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)n;
    close(terminal);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    if (!strstr(text, "\nrun: interrupted\r\n")) fail_msg("%s", text);
    free(program);
}

static void an_interrupted_text_ends_its_line(void **state) {
    (void)state;
    assert_line_ends(false);
    assert_line_ends(true);
}

static void names_of_files_in_lists_and_errors_have_no_controls(void **state) {
    (void)state;
    assert_harmless(SCREEN(0, model, "--info"));
    assert_harmless(SCREEN(0, model, "--verify"));
    assert_harmless(SCREEN(1, "/nowhere/" HOSTILE));
    assert_harmless(SCREEN(1, model, "-f", "/nowhere/" HOSTILE));
    assert_harmless(SCREEN(2, model, "--" HOSTILE));
    assert_harmless(SCREEN(0, "--cache-list", "--cache-dir", "/nowhere/" HOSTILE));
}

static void an_error_is_one_line_whatever_the_name_holds(void **state) {
    (void)state;
    Process p = RUN("run", "/nowhere/a\nb");
    assert_int_equal(p.status, 1);
    assert_ptr_equal(strchr(p.err, '\n'), p.err + p.err_length - 1);
    process_free(&p);
    p = RUN("export", "/nowhere/a\nb", "/nowhere/c\nd");
    assert_int_equal(p.status, 1);
    assert_ptr_equal(strchr(p.err, '\n'), p.err + p.err_length - 1);
    process_free(&p);
}

/* Results are progress enough, and begin their lines, where they go to the terminal themselves. */
static void results_on_a_terminal_stand_alone(void **state) {
    (void)state;
    const struct winsize wide = {.ws_row = 24, .ws_col = 1000};
    char *line = fixture_path(directory, "requests.jsonl");
    static const char requests[] = "{\"prompt\": \"a\", \"max_tokens\": 2}\n"
                                   "{\"prompt\": \"b\", \"max_tokens\": 9}\n";
    file_write(line, requests, sizeof requests - 1);
    char *shown = screen_of(&wide, (const char *const[]){model, "--batch", line, NULL}, NULL, 0);
    if (strncmp(shown, "{\"line\": 1", 10) != 0 || strstr(shown, "tokens/s"))
        fail_msg("shown: %s", shown);
    unlink(line);
    free(line);
    free(shown);
}

/* A line of progress that went on below could not be drawn over. */
static void progress_stays_on_one_line_of_a_narrow_terminal(void **state) {
    (void)state;
    const struct winsize narrow = {.ws_row = 24, .ws_col = 30};
    char *input = fixture_path(directory, "requests.jsonl"),
         *output = fixture_path(directory, "results.jsonl");
    static const char request[] = "{\"prompt\": \"a\", \"max_tokens\": 2}\n";
    file_write(input, request, sizeof request - 1);
    char *shown = screen_of(
        &narrow, (const char *const[]){model, "--batch", input, "-o", output, NULL}, NULL, 0);
    if (strncmp(shown, "0 of 1, tokens/s", 16) != 0 || strstr(shown, "decode"))
        fail_msg("shown: %s", shown);
    unlink(input);
    unlink(output);
    free(input);
    free(output);
    free(shown);
}

static void the_remark_on_the_model_ends_its_lines_between_words(void **state) {
    (void)state;
    const struct winsize narrow = {.ws_row = 24, .ws_col = 40};
    char *shown = screen_of(&narrow, (const char *const[]){"-i", "Once", "-n", "1", NULL}, NULL, 0);
    if (!strstr(shown, "so the story\r\nmodel runs (--help)")) fail_msg("shown: %s", shown);
    free(shown);
}

/* What a shell shows at a terminal; "$0" is the program, "$1" the model, "$2" the tests' directory,
 * "$3" the core. */
static char *shown_by(const char *command) {
    char *program = build_path("run"), *core = build_path("core/run"), *text = calloc(1, 1 << 16);
    int terminal, status;
    size_t length = 0;
    ssize_t n;
    pid_t child = terminal_fork(&terminal, NULL);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, program, model, directory, core, NULL);
        _exit(127);
    }
    while ((n = read(terminal, text + length, (1 << 16) - 1 - length)) > 0) length += (size_t)n;
    close(terminal);
    assert_int_equal(waitpid(child, &status, 0), child);
    free(program);
    free(core);
    return text;
}

static void lines_of_a_pipe_are_messages_and_a_hint_says_so_once(void **state) {
    static const char says[] =
        "each line of stdin is a message; --single-turn takes all of it as one";
    (void)state;
    char *shown = shown_by("printf 'a\\nb\\nc\\n' | \"$0\" \"$1\" -m chat -n 1 -t 0");
    const char *first = strstr(shown, says);
    if (!first || strstr(first + 1, says)) fail_msg("shown: %s", shown);
    free(shown);
    shown = shown_by("printf 'a\\n' | \"$0\" \"$1\" -m chat -n 1 -t 0");
    assert_null(strstr(shown, says));
    free(shown);
}

static void who_types_the_text_is_told_how_it_ends(void **state) {
    (void)state;
    static const char says[] = "reading stdin; Ctrl-D ends it";
    char *shown = TYPED("abc\n\004", model, "-f", "-", "-n", "2");
    assert_non_null(strstr(shown, says));
    free(shown);
    shown = TYPED("abc\n\004", model, "--tokenize");
    assert_non_null(strstr(shown, says));
    free(shown);
    shown = TYPED("{\"prompt\": \"a\"}\n\004", model, "--batch", "-", "-n", "2");
    assert_non_null(strstr(shown, "one JSON object a line; Ctrl-D ends it"));
    free(shown);
    shown = SCREEN(0, model, "-i", "a", "-n", "2");
    assert_null(strstr(shown, "stdin"));
    free(shown);
}

static void a_pipe_gets_the_bytes_as_they_are(void **state) {
    (void)state;
    Process p = RUN("run", model, "-i", HOSTILE, "--echo", "-n", "2", "-s", "1");
    assert_int_equal(p.status, 0);
    assert_memory_equal(p.out, HOSTILE, strlen(HOSTILE));
    process_free(&p);
    p = RUN("run", model, "--info");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, HOSTILE));
    process_free(&p);
    p = RUN("run", "/nowhere/" HOSTILE);
    PROCESS_SAYS(p, 1, HOSTILE);
}

/* In pieces of any size: only whole characters, no controls, nothing lost. */
static void whatever_does_not_fit_at_once_comes_whole(void **state) {
    (void)state;
    static const char text[] = "\033[0m \xE2\x82\xAC \xF0\x9F\x8E\x88 \x80\xC2 \xC2\x85\r\n\t\x9B!";
    static const char wanted[] = "^[[0m \xE2\x82\xAC \xF0\x9F\x8E\x88 \xEF\xBF\xBD\xEF\xBF\xBD "
                                 "^[E^M\n\t\xEF\xBF\xBD!";
    for (size_t size = 8; size < 64; size++) {
        char shown[64], all[256] = "";
        for (size_t at = 0, used; at < sizeof text - 1; at += used) {
            size_t n = shown_text(text + at, sizeof text - 1 - at, shown, size, &used);
            assert_true(n > 0 && n <= size && used > 0);
            strncat(all, shown, n);
        }
        assert_string_equal(all, wanted);
    }
}

/* U+009B begins a control sequence as Escape and '[' do. What only looks like a character to a
 * decoder that adds bits up is none (Unicode table 3-7): overlong forms of it, surrogates, numbers
 * beyond U+10FFFF. */
static void no_other_spelling_of_a_control_is_a_character(void **state) {
    (void)state;
    static const char *const spellings[] = {
        "\xE0\x82\x9B", "\xF0\x80\x82\x9B", "\xC0\x9B",         "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF8\x80\x80\x82\x9B"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        char shown[64], wanted[64] = "";
        size_t used, n = strlen(spellings[i]);
        size_t length = shown_text(spellings[i], n, shown, sizeof shown, &used);
        for (size_t k = 0; k < n; k++) strcat(wanted, "\xEF\xBF\xBD");
        assert_int_equal(used, n);
        assert_int_equal(length, strlen(wanted));
        assert_memory_equal(shown, wanted, length);
    }
}

/* Every writer: names in any encoding, tested texts, results, remarks about receipts, the core. */
static void no_writer_sends_controls_to_a_terminal(void **state) {
    (void)state;
    static const struct {
        const char *command, *says;
    } cases[] = {
        {"cp models/stories.bin \"$2/$(printf 'x\\340\\202\\233y')\"; \"$0\" \"$2\"/x*y --info",
         "/x\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDy"},
        {"printf 'a\\033]0;t\\007b\\302\\233d\\n' >\"$2/t\"; \"$0\" --regex ab --shape-test "
         "\"$2/t\"",
         "1: refused at byte 1 (^[]0;t^Gb^[[d); what may stand there: b"},
        {"echo '{\"id\": \"a\\u009bm\", \"prompt\": \"a\", \"max_tokens\": 1}' | \"$0\" \"$1\" "
         "--batch -",
         "a^[[m"},
        {"r=\"$2/$(printf 'r\\033]0;t\\007')\"; \"$0\" \"$1\" -i a -n 1 -t 0 --receipt \"$r\"; sed "
         "-i "
         "'s/\"numeric_revision\": [0-9]*/\"numeric_revision\": 1/' \"$r\"; \"$0\" \"$1\" --replay "
         "\"$r\"",
         "r^[]0;t^G is of numeric revision 1, "},
        {"\"$3\" models/stories.bin -i \"$(printf 'a\\033[31m\\302\\233b')\" -e -n 1",
         "a^[[31m^[[b"},
        {"\"$3\" \"$(printf '/nowhere/\\033[31m')\" -n 1", "/nowhere/^[[31m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *shown = shown_by(cases[i].command);
        for (char *at; (at = strstr(shown, "\r\033[K"));) memmove(at, at + 4, strlen(at + 4) + 1);
        if (!strstr(shown, cases[i].says) || strpbrk(shown, "\033\007\x9B"))
            fail_msg("%s\nshown: %s", cases[i].command, shown);
        free(shown);
    }
}

static void what_the_user_named_is_written_under_the_umask(void **state) {
    (void)state;
    struct stat info;
    char *path = fixture_path(directory, "text");
    mode_t mask = umask(027);
    Process p = RUN("run", model, "-i", "x", "-n", "2", "-o", path);
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    /* A file that the user closed to others, or opened to them, keeps its mode. */
    assert_int_equal(chmod(path, 0604), 0);
    p = RUN("run", model, "-i", "x", "-n", "2", "-o", path);
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0604);
    char *requests = fixture_path(directory, "requests"), *results = fixture_path(directory, "res");
    file_write(requests, "{\"prompt\": \"x\", \"max_tokens\": 2}\n", 32);
    p = RUN("run", model, "--batch", requests, "-o", results);
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_int_equal(stat(results, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    /* Conversations are private whatever the umask. */
    char *talk = fixture_path(directory, "talk");
    p = RUN("run", model, "-m", "chat", "-i", "x", "-n", "2", "--session", talk);
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_int_equal(stat(talk, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    free(talk);
    umask(mask);
    free(path);
    free(requests);
    free(results);
}

static void the_statistics_say_what_of_the_sandbox_is_in_force(void **state) {
    (void)state;
    Process p = RUN("run", model, "-i", "x", "-n", "2", "--stats");
    assert_int_equal(p.status, 0);
    const char *line = strstr(p.err, "sandbox: ");
    assert_non_null(line);
    print_message("%.*s\n", (int)strcspn(line, "\n"), line);
    process_free(&p);
    p = RUN("run", model, "-i", "x", "-n", "2", "--stats", "--no-sandbox");
    PROCESS_SAYS(p, 0, "sandbox: none\n");
}

/* The name of a file in the directory with this ending, malloc'ed; NULL: none. */
static char *name_in(const char *at, const char *ending) {
    char *found = NULL;
    DIR *dir = opendir(at);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name), m = strlen(ending);
        if (n < m || strcmp(entry->d_name + n - m, ending) != 0) continue;
        free(found);
        found = strdup(entry->d_name);
    }
    closedir(dir);
    return found;
}

/* Runs the program on `source`; true when it had to convert it. */
static bool converts(const char *source, const char *cache) {
    Process p = RUN("run", source, "--cache-dir", cache, "--verify");
    if (p.status != 0) fail_msg("%d: %s", p.status, p.err);
    bool now = strstr(p.err, "converting") != NULL;
    process_free(&p);
    return now;
}

static void links_that_were_planted_in_the_cache_are_not_followed(void **state) {
    (void)state;
    char *cache = fixture_directory(), *victim = fixture_path(directory, "victim");
    Fixture fixture = fixture_load("llama-gqa");
    char *source = fixture_source(&fixture);
    fixture_free(&fixture);
    file_write(victim, "precious", 8);
    assert_true(converts(source, cache));
    assert_false(converts(source, cache));
    char *name = name_in(cache, ".bin"), *path = fixture_path(cache, name);
    /* In place of the conversion, of its temporary file and of its lock. */
    static const char *const endings[] = {".bin", ".tmp", ".lock"};
    for (size_t i = 0; i < 3; i++) {
        char planted[600];
        snprintf(planted, sizeof planted, "%.*s%s", (int)strlen(path) - 4, path, endings[i]);
        unlink(path);
        assert_int_equal(symlink(victim, planted), 0);
        Process p = RUN("run", source, "--cache-dir", cache, "--verify");
        if (p.status != 0 && !(i == 2 && p.status == 1)) fail_msg("%d: %s", p.status, p.err);
        process_free(&p);
        size_t length;
        char *bytes = file_read(victim, &length);
        assert_int_equal(length, 8);
        assert_memory_equal(bytes, "precious", 8);
        free(bytes);
        struct stat info;
        if (lstat(path, &info) == 0) assert_true(S_ISREG(info.st_mode));
        if (i < 2) assert_int_equal(info.st_mode & 0777, 0600);
        unlink(planted);
    }
    unlink(victim);
    free(victim), free(name), free(path);
    fixture_remove_directory(source);
    fixture_remove_directory(cache);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_on_a_terminal_has_no_controls),
        cmocka_unit_test(a_text_breaks_no_word_at_the_margin),
        cmocka_unit_test(an_interrupted_text_ends_its_line),
        cmocka_unit_test(names_of_files_in_lists_and_errors_have_no_controls),
        cmocka_unit_test(an_error_is_one_line_whatever_the_name_holds),
        cmocka_unit_test(results_on_a_terminal_stand_alone),
        cmocka_unit_test(progress_stays_on_one_line_of_a_narrow_terminal),
        cmocka_unit_test(the_remark_on_the_model_ends_its_lines_between_words),
        cmocka_unit_test(lines_of_a_pipe_are_messages_and_a_hint_says_so_once),
        cmocka_unit_test(who_types_the_text_is_told_how_it_ends),
        cmocka_unit_test(a_pipe_gets_the_bytes_as_they_are),
        cmocka_unit_test(whatever_does_not_fit_at_once_comes_whole),
        cmocka_unit_test(no_other_spelling_of_a_control_is_a_character),
        cmocka_unit_test(no_writer_sends_controls_to_a_terminal),
        cmocka_unit_test(what_the_user_named_is_written_under_the_umask),
        cmocka_unit_test(links_that_were_planted_in_the_cache_are_not_followed),
        cmocka_unit_test(the_statistics_say_what_of_the_sandbox_is_in_force),
    };
    return cmocka_run_group_tests_name("terminal", tests, set_up, tear_down);
}
