/* ./get, which brings models from the Hugging Face hub: beside a hub of ours on this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixture.h"
#include "hub_server.h"
#include "process.h"

static char *home; /* absolute; with hub/ (what the server has), cache/ and log */
static HubServer server;

/* Runs a shell command in the home directory, with the cache and the server in its environment. */
static Process shell(const char *command) {
    char *whole = NULL, *start = getcwd(NULL, 0);
    assert_true(
        asprintf(
            &whole,
            "cd '%s' && export HF_HUB_CACHE=\"$PWD/cache\" HF_ENDPOINT=%s HOME=\"$PWD\" "
            "VERBATIM_GET_PAUSE=0 VERBATIM_FREE_MEMORY=2000000000 get='%s/get'; unset HF_TOKEN; "
            "%s",
            home, server.address, start, command) > 0);
    Process p = RUN("/bin/sh", "-c", whole);
    free(whole);
    free(start);
    return p;
}

static void prepare(const char *command) {
    Process p = shell(command);
    if (p.status) fail_msg("%s: %s", command, p.err);
    process_free(&p);
}

static bool can_run(void) {
    Process p = RUN("/bin/sh", "-c",
                    "command -v curl >/dev/null && command -v flock >/dev/null && getent hosts "
                    "localhost | grep -q .");
    bool all = p.status == 0;
    process_free(&p);
    return all;
}

static int set_up(void **state) {
    (void)state;
    if (!can_run()) return 0;
    char *directory = fixture_directory(), *root, *log, *copy = NULL;
    home = realpath(directory, NULL);
    free(directory);
    root = fixture_path(home, "hub");
    log = fixture_path(home, "log");
    Fixture fixture = fixture_load("llama-gqa");
    char *source = fixture_source(&fixture), *from = realpath(source, NULL);
    fixture_free(&fixture);
    server = hub_server_start(root, log);
    assert_true(
        asprintf(&copy,
                 "mkdir -p hub/Org/tiny cache && cp '%s'/* hub/Org/tiny && cd hub/Org/tiny && "
                 "printf '{}\\n' >generation_config.json && echo not wanted >README.md && "
                 "echo not wanted >pytorch_model.bin && cd .. && "
                 "for f in cut mute wrong whole gated busy short portal stump crumbs endless flood "
                 "nested round glob closed ftp planted spelled size-float size-octal size-huge "
                 "blank later never tomorrow long; do cp -r tiny $f; done && : "
                 ">busy/merges.txt && "
                 "mkdir quants pickle one && echo x >pickle/pytorch_model.bin && "
                 "head -c 700 /dev/zero >one/One-Q8_0.gguf && cd quants && "
                 "truncate -s 3000000000 Q-BF16.gguf; rm Q-BF16.gguf; "
                 "head -c 900 /dev/zero >Q-Q8_0.gguf && head -c 500 /dev/zero >Q-Q4_K_M.gguf && "
                 "head -c 400 /dev/zero >Q-Q4_K_S.gguf && head -c 99 /dev/zero >mmproj-Q.gguf && "
                 "head -c 800 /dev/zero >Q-BF16-00001-of-00002.gguf && "
                 "head -c 600 /dev/zero >Q-BF16-00002-of-00002.gguf",
                 from) > 0);
    prepare(copy);
    free(copy);
    free(from);
    fixture_remove_directory(source);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (!home) return 0;
    hub_server_stop(&server);
    prepare("rm -rf hub cache log* escaped* empty other");
    fixture_remove_directory(home);
    return 0;
}

#define NEEDS_CURL()                                                                               \
    if (!home) {                                                                                   \
        print_message("no curl, flock or "                                                         \
                      "localhost here\n");                                                         \
        skip();                                                                                    \
    }

static void expect_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);
}

/* Runs a command that fails with this status and says this in a line. */
static void expect_failure(const char *command, int status, const char *message) {
    Process p = shell(command);
    if (p.status != status || !strstr(p.err, message))
        fail_msg("%s\nstatus %d, expected %d and '%s':\n%s", command, p.status, status, message,
                 p.err);
    process_free(&p);
}

static void expect_success(const char *command) {
    Process p = shell(command);
    if (p.status) fail_msg("%s\nstatus %d:\n%s%s", command, p.status, p.out, p.err);
    process_free(&p);
}

/* How often the server was asked for files with this text in their line of the log. */
static int asked_for(const char *text) {
    char *command = NULL;
    assert_true(asprintf(&command, "grep -c -- '%s' log || true", text) > 0);
    Process p = shell(command);
    int n = atoi(p.out);
    process_free(&p);
    free(command);
    return n;
}

static void a_directory_comes_once_and_runs_by_its_name(void **state) {
    (void)state;
    NEEDS_CURL();
    Process p = shell("$get Org/tiny");
    if (p.status) fail_msg("%s", p.err);
    assert_string_equal(p.out, "./run Org/tiny -m chat\n");
    process_free(&p);
    /* what a run reads, in the hub's layout, with links that stay within it */
    expect_success("cd cache/models--Org--tiny && test $(cat refs/main) = " HUB_REVISION
                   " && cd snapshots/" HUB_REVISION " && cmp model.safetensors "
                   "../../../../hub/Org/tiny/model.safetensors && cmp config.json "
                   "../../../../hub/Org/tiny/config.json && test ! -e README.md && "
                   "test ! -e pytorch_model.bin && "
                   "test $(readlink generation_config.json) = ../../blobs/" HUB_EMPTY_OBJECT);
    int before = asked_for("Org/tiny");
    expect_success("$get Org/tiny && $get https://huggingface.co/Org/tiny");
    assert_int_equal(asked_for("Org/tiny"), before);
    char *start = getcwd(NULL, 0), *hub = fixture_path(home, "cache");
    setenv("HF_HUB_CACHE", hub, 1);
    p = RUN("run", "Org/tiny", "--info");
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
    unsetenv("HF_HUB_CACHE");
    free(hub);
    free(start);
}

/* On a machine that has nothing but the program: the line that ./get prints is run as it is. The
 * time of the whole is printed. */
static void a_fresh_machine_gets_an_answer(void **state) {
    (void)state;
    NEEDS_CURL();
    char *start = getcwd(NULL, 0), *program = program_command("run"), *command = NULL;
    struct timespec from, to;
    prepare("cp -r hub/Org/tiny hub/Org/talk && cd hub/Org/talk && "
            "printf '{{ messages[-1].content }}' >chat_template.jinja && "
            "awk 'BEGIN { printf \"{\\\"model\\\":{\\\"type\\\":\\\"BPE\\\",\\\"vocab\\\":{\"; "
            "for (i = 0; i < 203; i++) printf \"%s\\\"%s\\\":%d\", i ? \",\" : \"\", "
            "i < 26 ? sprintf(\"%c\", 97 + i) : \"w\" i, i; "
            "print \"},\\\"merges\\\":[]}}\" }' >tokenizer.json");
    assert_true(asprintf(&command,
                         "mkdir other && export HF_HUB_CACHE=\"$PWD/other/hub\" "
                         "XDG_CACHE_HOME=\"$PWD/other/cache\" && line=$($get Org/talk) && "
                         "test \"$line\" = './run Org/talk -m chat' && cd '%s' && "
                         "echo hello | %s ${line#./run} -n 4",
                         start, program) > 0);
    clock_gettime(CLOCK_MONOTONIC, &from);
    Process p = shell(command);
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (p.status || p.out_length < 3) fail_msg("%d: %s%s", p.status, p.out, p.err);
    expect_text(p.err, "converting");
    print_message("from ./get to the end of an answer: %.2f s\n",
                  (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    process_free(&p);
    prepare("rm -r other");
    free(command), free(program), free(start);
}

static void names_of_a_stranger_write_nothing_outside(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_success("$get Org/tiny && test -z \"$(find . .. -maxdepth 3 -name 'escaped*')\"");
    expect_failure("$get Org/planted", 1, "$(touch escaped).json was not fetched: a name with");
    expect_success("test -z \"$(find . .. -maxdepth 3 -name 'escaped*')\" && cmp hub/Org/tiny/"
                   "model.safetensors cache/models--Org--planted/snapshots/" HUB_REVISION
                   "/model.safetensors");
}

/* What the hub lists and ./get cannot take is named, and the status is 1. */
static void what_is_left_out_is_named(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_failure("$get Org/planted", 1, "escaped.json was not fetched: no sum is listed");
    const char *const sizes[][2] = {{"float", "1000.0"}, /* of each: the model, its size's words */
                                    {"octal", "008"},
                                    {"huge", "9223372036854775808"}};
    for (size_t i = 0; i < 3; i++) {
        char *command = NULL, *message = NULL;
        assert_true(asprintf(&command, "$get Org/size-%s", sizes[i][0]) > 0);
        assert_true(asprintf(&message, "config.json was not fetched: its listed size, %s, is no",
                             sizes[i][1]) > 0);
        expect_failure(command, 1, message);
        free(command), free(message);
    }
    /* other spellings of a sum are the same sum */
    expect_success("$get Org/spelled && cmp hub/Org/tiny/model.safetensors cache/"
                   "models--Org--spelled/snapshots/" HUB_REVISION "/model.safetensors");
    /* a part of the weights: nothing is begun */
    prepare("cd hub/Org/blank && head -c 50 model.safetensors >'model-00001-of-00002.safetensors' "
            "&& head -c 60 model.safetensors >'model-00002-of-00002 .safetensors' && "
            "rm model.safetensors");
    expect_failure("$get Org/blank", 1, "the hub's list has 1 of the 2 parts of model-of-00002");
    expect_success("test ! -e cache/models--Org--blank");
    prepare("cd hub/Org/blank && mv 'model-00002-of-00002 .safetensors' 'model 2.safetensors' && "
            "mv model-00001-of-00002.safetensors model.safetensors");
    expect_failure("$get Org/blank", 1,
                   "model 2.safetensors: a name with characters that are not "
                   "taken; nothing was fetched");
}

#define TINY "cache/models--Org--tiny"
#define WEIGHTS TINY "/snapshots/" HUB_REVISION "/model.safetensors"

/* A file is not right because its name is there: its size and its sum are looked at, once. */
static void what_is_there_is_checked(void **state) {
    (void)state;
    NEEDS_CURL();
    const char *whole = "$get Org/tiny && cmp hub/Org/tiny/model.safetensors " WEIGHTS;
    expect_success(whole);
    prepare("truncate -s 100 \"$(realpath " WEIGHTS ")\"");
    expect_failure("$get Org/tiny; s=$?; test $s = 0 && exit 3", 3, "(100 B, and ");
    expect_success(whole);
    /* one byte is another, and the time is what it was */
    prepare("f=$(realpath " WEIGHTS ") && cp -p $f old && printf x | "
            "dd of=$f bs=1 seek=99 conv=notrunc 2>/dev/null && touch -r old $f && rm old");
    expect_failure("$get Org/tiny; s=$?; test $s = 0 && exit 3", 3, "its sum differs");
    expect_success(whole);
    /* an edited file is not lost */
    prepare("echo mine >\"$(realpath " TINY "/snapshots/" HUB_REVISION "/config.json)\"");
    expect_success("$get Org/tiny && grep -q mine " TINY "/blobs/*.damaged*");
    /* a copy in the place of a link; a link that leads nowhere, or to another file */
    expect_success("f=" WEIGHTS " && cp $f copy && rm $f && mv copy $f && $get Org/tiny && "
                   "test ! -L $f && echo other >$f && $get Org/tiny && test -L $f && "
                   "grep -q other $f.damaged && ln -sf nowhere $f && $get Org/tiny && "
                   "ln -sf ../../../../log $f && $get Org/tiny && "
                   "cmp hub/Org/tiny/model.safetensors $f && test -s log");
    /* no sum is computed twice */
    prepare("mkdir -p other && printf '#!/bin/sh\necho summed >>$HOME/sums\nexec %s\n' "
            "\"$(command -v sha256sum)\" >other/sha256sum && chmod +x other/sha256sum");
    expect_success("export PATH=\"$PWD/other:$PATH\" && $get Org/tiny && test ! -e sums && "
                   "touch \"$(realpath " WEIGHTS ")\" && $get Org/tiny && "
                   "test $(wc -l <sums) = 1 && $get Org/tiny && test $(wc -l <sums) = 1; s=$?; "
                   "rm -rf other sums; exit $s");
}

/* Brings a model, and counts what the server was asked meanwhile. message NULL: it comes. */
static void expect_bounded(const char *model, const char *message, int most_connections) {
    char *command = NULL;
    assert_true(asprintf(&command, "timeout -k 1 60 $get Org/%s", model) > 0);
    prepare(": >log.connections");
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (message)
        expect_failure(command, 1, message);
    else
        expect_success(command);
    free(command);
    clock_gettime(CLOCK_MONOTONIC, &to);
    Process p = shell("grep -c . log.connections; du -sk cache | cut -f 1");
    int connections = atoi(p.out), kilobytes = atoi(strchr(p.out, '\n') + 1);
    process_free(&p);
    if (connections > most_connections)
        fail_msg("%s: %d connections, expected at most %d", model, connections, most_connections);
    /* only listed files are on the disk, and the server could not make it wait longer */
    assert_in_range(kilobytes, 0, 20000);
    assert_in_range(to.tv_sec - from.tv_sec, 0, 50);
}

/* Each of these servers would have ./get go on for ever, or until the disk is full. */
static void no_server_keeps_it_busy(void **state) {
    (void)state;
    NEEDS_CURL();
    prepare("for f in short portal stump crumbs endless; do rm hub/Org/$f/generation_config.json; "
            "done");
    /* 3 questions, then 2 connections for each of 5 tries */
    expect_bounded("short", "and sends ", 25);
    expect_bounded("portal", "and sends 20 B", 25);
    expect_bounded("stump", "does not go on in the middle of a file", 25);
    expect_bounded("crumbs", "ends again and again; the same command goes on", 25);
    expect_bounded("endless", "more than the listed", 10);
    expect_bounded("flood", "an answer of more than 32 MB", 10);
    expect_bounded("nested", "the hub's list of files is broken", 10);
    expect_bounded("round", "the hub's list of files has no end", 60);
    expect_bounded("closed", "asks to be left alone for 86400 seconds", 10);
    expect_bounded("glob", NULL, 20);
}

/* Redirects and addresses are restricted to the protocol of the hub; a hub by https does not lead
 * to http. */
static void no_other_protocol_is_followed(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_bounded("ftp", "Protocol \"ftp\"", 5);
    expect_failure("HF_ENDPOINT=file:///etc $get Org/tiny", 1, "begins with https:// or http://");
    prepare("mkdir -p other && printf '#!/bin/sh\ncat >>$HOME/options\nexit 3\n' >other/curl && "
            "chmod +x other/curl");
    expect_success("PATH=\"$PWD/other:$PATH\" HF_ENDPOINT=https://127.0.0.1:9 $get Org/tiny; "
                   "grep -qx 'proto = \"=https\"' options && "
                   "grep -qx 'proto-redir = \"=https\"' options && grep -qx globoff options; s=$?; "
                   "rm -rf other options; exit $s");
}

/* In a cache that others can write to, what they planted is not written through. */
static void planted_links_are_not_written_through(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_success(
        "rm -rf " TINY " && mkdir -p " TINY "/blobs " TINY "/refs cache/.locks && "
        "sum=$(sha256sum <hub/Org/tiny/model.safetensors | cut -c -64) && echo mine >victim && "
        "ln -s ../../../victim " TINY "/blobs/$sum.incomplete && ln -s ../../../victim " TINY
        "/refs/main && ln -s ../../victim cache/.locks/models--Org--tiny.verbatim-get && "
        "$get Org/tiny && test \"$(cat victim)\" = mine && cmp "
        "hub/Org/tiny/model.safetensors " WEIGHTS " && test ! -L " TINY
        "/refs/main; s=$?; rm victim; exit $s");
    if (geteuid() != 0) return; /* only root can make another's links */
    expect_failure("rm -rf " TINY " && mkdir " TINY " elsewhere && ln -s ../../elsewhere " TINY
                   "/blobs && chown -h 12345 " TINY "/blobs && $get Org/tiny",
                   1, "a link of another user, which is not followed");
    expect_success("test -z \"$(ls elsewhere)\" && rm -r elsewhere " TINY);
}

static void a_download_that_breaks_off_goes_on(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_success("$get Org/cut && cmp hub/Org/tiny/model.safetensors cache/models--Org--cut/"
                   "snapshots/" HUB_REVISION "/model.safetensors");
    assert_int_equal(asked_for("Org/cut/model.safetensors 0$"), 1);
    assert_int_equal(asked_for("Org/cut/model.safetensors "), 3);
    expect_failure("$get Org/mute", 1, "ends again and again; the same command goes on");
    /* what another program left half done */
    expect_success("rm -rf cache/models--Org--tiny && mkdir -p cache/models--Org--tiny/blobs && "
                   "sum=$(sha256sum <hub/Org/tiny/model.safetensors | cut -c -64) && "
                   "head -c 1000 hub/Org/tiny/model.safetensors "
                   ">cache/models--Org--tiny/blobs/$sum.incomplete && $get Org/tiny");
    assert_int_equal(asked_for("Org/tiny/model.safetensors 1000$"), 1);
    /* a server without ranges, and half a file that was another's */
    expect_success("mkdir -p cache/models--Org--whole/blobs && "
                   "sum=$(sha256sum <hub/Org/tiny/model.safetensors | cut -c -64) && "
                   "head -c 1000 hub/Org/tiny/model.safetensors "
                   ">cache/models--Org--whole/blobs/$sum.incomplete && $get Org/whole");
}

/* A file's host that is busy is asked again when it wants to be (Retry-After, RFC 9110, 10.2.3), as
 * the hub's interface is; in seconds, and no longer than ./get is patient. */
static void a_busy_host_of_files_is_waited_for(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_success("from=$(date +%s%N) && $get Org/later 2>said && "
                   "test $(grep -c 'the hub asks to wait for 1 seconds' said) = 2 && "
                   "test $(($(date +%s%N) - from)) -ge 2000000000; s=$?; rm said; exit $s");
    expect_failure("$get Org/never", 1,
                   "are here, then the hub answers 503; the same command goes on");
    expect_failure("$get Org/tomorrow", 1,
                   "answers 503 and asks to be left alone for 86400 seconds");
}

static void what_came_wrong_is_removed(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_failure("$get Org/wrong", 1, "its sum differs");
    expect_success("test -z \"$(ls cache/models--Org--wrong/blobs)\"");
    expect_failure("cd / && $get Org/wrong/../tiny", 2, "is no model's name");
}

static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    NEEDS_CURL();
    /* a limit on the size of files stands for the disk */
    expect_failure("mkdir other && export HF_HUB_CACHE=$PWD/other && trap '' XFSZ && "
                   "ulimit -f 4 && $get Org/tiny",
                   1, "cannot be written");
    expect_success("export HF_HUB_CACHE=$PWD/other && $get Org/tiny && cmp hub/Org/tiny/"
                   "model.safetensors other/models--Org--tiny/snapshots/" HUB_REVISION
                   "/model.safetensors");
}

static void a_token_goes_to_the_hub_alone(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_failure("$get Org/gated", 1, "accept its terms at");
    expect_failure("HF_TOKEN=hf_other $get Org/gated", 1, "does not let this token");
    expect_failure("HF_TOKEN='a\"b' $get Org/gated", 1, "characters that no token has");
    expect_success("HF_TOKEN=hf_secret $get Org/gated");
    expect_success("rm -rf cache/models--Org--gated && mkdir -p .cache/huggingface && "
                   "echo hf_secret >.cache/huggingface/token && $get Org/gated; s=$?; "
                   "rm -r .cache; exit $s");
}

static void what_is_not_there_is_said(void **state) {
    (void)state;
    NEEDS_CURL();
    expect_failure("$get Org/tiyn", 1, "no such model on the hub; near: Org/tiny, Org/tiny-2");
    expect_failure("$get --revision v9 Org/tiny", 1, "no revision 'v9'");
    expect_failure("$get Org/long", 1, "the hub's answer names no revision"); /* of 41 digits */
    expect_failure("$get Org/pickle", 1, "neither safetensors nor GGUF files, only such as");
    expect_failure("$get tiny", 2, "the hub's names are ORG/NAME");
    expect_failure("$get https://example.com/x.gguf", 2,
                   "'https://example.com/x.gguf': only models of the hub are brought: ORG/NAME");
    expect_failure("$get", 2, "ORG/NAME");
    expect_failure("$get --frobnicate Org/tiny", 2, "unknown option");
    expect_failure("HF_ENDPOINT=http://127.0.0.1:9 $get Org/tiny", 1, "127.0.0.1:9: ");
    expect_success("$get Org/busy && test ! -s cache/models--Org--busy/snapshots/" HUB_REVISION
                   "/merges.txt"); /* an empty file is there as well */
}

static void one_of_several_files_is_chosen(void **state) {
    (void)state;
    NEEDS_CURL();
    Process p = shell("$get Org/quants");
    assert_int_equal(p.status, 2);
    expect_text(p.err, "there is a choice");
    expect_text(p.err, "fits       Org/quants:Q-Q4_K_M.gguf");
    expect_text(p.err, "Org/quants:Q-BF16.gguf  (2 parts)");
    expect_text(p.err, "the largest that fits: ");
    assert_null(strstr(p.err, "mmproj"));
    process_free(&p);
    p = shell("VERBATIM_FREE_MEMORY=300000000 $get --list Org/quants");
    assert_int_equal(p.status, 0);
    expect_text(p.out, "too large  Org/quants:Q-Q8_0.gguf");
    process_free(&p);
    expect_failure("$get Org/quants:Q5_K_M", 1, "has no GGUF file 'Q5_K_M'");
    expect_failure("$get Org/quants:Q", 2, "a part of several names");
    expect_success("test \"$($get Org/quants:q4_k_m)\" = './run Org/quants/Q-Q4_K_M -m chat'");
    expect_success(
        "$get Org/quants:Q-BF16.gguf && cd cache/models--Org--quants/snapshots/" HUB_REVISION
        " && test \"$(ls | tr '\\n' ' ')\" = 'Q-BF16-00001-of-00002.gguf "
        "Q-BF16-00002-of-00002.gguf Q-Q4_K_M.gguf '");
    expect_success("test \"$($get https://huggingface.co/Org/quants/blob/main/Q-Q8_0.gguf)\" = "
                   "'./run Org/quants/Q-Q8_0 -m chat'");
    expect_success("test \"$($get Org/one)\" = './run Org/one/One-Q8_0 -m chat'");
}

static void two_at_once_bring_it_once(void **state) {
    (void)state;
    NEEDS_CURL();
    int before = asked_for("Org/tiny/model.safetensors 0$");
    expect_success(
        "rm -rf cache/models--Org--tiny && { $get Org/tiny & $get Org/tiny && wait $!; }");
    assert_int_equal(asked_for("Org/tiny/model.safetensors 0$"), before + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_comes_once_and_runs_by_its_name),
        cmocka_unit_test(a_fresh_machine_gets_an_answer),
        cmocka_unit_test(names_of_a_stranger_write_nothing_outside),
        cmocka_unit_test(what_is_left_out_is_named),
        cmocka_unit_test(what_is_there_is_checked),
        cmocka_unit_test(no_server_keeps_it_busy),
        cmocka_unit_test(no_other_protocol_is_followed),
        cmocka_unit_test(planted_links_are_not_written_through),
        cmocka_unit_test(a_download_that_breaks_off_goes_on),
        cmocka_unit_test(a_busy_host_of_files_is_waited_for),
        cmocka_unit_test(what_came_wrong_is_removed),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(a_token_goes_to_the_hub_alone),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(one_of_several_files_is_chosen),
        cmocka_unit_test(two_at_once_bring_it_once),
    };
    return cmocka_run_group_tests_name("get", tests, set_up, tear_down);
}
