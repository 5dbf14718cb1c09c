#include "ports/browser/story.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/unicode.h"
#include "ports/browser/memory_file.h"
#include "generation.h"
#include "core/prefill.h"
#include "modes/proof/model_digest.h"
#include "modes/proof/revisions.h"

struct Story {
    MemoryFile bytes;
    ModelFile *file;
    Tokenizer *tokenizer;
    StoryOptions options;
    /* State of one text, from story_begin to the next. */
    Model *model;
    KvCache *cache;
    Generation text;
    TokenList prompt;
    float *logits; /* [vocab_size], of the token at `position` - 1 */
    size_t position;
    GenerationStep step;
    char *digests; /* of the model, for story_facts; NULL: not hashed yet */
    TextBuffer facts;
    Error error;
};

void *story_memory(size_t n) {
    size_t whole;
    if (__builtin_add_overflow(n, (size_t)63, &whole)) return NULL;
    return aligned_alloc(64, whole & ~(size_t)63);
}

const char *story_error(const Story *story) {
    return story->error.text;
}

StoryOptions *story_options(Story *story) {
    return &story->options;
}

/* ---- The model ---- */

static Status open_file(Story *s, Error *error) {
    size_t n;
    if (modelfile_open(&s->file, "the model", memory_file_descriptor(&s->bytes), error) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (modelfile_meta_uint(s->file, "embedding.only", 0, &(uint64_t){0}))
        return error_set(error, "a model without an output head gives no text");
    const void *section = modelfile_section(s->file, SECTION_TOKENIZER, &n);
    if (!section) return error_set(error, "the model has no tokenizer");
    return tokenizer_open_for(&s->tokenizer, "the model", section, n,
                              modelfile_config(s->file)->vocab_size, error);
}

static Status open_model(Story *s, Error *error) {
    const ModelOptions options = {.n_threads = 1, .context = (uint32_t)s->options.context};
    if (model_open(&s->model, s->file, &options, error) != STATUS_OK) return STATUS_FAILED;
    const KvShape shape = model_kv_shape(s->model, model_kv_type(s->model));
    return kvcache_new(&s->cache, &shape, 1, 0, error);
}

static void close_text(Story *s) {
    free(s->logits);
    token_list_free(&s->prompt);
    if (s->text.sampler) generation_free(&s->text);
    kvcache_free(s->cache);
    model_close(s->model);
    s->logits = NULL;
    s->prompt = (TokenList){0};
    s->cache = NULL;
    s->model = NULL;
    s->step = (GenerationStep){0};
}

Story *story_open(const void *model, size_t bytes) {
    Story *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->bytes = (MemoryFile){.bytes = model, .length = bytes};
    if (open_file(s, &s->error) != STATUS_OK || open_model(s, &s->error) != STATUS_OK) return s;
    const SamplerOptions own = generation_defaults(s->file, s->tokenizer).sampling;
    s->options = (StoryOptions){.temperature = (double)own.temperature,
                                .top_p = (double)own.top_p,
                                .min_p = (double)own.min_p,
                                .repetition_penalty = (double)own.repetition_penalty,
                                .presence_penalty = (double)own.presence_penalty,
                                .frequency_penalty = (double)own.frequency_penalty,
                                .top_k = own.top_k,
                                .max_tokens = 256,
                                .context = model_context(s->model)};
    close_text(s);
    return s;
}

/* ---- One text ---- */

static bool is_within(double x, double low, double high) {
    return x >= low && x <= high;
}

/* The ranges are the same as for run's options. */
static Status read_options(const StoryOptions *o, GenerationOptions *out, Error *error) {
    if (!is_within(o->temperature, 0, 1e3) || !is_within(o->top_p, 0, 1) ||
        !is_within(o->min_p, 0, 1) || !is_within(o->repetition_penalty, 1e-3, 1e3) ||
        !is_within(o->presence_penalty, -1e3, 1e3) || !is_within(o->frequency_penalty, -1e3, 1e3) ||
        !is_within(o->top_k, 0, 1e9) || floor(o->top_k) != o->top_k ||
        !is_within(o->max_tokens, 0, 1e9) || floor(o->max_tokens) != o->max_tokens ||
        !is_within(o->context, 1, 1e8) || floor(o->context) != o->context)
        return error_set(error, "an option is outside its range");
    SamplerOptions *s = &out->sampling;
    s->temperature = (float)o->temperature;
    s->top_p = (float)o->top_p;
    s->min_p = (float)o->min_p;
    s->repetition_penalty = (float)o->repetition_penalty;
    s->presence_penalty = (float)o->presence_penalty;
    s->frequency_penalty = (float)o->frequency_penalty;
    s->top_k = (uint32_t)o->top_k;
    s->seed = o->seed;
    out->max_tokens = (size_t)o->max_tokens;
    return STATUS_OK;
}

/* Begins a text: reads the options, opens the model, encodes the prompt and computes it. s->logits
 * are then the logits for the first token. */
static Status begin(Story *s, const GenerationText *text, Error *error) {
    GenerationOptions options = generation_defaults(s->file, s->tokenizer);
    if (read_options(&s->options, &options, error) != STATUS_OK) return STATUS_FAILED;
    if (utf8_valid_prefix(text->text, text->length) < text->length)
        return error_set(error, "the prompt is not UTF-8 text");
    if (text->length > 0) options.decode_flags |= TOKEN_DECODER_CONTINUE;
    if (open_model(s, error) != STATUS_OK) return STATUS_FAILED;
    size_t vocab_size = model_config(s->model)->vocab_size;
    s->logits = malloc(vocab_size * sizeof *s->logits);
    if (!s->logits) return error_set(error, "no memory for the logits");
    if (generation_prompt_ids(s->model, s->file, s->tokenizer, text, &s->prompt, error) !=
            STATUS_OK ||
        generation_init(&s->text, &options, s->tokenizer, vocab_size, model_isa(s->model)->numeric,
                        error) != STATUS_OK)
        return STATUS_FAILED;
    generation_prompt(&s->text, s->prompt.ids, s->prompt.length);
    s->position = s->prompt.length;
    const Prefill prompt = {.ids = s->prompt.ids,
                            .n = s->prompt.length,
                            .first_wanted = s->prompt.length - 1,
                            .logits = s->logits};
    return prefill(s->model, s->cache, &prompt, error);
}

int story_begin(Story *s, const char *prompt, size_t length) {
    const GenerationText text = {.text = prompt, .length = length};
    close_text(s);
    if (!s->tokenizer) return -1; /* the model could not be opened */
    s->error.text[0] = '\0';
    if (begin(s, &text, &s->error) == STATUS_OK) return 0;
    close_text(s);
    return -1;
}

static Status next(Story *s, Error *error) {
    /* The token before goes through the model only when another one is asked for. */
    if (s->text.n_tokens > 0) {
        const Row row = {
            .position = (int32_t)s->position++, .token = s->step.token, .wants_logits = true};
        if (model_forward(s->model, s->cache, &row, 1, s->logits, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (s->position == model_context(s->model)) s->text.options.max_tokens = s->text.n_tokens + 1;
    return generation_next(&s->text, s->logits, s->position, &s->step, error);
}

int story_next(Story *s) {
    s->step.length = 0;
    if (!s->logits || s->text.finish != FINISH_NOT) return 0;
    if (next(s, &s->error) != STATUS_OK) return -1;
    return s->text.finish == FINISH_NOT;
}

const char *story_text(const Story *s) {
    return s->step.text;
}

size_t story_length(const Story *s) {
    return s->step.length;
}

size_t story_n_tokens(const Story *s) {
    return s->text.n_tokens;
}

size_t story_n_prompt(const Story *s) {
    return s->prompt.length;
}

const char *story_finish(const Story *s) {
    static const char *const names[] = {[FINISH_NOT] = "interrupted",
                                        [FINISH_EOS] = "end",
                                        [FINISH_STOP] = "stop",
                                        [FINISH_LENGTH] = "length"};
    return names[s->text.finish];
}

/* ---- What a receipt says ---- */

void story_sha256(const void *bytes, size_t n, char digest[SHA256_HEX]) {
    sha256_text(bytes, n, digest);
}

static void put_fact(TextBuffer *facts, const char *name, const char *value) {
    text_put(facts, name, strlen(name), 0);
    text_put(facts, " ", 1, 0);
    text_put(facts, value, strlen(value), 0);
    text_put(facts, "\n", 1, 0);
}

static void put_section(TextBuffer *facts, const char *name, const Story *s, SectionKind kind) {
    char digest[SHA256_HEX] = "null";
    size_t n;
    const void *bytes = modelfile_section(s->file, kind, &n);
    if (bytes && n > 0) sha256_text(bytes, n, digest);
    put_fact(facts, name, digest);
}

/* Keeps the lines that depend on the model alone. */
static Status hash_model(Story *s, Error *error) {
    const ModelDigestOptions how = {.n_threads = 1};
    TextBuffer facts = {0};
    TensorDigest *tensors;
    char digest[SHA256_HEX], name[MODELFILE_NAME_BYTES + 8];
    if (model_digest_config(modelfile_config(s->file), digest, error) != STATUS_OK)
        return STATUS_FAILED;
    put_fact(&facts, "config", digest);
    put_section(&facts, "tokenizer", s, SECTION_TOKENIZER);
    put_section(&facts, "template", s, SECTION_TEMPLATE);
    Status status = model_digest_weights(s->file, &how, digest, &tensors, error);
    if (status == STATUS_OK) put_fact(&facts, "weights", digest);
    for (size_t i = 0; status == STATUS_OK && i < modelfile_n_tensors(s->file); i++) {
        snprintf(name, sizeof name, "tensors.%s", tensors[i].tensor->name);
        put_fact(&facts, name, tensors[i].sha256);
    }
    if (status == STATUS_OK) free(tensors);
    text_put(&facts, "", 1, 0);
    if (status == STATUS_OK && facts.failed) status = error_set(error, "no memory for the digests");
    if (status == STATUS_OK) {
        s->digests = facts.bytes;
    } else {
        text_free(&facts);
    }
    return status;
}

/* The earlier revisions whose receipts of a text this program repeats. */
static void put_repeated(TextBuffer *facts) {
    char number[16];
    const Revision *revision;
    text_put(facts, "repeated_revisions", 18, 0);
    for (int i = 0; (revision = revision_at(i)); i++) {
        int n = snprintf(number, sizeof number, " %d", revision->number);
        if (revision->repeated) text_put(facts, number, (size_t)n, 0);
    }
    text_put(facts, "\n", 1, 0);
}

const char *story_facts(Story *s) {
    char digest[SHA256_HEX], number[16];
    text_free(&s->facts);
    s->facts = (TextBuffer){0};
    if (!s->model || (!s->digests && hash_model(s, &s->error) != STATUS_OK)) return NULL;
    sha256_text(s->prompt.ids, s->prompt.length * sizeof *s->prompt.ids, digest);
    put_fact(&s->facts, "prompt_tokens", digest);
    snprintf(number, sizeof number, "%d", NUMERIC_REVISION);
    put_fact(&s->facts, "numeric_revision", number);
    put_repeated(&s->facts);
    put_fact(&s->facts, "kv-type", kv_type_name(model_kv_type(s->model)));
    text_put(&s->facts, "eos ", 4, 0);
    for (size_t i = 0; i < s->text.options.n_eos; i++) {
        int n = snprintf(number, sizeof number, "%s%" PRId32, i ? "," : "", s->text.options.eos[i]);
        text_put(&s->facts, number, (size_t)n, 0);
    }
    text_put(&s->facts, "\n", 1, 0);
    text_put(&s->facts, s->digests, strlen(s->digests) + 1, 0);
    return s->facts.failed ? NULL : s->facts.bytes;
}
