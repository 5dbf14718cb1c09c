/* Model files that are truncated or replaced while they are in use. */
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
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mapped.h"
#include "fixture.h"
#include "process.h"
#include "small_model.h"

extern char **environ;

static char *directory, *model;

static int set_up(void **state) {
    (void)state;
    directory = fixture_directory();
    model = small_model(directory, "tiny,context=50000,n_layers=1");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(model);
    fixture_remove_directory(directory);
    return 0;
}

typedef struct Stream {
    pid_t process;
    int out, err;
} Stream;

/* Runs the model on `path` and waits until its text fills a pipe, so that it is neither done nor
 * able to continue. */
static Stream start(const char *path, const char *threads) {
    Stream s;
    int out[2], err[2];
    char *program = build_path("run");
    assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_true(fcntl(out[1], F_SETPIPE_SZ, 4096) > 0);
    s.process = fork();
    assert_true(s.process >= 0);
    if (s.process == 0) {
        dup2(out[1], 1);
        dup2(err[1], 2);
        execl(program, program, path, "-i", "Once", "-n", "20000", "--ignore-eos", "-s", "1", "-j",
              threads, (char *)NULL);
        _exit(127);
    }
    close(out[1]), close(err[1]);
    free(program);
    s.out = out[0];
    s.err = err[0];
    char c;
    assert_int_equal(read(s.out, &c, 1), 1);
    return s;
}

/* Reads until the program ends; returns its exit status and the beginning of its stderr. */
static int finish(Stream *s, char *said, size_t size) {
    char text[4096];
    size_t length = 0;
    ssize_t n;
    int status;
    while ((n = read(s->out, text, sizeof text)) > 0) continue;
    while ((n = read(s->err, said + length, size - 1 - length)) > 0) length += (size_t)n;
    said[length] = '\0';
    close(s->out), close(s->err);
    assert_int_equal(waitpid(s->process, &status, 0), s->process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_model_cut_off_while_it_speaks(const char *threads) {
    char said[4096] = "";
    size_t length;
    char *bytes = file_read(model, &length), *path = fixture_path(directory, "cut.bin");
    file_write(path, bytes, length);
    Stream s = start(path, threads);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(finish(&s, said, sizeof said), 1);
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, "became shorter while it was in use"));
    assert_int_equal(unlink(path), 0);
    free(path);
    free(bytes);
}

static void a_model_that_is_cut_off_while_it_speaks_is_an_error_that_names_it(void **state) {
    (void)state;
    a_model_cut_off_while_it_speaks("1");
    a_model_cut_off_while_it_speaks("4");
}

static void a_model_that_is_replaced_while_it_speaks_does_no_harm(void **state) {
    (void)state;
    char said[4096] = "";
    size_t length;
    char *bytes = file_read(model, &length), *path = fixture_path(directory, "old.bin");
    char *other = fixture_path(directory, "new.bin");
    file_write(path, bytes, length);
    file_write(other, "something else", 14);
    Stream s = start(path, "2");
    assert_int_equal(rename(other, path), 0);
    close(s.out); /* the reader goes: no error */
    s.out = open("/dev/null", O_RDONLY);
    assert_int_equal(finish(&s, said, sizeof said), 0);
    assert_string_equal(said, "");
    assert_int_equal(unlink(path), 0);
    free(path);
    free(other);
    free(bytes);
}

/* The message of the handler when a child process touches this address. */
static int touch_lost_page(bool remembered, char *said, size_t size) {
    int err[2], status;
    char *path = fixture_path(directory, "lost");
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    file_write(path, "x", 1);
    assert_int_equal(truncate(path, 3 * 4096), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDONLY);
        dup2(err[1], 2);
        volatile const char *map = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);
        mapped_watch();
        mapped_remember((const void *)map, 3 * 4096, "a\033[31m\nname");
        if (!remembered) mapped_forget((const void *)map);
        if (truncate(path, 4096) != 0) _exit(90);
        _exit(map[2 * 4096] ? 91 : 92);
    }
    close(err[1]);
    ssize_t n = read(err[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(err[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(path);
    free(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_lost_page_tells_its_file_and_cannot_steer_a_terminal(void **state) {
    (void)state;
    char said[512];
    assert_int_equal(touch_lost_page(true, said, sizeof said), 1);
    assert_non_null(strstr(said, ": a^[[31m?name: cannot be read any more"));
    assert_int_equal(touch_lost_page(false, said, sizeof said), 1);
    assert_non_null(strstr(said, ": a mapped file: cannot be read any more"));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_is_cut_off_while_it_speaks_is_an_error_that_names_it),
        cmocka_unit_test(a_model_that_is_replaced_while_it_speaks_does_no_harm),
        cmocka_unit_test(a_lost_page_tells_its_file_and_cannot_steer_a_terminal),
    };
    return cmocka_run_group_tests_name("mapped", tests, set_up, tear_down);
}
