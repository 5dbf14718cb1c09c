#include "measure/report_sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/sha256.h"
#include "base/text.h"
#include "convert/convert_target.h"
#include "core/prefill.h"
#include "generation.h"
#include "modes/open/default_model.h"

enum { LISTED = 6 /* sums that are named to people */ };

/* Notes a sum of a story or of logits, made in this way, beside the known one. */
static void note_sum(ReportSums *sums, json_t *entry, const char *what, const char *way,
                     const char *sum, const char *known) {
    json_object_set_new(json_object_get(entry, "sums"), way, json_string(sum));
    if (strcmp(sum, known) == 0) return;
    json_object_set_new(entry, "equal", json_false());
    size_t n = strlen(sums->other), room = sizeof sums->other - n;
    if (sums->n_other == LISTED)
        snprintf(sums->other + n, room, " and more");
    else if (sums->n_other < LISTED)
        snprintf(sums->other + n, room, "%s%s with %s", n ? ", " : "", what, way);
    sums->n_other++;
}

static json_t *new_entry(const char *key, json_t *value, const char *known) {
    json_t *entry = json_object();
    json_object_set_new(entry, key, value);
    json_object_set_new(entry, "known", json_string(known));
    json_object_set_new(entry, "sums", json_object());
    json_object_set_new(entry, "equal", json_true());
    return entry;
}

/* ---- stories ---- */

/* `./run -s SEED | sha256sum`, as README.md shows it and docs/browser/ computes it. */
static const struct {
    uint64_t seed;
    const char *sha256;
} stories[] = {{37, "a4d68515389b40a499fc5089e7d0ed699da3b7de0cb9a838f884d64d7e420ccc"},
               {47, "676a8d61a96b312605905526142306fed246a92574577bd87325f66846f6ea5a"},
               {49, "f32db5535653da829d9cb8a3d803e192e5e4725e552ebb22322d4136b43e7e87"}};
enum { STORIES = sizeof stories / sizeof *stories };

/* A way to compute a story. */
typedef struct StoryWay {
    const char *name;
    ModelOptions options;
} StoryWay;

/* The model that comes with the program, opened in one way. */
typedef struct Teller {
    ModelFile *file;
    Tokenizer *tokenizer;
    Model *model;
    KvCache *cache;
    float *logits; /* [vocab_size] */
    const volatile sig_atomic_t *interrupted;
} Teller;

static Status open_story_file(Teller *t, Error *error) {
    size_t bytes;
    char *path = default_model_path(error);
    if (!path)
        return error_set(error, "stories.bin, which comes with the program and which a report "
                                "needs, is not where it was installed");
    Status status = modelfile_open(&t->file, path, -1, error);
    const void *section =
        status == STATUS_OK ? modelfile_section(t->file, SECTION_TOKENIZER, &bytes) : NULL;
    if (status == STATUS_OK && !section) status = error_set(error, "%s: has no tokenizer", path);
    if (status == STATUS_OK)
        status = tokenizer_open_for(&t->tokenizer, path, section, bytes,
                                    modelfile_config(t->file)->vocab_size, error);
    free(path);
    return status;
}

static Status open_way(Teller *t, const StoryWay *way, Error *error) {
    Status status = model_open(&t->model, t->file, &way->options, error);
    if (status != STATUS_OK) return status;
    KvShape shape = model_kv_shape(t->model, model_kv_type(t->model));
    status = kvcache_new(&t->cache, &shape, 1, 0, error);
    if (status != STATUS_OK) return status;
    t->logits = malloc(model_config(t->model)->vocab_size * sizeof *t->logits);
    return t->logits ? STATUS_OK : error_set(error, "no memory for the logits of a story");
}

static void close_way(Teller *t) {
    free(t->logits);
    kvcache_free(t->cache);
    model_close(t->model);
    t->logits = NULL, t->cache = NULL, t->model = NULL;
}

/* Runs the prompt, and appends the text that follows it to *text, with run's newline at its end. */
static Status tell(Teller *t, Generation *g, const TokenList *prompt, TextBuffer *text,
                   Error *error) {
    GenerationStep step;
    const Prefill p = {.ids = prompt->ids,
                       .n = prompt->length,
                       .first_wanted = prompt->length - 1,
                       .logits = t->logits};
    kvcache_reset(t->cache, 0, 0);
    Status status = prefill(t->model, t->cache, &p, error);
    for (size_t position = prompt->length; status == STATUS_OK; position++) {
        if (position == model_context(t->model)) g->options.max_tokens = g->n_tokens + 1;
        status = generation_next(g, t->logits, position, &step, error);
        if (status != STATUS_OK) return status;
        text_put(text, step.text, step.length, 0);
        if (g->finish) break;
        if (*t->interrupted) return STATUS_INTERRUPTED;
        const Row row = {.position = (int32_t)position, .token = step.token, .wants_logits = true};
        status = model_forward(t->model, t->cache, &row, 1, t->logits, error);
    }
    text_put(text, "\n", 1, 0);
    if (status == STATUS_OK && text->failed) return error_set(error, "no memory for a story");
    return status;
}

/* Computes the SHA-256 of one story. */
static Status sum_story(Teller *t, uint64_t seed, char sum[SHA256_HEX], Error *error) {
    Generation g = {0};
    TokenList prompt = {0};
    TextBuffer text = {0};
    const GenerationText empty = {.text = ""};
    GenerationOptions options = generation_defaults(t->file, t->tokenizer);
    options.sampling.seed = seed;
    Status status = generation_prompt_ids(t->model, t->file, t->tokenizer, &empty, &prompt, error);
    if (status == STATUS_OK)
        status = generation_init(&g, &options, t->tokenizer, model_config(t->model)->vocab_size,
                                 model_isa(t->model)->numeric, error);
    if (status == STATUS_OK) {
        generation_prompt(&g, prompt.ids, prompt.length);
        status = tell(t, &g, &prompt, &text, error);
    }
    if (status == STATUS_OK) sha256_text(text.bytes, text.length, sum);
    if (g.sampler) generation_free(&g);
    token_list_free(&prompt);
    text_free(&text);
    return status;
}

/* Tells every story in one way. */
static Status sum_stories(ReportSums *sums, Teller *t, const StoryWay *way, Error *error) {
    Status status = open_way(t, way, error);
    for (size_t i = 0; i < STORIES && status == STATUS_OK; i++) {
        char sum[SHA256_HEX], what[40];
        status = sum_story(t, stories[i].seed, sum, error);
        if (status != STATUS_OK) break;
        snprintf(what, sizeof what, "the story of seed %u", (unsigned)stories[i].seed);
        note_sum(sums, json_array_get(sums->stories, i), what, way->name, sum, stories[i].sha256);
        sums->n_stories++;
    }
    close_way(t);
    return status;
}

Status report_stories(ReportSums *sums, int n_threads, bool quick,
                      const volatile sig_atomic_t *interrupted, Error *error) {
    Teller teller = {.interrupted = interrupted};
    char many[24];
    snprintf(many, sizeof many, "%d threads", n_threads);
    const StoryWay ways[] = {
        {"1 thread", {.n_threads = 1}},
        {many, {.n_threads = n_threads}},
        {"plain C", {.n_threads = n_threads, .max_rows = 1, .isa = isa_available(0)}}};
    for (size_t i = 0; i < STORIES; i++)
        json_array_append_new(
            sums->stories,
            new_entry("seed", json_integer((json_int_t)stories[i].seed), stories[i].sha256));
    Status status = open_story_file(&teller, error);
    for (size_t i = 0; i < sizeof ways / sizeof *ways && status == STATUS_OK; i++) {
        if (i == 1 && n_threads == 1) continue;
        if (i == 2 && quick) continue;
        status = sum_stories(sums, &teller, &ways[i], error);
    }
    tokenizer_close(teller.tokenizer);
    if (teller.file) modelfile_close(teller.file);
    return status;
}

/* ---- logits ---- */

/* Every type can hold its matrices, the superblocks of 256 inputs included. */
#define LOGITS_SHAPE                                                                               \
    "random:dim=256,n_layers=1,n_heads=8,n_kv_heads=2,ffn_dim=256,vocab_size=256,context=32"
enum { LOGITS_VOCAB = 256, LOGITS_ROWS = 24, LOGITS_CHUNK = 23, QUICK_TYPES = TENSOR_Q4_NL };

/* The sums of numeric revision 4, as the plain C kernels give them, which define the bits. They
 * change with the revision alone (docs/numerics.md): `bench --report -` then prints the new ones.
 */
static const uint64_t logits_sums[TENSOR_TYPES] = {
    [TENSOR_F32] = 0x18e8249c507b2f1c,       [TENSOR_F16] = 0xb11a4d76736b732e,
    [TENSOR_BF16] = 0x762a833db57d9ff1,      [TENSOR_Q8] = 0x2c8e78ccc841f732,
    [TENSOR_Q8_64] = 0xc823159f2a46ef26,     [TENSOR_Q4] = 0x3eae24e5fe2dd428,
    [TENSOR_Q4_MIN] = 0x9f0ab77f4537cf5b,    [TENSOR_Q8_MIN] = 0x77a80f418023f839,
    [TENSOR_Q4_K] = 0xccbbdd0682bb8364,      [TENSOR_Q5_K] = 0xfe7929ee1f8b38fb,
    [TENSOR_Q6_K] = 0x490e021d397257ed,      [TENSOR_Q4_NL] = 0x29c0197ad48b34cb,
    [TENSOR_MXFP4] = 0xb6e50afeb2fe319b,     [TENSOR_NVFP4] = 0x0423735399cff1ab,
    [TENSOR_Q2_K] = 0xfa819e5d57b3d885,      [TENSOR_Q3_K] = 0xe5443e6fb425487f,
    [TENSOR_IQ2] = 0x38a5b87002867ceb,       [TENSOR_IQ1] = 0x2e14ac2079078b53,
    [TENSOR_IQ3_XXS] = 0x5fe119a39e3013e3,   [TENSOR_IQ3_S] = 0xc01e69af5f22658a,
    [TENSOR_IQ4_XS] = 0x97afce6a6347d932,    [TENSOR_Q2_0] = 0xed19781ccbb233da,
    [TENSOR_TQ2_0] = 0x5bf25bb5b4400a9e,     [TENSOR_Q1_0] = 0xf570c14b428f5dee,
    [TENSOR_NVFP4_T] = 0xa03e2f277f3d0e60,   [TENSOR_IQ2_K] = 0x99b18795166b8c26,
    [TENSOR_IQ2_KS] = 0x3a3bcf5e41742b99,    [TENSOR_IQ3_K] = 0xc9427cdc230cf788,
    [TENSOR_IQ3_KS] = 0x735204bb78fbbabf,    [TENSOR_IQ4_K] = 0x0852ce46a3602903,
    [TENSOR_IQ4_KS] = 0x77d525814ca267bd,    [TENSOR_IQ5_K] = 0x8e1dd514203a0282,
    [TENSOR_IQ5_KS] = 0xe2e911d1078b5709,    [TENSOR_IQ6_K] = 0x28a8da11d6023861,
    [TENSOR_Q5_0] = 0x2724471e1d899b0f,      [TENSOR_Q5_1] = 0x4cf8dbacdcd944fd,
    [TENSOR_BF16_ACT] = 0xd8788a489f2e9233,  [TENSOR_IQ2_XXS] = 0x3872cd3586927bd1,
    [TENSOR_IQ2_XS] = 0x56e9b16a2babc444,    [TENSOR_IQ2_S] = 0x48347158e9156e5b,
    [TENSOR_IQ3_XXS_G] = 0xe294ba1e4f681f32, [TENSOR_IQ3_S_G] = 0x4c7d6a10f54c6912,
    [TENSOR_IQ1_S] = 0xeb77dff2c7c5b70d,     [TENSOR_IQ1_M] = 0x640fa68e4824fdc0,
};

/* Runs the tokens through the model of one conversion, in a pass of many rows and a pass of one. */
static Status sum_logits(const ModelFile *file, const Isa *isa, char sum[17], Error *error) {
    Model *model = NULL;
    KvCache *cache = NULL;
    float logits[LOGITS_ROWS * LOGITS_VOCAB];
    ModelOptions options = {.isa = isa, .n_threads = 2};
    Status status = model_open(&model, file, &options, error);
    if (status == STATUS_OK) {
        KvShape shape = model_kv_shape(model, KV_F16);
        status = kvcache_new(&cache, &shape, 1, 0, error);
    }
    for (int first = 0, n = LOGITS_CHUNK; first < LOGITS_ROWS && status == STATUS_OK;
         first += n, n = LOGITS_ROWS - LOGITS_CHUNK) {
        Row rows[LOGITS_CHUNK];
        for (int i = 0; i < n; i++)
            rows[i] = (Row){0, first + i, (first + i) * 83 % LOGITS_VOCAB, true};
        status = model_forward(model, cache, rows, (size_t)n, logits + (size_t)first * LOGITS_VOCAB,
                               error);
    }
    if (status == STATUS_OK)
        snprintf(sum, 17, "%016llx", (unsigned long long)XXH3_64bits(logits, sizeof logits));
    kvcache_free(cache);
    model_close(model);
    return status;
}

bool report_has_sum(TensorType type) {
    return logits_sums[type] != 0;
}

Status report_logits_of(ReportSums *sums, TensorType type, Error *error) {
    const char *name = tensor_type_info(type)->name;
    char known[17], what[40], sum[17];
    int fd = -1;
    ConvertOptions convert = {.type = name};
    ModelFile *file = NULL;
    Status status = convert_temporary(LOGITS_SHAPE, &convert, &fd, error);
    if (status == STATUS_OK) status = modelfile_open(&file, LOGITS_SHAPE, fd, error);
    snprintf(known, sizeof known, "%016llx", (unsigned long long)logits_sums[type]);
    snprintf(what, sizeof what, "logits of %s", name);
    json_t *entry = new_entry("type", json_string(name), known);
    json_array_append_new(sums->logits, entry);
    for (size_t i = 0; isa_available(i) && status == STATUS_OK; i++) {
        status = sum_logits(file, isa_available(i), sum, error);
        if (status != STATUS_OK) break;
        note_sum(sums, entry, what, isa_available(i)->name, sum, known);
        sums->n_logits++;
    }
    if (file) modelfile_close(file);
    return status == STATUS_FAILED ? error_prefix(error, "%s", what) : status;
}

Status report_logits(ReportSums *sums, bool quick, const volatile sig_atomic_t *interrupted,
                     Error *error) {
    Status status = STATUS_OK;
    for (TensorType type = TENSOR_F32; type < (quick ? QUICK_TYPES : TENSOR_TYPES); type++) {
        if (*interrupted) return STATUS_INTERRUPTED;
        if (tensor_type_is_built(type)) status = report_logits_of(sums, type, error);
        if (status != STATUS_OK) break;
    }
    return status;
}
