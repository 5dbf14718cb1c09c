/* The README's example sessions are run line by line and must print what it shows; links must lead
 * to files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "process.h"

/* Returns `text` with every `from` replaced; malloc'ed. */
static char *replaced(const char *text, const char *from, const char *to) {
    char *out = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&out, &size);
    assert_non_null(stream);
    for (const char *at; (at = strstr(text, from)); text = at + strlen(from))
        fprintf(stream, "%.*s%s", (int)(at - text), text, to);
    fputs(text, stream);
    fclose(stream);
    return out;
}

/* Runs one command of the README and compares what it prints with `expected`. */
static void check_command(const char *line, const char *expected) {
    char *program = program_command("run"), *command = replaced(line, "./run", program);
    char *both = NULL;
    assert_true(asprintf(&both, "{ %s; } 2>&1", command) > 0);
    Process p = RUN("/bin/sh", "-c", both);
    if (strcmp(p.out, expected) != 0)
        print_message("$ %s\nprints:\n%sbut the README shows:\n%s", line, p.out, expected);
    assert_string_equal(p.out, expected);
    process_free(&p);
    free(both);
    free(command);
    free(program);
}

/* Runs the commands of one block, which ends at `end`, and returns how many there are. */
static size_t check_block(char *at, char *end) {
    size_t n = 0;
    *end = '\0';
    while (*at) {
        assert_true(strncmp(at, "$ ", 2) == 0);
        char *line = at + 2, *output = strchr(line, '\n') + 1, *next = strstr(output, "\n$ ");
        output[-1] = '\0';
        /* The expected output ends at the next command or at the end of the block. */
        char *stop = strncmp(output, "$ ", 2) == 0 ? output : next ? next + 1 : end;
        char kept = *stop;
        *stop = '\0';
        check_command(line, output);
        *stop = kept;
        at = stop;
        n++;
    }
    return n;
}

static void the_sessions_are_what_their_commands_print(void **state) {
    static const char begins[] = "```console\n";
    (void)state;
    size_t length, n = 0;
    char *readme = file_read("README.md", &length), *at = readme;
    while ((at = strstr(at, begins))) {
        at += strlen(begins);
        char *end = strstr(at, "```");
        assert_non_null(end);
        n += check_block(at, end);
        at = end + 1;
    }
    assert_true(n >= 10);
    free(readme);
}

/* Checks that every link of `page` to another file exists; `directory` is the page's directory. */
static void check_links(const char *page, const char *directory) {
    size_t length;
    char *text = file_read(page, &length);
    for (char *at = text; (at = strstr(at, "](")); at++) {
        char path[512];
        size_t n = strcspn(at + 2, ")#");
        if (n == 0 || strncmp(at + 2, "http", 4) == 0) continue;
        snprintf(path, sizeof path, "%s%.*s", directory, (int)n, at + 2);
        if (access(path, F_OK) != 0) print_message("%s: no %s\n", page, path);
        assert_int_equal(access(path, F_OK), 0);
    }
    free(text);
}

static void links_lead_to_files(void **state) {
    (void)state;
    static const char *const docs[] = {"architecture",   "numerics",          "format",
                                       "families",       "adding-a-family",   "batch",
                                       "chat",           "quantization",      "command-line",
                                       "chat-templates", "tokenizer-section", "benchmarks",
                                       "cluster"};
    for (size_t i = 0; i < sizeof docs / sizeof *docs; i++) {
        char page[128];
        snprintf(page, sizeof page, "docs/%s.md", docs[i]);
        check_links(page, "docs/");
    }
    check_links("models/README.md", "models/");
    check_links("README.md", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sessions_are_what_their_commands_print),
        cmocka_unit_test(links_lead_to_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
