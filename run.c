/* The `run` program: read the command line, open what it names, give up rights, do one mode.
 *
 *     run [MODEL] [options]          docs/command-line.md
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/default_model.h"
#include "base/json_memory.h"
#include "base/mapped.h"
#include "base/sandbox.h"
#include "base/standard_streams.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "batch/batch.h"
#include "chat/chat.h"
#include "convert/conversions.h"
#include "convert/modelopen.h"
#include "draft/lookup.h"
#include "generate.h"
#include "inspect/attention_view.h"
#include "inspect/inspect.h"
#include "inspect/overrides.h"
#include "inspect/position_view.h"
#include "inspect/recompute.h"
#include "inspect/score.h"
#include "inspect/token_scores.h"

/* The one thing that a signal handler can reach: the signal that asked to stop, SIGINT only where
 * no other did. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    if (interrupted == 0 || interrupted == SIGINT) interrupted = signal_number;
}

/* Ctrl-C asks to stop between two tokens, and a second one ends the process at once. So do SIGTERM
 * and SIGHUP, which else would leave half a conversion, but not the second time: timeout(1) sends
 * its signal to the process and then to the group that it is in. In a chat each Ctrl-C stops an
 * answer, and the others end it, with the terminal as it was. A reader who closes the pipe shows in
 * write's result. */
static void set_signals(bool chat) {
    struct sigaction before,
        stop = {.sa_handler = on_interrupt},
        stop_once = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, chat ? &stop : &stop_once, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write, like a full disk */
}

/* Of a prompt and the like. */
static const size_t MOST_TEXT = (size_t)1 << 30;

/* Everything that is open while the program runs. */
typedef struct Opened {
    Session session;
    Output output;
    ModelOpening model, other; /* MODEL, and --against's */
    Batch *batch;              /* NULL: another mode */
    Chat *chat;                /* likewise */
    const char *prompt_name;
    int prompt_fd;   /* -1: the prompt is on the command line */
    int template_fd; /* of --chat-template; -1: none */
    char *template_text;
    Overrides overrides;
    double begin_seconds; /* that finding the model's files took */
    int n_threads;
    const Isa *isa;
} Opened;

/* ---- Before the rights are given up: every file is opened ---------------------------------- */

/* The text to go on with or, for --eval, to judge. */
static Status open_prompt(Opened *opened, const Options *o, Error *error) {
    const char *path = o->eval ? o->eval : o->prompt_file;
    bool filters = (o->tokenize || o->detokenize) && !o->prompt; /* stdin to stdout */
    bool from_stdin = path        ? strcmp(path, "-") == 0
                      : o->prompt ? strcmp(o->prompt, "-") == 0
                                  : filters;
    opened->prompt_name = from_stdin ? "stdin" : path ? path : "the prompt";
    if (from_stdin) {
        opened->prompt_fd = STDIN_FILENO;
    } else if (path) {
        opened->prompt_fd = open(path, O_RDONLY | O_CLOEXEC);
        if (opened->prompt_fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    }
    return STATUS_OK;
}

static Status open_template(Opened *opened, const Options *o, Error *error) {
    if (!o->chat_template) return STATUS_OK;
    opened->template_fd = open(o->chat_template, O_RDONLY | O_CLOEXEC);
    if (opened->template_fd >= 0) return STATUS_OK;
    return error_set(error, "%s: %s", o->chat_template, strerror(errno));
}

/* Files that get their name when they are whole need their directory until then. */
static Status give_up_rights(Opened *opened, const Options *o, Error *error) {
    SandboxRules rules = {0};
    char directory[4096] = ".";
    size_t n = 0;
    if (opened->output.temporary) {
        const char *slash = strrchr(opened->output.path, '/');
        size_t length = slash ? (size_t)(slash - opened->output.path) + 1 : 0;
        if (length >= sizeof directory)
            return error_set(error, "%s: too long", opened->output.path);
        if (slash) snprintf(directory, sizeof directory, "%.*s", (int)length, opened->output.path);
        rules.writable[n++] = directory;
    }
    if (modelopen_writes_in(&opened->model))
        rules.writable[n++] = modelopen_writes_in(&opened->model);
    if (modelopen_writes_in(&opened->other))
        rules.writable[n++] = modelopen_writes_in(&opened->other);
    if (opened->batch && batch_writable(opened->batch))
        rules.writable[n++] = batch_writable(opened->batch);
    if (o->mode == 1 && chat_prepare(&opened->chat, o, &interrupted, &rules, error) != STATUS_OK)
        return STATUS_FAILED;
    if (o->no_sandbox) return STATUS_OK;
    return sandbox_enter(&rules, &opened->session.sandbox, error);
}

/* ---- Afterwards: what they hold is parsed --------------------------------------------------- */

/* All that fd gives, NUL-terminated. It may never end. */
static Status read_all(int fd, const char *name, char **text, size_t *length, Error *error) {
    size_t capacity = 0;
    *text = NULL;
    *length = 0;
    for (;;) {
        if (*length + 1 >= capacity) {
            capacity = capacity * 2 + 65536;
            char *larger = realloc(*text, capacity);
            if (!larger) return error_set(error, "%s: no memory for it", name);
            *text = larger;
        }
        ssize_t n = read(fd, *text + *length, capacity - *length - 1);
        if (n == 0) break;
        if (interrupted) return STATUS_INTERRUPTED;
        if (*length > MOST_TEXT) return error_set(error, "%s: a text of more than 1 GiB", name);
        if (n < 0 && errno != EINTR) return error_set(error, "%s: %s", name, strerror(errno));
        if (n > 0) *length += (size_t)n;
    }
    (*text)[*length] = '\0';
    return STATUS_OK;
}

static Status read_prompt(Opened *opened, const Options *o, Error *error) {
    Session *session = &opened->session;
    const char *name = opened->prompt_name;
    if (opened->prompt_fd >= 0) {
        Status status =
            read_all(opened->prompt_fd, name, &session->prompt, &session->prompt_length, error);
        if (status != STATUS_OK) return status;
    } else {
        session->prompt = strdup(o->prompt ? o->prompt : "");
        if (!session->prompt) return error_set(error, "no memory for the prompt");
        session->prompt_length = strlen(session->prompt);
    }
    size_t valid = utf8_valid_prefix(session->prompt, session->prompt_length);
    if (valid < session->prompt_length)
        return error_set(error, "%s is not UTF-8 text: byte 0x%02x at offset %zu", name,
                         (unsigned char)session->prompt[valid], valid);
    return STATUS_OK;
}

static Status read_template(Opened *opened, const Options *o, Error *error) {
    size_t length;
    if (opened->template_fd < 0) return STATUS_OK;
    Status status =
        read_all(opened->template_fd, o->chat_template, &opened->template_text, &length, error);
    opened->session.chat_template = opened->template_text;
    return status;
}

static Status open_weights(const Opened *opened, const ModelFile *file, float rope_theta,
                           Model **model, Error *error) {
    const Options *o = opened->session.options;
    const ModelOptions options = {.isa = opened->isa,
                                  .n_threads = opened->n_threads,
                                  .context = (uint32_t)o->context,
                                  .rope_theta = rope_theta,
                                  .max_rows = (uint32_t)o->chunk};
    return model_open(model, file, &options, error);
}

/* --override: said on stderr as well, so that no output is taken for the model's own. */
static Status change_model(Opened *opened, const Options *o, Error *error) {
    Session *session = &opened->session;
    if (o->override.n == 0) return STATUS_OK;
    Status status = overrides_apply(&opened->overrides, &o->override,
                                    modelfile_config_to_change(session->file), error);
    session->overridden = opened->overrides.text;
    if (status == STATUS_OK && !o->info) terminal_say("overridden: %s", opened->overrides.text);
    return status;
}

static Status parse_model(Opened *opened, const Options *o, Error *error) {
    Session *session = &opened->session;
    double start = clock_seconds();
    Status status =
        modelopen_finish(&opened->model, session, opened->n_threads, &session->file, error);
    if (status == STATUS_OK)
        status = modelopen_tokenizer(&opened->model, session->file, &session->tokenizer, error);
    if (status != STATUS_OK) return status;
    if (!session->tokenizer && !o->info && !o->verify)
        return error_set(error, "%s: has no tokenizer: give one with -z FILE", o->model);
    if (o->verify || o->tokenize || o->detokenize) return STATUS_OK;
    if (session->tokenizer)
        tokenizer_limit(session->tokenizer, modelfile_config(session->file)->vocab_size);
    if (o->info && modelfile_n_tensors(session->file) == 0) return STATUS_OK; /* a vocabulary */
    if (o->context > modelfile_config(session->file)->context)
        terminal_say("the model was made for %u positions; more than these may not make sense",
                     modelfile_config(session->file)->context);
    status = change_model(opened, o, error);
    if (status == STATUS_OK)
        status = open_weights(opened, session->file, opened->overrides.rope_theta, &session->model,
                              error);
    if (status != STATUS_OK) return status;
    static const KvType types[] = {0, KV_F32, KV_F16, KV_Q8};
    session->kv_type = o->kv_type ? types[o->kv_type] : model_kv_type(session->model);
    session->load_seconds = opened->begin_seconds + clock_seconds() - start;
    if (!o->against) return STATUS_OK;
    status =
        modelopen_finish(&opened->other, session, opened->n_threads, &session->other_file, error);
    if (status == STATUS_OK)
        status = open_weights(opened, session->other_file, 0.0f, &session->other, error);
    return status;
}

/* Who proposes tokens ahead of each text: prompt lookup, unless --lookup 0. */
static Status new_drafter(const Session *session, Drafter **drafter, Error *error) {
    const Options *o = session->options;
    size_t most = options_given(o, &o->lookup) ? o->lookup : lookup_default(session->file);
    *drafter = most > 0 ? lookup_new(most) : NULL;
    return most > 0 && !*drafter ? error_set(error, "no memory for drafts") : STATUS_OK;
}

/* ---- The program ------------------------------------------------------------------------------
 */

static Status dispatch(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const Options *o = session->options;
    if (o->batch) return batch_run(opened->batch, session, error);
    if (o->info) return inspect_info(session, error);
    if (o->verify) {
        Status status = inspect_verify(session, error);
        return status == STATUS_FAILED ? modelopen_blame(&opened->model, error) : status;
    }
    if (o->tokenize) return inspect_tokenize(session, error);
    if (o->detokenize) return inspect_detokenize(session, error);
    if (o->eval) return score_run(session, error);
    if (o->score) return token_scores_run(session, error);
    if (o->attention) return attention_view_run(session, error);
    if (o->positions) return position_view_run(session, error);
    if (o->no_cache) return recompute_run(session, error);
    if (opened->chat) return chat_run(opened->chat, session, error);
    return generate_run(session, error);
}

/* Pictures have an option of their own to say where they go. */
static const char *output_path(const Options *o) {
    const char *path = o->attention ? o->attention : o->positions;
    return path && strcmp(path, "-") != 0 ? path : o->output;
}

static Status open_everything(Opened *opened, const Options *o, Error *error) {
    opened->isa = isa_choose(o->isa, error);
    if (!opened->isa) return STATUS_USAGE;
    if (o->override.n > 0 && (o->batch || o->session)) {
        error_set(error, "--override is for single texts: not with --batch or --session");
        return STATUS_USAGE;
    }
    opened->n_threads = o->n_threads ? (int)o->n_threads : threads_default();
    double start = clock_seconds();
    Status status = modelopen_begin(&opened->model, o->model, o->tokenizer, o, &interrupted, error);
    opened->begin_seconds = clock_seconds() - start;
    if (status == STATUS_OK && o->against)
        status = modelopen_begin(&opened->other, o->against, NULL, o, &interrupted, error);
    if (status == STATUS_OK) status = open_prompt(opened, o, error);
    if (status == STATUS_OK) status = open_template(opened, o, error);
    if (status == STATUS_OK)
        status = o->batch ? batch_open(&opened->batch, o, error)
                          : output_open(&opened->output, output_path(o), error);
    if (status == STATUS_OK) status = give_up_rights(opened, o, error);
    return status;
}

static void close_everything(Opened *opened) {
    Session *session = &opened->session;
    batch_close(opened->batch);
    chat_free(opened->chat);
    model_close(session->other);
    modelfile_close(session->other_file);
    model_close(session->model);
    tokenizer_close(session->tokenizer);
    modelfile_close(session->file);
    modelopen_close(&opened->model);
    modelopen_close(&opened->other);
    if (opened->prompt_fd > STDIN_FILENO) close(opened->prompt_fd);
    output_close(&opened->output);
    if (opened->template_fd >= 0) close(opened->template_fd);
    free(opened->template_text);
    overrides_free(&opened->overrides);
    free(session->prompt);
}

static Status run(const Options *o, Error *error) {
    Opened opened = {
        .model = MODELOPEN_NONE, .other = MODELOPEN_NONE, .prompt_fd = -1, .template_fd = -1};
    opened.output = (Output){.fd = STDOUT_FILENO};
    opened.session = (Session){.options = o,
                               .output = &opened.output,
                               .shows_progress = isatty(STDERR_FILENO),
                               .new_drafter = new_drafter,
                               .interrupted = &interrupted};
    Status status = open_everything(&opened, o, error);
    if (status == STATUS_OK) status = read_prompt(&opened, o, error);
    if (status == STATUS_OK) status = read_template(&opened, o, error);
    if (status == STATUS_OK) status = parse_model(&opened, o, error);
    if (status == STATUS_OK) status = dispatch(&opened, error);
    if (status == STATUS_OK) status = output_finish(&opened.output, error);
    close_everything(&opened);
    return status;
}

/* Runs with the model that comes with the program where the command line names none. */
static Status run_any(Options *o, Error *error) {
    char *shipped = o->model ? NULL : shipped_model(error);
    if (!o->model && !shipped) return STATUS_USAGE;
    if (shipped) {
        o->model = shipped;
        if (!options_given(o, &o->n_tokens)) o->n_tokens = 0; /* its stories end by themselves */
        if (isatty(STDERR_FILENO))
            terminal_say("no model is named: this is %s (--help says what else there is)", shipped);
    }
    Status status = run(o, error);
    free(shipped);
    return status;
}

static void print_version(void) {
    char libraries[256];
    tokenizer_versions(libraries, sizeof libraries);
    printf("verbatim %s\n%s\n", VERBATIM_VERSION, libraries);
#ifdef HAVE_LIBEDIT
    printf("libedit: yes\n");
#else
    printf("libedit: no\n");
#endif
    printf("instruction sets:");
    for (size_t i = 0; isa_available(i); i++) printf(" %s", isa_available(i)->name);
    printf("\n");
}

int main(int argc, char **argv) {
    Options options = {0};
    Error error = {.text = ""};
    Status status = streams_fill(&error);
    if (status == STATUS_OK) status = options_parse(&options, argc, argv, &error);
    set_signals(status == STATUS_OK && options.mode == 1);
    mapped_watch();
    json_memory_guard();
    if (status == STATUS_OK && options.help) {
        options_print_help(stdout, program_invocation_short_name, options.help_all);
        status = streams_finish(&error);
    } else if (status == STATUS_OK && options.version) {
        print_version();
        status = streams_finish(&error);
    } else if (status == STATUS_OK && options.cache_list) {
        status = conversions_list(stdout, options.cache_dir, &error);
    } else if (status == STATUS_OK && options.cache_clear) {
        status = conversions_clear(stdout, options.cache_dir, &error);
    } else if (status == STATUS_OK) {
        status = run_any(&options, &error);
    }
    if (status == STATUS_INTERRUPTED) {
        terminal_say("interrupted");
    } else if (status != STATUS_OK) {
        terminal_say("%s", error.text);
    }
    return status;
}
