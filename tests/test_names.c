/* Models by name: found where other programs keep them, and never changed there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/address_sanitizer.h"
#include "modes/open/model_names.h"
#include "fixture.h"
#include "gguf_fixture.h"
#include "process.h"

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char *home;

/* Runs a shell command in the home directory. */
static char *shell(const char *command) {
    char *whole = NULL;
    assert_true(asprintf(&whole, "cd '%s' && %s", home, command) > 0);
    Process p = RUN("/bin/sh", "-c", whole);
    if (p.status) fail_msg("%s: %s", whole, p.err);
    char *out = strdup(p.out);
    process_free(&p);
    free(whole);
    return out;
}

static void make_gguf(const char *name) {
    char **names = gguf_fixture_names(), *path = fixture_path(home, name);
    json_t *fixture = gguf_fixture_load(names[0]);
    gguf_fixture_write(fixture, path, STORED_F16, false);
    json_decref(fixture);
    for (size_t i = 0; names[i]; i++) free(names[i]);
    free(names);
    free(path);
}

/* A home in which each program keeps a model. */
static int set_up(void **state) {
    (void)state;
    static const char layout[] =
        "mkdir -p mine/deep .ollama/models/blobs "
        ".ollama/models/manifests/registry.ollama.ai/library/small "
        ".cache/huggingface/hub/models--Org--Name-1B/refs "
        ".cache/huggingface/hub/models--Org--Name-1B/snapshots/00 "
        ".cache/huggingface/hub/models--Org--Name-1B/snapshots/ff && "
        "ln -s .. mine/deep/up && ln -s /nowhere mine/lost.gguf && mkfifo mine/pipe.bin && "
        "printf abc >mine/deep/broken.gguf && printf text >mine/notes.bin && "
        "printf ff >.cache/huggingface/hub/models--Org--Name-1B/refs/main && "
        "printf '{\"layers\": [{\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": "
        "\"sha256:" DIGEST "\"}]}' >.ollama/models/manifests/registry.ollama.ai/library/small/"
        "latest && "
        "printf '{\"layers\": [{\"mediaType\": \"application/vnd.ollama.image.model\", \"digest\": "
        "\"sha256:../../../../mine\"}]}' "
        ">.ollama/models/manifests/registry.ollama.ai/library/small/"
        "evil";
    home = fixture_directory();
    char *absolute = realpath(home, NULL), *mine = fixture_path(absolute, "mine"), *bin;
    setenv("HOME", absolute, 1);
    setenv("VERBATIM_MODELS", mine, 1);
    static const char *const others[] = {"XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE",
                                         "OLLAMA_MODELS", "LLAMA_CACHE"};
    for (size_t i = 0; i < 5; i++) unsetenv(others[i]);
    free(shell(layout));
    free(absolute);
    free(mine);
    Process story =
        RUN("/bin/sh", "-c", "cp models/stories.bin \"$VERBATIM_MODELS/With a space.bin\"");
    assert_int_equal(story.status, 0);
    process_free(&story);
    static const char *const bins[] = {"mine/Tiny-One.bin", "mine/tiny-two.bin"};
    for (size_t i = 0; i < 2; i++) {
        bin = fixture_path(home, bins[i]);
        Process p = RUN("export", "--random", "tiny", bin, "-q", "-t", "q8");
        assert_int_equal(p.status, 0);
        process_free(&p);
        free(bin);
    }
    make_gguf(".ollama/models/blobs/sha256-" DIGEST);
    Fixture fixture = fixture_load("llama-gqa");
    char *source = fixture_source(&fixture), *move = NULL;
    fixture_free(&fixture);
    assert_true(asprintf(&move,
                         "cp '%s'/* .cache/huggingface/hub/models--Org--Name-1B/snapshots/ff",
                         source) > 0);
    if (source[0] != '/') {
        char *from = realpath(source, NULL);
        free(move);
        assert_true(asprintf(&move,
                             "cp '%s'/* .cache/huggingface/hub/models--Org--Name-1B/"
                             "snapshots/ff",
                             from) > 0);
        free(from);
    }
    free(shell(move));
    free(move);
    fixture_remove_directory(source);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(shell("rm -rf mine .ollama .cache"));
    fixture_remove_directory(home);
    return 0;
}

/* The line of a list that begins with this name; fails when there is none. */
static char *line_of(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, name, n) == 0 && at[n] == ' ') return strndup(at, strcspn(at, "\n"));
    fail_msg("no '%s' in:\n%s", name, list);
    return NULL;
}

static void the_list_says_what_runs_and_changes_nothing(void **state) {
    (void)state;
    static const struct {
        const char *name, *says, *place;
    } lines[] = {{"Tiny-One", " q8 ", "VERBATIM_MODELS"},
                 {"broken", "does not run: ", "VERBATIM_MODELS"},
                 {"Org/Name-1B", " F32 ", "Hugging Face"},
                 {"small:latest", " F16 ", "ollama"},
                 {"stories", " q8 ", "comes with this program"}};
    char *before = shell("find . -ls");
    Process p = RUN("run", "--list");
    if (p.status) fail_msg("%s", p.err);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *line = line_of(p.out, lines[i].name);
        if (!strstr(line, lines[i].says) || !strstr(line, lines[i].place)) fail_msg("%s", line);
        free(line);
    }
    assert_true(strncmp(p.out, "MODEL ", 6) == 0); /* columns have names */
    assert_non_null(strstr(p.out, " SIZE  TYPE     WHERE\n"));
    assert_null(strstr(p.out, "notes"));
    assert_null(strstr(strstr(p.out, "Tiny-One ") + 1, "Tiny-One "));
    assert_null(strstr(p.out, "evil"));
    assert_non_null(strstr(p.out, "MiB in 0 conversions"));
    process_free(&p);
    char *after = shell("find . -ls");
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* Tab completes the names that --list has, of those models that run. */
static void names_are_completed(void **state) {
    (void)state;
    static const struct {
        const char *typed, *offers;
    } cases[] = {{"tiny", "Tiny-One\ntiny-two\n"}, {"org/", "Org/Name-1B\n"}, {"broke", ""}};
    char *command = program_command("run");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *script = NULL;
        assert_true(asprintf(&script,
                             "run() { %s \"$@\"; }; source docs/completions/verbatim.bash; "
                             "COMP_WORDS=(run %s); COMP_CWORD=1; _verbatim 2>/dev/null; "
                             "for w in \"${COMPREPLY[@]}\"; do echo \"$w\"; done | sort",
                             command, cases[i].typed) > 0);
        Process p = RUN("/bin/bash", "-c", script);
        assert_string_equal(p.out, cases[i].offers);
        process_free(&p);
        free(script);
    }
    free(command);
}

/* zsh asks for the list in the same way, and compares what was typed by itself. */
static void zsh_completes_names(void **state) {
    (void)state;
    if (access("/bin/zsh", X_OK) != 0) {
        print_message("zsh is not installed: skipped\n");
        skip();
    }
    char *command = program_command("run"), *script = NULL;
    assert_true(asprintf(&script,
                         "run() { %s \"$@\"; }; _arguments() { }; _files() { print files; }; "
                         "compadd() { print -l -- \"${(@P)@[-1]}\" | sort; }; words=(run ti); "
                         "source docs/completions/_verbatim; _verbatim_models",
                         command) > 0);
    Process p = RUN("/bin/zsh", "-f", "-c", script);
    assert_non_null(strstr(p.out, "Org/Name-1B\n"));
    assert_non_null(strstr(p.out, "Tiny-One\n"));
    assert_null(strstr(p.out, "roke"));
    assert_true(strcmp(p.out + strlen(p.out) - 6, "files\n") == 0);
    process_free(&p);
    free(script);
    free(command);
}

/* Expects --info to open the file whose path ends so. */
static void opens(const char *name, const char *path) {
    Process p = RUN("run", name, "--info");
    if (p.status) fail_msg("%s: %s", name, p.err);
    const char *at = strstr(p.out, path);
    if (!at || at > strchr(p.out, '\n')) fail_msg("%s: %.200s", name, p.out);
    process_free(&p);
}

static void a_name_is_enough_where_one_model_has_it(void **state) {
    (void)state;
    opens("Tiny-One", "mine/Tiny-One.bin,");
    opens("tiny-two", "mine/tiny-two.bin,");
    opens("with a space", "mine/With a space.bin,");
    opens("Org/Name-1B", "snapshots/ff,");
    opens("name-1b", "snapshots/ff,");
    opens("name", "snapshots/ff,");
    opens("small", "sha256-" DIGEST ",");
    opens("small:latest", "sha256-" DIGEST ",");
    Process p = RUN("run", "tiny", "-n", "2");
    PROCESS_SAYS(p, 1, "tiny: several models have this name: Tiny-One, tiny-two");
    static const char *const almost[][2] = {{"tinyone", "Tiny-One"},
                                            {"name-1", "Org/Name-1B"},
                                            {"Tiny-One.gguf", "Tiny-One"},
                                            {"smal", "small:latest"}};
    for (size_t i = 0; i < 4; i++) {
        char *says = NULL;
        assert_true(asprintf(&says, "no file is called '%s'; did you mean the model %s?",
                             almost[i][0], almost[i][1]) > 0);
        p = RUN("run", almost[i][0]);
        assert_int_equal(p.status, 1);
        if (!strstr(p.err, says)) fail_msg("%s", p.err);
        free(says);
        if (i < 3) process_free(&p);
    }
    process_free(&p);
    p = RUN("run", "nam", "-n", "2");
    PROCESS_SAYS(p, 1, "no file is called 'nam'");
    p = RUN("export", "tiny-two", "/dev/null/x", "-q");
    assert_null(strstr(p.err, "tiny-two: No such file"));
    process_free(&p);
    p = RUN("bench", "tiny-two", "--decode", "16777216"); /* the model is open, nothing measured */
    PROCESS_SAYS(p, 1, "steps more do not fit the context of ");
}

/* A model that was pulled brings its manifest, which may be a stranger's. */
static void manifests_are_parsed_without_rights(void **state) {
    static const char *const words[][4] = {{"run", "--list"}, {"run", "small", "--info"}};
    (void)state;
    if (ADDRESS_SANITIZER) skip(); /* without a sandbox */
    char *shim = build_path("tests/faults.so");
    setenv("LD_PRELOAD", shim, 1);
    setenv("VERBATIM_JSON_RIGHTS", "1", 1);
    for (size_t i = 0; i < 2; i++) {
        Process p = process_run(words[i], NULL, 0);
        assert_int_equal(p.status, 0);
        assert_non_null(strstr(p.out, i == 0 ? "small:latest" : "sha256-" DIGEST));
        if (strstr(p.err, "with all rights")) fail_msg("%s: %s", words[i][1], p.err);
        process_free(&p);
    }
    unsetenv("LD_PRELOAD");
    unsetenv("VERBATIM_JSON_RIGHTS");
    free(shim);
}

/* What a pulled model came with and is not read is named: ollama's manifest of a Modelfile with
 * PARAMETER, SYSTEM, MESSAGE and ADAPTER (server/images.go of ollama names these types). */
static void what_ollama_gives_a_model_and_is_not_taken_is_named(void **state) {
    (void)state;
    static const char *const layers[] = {"model",  "template", "license", "params",
                                         "system", "messages", "adapter"};
    char manifest[2000] = "";
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        snprintf(manifest + strlen(manifest), sizeof manifest - strlen(manifest),
                 "%s{\"mediaType\": \"application/vnd.ollama.image.%s\", \"digest\": "
                 "\"sha256:" DIGEST "\"}",
                 i ? ", " : "{\"layers\": [", layers[i]);
    strcat(manifest, "]}");
    free(shell("mkdir .ollama/models/manifests/registry.ollama.ai/library/layered"));
    char *path =
        fixture_path(home, ".ollama/models/manifests/registry.ollama.ai/library/layered/latest");
    file_write(path, manifest, strlen(manifest));
    Process p = RUN("run", "layered", "--info"), plain = RUN("run", "small", "--info");
    assert_int_equal(p.status, 0);
    if (!strstr(p.err, "not taken from ollama's first messages, adapter")) fail_msg("%s", p.err);
    assert_null(strstr(plain.err, "not taken"));
    process_free(&p);
    process_free(&plain);
    free(path);
    free(shell("rm -r .ollama/models/manifests/registry.ollama.ai/library/layered"));
}

static void a_conversion_is_named_with_its_source(void **state) {
    (void)state;
    Process p = RUN("run", "name", "--verify");
    assert_int_equal(p.status, 0);
    process_free(&p);
    p = RUN("run", "--cache-list");
    if (!strstr(p.out, "  of ")) {
        process_free(&p);
        print_message("the file system keeps no attributes: skipped\n");
        skip();
    }
    assert_non_null(strstr(p.out, "snapshots/ff\n"));
    process_free(&p);
    free(shell("touch .cache/huggingface/hub/models--Org--Name-1B/snapshots/ff/config.json"));
    p = RUN("run", "--cache-list");
    assert_non_null(strstr(p.out, "snapshots/ff, which has changed since\n"));
    process_free(&p);
    free(shell("rm -r .cache/huggingface"));
    p = RUN("run", "--list");
    assert_non_null(strstr(p.out, "snapshots/ff, which is gone\n"));
    process_free(&p);
    p = RUN("run", "tiny-two", "--type", "q4", "--verify");
    assert_int_equal(p.status, 0);
    process_free(&p);
    p = RUN("run", "--cache-clear", "other");
    PROCESS_SAYS(p, 1, "no conversion is called other");
    p = RUN("run", "--cache-clear", "ff");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "in 1 conversion deleted"));
    process_free(&p);
    p = RUN("run", "--cache-list");
    assert_non_null(strstr(p.out, "MiB in 1 conversion:"));
    assert_non_null(strstr(p.out, "  q4    tiny-two-"));
    process_free(&p);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_says_what_runs_and_changes_nothing),
        cmocka_unit_test(names_are_completed),
        cmocka_unit_test(zsh_completes_names),
        cmocka_unit_test(a_name_is_enough_where_one_model_has_it),
        cmocka_unit_test(manifests_are_parsed_without_rights),
        cmocka_unit_test(what_ollama_gives_a_model_and_is_not_taken_is_named),
        cmocka_unit_test(a_conversion_is_named_with_its_source),
    };
    return cmocka_run_group_tests_name("names", tests, set_up, tear_down);
}
