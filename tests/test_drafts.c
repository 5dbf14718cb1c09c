/* Several drafters together: who is asked, how many tokens they propose, and what that may cost. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kvcache/kvcache_fork.h"
#include "draft/draft_model.h"
#include "draft/drafter_set.h"
#include "draft/mtp_drafter.h"
#include "draft/speculation.h"
#include "layers/arrangements/mtp.h"
#include "session/drafting.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

/* ---- When to guess, by times that the test makes up ---- */

enum { TOKENS = 4000, MOST = 7 };

/* A drafter whose guesses are right with a probability that changes at some place in the text. The
 * text is its own index everywhere, so a right guess is the next index. */
typedef struct Guesser {
    Drafter drafter;
    double before, after; /* probability of a right token */
    size_t change;
    size_t proposed;
    uint64_t random;
} Guesser;

static double next_random(Guesser *g) {
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(g->random >> 40) / 0x1p24;
}

static size_t propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                      size_t most) {
    Guesser *g = (Guesser *)drafter;
    (void)text;
    for (size_t i = 0; i < most; i++)
        drafts[i] = next_random(g) < (n < g->change ? g->before : g->after) ? (int32_t)(n + i) : -1;
    g->proposed += most;
    return most;
}

static void learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter;
    assert_true(n > 0 && accepted <= n);
}

static void keep(Drafter *drafter) {
    (void)drafter; /* the test's */
}

static Guesser guesser(double before, size_t change, double after) {
    return (Guesser){{.most = MOST, .propose = propose, .learn = learn, .free = keep},
                     before,
                     after,
                     change,
                     0,
                     7};
}

/* The seconds of a pass: one for its first row, `row` for each further one. */
typedef struct Run {
    double seconds;
    size_t passes, rows;
    double worst; /* most seconds that any beginning of the text lost, less 0.5% of its tokens */
} Run;

static Run decode(Guesser *guessers, size_t n_guessers, double row, size_t n_texts,
                  DraftRecord *records) {
    static const char *const names[] = {"first", "second"};
    int32_t text[TOKENS + MOST + 1], drafts[DRAFTS_MAX];
    PassCosts costs = {.row_share = 0.3, .n_texts = n_texts};
    Run run = {0};
    Drafter *set = drafter_set_new(&costs);
    assert_non_null(set);
    for (size_t i = 0; i < n_guessers; i++) {
        records[i] = draft_record(names[i], 0.6);
        drafter_set_add(set, &guessers[i].drafter, &records[i]);
    }
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) text[i] = (int32_t)i;
    for (size_t n = 1; n < TOKENS;) {
        size_t n_drafts = set->propose(set, text, n, drafts, set->most), right = 0;
        while (right < n_drafts && drafts[right] == (int32_t)(n + right)) right++;
        size_t rows = n_texts * (1 + n_drafts);
        double seconds = 1.0 + row * (double)(rows - 1);
        pass_costs_add(&costs, rows, seconds);
        run.seconds += seconds;
        run.passes++;
        run.rows += 1 + n_drafts;
        n += 1 + right;
        run.worst = fmax(run.worst, run.seconds - 1.005 * (double)(n - 1));
        if (n_drafts > 0) set->learn(set, n_drafts, right);
    }
    drafter_free(set);
    return run;
}

static void wrong_guesses_cost_less_than_two_percent(void **state) {
    static const double rows[] = {0.02, 0.1, 0.5, 1.0};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        DraftRecord records[2];
        Guesser wrong[] = {guesser(0.0, TOKENS, 0.0), guesser(0.0, TOKENS, 0.0)};
        Run run = decode(wrong, 2, rows[i], 1, records);
        assert_true(run.seconds < TOKENS / 0.98);
        assert_true(wrong[0].proposed > 0 && wrong[1].proposed > 0);
        /* Nor does a short text lose more than what both accounts are granted at first, unless the
         * first drafts cost more than is guessed before they are measured. */
        assert_true(run.worst < (rows[i] <= 0.3 ? 0.51 : 2.5));
        /* Nor does a text that is easy first and then turns. */
        Guesser turns = guesser(1.0, TOKENS / 2, 0.0);
        run = decode(&turns, 1, rows[i], 1, records);
        assert_true(run.seconds < TOKENS / 0.98);
    }
}

/* ---- Drafters that read ---- */

/* A guesser that has to read the text, from which it may leave out all but the last tokens. */
typedef struct Reader {
    Guesser guesser; /* first, so that its functions take a Reader */
    size_t begin, end;
    size_t most_read; /* at once */
} Reader;

static size_t reader_begin(const Reader *r, size_t n) {
    size_t window = r->guesser.drafter.window, afresh = n > window ? n - window : 0;
    return r->end == 0 || r->begin > afresh || n - r->end > window ? afresh : r->begin;
}

static size_t reader_unread(Drafter *drafter, const int32_t *text, size_t n) {
    const Reader *r = (const Reader *)drafter;
    size_t begin = reader_begin(r, n);
    (void)text;
    assert_true(drafter->window > 0);
    return begin == r->begin && r->end > 0 ? n - r->end : n - begin;
}

static size_t reader_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                             size_t most) {
    Reader *r = (Reader *)drafter;
    size_t unread = reader_unread(drafter, text, n);
    if (unread > r->most_read) r->most_read = unread;
    r->begin = reader_begin(r, n);
    r->end = n;
    return propose(drafter, text, n, drafts, most);
}

static Reader reader(double right) {
    Reader r = {.guesser = guesser(right, TOKENS, right)};
    r.guesser.drafter.propose = reader_propose;
    r.guesser.drafter.unread = reader_unread;
    return r;
}

static void more_of_a_text_is_read_only_where_that_has_paid(void **state) {
    /* The text has 1,000 tokens when it begins. */
    enum { BEGIN = 1000, END = 2000 };
    static const double shares[] = {0.0, 0.9};
    static int32_t text[END + MOST + 1];
    (void)state;
    for (int32_t i = 0; i < END + MOST + 1; i++) text[i] = i;
    for (size_t k = 0; k < 2; k++) {
        PassCosts costs = {.row_share = 0.05};
        DraftRecord record = draft_record("reader", 0.6);
        Reader r = reader(shares[k]);
        int32_t drafts[DRAFTS_MAX];
        size_t first_read = 0, before_first = 0;
        Drafter *set = drafter_set_new(&costs);
        assert_non_null(set);
        record.step_guess = 0.2;
        drafter_set_add(set, &r.guesser.drafter, &record);
        for (size_t n = BEGIN; n < END;) {
            size_t n_drafts = set->propose(set, text, n, drafts, set->most), right = 0;
            if (first_read == 0 && n_drafts > 0) {
                first_read = r.most_read;
                before_first = n - BEGIN;
            }
            while (right < n_drafts && drafts[right] == (int32_t)(n + right)) right++;
            pass_costs_add(&costs, 1 + n_drafts, 1.0 + 0.05 * (double)n_drafts);
            n += 1 + right;
            if (n_drafts > 0) set->learn(set, n_drafts, right);
        }
        drafter_free(set);
        /* What the account is granted pays for a draft at once, and for a few tokens before it. */
        assert_true(before_first < 4);
        assert_true(first_read >= 8 && first_read <= 30);
        if (shares[k] == 0.0) assert_true(r.most_read <= 30);
        if (shares[k] > 0.0) assert_int_equal(r.begin, 0);
    }
}

static void right_guesses_are_found_and_used(void **state) {
    DraftRecord records[2];
    (void)state;
    Guesser right = guesser(0.7, TOKENS, 0.7);
    Run run = decode(&right, 1, 0.05, 1, records);
    assert_true(TOKENS / run.seconds > 1.8);
    assert_true(records[0].gained > 0.0);
    /* Also by a drafter whose guesses were wrong for long. */
    Guesser late = guesser(0.0, TOKENS / 4, 1.0);
    run = decode(&late, 1, 0.05, 1, records);
    assert_true(TOKENS / run.seconds > 1.5);
    assert_true(records[0].right > TOKENS / 2);
}

static void who_was_right_goes_first(void **state) {
    DraftRecord records[2];
    (void)state;
    Guesser both[] = {guesser(0.1, TOKENS, 0.1), guesser(0.9, TOKENS, 0.9)};
    decode(both, 2, 0.05, 1, records);
    assert_true(records[1].drafted > 10 * records[0].drafted);
}

static void rows_that_are_not_cheap_get_no_guesses(void **state) {
    DraftRecord records[2];
    (void)state;
    /* As many texts as make a pass expensive, each guess right in half of the cases. */
    Guesser half = guesser(0.5, TOKENS, 0.5);
    Run run = decode(&half, 1, 0.9, 8, records);
    assert_true(run.rows < run.passes + run.passes / 10);
}

static void rows_that_seem_to_cost_nothing_are_paid_for(void **state) {
    DraftRecord records[2];
    (void)state;
    /* A machine that slows down between two measurements makes rows look free. */
    Guesser wrong = guesser(0.0, TOKENS, 0.0);
    Run run = decode(&wrong, 1, 0.0, 1, records);
    assert_true(run.rows < run.passes + run.passes / 3);
}

/* A pass of two rows that another process held up makes rows look dearer than tokens. A drafter
 * that is trusted begins all the same, and so measures them again; one whose drafts are often wrong
 * does not. */
static void a_trusted_drafter_begins_whatever_rows_seem_to_cost(void **state) {
    static const double shares[] = {0.97, 0.5};
    int32_t text[10 + MOST] = {0}, drafts[DRAFTS_MAX];
    (void)state;
    for (int32_t i = 0; i < 10 + MOST; i++) text[i] = i;
    for (size_t i = 0; i < 2; i++) {
        PassCosts costs = {.row_share = 0.3};
        DraftRecord record = draft_record("trusted", shares[i]);
        Guesser right = guesser(1.0, TOKENS, 1.0);
        Drafter *set = drafter_set_new(&costs);
        assert_non_null(set);
        record.step_seconds = 1e-6;
        right.drafter.trust = 4;
        drafter_set_add(set, &right.drafter, &record);
        pass_costs_add(&costs, 1, 1.0);
        pass_costs_add(&costs, 2, 4.0);
        assert_int_equal(set->propose(set, text, 10, drafts, MOST), shares[i] > 0.9 ? 4 : 0);
        drafter_free(set);
    }
}

/* ---- A small model drafts ------------------------------------------------------------------- */

/* The repository's models: one vocabulary, 3 million and 400 thousand parameters. */
static const char LARGE[] = "models/stories.bin", SMALL[] = "models/stories-draft.bin";

typedef struct Speaker {
    TinyModel tiny;
    Tokenizer *tokenizer;
} Speaker;

static Speaker speaker_open(const char *path) {
    const ModelOptions options = {.n_threads = 1};
    Speaker s = {.tiny = tiny_model_map(path, &options, KV_F16)};
    Error error;
    size_t size;
    const void *section = modelfile_section(s.tiny.file, SECTION_TOKENIZER, &size);
    assert_int_equal(
        tokenizer_open_for(&s.tokenizer, path, section, size, s.tiny.vocab_size, &error),
        STATUS_OK);
    return s;
}

static void speaker_close(Speaker *s) {
    tokenizer_close(s->tokenizer);
    tiny_model_close(&s->tiny);
}

enum { TEXT = 160 };

/* Continues a text by TEXT tokens, greedily or sampled; compares with expected[TEXT] unless
 * `first`, which fills it. */
static SpeculationStats continue_text(Speaker *large, Drafter *drafter, float temperature,
                                      int32_t *expected, bool first) {
    Error error;
    Decoding decoding;
    TokenList ids = {0};
    Sampler *sampler;
    SamplerOptions options = sampler_options_default();
    size_t vocab_size = large->tiny.vocab_size;
    options.temperature = temperature;
    options.seed = 11;
    assert_int_equal(
        sampler_new(&sampler, &options, vocab_size, model_isa(large->tiny.model)->numeric, &error),
        STATUS_OK);
    assert_int_equal(tokenizer_encode(large->tokenizer, "Once upon a time", 16, NULL,
                                      TOKENIZE_ADD_BOS, &ids, &error),
                     STATUS_OK);
    float *logits = calloc(ids.length * vocab_size, sizeof *logits);
    kvcache_reset(large->tiny.cache, 0, 0);
    tiny_model_continue(&large->tiny, 0, ids.ids, ids.length, 16, logits);
    float *next = logits + (ids.length - 1) * vocab_size;
    assert_int_equal(decoding_init(&decoding, large->tiny.model, large->tiny.cache, drafter,
                                   ids.ids, ids.length, &error),
                     STATUS_OK);
    for (size_t i = 0; i < TEXT; i++) {
        int32_t token = sampler_next(sampler, next, ids.length + i);
        if (first) expected[i] = token;
        assert_int_equal(token, expected[i]);
        assert_int_equal(decoding_next(&decoding, token, &next, &error), STATUS_OK);
    }
    SpeculationStats stats = decoding.speculation.stats;
    decoding_free(&decoding);
    sampler_free(sampler);
    token_list_free(&ids);
    free(logits);
    return stats;
}

/* Lets the model at `path` draft for LARGE; returns the statistics of a greedy or a sampled text.
 */
static SpeculationStats draft_with(const char *path, float temperature) {
    Speaker large = speaker_open(LARGE), small = speaker_open(path);
    const DraftModelOptions options = {.kv_type = KV_F16, .max_texts = 1};
    SamplerOptions sampling = sampler_options_default();
    int32_t expected[TEXT];
    DraftModel *shared;
    TokenMap *map;
    Error error;
    sampling.temperature = temperature;
    sampling.seed = 11;
    assert_int_equal(token_map_new(&map, large.tokenizer, large.tiny.vocab_size, small.tokenizer,
                                   small.tiny.vocab_size, &error),
                     STATUS_OK);
    assert_int_equal(draft_model_new(&shared, small.tiny.model, map, &options, &error), STATUS_OK);
    continue_text(&large, NULL, temperature, expected, true);
    SpeculationStats stats = {0};
    for (int round = 0; round < 2; round++) { /* the second text gets the first one's place */
        Drafter *drafter = draft_model_drafter(shared, &sampling);
        assert_non_null(drafter);
        stats = continue_text(&large, drafter, temperature, expected, false);
        drafter_free(drafter);
    }
    draft_model_free(shared);
    token_map_free(map);
    speaker_close(&small);
    speaker_close(&large);
    return stats;
}

static void a_model_that_drafts_for_itself_is_always_right(void **state) {
    (void)state;
    for (int sampled = 0; sampled < 2; sampled++) {
        SpeculationStats stats = draft_with(LARGE, sampled ? 0.8f : 0.0f);
        /* The last pass may draft beyond what the test takes. */
        assert_true(stats.accepted + DRAFT_MODEL_MOST >= stats.drafted);
        assert_true(stats.passes < TEXT / 2);
    }
}

static void a_small_model_drafts_for_a_large_one(void **state) {
    (void)state;
    for (int sampled = 0; sampled < 2; sampled++) {
        SpeculationStats stats = draft_with(SMALL, sampled ? 0.8f : 0.0f);
        assert_int_equal(stats.passes + stats.accepted, TEXT);
        /* More than 6 tokens a pass; 9 of 10 guesses are right (models/README.md). */
        print_message("%zu passes, %zu of %zu right\n", stats.passes, stats.accepted,
                      stats.drafted);
        assert_true(stats.passes < TEXT / 5);
        assert_true(5 * stats.accepted > 4 * stats.drafted);
    }
}

static void tokens_are_mapped_by_their_bytes(void **state) {
    char *directory = fixture_directory(), *path = small_model(directory, "tiny");
    Speaker other = speaker_open(path), large = speaker_open(LARGE);
    TokenMap *map;
    TokenList spelled = {0};
    Error error;
    (void)state;
    /* 300 tokens against 2048: every byte, and most of the words. */
    assert_int_equal(token_map_new(&map, other.tokenizer, other.tiny.vocab_size, large.tokenizer,
                                   large.tiny.vocab_size, &error),
                     STATUS_OK);
    assert_true(token_map_n_equal(map) >= 256);
    for (int32_t token = 3; token < 300; token++) {
        char *text[2];
        size_t length[2];
        spelled.length = 0;
        assert_int_equal(token_map_spell(map, token, &spelled, &error), STATUS_OK);
        assert_int_equal(tokenizer_decode(other.tokenizer, &token, 1, TOKEN_DECODER_CONTINUE,
                                          &text[0], &length[0], &error),
                         STATUS_OK);
        assert_int_equal(tokenizer_decode(large.tokenizer, spelled.ids, spelled.length,
                                          TOKEN_DECODER_CONTINUE, &text[1], &length[1], &error),
                         STATUS_OK);
        assert_int_equal(length[0], length[1]);
        assert_memory_equal(text[0], text[1], length[0]);
        free(text[0]);
        free(text[1]);
        if (spelled.length == 1) assert_true(token_map_back(map, spelled.ids[0]) >= 3);
    }
    assert_int_equal(token_map_back(map, -1), -1);
    assert_int_equal(token_map_back(map, (int32_t)large.tiny.vocab_size), -1);
    token_map_free(map);
    /* The other way round there are words that 300 tokens do not have. */
    assert_int_equal(token_map_new(&map, large.tokenizer, large.tiny.vocab_size, other.tokenizer,
                                   other.tiny.vocab_size, &error),
                     STATUS_FAILED);
    assert_non_null(strstr(error.text, "another vocabulary"));
    token_list_free(&spelled);
    speaker_close(&large);
    speaker_close(&other);
    free(path);
    fixture_remove_directory(directory);
}

/* ---- A model's own prediction layers --------------------------------------------------------- */

enum { IDS = 150 };

/* The guess after each token of the text, computed in one go: the likeliest token, or -1 where it
 * has less than half of the probability. */
static void guess_all(TinyModel *tiny, const int32_t ids[IDS], int32_t guesses[IDS]) {
    Error error;
    Mtp *mtp;
    KvCache *cache;
    Row rows[IDS];
    size_t dim = model_config(tiny->model)->dim, vocab_size = tiny->vocab_size;
    float *hidden = malloc(IDS * dim * sizeof *hidden);
    float *logits = malloc(IDS * vocab_size * sizeof *logits);
    kvcache_reset(tiny->cache, 1, 0);
    tiny_model_continue(tiny, 1, ids, IDS, IDS, logits);
    mtp_hidden(tiny->model, 0, IDS, hidden);
    assert_int_equal(mtp_open(&mtp, tiny->file, tiny->model, IDS, &error), STATUS_OK);
    KvShape shape = mtp_kv_shape(mtp, KV_F16);
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    kvcache_reset(cache, 0, 1);
    for (int32_t i = 1; i < IDS; i++) rows[i - 1] = (Row){0, i, ids[i], true};
    assert_int_equal(mtp_forward(mtp, cache, 0, rows, IDS - 1, hidden, logits, NULL, &error),
                     STATUS_OK);
    for (size_t i = 1; i < IDS; i++) {
        const float *row = logits + (i - 1) * vocab_size;
        int32_t best = tiny_model_argmax(row, vocab_size);
        double sum = 0.0;
        for (size_t k = 0; k < vocab_size; k++) sum += exp((double)row[k] - (double)row[best]);
        guesses[i] = sum < 2.0 ? best : -1;
    }
    kvcache_free(cache);
    mtp_close(mtp);
    free(logits);
    free(hidden);
}

/* Runs the text in calls of `chunk` rows, with wrong drafts after some of them, and asks for a
 * draft after each; its first token must be that of guess_all. Returns how many there were. */
static size_t guess_along(TinyModel *tiny, MtpDrafts *shared, const int32_t ids[IDS],
                          const int32_t guesses[IDS], size_t chunk) {
    SamplerOptions sampling = sampler_options_default();
    float *logits = malloc(IDS * tiny->vocab_size * sizeof *logits);
    size_t n_guesses = 0;
    sampling.temperature = 0.0f;
    Drafter *drafter = mtp_drafter(shared, &sampling);
    assert_non_null(drafter);
    kvcache_reset(tiny->cache, 0, 0);
    for (size_t at = 0, n; at + 1 < IDS; at += n) {
        int32_t call[IDS], drafts[MTP_DRAFTS];
        Row rows[IDS];
        n = IDS - 1 - at < chunk ? IDS - 1 - at : chunk;
        size_t wrong = at % 3;
        memcpy(call, ids + at, n * sizeof *ids);
        for (size_t i = 0; i < wrong; i++) call[n + i] = 5;
        tiny_model_continue(tiny, 0, call, n + wrong, n + wrong, logits);
        for (size_t i = 0; i < n + wrong; i++) rows[i] = (Row){0, (int32_t)(at + i), call[i], true};
        drafter->ran(drafter, rows, 0, n + wrong);
        kvcache_truncate(tiny->cache, 0, (int32_t)(at + n));
        if (at % 5 == 4) continue; /* a drafter is not asked each time */
        size_t got = drafter->propose(drafter, ids, at + n + 1, drafts, MTP_DRAFTS);
        if (guesses[at + n] >= 0) assert_true(got > 0);
        if (got > 0 && guesses[at + n] >= 0) assert_int_equal(drafts[0], guesses[at + n]);
        n_guesses += guesses[at + n] >= 0;
    }
    drafter_free(drafter);
    free(logits);
    return n_guesses;
}

static void prediction_layers_guess_along_as_over_the_whole_text(void **state) {
    static const char *const models[] = {
        "random:tiny,logit_scale=5,mtp_layers=1",
        "random:tiny,logit_scale=5,mtp_layers=1,n_layers=3,window=20,window_pattern=3",
        ("random:tiny,logit_scale=5,mtp_layers=2,latent_dim=24,head_dim=20,rotary_dim=8,"
         "value_dim=12")};
    const ModelOptions options = {.n_threads = 1, .context = IDS + 50};
    int32_t ids[IDS], guesses[IDS];
    Error error;
    (void)state;
    for (int i = 0; i < IDS; i++) ids[i] = 3 + i * i % 97;
    for (size_t m = 0; m < 3; m++) {
        TinyModel tiny = tiny_model_open(models[m], "f32", &options, KV_F16);
        MtpDrafts *shared;
        assert_int_equal(mtp_drafts_open(&shared, tiny.file, tiny.model, KV_F16, 1, &error),
                         STATUS_OK);
        guess_all(&tiny, ids, guesses);
        size_t n = 0;
        for (size_t chunk = 1; chunk < IDS; chunk = 3 * chunk + 1)
            n += guess_along(&tiny, shared, ids, guesses, chunk);
        print_message("%s: %zu guesses\n", models[m], n);
        assert_true(n > 20);
        mtp_drafts_close(shared);
        tiny_model_close(&tiny);
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

#define GENERATE(...)                                                                              \
    RUN("run", LARGE, "-i", "The cat", "-s", "3", "-n", "120", "-j", "1", "--draft-model",         \
        __VA_ARGS__)

/* Whether drafts pay is decided by measured times, which a busy machine disturbs: a program that
 * did not draft is asked again. */
enum { MOST_TRIES = 20 };

/* A drafter that lost less than half a millisecond gained nothing, and not minus nothing. */
static void a_loss_too_small_to_print_has_no_sign(void **state) {
    (void)state;
    static const struct {
        double gained;
        const char *line;
    } cases[] = {{-0.0004, ", 0.000 s gained\n"},
                 {-0.0, ", 0.000 s gained\n"},
                 {-0.0006, ", -0.001 s gained\n"},
                 {0.0012, ", 0.001 s gained\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Drafting drafting = {0};
        char *printed = NULL;
        size_t length;
        FILE *out = open_memstream(&printed, &length);
        assert_non_null(out);
        drafting.records[DRAFT_LOOKUP] =
            (DraftRecord){.name = "lookup", .seconds = 1.0, .gained = cases[i].gained};
        drafting_print(out, &drafting);
        fclose(out);
        if (!strstr(printed, cases[i].line)) fail_msg("%s", printed);
        free(printed);
    }
}

static void the_program_drafts_with_a_model(void **state) {
    (void)state;
    static const char *const temperatures[] = {"0", "0.8"};
    for (size_t i = 0; i < 2; i++) {
        Process plain = GENERATE(SMALL, "--draft", "none", "-t", temperatures[i], "--stats");
        assert_null(strstr(plain.err, "drafts:"));
        bool has_drafted = false;
        for (size_t tries = 0; tries < MOST_TRIES && !has_drafted; tries++) {
            Process drafted = GENERATE(SMALL, "-t", temperatures[i], "--stats");
            assert_int_equal(drafted.status, 0);
            assert_string_equal(plain.out, drafted.out);
            has_drafted = strstr(drafted.err, "drafts:  model: ") != NULL;
            process_free(&drafted);
        }
        assert_true(has_drafted);
        process_free(&plain);
    }
    Process info = GENERATE(SMALL, "--info");
    assert_non_null(strstr(info.out, "draft model         models/stories-draft.bin, 563.5 KiB"));
    process_free(&info);
}

static void same_with_layers(const char *model, const char *const *more) {
    const char *argv[16] = {"run", model, "--draft", "none"};
    for (size_t k = 0; more[k]; k++) argv[4 + k] = more[k];
    Process plain = process_run(argv, "The cat\nand\n", 12);
    if (plain.status != 0) fail_msg("%s", plain.err);
    bool has_drafted = false;
    argv[3] = "mtp";
    for (size_t tries = 0; tries < MOST_TRIES && !has_drafted; tries++) {
        Process drafted = process_run(argv, "The cat\nand\n", 12);
        if (drafted.status != 0) fail_msg("%s", drafted.err);
        assert_string_equal(plain.out, drafted.out);
        has_drafted = strstr(drafted.err, "drafts:  mtp: ") != NULL;
        process_free(&drafted);
    }
    assert_true(has_drafted);
    process_free(&plain);
}
#define SAME_WITH_LAYERS(...) same_with_layers(path, (const char *const[]){__VA_ARGS__, NULL})

static void prediction_layers_draft_in_one_text_and_in_batches(void **state) {
    char *directory = fixture_directory(), *requests = fixture_path(directory, "requests.jsonl");
    char *path = small_model(directory, "tiny,logit_scale=5,n_layers=20,mtp_layers=1,context=256");
    static const char lines[] =
        "{\"id\": 1, \"prompt\": \"the cat\", \"temperature\": 0}\n"
        "{\"id\": 2, \"prompt\": \"the hat\", \"n\": 3, \"repetition_penalty\": 1.2}\n"
        "{\"id\": 3, \"prompt\": \"then\", \"stop\": [\"e\"], \"temperature\": 0.5}\n";
    (void)state;
    file_write(requests, lines, strlen(lines));
    SAME_WITH_LAYERS("-i", "the", "-n", "80", "-t", "0", "-s", "1", "--stats");
    SAME_WITH_LAYERS("-i", "the", "-n", "0", "-s", "1", "--ignore-eos", "--stats");
    SAME_WITH_LAYERS("--batch", requests, "-n", "60", "--ordered", "--stats");
    Process p = RUN("run", LARGE, "--draft", "mtp");
    PROCESS_SAYS(p, 1, "has no prediction layers");
    free(path);
    free(requests);
    fixture_remove_directory(directory);
}

static void what_cannot_draft_is_refused(void **state) {
    char *directory = fixture_directory(), *path = small_model(directory, "tiny");
    (void)state;
    Process p = GENERATE(path);
    PROCESS_SAYS(p, 1, "another vocabulary");
    p = GENERATE("absent.bin");
    assert_int_equal(p.status, 1);
    process_free(&p);
    p = RUN("run", LARGE, "--draft", "model");
    PROCESS_SAYS(p, 2, "--draft model needs --draft-model MODEL");
    p = RUN("run", LARGE, "--draft", "lookup,guess");
    PROCESS_SAYS(p, 2, "'guess' proposes nothing");
    free(path);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_guesses_cost_less_than_two_percent),
        cmocka_unit_test(more_of_a_text_is_read_only_where_that_has_paid),
        cmocka_unit_test(right_guesses_are_found_and_used),
        cmocka_unit_test(who_was_right_goes_first),
        cmocka_unit_test(rows_that_are_not_cheap_get_no_guesses),
        cmocka_unit_test(rows_that_seem_to_cost_nothing_are_paid_for),
        cmocka_unit_test(a_trusted_drafter_begins_whatever_rows_seem_to_cost),
        cmocka_unit_test(a_model_that_drafts_for_itself_is_always_right),
        cmocka_unit_test(a_small_model_drafts_for_a_large_one),
        cmocka_unit_test(tokens_are_mapped_by_their_bytes),
        cmocka_unit_test(prediction_layers_guess_along_as_over_the_whole_text),
        cmocka_unit_test(a_loss_too_small_to_print_has_no_sign),
        cmocka_unit_test(the_program_drafts_with_a_model),
        cmocka_unit_test(prediction_layers_draft_in_one_text_and_in_batches),
        cmocka_unit_test(what_cannot_draft_is_refused),
    };
    return cmocka_run_group_tests_name("drafts", tests, NULL, NULL);
}
