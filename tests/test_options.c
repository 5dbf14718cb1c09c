#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <glob.h>

#include "modes/batch/batch_options.h"
#include "modes/open/conversion_options.h"
#include "modes/modes.h"

/* Parses a command line, whose first word is "run". */
static Status parse(Options *options, Error *error, char **argv) {
    int argc = 0;
    while (argv[argc]) argc++;
    Status status = options_parse(options, &modes_options, argc, argv, error);
    const Mode *mode;
    if (status == STATUS_OK) status = mode_choose(modes, options, &mode, error);
    return status;
}
#define PARSE(...) parse(&o, &error, (char *[]){"run", __VA_ARGS__, NULL})

/* Expects the command line to be refused with exactly this message. */
#define REFUSES(message, ...)                                                                      \
    do {                                                                                           \
        assert_int_equal(PARSE(__VA_ARGS__), STATUS_USAGE);                                        \
        assert_string_equal(error.text, message);                                                  \
    } while (0)

static void short_options_are_those_of_llama2c(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("m.bin", "-t", "0.5", "-p", "0.8", "-s", "7", "-n", "20", "-i", "Hi",
                           "-z", "tok.bin", "-m", "chat", "-y", "Be kind"),
                     STATUS_OK);
    assert_string_equal(o.model, "m.bin");
    assert_true(o.temperature == 0.5 && o.top_p == 0.8 && o.seed == 7 && o.n_tokens == 20);
    assert_string_equal(o.prompt, "Hi");
    assert_string_equal(conversion_options(&o)->tokenizer, "tok.bin");
    assert_string_equal(o.system, "Be kind");
    assert_int_equal(o.mode, TEXT_CHAT);
}

static void long_options_take_their_value_either_way(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("--temperature=0.25", "--top-k", "40", "m.bin", "-j4", "--stop", "a",
                           "--stop=b", "--kv-type", "f16"),
                     STATUS_OK);
    assert_true(o.temperature == 0.25 && o.top_k == 40 && o.n_threads == 4);
    assert_int_equal(o.stop.n, 2);
    assert_string_equal(o.stop.items[1], "b");
    assert_int_equal(o.kv_type, KV_CHOICE_F16);
    assert_true(options_given(&o, &o.temperature));
    assert_false(options_given(&o, &o.top_p));
    assert_true(o.top_p == 0.9);
}

static void a_copy_is_asked_like_the_original(void **state) {
    (void)state;
    Options o, copy;
    Error error;
    assert_int_equal(PARSE("m.bin", "--special", "--batch", "r.jsonl", "--ordered"), STATUS_OK);
    options_copy(&copy, &o);
    /* Nothing of the copy is read from the original. */
    memset(&o, 0, sizeof o);
    assert_true(options_given(&copy, &copy.special));
    assert_false(options_given(&copy, &copy.top_p));
    assert_true(options_ask(&copy, "ordered") && batch_options(&copy)->ordered);
    assert_string_equal(options_text(&copy, "batch"), "r.jsonl");
    /* What is changed in the copy is what it is asked for. */
    batch_options_to_set(&copy)->ordered = false;
    copy.special = false;
    assert_false(options_ask(&copy, "ordered") || options_ask(&copy, "special"));
    assert_null(o.tables[0].rows);
}

static void a_prompt_may_begin_with_a_dash(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("m.bin", "-i", "-"), STATUS_OK);
    assert_string_equal(o.prompt, "-");
    assert_int_equal(PARSE("m.bin", "-i", "- milk"), STATUS_OK);
    assert_string_equal(o.prompt, "- milk");
    assert_int_equal(PARSE("m.bin", "--prompt=--stats"), STATUS_OK);
    assert_string_equal(o.prompt, "--stats");
    assert_int_equal(PARSE("--", "-m.bin"), STATUS_OK);
    assert_string_equal(o.model, "-m.bin");
}

static void a_mistyped_option_suggests_the_right_one(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("no option --temprature; did you mean --temperature X?", "m", "--temprature", "1");
    REFUSES("no option --temp; did you mean --temperature X?", "m", "--temp", "1");
    REFUSES("no option --top_k; did you mean --top-k N?", "m", "--top_k", "1");
    REFUSES("no option -temperature; did you mean --temperature X?", "m", "-temperature", "1");
    REFUSES("no option --n-predict; did you mean --tokens N?", "m", "--n-predict", "1");
    REFUSES("no option --state; did you mean --stats?", "m", "--state");
    REFUSES("no option --xyzzy; --help all lists them all", "m", "--xyzzy");
    REFUSES("no option --model: the model stands alone, run MODEL [options]", "--model", "m");
}

static void what_other_programs_call_it_is_told_in_one_line(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("-m is the mode; the model stands alone: "
            "test_options model.bin",
            "-m", "model.bin");
    REFUSES("-p is top-p; the prompt goes after -i: -i 'Once upon'", "m", "-p", "Once upon");
    REFUSES("-t is the temperature, and 4 is very hot (if it is meant: --temperature 4); threads: "
            "-j 4",
            "m", "-t", "4");
    assert_int_equal(PARSE("m", "--temperature", "4"), STATUS_OK);
    assert_int_equal(PARSE("m", "-t", "2.0"), STATUS_OK);
    assert_int_equal(PARSE("m", "-t1"), STATUS_OK);
    REFUSES("-n -1: up to the end of the context is -n 0", "m", "-n", "-1");
    REFUSES("--seed -1: without --seed a seed is drawn", "m", "--seed", "-1");
    REFUSES("-c 0: without -c the context is the model's", "m", "-c", "0");
    REFUSES("no option -cnv: to talk: -m chat", "m", "-cnv");
    REFUSES("no option -hf: nothing is downloaded here: ./get ORG/NAME first, then name it, "
            "ORG/NAME",
            "-hf", "a/b");
    REFUSES("no option -ngl: this program computes on the CPU alone: leave it out", "m", "-ngl",
            "99");
    REFUSES("no option --n-gpu-layers=99: this program computes on the CPU alone: leave it out",
            "m", "--n-gpu-layers=99");
    REFUSES("no option --max_new_tokens; did you mean --tokens N?", "m", "--max_new_tokens", "9");
    REFUSES("no option --json-schema-file: --json-schema @FILE reads the schema from a file", "m",
            "--json-schema-file", "s.json");
    REFUSES("no option --load-in-8bit: --type q8 converts the weights to 8 bits", "m",
            "--load-in-8bit");
    REFUSES("no option --mirostat: not among the samplers here, which are --top-k, -p and --min-p "
            "(docs/command-line.md)",
            "m", "--mirostat", "2");
    REFUSES("no option --help-all: every option: --help all", "--help-all");
    REFUSES("no option --list-devices: this program computes on the CPU alone: leave it out",
            "--list-devices");
    REFUSES("no option --reasoning-format: --hide-reasoning leaves out what the model thinks", "m",
            "--reasoning-format", "none");
    REFUSES(
        "no option -mli: a line of the chat that ends in \\ goes on; --single-turn takes all of "
        "stdin as one message",
        "m", "-mli");
    REFUSES("no option --force: results of --batch are never overwritten, a text's -o replaces its "
            "file: leave it out",
            "m", "--force");
    REFUSES("no option -st; did you mean --single-turn?", "m", "-st");
    REFUSES("no option -l: --logit-bias ID=X adds X to a token's logit; repeatable", "m", "-l",
            "15043+1");
    REFUSES("--json-schema Makefile: a file is read as --json-schema @Makefile", "m",
            "--json-schema", "Makefile");
    REFUSES("--json-schema none.json: no such file, and no schema; a file is read as --json-schema "
            "@FILE",
            "m", "--json-schema", "none.json");
    REFUSES("no option --nothink: a model answers at once with --reasoning off", "m", "--nothink");
    REFUSES(
        "no option --logprobs: --score table prints them; in a batch they are asked for by line",
        "m", "--logprobs", "5");
    REFUSES("no option --tools: a request of --batch has them, in its line: docs/batch.md", "m",
            "--tools", "x");
    REFUSES("no option --ppl; did you mean --eval FILE?", "m", "--ppl");
    REFUSES("no option --stop-token; did you mean --stop TEXT?", "m", "--stop-token", "x");
    REFUSES("no option --images: this program reads only text", "m", "--images", "x.png");
    REFUSES("no option -V; did you mean --version?", "-V");
    REFUSES("no option -i=Once; a value follows -i after a blank: -i Once", "-i=Once");
    REFUSES("no option --repeat-last-n: --repetition-penalty counts all tokens of prompt and text: "
            "leave it out",
            "m", "--repeat-last-n", "64");
    REFUSES("no option --n_ctx; did you mean --context N?", "m", "--n_ctx", "64");
    REFUSES("create: ./export SOURCE TARGET writes a model.bin", "create", "mine");
    REFUSES("--top-k -1: all tokens are --top-k 0, the default", "m", "--top-k", "-1");
    REFUSES("a schema goes after --json-schema, -j is the number of threads and --json takes none: "
            "--json-schema '{}'",
            "m", "--json", "{}");
    REFUSES("no option --concurrency; did you mean --max-concurrent N?", "--concurrency", "4");
    REFUSES("no option --num-threads; did you mean --threads N?", "--num-threads", "4");
    REFUSES("no option --check-tensors; did you mean --verify?", "--check-tensors");
    REFUSES("no option -?; did you mean --help?", "-?");
    REFUSES("no option -nkvo: this program computes on the CPU alone: leave it out", "-nkvo");
    REFUSES("no option --in-prefix: a chat's messages stand where the model's own template puts "
            "them: leave it out",
            "--in-prefix", " ");
    REFUSES("no option --chat-template-kwargs: a request of --batch has them, in its line: "
            "docs/batch.md",
            "--chat-template-kwargs", "{}");
    REFUSES("no option --offline: this program never opens a connection: leave it out",
            "--offline");
    REFUSES("no option --output-format: results of --batch are lines of JSON: leave it out",
            "--output-format", "json");
    REFUSES("no option -lv: versions: --version; speed and memory: --stats", "-lv", "1");
    REFUSES("no option --normalize; did you mean --embed-normalize auto|yes|no?", "--normalize");
    REFUSES("help: there are no commands: run --help lists the usual options", "help");
    REFUSES("one model at a time, but 'me' stands beside 'tell'; a prompt goes after -i, in "
            "quotes: run -i 'tell me ...'",
            "tell", "me", "a", "story");
    assert_int_equal(PARSE("m", "-o", "-"), STATUS_OK);
    assert_null(o.output);
    REFUSES("no option --control-vector: control vectors are not read; of adapters, LoRA: --lora "
            "NAME=PATH",
            "m", "--control-vector", "x");
    REFUSES("no option --lora-scaled; did you mean --lora NAME=PATH?", "m", "--lora-scaled", "x");
    REFUSES("show: there are no commands: run MODEL --info describes a model", "show", "llama3.2");
    REFUSES("list: there are no commands: run --list shows the models on this machine", "list");
    /* ollama's and llm's other words. */
    REFUSES("chat: there are no commands: run -m chat talks with the model that ships, run MODEL "
            "-m chat with another",
            "chat");
    REFUSES("stop: there are no commands: a model is in memory only while run answers", "stop",
            "x");
    REFUSES("cp: there are no commands: a model is a file, or a directory of files, for cp itself",
            "cp", "a", "b");
    REFUSES("serve: ./serve MODEL serves OpenAI's API on localhost; run MODEL --batch FILE answers "
            "many requests",
            "serve");
    REFUSES("no option --serve: ./serve MODEL serves OpenAI's API on localhost; --batch FILE "
            "answers many requests",
            "m", "--serve");
    REFUSES("no option --no-warmup: nothing is computed before the prompt: leave it out", "m",
            "--no-warmup");
    REFUSES("no option --top_p; did you mean --top-p X?", "m", "--top_p", "0.5");
    REFUSES("--batch-text names no file: --batch - --batch-text reads stdin", "--batch-text", "-");
    REFUSES(
        "run: there are no commands: run MODEL -m chat talks, run MODEL -i TEXT continues a text",
        "run", "llama3.2");
    /* Only what is near is suggested. */
    REFUSES("no option --xml; --help all lists them all", "m", "--xml");
    REFUSES("no option --exit; --help all lists them all", "m", "--exit");
}

static void a_missing_value_is_asked_for(void **state) {
    (void)state;
    Options o;
    Error error;
    /* Another row's help names these, so that they have none of their own. */
    REFUSES("--logits needs a value: --logits FILE", "m", "--batch", "b", "--logits");
    REFUSES("-i needs a value: -i TEXT (continue this text; - reads it from stdin)", "m", "-i");
    REFUSES("--top-k needs a value: --top-k N (sample among the N most likely tokens; 0: all [0])",
            "m", "--top-k", "--stats");
    REFUSES("--stats takes no value", "m", "--stats=1");
    REFUSES("-f is empty: it names a file", "m", "-f", "");
    REFUSES("--batch is empty: it names a file", "m", "--batch=");
    REFUSES("--session is empty: it names a file", "m", "-m", "chat", "--session", "");
}

static void numbers_out_of_range_are_refused(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("-t: -1 is out of range, it must be from 0 to 1000", "m", "-t", "-1");
    REFUSES("-j: 0 is out of range, it must be from 1 to 1024", "m", "-j", "0");
    REFUSES("-j: -3 is out of range, it must be from 1 to 1024", "m", "-j", "-3");
    REFUSES("-p: 1.5 is out of range, it must be from 0 to 1", "m", "-p", "1.5");
    REFUSES("-t: 'nan' is not a number", "m", "-t", "nan");
    REFUSES("-t: 'warm' is not a number", "m", "-t", "warm");
    REFUSES("-n: '1e3' is not a whole number from 0 to 1000000000", "m", "-n", "1e3");
    REFUSES("-n: '' is not a whole number from 0 to 1000000000", "m", "-n", "");
    REFUSES("--kv-type: 'q4' is none of auto|f32|f16|bf16|q8", "m", "--kv-type", "q4");
    assert_int_equal(PARSE("m", "-s", "18446744073709551615"), STATUS_OK);
    assert_true(o.seed == UINT64_MAX);
    REFUSES("-s: 18446744073709551616 is out of range, it must be from 0 to 18446744073709551615",
            "m", "-s", "18446744073709551616");
}

static void what_does_not_fit_together_is_refused(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("-n", "5"), STATUS_OK);
    assert_null(o.model); /* NULL: the model that comes with the program */
    REFUSES("one model at a time, but 'Once upon' stands beside 'm.bin'; a prompt goes after -i: "
            "run m.bin -i 'Once upon'",
            "m.bin", "Once upon");
    REFUSES("one model at a time, but 'why is it so?' stands beside 'llama3'; a prompt goes after "
            "-i: run llama3 -i 'why is it so?'",
            "llama3", "why is it so?");
    REFUSES(
        "one model at a time, but Makefile stands beside m.bin; --against Makefile compares both",
        "m.bin", "Makefile");
    REFUSES("-i - and -f both give the text: with -f, -i is what stands before it", "m", "-i", "-",
            "-f", "b");
    REFUSES("one at a time: --score or --attention", "m", "--score", "table", "--attention", "-");
    REFUSES(
        "--score, --attention, --positions, --layer and --no-cache look at one text: not with -m "
        "chat",
        "m", "-m", "chat", "--no-cache");
    REFUSES("--attention and --positions name their own file: no -o", "m", "--positions", "a.svg",
            "-o", "b.svg");
    REFUSES("one at a time: --info or --verify", "m", "--info", "--verify");
    REFUSES("one at a time: --attention or --eval-tasks", "m", "--attention", "0.0", "--eval-tasks",
            "questions");
    REFUSES("one at a time: --cache-list or --cache-clear", "--cache-list", "--cache-clear");
    REFUSES("--list shows all of them as a table: --json does not go with it", "--list", "--json");
    REFUSES("--list shows all of them as a table: tiny does not go with it (run NAME --info shows "
            "one model)",
            "--list", "tiny");
    REFUSES("--cache-list shows all of them as a table: -i does not go with it", "--cache-list",
            "-i", "x");
    REFUSES("--bos: 'maybe' is none of auto|no|yes", "m", "--bos", "maybe");
    REFUSES("--help: 'no' is none of usual|all", "--help=no");
    REFUSES("--against MODEL compares on a text: --eval FILE, or -i TEXT for the answers of both",
            "m", "--against", "n");
    REFUSES("--stop: an empty text would match everywhere", "m", "--stop", "");
    REFUSES("-i is given twice", "m", "-i", "a", "-i", "b");
    REFUSES("--eval FILE names the text: no -i or -f", "m", "--eval", "f", "-i", "a");
    REFUSES("--attention a.png: the name says the form: .svg, .html, .json; or for the "
            "terminal - or scores or ranks or LAYER.HEAD",
            "m", "--attention", "a.png");
    REFUSES("--attention 0: the name says the form: .svg, .html, .json; or for the terminal - or "
            "scores or ranks or LAYER.HEAD",
            "m", "--attention", "0");
    REFUSES("--positions tabel: the picture is SVG: give a name in .svg, or -; or table", "m",
            "--positions", "tabel");
    REFUSES("--positions a.html: the picture is SVG: give a name in .svg, or -; or table", "m",
            "--positions", "a.html");
    assert_int_equal(PARSE("m", "--attention", "/dev/fd/1"), STATUS_OK);
}

static void options_that_would_do_nothing_are_refused(void **state) {
    static const char chat_only[] = "-y and --chat-template are for -m chat and --batch";
    (void)state;
    Options o;
    Error error;
    REFUSES(chat_only, "m", "-y", "Be kind");
    REFUSES(chat_only, "m", "--chat-template", "t");
    REFUSES("--session keeps a conversation: use it with -m chat", "m", "--session", "s");
    REFUSES("--echo writes the prompt of one text: not with -m chat", "m", "-m", "chat", "--echo");
    REFUSES("--stats measures a text, a chat, a batch or --eval, not this", "m", "--info",
            "--stats");
    REFUSES("--stats measures a text, a chat, a batch or --eval, not this", "m", "--attention", "-",
            "--stats");
    assert_int_equal(PARSE("m", "--batch", "f", "-y", "Be kind", "--stats"), STATUS_OK);
    assert_int_equal(PARSE("m", "--eval", "f", "--stats"), STATUS_OK);
    REFUSES("--echo writes the prompt of one text: a result of --batch names its request by id or "
            "line",
            "m", "--batch", "f.csv", "-i", "{a}", "--echo");
    REFUSES(
        "--batch f.csv answers the rows of a table: no --info, --tokenize, --eval or other mode",
        "m", "--batch", "f.csv", "-i", "{a}", "--tokenize");
    static const char json[] = "--json is the shape of an answer, and this gives none; --info "
                               "--json, --layer L --json and --score json print JSON";
    REFUSES(json, "m", "--tokenize", "--json");
    REFUSES(json, "m", "--eval", "f", "--json");
    REFUSES("the shape of an answer is for a text, a chat or a batch, not this", "m", "--tokenize",
            "--regex", "a");
    REFUSES("the shape of an answer is for a text, a chat or a batch, not this", "m", "--eval", "f",
            "--regex", "a");
    REFUSES(json, "m", "--eval-tasks", "f", "--json");
    assert_int_equal(PARSE("m", "--info", "--json"), STATUS_OK);
    static const char scores[] = "--eval FILE scores a text and generates none: no -m and -n; "
                                 "--limit N scores its first N tokens";
    REFUSES(scores, "m", "--eval", "f", "-n", "20");
    REFUSES(scores, "m", "--eval", "f", "-m", "chat");
    REFUSES("--eval-tasks FILE scores choices and generates none: no -n", "m", "--eval-tasks", "f",
            "-n", "20");
    REFUSES("--embed FILE gives vectors, as lines of JSON: no shape of an answer", "m", "--embed",
            "f", "--json");
    REFUSES("--embed FILE names the texts, one a line: no -i, -f or -m", "m", "--embed", "f", "-i",
            "a");
    REFUSES("--embed FILE names the texts, one a line: no -i, -f or -m", "m", "--embed", "f", "-m",
            "chat");
    REFUSES("--resume is for a file of requests: --batch FILE", "m", "--resume");
    REFUSES("--kv-memory is for a file of requests: --batch FILE", "m", "--kv-memory", "1G");
    REFUSES("--batch-text is for a file of requests: --batch FILE", "m", "--batch-text");
}

static void parts_of_a_batch_are_named_and_joined(void **state) {
    static const char usage[] = "--merge needs the parts' results and the requests that they "
                                "answer: run --merge PARTS... --batch FILE -o ALL";
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("m", "--batch", "f", "--shard", "2/8"), STATUS_OK);
    REFUSES("--shard: 'two' is not I/N (the Ith of N parts), slurm or mpi", "m", "--batch", "f",
            "--shard", "two");
    REFUSES("--shard 9/8: there is no part 9 of 8; they count from 1", "m", "--batch", "f",
            "--shard", "9/8");
    REFUSES("--shard needs the requests' --batch FILE, not stdin", "m", "--shard", "1/2");
    REFUSES("--shard needs the requests' --batch FILE, not stdin", "m", "--batch", "-", "--shard",
            "1/2");
    REFUSES("--check looks at results of the whole FILE, not of a --shard", "m", "--batch", "f",
            "--shard", "1/2", "--check", "r");
    assert_int_equal(PARSE("--batch", "f", "--merge", "a", "-o", "all", "b", "--stats", "c"),
                     STATUS_OK);
    assert_true(batch_options(&o)->merge && o.n_parts == 3 && !o.model);
    assert_string_equal(o.parts[0], "a");
    assert_string_equal(o.parts[2], "c");
    options_free(&o);
    REFUSES(usage, "--merge", "--batch", "f");
    REFUSES(usage, "--merge", "--batch", "-", "a");
    options_free(&o);
    REFUSES(usage, "--merge", "a");
    options_free(&o);
    REFUSES("--merge needs no model: run --merge PARTS... --batch FILE -o ALL", "m", "--merge", "a",
            "--batch", "f");
    options_free(&o);
    REFUSES("--merge joins results that are there: not with --resume", "--merge", "a", "--batch",
            "f", "--resume", "-o", "o");
    options_free(&o);
    REFUSES("--merge joins results that are there: not with --temperature", "--merge", "a",
            "--batch", "f", "-t", "0");
    options_free(&o);
}

static char *help(bool all) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    Options o;
    Error error;
    assert_non_null(out);
    assert_int_equal(PARSE("m"), STATUS_OK);
    options_print_help(out, &o, "run", NULL, all);
    fclose(out);
    return text;
}

/* Checks the layout of the help and returns its number of lines. Lines have at most 80 columns, and
 * descriptions begin in column 29; an option too long for that has a line of its own. */
static size_t lines_of(char *text) {
    size_t lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        if (strlen(line) > 80) print_message("too long: %s\n", line);
        assert_true(strlen(line) <= 80);
        if (line[0] != ' ' || strlen(line) < 30 || !strchr(line + 28, ' ')) continue;
        assert_true(line[28] == ' ' && line[29] != ' ');
    }
    return lines;
}

static void help_fits_a_screen(void **state) {
    (void)state;
    char *usual = help(false), *all = help(true);
    assert_true(lines_of(usual) <= 44);
    assert_true(lines_of(all) <= 100);
    free(usual);
    free(all);
}

/* An option without a line of its own is named by another's (OptionRow.help). */
static void help_names_every_option(void **state) {
    (void)state;
    Options o;
    Error error;
    char *all = help(true);
    size_t n = 0;
    assert_int_equal(PARSE("m"), STATUS_OK);
    for (size_t i = 0; o.tables[i].rows; i++)
        for (const OptionRow *row = o.tables[i].rows; row->kind != OPTION_END; row++) {
            char name[64], *about = NULL;
            size_t length = (size_t)snprintf(name, sizeof name, "--%s", row->name), size = 0;
            if (row->kind == OPTION_HEADING) continue;
            const char *at = all;
            while ((at = strstr(at, name)) && (isalpha(at[length]) || at[length] == '-')) at++;
            if (!at) fail_msg("--help all does not name %s", name);
            FILE *out = open_memstream(&about, &size);
            assert_non_null(out);
            assert_true(command_line_help_about(out, &o.line, row->name));
            fclose(out);
            assert_non_null(strstr(about, name));
            free(about);
            n++;
        }
    assert_true(n > 80);
    free(all);
}

static void help_takes_all_and_no_other_word(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("--help"), STATUS_OK);
    assert_int_equal(o.help, HELP_USUAL);
    assert_int_equal(PARSE("-h", "all"), STATUS_OK);
    assert_true(o.help == HELP_ALL && !o.model);
    assert_int_equal(PARSE("--help=all"), STATUS_OK);
    assert_int_equal(o.help, HELP_ALL);
    assert_int_equal(PARSE("--help", "m.bin"), STATUS_OK);
    assert_int_equal(o.help, HELP_USUAL);
    assert_string_equal(o.model, "m.bin");
    REFUSES("--help: 'some' is none of usual|all", "--help=some");
    assert_int_equal(PARSE("--help", "help"), STATUS_OK); /* a word, not a command */
}

static void help_about_a_word_shows_the_options_that_speak_of_it(void **state) {
    (void)state;
    Options o;
    Error error;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(PARSE("m"), STATUS_OK);
    assert_false(command_line_help_about(out, &o.line, "xyzzy"));
    fflush(out);
    assert_int_equal(size, 0);
    assert_true(command_line_help_about(out, &o.line, "Samplin")); /* in a heading alone */
    assert_true(command_line_help_about(out, &o.line, "kv-memory"));
    fclose(out);
    assert_true(strncmp(text, "Sampling (", 10) == 0);
    assert_non_null(strstr(text, "--top-k N"));
    assert_non_null(strstr(text, ":\n      --kv-memory SIZE")); /* its heading stands above it */
    assert_null(strstr(text, "--threads"));
    free(text);
}

/* ---- The manual and the completions ---------------------------------------------------------- */

typedef struct Page {
    const char *name;
    const char *form; /* printf format of an option --NAME in this page */
    char *text;
} Page;

static char *read_page(const char *path) {
    FILE *in = fopen(path, "r");
    if (!in) print_message("%s is missing\n", path);
    assert_non_null(in);
    char *text = calloc(1, 1 << 18);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 18) - 1, in) > 0);
    fclose(in);
    return text;
}

/* ---- Options asked for by their names ---------------------------------------------------------
 */

/* Expects each text in quotes between `from` and `to` to be the name of an option; returns how many
 * there are. */
static size_t check_quoted(const Options *o, const char *file, const char *from, const char *to) {
    size_t n = 0, i;
    char name[64];
    for (const char *end; (from = memchr(from, '"', (size_t)(to - from))); from = end + 1, n++) {
        end = strchr(from + 1, '"');
        snprintf(name, sizeof name, "%.*s", (int)(end - from - 1), from + 1);
        if (!command_line_find(&o->line, name, &i)) fail_msg("%s: no option --%s", file, name);
    }
    return n;
}

/* A mode asks for the options of modes that it may not include by name: options_ask(o, "session"),
 * options_text(o, "eval"), options_ask_any(o, list). A name that is not an option would never be
 * given.
 */
static void options_that_are_asked_for_by_name_exist(void **state) {
    static const char *const folders[] = {"session/*.c", "modes/*.c", "modes/*/*.c"};
    static const char *const calls[] = {"options_ask(", "options_text("};
    Options o;
    Error error;
    size_t n = 0;
    (void)state;
    assert_int_equal(PARSE("m"), STATUS_OK);
    for (size_t f = 0; f < 3; f++) {
        glob_t found;
        assert_int_equal(glob(folders[f], 0, NULL, &found), 0);
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *text = read_page(found.gl_pathv[i]), *at;
            for (size_t c = 0; c < 2; c++)
                for (at = text; (at = strstr(at, calls[c])); at++)
                    n += check_quoted(&o, found.gl_pathv[i], at, strchr(at, ')'));
            bool lists = strstr(text, "options_ask_any(") && !strstr(text, "bool options_ask_any");
            for (at = text; lists && (at = strstr(at, "[] = {\"")); at++)
                n += check_quoted(&o, found.gl_pathv[i], at, strchr(at, '}'));
            free(text);
        }
        globfree(&found);
    }
    assert_in_range(n, 60, 1000);
}

static void find_option(const OptionRow *row, const Page *page) {
    const char *name = row->name, *value = row->kind == OPTION_WORD ? NULL : row->value;
    char letter = row->letter, spelled[80], choices[80];
    snprintf(spelled, sizeof spelled, page->form, name);
    if (!strstr(page->text, spelled)) print_message("%s: no %s\n", page->name, spelled);
    assert_non_null(strstr(page->text, spelled));
    if (value && strchr(value, '|') && page->form[0] == '-') { /* completions write "a b c" */
        snprintf(choices, sizeof choices, "%s", value);
        for (char *bar; (bar = strchr(choices, '|'));) *bar = ' ';
        if (!strstr(page->text, choices)) print_message("%s: no %s\n", page->name, choices);
        assert_non_null(strstr(page->text, choices));
    }
    if (!letter || page->form[0] == '-') return;
    snprintf(spelled, sizeof spelled, ".It Fl %c", letter); /* the short form comes first */
    if (!strstr(page->text, spelled)) print_message("%s: no %s\n", page->name, spelled);
    assert_non_null(strstr(page->text, spelled));
}

static void the_manual_and_the_completions_know_every_option(void **state) {
    (void)state;
    Options o;
    Error error;
    const OptionRow *row;
    assert_int_equal(PARSE("m"), STATUS_OK);
    Page pages[] = {{"docs/man/verbatim.1", "Fl -%s", NULL},
                    {"docs/completions/verbatim.bash", "--%s", NULL},
                    {"docs/completions/_verbatim", "--%s", NULL}};
    for (size_t i = 0; i < 3; i++) {
        pages[i].text = read_page(pages[i].name);
        for (size_t k = 0; (row = command_line_row(&o.line, k)); k++)
            if (row->kind != OPTION_HEADING) find_option(row, &pages[i]);
        free(pages[i].text);
    }
}

/* Every option in the manual exists: none was removed from the program only. */
static void the_manual_names_no_other_option(void **state) {
    (void)state;
    Options o;
    Error error;
    char *text = read_page("docs/man/verbatim.1"), *at = text, name[64];
    size_t n = 0;
    while ((at = strstr(at, "Fl -"))) {
        at += strlen("Fl -");
        name[0] = name[1] = '-';
        size_t length = strcspn(at, " \n");
        assert_true(length < sizeof name - 2);
        memcpy(name + 2, at, length);
        name[2 + length] = '\0';
        PARSE("m", name, "1");
        if (strncmp(error.text, "no option", 9) == 0) print_message("%s\n", error.text);
        assert_true(strncmp(error.text, "no option", 9) != 0);
        error.text[0] = '\0';
        n++;
    }
    assert_true(n > 50);
    free(text);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_options_are_those_of_llama2c),
        cmocka_unit_test(long_options_take_their_value_either_way),
        cmocka_unit_test(a_copy_is_asked_like_the_original),
        cmocka_unit_test(a_prompt_may_begin_with_a_dash),
        cmocka_unit_test(a_mistyped_option_suggests_the_right_one),
        cmocka_unit_test(what_other_programs_call_it_is_told_in_one_line),
        cmocka_unit_test(a_missing_value_is_asked_for),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(options_that_would_do_nothing_are_refused),
        cmocka_unit_test(parts_of_a_batch_are_named_and_joined),
        cmocka_unit_test(help_fits_a_screen),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(help_takes_all_and_no_other_word),
        cmocka_unit_test(help_about_a_word_shows_the_options_that_speak_of_it),
        cmocka_unit_test(options_that_are_asked_for_by_name_exist),
        cmocka_unit_test(the_manual_and_the_completions_know_every_option),
        cmocka_unit_test(the_manual_names_no_other_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
