#include "tests/chat_person.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/process.h"

ChatHome chat_home;

int chat_home_make(void **state) {
    (void)state;
    chat_home.directory = build_path("tests/chat-XXXXXX");
    assert_non_null(mkdtemp(chat_home.directory));
    /* The program ignores a relative $XDG_STATE_HOME and would use the tester's own history. */
    char *absolute = realpath(chat_home.directory, NULL);
    assert_non_null(absolute);
    free(chat_home.directory);
    chat_home.directory = absolute;
    assert_true(asprintf(&chat_home.model, "%s/tiny.bin", chat_home.directory) > 0);
    Process p = RUN("export", "--random", "tiny,context=512,n_layers=1", chat_home.model, "-q");
    assert_int_equal(p.status, 0);
    process_free(&p);
    return 0;
}

int chat_home_remove(void **state) {
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", chat_home.directory);
    assert_int_equal(system(command), 0);
    free(chat_home.model);
    free(chat_home.directory);
    return 0;
}

char *chat_inside(const char *name) {
    char *path;
    assert_true(asprintf(&path, "%s/%s", chat_home.directory, name) > 0);
    return path;
}
void chat_assert_said(const char *session, const char *line) {
    size_t length;
    char *text = file_read(session, &length);
    if (!strstr(text, line)) fail_msg("no %s in %s", line, text);
    free(text);
}

/* ---- A person at a terminal ---------------------------------------------------------------- */

Person *person_sit_down(const char *const *arguments) {
    Person *p = calloc(1, sizeof *p);
    struct winsize size = {24, 80, 0, 0};
    char *program = build_path("run");
    p->process = terminal_fork(&p->terminal, &size);
    if (p->process == 0) {
        const char *argv[32] = {program, chat_home.model, "-m", "chat", "-s", "3"};
        size_t n = 6;
        while (*arguments) argv[n++] = *arguments++;
        setenv("TERM", "xterm", 1);
        signal(SIGHUP, SIG_DFL); /* ignored where the tests run under nohup */
        setenv("XDG_STATE_HOME", chat_home.directory, 1);
        unsetenv("NO_COLOR");
        execv(program, (char *const *)argv);
        _exit(127);
    }
    free(program);
    return p;
}

/* Removes the control sequences that a terminal obeys without showing anything. */
static void hide_marks_of_pastes(Person *p) {
    static const char *const marks[] = {"\033[?2004h", "\033[?2004l"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(marks[i]);
        for (char *at = p->screen + p->seen; (at = strstr(at, marks[i])); p->length -= n)
            memmove(at, at + n, strlen(at + n) + 1);
    }
}

bool person_read_more(Person *p, int milliseconds) {
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

bool patience_ends(Patience *patience) {
    time_t now = time(NULL);
    if (now != patience->last) patience->seconds++;
    patience->last = now;
    return patience->seconds > 60;
}

/* Finds the text, of which a blank may be the end of a line: notes end their lines between words,
 * and where that is depends on the names of files. Returns what follows it; NULL: it is not there.
 */
static const char *behind(const char *screen, const char *text) {
    for (; *screen; screen++) {
        const char *at = screen, *c = text;
        for (; *c; c++) {
            bool breaks = *c == ' ' && at[0] == '\r' && at[1] == '\n';
            if (!breaks && *at != *c) break;
            at += breaks ? 2 : 1;
        }
        if (!*c) return at;
    }
    return NULL;
}

void person_expect(Person *p, const char *text) {
    Patience patience = {0};
    const char *end;
    while (!(end = behind(p->screen + p->seen, text))) {
        if (patience_ends(&patience) ||
            (!person_read_more(p, 1000) && waitpid(p->process, NULL, WNOHANG) != 0)) {
            print_message("screen: %s\n", p->screen + p->seen);
            fail_msg("'%s' did not appear", text);
        }
    }
    p->seen = (size_t)(end - p->screen);
}

void person_wait_until_quiet(Person *p) {
    for (int i = 0; i < 10; i++) person_read_more(p, 100);
    p->seen = p->length;
}

void person_type(Person *p, const char *text) {
    for (size_t length = strlen(text), n; length > 0; text += n, length -= n) {
        n = length < 256 ? length : 256;
        assert_int_equal(write(p->terminal, text, n), (ssize_t)n);
        while (length > n && person_read_more(p, 5)) {
        }
    }
}

int person_stand_up(Person *p) {
    int status = 0;
    Patience patience = {0};
    while (waitpid(p->process, &status, WNOHANG) == 0) {
        person_read_more(p, 50);
        if (patience_ends(&patience)) {
            kill(p->process, SIGKILL);
            print_message("screen: %s\n", p->screen + p->seen);
            fail_msg("the program did not end");
        }
    }
    person_read_more(p, 0);
    bool clean = (p->length > 0 && p->screen[p->length - 1] == '\n') || !WIFEXITED(status) ||
                 WEXITSTATUS(status) != 0;
    close(p->terminal);
    free(p);
    assert_true(clean); /* the shell's prompt must begin a line */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool person_ended(const Person *p) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)p->process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

int person_leave(Person *p) {
    person_expect(p, "\n> ");
    for (int i = 0; i < 30 && !person_ended(p); i++) {
        person_type(p, "\004");
        for (int k = 0; k < 10; k++) person_read_more(p, 100);
    }
    return person_stand_up(p);
}
