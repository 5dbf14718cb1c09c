/* The `run` program: read the command line, open what it names, give up rights, do one mode.
 *
 *     run [MODEL] [options]          docs/command-line.md
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/mapped.h"
#include "modes/chat/note.h"
#include "ports/cluster/cluster.h"
#include "convert/adapter_opening.h"
#include "modes/open/default_model.h"
#include "modes/open/draft_opening.h"
#include "modes/open/modelopen.h"
#include "session/json_memory.h"
#include "modes/inspect/fit.h"
#include "modes/inspect/overrides.h"
#include "modes/modes.h"
#include "modes/proof/proof_modes.h"
#include "modes/proof/receipt.h"
#include "session/drafting.h"
#include "session/embedding.h"
#include "session/kept_weights.h"
#include "session/output_names.h"
#include "session/shape.h"
#include "system/peak_memory.h"
#include "system/sandbox.h"
#include "system/standard_streams.h"
#include "system/stack.h"
#include "system/stop_signals.h"
#include "system/terminal.h"
#include "system/text_file.h"
#include "session/versions.h"

/* The most bytes of a prompt or a chat template. */
static const size_t MOST_TEXT = (size_t)1 << 30;

/* A text that an option names: opened first, read when the rights are given up. */
typedef struct TextInput {
    const char *name; /* for errors */
    int fd;           /* -1: none */
    char *text;       /* once it is read; NUL-terminated, owned */
    size_t length;
} TextInput;

/* Everything that is open while the program runs. */
typedef struct Opened {
    Session session;
    Output output;
    ModelOpening model;
    const Mode *mode; /* NULL: continue a text */
    void *state;      /* the mode's */
    TextInput prompt, chat_template;
    TextInput system; /* of -y @FILE */
    SessionShape shape;
    Drafting drafting;
    DraftOpening draft;
    AdapterOpening adapters;
    AdaptiveThreads threads;
    KeptWeights *kept;    /* which of them stay in memory; NULL: all fit */
    Masks *masks;         /* of --override; NULL: the model's own */
    double begin_seconds; /* time to find the model's files */
} Opened;

/* ---- Before the rights are given up: every file is opened ---- */

/* Opens a file that is read later; NULL: there is none. Returns 0 or errno. */
static int try_open_text(TextInput *input, const char *path) {
    if (!path) return 0;
    input->name = path;
    input->fd = open(path, O_RDONLY | O_CLOEXEC);
    return input->fd < 0 ? errno : 0;
}

static Status open_text(TextInput *input, const char *path, Error *error) {
    int why = try_open_text(input, path);
    return why ? error_set(error, "%s: %s", path, strerror(why)) : STATUS_OK;
}

/* Other programs take the name of a template that they know ("chatml") here. */
static Status open_template(TextInput *input, const Options *o, Error *error) {
    int why = try_open_text(input, o->chat_template);
    if (!why) return STATUS_OK;
    if (why != ENOENT) return error_set(error, "%s: %s", o->chat_template, strerror(why));
    return error_set(error,
                     "--chat-template %s: no such file: it takes a template of Jinja, and without "
                     "it the model's own is used",
                     o->chat_template);
}

/* Opens the text to continue or, for --eval, to score. */
static Status open_prompt(TextInput *input, const Options *o, Error *error) {
    const char *path = o->eval ? o->eval : o->prompt_file;
    /* What reads all of stdin where no text is given. */
    bool filters = (o->tokenize || o->detokenize || o->render || o->single_turn) && !o->prompt;
    bool from_stdin = path        ? strcmp(path, "-") == 0
                      : o->prompt ? strcmp(o->prompt, "-") == 0
                                  : filters;
    input->name = from_stdin ? "stdin" : "the prompt";
    if (!from_stdin) return open_text(input, path, error);
    input->fd = STDIN_FILENO;
    if (isatty(STDIN_FILENO)) terminal_say("reading stdin; Ctrl-D ends it");
    return STATUS_OK;
}

/* Says that text waits on stdin which nothing reads. Looks without waiting: a pipe may stay open
 * and empty for ever. A file that somebody has begun to read is that reader's, like the list of a
 * shell's loop. */
static void hint_at_stdin(const Session *session, const TextInput *prompt) {
    struct stat info;
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    const Options *o = session->options;
    if (o->prompt_file || prompt->fd == STDIN_FILENO) return;
    if (fstat(STDIN_FILENO, &info) != 0) return;
    bool file = S_ISREG(info.st_mode) && info.st_size > 0 && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
    bool pipe = S_ISFIFO(info.st_mode) && poll(&ready, 1, 0) == 1 && ready.revents & POLLIN;
    if (file || pipe)
        terminal_say("text waits on stdin, which is not read: -f - %s",
                     o->prompt ? "puts it behind the prompt of -i" : "takes it as the prompt");
}

static Status open_everything(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const Options *o = session->options;
    const Mode *mode = opened->mode;
    SandboxRules rules = {0};
    session->isa = isa_choose(o->isa, error);
    if (!session->isa) return STATUS_USAGE;
    session->n_threads = o->n_threads ? (int)o->n_threads : machine_cores();
    session->free_memory = machine_free_memory();
    double start = clock_seconds();
    Status status =
        modelopen_begin(&opened->model, o->model, o->tokenizer, o, session->interrupted, error);
    if (status == STATUS_OK && !(mode && mode->traits & MODE_WITHOUT_WEIGHTS))
        status = draft_opening_begin(&opened->draft, session, error);
    if (status == STATUS_OK) status = adapter_opening_begin(&opened->adapters, &o->lora, error);
    opened->begin_seconds = clock_seconds() - start;
    if (status == STATUS_OK) status = open_prompt(&opened->prompt, o, error);
    if (status == STATUS_OK) status = open_template(&opened->chat_template, o, error);
    if (status == STATUS_OK && o->system && o->system[0] == '@' && o->system[1] &&
        o->system[1] != '@')
        status = open_text(&opened->system, o->system + 1, error);
    if (status == STATUS_OK) status = session_shape_open(&opened->shape, o, error);
    if (status == STATUS_OK && !(mode && mode->traits & MODE_OWN_OUTPUT))
        status = output_open(&opened->output, o->output, error);
    if (status == STATUS_OK && o->receipt) status = receipt_open(&session->receipt, o, error);
    if (status == STATUS_OK && mode && mode->open)
        status = mode->open(&opened->state, session, &rules, error);
    if (o->stats) session->peak_memory_fd = peak_memory_open();
    if (status != STATUS_OK || o->no_sandbox) return status;
    /* MPI's threads are outside of Landlock: no directory stays open beside them. */
    if (session->cluster) rules = (SandboxRules){.sockets = true};
    return sandbox_enter(&rules, &session->sandbox, error);
}

/* ---- Afterwards: what they hold is parsed ---- */

static Status read_text(TextInput *input, const volatile sig_atomic_t *interrupted, Error *error) {
    if (input->fd < 0) return STATUS_OK;
    return text_file_read(input->fd, input->name, MOST_TEXT, interrupted, &input->text,
                          &input->length, error);
}

/* Drops the one line end behind a message that a file or a pipe holds: `echo` and editors put it
 * there, and the same message typed at a terminal has none. llama.cpp does so with its -f and
 * -sysf, too. */
static void drop_line_end(TextInput *input) {
    input->length = text_file_without_line_end(input->text, input->length);
    input->text[input->length] = '\0';
}

/* Makes what the file of -y @FILE holds, without the line end at its end, the system prompt; and
 * "@TEXT" of -y @@TEXT. */
static Status read_system(TextInput *input, Options *o, const volatile sig_atomic_t *interrupted,
                          Error *error) {
    Status status = read_text(input, interrupted, error);
    if (o->system && strncmp(o->system, "@@", 2) == 0) o->system++;
    if (status != STATUS_OK || !input->text) return status;
    if (strlen(input->text) != input->length)
        return error_set(error, "%s is not UTF-8 text that can be a message: it has a NUL byte",
                         input->name);
    drop_line_end(input);
    o->system = input->text;
    return STATUS_OK;
}

/* -i beside -f: puts the prompt on a line before the text. */
static Status put_before(TextInput *input, const char *prompt, Error *error) {
    size_t n = strlen(prompt);
    bool ends = n == 0 || strchr(" \t\n", prompt[n - 1]);
    char *joined = malloc(n + 1 + input->length + 1);
    if (!joined) return error_set(error, "no memory for the prompt");
    memcpy(joined, prompt, n);
    if (!ends) joined[n++] = '\n';
    memcpy(joined + n, input->text, input->length + 1);
    free(input->text);
    input->text = joined;
    input->length += n;
    return STATUS_OK;
}

/* Reads the prompt of -i, -f or both, which must be UTF-8. */
static Status read_prompt(Opened *opened, Error *error) {
    Session *session = &opened->session;
    TextInput *input = &opened->prompt;
    const Options *o = session->options;
    const char *given = o->prompt;
    bool both = input->fd >= 0 && given && o->prompt_file;
    Status status = STATUS_OK;
    if (input->fd < 0 || both)
        status =
            text_file_check("the prompt", given ? given : "", given ? strlen(given) : 0, error);
    if (status != STATUS_OK) return status;
    if (input->fd < 0) {
        input->text = strdup(given ? given : "");
        if (!input->text) return error_set(error, "no memory for the prompt");
        input->length = strlen(input->text);
    } else {
        status = read_text(input, session->interrupted, error);
        if (status == STATUS_OK && (o->mode == MODE_CHAT || o->render)) drop_line_end(input);
        if (status == STATUS_OK && both) status = put_before(input, given, error);
        if (status != STATUS_OK) return status;
    }
    if (!opened->mode && input->fd >= 0 && input->length == 0)
        terminal_say("%s is empty: the text starts from nothing", input->name);
    session->prompt = input->text;
    session->prompt_length = input->length;
    return STATUS_OK;
}

/* A model has fewer threads than it was given where a limit has no room for them. */
static void take_threads(Session *session) {
    const int n = model_threads(session->model);
    if (n < session->n_threads)
        terminal_say(
            "%d of %d threads: the address space is limited (ulimit -v), and each thread's stack "
            "takes some of it",
            n, session->n_threads);
    session->n_threads = n;
}

/* --override: said on stderr as well, so that no output is taken for the model's own. */
static Status change_model(Session *session, ModelOptions *options, MaskOverride *masks,
                           Error *error) {
    const Options *o = session->options;
    Config *config = modelfile_config_to_change(session->file);
    Overrides overrides;
    if (o->override.n == 0) return STATUS_OK;
    Status status = overrides_apply(&overrides, &o->override, config, error);
    session->overridden = overrides.text;
    options->rope_theta = overrides.rope_theta;
    *masks = overrides.masks;
    if (status != STATUS_OK) return status;
    if (masks_any(masks)) status = masks_prepare(config, options, error);
    session->sees_future = masks_see_future(masks);
    if (status == STATUS_OK && !o->info && cluster_leads(session->cluster))
        terminal_say("overridden: %s", overrides.text);
    return status;
}

/* Chooses which weights stay in memory when not all of them fit, and asks between few of them
 * whether to stop, which a chat goes on after: a pass may then take seconds. Of ranks each reads a
 * part, in its own order. */
static void keep_weights(Opened *opened) {
    static const double PART_FROM_DISK = 1e8; /* multiply-adds with some 100 MB */
    Session *session = &opened->session;
    double free_bytes = session->free_memory;
    for (size_t i = 0; session->adapters && i < session->adapters->n; i++)
        free_bytes -= (double)session->adapters->items[i].bytes;
    size_t kept = session->cluster ? SIZE_MAX : kept_weights_bytes(session->file, free_bytes);
    if (kept == SIZE_MAX) return;
    opened->kept = kept_weights_open(session->model, session->file, kept, 0);
    opened->threads.control.part_work = PART_FROM_DISK;
}

/* Opens the model with the changes that the options ask for: overridden fields and masks, ranks,
 * threads. */
static Status open_weights(Opened *opened, unsigned traits, Error *error) {
    Session *session = &opened->session;
    const Options *o = session->options;
    MaskOverride masks = {.mask = MASK_MODEL};
    const Config *config = modelfile_config(session->file);
    ModelOptions options = session_model_options(session);
    if (modelfile_n_tensors(session->file) == 0 && o->info) return STATUS_OK; /* a vocabulary */
    if (o->context > config->context)
        terminal_say("the model was made for %u positions; more than these may not make sense",
                     config->context);
    Status status = change_model(session, &options, &masks, error);
    if (status == STATUS_OK && !(traits & MODE_WITHOUT_HEAD))
        status = embedding_refuse_text(session->file, error);
    options.exchange = cluster_exchange(session->cluster);
    if (status == STATUS_OK) status = model_open(&session->model, session->file, &options, error);
    if (status == STATUS_OK) take_threads(session);
    if (status == STATUS_OK && masks_any(&masks))
        status = masks_apply(&opened->masks, session->model, &masks, error);
    if (status != STATUS_OK) return status;
    adaptive_threads_init(&opened->threads, session->interrupted);
    session->threads = &opened->threads;
    model_set_pass_control(session->model, &opened->threads.control);
    session->kv_type = session_kv_type(session->model, o->kv_type);
    return STATUS_OK;
}

/* A model larger than the free memory runs, but slowly: said before its first token. Of ranks each
 * holds a part. */
static void warn_of_size(const Session *session) {
    char text[256];
    const Options *o = session->options;
    if (!o->info && !session->cluster &&
        fit_warning(session, session->free_memory, text, sizeof text))
        terminal_say("%s: %s", o->model, text);
}

/* Parses the model file and makes what the run needs of it: tokenizer, weights, adapters, shapes
 * and drafters. */
static Status parse_model(Opened *opened, Error *error) {
    Session *session = &opened->session;
    unsigned traits = opened->mode ? opened->mode->traits : 0;
    double start = clock_seconds();
    Status status =
        modelopen_finish(&opened->model, session, session->n_threads, &session->file, error);
    if (status == STATUS_OK)
        status = modelopen_tokenizer(&opened->model, session->file, &session->tokenizer, error);
    if (status != STATUS_OK) return status;
    session->tokenizer_section = opened->model.section.bytes;
    session->tokenizer_bytes = opened->model.section.size;
    session->sources = opened->model.sources;
    if (!session->tokenizer && !(traits & MODE_WITHOUT_TOKENIZER))
        return error_set(error, "%s: has no tokenizer: give one with -z FILE",
                         session->options->model);
    if (!(traits & MODE_WITHOUT_WEIGHTS)) status = open_weights(opened, traits, error);
    if (status == STATUS_OK && session->model) warn_of_size(session);
    if (status == STATUS_OK) status = adapter_opening_start(&opened->adapters, session, error);
    if (status == STATUS_OK && session->model) keep_weights(opened);
    if (status == STATUS_OK && session->tokenizer && session->model) {
        session->shapes =
            shape_store_new(session->tokenizer, model_config(session->model)->vocab_size);
        if (!session->shapes) return error_set(error, "no memory for the shapes of answers");
        status = session_shape_check(session, error);
    }
    if (status == STATUS_OK) status = draft_opening_finish(&opened->draft, session, error);
    if (status == STATUS_OK && session->model)
        status = drafting_open(&opened->drafting, session, opened->draft.shared, opened->draft.file,
                               error);
    session->load_seconds = opened->begin_seconds + clock_seconds() - start;
    return status;
}

/* ---- The program ---- */

static void close_everything(Opened *opened) {
    Session *session = &opened->session;
    if (opened->mode && opened->mode->close) opened->mode->close(opened->state);
    if (session->options->receipt) receipt_close(session->receipt);
    drafting_close(&opened->drafting);
    draft_opening_close(&opened->draft);
    shape_store_free(session->shapes);
    session_shape_close(&opened->shape);
    adapter_opening_close(&opened->adapters);
    model_close(session->model);
    kept_weights_close(opened->kept);
    masks_free(opened->masks);
    tokenizer_close(session->tokenizer);
    modelfile_close(session->file);
    modelopen_close(&opened->model);
    if (session->peak_memory_fd > 0) close(session->peak_memory_fd);
    if (opened->prompt.fd > STDIN_FILENO) close(opened->prompt.fd);
    if (opened->chat_template.fd >= 0) close(opened->chat_template.fd);
    if (opened->system.fd >= 0) close(opened->system.fd);
    output_close(&opened->output);
    free(session->overridden);
    free(opened->prompt.text);
    free(opened->chat_template.text);
    free(opened->system.text);
}

/* What the receipt of --receipt is of. */
static const char *receipt_kind_of(const Options *o) {
    return o->batch ? "batch" : o->mode == MODE_CHAT ? "chat" : "text";
}

/* run_mode, below, with --receipt: a batch whose lines have failed in part has a receipt, too. */
static Status run_mode(Opened *opened, Error *error);
static Status run_with_receipt(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const Options *o = session->options;
    Error other;
    if (!o->receipt) return run_mode(opened, error);
    Status status = receipt_begin(session->receipt, session, receipt_kind_of(o), error);
    if (status == STATUS_OK) status = run_mode(opened, error);
    if (status != STATUS_OK && status != STATUS_LINES_FAILED) return status;
    if (receipt_finish(session->receipt, &other) == STATUS_OK) return status;
    *error = other;
    return STATUS_FAILED;
}

static Status run_mode(Opened *opened, Error *error) {
    const Mode *mode = opened->mode;
    if (!mode) return proof_generate(&opened->session, NULL, error);
    Status status = mode->run(opened->state, &opened->session, error);
    bool blames = status == STATUS_FAILED && mode->traits & MODE_CHECKS_FILE;
    return blames ? modelopen_blame(&opened->model, error) : status;
}

static Status run(Options *o, const Mode *mode, Cluster *cluster,
                  volatile sig_atomic_t *interrupted, Error *error) {
    Opened opened = {.mode = mode,
                     .output.fd = STDOUT_FILENO,
                     .prompt.fd = -1,
                     .chat_template.fd = -1,
                     .system.fd = -1,
                     .shape.fd = -1,
                     .draft = DRAFT_OPENING_NONE};
    opened.session = (Session){.options = o,
                               .output = &opened.output,
                               .shows_progress = isatty(STDERR_FILENO),
                               .replay_kinds = modes_replay,
                               .drafting = &opened.drafting,
                               .cluster = cluster,
                               .interrupted = interrupted};
    if (mode && mode->traits & MODE_WITHOUT_MODEL) return run_mode(&opened, error);
    Status status = open_everything(&opened, error);
    if (status == STATUS_OK) status = read_prompt(&opened, error);
    if (status == STATUS_OK) status = read_text(&opened.chat_template, interrupted, error);
    opened.session.chat_template = opened.chat_template.text;
    if (status == STATUS_OK) status = read_system(&opened.system, o, interrupted, error);
    if (status == STATUS_OK) status = ollama_defaults_apply(&opened.model.defaults, o, error);
    if (status == STATUS_OK) status = session_shape_read(&opened.shape, o, interrupted, error);
    opened.session.shape = &opened.shape.source;
    if (status == STATUS_OK && mode && mode->prepare)
        status = mode->prepare(opened.state, o, &opened.session, error);
    if (status == STATUS_OK) status = parse_model(&opened, error);
    status = cluster_begin(cluster, &opened.session, status, error);
    if (status == STATUS_OK && (!mode || (o->mode == MODE_CHAT && o->prompt)))
        hint_at_stdin(&opened.session, &opened.prompt);
    if (status == STATUS_OK) status = run_with_receipt(&opened, error);
    if (status == STATUS_OK) status = output_finish(&opened.output, error);
    bool answers = !mode || o->mode == MODE_CHAT;
    if (status == STATUS_OK && answers && opened.session.cut_after > 0) {
        error_set(error,
                  "the text was cut after %zu tokens (-n, or the context) and has not its whole "
                  "shape; --on-length close would end it",
                  opened.session.cut_after);
        status = STATUS_LINES_FAILED;
    }
    close_everything(&opened);
    return status;
}

/* Runs with the model that comes with the program where the command line names none. */
static Status run_any(Options *o, const Mode *mode, Cluster *cluster,
                      volatile sig_atomic_t *interrupted, Error *error) {
    char *found = NULL;
    if (!o->model) found = default_model_path(error);
    if (!o->model && !found) return STATUS_USAGE;
    if (found) {
        o->model = found;
        if (!options_given(o, &o->n_tokens)) o->n_tokens = 0; /* its stories end by themselves */
        if (isatty(STDERR_FILENO) && cluster_leads(cluster))
            note("%s: no model is named, so the story model runs (--help)",
                 program_invocation_short_name);
    }
    Status status = run(o, mode, cluster, interrupted, error);
    free(found);
    return status;
}

static void print_version(void) {
    char libraries[256];
    versions_of_libraries(libraries, sizeof libraries);
    terminal_print(stdout, "verbatim %s\n%s\n", VERBATIM_VERSION, libraries);
#ifdef HAVE_LIBEDIT
    terminal_print(stdout, "libedit: yes\n");
#else
    terminal_print(stdout, "libedit: no\n");
#endif
    terminal_print(stdout, "instruction sets:");
    for (size_t i = 0; isa_available(i); i++) terminal_print(stdout, " %s", isa_available(i)->name);
    terminal_print(stdout, "\n");
}

/* Not inlined: its variables would be on the stack before main has looked at the limit. */
__attribute__((noinline)) static int start(int argc, char **argv) {
    Options options = {0};
    Error error = {.text = ""};
    const Mode *mode = NULL;
    Cluster *cluster = NULL;
    bool follows = true;
    Status status = cluster_join(&cluster, &argc, &argv, &follows, &error);
    if (!follows) {
        cluster_leave(cluster, &error);
        return STATUS_OK;
    }
    if (!cluster) standard_streams_only(argv); /* the descriptors of a cluster stay open */
    if (status == STATUS_OK) status = standard_streams_fill(&error);
    if (status == STATUS_OK) status = options_parse(&options, &modes_options, argc, argv, &error);
    if (status == STATUS_OK) status = drafting_check(&options, &error);
    if (status == STATUS_OK) status = mode_choose(modes, &options, &mode, &error);
    if (status == STATUS_OK) status = output_names_check(&options, &error);
    if (status == STATUS_OK) status = cluster_adapt(cluster, &options, &mode, &error);
    volatile sig_atomic_t *interrupted = stop_signals_catch(options.mode == MODE_CHAT);
    mapped_watch();
    json_memory_guard();
    json_object_seed(0); /* from /dev/urandom, which the sandbox closes */
    if (status == STATUS_OK && options.help && options.model && !strpbrk(options.model, "./")) {
        if (!command_line_help_about(stdout, &options.line, options.model)) {
            error_set(&error, "--help: no option speaks of '%s'; --help all lists them all",
                      options.model);
            status = STATUS_USAGE;
        } else {
            status = standard_streams_finish(&error);
        }
    } else if (status == STATUS_OK && options.help) {
        char *docs = default_model_docs_path();
        options_print_help(stdout, &options, program_invocation_short_name, docs,
                           options.help == HELP_ALL);
        free(docs);
        status = standard_streams_finish(&error);
    } else if (status == STATUS_OK && options.version) {
        print_version();
        status = standard_streams_finish(&error);
    } else if (status == STATUS_OK && mode && mode->traits & MODE_WITHOUT_MODEL) {
        status = run(&options, mode, cluster, interrupted, &error);
    } else if (status == STATUS_OK) {
        status = run_any(&options, mode, cluster, interrupted, &error);
    }
    bool leads = cluster_leads(cluster);
    cluster_leave(cluster, &error);
    if (!leads) return STATUS_OK; /* rank 0 says how it ended */
    if (status == STATUS_INTERRUPTED) {
        terminal_say("interrupted");
    } else if (status != STATUS_OK) {
        terminal_say("%s", error.text);
    }
    options_free(&options);
    return stop_signals_exit_status(status);
}

int main(int argc, char **argv) {
    return stack_suffices() ? start(argc, argv) : STATUS_FAILED;
}
