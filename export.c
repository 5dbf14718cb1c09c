/* export: a model in somebody else's format in, a model.bin out. */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_memory.h"
#include "base/mapped.h"
#include "base/sandbox.h"
#include "base/standard_streams.h"
#include "base/terminal.h"
#include "base/threads.h"
#include "convert/convert.h"
#include "convert/mix.h"
#include "modelfile.h"

/* %s: the name that the program was called by. */
static const char usage[] =
    "usage: %s SOURCE TARGET [options]\n"
    "       %s --random SHAPE TARGET [options]\n"
    "\n"
    "Writes the model.bin TARGET. SOURCE is a Hugging Face directory (config.json and\n"
    "safetensors), a GGUF file (of a split model: the first), or a llama2.c checkpoint.\n"
    "\n"
    "  -t, --type TYPE        of the weights: f32, f16, bf16, q8, q6, q5, q4m, q4, ...\n"
    "                         (default: what the source has)\n"
    "      --keep NAME=TYPE   but TYPE for matrices with NAME in their name (w_down,\n"
    "                         layers.0, output, ...); may be given again\n"
    "      --calibrate FILE   run the model over this text, and quantize with most care what\n"
    "                         its inputs make most of\n"
    "  -z, --tokenizer FILE   use this tokenizer: tokenizer.json, llama2.c's tokenizer.bin,\n"
    "                         SentencePiece's .model, or .tiktoken\n"
    "  -j, --threads N        threads (default: the physical cores)\n"
    "      --random SHAPE     generated weights: tinyllama-1.1b, stories15m, tiny, or\n"
    "                         dim=64,n_layers=2,n_heads=4,... (the fields that --info shows)\n"
    "      --no-sandbox       keep the rights to files and network\n"
    "  -q, --quiet            no progress and no closing line\n"
    "  -h, --help             this text\n";

enum { MIX_BYTES = 2048 };

typedef struct Arguments {
    char source[4096];
    const char *target, *random;
    char mix[2 * MIX_BYTES]; /* --type and all --keep */
    bool quiet, no_sandbox;
    ConvertOptions options;
} Arguments;

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

/* ---- The command line ---- */

static Status wrong_usage(const char *text, const char *about) {
    terminal_say("%s%s (--help lists the options)", text, about);
    return STATUS_USAGE;
}

static Status read_threads(const char *text, int *threads) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > 4096)
        return wrong_usage("wrong number of threads: ", text);
    *threads = (int)n;
    return STATUS_OK;
}

static Status read_operands(Arguments *a, int argc, char **argv) {
    int wanted = a->random ? 1 : 2;
    if (argc - optind < wanted)
        return wrong_usage(a->random ? "TARGET is missing" : "SOURCE and TARGET are needed", "");
    if (argc - optind > wanted) return wrong_usage("too many operands: ", argv[optind + wanted]);
    int length = a->random ? snprintf(a->source, sizeof a->source, "random:%s", a->random)
                           : snprintf(a->source, sizeof a->source, "%s", argv[optind]);
    if (length >= (int)sizeof a->source) return wrong_usage("SOURCE is too long", "");
    a->target = argv[optind + wanted - 1];
    if (!a->source[0] || !a->target[0]) return wrong_usage("an empty name names no file", "");
    return STATUS_OK;
}

/* One more NAME=TYPE behind the others. */
static Status add_keep(char *keep, size_t size, const char *text) {
    size_t length = strlen(keep);
    if (length + strlen(text) + 1 >= size) return wrong_usage("--keep: too much: ", text);
    snprintf(keep + length, size - length, ",%s", text);
    return STATUS_OK;
}

static Status append_keep(Arguments *a, const char *keep) {
    Error error;
    if (!a->options.type) return wrong_usage("--keep needs --type", "");
    size_t length = strlen(a->mix);
    snprintf(a->mix + length, sizeof a->mix - length, "%s", keep);
    return mix_check(a->mix, &error) == STATUS_OK ? STATUS_OK : wrong_usage("--keep: ", error.text);
}

static Status read_arguments(Arguments *a, int argc, char **argv) {
    enum { RANDOM = 256, NO_SANDBOX, KEEP, CALIBRATE };
    Error error;
    char keep[MIX_BYTES] = "";
    bool keeps = false;
    static const struct option options[] = {{"type", required_argument, NULL, 't'},
                                            {"tokenizer", required_argument, NULL, 'z'},
                                            {"threads", required_argument, NULL, 'j'},
                                            {"random", required_argument, NULL, RANDOM},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"no-sandbox", no_argument, NULL, NO_SANDBOX},
                                            {"keep", required_argument, NULL, KEEP},
                                            {"calibrate", required_argument, NULL, CALIBRATE},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option;
    Status status = STATUS_OK;
    while (status == STATUS_OK &&
           (option = getopt_long(argc, argv, "t:z:j:qh", options, NULL)) != -1) {
        switch (option) {
        case 't':
            if (strlen(optarg) >= MIX_BYTES || mix_check(optarg, &error) != STATUS_OK)
                return wrong_usage("unknown type: ", optarg);
            snprintf(a->mix, sizeof a->mix, "%s", optarg);
            a->options.type = a->mix;
            break;
        case KEEP:
            keeps = true;
            status = add_keep(keep, sizeof keep, optarg);
            break;
        case CALIBRATE:
            a->options.calibrate = optarg;
            break;
        case 'z':
            a->options.tokenizer = optarg;
            break;
        case 'j':
            status = read_threads(optarg, &a->options.n_threads);
            break;
        case 'q':
            a->quiet = true;
            break;
        case NO_SANDBOX:
            a->no_sandbox = true;
            break;
        case RANDOM:
            a->random = optarg;
            break;
        case 'h':
            printf(usage, program_invocation_short_name, program_invocation_short_name);
            if (streams_finish(&error) == STATUS_OK) exit(STATUS_OK);
            terminal_say("%s", error.text);
            exit(STATUS_FAILED);
        default:
            return STATUS_USAGE; /* getopt_long has said why */
        }
    }
    if (status == STATUS_OK && keeps) status = append_keep(a, keep);
    if (status == STATUS_OK && a->options.calibrate && !a->options.type)
        return wrong_usage("--calibrate needs --type", "");
    return status == STATUS_OK ? read_operands(a, argc, argv) : status;
}

/* ---- Rights ---- */

/* From here on the process reaches the target's directory alone. */
static Status give_up_rights(void *context, Error *error) {
    const Arguments *a = context;
    char directory[4096];
    const char *slash = strrchr(a->target, '/');
    SandboxRules rules = {.writable = {directory}};
    SandboxReport report;
    int length = slash ? (int)(slash - a->target) + 1 : 1;
    if (snprintf(directory, sizeof directory, "%.*s", length, slash ? a->target : ".") >=
        (int)sizeof directory)
        return error_set(error, "%s: the path is too long", a->target);
    return a->no_sandbox ? STATUS_OK : sandbox_enter(&rules, &report, error);
}

/* ---- Progress ---- */

typedef struct Meter {
    double started, shown;
} Meter;

static void show_progress(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    Meter *meter = context;
    double time = clock_seconds();
    if (done < total && time - meter->shown < 0.1) return;
    meter->shown = time;
    fprintf(stderr, "\r\033[K");
    terminal_bar(stderr, 30, done, total);
    fprintf(stderr, " %3.0f%%  ", total ? 100.0 * (double)done / (double)total : 100.0);
    if (step == CONVERT_CALIBRATING) {
        fprintf(stderr, "calibrating: %llu of %llu tokens", (unsigned long long)done,
                (unsigned long long)total);
    } else {
        fprintf(stderr, "%.2f of %.2f GB", (double)done / 1e9, (double)total / 1e9);
    }
}

static void show_note(const char *line, void *context) {
    (void)context;
    fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", line);
}

static Status report(const Arguments *a, double seconds) {
    Error error;
    ModelFile *file;
    if (modelfile_open(&file, a->target, -1, &error) != STATUS_OK) {
        terminal_say("%s", error.text);
        return STATUS_FAILED;
    }
    uint64_t parameters = 0;
    modelfile_meta_uint(file, "source.parameters", 0, &parameters);
    if (!a->quiet)
        terminal_line(stderr, "%s: %.4g M parameters, %.1f MB, %.1f s", a->target,
                      (double)parameters / 1e6, (double)modelfile_bytes(file) / 1e6, seconds);
    modelfile_close(file);
    return STATUS_OK;
}

/* The first signal stops cleanly, a second Ctrl-C at once (timeout(1) sends SIGTERM twice). A
 * hang-up that the parent chose to ignore (nohup) stays ignored. */
static void stop_at(int number) {
    struct sigaction action;
    if (number == SIGHUP && sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        return;
    action = (struct sigaction){.sa_handler = interrupt,
                                .sa_flags = number == SIGINT ? (int)SA_RESETHAND : 0};
    sigaction(number, &action, NULL);
}

int main(int argc, char **argv) {
    static Arguments a;
    Error error = {{0}};
    Status status = streams_fill(&error);
    if (status != STATUS_OK) {
        terminal_say("%s", error.text);
        return (int)status;
    }
    status = read_arguments(&a, argc, argv);
    if (status != STATUS_OK) return (int)status;

    stop_at(SIGINT);
    stop_at(SIGTERM);
    stop_at(SIGHUP);
    signal(SIGPIPE, SIG_IGN); /* who does not want to read remarks still wants the model */
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of write, like a full disk */
    mapped_watch();
    json_memory_guard();
    a.options.cancel = &interrupted;
    a.options.ready = give_up_rights;
    a.options.ready_context = &a;
    if (!a.options.n_threads) a.options.n_threads = threads_default(); /* reads files */

    Meter meter = {.started = clock_seconds()};
    if (!a.quiet) a.options.note = show_note;
    bool shows_progress = !a.quiet && isatty(STDERR_FILENO);
    if (shows_progress) {
        a.options.progress = show_progress;
        a.options.progress_context = &meter;
    }
    status = convert_to_path(a.source, &a.options, a.target, &error);
    if (shows_progress) fputs("\r\033[K", stderr);
    if (status != STATUS_OK) {
        terminal_say("%s", error.text);
        return (int)status;
    }
    return (int)report(&a, clock_seconds() - meter.started);
}
