/* The example sessions of the README and of docs/ are run line by line and must print what they
 * show; the commands of docs/ must run as they stand; links must lead to files. */
#include <ctype.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "process.h"
#include "tier.h"

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
    char *bench = program_command("bench"), *made = build_path("tests/mine-");
    char *first = replaced(line, "./run", run), *second = replaced(first, "./export", export);
    char *third = replaced(second, "./bench", bench), *command = replaced(third, "mine-", made);
    free(run);
    free(export);
    free(bench);
    free(made);
    free(first);
    free(second);
    free(third);
    return command;
}

/* Runs one command of a page and compares what it prints with `expected`. A reader may run it
 * twice, or after a page that makes the same file. */
static void check_command(const char *line, const char *expected) {
    if (strstr(line, "./export ") && !strstr(line, "--force"))
        fail_msg("$ %s\nfails where its file exists: add --force", line);
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

/* Runs the commands of one block, which ends at `end`, and returns how many there are. Where they
 * do not need each other, the tier check takes a part of them. */
static size_t check_block(char *at, char *end, bool apart) {
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
        bool taken = tier_takes(++n, 2, 1);
        if (taken || !apart) check_command(line, output);
        *stop = kept;
        at = stop;
    }
    return n;
}

/* Runs the sessions of one page and returns how many commands they have. */
static size_t check_page(const char *path, bool apart) {
    static const char begins[] = "```console\n";
    size_t length, n = 0;
    char *page = file_read(path, &length), *at = page;
    while ((at = strstr(at, begins))) {
        at += strlen(begins);
        char *end = strstr(at, "```");
        assert_non_null(end);
        n += check_block(at, end, apart);
        at = end + 1;
    }
    free(page);
    return n;
}

static void the_sessions_are_what_their_commands_print(void **state) {
    (void)state;
    assert_true(check_page("README.md", true) >= 10);
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
    static const struct {
        const char *page;
        size_t least;
    } pages[] = {{"docs/your-own-model.md", 4}, {"docs/guide-to-code.md", 19},
                 {"docs/seeing-inside.md", 10}, {"docs/positions-and-heads.md", 2},
                 {"docs/sizes.md", 4},          {"docs/exercises.md", 46}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (!tier_takes(i, 6, 1)) continue;
        assert_true(check_page(pages[i].page, false) >= pages[i].least);
    }
    remove_made();
}

/* ---- ./exercises ---- */

/* Makes a directory that looks like a checkout in which make has run; malloc'ed. */
static char *new_checkout(void) {
    char *scratch = build_path("tests/paste"), *run = program_command("run"), *script = NULL;
    char *export = program_command("export"), *bench = program_command("bench");
    assert_true(asprintf(&script,
                         "rm -rf '%s' && mkdir '%s' && cd '%s' && here=$OLDPWD && "
                         "ln -s \"$here\"/* . && rm -f run export bench && "
                         "printf '#!/bin/sh\\nexec %s \"$@\"\\n' > run && "
                         "printf '#!/bin/sh\\nexec %s \"$@\"\\n' > export && "
                         "printf '#!/bin/sh\\nexec %s \"$@\"\\n' > bench && "
                         "chmod +x run export bench",
                         scratch, scratch, scratch, run, export, bench) > 0);
    Process p = RUN("/bin/sh", "-c", script);
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(run);
    free(export);
    free(bench);
    free(script);
    return scratch;
}

static size_t times(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

/* Whoever opens the page, or lets ./exercises ask, predicts first: the output of commands and the
 * reasons are folded away, each behind a question. */
static void the_answers_of_the_exercises_are_folded(void **state) {
    (void)state;
    size_t length, folds = 0;
    char *page = file_read("docs/exercises.md", &length), *rest = page;
    bool folded = false, in_exercise = false, asked = false;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "### ", 4) == 0) in_exercise = true, asked = false;
        if (strncmp(line, "## ", 3) == 0) in_exercise = false;
        if (strncmp(line, "**Predict:**", 12) == 0 || strcmp(line, "```diff") == 0) asked = true;
        if (strcmp(line, "<details>") == 0) {
            if (!in_exercise || folded || !asked) fail_msg("a fold without a question: %s", line);
            folded = true, asked = false;
            folds++;
        }
        if (strcmp(line, "</details>") == 0) folded = false;
        bool answers = strcmp(line, "```console") == 0 || strcmp(line, "```text") == 0 ||
                       strncmp(line, "**Why:**", 8) == 0;
        if (in_exercise && answers && !folded) fail_msg("an answer that is not folded: %s", line);
    }
    assert_false(folded);
    assert_true(folds >= 40);
    free(page);
}

/* Runs ./exercises in a checkout that `prepare` has changed. */
static Process exercise(const char *scratch, const char *prepare, const char *arguments) {
    char *command = NULL;
    assert_true(
        asprintf(&command, "cd '%s' && %s; ./exercises %s 2>&1", scratch, prepare, arguments) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    free(command);
    return p;
}

static void an_exercise_asks_runs_and_compares(void **state) {
    (void)state;
    char *scratch = new_checkout();
    size_t length;
    char *page = file_read("docs/exercises.md", &length);
    Process p = exercise(scratch, ":", "");
    assert_int_equal(p.status, 0);
    assert_int_equal(times(p.out, "\n"), times(page, "\n### "));
    assert_non_null(strstr(p.out, "4\tOne token, by hand\n"));
    assert_non_null(strstr(p.out, "\ne1\tdecoder.c: "));
    process_free(&p);
    p = exercise(scratch, ":", "4 <<END\nabout 14\nEND\n");
    assert_int_equal(p.status, 0);
    const char *const order[] = {"4. One token, by hand\n",
                                 "\nPredict: ", "\n\nYour prediction: about 14\n\n$ ./run ",
                                 "\n  head keys ", "\n\nYou wrote: about 14\n\nWhy: "};
    const char *at = p.out;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!strstr(at, order[i])) fail_msg("no '%s' in\n%s", order[i], p.out);
        at = strstr(at, order[i]) + strlen(order[i]) - 1;
    }
    assert_null(strstr(p.out, "another result"));
    assert_null(strstr(p.out, "details>"));
    process_free(&p);
    p = exercise(scratch,
                 "rm docs && mkdir -p docs && sed 's/  14.156 /  14.157 /' "
                 "<\"$OLDPWD/docs/exercises.md\" >docs/exercises.md",
                 "4 </dev/null");
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.out, "\nThe page shows another result:\n"));
    assert_null(strstr(p.out, "You wrote"));
    process_free(&p);
    p = exercise(scratch, ":", "99");
    assert_int_equal(p.status, 2);
    assert_string_equal(p.out, "exercises: no exercise is called 99; ./exercises lists them\n");
    process_free(&p);
    p = exercise(scratch, ":", "'.'"); /* a name, not a pattern that every number fits */
    assert_int_equal(p.status, 2);
    assert_string_equal(p.out, "exercises: no exercise is called .; ./exercises lists them\n");
    process_free(&p);
    free(page);
    free(scratch);
}

/* ---- commands to paste ---- */

/* Whether a reader can run the command as it stands: it has no placeholder such as MODEL or "...",
 * and names no file that only he can have. */
static bool can_be_run(const char *line) {
    static const char *const own[] = {"...",         "model.bin", ".gguf", "f32.bin", "q8.bin",
                                      "stories260K", "code.py",   "ORG/",  "lora"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strstr(line, own[i])) return false;
    char quote = 0;
    for (const char *c = line; *c; c++) {
        if (*c == quote)
            quote = 0;
        else if (!quote && (*c == '"' || *c == '\''))
            quote = *c;
        else if (!quote && *c == '#')
            break;
        else if (!quote && *c >= 'A' && *c <= 'Z' && c[1] >= 'A' && c[1] <= 'Z')
            return false;
    }
    return true;
}

/* Runs the commands of a page, which are lines indented by four spaces, in the directory `scratch`
 * one after the other, and returns how many there are. Fails where one ends with another status
 * than 0. */
static size_t paste_page(const char *page, const char *scratch) {
    static const char *const begins[] = {"./run ", "./export ", "./bench ", "printf ", "head "};
    size_t length, n = 0;
    char *text = file_read(page, &length), *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        bool command = false;
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            command |= strncmp(line, "    ", 4) == 0 &&
                       strncmp(line + 4, begins[i], strlen(begins[i])) == 0;
        if (!command || !can_be_run(line)) continue;
        char *both = NULL;
        assert_true(asprintf(&both, "cd '%s' && { %s\n} 2>&1", scratch, line) > 0);
        Process p = RUN("/bin/sh", "-c", both);
        if (p.status != 0) print_message("%s:%s\nends with %d:\n%s", page, line, p.status, p.out);
        assert_int_equal(p.status, 0);
        process_free(&p);
        free(both);
        n++;
    }
    free(text);
    return n;
}

static void the_commands_of_the_docs_can_be_pasted(void **state) {
    (void)state;
    static const struct {
        const char *page;
        size_t least;
    } pages[] = {{"docs/batch.md", 5},      {"docs/chat.md", 3},
                 {"docs/check.md", 8},      {"docs/drafts.md", 4},
                 {"docs/embeddings.md", 2}, {"docs/evaluation.md", 3},
                 {"docs/receipts.md", 6},   {"docs/seeing-inside.md", 11},
                 {"docs/shapes.md", 3},     {"docs/positions-and-heads.md", 2}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (!tier_takes(i, 4, 1)) continue;
        char *scratch = new_checkout();
        assert_true(paste_page(pages[i].page, scratch) >= pages[i].least);
        free(scratch);
    }
}

/* ---- the first screen ---- */

/* Runs one command of README's first block in `scratch`; what brings a program or a model from
 * elsewhere is looked for in the checkout instead. */
static void check_first_command(const char *line, const char *scratch) {
    static const struct {
        const char *begins, *needs; /* needs: NULL: the command itself is run */
    } commands[] = {
        {"sh install.sh && ~/.local/bin/verbatim ", "sh -n scripts/install.sh"},
        {"./quickstart ", "test -x quickstart"},
        {"~/.local/bin/verbatim -s 49 >story.txt ", "./run -s 49 >story.txt"},
        {"~/.local/bin/verbatim -s 49 --check story.txt ", "./run -s 49 --check story.txt"},
        {"./get HuggingFaceTB/SmolLM2-135M-Instruct && ./run ", "test -x get"},
        {"./run ", NULL},
    };
    const size_t n = sizeof commands / sizeof *commands;
    size_t i = 0;
    for (; i < n && strncmp(line, commands[i].begins, strlen(commands[i].begins)) != 0;) i++;
    if (i == n) fail_msg("README.md: an unexpected first command: %s", line);
    char *both = NULL;
    assert_true(asprintf(&both, "cd '%s' && { %s\n} 2>&1 </dev/null", scratch,
                         commands[i].needs ? commands[i].needs : line) > 0);
    Process p = RUN("/bin/sh", "-c", both);
    if (p.status != 0) print_message("%s\nends with %d:\n%s", line, p.status, p.out);
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(both);
}

/* Which file a model is read as depends on its bytes, so that the story model can stand for a GGUF
 * file, of which other tests show that it is read. */
static void the_first_screen_says_what_it_is_and_its_commands_run(void **state) {
    (void)state;
    enum { LINES = 24, MOST_COMMANDS = 10 };
    static const char *const requests = "{\"id\": 1, \"prompt\": \"The king\", \"max_tokens\": 4}\n"
                                        "{\"id\": 2, \"prompt\": \"A fox\", \"max_tokens\": 4}\n";
    static const char *const said[] = {"**Same model, same prompt, same bytes, everywhere.**",
                                       "./quickstart",
                                       "-m chat",
                                       "--batch",
                                       "--check",
                                       "**It is not** for GPUs",
                                       "llama.cpp",
                                       "ik_llama.cpp"};
    char *scratch = new_checkout(), *path = NULL, *command = NULL;
    assert_true(asprintf(&path, "%s/requests.jsonl", scratch) > 0);
    file_write(path, requests, strlen(requests));
    assert_true(asprintf(&command, "ln -s models/stories.bin '%s/model.gguf'", scratch) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t length, n = 0, n_commands = 0;
    char *page = file_read("README.md", &length), *end = page;
    for (; *end && n < LINES; end++) n += *end == '\n';
    *end = '\0';
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(page, said[i])) fail_msg("the first screen does not say %s", said[i]);
    assert_null(strstr(page, "md5sum"));
    for (char *rest = page, *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "    ", 4) != 0 || line[4] == '#') continue;
        check_first_command(line + 4, scratch);
        n_commands++;
    }
    assert_true(n_commands >= 6 && n_commands <= MOST_COMMANDS);
    free(page);
    free(path);
    free(command);
    free(scratch);
}

/* The cells of a table that are commands, between backticks: each must end well. */
static void the_commands_of_the_table_of_concepts_run(void **state) {
    (void)state;
    size_t length, n = 0;
    char *scratch = new_checkout(), *text = file_read("docs/guide-to-code.md", &length), *at = text;
    while ((at = strstr(at, "`./"))) {
        char *line = at, *end = strchr(++at, '`'), *both = NULL;
        while (line > text && line[-1] != '\n') line--;
        assert_non_null(end);
        if (*line == '|' && tier_takes(n++, 8, 2)) {
            assert_true(asprintf(&both, "cd '%s' && { %.*s; } 2>&1", scratch, (int)(end - at), at) >
                        0);
            Process p = RUN("/bin/sh", "-c", both);
            if (p.status != 0) fail_msg("%s ends with %d:\n%s", both, p.status, p.out);
            process_free(&p);
            free(both);
        }
        at = end + 1;
    }
    assert_true(n >= 56);
    free(text);
    free(scratch);
}

/* ---- functions and tests that the guide names ---- */

static size_t identifier_length(const char *text) {
    return strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
}

/* Whether the file `directory` `path`.c has the name; false too where there is no such file. */
static bool source_has(const char *directory, const char *path, size_t path_length,
                       const char *name, size_t name_length) {
    char file[256], word[128];
    size_t length;
    snprintf(file, sizeof file, "%s%.*s.c", directory, (int)path_length, path);
    snprintf(word, sizeof word, "%.*s(", (int)name_length, name);
    if (access(file, R_OK) != 0) return false;
    char *source = file_read(file, &length);
    bool found = strstr(source, word) != NULL;
    free(source);
    return found;
}

/* Checks the names between backticks that stand at `list`, after a file and a comma or colon, and
 * returns how many there are. `what` is that file without its ending. */
static size_t check_names(const char *list, const char *directory, const char *what,
                          size_t what_length) {
    size_t n = 0;
    while (*list == '`') {
        size_t name = identifier_length(++list);
        if (list[name] != '`') return n;
        if (!source_has(directory, what, what_length, list, name))
            fail_msg("docs/guide-to-code.md: %s%.*s.c has no %.*s", directory, (int)what_length,
                     what, (int)name, list);
        n++;
        list += name + 1;
        if (*list != ',') break;
        list += 1 + strspn(list + 1, " \n");
    }
    return n;
}

/* "FILE.c, `function`, `function`" and "test_NAME: `test`". */
static void the_functions_and_tests_of_the_guide_are_where_it_says(void **state) {
    (void)state;
    size_t length, n_functions = 0, n_tests = 0;
    char *text = file_read("docs/guide-to-code.md", &length);
    for (const char *at = text; (at = strstr(at, ".c")); at += 2) {
        const char *start = at;
        while (start > text && (identifier_length(start - 1) > 0 || start[-1] == '/')) start--;
        if ((at[2] != ',' && at[2] != ':') || start == at) continue;
        n_functions += check_names(at + 3 + strspn(at + 3, " \n"), "", start, (size_t)(at - start));
    }
    for (const char *at = text; (at = strstr(at, "test_"));) {
        size_t name = identifier_length(at);
        if (at[name] == ':')
            n_tests +=
                check_names(at + name + 1 + strspn(at + name + 1, " \n"), "tests/", at, name);
        at += name;
    }
    assert_true(n_functions >= 20 && n_tests >= 25);
    free(text);
}

/* `run` alone is not found in a checkout, and `export` is a builtin of the shell. */
static void no_command_of_the_docs_lacks_its_directory(void **state) {
    (void)state;
    Process p = RUN("/bin/sh", "-c",
                    "grep -nE '^    (run|export|bench) |`(run|export|bench) [-A-Z]' "
                    "README.md docs/*.md integrations/*/*.md models/*.md");
    assert_string_equal(p.out, "");
    process_free(&p);
}

/* Whether `page` has a heading that a link to #`anchor` leads to: its letters, digits, "-" and "_"
 * in lower case, with "-" for each space. */
static bool has_heading(const char *page, const char *anchor, size_t anchor_length) {
    for (const char *line = page; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (*line != '#') continue;
        const char *c = line + strspn(line, "#"), *wanted = anchor, *end = anchor + anchor_length;
        c += *c == ' ';
        for (; *c && *c != '\n'; c++) {
            bool kept = isalnum((unsigned char)*c) || *c == '-' || *c == '_' || *c == ' ';
            char letter = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
            if (!kept) continue;
            if (wanted == end || *wanted != letter) break;
            wanted++;
        }
        if ((!*c || *c == '\n') && wanted == end) return true;
    }
    return false;
}

/* Checks that the files and headings to which the links of `page` lead exist; returns how many
 * headings there are among them. */
static size_t check_links(const char *page) {
    size_t length, headings = 0;
    const char *slash = strrchr(page, '/');
    char *text = file_read(page, &length);
    for (char *at = text; (at = strstr(at, "](")); at++) {
        char path[512];
        size_t n = strcspn(at + 2, ")#"), anchor = strcspn(at + 2 + n, ")");
        if (strncmp(at + 2, "http", 4) == 0) continue;
        if (n == 0)
            snprintf(path, sizeof path, "%s", page);
        else
            snprintf(path, sizeof path, "%.*s%.*s", slash ? (int)(slash + 1 - page) : 0, page,
                     (int)n, at + 2);
        if (access(path, F_OK) != 0) fail_msg("%s: no %s", page, path);
        if (anchor < 2 || !strstr(path, ".md")) continue;
        char *target = file_read(path, &length);
        if (!has_heading(target, at + 3 + n, anchor - 1))
            fail_msg("%s: %s has no heading %.*s", page, path, (int)anchor, at + 2 + n);
        headings++;
        free(target);
    }
    free(text);
    return headings;
}

static void links_lead_to_files_and_headings(void **state) {
    (void)state;
    size_t headings = check_links("README.md") + check_links("models/README.md");
    glob_t docs;
    assert_int_equal(glob("docs/*.md", 0, NULL, &docs), 0);
    assert_int_equal(glob("docs/notes/*.md", GLOB_APPEND, NULL, &docs), 0);
    for (size_t i = 0; i < docs.gl_pathc; i++) headings += check_links(docs.gl_pathv[i]);
    assert_true(docs.gl_pathc >= 30 && headings >= 60);
    globfree(&docs);
}

/* The page's other rows come from the same script; `make soak` compares them all. */
static void the_divergences_of_the_docs_come_out_again(void **state) {
    (void)state;
    const char *data = shared_data("stories260K");
    if (!data || tier() != TIER_ALL) skip();
    char *build = build_path("");
    Process p = RUN("/bin/sh", "-c", "TYPES=q5 scripts/quantization-table --compare \"$1\" \"$2\"",
                    "sh", data, build);
    assert_string_equal(p.out, "");
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(build);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sessions_are_what_their_commands_print),
        cmocka_unit_test(the_sessions_of_the_docs_are_what_their_commands_print),
        cmocka_unit_test(the_answers_of_the_exercises_are_folded),
        cmocka_unit_test(an_exercise_asks_runs_and_compares),
        cmocka_unit_test(the_commands_of_the_docs_can_be_pasted),
        cmocka_unit_test(the_first_screen_says_what_it_is_and_its_commands_run),
        cmocka_unit_test(the_commands_of_the_table_of_concepts_run),
        cmocka_unit_test(the_functions_and_tests_of_the_guide_are_where_it_says),
        cmocka_unit_test(no_command_of_the_docs_lacks_its_directory),
        cmocka_unit_test(links_lead_to_files_and_headings),
        cmocka_unit_test(the_divergences_of_the_docs_come_out_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
