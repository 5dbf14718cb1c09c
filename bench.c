/* The `bench` program: how fast a model runs here, and how much of what the machine could do
 * that is.
 *
 *     bench MODEL [--threads N] [--isa NAME] [--type T] [--kv-type T] [--context N]
 *                 [--sweep threads|context|batch | --draft | --attention |
 *                  --decode POSITION --prefill N --batch N]
 *                 [--json]
 *     bench --report [FILE|-] [--threads N] [--beside DIR] [--quick]
 *
 * MODEL is a model.bin or anything that `export` reads ("random:tinyllama-1.1b" too), which is
 * then converted into a temporary file. Decoding is measured against the memory's read
 * bandwidth of the same moments, counting the bytes of the weights and of the cache that a step
 * reads; prefill against the instruction set's peak, counting two operations for each weight and
 * token. All figures are medians. --report needs no model: it says what this machine is, whether it
 * gives the bits that it must, and how fast it is (measure/report.h). docs/benchmarks.md */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advice/option_hints.h"
#include "json/json_memory.h"
#include "measure/bench_attention.h"
#include "measure/bench_drafts.h"
#include "measure/bench_model.h"
#include "measure/report.h"
#include "modes/open/model_names.h"
#include "session/versions.h"
#include "system/command_line.h"
#include "system/standard_streams.h"
#include "system/stop_signals.h"
#include "system/terminal.h"

enum { PREFILL = 512 };

typedef enum Sweep { SWEEP_NONE, SWEEP_THREADS, SWEEP_CONTEXT, SWEEP_BATCH } Sweep;

typedef struct Arguments {
    BenchChoice choice;
    char *found; /* what choice.model points at where it was a name; owned */
    Sweep sweep;
    uint64_t decode, prefill, batch; /* measure only these; all 0: everything */
    bool draft;                      /* measure drafts alone */
    bool attention;                  /* measure attention in blocks and by the textbook alone */
    bool report;                     /* make a report; `choice.model` is its FILE */
    bool quick;                      /* of --report */
    OptionList beside;               /* of --report */
    bool json, help, version;
} Arguments;

typedef struct Bench {
    const Arguments *arguments;
    BenchModel m;
    bool any_result;
} Bench;

/* ---- results ---- */

static const char *const part_names[MODEL_PARTS] = {"projections", "attention", "feed-forward",
                                                    "output", "rest"};

static void print_parts(const Bench *b, const double *parts) {
    double sum = 0.0;
    for (int i = 0; i < MODEL_PARTS; i++) sum += parts[i];
    terminal_print(stdout, b->arguments->json ? ", \"time\": {" : "        ");
    for (int i = 0; i < MODEL_PARTS; i++)
        terminal_print(stdout, b->arguments->json ? "%s\"%s\": %.4f" : "%s%s %.0f%%",
                       i == 0 ? "" : ", ", part_names[i],
                       (b->arguments->json ? 1.0 : 100.0) * parts[i] / (sum > 0 ? sum : 1.0));
    terminal_print(stdout, b->arguments->json ? "}" : "\n");
}

/* Prints one measurement, as a JSON object or as a line of the table, with the times of its
 * parts. */
static void print_result(Bench *b, BenchResult r) {
    double scale = strcmp(r.unit, "GB/s") == 0 ? 1e9 : 1e12;
    if (b->arguments->json) {
        terminal_print(
            stdout,
            "%s\n    {\"what\": \"%s\", \"threads\": %d, \"batch\": %zu, \"position\": %zu, "
            "\"tokens_per_second\": %.3f, \"rate\": %.6g, \"unit\": \"%s\", \"share\": %.4f, "
            "\"limit\": \"%s\"",
            b->any_result ? "," : "", r.what, r.n_threads, r.batch, r.position, r.tokens,
            r.rate / scale, r.unit, r.share, r.computes ? "peak" : "memory");
    } else {
        terminal_print(
            stdout,
            "%-8s threads %2d  batch %2zu  position %6zu  %10.2f tokens/s  %8.3f %-4s  %3.0f%% "
            "of %s\n",
            r.what, r.n_threads, r.batch, r.position, r.tokens, r.rate / scale, r.unit,
            100.0 * r.share, r.computes ? "peak" : "memory");
    }
    print_parts(b, r.parts);
    if (b->arguments->json) terminal_print(stdout, "}");
    b->any_result = true;
    fflush(stdout);
}

/* ---- the model ---- */

static Status check_context(const Bench *b, Error *error) {
    const Arguments *a = b->arguments;
    size_t context = model_context(b->m.model);
    if (context < BENCH_PROMPT + BENCH_MIN_STEPS)
        return error_set(error, "a context of %zu positions is too short to be measured", context);
    if (a->decode + BENCH_MIN_STEPS > context)
        return error_set(error, "--decode %zu: %d steps more do not fit the context of %zu",
                         a->decode, BENCH_MIN_STEPS, context);
    if (a->prefill > context)
        return error_set(error, "--prefill %zu: the model's context is %zu positions", a->prefill,
                         context);
    return STATUS_OK;
}

/* Opens the model with this number of threads, and measures the machine's limits. */
static Status open_checked(Bench *b, int n_threads, Error *error) {
    Status status = bench_model_open(&b->m, n_threads, error);
    if (status == STATUS_OK) status = check_context(b, error);
    return status == STATUS_OK ? bench_model_limits(&b->m, error) : status;
}

/* ---- what to measure ---- */

static Status measure_decode(Bench *b, size_t batch, size_t position, Error *error) {
    BenchResult result;
    Status status = bench_model_decode(&b->m, batch, position, &result, error);
    if (status == STATUS_OK) print_result(b, result);
    return status;
}

static Status measure_prefill(Bench *b, size_t n, Error *error) {
    BenchResult result;
    Status status = bench_model_prefill(&b->m, n, BENCH_MIN_STEPS, &result, error);
    if (status == STATUS_OK) print_result(b, result);
    return status;
}

static Status measure_batches(Bench *b, size_t first, Error *error) {
    Status status = STATUS_OK;
    for (size_t batch = first; batch <= BENCH_MAX_SEQUENCES && status == STATUS_OK; batch *= 2)
        if (batch <= model_max_rows(b->m.model))
            status = measure_decode(b, batch, BENCH_PROMPT, error);
    return status;
}

static Status measure_contexts(Bench *b, Error *error) {
    Status status = STATUS_OK;
    for (size_t position = BENCH_PROMPT;
         position + BENCH_MIN_STEPS <= model_context(b->m.model) && status == STATUS_OK;
         position *= 4)
        status = measure_decode(b, 1, position, error);
    return status;
}

static Status measure_all(Bench *b, Error *error) {
    Status status = measure_decode(b, 1, BENCH_PROMPT, error);
    if (status == STATUS_OK) status = measure_prefill(b, PREFILL, error);
    return status == STATUS_OK ? measure_batches(b, 4, error) : status;
}

/* Measures only what the command line asks for: --decode, --prefill, --batch. */
static Status measure_named(Bench *b, Error *error) {
    const Arguments *a = b->arguments;
    Status status = STATUS_OK;
    if (a->decode) status = measure_decode(b, 1, a->decode, error);
    if (a->prefill && status == STATUS_OK) status = measure_prefill(b, a->prefill, error);
    if (a->batch && status == STATUS_OK) status = measure_decode(b, a->batch, BENCH_PROMPT, error);
    return status;
}

/* The curve of drafts: how many times as fast decoding is when so many of them are right. */
static Status measure_drafts(Bench *b, Error *error) {
    static const int shares[] = {0, 50, 70, 90, 100};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        DraftSpeed s;
        Status status = bench_drafts(b->m.model, b->m.cache, shares[i] / 100.0, &s, error);
        if (status != STATUS_OK) return status;
        if (b->arguments->json) {
            terminal_print(stdout,
                           "%s\n    {\"what\": \"draft\", \"threads\": %d, \"right\": %.2f, "
                           "\"tokens_per_second\": %.3f, \"plain\": %.3f, \"times\": %.4f, "
                           "\"rows\": %.3f, \"tokens\": %.3f}",
                           b->any_result ? "," : "", b->m.n_threads, shares[i] / 100.0, s.drafted,
                           s.plain, s.times, s.rows, s.tokens);
        } else {
            terminal_print(
                stdout,
                "draft    threads %2d  %3d%% right  %10.2f tokens/s, without %8.2f: %5.2f times; "
                "%.2f rows and %.2f tokens a pass\n",
                b->m.n_threads, shares[i], s.drafted, s.plain, s.times, s.rows, s.tokens);
        }
        b->any_result = true;
        fflush(stdout);
    }
    return STATUS_OK;
}

/* One head of the model's width at growing numbers of positions, up to --context. */
static Status measure_attention(Bench *b, Error *error) {
    enum { LEAST = 512, MOST = 8192 }; /* the scores of MOST positions take 256 MiB */
    uint32_t head_dim = modelfile_config(b->m.file)->head_dim;
    if (head_dim == 0) return error_set(error, "--attention: the model does not attend");
    size_t asked = b->arguments->choice.context, most = asked && asked < MOST ? asked : MOST;
    for (size_t n = most < LEAST ? most : LEAST; n <= most; n *= 2) {
        AttentionSpeed s;
        Status status = bench_attention(b->m.isa, b->m.n_threads, head_dim, n, &s, error);
        if (status != STATUS_OK) return status;
        if (b->arguments->json)
            terminal_print(
                stdout,
                "%s\n    {\"what\": \"attention\", \"threads\": %d, \"head_dim\": %u, "
                "\"positions\": %zu, \"textbook_seconds\": %.6g, \"textbook_bytes\": %.0f, "
                "\"block_seconds\": %.6g, \"block_bytes\": %.0f, \"difference\": %.3g}",
                b->any_result ? "," : "", b->m.n_threads, head_dim, n, s.textbook, s.matrix_bytes,
                s.blocks, s.block_bytes, s.difference);
        else
            terminal_print(
                stdout,
                "attention  one head of %u, %5zu positions: textbook %9.2f ms, scores of %6.1f "
                "MiB; in blocks %8.2f ms, %.2f MiB; they differ by %.1e\n",
                head_dim, n, 1e3 * s.textbook, s.matrix_bytes / 0x1p20, 1e3 * s.blocks,
                s.block_bytes / 0x1p20, s.difference);
        b->any_result = true;
        fflush(stdout);
    }
    return STATUS_OK;
}

static void print_limits(const Bench *b) {
    if (b->arguments->json) return;
    terminal_print(stdout, "machine  threads %2d  reads %.2f GB/s, %s %.3f TOPS (%s), cache %s\n",
                   b->m.n_threads, b->m.bandwidth / 1e9, b->m.integers ? "integers" : "float32",
                   b->m.peak / 1e12, b->m.isa->name, kv_type_name(kvcache_shape(b->m.cache)->type));
}

static Status measure_threads(Bench *b, int most, Error *error) {
    Status status = STATUS_OK;
    for (int n = 1; n <= most && status == STATUS_OK; n = n < most && 2 * n > most ? most : 2 * n) {
        bench_model_close(&b->m);
        status = open_checked(b, n, error);
        if (status != STATUS_OK) break;
        print_limits(b);
        status = measure_decode(b, 1, BENCH_PROMPT, error);
        if (status == STATUS_OK) status = measure_prefill(b, PREFILL, error);
    }
    return status;
}

static Status measure_chosen(Bench *b, Error *error) {
    Sweep sweep = b->arguments->sweep;
    const Arguments *a = b->arguments;
    if (a->draft) return measure_drafts(b, error);
    if (a->attention) return measure_attention(b, error);
    if (a->decode || a->prefill || a->batch) return measure_named(b, error);
    if (!sweep) return measure_all(b, error);
    if (sweep == SWEEP_CONTEXT) return measure_contexts(b, error);
    if (sweep == SWEEP_BATCH) return measure_batches(b, 1, error);
    return measure_threads(b, b->m.n_threads, error);
}

/* Opens the model, prints the machine's limits and runs the measurements that the options
 * choose. */
static Status bench(const Arguments *arguments, Error *error) {
    Bench b = {.arguments = arguments};
    Status status = bench_model_find(&b.m, &arguments->choice, error);
    if (status == STATUS_OK) status = open_checked(&b, (int)arguments->choice.n_threads, error);
    if (status == STATUS_OK) {
        bool sweeps_threads = arguments->sweep == SWEEP_THREADS;
        if (arguments->json) {
            terminal_print(
                stdout,
                "{\"model_bytes\": %zu, \"step_bytes\": %.0f, \"isa\": \"%s\", \"kv_type\": "
                "\"%s\", "
                "\"read_bandwidth\": %.6g, \"peak\": %.6g,\n  \"results\": [",
                modelfile_bytes(b.m.file), b.m.step_bytes, b.m.isa->name,
                kv_type_name(kvcache_shape(b.m.cache)->type), b.m.bandwidth, b.m.peak);
        } else if (!sweeps_threads) {
            print_limits(&b);
        }
        status = measure_chosen(&b, error);
        if (arguments->json) terminal_print(stdout, "\n  ]\n}\n");
    }
    bench_model_free(&b.m);
    return status;
}

/* ---- The command line ---- */

enum { MOST_THREADS = 4096, MOST_POSITIONS = 1 << 24 };

#define FIELD(name) offsetof(Arguments, name)

static const OptionRow rows[] = {
    UINT_ROW(USUAL, 'j', "threads", FIELD(choice.n_threads), 1, MOST_THREADS,
             "worker threads [the physical cores]"),
    TEXT_ROW(USUAL, 0, "isa", "NAME", FIELD(choice.isa), "instruction set [the best]"),
    TEXT_ROW(USUAL, 0, "type", "T", FIELD(choice.type),
             "type of the weights, if MODEL is not a model.bin"),
    CHOICE_ROW(USUAL, 0, "kv-type", "auto|f32|f16|bf16|q8", FIELD(choice.kv_type), NULL,
               "type of the KV cache [the model's]"),
    UINT_ROW(USUAL, 0, "context", FIELD(choice.context), 1, MOST_POSITIONS,
             "context length, in tokens [the model's]"),
    CHOICE_ROW(USUAL, 0, "sweep", "no|threads|context|batch", FIELD(sweep), NULL,
               "measure at growing numbers of these"),
    UINT_ROW(USUAL, 0, "decode", FIELD(decode), 1, MOST_POSITIONS,
             "measure only decoding one token after N positions"),
    UINT_ROW(USUAL, 0, "prefill", FIELD(prefill), 1, MOST_POSITIONS,
             "measure only the prefill of a prompt of N tokens"),
    UINT_ROW(USUAL, 0, "batch", FIELD(batch), 1, BENCH_MAX_SEQUENCES,
             "measure only decoding one token of each of N sequences"),
    FLAG_ROW(USUAL, 0, "draft", FIELD(draft),
             "measure only speculative decoding at several acceptance rates"),
    FLAG_ROW(USUAL, 0, "attention", FIELD(attention),
             "measure only one attention head: in blocks, and as in the textbook"),
    FLAG_ROW(USUAL, 0, "report", FIELD(report),
             "this machine, its sums and speeds, as text and JSON [FILE|-]"),
    LIST_ROW(USUAL, "beside", "DIR", FIELD(beside),
             "with --report, run DIR's llama-bench in turn; repeated"),
    FLAG_ROW(USUAL, 0, "quick", FIELD(quick),
             "with --report, a small model: only the sums mean something"),
    FLAG_ROW(USUAL, 0, "json", FIELD(json), "results as JSON"),
    FLAG_ROW(USUAL, 'h', "help", FIELD(help), "this text"),
    FLAG_ROW(USUAL, 0, "version", FIELD(version), "versions of the program and its libraries"),
    END_ROW,
};

static Status set_model(void *values, const char *word, Error *error) {
    Arguments *a = values;
    if (!a->choice.model) {
        a->choice.model = word;
        return STATUS_OK;
    }
    error_set(error, "one %s at a time, not '%s' and '%s'", a->report ? "file" : "model",
              a->choice.model, word);
    return STATUS_USAGE;
}

static Status bench_check(const Arguments *a, Error *error) {
    const BenchChoice *c = &a->choice;
    if (a->report && (c->isa || c->type || c->kv_type || c->context || a->sweep || a->decode ||
                      a->prefill || a->batch || a->draft || a->attention || a->json))
        error_set(error, "--report always measures the same: it takes -j, --beside and --quick");
    else if (a->report && a->choice.model && !a->choice.model[0])
        error_set(error, "an empty name names no file");
    else if (a->report)
        return STATUS_OK;
    else if (a->beside.n || a->quick)
        error_set(error, "--beside and --quick belong to --report");
    else if (a->attention && (a->draft || a->sweep || a->decode || a->prefill || a->batch))
        error_set(error, "--attention has sizes of its own: leave out --sweep, --decode and the "
                         "like");
    else if (a->draft && (a->sweep || a->decode || a->prefill || a->batch))
        error_set(error, "--draft measures drafts alone: leave out --sweep, --decode and the like");
    else if (a->sweep && (a->decode || a->prefill || a->batch))
        error_set(error, "--sweep has sizes of its own: leave out --decode, --prefill, --batch");
    else if (!a->choice.model)
        error_set(error, "which model? bench MODEL; see bench --help");
    else
        return STATUS_OK;
    return STATUS_USAGE;
}

static void print_help(const CommandLine *line) {
    terminal_print(stdout, "usage: bench MODEL [options]\n"
                           "       bench --report [FILE|-] [options]\n");
    command_line_help(stdout, line, true);
    terminal_print(stdout, "MODEL: a model.bin, another format, or random:SHAPE\n");
}

/* Replaces the name of a model that is not a file by its path, malloc'ed. */
static Status find_model(Arguments *a, Error *error) {
    char *found = NULL;
    if (access(a->choice.model, F_OK) == 0) return STATUS_OK;
    Status status = model_names_resolve(a->choice.model, &found, error);
    if (found) a->choice.model = a->found = found;
    return status;
}

static Status run_bench(Arguments *a, Error *error) {
    Status status = find_model(a, error);
    return status == STATUS_OK ? bench(a, error) : status;
}

static Status run_report(const Arguments *a, Error *error) {
    const ReportOptions options = {.path = a->choice.model,
                                   .n_threads = a->choice.n_threads,
                                   .beside = &a->beside,
                                   .quick = a->quick,
                                   .interrupted = stop_signals_catch(false)};
    return report_make(&options, error);
}

static Status bench_run(int argc, char **argv, Error *error) {
    Arguments arguments = {0};
    const OptionTable tables[] = {{rows, &arguments}, {NULL, NULL}};
    CommandLine line = {
        .tables = tables, .context = &arguments, .operand = set_model, .advise = advice_option};
    Status status = command_line_parse(&line, argc, argv, error);
    if (status == STATUS_OK && arguments.help) {
        print_help(&line);
    } else if (status == STATUS_OK && arguments.version) {
        versions_print(stdout);
    } else {
        if (status == STATUS_OK) status = bench_check(&arguments, error);
        if (status == STATUS_OK)
            status =
                arguments.report ? run_report(&arguments, error) : run_bench(&arguments, error);
        free(arguments.found);
    }
    return status == STATUS_OK ? standard_streams_finish(error) : status;
}

int main(int argc, char **argv) {
    Error error = {.text = ""};
    json_memory_guard();
    Status status = standard_streams_fill(&error);
    if (status == STATUS_OK) status = bench_run(argc, argv, &error);
    if (status == STATUS_INTERRUPTED)
        terminal_say("interrupted: nothing was written");
    else if (status != STATUS_OK)
        terminal_say("%s", error.text);
    return stop_signals_exit_status(status);
}
