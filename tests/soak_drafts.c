/* Results of a thousand requests with each drafter and without: every byte must be the same. The
 * drafters are asked before every pass, whether drafts pay or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "modes/batch/batch.h"
#include "draft/lookup.h"
#include "draft/mtp_drafter.h"
#include "modes/modes.h"
#include "session/drafting.h"
#include "tests/check_cases.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

/* ---- Drafters that are asked before every pass ------------------------------------------------
 */

typedef enum Who { LOOKUP, SMALL_MODEL, LAYERS, ALL } Who;

/* A model with all that may draft for it. */
typedef struct Speaker {
    TinyModel tiny, small;
    Tokenizer *tokenizer, *small_tokenizer;
    TokenMap *map;
    DraftModel *model;
    MtpDrafts *layers;
    PassCosts costs; /* of passes that all take the same time */
    DraftRecord records[3];
    Who who;
    size_t drafted, accepted;
} Speaker;

/* Counts what another Drafter proposes. */
typedef struct Counted {
    Drafter drafter;
    Drafter *inner;
    Speaker *speaker;
} Counted;

static size_t propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                      size_t most) {
    Counted *c = (Counted *)drafter;
    if (most > c->inner->most) most = c->inner->most;
    size_t n_drafts = c->inner->propose(c->inner, text, n, drafts, most);
    assert_true(n_drafts <= most);
    c->speaker->drafted += n_drafts;
    return n_drafts;
}

static void learn(Drafter *drafter, size_t n, size_t accepted) {
    Counted *c = (Counted *)drafter;
    c->speaker->accepted += accepted;
    c->inner->learn(c->inner, n, accepted);
}

static void ran(Drafter *drafter, const Row *rows, size_t first, size_t n) {
    Counted *c = (Counted *)drafter;
    if (c->inner->ran) c->inner->ran(c->inner, rows, first, n);
}

static void counted_free(Drafter *drafter) {
    drafter_free(((Counted *)drafter)->inner);
    free(drafter);
}

static Speaker *the_speaker; /* of the batch that runs */

static Drafter *new_inner(Speaker *s, Who who, const GenerationOptions *options) {
    if (who == LOOKUP) return lookup_new(DRAFTS_MAX);
    if (who == SMALL_MODEL) return draft_model_drafter(s->model, &options->sampling);
    if (who == LAYERS) return mtp_drafter(s->layers, &options->sampling);
    Drafter *set = drafter_set_new(&s->costs);
    drafter_set_add(set, new_inner(s, LOOKUP, options), &s->records[0]);
    drafter_set_add(set, new_inner(s, SMALL_MODEL, options), &s->records[1]);
    if (s->layers) drafter_set_add(set, new_inner(s, LAYERS, options), &s->records[2]);
    return set;
}

/* Stands in for drafting_new (the linker's --wrap), with drafters that are counted. */
Status __wrap_drafting_new(const Session *session, const GenerationOptions *options,
                           Drafter **drafter, Error *error);
Status __wrap_drafting_new(const Session *session, const GenerationOptions *options,
                           Drafter **drafter, Error *error) {
    Counted *c = calloc(1, sizeof *c);
    (void)session;
    (void)error;
    assert_non_null(c);
    c->speaker = the_speaker;
    c->inner = new_inner(the_speaker, the_speaker->who, options);
    assert_non_null(c->inner);
    c->drafter = (Drafter){.most = c->inner->most,
                           .propose = propose,
                           .learn = learn,
                           .free = counted_free,
                           .ran = ran};
    *drafter = &c->drafter;
    return STATUS_OK;
}

static Tokenizer *open_tokenizer(const TinyModel *tiny) {
    Tokenizer *tokenizer;
    Error error;
    size_t size;
    const void *section = modelfile_section(tiny->file, SECTION_TOKENIZER, &size);
    assert_int_equal(tokenizer_open(&tokenizer, section, size, &error), STATUS_OK);
    return tokenizer;
}

static void speaker_open(Speaker *s, const char *path, const char *small) {
    const ModelOptions options = {.n_threads = 1};
    const DraftModelOptions draft = {.kv_type = KV_F16, .max_texts = 16};
    Error error;
    memset(s, 0, sizeof *s);
    s->tiny = tiny_model_map(path, &options, KV_F16);
    s->small = tiny_model_map(small, &options, KV_F16);
    s->tokenizer = open_tokenizer(&s->tiny);
    s->small_tokenizer = open_tokenizer(&s->small);
    assert_int_equal(token_map_new(&s->map, s->tokenizer, s->tiny.vocab_size, s->small_tokenizer,
                                   s->small.vocab_size, &error),
                     STATUS_OK);
    assert_int_equal(draft_model_new(&s->model, s->small.model, s->map, &draft, &error), STATUS_OK);
    assert_int_equal(mtp_drafts_open(&s->layers, s->tiny.file, s->tiny.model, KV_F16, 16, &error),
                     STATUS_OK);
    for (size_t i = 0; i <= PASS_COSTS_ROWS; i++) s->costs.seconds[i] = 1.0;
    for (size_t i = 0; i < 3; i++) s->records[i] = draft_record("any", 0.7);
}

static void speaker_close(Speaker *s) {
    mtp_drafts_close(s->layers);
    draft_model_free(s->model);
    token_map_free(s->map);
    tokenizer_close(s->small_tokenizer);
    tokenizer_close(s->tokenizer);
    tiny_model_close(&s->small);
    tiny_model_close(&s->tiny);
}

/* ---- Batches with them ------------------------------------------------------------------------
 */

/* Answers the requests once more; the file must be the same. */
static void answer(Speaker *s, const CheckCases *c, Who who, const char *at_once) {
    static const char *const names[] = {"lookup", "a model", "the model's layers", "all of them"};
    volatile sig_atomic_t interrupted = 0;
    Options options = {0};
    Error error = {""};
    Batch *batch = NULL;
    char *argv[] = {"run",      "m",         "--batch",          c->requests,     "-o",
                    c->changed, "--ordered", "--max-concurrent", (char *)at_once, "-j",
                    "1",        NULL};
    unlink(c->changed);
    assert_int_equal(options_parse(&options, &modes_options, 11, argv, &error), STATUS_OK);
    Session session = {.options = &options,
                       .file = s->tiny.file,
                       .tokenizer = s->tokenizer,
                       .model = s->tiny.model,
                       .kv_type = session_kv_type(s->tiny.model, KV_CHOICE_AUTO),
                       .prompt = "",
                       .interrupted = &interrupted};
    session.shapes = shape_store_new(s->tokenizer, s->tiny.vocab_size);
    the_speaker = s;
    s->who = who;
    s->drafted = s->accepted = 0;
    assert_int_equal(batch_open(&batch, &options, &error), STATUS_OK);
    if (batch_run(batch, &session, &error) != STATUS_OK) fail_msg("%s", error.text);
    batch_close(batch);
    shape_store_free(session.shapes);
    size_t lengths[2];
    char *texts[] = {file_read(c->results, &lengths[0]), file_read(c->changed, &lengths[1])};
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(texts[0], texts[1], lengths[0]);
    free(texts[0]);
    free(texts[1]);
    print_message("  %s at once: %zu tokens drafted by %s, %zu of them right\n", at_once,
                  s->drafted, names[who], s->accepted);
}

static const char LARGE[] = "models/stories.bin", SMALL[] = "models/stories-draft.bin";

static void a_thousand_requests_are_answered_alike(void **state) {
    static const char *const at_once[] = {"1", "3", "8", "32"};
    CheckCases c = check_cases_open(LARGE, 1000);
    Speaker s;
    (void)state;
    speaker_open(&s, LARGE, SMALL);
    for (size_t i = 0; i < 4; i++) {
        answer(&s, &c, LOOKUP, at_once[i]);
        answer(&s, &c, SMALL_MODEL, at_once[i]);
        answer(&s, &c, ALL, at_once[i]);
    }
    speaker_close(&s);
    check_cases_close(&c);
}

static void models_of_any_kind_answer_alike(void **state) {
    static const char *const shapes[] = {
        "tiny,logit_scale=5,context=256,mtp_layers=1",
        "tiny,logit_scale=5,context=256,mtp_layers=1,n_layers=3,window=20,window_pattern=3",
        "tiny,logit_scale=5,context=256,mtp_layers=1,n_layers=3,window_pattern=3,state_kernel=4",
        "tiny,logit_scale=5,context=256,mtp_layers=1,n_experts=4,n_experts_used=2",
        ("tiny,logit_scale=5,context=256,mtp_layers=1,latent_dim=24,head_dim=20,rotary_dim=8,"
         "value_dim=12"),
    };
    (void)state;
    for (size_t m = 0; m < sizeof shapes / sizeof *shapes; m++) {
        char *directory = fixture_directory(), *path = small_model(directory, shapes[m]);
        CheckCases c = check_cases_open(path, 200);
        Speaker s;
        print_message("%s\n", shapes[m]);
        speaker_open(&s, path, path);
        for (Who who = LOOKUP; who <= ALL; who++) {
            answer(&s, &c, who, "1");
            answer(&s, &c, who, "5");
        }
        speaker_close(&s);
        check_cases_same(&c, path, NULL);
        check_cases_bytes(&c, path, 9);
        check_cases_close(&c);
        free(path);
        fixture_remove_directory(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_any_kind_answer_alike),
        cmocka_unit_test(a_thousand_requests_are_answered_alike),
    };
    return cmocka_run_group_tests_name("drafts at full size", tests, NULL, NULL);
}
