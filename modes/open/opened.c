#include "modes/open/opened.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "modes/proof/proof_options.h"
#include "modes/open/conversion_options.h"
#include "base/clock.h"
#include "base/machine.h"
#include "modes/open/default_model.h"
#include "modes/proof/receipt.h"
#include "system/note.h"
#include "system/peak_memory.h"

void opened_init(Opened *opened, Options *options, const Mode *mode,
                 volatile sig_atomic_t *interrupted) {
    *opened = (Opened){.options = options,
                       .mode = mode,
                       .ranks.leads = true,
                       .output.fd = STDOUT_FILENO,
                       .model = MODELOPEN_NONE,
                       .texts = INPUT_TEXTS_NONE,
                       .shape.fd = -1,
                       .draft = DRAFT_OPENING_NONE};
    opened->session = (Session){.options = options,
                                .output = &opened->output,
                                .shows_progress = isatty(STDERR_FILENO),
                                .drafting = &opened->drafting,
                                .interrupted = interrupted};
}

/* ---- Before the rights are given up: every file is opened ---- */

/* Names the model that comes with the program where the command line names none. */
static Status choose_model(Opened *opened, Error *error) {
    Options *o = opened->options;
    if (o->model) return STATUS_OK;
    opened->found = default_model_path(error);
    if (!opened->found) return STATUS_USAGE;
    o->model = opened->found;
    if (!options_given(o, &o->n_tokens)) o->n_tokens = 0; /* its stories end by themselves */
    if (isatty(STDERR_FILENO) && opened->ranks.leads)
        note("%s: no model is named, so the story model runs (--help)",
             program_invocation_short_name);
    return STATUS_OK;
}

/* Opens the files of the model, of the one that drafts and of adapters. */
static Status open_models(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const Options *o = opened->options;
    const ConversionOptions *conversion = conversion_options(o);
    double start = clock_seconds();
    Status status = modelopen_begin(&opened->model, o->model, conversion->tokenizer, o,
                                    session->interrupted, error);
    if (status == STATUS_OK && !(opened->mode->traits & MODE_WITHOUT_WEIGHTS))
        status = draft_opening_begin(&opened->draft, session, error);
    if (status == STATUS_OK) status = adapter_opening_begin(&opened->adapters, &o->lora, error);
    opened->begin_seconds = clock_seconds() - start;
    return status;
}

Status opened_files(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const Options *o = opened->options;
    const ProofOptions *proof = proof_options(o);
    const Mode *mode = opened->mode;
    Status status = choose_model(opened, error);
    if (status != STATUS_OK) return status;
    session->isa = isa_choose(o->isa, error);
    if (!session->isa) return STATUS_USAGE;
    session->n_threads = o->n_threads ? (int)o->n_threads : machine_cores();
    session->free_memory = machine_free_memory();
    status = open_models(opened, error);
    if (status == STATUS_OK) status = input_texts_open(&opened->texts, o, error);
    if (status == STATUS_OK) status = session_shape_open(&opened->shape, o, error);
    if (status == STATUS_OK && !(mode->traits & MODE_OWN_OUTPUT))
        status = output_open(&opened->output, o->output, error);
    if (status == STATUS_OK && proof->receipt) status = receipt_open(&session->receipt, o, error);
    if (status == STATUS_OK && mode->open)
        status = mode->open(&opened->state, session, &opened->rules, error);
    if (o->stats) session->peak_memory_fd = peak_memory_open();
    return status;
}

Status opened_give_up_rights(Opened *opened, Error *error) {
    Session *session = &opened->session;
    if (opened->options->no_sandbox) return STATUS_OK;
    /* MPI's threads are outside of Landlock: no directory stays open beside them. */
    if (session->cluster) opened->rules = (SandboxRules){.sockets = true};
    return sandbox_enter(&opened->rules, &session->sandbox, error);
}

/* ---- Afterwards: what they hold is parsed ---- */

/* Parses what the answer is asked for by: texts, the parameters that come with a model of ollama,
 * the shape. */
static Status parse_question(Opened *opened, Error *error) {
    Session *session = &opened->session;
    Options *o = opened->options;
    const Mode *mode = opened->mode;
    bool continues = mode->traits & MODE_CONTINUES_TEXT;
    Status status = input_texts_read(&opened->texts, o, continues, session, error);
    if (status == STATUS_OK) status = ollama_defaults_apply(&opened->model.defaults, o, error);
    if (status == STATUS_OK)
        status = session_shape_read(&opened->shape, o, session->interrupted, error);
    session->shape = &opened->shape.source;
    if (status == STATUS_OK && mode->prepare)
        status = mode->prepare(opened->state, o, session, error);
    return status;
}

/* Parses the model file and its tokenizer. */
static Status parse_file(Opened *opened, Error *error) {
    Session *session = &opened->session;
    Status status =
        modelopen_finish(&opened->model, session, session->n_threads, &session->file, error);
    if (status == STATUS_OK)
        status = modelopen_tokenizer(&opened->model, session->file, &session->tokenizer, error);
    if (status != STATUS_OK) return status;
    session->tokenizer_section = opened->model.section.bytes;
    session->tokenizer_bytes = opened->model.section.size;
    session->sources = opened->model.sources;
    if (!session->tokenizer && !(opened->mode->traits & MODE_WITHOUT_TOKENIZER))
        return error_set(error, "%s: has no tokenizer: give one with -z FILE",
                         opened->options->model);
    return STATUS_OK;
}

/* Prepares the shapes that answers may have, and checks that of the options. */
static Status start_shapes(Session *session, Error *error) {
    if (!session->tokenizer || !session->model) return STATUS_OK;
    session->shapes = shape_store_new(session->tokenizer, model_config(session->model)->vocab_size);
    if (!session->shapes) return error_set(error, "no memory for the shapes of answers");
    return session_shape_check(session, error);
}

/* Parses the model file and makes what the mode needs of it: tokenizer, weights, adapters, shapes
 * and drafters. */
static Status parse_model(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const unsigned traits = opened->mode->traits;
    double start = clock_seconds();
    Status status = parse_file(opened, error);
    if (status == STATUS_OK && !(traits & MODE_WITHOUT_WEIGHTS))
        status = weights_opening_start(&opened->weights, session, traits, &opened->ranks, error);
    if (status == STATUS_OK) status = adapter_opening_start(&opened->adapters, session, error);
    if (status == STATUS_OK && session->model) weights_opening_keep(&opened->weights, session);
    if (status == STATUS_OK) status = start_shapes(session, error);
    if (status == STATUS_OK) status = draft_opening_finish(&opened->draft, session, error);
    if (status == STATUS_OK && session->model)
        status = drafting_open(&opened->drafting, session, opened->draft.shared, opened->draft.file,
                               error);
    session->load_seconds = opened->begin_seconds + clock_seconds() - start;
    return status;
}

Status opened_parse(Opened *opened, Error *error) {
    Status status = parse_question(opened, error);
    return status == STATUS_OK ? parse_model(opened, error) : status;
}

/* ---- Around the answer ---- */

Status opened_begin_answer(Opened *opened, Error *error) {
    Session *session = &opened->session;
    const Options *o = opened->options;
    const ProofOptions *proof = proof_options(o);
    bool chats = o->mode == TEXT_CHAT;
    const char *kind = o->batch ? "batch" : chats ? "chat" : "text";
    if (opened->mode->traits & MODE_CONTINUES_TEXT || (chats && o->prompt))
        input_texts_hint_at_stdin(&opened->texts, o);
    return proof->receipt ? receipt_begin(session->receipt, session, kind, error) : STATUS_OK;
}

/* A batch whose lines have failed in part has a receipt, too. */
static Status finish_receipt(Opened *opened, Status status, Error *error) {
    Error other;
    if (!proof_options(opened->options)->receipt) return status;
    if (status != STATUS_OK && status != STATUS_LINES_FAILED) return status;
    if (receipt_finish(opened->session.receipt, &other) == STATUS_OK) return status;
    *error = other;
    return STATUS_FAILED;
}

Status opened_end_answer(Opened *opened, Status status, Error *error) {
    const unsigned traits = opened->mode->traits;
    const size_t cut_after = opened->session.cut_after;
    if (status == STATUS_FAILED && traits & MODE_CHECKS_FILE)
        status = modelopen_blame(&opened->model, error);
    status = finish_receipt(opened, status, error);
    if (status == STATUS_OK) status = output_finish(&opened->output, error);
    bool answers = traits & MODE_CONTINUES_TEXT || opened->options->mode == TEXT_CHAT;
    if (status != STATUS_OK || !answers || cut_after == 0) return status;
    error_set(error,
              "the text was cut after %zu tokens (-n, or the context), before its shape was "
              "complete; --on-length close completes it",
              cut_after);
    return STATUS_LINES_FAILED;
}

/* ---- The end ---- */

void opened_close(Opened *opened) {
    Session *session = &opened->session;
    if (opened->mode->close) opened->mode->close(opened->state);
    if (proof_options(opened->options)->receipt) receipt_close(session->receipt);
    drafting_close(&opened->drafting);
    draft_opening_close(&opened->draft);
    shape_store_free(session->shapes);
    session_shape_close(&opened->shape);
    adapter_opening_close(&opened->adapters);
    model_close(session->model);
    weights_opening_close(&opened->weights);
    tokenizer_close(session->tokenizer);
    modelfile_close(session->file);
    modelopen_close(&opened->model);
    if (session->peak_memory_fd > 0) close(session->peak_memory_fd);
    input_texts_close(&opened->texts);
    output_close(&opened->output);
    free(session->overridden);
    free(opened->found);
}
