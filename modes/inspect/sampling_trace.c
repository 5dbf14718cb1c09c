#include "modes/inspect/sampling_trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "draft/speculation.h"
#include "modes/inspect/inspect_options.h"
#include "modes/inspect/picture.h"
#include "session/generate.h"
#include "session/generation_options.h"
#include "session/shape.h"

/* A run of --trace. */
typedef struct Trace {
    Session *session;
    size_t n_shown, vocab_size;
    bool json;
    TokenList ids; /* the prompt */
    GenerationOptions options;
    Generation generation;
    SamplerRecord record;
    double *from;   /* [vocab_size] where a token's part of the draws begins, as a fraction */
    int32_t *shown; /* [n_shown + 1] the tokens of one choice that are listed */
    float *logits;  /* [vocab_size] after the prompt */
    size_t n_chosen;
    TextBuffer text;
    Sheet out;
} Trace;

/* ---- Steps of the sampler -------------------------------------------------------------------- */

/* A step that leaves some tokens and makes their probabilities add up to 1 again. */
typedef struct Step {
    const char *key; /* in JSON */
    char name[24];   /* above the column */
    bool on;
    double sum;     /* of the weights that it leaves */
    SamplerCut cut; /* the value in SamplerRecord.cuts of tokens that this step removes */
} Step;

enum { STEPS = 4 };

static void list_steps(const Trace *t, Step steps[STEPS]) {
    const SamplerOptions *o = &t->options.sampling;
    const SamplerRecord *r = &t->record;
    steps[0] = (Step){"temperature", "", o->temperature > 0.0f, r->sum, SAMPLER_NOT_ALLOWED};
    steps[1] = (Step){"top_k", "", o->top_k > 0 && o->top_k < t->vocab_size, r->sum_top_k,
                      SAMPLER_BY_TOP_K};
    steps[2] = (Step){"top_p", "", o->top_p < 1.0f, r->sum_top_p, SAMPLER_BY_TOP_P};
    steps[3] = (Step){"min_p", "", o->min_p > 0.0f, r->sum_min_p, SAMPLER_BY_MIN_P};
    for (size_t i = 1; i < STEPS; i++) steps[i].on = steps[i].on && steps[0].on;
    snprintf(steps[0].name, sizeof steps[0].name, "t %.6g", (double)o->temperature);
    snprintf(steps[1].name, sizeof steps[1].name, "top-k %u", o->top_k);
    snprintf(steps[2].name, sizeof steps[2].name, "top-p %.6g", (double)o->top_p);
    snprintf(steps[3].name, sizeof steps[3].name, "min-p %.6g", (double)o->min_p);
}

static bool is_penalized(const Trace *t) {
    const SamplerOptions *o = &t->options.sampling;
    return o->n_bias > 0 || o->repetition_penalty != 1.0f || o->presence_penalty != 0.0f ||
           o->frequency_penalty != 0.0f;
}

/* Whether the token is still there after step `step`. */
static bool is_left(const Trace *t, const Step steps[STEPS], size_t step, int32_t token) {
    for (size_t i = 0; i <= step; i++)
        if (t->record.cuts[token] == (uint8_t)steps[i].cut) return false;
    return true;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Whether token a is listed before b: by its penalized logit, then by its id. */
static bool comes_before(const SamplerRecord *r, int32_t a, int32_t b) {
    if (r->penalized[a] != r->penalized[b]) return r->penalized[a] > r->penalized[b];
    return a < b;
}

/* Fills t->shown with the likeliest of the tokens that were allowed, and the chosen one after them
 * if it is none of these; returns how many. */
static size_t list_candidates(Trace *t) {
    const SamplerRecord *r = &t->record;
    size_t n = 0;
    bool has_chosen = false;
    for (size_t i = 0; i < t->vocab_size; i++) {
        int32_t token = (int32_t)i;
        if (r->cuts[i] == SAMPLER_NOT_ALLOWED) continue;
        if (n == t->n_shown && !comes_before(r, token, t->shown[n - 1])) continue;
        size_t at = n < t->n_shown ? n++ : n - 1;
        for (; at > 0 && comes_before(r, token, t->shown[at - 1]); at--)
            t->shown[at] = t->shown[at - 1];
        t->shown[at] = token;
    }
    for (size_t i = 0; i < n; i++) has_chosen = has_chosen || t->shown[i] == r->chosen;
    if (!has_chosen) t->shown[n++] = r->chosen;
    return n;
}

/* Computes where each token's part of the draws from 0 to 1 begins: tokens lie side by side in the
 * order of their ids, as the sampler passes them. */
static void place_draws(Trace *t) {
    const SamplerRecord *r = &t->record;
    double passed = 0.0;
    for (size_t i = 0; i < t->vocab_size; i++) {
        t->from[i] = r->sum_min_p > 0.0 ? passed / r->sum_min_p : 0.0;
        if (r->cuts[i] == SAMPLER_LEFT) passed += (double)r->weights[i];
    }
}

static double draws_end(const Trace *t, int32_t token) {
    return t->from[token] + (double)t->record.weights[token] / t->record.sum_min_p;
}

/* ---- As text --------------------------------------------------------------------------------- */

/* Writes the token's text right-aligned in 16 columns, its spaces as open boxes. */
static void write_label(Trace *t, int32_t token) {
    enum { COLUMNS = 16 };
    size_t length;
    const char *bytes = tokenizer_token_text(t->session->tokenizer, token, &length);
    Sheet label = {0}, plain = {0};
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == ' ')
            sheet_add(&label, "\xE2\x90\xA3", 3);
        else
            sheet_add(&label, bytes + i, 1);
    }
    sheet_plain(&plain, label.bytes ? label.bytes : "", label.length);
    size_t columns = utf8_count(plain.bytes ? plain.bytes : "", plain.length);
    sheet_printf(&t->out, "%*s", columns < COLUMNS ? (int)(COLUMNS - columns) : 0, "");
    if (plain.length) sheet_add(&t->out, plain.bytes, plain.length);
    if (label.failed || plain.failed) t->out.failed = true;
    sheet_free(&label);
    sheet_free(&plain);
}

static void write_row(Trace *t, const Step steps[STEPS], int32_t token) {
    const SamplerRecord *r = &t->record;
    sheet_printf(&t->out, "%c ", token == r->chosen ? '>' : ' ');
    write_label(t, token);
    sheet_printf(&t->out, " %6d %9.4f", token, (double)r->logits[token]);
    if (is_penalized(t)) sheet_printf(&t->out, " %9.4f", (double)r->penalized[token]);
    for (size_t i = 0; i < STEPS; i++) {
        if (!steps[i].on) continue;
        if (is_left(t, steps, i, token))
            sheet_printf(&t->out, " %10.6f", (double)r->weights[token] / steps[i].sum);
        else
            sheet_printf(&t->out, " %10s", "-");
    }
    if (steps[0].on && is_left(t, steps, STEPS - 1, token))
        sheet_printf(&t->out, "  %.6f to %.6f", t->from[token], draws_end(t, token));
    sheet_printf(&t->out, "\n");
}

static void write_choice(Trace *t, const Step steps[STEPS], size_t position, size_t n) {
    const SamplerRecord *r = &t->record;
    sheet_printf(&t->out, "%stoken %zu, at position %zu: ", t->n_chosen ? "\n" : "",
                 t->n_chosen + 1, position);
    if (steps[0].on)
        sheet_printf(&t->out, "the draw is %.6f", r->random);
    else
        sheet_printf(&t->out, "the largest logit wins");
    if (r->n_allowed < t->vocab_size)
        sheet_printf(&t->out, "; %zu of %zu tokens are allowed", r->n_allowed, t->vocab_size);
    sheet_printf(&t->out, "\n  %16s %6s %9s", "token", "id", "logit");
    if (is_penalized(t)) sheet_printf(&t->out, " %9s", "penalized");
    for (size_t i = 0; i < STEPS; i++)
        if (steps[i].on) sheet_printf(&t->out, " %10s", steps[i].name);
    sheet_printf(&t->out, "%s\n", steps[0].on ? "  drawn by" : "");
    for (size_t i = 0; i < n; i++) write_row(t, steps, t->shown[i]);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void json_text(Trace *t, const char *name, const char *bytes, size_t n) {
    sheet_printf(&t->out, "\"%s\": \"", name);
    sheet_json(&t->out, bytes, n);
    sheet_printf(&t->out, "\"");
}

/* Writes a token as a JSON object: its logits, its probability after each step that is on (0: taken
 * out), and from where to where a draw chooses it. */
static void json_row(Trace *t, const Step steps[STEPS], int32_t token, bool first) {
    const SamplerRecord *r = &t->record;
    size_t length;
    const char *bytes = tokenizer_token_text(t->session->tokenizer, token, &length);
    sheet_printf(&t->out, "%s\n   {\"id\": %d, ", first ? "" : ",", token);
    json_text(t, "token", bytes, length);
    sheet_printf(&t->out, ", \"logit\": %.9g, \"penalized\": %.9g", (double)r->logits[token],
                 (double)r->penalized[token]);
    for (size_t i = 0; i < STEPS; i++) {
        if (!steps[i].on) continue;
        sheet_printf(&t->out, ", \"%s\": %.17g", steps[i].key,
                     is_left(t, steps, i, token) ? (double)r->weights[token] / steps[i].sum : 0.0);
    }
    if (steps[0].on && is_left(t, steps, STEPS - 1, token))
        sheet_printf(&t->out, ", \"from\": %.17g, \"to\": %.17g", t->from[token],
                     draws_end(t, token));
    sheet_printf(&t->out, "}");
}

static void json_choice(Trace *t, const Step steps[STEPS], size_t position, size_t n) {
    const SamplerRecord *r = &t->record;
    sheet_printf(&t->out, "%s\n  {\"position\": %zu, \"chosen\": %d, ", t->n_chosen ? "," : "",
                 position, r->chosen);
    if (steps[0].on) sheet_printf(&t->out, "\"draw\": %.17g, ", r->random);
    sheet_printf(&t->out, "\"n_allowed\": %zu, \"candidates\": [", r->n_allowed);
    for (size_t i = 0; i < n; i++) json_row(t, steps, t->shown[i], i == 0);
    sheet_printf(&t->out, "]}");
}

static void json_begin(Trace *t) {
    const SamplerOptions *o = &t->options.sampling;
    sheet_printf(&t->out,
                 "{\"seed\": %llu, \"temperature\": %.9g, \"top_k\": %u, \"top_p\": %.9g, "
                 "\"min_p\": %.9g, \"repetition_penalty\": %.9g, \"presence_penalty\": %.9g, "
                 "\"frequency_penalty\": %.9g,\n \"choices\": [",
                 (unsigned long long)o->seed, (double)o->temperature, o->top_k, (double)o->top_p,
                 (double)o->min_p, (double)o->repetition_penalty, (double)o->presence_penalty,
                 (double)o->frequency_penalty);
}

/* ---- The text -------------------------------------------------------------------------------- */

/* Passes what has been written to the session's output. */
static Status hand_on(Trace *t, Error *error) {
    if (t->out.failed || t->text.failed) return error_set(error, "no memory for the trace");
    Status status = t->out.length
                        ? output_write(t->session->output, t->out.bytes, t->out.length, error)
                        : STATUS_OK;
    t->out.length = 0;
    return status;
}

/* Writes the choice that the record holds. */
static Status write_record(Trace *t, size_t position, Error *error) {
    Step steps[STEPS];
    list_steps(t, steps);
    place_draws(t);
    size_t n = list_candidates(t);
    if (t->json)
        json_choice(t, steps, position, n);
    else
        write_choice(t, steps, position, n);
    t->n_chosen++;
    return hand_on(t, error);
}

/* Continues the prompt token by token until the text ends, and writes each choice. */
static Status continue_text(Trace *t, Decoding *decoding, Error *error) {
    Generation *g = &t->generation;
    size_t position = t->ids.length, context = model_context(t->session->model);
    float *logits = t->logits;
    GenerationStep step;
    Status status = generate_prefill(t->session, decoding->cache, NULL, t->ids.ids, t->ids.length,
                                     logits, error);
    while (status == STATUS_OK) {
        if (position == context) g->options.max_tokens = g->n_tokens + 1;
        status = generation_next(g, logits, position, &step, error);
        if (status != STATUS_OK) break;
        text_put(&t->text, step.text, step.length, 0);
        status = write_record(t, position, error);
        if (status != STATUS_OK || g->finish != FINISH_NOT || t->session->output->closed) break;
        if (*t->session->interrupted) return STATUS_INTERRUPTED;
        position++;
        status = decoding_next(decoding, step.token, &logits, error);
    }
    return status;
}

/* Runs the text between the head and the end of the output. */
static Status trace_text(Trace *t, KvCache *cache, Error *error) {
    Session *session = t->session;
    Decoding decoding = {0};
    Status status =
        decoding_init(&decoding, session->model, cache, NULL, t->ids.ids, t->ids.length, error);
    if (status == STATUS_OK)
        status = generation_init(&t->generation, &t->options, session->tokenizer, t->vocab_size,
                                 model_isa(session->model)->numeric, error);
    if (status == STATUS_OK) {
        generation_prompt(&t->generation, t->ids.ids, t->ids.length);
        sampler_keep_record(t->generation.sampler, &t->record);
        if (t->json) json_begin(t);
        status = continue_text(t, &decoding, error);
    }
    decoding_free(&decoding);
    if (status != STATUS_OK) return status;
    if (t->json) {
        sheet_printf(&t->out, "],\n ");
        json_text(t, "text", t->text.bytes ? t->text.bytes : "", t->text.length);
        sheet_printf(&t->out, "}\n");
    } else {
        sheet_printf(&t->out, "\ntext, seed %llu:\n", (unsigned long long)t->options.sampling.seed);
        if (t->text.length) sheet_add(&t->out, t->text.bytes, t->text.length);
        sheet_printf(&t->out, "\n");
    }
    return hand_on(t, error);
}

static Status allocate(Trace *t, Error *error) {
    t->from = calloc(t->vocab_size, sizeof *t->from);
    t->shown = calloc(t->n_shown + 1, sizeof *t->shown);
    t->logits = calloc(t->vocab_size, sizeof *t->logits);
    if (!t->from || !t->shown || !t->logits) return error_set(error, "no memory for the trace");
    return sampler_record_new(&t->record, t->vocab_size, error);
}

Status sampling_trace_run(Session *session, Error *error) {
    const Options *o = session->options;
    const InspectOptions *inspect = inspect_options(o);
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    size_t output = o->output ? strlen(o->output) : 0;
    Trace t = {.session = session,
               .n_shown = (size_t)inspect->trace,
               .vocab_size = model_config(session->model)->vocab_size,
               .json = inspect->trace_json ||
                       (output >= 5 && strcmp(o->output + output - 5, ".json") == 0)};
    KvCache *cache = NULL;
    Status status = session_generation_options(session, &t.options, error);
    t.options.rule = NULL;
    if (session->prompt_length > 0) t.options.decode_flags |= TOKEN_DECODER_CONTINUE;
    if (t.n_shown > t.vocab_size) t.n_shown = t.vocab_size;
    if (status == STATUS_OK) status = generate_prompt_ids(session, &t.ids, error);
    if (status == STATUS_OK)
        status = session_rule(session, session->shape, &t.options, &t.options.rule, error);
    if (status == STATUS_OK) status = allocate(&t, error);
    if (status == STATUS_OK) status = kvcache_new(&cache, &shape, 1, 0, error);
    if (status == STATUS_OK) status = trace_text(&t, cache, error);
    generation_free(&t.generation);
    token_rule_free(t.options.rule);
    kvcache_free(cache);
    sampler_record_free(&t.record);
    free(t.from);
    free(t.shown);
    free(t.logits);
    token_list_free(&t.ids);
    text_free(&t.text);
    sheet_free(&t.out);
    return status;
}
