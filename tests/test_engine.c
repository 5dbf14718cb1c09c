/* Continuous batching: many texts run at once, each with the bits that it has when run alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "layers/model_watch.h"
#include "modes/batch/engine.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvcache_snapshots.h"
#include "convert/convert_target.h"
#include "core/prefill.h"
#include "tests/fixture.h"
#include "tests/small_model.h"
#include "tests/tier.h"
#include "tests/tokenizer_sources.h"

enum { MOST_TASKS = 48 };

/* One text: its task, its lengths, and what came of it. */
typedef struct Text {
    EngineTask task;
    size_t n_prompt, n_new;
    size_t vocab;
    uint64_t logits_hash; /* hash of all rows of logits given to `next`, in order */
    bool ended;
    size_t *n_ended, ended_at; /* counts the texts that ended; its value before. NULL: nothing */
    Error error;               /* empty: the text ended without an error */
} Text;

typedef struct Setup {
    char *directory, *path;
    ModelFile *file;
    bool forgets; /* windows or states */
} Setup;

static int open_path(void **state, char *directory, char *path, bool forgets) {
    Setup *setup = calloc(1, sizeof *setup);
    Error error;
    *setup = (Setup){.directory = directory, .path = path, .forgets = forgets};
    assert_int_equal(modelfile_open(&setup->file, setup->path, -1, &error), STATUS_OK);
    *state = setup;
    return 0;
}

static int open_file(void **state) {
    char *directory = fixture_directory();
    return open_path(state, directory, small_model(directory, "tiny,context=512"), false);
}

static int open_with_windows(void **state) {
    char *directory = fixture_directory();
    static const char shape[] = "tiny,context=512,n_layers=3,window=40,window_pattern=3";
    return open_path(state, directory, small_model(directory, shape), true);
}

static int open_with_states(void **state) {
    Fixture fixture = fixture_load("qwen3_5");
    char *source = fixture_source(&fixture), *directory = fixture_directory();
    char *path = fixture_path(directory, "states.bin");
    const ConvertOptions options = {.n_threads = 1};
    Error error;
    if (convert_to_path(source, &options, NULL, path, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    fixture_remove_directory(source);
    fixture_free(&fixture);
    return open_path(state, directory, path, true);
}

static int close_file(void **state) {
    Setup *setup = *state;
    modelfile_close(setup->file);
    free(setup->path);
    fixture_remove_directory(setup->directory);
    free(setup);
    return 0;
}

static Model *new_model(const Setup *setup, uint32_t max_rows, int n_threads) {
    Model *model;
    Error error;
    const ModelOptions options = {.max_rows = max_rows, .n_threads = n_threads, .context = 512};
    if (model_open(&model, setup->file, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    return model;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Chooses the most likely token most of the time, otherwise a token derived from the bits of the
 * logits. */
static int32_t choose(Text *text, const float *logits) {
    XXH64_hash_t hash =
        XXH3_64bits_withSeed(logits, text->vocab * sizeof *logits, text->logits_hash);
    text->logits_hash = hash;
    if (hash % 4 == 0) return (int32_t)(hash / 4 % text->vocab);
    size_t best = 0;
    for (size_t i = 1; i < text->vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static bool next(EngineTask *task, float *logits) {
    Text *text = task->context;
    if (!engine_task_append(task, choose(text, logits))) return false;
    return task->n_tokens < text->n_prompt + text->n_new;
}

static void done(EngineTask *task, const Error *error) {
    Text *text = task->context;
    assert_false(text->ended);
    text->ended = true;
    if (text->n_ended) text->ended_at = (*text->n_ended)++;
    if (error) text->error = *error;
}

/* Makes the i-th text: a prompt of 1 to 200 tokens. Two in three prompts share a prefix with
 * others. */
static void make_text(Text *text, size_t i, size_t vocab) {
    uint64_t seed = i * 7919 + 13;
    *text = (Text){.vocab = vocab, .n_new = 1 + i * 37 % 90};
    text->task = (EngineTask){.next = next, .done = done, .context = text};
    size_t shared = i % 3 == 0 ? 100 : i % 3 == 1 ? 20 : 0, own = 1 + i * 31 % 100;
    for (size_t k = 0; k < shared; k++)
        assert_true(engine_task_append(&text->task, (int32_t)((k * k + i % 3) % vocab)));
    for (size_t k = 0; k < own; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        assert_true(engine_task_append(&text->task, (int32_t)((seed >> 33) % vocab)));
    }
    text->n_prompt = text->task.n_tokens;
}

/* Computes the expected result: the text alone in a new KV cache, one row at a time. */
static void run_alone(Model *model, Text *text) {
    KvCache *cache;
    Error error;
    const KvShape shape = model_kv_shape(model, KV_F16);
    float *logits = malloc(text->vocab * sizeof *logits);
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    for (size_t i = 0;; i++) {
        const Row row = {
            .position = (int32_t)i, .token = text->task.tokens[i], .wants_logits = true};
        assert_int_equal(model_forward(model, cache, &row, 1, logits, &error), STATUS_OK);
        if (i + 1 == text->task.n_tokens && !next(&text->task, logits)) break;
    }
    kvcache_free(cache);
    free(logits);
}

static void check_equal(const Text *got, const Text *wanted) {
    assert_true(got->ended);
    assert_string_equal(got->error.text, "");
    assert_int_equal(got->task.n_tokens, wanted->task.n_tokens);
    assert_memory_equal(got->task.tokens, wanted->task.tokens,
                        wanted->task.n_tokens * sizeof(int32_t));
    assert_true(got->logits_hash == wanted->logits_hash);
}

static void step_until_done(Engine *engine) {
    Error error;
    for (size_t steps = 0; engine_pending(engine) > 0; steps++) {
        assert_true(steps < 20000);
        if (engine_step(engine, &error) != STATUS_OK) fail_msg("%s", error.text);
    }
}

static size_t page_bytes(const Model *model) {
    const KvShape shape = model_kv_shape(model, KV_F16);
    return kvcache_sequence_bytes(&shape, KV_PAGE);
}

static Engine *new_engine(Model *model, size_t max_tasks, size_t pages) {
    Engine *engine;
    Error error;
    const EngineOptions options = {.max_tasks = max_tasks,
                                   .max_bytes = pages * page_bytes(model),
                                   .snapshot_bytes = pages ? page_bytes(model) : SIZE_MAX,
                                   .kv_type = KV_F16};
    if (engine_new(&engine, model, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    return engine;
}

static void submit(Engine *engine, Text *text) {
    Error error;
    if (engine_submit(engine, &text->task, &error) != STATUS_OK) fail_msg("%s", error.text);
}

/* A Drafter that knows how the text continues, but is wrong at every fifth position. */
typedef struct Oracle {
    Drafter drafter;
    const Text *alone;
    size_t accepted, rejected;
} Oracle;

static size_t oracle_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                             size_t most) {
    const Text *alone = ((Oracle *)drafter)->alone;
    assert_memory_equal(text, alone->task.tokens, n * sizeof *text);
    for (size_t i = 0; i < most; i++) {
        int32_t token = n + i < alone->task.n_tokens ? alone->task.tokens[n + i] : 0;
        drafts[i] = (n + i) % 5 == 0 ? (token + 1) % (int32_t)alone->vocab : token;
    }
    return n % 7 == 0 ? 0 : most;
}

static void oracle_learn(Drafter *drafter, size_t n, size_t accepted) {
    Oracle *oracle = (Oracle *)drafter;
    oracle->accepted += accepted;
    oracle->rejected += n - accepted;
}

/* Runs all texts in an engine with max_tasks tasks, compares them with `alone` and returns the
 * engine's statistics. `oracles` ([MOST_TASKS] or NULL) draft for them. */
static EngineStats run_drafted(const Setup *setup, const Text *alone, size_t max_tasks,
                               size_t pages, uint32_t max_rows, int n_threads, Oracle *oracles) {
    Model *model = new_model(setup, max_rows, n_threads);
    Engine *engine = new_engine(model, max_tasks, pages);
    Text texts[MOST_TASKS];
    for (size_t i = 0; i < MOST_TASKS; i++) {
        make_text(&texts[i], i, model_config(model)->vocab_size);
        if (oracles) {
            oracles[i] = (Oracle){
                {.most = 1 + i % DRAFTS_MAX, .propose = oracle_propose, .learn = oracle_learn},
                .alone = &alone[i]};
            texts[i].task.drafter = &oracles[i].drafter;
        }
        submit(engine, &texts[i]);
        /* Some texts are submitted while others run. */
        Error error;
        if (i % 5 == 4) assert_int_equal(engine_step(engine, &error), STATUS_OK);
    }
    step_until_done(engine);
    for (size_t i = 0; i < MOST_TASKS; i++) {
        check_equal(&texts[i], &alone[i]);
        free(texts[i].task.tokens);
    }
    EngineStats stats = engine_stats(engine);
    if (pages) assert_true(stats.most_bytes <= pages * page_bytes(model));
    assert_true(stats.most_tasks <= max_tasks);
    engine_free(engine);
    model_close(model);
    return stats;
}

static EngineStats run_batch(const Setup *setup, const Text *alone, size_t max_tasks, size_t pages,
                             uint32_t max_rows, int n_threads) {
    return run_drafted(setup, alone, max_tasks, pages, max_rows, n_threads, NULL);
}

static void drafts_change_no_logits_of_a_batch(void **state) {
    static const size_t tasks[] = {1, 2, 5, 16, 5}, pages[] = {0, 0, 0, 0, 7};
    static const uint32_t rows[] = {512, 3, 64, 16, 64};
    const Setup *setup = *state;
    Model *model = new_model(setup, 512, 2);
    Text alone[MOST_TASKS];
    Oracle oracles[MOST_TASKS];
    for (size_t i = 0; i < MOST_TASKS; i++) {
        make_text(&alone[i], i, model_config(model)->vocab_size);
        run_alone(model, &alone[i]);
    }
    model_close(model);
    for (size_t k = 0; k < 5; k++) {
        if (!tier_takes(k + 2, 4, 1)) continue;
        EngineStats stats = run_drafted(setup, alone, tasks[k], pages[k], rows[k], 2, oracles);
        size_t accepted = 0, rejected = 0;
        for (size_t i = 0; i < MOST_TASKS; i++) {
            accepted += oracles[i].accepted;
            rejected += oracles[i].rejected;
        }
        /* With 16 tasks no row is left for drafts until the first tasks have ended. */
        assert_true(accepted > 0 && rejected > 0);
        assert_true(stats.decode_rows > accepted + rejected);
    }
    for (size_t i = 0; i < MOST_TASKS; i++) free(alone[i].task.tokens);
}

static void a_text_in_a_batch_gets_the_logits_it_gets_alone(void **state) {
    const Setup *setup = *state;
    Model *model = new_model(setup, 512, 2);
    Text alone[MOST_TASKS];
    for (size_t i = 0; i < MOST_TASKS; i++) {
        make_text(&alone[i], i, model_config(model)->vocab_size);
        run_alone(model, &alone[i]);
    }
    model_close(model);
    static const struct {
        size_t tasks;
        uint32_t rows;
        int n_threads;
    } batches[] = {{1, 512, 1}, {64, 64, 3}, {7, 512, 2}, {64, 512, 2}, {9, 9, 2}};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        if (tier_takes(i + 1, 4, 1))
            run_batch(setup, alone, batches[i].tasks, 0, batches[i].rows, batches[i].n_threads);
    EngineStats tight = run_batch(setup, alone, 16, 10, 512, 2);
    assert_true(setup->forgets || tight.set_aside > 0);
    tight = run_batch(setup, alone, 16, 6, 32, 2);
    assert_true(setup->forgets || tight.set_aside > 0);
    for (size_t i = 0; i < MOST_TASKS; i++) free(alone[i].task.tokens);
}

static void texts_that_end_together_end_in_their_order(void **state) {
    const Setup *setup = *state;
    enum { TEXTS = 6 };
    Model *model = new_model(setup, 64, 2);
    Engine *engine = new_engine(model, TEXTS, 0);
    Text texts[TEXTS];
    size_t n_ended = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        texts[i] =
            (Text){.vocab = model_config(model)->vocab_size, .n_prompt = 1, .n_new = 2 + i / 4};
        texts[i].n_ended = &n_ended;
        texts[i].task = (EngineTask){.next = next, .done = done, .context = &texts[i]};
        engine_task_append(&texts[i].task, (int32_t)i);
        submit(engine, &texts[i]);
    }
    step_until_done(engine);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_int_equal(texts[i].ended_at, i);
        free(texts[i].task.tokens);
    }
    engine_free(engine);
    model_close(model);
}

/* Runs 32 texts, each a common prefix and a token of its own, 8 at a time. */
static EngineStats share_prefix(const Setup *setup, size_t prefix) {
    enum { TEXTS = 32 };
    Model *model = new_model(setup, 512, 2);
    Engine *engine = new_engine(model, 8, 0);
    Text texts[TEXTS];
    for (size_t i = 0; i < TEXTS; i++) {
        texts[i] = (Text){.vocab = model_config(model)->vocab_size, .n_new = 3 + i % 5};
        texts[i].task = (EngineTask){.next = next, .done = done, .context = &texts[i]};
        for (size_t k = 0; k < prefix; k++) engine_task_append(&texts[i].task, (int32_t)(k % 60));
        engine_task_append(&texts[i].task, (int32_t)(61 + i));
        texts[i].n_prompt = texts[i].task.n_tokens;
        submit(engine, &texts[i]);
    }
    step_until_done(engine);
    EngineStats stats = engine_stats(engine);
    for (size_t i = 0; i < TEXTS; i++) free(texts[i].task.tokens);
    engine_free(engine);
    model_close(model);
    return stats;
}

static void a_common_prefix_is_computed_once(void **state) {
    const Setup *setup = *state;
    static const size_t prefixes[] = {150, 20}; /* more and less than a page */
    for (size_t i = 0; i < 2; i++) {
        size_t prefix = prefixes[i];
        EngineStats stats = share_prefix(setup, prefix);
        if (!setup->forgets) {
            assert_int_equal(stats.prompt_rows + stats.shared_rows, prefix * 32 + 1);
            assert_int_equal(stats.prompt_rows, prefix + 1);
        } else if (prefix == 150) {
            /* The first text stops where the prefix ends, and a mark is made there. */
            assert_int_equal(stats.shared_rows, prefix * 31);
            assert_int_equal(stats.prompt_rows, prefix);
        }
    }
}

static void a_text_that_outgrows_the_memory_fails_and_the_others_go_on(void **state) {
    const Setup *setup = *state;
    Model *model = new_model(setup, 64, 2);
    Engine *engine = new_engine(model, 8, 3);
    Text texts[6], alone[6];
    for (size_t i = 0; i < 6; i++) {
        make_text(&texts[i], 2 + 3 * i, model_config(model)->vocab_size);
        make_text(&alone[i], 2 + 3 * i, model_config(model)->vocab_size);
        if (i == 2) texts[i].n_new = 400;
        submit(engine, &texts[i]);
    }
    step_until_done(engine);
    for (size_t i = 0; i < 6; i++) {
        if (i == 2) {
            assert_non_null(strstr(texts[i].error.text, "--kv-memory"));
        } else {
            run_alone(model, &alone[i]);
            check_equal(&texts[i], &alone[i]);
        }
        free(texts[i].task.tokens);
        free(alone[i].task.tokens);
    }
    engine_free(engine);
    model_close(model);
}

static void a_text_ends_where_the_context_ends(void **state) {
    const Setup *setup = *state;
    Model *model = new_model(setup, 64, 2);
    Engine *engine = new_engine(model, 2, 0);
    Text text;
    make_text(&text, 3, model_config(model)->vocab_size);
    text.n_new = 100000;
    submit(engine, &text);
    step_until_done(engine);
    /* The last token is sampled but never fed back to the model. */
    assert_int_equal(text.task.n_tokens, model_context(model) + 1);
    free(text.task.tokens);
    engine_free(engine);
    model_close(model);
}

/* Writes a copy of the model in which the embedding of token 47 is NaN, and returns its path. */
static char *poisoned_copy(const Setup *setup) {
    char *path = fixture_path(setup->directory, "poisoned.bin");
    const FileTensor *embedding = modelfile_find(setup->file, "token_embedding");
    assert_int_equal(embedding->type, TENSOR_F32);
    /* A panel holds 16 rows: 64 bytes (16 floats) for each column. */
    size_t panel = embedding->offset + 47 / 16 * embedding->cols * 64, row = 47 % 16;
    size_t length;
    char *bytes = source_read(setup->path, &length);
    static const float nan_bits = NAN;
    for (size_t i = 0; i < embedding->cols; i++)
        memcpy(bytes + panel + i * 64 + row * sizeof nan_bits, &nan_bits, sizeof nan_bits);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    fclose(f);
    free(bytes);
    return path;
}

static void a_text_that_breaks_the_model_fails_alone(void **state) {
    const Setup *whole = *state;
    Setup poisoned = *whole;
    Error error;
    char *path = poisoned_copy(whole);
    assert_int_equal(modelfile_open(&poisoned.file, path, -1, &error), STATUS_OK);
    Model *model = new_model(&poisoned, 512, 2);
    Engine *engine = new_engine(model, 8, 0);
    Text texts[8], alone[8];
    for (size_t i = 0; i < 8; i++) {
        make_text(&texts[i], 2 + 3 * i, model_config(model)->vocab_size);
        make_text(&alone[i], 2 + 3 * i, model_config(model)->vocab_size);
        for (size_t k = 0; k < texts[i].n_prompt; k++)
            if (texts[i].task.tokens[k] == 47)
                alone[i].task.tokens[k] = texts[i].task.tokens[k] = 48;
        if (i == 4) texts[i].task.tokens[texts[i].n_prompt / 2] = 47;
        texts[i].n_new = alone[i].n_new = 4;
        submit(engine, &texts[i]);
    }
    step_until_done(engine);
    for (size_t i = 0; i < 8; i++) {
        if (i == 4) {
            assert_string_not_equal(texts[i].error.text, "");
        } else {
            run_alone(model, &alone[i]);
            check_equal(&texts[i], &alone[i]);
        }
        free(texts[i].task.tokens);
        free(alone[i].task.tokens);
    }
    engine_free(engine);
    model_close(model);
    modelfile_close(poisoned.file);
    free(path);
}

/* A Drafter whose drafts are right up to their last token, which is 47. */
typedef struct Poisoner {
    Drafter drafter;
    const Text *alone;
    size_t n_poisoned;
} Poisoner;

static size_t poisoner_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                               size_t most) {
    Poisoner *poisoner = (Poisoner *)drafter;
    const EngineTask *alone = &poisoner->alone->task;
    size_t right = n % 4 < most ? n % 4 : most - 1;
    assert_memory_equal(text, alone->tokens, n * sizeof *text);
    if (n % 3 == 0 || n + right > alone->n_tokens) return 0;
    memcpy(drafts, alone->tokens + n, right * sizeof *drafts);
    drafts[right] = 47;
    poisoner->n_poisoned++;
    return right + 1;
}

/* The pass failed, so nothing of a poisoned draft is ever accepted. */
static void poisoner_learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter, (void)n, (void)accepted;
    fail();
}

static Poisoner new_poisoner(const Text *alone) {
    return (Poisoner){{.most = 7, .propose = poisoner_propose, .learn = poisoner_learn}, alone, 0};
}

/* Counts the rows of all passes, those that fail included. */
typedef struct RowCounter {
    PassObserver observer;
    size_t n;
} RowCounter;

static int count_rows(PassObserver *observer, int most, size_t n_rows, double work, double done) {
    (void)work, (void)done;
    ((RowCounter *)observer)->n += n_rows;
    return most;
}

/* Decodes the text with poisoned drafts, in a cache with or without snapshots; returns the rows of
 * all passes. */
static size_t decode_poisoned(Model *model, const Text *alone, size_t snapshot_bytes,
                              size_t *n_poisoned) {
    Text text = {.vocab = alone->vocab};
    Poisoner poisoner = new_poisoner(alone);
    RowCounter counter = {.observer = {.part_begins = count_rows, .part_work = INFINITY}};
    const KvShape shape = model_kv_shape(model, KV_F16);
    float *first = malloc(alone->vocab * sizeof *first), *logits = first;
    KvCache *cache;
    Decoding decoding;
    Error error;
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    kvcache_limit_snapshots(cache, snapshot_bytes);
    model_add_observer(model, &counter.observer);
    const Prefill prompt = {.ids = alone->task.tokens,
                            .n = alone->n_prompt,
                            .first_wanted = alone->n_prompt - 1,
                            .logits = first};
    assert_int_equal(prefill(model, cache, &prompt, &error), STATUS_OK);
    assert_int_equal(decoding_init(&decoding, model, cache, &poisoner.drafter, alone->task.tokens,
                                   alone->n_prompt, &error),
                     STATUS_OK);
    for (size_t i = alone->n_prompt;; i++) {
        int32_t token = choose(&text, logits);
        assert_int_equal(token, alone->task.tokens[i]);
        if (i + 1 == alone->task.n_tokens) break;
        if (decoding_next(&decoding, token, &logits, &error) != STATUS_OK)
            fail_msg("%s", error.text);
    }
    assert_true(text.logits_hash == alone->logits_hash);
    model_remove_observer(model, &counter.observer);
    decoding_free(&decoding);
    kvcache_free(cache);
    free(first);
    *n_poisoned = poisoner.n_poisoned;
    return counter.n;
}

static void a_draft_that_breaks_the_model_leaves_no_trace(void **state) {
    enum { TEXTS = 3, NEW = 40 };
    const Setup *whole = *state;
    Setup poisoned = *whole;
    Error error;
    char *path = poisoned_copy(whole);
    assert_int_equal(modelfile_open(&poisoned.file, path, -1, &error), STATUS_OK);
    Model *model = new_model(&poisoned, 64, 2);
    const KvShape shape = model_kv_shape(model, KV_F16);
    Text alone[TEXTS], texts[TEXTS];
    Poisoner poisoners[TEXTS];
    Engine *engine = new_engine(model, TEXTS, 0);
    for (size_t i = 0; i < TEXTS; i++) {
        make_text(&alone[i], 3 * i, model_config(model)->vocab_size);
        make_text(&texts[i], 3 * i, model_config(model)->vocab_size);
        for (size_t k = 0; k < alone[i].n_prompt; k++)
            if (alone[i].task.tokens[k] == 47)
                alone[i].task.tokens[k] = texts[i].task.tokens[k] = 48;
        alone[i].n_new = texts[i].n_new = NEW;
        run_alone(model, &alone[i]);
        size_t n, n_prompt = alone[i].n_prompt;
        size_t kept = decode_poisoned(model, &alone[i], SIZE_MAX, &n);
        size_t lost = decode_poisoned(model, &alone[i], 0, &n);
        assert_true(n > NEW / 2);
        if (kvcache_has_states(&shape)) {
            /* The newest snapshot is at most some pages older, or else it is the text's start. */
            assert_true(lost > n * n_prompt);
            assert_true(kept < n_prompt + n * 2 * KV_PAGE && kept < lost);
        } else {
            assert_true(kept < n_prompt + 6 * NEW && lost < n_prompt + 6 * NEW);
        }
        poisoners[i] = new_poisoner(&alone[i]);
        texts[i].task.drafter = &poisoners[i].drafter;
        submit(engine, &texts[i]);
    }
    step_until_done(engine);
    for (size_t i = 0; i < TEXTS; i++) {
        check_equal(&texts[i], &alone[i]);
        assert_true(poisoners[i].n_poisoned > NEW / 4);
        free(texts[i].task.tokens);
        free(alone[i].task.tokens);
    }
    engine_free(engine);
    model_close(model);
    modelfile_close(poisoned.file);
    free(path);
}

static void a_cancelled_text_leaves_and_the_others_get_their_bits(void **state) {
    const Setup *setup = *state;
    enum { N = 12 };
    static const Error cancelled = {"cancelled"};
    Model *model = new_model(setup, 64, 2);
    Engine *engine = new_engine(model, 4, 0);
    size_t vocab = model_config(model)->vocab_size;
    Text texts[N], alone[N];
    Error error;
    for (size_t i = 0; i < N; i++) {
        make_text(&texts[i], i, vocab);
        make_text(&alone[i], i, vocab);
        texts[i].task.context = &texts[i];
        assert_int_equal(engine_submit(engine, &texts[i].task, &error), STATUS_OK);
    }
    for (size_t step = 0; engine_pending(engine) > 0; step++) {
        size_t i = step % N; /* running ones and waiting ones */
        if (step % 2 == 0 && i % 3 == 0 && !texts[i].ended) {
            engine_cancel(engine, &texts[i].task, &cancelled);
            assert_true(texts[i].ended);
        }
        assert_int_equal(engine_step(engine, &error), STATUS_OK);
    }
    for (size_t i = 0; i < N; i++) {
        alone[i].task.context = &alone[i];
        run_alone(model, &alone[i]);
        assert_true(texts[i].ended);
        if (!texts[i].error.text[0]) assert_int_equal(texts[i].logits_hash, alone[i].logits_hash);
        if (i % 3) assert_string_equal(texts[i].error.text, "");
        free(texts[i].task.tokens);
        free(alone[i].task.tokens);
    }
    assert_int_equal(kvcache_bytes_used(engine_cache(engine)) > 0, 1);
    engine_free(engine);
    model_close(model);
}

/* Runs a text of n tokens, made of a seed, and returns how many of them were computed. */
static size_t prompt_rows_of(Engine *engine, size_t vocab, size_t n, size_t seed, size_t keep) {
    Text text = {.vocab = vocab, .n_new = 1, .n_prompt = n};
    Error error;
    text.task = (EngineTask){.next = next, .done = done, .context = &text, .keep = keep};
    for (size_t k = 0; k < n; k++)
        assert_true(engine_task_append(&text.task, (int32_t)((k * 7 + seed * (k < 2)) % vocab)));
    size_t before = engine_stats(engine).prompt_rows;
    assert_int_equal(engine_submit(engine, &text.task, &error), STATUS_OK);
    while (engine_pending(engine) > 0) assert_int_equal(engine_step(engine, &error), STATUS_OK);
    assert_string_equal(text.error.text, "");
    free(text.task.tokens);
    return engine_stats(engine).prompt_rows - before;
}

static void a_prompt_that_is_kept_is_not_computed_again_until_it_is_forgotten(void **state) {
    const Setup *setup = *state;
    Model *model = new_model(setup, 64, 2);
    Engine *engine = new_engine(model, 4, 0);
    size_t vocab = model_config(model)->vocab_size;
    assert_int_equal(prompt_rows_of(engine, vocab, 100, 1, 5), 100);
    for (size_t i = 2; i < 40; i++) prompt_rows_of(engine, vocab, 60, i, 0);
    assert_true(prompt_rows_of(engine, vocab, 110, 1, 0) <= 10);
    assert_true(engine_forget(engine, 5));
    assert_false(engine_forget(engine, 5));
    assert_false(engine_forget(engine, 0));
    for (size_t i = 2; i < 40; i++) prompt_rows_of(engine, vocab, 60, i, 0);
    assert_int_equal(prompt_rows_of(engine, vocab, 100, 1, 0), 100);
    /* More than can be kept. */
    for (size_t i = 0; i < ENGINE_KEPT + 20; i++) prompt_rows_of(engine, vocab, 30, i + 50, i + 9);
    assert_true(engine_forget(engine, 9));
    assert_false(engine_forget(engine, 9 + ENGINE_KEPT));
    engine_free(engine);
    model_close(model);
}

static void prompts_that_cannot_be_are_refused(void **state) {
    const Setup *setup = *state;
    Model *model = new_model(setup, 64, 2);
    Engine *engine = new_engine(model, 2, 0);
    Error error;
    EngineTask task = {.next = next, .done = done};
    assert_int_equal(engine_submit(engine, &task, &error), STATUS_FAILED);
    for (size_t i = 0; i <= model_context(model); i++) engine_task_append(&task, 5);
    assert_int_equal(engine_submit(engine, &task, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "context"));
    assert_int_equal(engine_pending(engine), 0);
    free(task.tokens);
    engine_free(engine);
    model_close(model);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_in_a_batch_gets_the_logits_it_gets_alone),
        cmocka_unit_test(drafts_change_no_logits_of_a_batch),
        cmocka_unit_test(texts_that_end_together_end_in_their_order),
        cmocka_unit_test(a_common_prefix_is_computed_once),
        cmocka_unit_test(a_text_that_outgrows_the_memory_fails_and_the_others_go_on),
        cmocka_unit_test(a_text_ends_where_the_context_ends),
        cmocka_unit_test(a_text_that_breaks_the_model_fails_alone),
        cmocka_unit_test(a_draft_that_breaks_the_model_leaves_no_trace),
        cmocka_unit_test(a_cancelled_text_leaves_and_the_others_get_their_bits),
        cmocka_unit_test(a_prompt_that_is_kept_is_not_computed_again_until_it_is_forgotten),
        cmocka_unit_test(prompts_that_cannot_be_are_refused),
    };
    const struct CMUnitTest forgetful[] = {
        cmocka_unit_test(a_text_in_a_batch_gets_the_logits_it_gets_alone),
        cmocka_unit_test(drafts_change_no_logits_of_a_batch),
        cmocka_unit_test(a_common_prefix_is_computed_once),
        cmocka_unit_test(a_text_that_breaks_the_model_fails_alone),
        cmocka_unit_test(a_draft_that_breaks_the_model_leaves_no_trace),
    };
    int failed = cmocka_run_group_tests_name("engine", tests, open_file, close_file);
    failed += cmocka_run_group_tests_name("engine with windows", forgetful, open_with_windows,
                                          close_file);
    failed +=
        cmocka_run_group_tests_name("engine with states", forgetful, open_with_states, close_file);
    return failed;
}
