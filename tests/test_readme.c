/* The example sessions of the README and of docs/ are run line by line and must print what they
 * show; links must lead to files. */
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

/* The command as it runs here: the built programs, and the models that a page makes (mine-NAME.bin)
 * in the build directory. malloc'ed. */
static char *as_built(const char *line) {
    char *run = program_command("run"), *export = program_command("export");
    char *made = build_path("tests/mine-");
    char *first = replaced(line, "./run", run), *second = replaced(first, "./export", export);
    char *command = replaced(second, "mine-", made);
    free(run);
    free(export);
    free(made);
    free(first);
    free(second);
    return command;
}

/* Runs one command of a page and compares what it prints with `expected`. */
static void check_command(const char *line, const char *expected) {
    char *command = as_built(line), *both = NULL;
    assert_true(asprintf(&both, "{ %s; } 2>&1", command) > 0);
    Process p = RUN("/bin/sh", "-c", both);
    if (strcmp(p.out, expected) != 0)
        print_message("$ %s\nprints:\n%sbut the page shows:\n%s", line, p.out, expected);
    assert_string_equal(p.out, expected);
    process_free(&p);
    free(both);
    free(command);
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

/* Runs the sessions of one page and returns how many commands they have. */
static size_t check_page(const char *path) {
    static const char begins[] = "```console\n";
    size_t length, n = 0;
    char *page = file_read(path, &length), *at = page;
    while ((at = strstr(at, begins))) {
        at += strlen(begins);
        char *end = strstr(at, "```");
        assert_non_null(end);
        n += check_block(at, end);
        at = end + 1;
    }
    free(page);
    return n;
}

static void the_sessions_are_what_their_commands_print(void **state) {
    (void)state;
    assert_true(check_page("README.md") >= 10);
}

/* Removes the models that the pages make. */
static void remove_made(void) {
    char *made = build_path("tests/mine-");
    Process p = RUN("/bin/sh", "-c", "rm -f \"$1\"*.bin", "sh", made);
    process_free(&p);
    free(made);
}

static void the_sessions_of_the_docs_are_what_their_commands_print(void **state) {
    (void)state;
    remove_made(); /* which export would not replace */
    static const struct {
        const char *page;
        size_t least;
    } pages[] = {{"docs/guide-to-code.md", 12},
                 {"docs/seeing-inside.md", 8},
                 {"docs/your-own-model.md", 4},
                 {"docs/positions-and-heads.md", 2}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        assert_true(check_page(pages[i].page) >= pages[i].least);
    remove_made();
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
    static const char *const docs[] = {"architecture",   "numerics",           "format",
                                       "families",       "adding-a-family",    "batch",
                                       "chat",           "quantization",       "command-line",
                                       "chat-templates", "tokenizer-section",  "benchmarks",
                                       "cluster",        "guide-to-code",      "seeing-inside",
                                       "your-own-model", "positions-and-heads"};
    for (size_t i = 0; i < sizeof docs / sizeof *docs; i++) {
        char page[128];
        snprintf(page, sizeof page, "docs/%s.md", docs[i]);
        check_links(page, "docs/");
    }
    check_links("models/README.md", "models/");
    check_links("README.md", "");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sessions_are_what_their_commands_print),
        cmocka_unit_test(the_sessions_of_the_docs_are_what_their_commands_print),
        cmocka_unit_test(links_lead_to_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
