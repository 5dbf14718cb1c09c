/* Parses any bytes as a request and as a result of an earlier run. Encodes a valid request for the
 * model that comes with the program, then writes a result of it, with texts and logprobs made of
 * the same bytes, and reads it back. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "modes/batch/kept_results.h"
#include "modes/batch/renumber.h"
#include "modes/batch/result.h"
#include "modes/batch/shard.h"
#include "fuzz_mutate.h"
#include "core/modelfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

FUZZ_MUTATE_PARTS('\n')

static const Options options;
static Session session = {.options = &options};
static ChatPrompt chat;
static EmbeddingSetting embedding;
static ResultMaker maker = {.model = "m", .fingerprint = "fp_0123456789abcdef"};

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const char path[] = "models/stories.bin";
    ModelOptions one = {.n_threads = 1, .context = 64};
    Error error;
    const void *section;
    size_t bytes;
    (void)argc, (void)argv;
    if (modelfile_open(&session.file, path, open(path, O_RDONLY), &error) != STATUS_OK ||
        model_open(&session.model, session.file, &one, &error) != STATUS_OK ||
        !(section = modelfile_section(session.file, SECTION_TOKENIZER, &bytes)) ||
        tokenizer_open(&session.tokenizer, section, bytes, &error) != STATUS_OK ||
        chat_prompt_open(&chat, &session, &error) != STATUS_OK ||
        embedding_setting(&session, &embedding, &error) != STATUS_OK)
        abort();
    embedding.pooling = POOLING_MEAN;
    maker.tokenizer = session.tokenizer;
    return 0;
}

/* A result gets the number of another line as the program writes it there. */
static void check_number(const Request *r, const char *result, const Choice *choices,
                         const char *message) {
    Request other = *r; /* borrows everything */
    other.line = 1000;
    char *wanted =
        choices ? result_line(&maker, &other, choices) : result_error_line(&maker, &other, message);
    ResultLine read;
    Error error;
    if (!wanted || result_read(result, strlen(result), &read, &error) != STATUS_OK) abort();
    char *got = read.numbered ? renumber_result(result, strlen(result), 1000) : strdup(result);
    if (!got || strcmp(got, wanted) != 0) abort();
    free(got);
    free(wanted);
}

/* Expects the result line of a failed request to be read back with its key. */
static void check_error_line(const Request *r, const char *message) {
    ResultLine read;
    Error error;
    char *line = result_error_line(&maker, r, message);
    if (!line || strchr(line, '\n')) abort();
    if (result_read(line, strlen(line), &read, &error) != STATUS_OK) abort();
    RecordKey key = request_key(r);
    if (!read.failed || read.key.low != key.low || read.key.high != key.high) abort();
    check_number(r, line, NULL, message);
    free(line);
}

/* Makes a choice whose text is part of the line, with logprobs for each byte. */
static void make_choice(Choice *choice, const Request *r, const char *line, size_t size,
                        size_t from) {
    size_t n = size - from < 24 ? size - from : 24, width = 1 + (size_t)r->top_logprobs;
    *choice = (Choice){.finish = n % 2 ? FINISH_STOP : FINISH_LENGTH, .n_tokens = n};
    text_put(&choice->text, line + from, n, 0);
    if (!r->wants_logprobs) return;
    choice->logprobs = calloc(n * width + 1, sizeof *choice->logprobs);
    if (!choice->logprobs) return;
    choice->n_logprobs = choice->logprobs_capacity = n;
    for (size_t i = 0; i < n * width; i++)
        choice->logprobs[i] = (TokenLogprob){(unsigned char)line[from + i / width] + (int32_t)i % 7,
                                             -(float)(i % 5) / (i % 11 ? 1.0f : 0.0f)};
}

/* The chunks of a stream are lines, and each text ends once. */
static void check_stream(const Request *r, Choice *choices, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Streamed streamed = {0};
        Finish finish = choices[i].finish;
        size_t length = choices[i].text.length;
        for (size_t part = 0; part <= length + 1; part++) {
            bool failed, ends = part > length;
            choices[i].text.length = ends ? length : part;
            choices[i].finish = ends ? finish : FINISH_NOT;
            char *line = result_chunk_line(&maker, r, choices, i, &streamed, false, &failed);
            if (failed || streamed.ended != ends || (line && strchr(line, '\n'))) abort();
            free(line);
        }
    }
}

static void check_result_line(const Request *r, const char *line, size_t size) {
    enum { MOST = 8 };
    Choice choices[MOST];
    ResultLine read;
    Error error;
    size_t n = r->n_prompts * r->n;
    if (n > MOST) return;
    for (size_t i = 0; i < n; i++) {
        size_t width = 1 + (size_t)r->top_logprobs, length = r->prompts[i / r->n].length;
        make_choice(&choices[i], r, line, size, size * i / n);
        if (r->echo && r->wants_logprobs && length > 1 && size % 8)
            choices[i].prompt_logprobs = calloc(length, width * sizeof *choices[i].prompt_logprobs);
    }
    char *result = result_line(&maker, r, choices);
    if (!result || strchr(result, '\n')) abort();
    if (r->streams) check_stream(r, choices, n);
    if (result_read(result, strlen(result), &read, &error) != STATUS_OK || read.failed) abort();
    RecordKey key = request_key(r);
    if (read.key.low != key.low || read.key.high != key.high) abort();
    check_number(r, result, choices, NULL);
    free(result);
    for (size_t i = 0; i < n; i++) choice_free(&choices[i]);
}

/* The same for a request whose result is pooled or ranked. */
static void embed(Request *r) {
    EmbeddingRequest *e = &r->embedding;
    ResultLine read;
    Error error = {.text = ""};
    if (request_embedding_encode(e, &session, &embedding, &r->prompts, &r->n_prompts, &error) !=
        STATUS_OK) {
        if (!error.text[0]) abort();
        return;
    }
    for (size_t i = 0; i < e->n_texts; i++) {
        if (r->prompts[i].length == 0 || e->texts[i].first > r->prompts[i].length) abort();
        e->texts[i].vector = calloc(e->setting.dimensions, sizeof(float));
    }
    char *result = result_line(&maker, r, NULL);
    if (!result || strchr(result, '\n')) abort();
    if (result_read(result, strlen(result), &read, &error) != STATUS_OK || read.failed) abort();
    free(result);
}

/* The same for a line that asks the program itself. */
static void obey(const Request *r) {
    Error error = {.text = ""};
    json_t *json = json_object();
    if (r->control.kind == CONTROL_DETOKENIZE &&
        control_detokenize(&r->control, session.tokenizer, json, &error) != STATUS_OK &&
        !error.text[0])
        abort();
    if (r->control.kind == CONTROL_RESULTS &&
        kept_results_answer(&r->control, maker.fingerprint, json, &error) != STATUS_OK &&
        !error.text[0])
        abort();
    char *result = result_control_line(&maker, r, json);
    if (!result || strchr(result, '\n')) abort();
    free(result);
}

static void encode(Request *r, const char *line, size_t size) {
    Error error;
    if (r->control.kind != CONTROL_NONE) {
        obey(r);
        return;
    }
    if (request_embeds(r)) {
        embed(r);
        return;
    }
    if (request_encode(r, &session, &chat, &error) == STATUS_OK) {
        check_result_line(r, line, size);
    } else if (!error.text[0]) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    GenerationOptions defaults = {.sampling = sampler_options_default(), .max_tokens = 16};
    Request r;
    Error error;
    ResultLine result;
    const char *line = (const char *)data;
    bool good = request_parse(&r, line, size, 1, &defaults, &error) == STATUS_OK;
    if (good && (r.n < 1 || r.n > REQUEST_MAX_SAMPLES)) abort();
    if (good && r.control.kind == CONTROL_NONE && !request_embeds(&r) && !(r.prompt || r.messages))
        abort();
    check_error_line(&r, good ? "a message" : error.text);
    if (good) encode(&r, line, size);
    r.id_taken = r.id != NULL;
    check_error_line(&r, "without its id");
    request_free(&r);
    if (request_plain(&r, line, size, 1, &defaults, &error) == STATUS_OK) {
        if (r.text_length != size) abort();
        if (size % 2) request_embed_plain(&r);
        encode(&r, line, size);
    }
    request_free(&r);
    if (result_read(line, size, &result, &error) == STATUS_OK &&
        !memchr(result.fingerprint, '\0', sizeof result.fingerprint))
        abort();
    Shard shard;
    if (shard_read(line, size, &shard) && (shard.part > shard.of || shard.begin > shard.end))
        abort();
    free(renumber_result(line, size, 7));
    return 0;
}
