#include "modes/inspect/inspect_modes.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "modes/proof/proof_options.h"
#include "modes/inspect/inspect_options.h"
#include "modes/open/modelopen.h"
#include "modes/inspect/attention_view.h"
#include "modes/inspect/inspect.h"
#include "modes/inspect/layer_lists.h"
#include "modes/inspect/layer_view.h"
#include "modes/inspect/position_view.h"
#include "modes/inspect/recompute.h"
#include "modes/inspect/render.h"
#include "modes/inspect/sampling_trace.h"
#include "modes/inspect/score.h"
#include "modes/inspect/side_by_side.h"
#include "modes/inspect/token_scores.h"
#include "modes/inspect/why_text.h"
#include "session/embedding.h"
#include "session/sampling_numbers.h"

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* Most modes need no state: an option's field asks for the mode, and one function runs it. */
#define ASKED(field)                                                                               \
    static bool asks_##field(const Options *options) {                                             \
        return inspect_options(options)->field;                                                    \
    }
#define RUN(field, function)                                                                       \
    static Status run_##field(void *state, Session *session, Error *error) {                       \
        (void)state;                                                                               \
        return function(session, error);                                                           \
    }

ASKED(info)
ASKED(layers)
ASKED(verify)
ASKED(tokenize)
ASKED(detokenize)
ASKED(render)
ASKED(eval)
ASKED(attention)
ASKED(score)
ASKED(positions)
ASKED(no_cache)

static bool asks_layer(const Options *options) {
    return options_given(options, &inspect_options(options)->layer);
}

static bool asks_trace(const Options *options) {
    return options_given(options, &inspect_options(options)->trace);
}

RUN(info, inspect_info)
RUN(layers, layer_lists_run)
RUN(layer, layer_view_run)
RUN(verify, inspect_verify)
RUN(tokenize, inspect_tokenize)
RUN(detokenize, inspect_detokenize)
RUN(render, render_run)
RUN(attention, attention_view_run)
RUN(score, token_scores_run)
RUN(positions, position_view_run)
RUN(no_cache, recompute_run)
RUN(trace, sampling_trace_run)

/* ---- Views: --attention and --positions name their output themselves ---- */

/* Whether the name of a picture ends in one of these forms. What has no form and lies in a folder
 * (/dev/stdout) gets the first of them; a bare word (a layer's number, a mistyped "scores") is not
 * a name of a picture. */
static bool has_form(const char *path, const char *const *forms) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (; dot && *forms; forms++)
        if (strcmp(dot, *forms) == 0) return true;
    return !dot && slash;
}

/* Whether an override is of masks.h, which computes whole texts alone. */
static bool has_mask(const OptionList *override) {
    static const char *const names[] = {"mask=", "positions=", "global_tokens="};
    for (size_t i = 0; i < override->n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strncmp(override->items[i], names[k], strlen(names[k])) == 0) return true;
    return false;
}

/* Refuses options that say how text is generated beside modes that generate none. */
static Status check_generates(const Options *o, Error *error) {
    const InspectOptions *inspect = inspect_options(o);
    const char *mode = inspect->score       ? "--score"
                       : inspect->attention ? "--attention"
                       : inspect->positions ? "--positions"
                       : asks_layer(o)      ? "--layer"
                                            : NULL;
#define GIVEN(often, letter, name, field, low, high, help)                                         \
    { "--" name, &o->field }
    const struct {
        const char *name;
        const void *field;
    } all[] = {
        {"-n", &o->n_tokens}, {"--logit-bias", &o->logit_bias}, SAMPLING_NUMBERS(GIVEN, GIVEN)};
#undef GIVEN
    const char *given = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (options_given(o, all[i].field) && !(inspect->no_cache && i == 0)) given = all[i].name;
    if (mode && given)
        return usage(error, "%s looks at the text of -i and generates none: no %s", mode, given);
    if (inspect->no_cache && given && !(options_given(o, &o->temperature) && o->temperature == 0.0))
        return usage(error, "--no-cache takes the likeliest token each time: no %s", given);
    return STATUS_OK;
}

/* --trace beside what it cannot watch; --json is its form. */
static Status check_trace(Options *o, Error *error) {
    static const char *const forms[] = {".json", ".txt", NULL};
    const ProofOptions *proof = proof_options(o);
    if (!asks_trace(o)) return STATUS_OK;
    if (o->mode || o->batch || proof->check || proof->replay || proof->receipt || o->stats ||
        o->echo)
        return usage(error, "--trace N watches one text of -i or -f: no -m, --batch, --check, "
                            "--receipt, --stats or --echo");
    if (o->output && !has_form(o->output, forms))
        return usage(error, "-o %s: the name says the form of --trace: .json or .txt", o->output);
    inspect_options_to_set(o)->trace_json = o->json_object;
    o->json_object = false;
    return STATUS_OK;
}

/* Refuses combinations of options that the modes of this file do not have, and forms that the names
 * of their output files do not say. */
static Status check_views(Options *o, Error *error) {
    const InspectOptions *inspect = inspect_options(o);
    static const char *const maps[] = {".svg", ".html", ".json", NULL}, *const svg[] = {".svg",
                                                                                        NULL};
    static const char *const layer[] = {".svg", ".json", ".txt", NULL};
    const char *picture = inspect->attention ? inspect->attention : inspect->positions;
    bool measures = inspect->info || inspect->layers || inspect->verify || inspect->tokenize ||
                    inspect->detokenize || inspect->render || inspect->score || picture ||
                    inspect->no_cache || asks_layer(o);
    if (check_generates(o, error) != STATUS_OK) return STATUS_USAGE;
    if (inspect->limit && !inspect->eval)
        return usage(error, "--limit N scores N tokens: it needs --eval FILE");
    if (measures && o->stats)
        return usage(error, "--stats measures a text, a chat, a batch or --eval, not this");
    bool shaped = o->json_schema || o->regex || o->grammar || o->choice.n > 0 ||
                  (o->json_object && !inspect->info && !asks_layer(o));
    measures = measures || inspect->eval || inspect->eval_tasks;
    if (measures && o->json_object && shaped)
        return usage(error, "--json is the shape of an answer, and this gives none; --info "
                            "--json, --layer L --json and --score json print JSON");
    if (measures && shaped)
        return usage(error, "the shape of an answer is for a text, a chat or a batch, not this");
    if (inspect->attention && !attention_view_is_text(inspect->attention) &&
        !has_form(inspect->attention, maps))
        return usage(error,
                     "--attention %s: the name says the form: .svg, .html, .json; or for the "
                     "terminal - or scores or ranks or LAYER.HEAD",
                     inspect->attention);
    bool is_table = inspect->positions && strcmp(inspect->positions, "table") == 0;
    if (inspect->positions && !is_table && strcmp(inspect->positions, "-") != 0 &&
        !has_form(inspect->positions, svg))
        return usage(error,
                     "--positions %s: the picture is SVG: give a name in .svg, or -; or table",
                     inspect->positions);
    if ((inspect->score || picture || inspect->no_cache || asks_layer(o)) && o->mode)
        return usage(error, "--score, --attention, --positions, --layer and --no-cache look at one "
                            "text: not with -m chat");
    if (options_given(o, &inspect->position) && !asks_layer(o))
        return usage(error,
                     "--position P is a token that --layer L looks at; --positions OUT draws "
                     "the position code");
    if (asks_layer(o) && o->output && !has_form(o->output, layer))
        return usage(error, "-o %s: the name says the form of --layer: .svg, .json or .txt",
                     o->output);
    if (picture && o->output)
        return usage(error, "--attention and --positions name their own file: no -o");
    bool is_text = is_table || (inspect->attention && attention_view_is_text(inspect->attention));
    if (picture && strcmp(picture, "-") != 0 && !is_text) o->output = picture;
    if (has_mask(&o->override) && !inspect->score && !inspect->eval && !inspect->attention)
        return usage(error, "--override mask, positions and global_tokens are for looking and "
                            "scoring: with --score, --eval or --attention");
    if (o->override.n > 0 && options_ask(o, "session"))
        return usage(error, "--override is for single texts: not with --batch or --session");
    return STATUS_OK;
}

/* ---- --eval, and the second model that --against names ---- */

static bool asks_side_by_side(const Options *o) {
    const InspectOptions *inspect = inspect_options(o);
    return inspect->against && !inspect->eval && !inspect->eval_tasks;
}

static Status check_why(const Options *o, Error *error) {
    const InspectOptions *inspect = inspect_options(o);
    if (inspect->why && !inspect->against)
        return usage(error, "--why needs --against MODEL, whose answers it explains");
    if (inspect->why && o->lora.n > 0)
        return usage(error, "--why exchanges the tensors of two files, and --lora changes neither "
                            "file: merge the adapter (export --lora) and compare the result");
    if (inspect->why && o->override.n > 0)
        return usage(error, "--why exchanges tensors: no --override");
    return STATUS_OK;
}

/* Refuses options that contradict --eval, --eval-tasks or --against. */
static Status check_eval(Options *o, Error *error) {
    const InspectOptions *inspect = inspect_options(o);
    const ProofOptions *proof = proof_options(o);
    if (check_why(o, error) != STATUS_OK) return STATUS_USAGE;
    bool shaped = o->json_schema || o->regex || o->grammar || o->choice.n > 0 || o->json_object;
    if (asks_side_by_side(o) && !o->prompt && !o->prompt_file)
        return usage(error, "--against MODEL compares on a text: --eval FILE, or -i TEXT for the "
                            "answers of both");
    if (asks_side_by_side(o) && (o->batch || o->mode || proof->check || proof->replay ||
                                 proof->receipt || o->lora.n > 0 || o->echo || o->stats || shaped))
        return usage(error, "--against beside -i or -f continues one text with two models: no -m, "
                            "--batch, --check, --receipt, --lora, --echo, --stats or shape");
    if (inspect->eval_tasks &&
        (o->prompt || o->prompt_file || o->mode || o->batch || proof->check || inspect->eval ||
         inspect->score || inspect->info || proof->replay || proof->receipt))
        return usage(error, "--eval-tasks FILE names the questions: no -i, -f, -m, --batch or "
                            "other mode");
    if (inspect->eval && (o->prompt || o->prompt_file))
        return usage(error, "--eval FILE names the text: no -i or -f");
    if (inspect->eval && (o->mode || options_given(o, &o->n_tokens)))
        return usage(error, "--eval FILE scores a text and generates none: no -m and -n; --limit N "
                            "scores its first N tokens");
    if (inspect->eval_tasks && options_given(o, &o->n_tokens))
        return usage(error, "--eval-tasks FILE scores choices and generates none: no -n");
    return STATUS_OK;
}

static Status open_eval(void **state, const Session *session, SandboxRules *rules, Error *error) {
    const Options *o = session->options;
    const InspectOptions *inspect = inspect_options(o);
    if (!inspect->against) return STATUS_OK;
    ModelOpening *other = malloc(sizeof *other);
    if (!other) return error_set(error, "no memory for a second model");
    *state = other;
    (void)rules;
    return modelopen_begin(other, inspect->against, NULL, o, session->interrupted, error);
}

/* Calls `runs` with the second model open (--against), if there is one. */
static Status run_with_other(ModelOpening *opening, Session *session,
                             Status (*runs)(Session *session, ModelFile *file, Error *error),
                             Error *error) {
    ModelOptions options = session_model_options(session);
    ModelFile *file = NULL;
    Status status = STATUS_OK;
    /* Both score the same chunks, and a mask (masks.h) needs the whole text in one. */
    options.max_rows = (uint32_t)model_max_rows(session->model);
    if (opening) status = modelopen_finish(opening, session, session->n_threads, &file, error);
    if (opening && status == STATUS_OK) status = embedding_refuse_text(file, error);
    if (opening && status == STATUS_OK) status = model_open(&session->other, file, &options, error);
    if (status == STATUS_OK) status = runs(session, file, error);
    model_close(session->other);
    modelfile_close(file);
    session->other = NULL;
    return status;
}

static Status score(Session *session, ModelFile *file, Error *error) {
    Status status = score_run(session, error);
    if (status != STATUS_OK || !inspect_options(session->options)->why) return status;
    return why_text_run(session, file, score_other_kv_type(session), error);
}

static Status run_eval(void *state, Session *session, Error *error) {
    return run_with_other(state, session, score, error);
}

static Status run_side_by_side(void *state, Session *session, Error *error) {
    return run_with_other(state, session, side_by_side_run, error);
}

static void close_eval(void *state) {
    if (state) modelopen_close(state);
    free(state);
}

/* ---- The modes ---- */

const Mode inspect_info_mode = {.name = "--info",
                                .traits = MODE_WITHOUT_TOKENIZER | MODE_WITHOUT_HEAD,
                                .asked = asks_info,
                                .run = run_info};
const Mode inspect_layers_mode = {.name = "--layers",
                                  .traits = MODE_WITHOUT_TOKENIZER | MODE_WITHOUT_HEAD,
                                  .asked = asks_layers,
                                  .run = run_layers};
const Mode inspect_verify_mode = {.name = "--verify",
                                  .traits = MODE_WITHOUT_TOKENIZER | MODE_WITHOUT_WEIGHTS |
                                            MODE_CHECKS_FILE,
                                  .asked = asks_verify,
                                  .run = run_verify};
const Mode inspect_tokenize_mode = {.name = "--tokenize",
                                    .traits = MODE_WITHOUT_WEIGHTS,
                                    .asked = asks_tokenize,
                                    .run = run_tokenize};
const Mode inspect_detokenize_mode = {.name = "--detokenize",
                                      .traits = MODE_WITHOUT_WEIGHTS,
                                      .asked = asks_detokenize,
                                      .run = run_detokenize};
const Mode inspect_render_mode = {
    .name = "--render", .traits = MODE_WITHOUT_WEIGHTS, .asked = asks_render, .run = run_render};
const Mode inspect_eval_mode = {.name = "--eval",
                                .asked = asks_eval,
                                .check = check_eval,
                                .open = open_eval,
                                .run = run_eval,
                                .close = close_eval};
const Mode inspect_side_by_side_mode = {.name = "--against",
                                        .asked = asks_side_by_side,
                                        .open = open_eval,
                                        .run = run_side_by_side,
                                        .close = close_eval};
const Mode inspect_score_mode = {
    .name = "--score", .asked = asks_score, .check = check_views, .run = run_score};
const Mode inspect_attention_mode = {.name = "--attention",
                                     .traits = MODE_WITHOUT_HEAD,
                                     .asked = asks_attention,
                                     .run = run_attention};
const Mode inspect_positions_mode = {.name = "--positions",
                                     .traits = MODE_WITHOUT_HEAD,
                                     .asked = asks_positions,
                                     .run = run_positions};
const Mode inspect_layer_mode = {
    .name = "--layer", .traits = MODE_WITHOUT_HEAD, .asked = asks_layer, .run = run_layer};
const Mode inspect_no_cache_mode = {
    .name = "--no-cache", .asked = asks_no_cache, .run = run_no_cache};
const Mode inspect_trace_mode = {
    .name = "--trace", .asked = asks_trace, .check = check_trace, .run = run_trace};
