/* --why: which tensors win answers back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/text_windows.h"
#include "fixture.h"
#include "layers/model_watch.h"
#include "modes/inspect/ddmin.h"
#include "modes/inspect/residuals.h"
#include "modes/inspect/why.h"
#include "modes/inspect/why_text.h"
#include "process.h"
#include "session/logprobs.h"
#include "tests/tier.h"

static const char shipped[] = "models/stories.bin";
enum { VOCABULARY = 2048 }; /* of the shipped model */

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- ddmin ---- */

/* A set passes when it holds one thing of each of some pairs. */
typedef struct Pairs {
    size_t pairs[3][2], n, tests;
} Pairs;

static bool pairs_pass(const Pairs *p, const size_t *things, size_t n, size_t without) {
    for (size_t k = 0; k < p->n; k++) {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            if (i != without) found |= things[i] == p->pairs[k][0] || things[i] == p->pairs[k][1];
        if (!found) return false;
    }
    return true;
}

static Status test_pairs(void *context, const size_t *things, size_t n, bool *passes,
                         Error *error) {
    (void)error;
    Pairs *p = context;
    p->tests++;
    *passes = pairs_pass(p, things, n, SIZE_MAX);
    return STATUS_OK;
}

static void the_set_passes_and_nothing_can_be_left_out(void **state) {
    (void)state;
    uint32_t seed = 3;
    for (size_t round = 0; round < 300; round++) {
        size_t things[40], all = 1 + next_random(&seed) % 40, n = all;
        Pairs p = {.n = 1 + next_random(&seed) % 3};
        for (size_t i = 0; i < all; i++) things[i] = i;
        for (size_t k = 0; k < 2 * p.n; k++) p.pairs[k / 2][k % 2] = next_random(&seed) % all;
        Error error;
        assert_int_equal(ddmin(things, &n, test_pairs, &p, &error), STATUS_OK);
        assert_true(pairs_pass(&p, things, n, SIZE_MAX));
        for (size_t i = 0; n > 1 && i < n; i++) {
            assert_false(pairs_pass(&p, things, n, i));
            assert_true(i == 0 || things[i - 1] < things[i]);
        }
        assert_true(p.tests <= all * all + 3 * all);
    }
}

/* ---- Two tensors that only together win an answer back ---- */

typedef struct Planted {
    const ModelFile *own;
    const char *names[2];
} Planted;

/* 7 for A, and for B where both tensors are A's; else 8. */
static Status planted_answer(void *context, const ModelFile *file, const WhyAsked *asked,
                             size_t *answers, Error *error) {
    (void)error;
    const Planted *p = context;
    answers[0] = 7;
    if (asked->logprobs) asked->logprobs[0][0] = asked->logprobs[0][1] = -1.0;
    for (size_t i = 0; i < 2; i++)
        if (modelfile_data(file, modelfile_find(file, p->names[i])) !=
            modelfile_data(p->own, modelfile_find(p->own, p->names[i])))
            answers[0] = 8;
    return STATUS_OK;
}

static void planted_name(void *context, size_t i, size_t answer, char *place, char *text,
                         size_t size) {
    (void)context, (void)i, (void)answer;
    snprintf(place, size, "here");
    snprintf(text, size, "word");
}

static void export_to(const char *source, const char *target, const char *type, const char *keep) {
    Process p = RUN("export", source, target, "-q", "-f", "-t", type, keep ? "--keep" : NULL, keep);
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
}

static ModelFile *opened(const char *path) {
    ModelFile *file;
    Error error;
    if (modelfile_open(&file, path, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

/* What why_run prints, by way of the file `path`. */
static char *report_of(ModelFile *own, ModelFile *other, const WhyItems *items, const char *path) {
    volatile sig_atomic_t interrupted = 0;
    Output output = {.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    const Session session = {.file = own, .interrupted = &interrupted, .output = &output};
    Error error;
    size_t length;
    assert_true(output.fd >= 0);
    if (why_run(&session, other, items, &error) != STATUS_OK) fail_msg("%s", error.text);
    close(output.fd);
    return file_read(path, &length);
}

static void two_tensors_that_win_together_are_both_named_and_no_other(void **state) {
    (void)state;
    char *directory = fixture_directory(), *report = fixture_path(directory, "report");
    char *a = fixture_path(directory, "a.bin"), *b = fixture_path(directory, "b.bin");
    Process made = RUN("export", "--random", "tiny", a, "-q", "-t", "f16");
    assert_int_equal(made.status, 0);
    process_free(&made);
    export_to(a, b, "q4m", NULL);
    ModelFile *own = opened(a), *other = opened(b);
    size_t n = modelfile_n_tensors(own), done = 0;
    uint32_t seed = 11;
    while (done < 100) {
        const FileTensor *x = modelfile_tensor(own, next_random(&seed) % n);
        const FileTensor *y = modelfile_tensor(own, next_random(&seed) % n);
        if (x == y || x->type == TENSOR_VECTOR || y->type == TENSOR_VECTOR) continue;
        if (modelfile_data(own, x) == modelfile_data(own, y)) continue;
        Planted planted = {own, {x->name, y->name}};
        const WhyItems items = {1, planted_answer, planted_name, &planted};
        char lines[2][100], *text = report_of(own, other, &items, report);
        assert_non_null(strstr(text, "together            2 tensors"));
        snprintf(lines[0], sizeof lines[0], "  --keep %s=f16\n", x->name);
        snprintf(lines[1], sizeof lines[1], "  --keep %s=f16\n", y->name);
        assert_non_null(strstr(text, lines[0]));
        assert_non_null(strstr(text, lines[1]));
        free(text);
        done++;
    }
    modelfile_close(own);
    modelfile_close(other);
    free(report);
    free(a);
    free(b);
    fixture_remove_directory(directory);
}

/* ---- Tied embeddings ---- */

/* Plants an answer that the embeddings and the output head win back together, in a model A whose
 * two are tied or not, and a model B. Returns the report. */
static char *report_of_tied(const char *directory, bool own_tied, bool other_tied) {
    char *a = fixture_path(directory, "a.bin"), *b = fixture_path(directory, "b.bin");
    char *report = fixture_path(directory, "report");
    for (int i = 0; i < 2; i++) {
        bool tied = i ? other_tied : own_tied;
        Process made = RUN("export", "--random", tied ? "tiny,tied=1" : "tiny,tied=0", i ? b : a,
                           "-q", "-f", "-t", i ? "q8" : "f16");
        if (made.status) fail_msg("%s", made.err);
        process_free(&made);
    }
    ModelFile *own = opened(a), *other = opened(b);
    Planted planted = {own, {"token_embedding", "output"}};
    const WhyItems items = {1, planted_answer, planted_name, &planted};
    char *text = report_of(own, other, &items, report);
    modelfile_close(own);
    modelfile_close(other);
    free(a);
    free(b);
    free(report);
    return text;
}

static void embeddings_that_one_model_alone_ties_are_exchanged_one_by_one(void **state) {
    (void)state;
    char *directory = fixture_directory();
    for (int tied = 0; tied < 4; tied++) {
        char *text = report_of_tied(directory, tied & 1, tied & 2);
        assert_non_null(strstr(text, tied == 3 ? "together            1 tensors"
                                               : "together            2 tensors"));
        assert_non_null(strstr(text, "  --keep token_embedding=f16\n"));
        assert_int_equal(strstr(text, "  --keep output=f16\n") != NULL, tied != 3);
        free(text);
    }
    fixture_remove_directory(directory);
}

/* ---- Tensors of 2 bits among others of 4 ---- */

/* The likeliest token after each row of a text. */
typedef struct Reading {
    TextWindows windows;
    size_t only;           /* the row that is an item; SIZE_MAX: all are */
    const KvType *kv_type; /* NULL: the model's */
    size_t *answers;
    const WhyAsked *asked; /* log-probabilities are logits here, which differ by a constant; NULL:
                              answers alone */
} Reading;

static size_t rows_read(void *context, size_t first, size_t n) {
    size_t only = ((const Reading *)context)->only;
    return only == SIZE_MAX ? n : only < first || only >= first + n ? 0 : only - first + 1;
}

static Status read_rows(void *context, const float *logits, size_t first, size_t n, size_t tokens,
                        Error *error) {
    (void)tokens, (void)error;
    Reading *r = context;
    for (size_t i = 0; i < n; i++) {
        if (r->asked && r->asked->logprobs && r->only == first + i) {
            r->asked->logprobs[0][0] = (double)logits[i * VOCABULARY + r->asked->own[0]];
            r->asked->logprobs[0][1] = (double)logits[i * VOCABULARY + r->asked->other[0]];
        }
        size_t answer = logprobs_argmax(logits + i * VOCABULARY, VOCABULARY);
        if (r->only == SIZE_MAX) r->answers[first + i] = answer;
        if (r->only == first + i) r->answers[0] = answer;
    }
    return STATUS_OK;
}

static Status read_answer(void *context, const ModelFile *file, const WhyAsked *asked,
                          size_t *answers, Error *error) {
    Reading *r = context;
    const ModelOptions options = {.n_threads = 1};
    WindowRun run = {.kv_type = r->kv_type, .cut = rows_read, .rows = read_rows, .context = r};
    r->answers = answers;
    r->asked = asked;
    if (model_open(&run.model, file, &options, error) != STATUS_OK) return STATUS_FAILED;
    if (asked) residuals_observe(asked->observer, run.model);
    Status status = text_windows_run(&r->windows, &run, error);
    model_close(run.model);
    return status;
}

static void read_all(Reading *r, const ModelFile *file, size_t *answers) {
    Error error;
    r->only = SIZE_MAX;
    if (read_answer(r, file, NULL, answers, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static bool is_named(const char *report, const char *name) {
    char alone[100], keep[100];
    snprintf(alone, sizeof alone, "\n  %s ", name);
    snprintf(keep, sizeof keep, "\n  --keep %s=", name);
    return strstr(report, alone) || strstr(report, keep);
}

typedef struct Damage {
    char *directory, *path, *report;
    ModelFile *own, *intact, *low; /* f16, q4m, q2_k */
    Reading reading;
    size_t n_rows, *own_answers, *intact_answers, *answers[3]; /* of two tensors, of both */
    size_t turned, named, both;
} Damage;

/* The answers of the 4-bit model with these tensors in 2 bits. */
static void read_damaged(Damage *d, const size_t *tensors, size_t n, size_t *answers) {
    Error error;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(modelfile_replace(d->intact, tensors[i], d->low, tensors[i], &error),
                         STATUS_OK);
    read_all(&d->reading, d->intact, answers);
    modelfile_restore(d->intact);
}

/* A file with these tensors in 2 bits. */
static ModelFile *damaged_file(const Damage *d, const size_t *tensors, size_t n) {
    char keep[2][100];
    for (size_t i = 0; i < n; i++)
        snprintf(keep[i], sizeof keep[i], "%s=q2_k", modelfile_tensor(d->intact, tensors[i])->name);
    Process p = RUN("export", shipped, d->path, "-q", "-f", "-t", "q4m", "--keep", keep[0],
                    n > 1 ? "--keep" : NULL, keep[1]);
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
    return opened(d->path);
}

/* Explains up to `most` answers that only the damage changes, of two tensors only both together.
 * One of the two then wins the answer back and must be named; the other need not be. */
static void explain_damage(Damage *d, const size_t *tensors, size_t n, size_t most) {
    ModelFile *other = NULL;
    read_damaged(d, tensors, n, d->answers[2]);
    for (size_t i = 0; n > 1 && i < n; i++) read_damaged(d, &tensors[i], 1, d->answers[i]);
    for (size_t row = 0; row < d->n_rows && most > 0; row++) {
        bool turned = d->answers[2][row] != d->own_answers[row] &&
                      d->intact_answers[row] == d->own_answers[row];
        for (size_t i = 0; n > 1 && i < n; i++) turned &= d->answers[i][row] == d->own_answers[row];
        if (!turned) continue;
        if (!other) other = damaged_file(d, tensors, n);
        d->reading.only = row;
        const WhyItems items = {1, read_answer, planted_name, &d->reading};
        char *report = report_of(d->own, other, &items, d->report);
        assert_non_null(strstr(report, "changed             1 of 1 answers"));
        d->turned++;
        size_t named = 0;
        for (size_t i = 0; i < n; i++)
            named += is_named(report, modelfile_tensor(d->own, tensors[i])->name);
        d->named += named > 0;
        d->both += named == 2;
        if (named == 0) print_message("row %zu, not named:\n%s", row, report);
        free(report);
        most--;
    }
    modelfile_close(other);
}

static void damage_is_named_where_every_tensor_differs(void **state) {
    (void)state;
    Damage d = {.directory = fixture_directory()};
    d.path = fixture_path(d.directory, "b.bin");
    d.report = fixture_path(d.directory, "report");
    char *paths[] = {fixture_path(d.directory, "f16"), fixture_path(d.directory, "q4m"),
                     fixture_path(d.directory, "q2_k"), fixture_path(d.directory, "text")};
    Process p = RUN("run", shipped, "-s", "5", "-n", "400", "-p", "1");
    assert_int_equal(p.status, 0);
    file_write(paths[3], p.out, p.out_length);
    process_free(&p);
    export_to(shipped, paths[0], "f16", NULL);
    export_to(shipped, paths[1], "q4m", NULL);
    export_to(shipped, paths[2], "q2_k", "token_embedding=q2_k");
    d.own = opened(paths[0]), d.intact = opened(paths[1]), d.low = opened(paths[2]);
    assert_int_equal(modelfile_config(d.own)->vocab_size, VOCABULARY);
    InputFile text = {.fd = -1};
    Error error;
    assert_int_equal(input_open(&text, paths[3], &error), STATUS_OK);
    assert_int_equal(text_windows_open(&d.reading.windows, d.own, &text, TEXT_WINDOW, &error),
                     STATUS_OK);
    d.n_rows = text_windows_rows(&d.reading.windows);
    size_t *all = malloc(5 * d.n_rows * sizeof *all);
    assert_non_null(all);
    d.own_answers = all, d.intact_answers = all + d.n_rows;
    for (size_t i = 0; i < 3; i++) d.answers[i] = all + (2 + i) * d.n_rows;
    read_all(&d.reading, d.own, d.own_answers);
    read_all(&d.reading, d.intact, d.intact_answers);
    size_t n = modelfile_n_tensors(d.own), matrices[64], n_matrices = 0,
           trials = tier_count(1, 10, 24);
    for (size_t i = 0; i < n && n_matrices < 64; i++) {
        const FileTensor *t = modelfile_tensor(d.own, i);
        if (t->type != TENSOR_VECTOR && strncmp(t->name, "layers.", 7) == 0)
            matrices[n_matrices++] = i;
    }
    for (size_t i = 0; i < n_matrices && d.turned < trials - trials / 6; i++)
        explain_damage(&d, &matrices[i], 1, tier() == TIER_ALL ? 5 : 1);
    print_message("one tensor: named in %zu of %zu trials\n", d.named, d.turned);
    uint32_t seed = 5;
    while (d.turned < trials) {
        size_t pair[] = {matrices[next_random(&seed) % n_matrices],
                         matrices[next_random(&seed) % n_matrices]};
        if (pair[0] != pair[1])
            explain_damage(&d, pair, 2, trials - d.turned < 5 ? trials - d.turned : 5);
    }
    print_message("with two that turn an answer only together: %zu of %zu, both in %zu\n", d.named,
                  d.turned, d.both);
    assert_int_equal(d.named, d.turned);
    free(all);
    text_windows_close(&d.reading.windows);
    input_close(&text);
    modelfile_close(d.own);
    modelfile_close(d.intact);
    modelfile_close(d.low);
    for (size_t i = 0; i < 4; i++) free(paths[i]);
    free(d.path);
    free(d.report);
    fixture_remove_directory(d.directory);
}

/* ---- The cache ---- */

/* The first row at which a cache of 8 bits turns the answer of both models to another one. */
static size_t row_that_the_cache_turns(Reading *r, const ModelFile *own, const ModelFile *other) {
    static const KvType types[] = {KV_F32, KV_Q8, KV_Q8};
    size_t n = text_windows_rows(&r->windows), row = 0, *answers = malloc(3 * n * sizeof *answers);
    assert_non_null(answers);
    for (size_t i = 0; i < 3; i++) {
        r->kv_type = &types[i];
        read_all(r, i < 2 ? own : other, answers + i * n);
    }
    while (row < n &&
           (answers[row] == answers[n + row] || answers[n + row] != answers[2 * n + row]))
        row++;
    free(answers);
    assert_true(row < n);
    return row;
}

/* A and B differ in the cache, and in a tensor that is rounded to float16, which turns nothing: no
 * tensor wins the answer back, because every trial has B's cache whatever types its tensors have.
 */
static void a_trial_has_the_cache_of_the_other_model(void **state) {
    (void)state;
    char *directory = fixture_directory(), *report = fixture_path(directory, "report");
    char *a = fixture_path(directory, "a.bin"), *b = fixture_path(directory, "b.bin");
    char *story = fixture_path(directory, "text");
    Process p = RUN("run", shipped, "-s", "5", "-n", "400", "-p", "1");
    assert_int_equal(p.status, 0);
    file_write(story, p.out, p.out_length);
    process_free(&p);
    export_to(shipped, a, "f32", NULL);
    export_to(shipped, b, "f32", "layers.3.wo=f16");
    ModelFile *own = opened(a), *other = opened(b);
    Reading reading = {.only = SIZE_MAX};
    InputFile text = {.fd = -1};
    TokenList ids = {0};
    Error error;
    size_t bytes;
    assert_int_equal(input_open(&text, story, &error), STATUS_OK);
    assert_int_equal(text_windows_open(&reading.windows, own, &text, TEXT_WINDOW, &error),
                     STATUS_OK);
    size_t row = row_that_the_cache_turns(&reading, own, other);
    if (reading.windows.bos >= 0) token_list_push(&ids, reading.windows.bos);
    for (size_t i = 0; ids.length <= row; i++) token_list_push(&ids, reading.windows.ids.ids[i]);
    volatile sig_atomic_t interrupted = 0;
    Output output = {.fd = open(report, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    const Options options = {.model = a};
    Session session = {.options = &options, .file = own, .kv_type = KV_F32, .output = &output};
    session.interrupted = &interrupted;
    session.isa = isa_choose(NULL, &error);
    const void *section = modelfile_section(own, SECTION_TOKENIZER, &bytes);
    assert_int_equal(tokenizer_open(&session.tokenizer, section, bytes, &error), STATUS_OK);
    if (why_text_parting(&session, other, KV_Q8, ids.ids, ids.length, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    close(output.fd);
    char *printed = file_read(report, &bytes);
    assert_non_null(strstr(printed, "changed             1 of 1 answers"));
    assert_non_null(strstr(printed, "all tensors win back 0 of 1: the models differ in more"));
    free(printed);
    tokenizer_close(session.tokenizer);
    token_list_free(&ids);
    text_windows_close(&reading.windows);
    input_close(&text);
    modelfile_close(own);
    modelfile_close(other);
    free(a);
    free(b);
    free(report);
    free(story);
    fixture_remove_directory(directory);
}

/* ---- Trials that begin at a later layer ---- */

enum { PASSES = 2, PASS_ROWS = 6, TRIAL_LAYERS = 5 };

/* Two sequences in two passes; `first_token` tells one run's tokens from another's. */
static float *run_passes(const ModelFile *file, PassObserver *observer, int32_t first_token) {
    const ModelOptions options = {.n_threads = 2};
    size_t each = (size_t)modelfile_config(file)->vocab_size * PASS_ROWS;
    float *logits = malloc(PASSES * each * sizeof *logits);
    Model *model;
    KvCache *cache;
    Error error;
    if (model_open(&model, file, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    const KvShape shape = model_kv_shape(model, KV_F16);
    assert_int_equal(kvcache_new(&cache, &shape, 2, 0, &error), STATUS_OK);
    assert_non_null(logits);
    assert_true(model_can_resume(model));
    residuals_observe(observer, model);
    for (int pass = 0; pass < PASSES; pass++) {
        Row rows[PASS_ROWS];
        for (int i = 0; i < PASS_ROWS; i++)
            rows[i] = (Row){i / 3, 3 * pass + i % 3, first_token + 7 * pass + i, true};
        assert_int_equal(
            model_forward(model, cache, rows, PASS_ROWS, logits + (size_t)pass * each, &error),
            STATUS_OK);
    }
    kvcache_free(cache);
    model_close(model);
    return logits;
}

static void replace_tensor(ModelFile *file, const ModelFile *from, const char *name) {
    Error error;
    size_t i = (size_t)(modelfile_find(file, name) - modelfile_tensor(file, 0));
    size_t k = (size_t)(modelfile_find(from, name) - modelfile_tensor(from, 0));
    assert_int_equal(modelfile_replace(file, i, from, k, &error), STATUS_OK);
}

/* Runs the passes from `layer` on and in full: the bits must be the same. */
static void assert_resumes(Residuals *r, const ModelFile *file, size_t layer, bool keeps,
                           size_t begins) {
    size_t bytes = (size_t)modelfile_config(file)->vocab_size * PASSES * PASS_ROWS * sizeof(float);
    PassObserver *observer = residuals_begin(r, layer, keeps);
    float *resumed = run_passes(file, observer, 3), *full = run_passes(file, NULL, 3);
    assert_int_equal(residuals_first(r), begins);
    assert_true(residuals_matched(r));
    assert_memory_equal(resumed, full, bytes);
    free(resumed);
    free(full);
}

static void a_trial_that_begins_at_a_later_layer_has_the_same_bits(void **state) {
    (void)state;
    char *directory = fixture_directory(), name[32];
    char *a = fixture_path(directory, "a.bin"), *b = fixture_path(directory, "b.bin");
    Process made = RUN("export", "--random", "tiny,n_layers=5,tied=0", a, "-q", "-t", "f16");
    if (made.status) fail_msg("%s", made.err);
    process_free(&made);
    export_to(a, b, "q4", NULL);
    ModelFile *own = opened(a), *file = opened(b);
    size_t dim = modelfile_config(file)->dim;
    /* Room for all four layers' streams, for two, and for none. */
    for (size_t stride = 1; stride <= 8; stride += stride) {
        size_t layers = stride < TRIAL_LAYERS ? (TRIAL_LAYERS - 1) / stride : 0;
        Residuals *r = residuals_new(modelfile_config(file),
                                     layers * PASSES * PASS_ROWS * dim * sizeof(float));
        assert_non_null(r);
        for (size_t layer = 1; layer <= TRIAL_LAYERS; layer++) {
            size_t last = layer < TRIAL_LAYERS ? layer : TRIAL_LAYERS - 1;
            size_t begins = layers > 0 ? last / stride * stride : 0;
            snprintf(name, sizeof name, layer < TRIAL_LAYERS ? "layers.%zu.wk" : "output", layer);
            modelfile_restore(file);
            assert_resumes(r, file, 0, true, 0);
            replace_tensor(file, own, name);
            assert_resumes(r, file, layer, false, begins);
            assert_resumes(r, file, layer, true, begins);
            replace_tensor(file, own, "layers.4.w_down");
            assert_resumes(r, file, 4, false, layers > 0 ? 4 : 0);
        }
        residuals_free(r);
    }
    Residuals *r = residuals_new(modelfile_config(file), 1 << 20);
    free(run_passes(file, residuals_begin(r, 0, true), 3));
    free(run_passes(file, residuals_begin(r, 3, false), 4)); /* other tokens */
    assert_false(residuals_matched(r));
    assert_null(residuals_begin(r, 3, false));
    residuals_free(r);
    modelfile_close(own);
    modelfile_close(file);
    free(a);
    free(b);
    fixture_remove_directory(directory);
}

/* ---- Damage to a real model ---- */

/* The token at which the greedy texts of two models part; SIZE_MAX: they do not. */
static size_t parting(const char *a, const char *b, const char *prompt) {
    Process p = RUN("run", a, "-i", prompt, "-t", "0", "-n", "40", "--against", b);
    if (p.status) fail_msg("%s", p.err);
    size_t at = SIZE_MAX;
    const char *found = strstr(p.out, "they part at token ");
    if (found) assert_int_equal(sscanf(found, "they part at token %zu", &at), 1);
    process_free(&p);
    return at;
}

/* Where the same 6-bit model without the damage goes on like the original, the damaged tensor alone
 * wins the answer back for certain. */
static void a_damaged_tensor_is_named_where_it_turns_an_answer(void **state) {
    (void)state;
    static const char *const tensors[] = {"layers.2.w_down", "layers.0.w_up", "layers.1.wo",
                                          "layers.3.w_gate"};
    static const char *const prompts[] = {"Once upon a time", "The dog", "One day, Tom"};
    char *directory = fixture_directory(), keep[100], line[100];
    char *intact = fixture_path(directory, "intact.bin"), *b = fixture_path(directory, "b.bin");
    size_t turned = 0;
    export_to(shipped, intact, "q6", NULL);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        if (!tier_takes(i, 4, 1)) continue;
        snprintf(keep, sizeof keep, "%s=q2_k", tensors[i]);
        snprintf(line, sizeof line, "\n  %s ", tensors[i]);
        export_to(shipped, b, "q6", keep);
        for (size_t k = 0; k < 3; k++) {
            if (turned && tier() == TIER_CHECK) break;
            size_t at = parting(shipped, b, prompts[k]);
            if (at == SIZE_MAX || parting(shipped, intact, prompts[k]) <= at) continue;
            Process p = RUN("run", shipped, "-i", prompts[k], "-t", "0", "-n", "40", "--against", b,
                            "--why", "-j", "1");
            /* Plain C is slow: once is enough. */
            Process q = RUN("run", shipped, "-i", prompts[k], "-t", "0", "-n", "40", "--against", b,
                            "--why", "-j", "3", turned || tier() == TIER_CHECK ? NULL : "--isa",
                            "reference");
            if (p.status || q.status) fail_msg("%s%s", p.err, q.err);
            assert_string_equal(p.out, q.out);
            assert_non_null(strstr(p.out, "changed             1 of 1 answers"));
            assert_non_null(strstr(p.out, line));
            assert_non_null(strstr(p.out, "  --keep "));
            process_free(&p);
            process_free(&q);
            turned++;
        }
    }
    print_message("%zu answers turned\n", turned);
    assert_true(turned > 0);
    free(intact);
    free(b);
    fixture_remove_directory(directory);
}

static void questions_are_explained_by_their_choices(void **state) {
    (void)state;
    static const char questions[] =
        "{\"context\": \"Once upon a time there was a little\", \"choices\": [\" girl\", \" boy\", "
        "\" dog\"], \"answer\": 0}\n"
        "{\"context\": \"She was very\", \"choices\": [\" happy\", \" sad\"], \"answer\": 0}\n"
        "{\"text\": \"The dog ran.\"}\n";
    char *directory = fixture_directory(), *b = fixture_path(directory, "b.bin");
    char *items = fixture_path(directory, "items");
    file_write(items, questions, strlen(questions));
    export_to(shipped, b, "q2_k", NULL);
    Process p = RUN("run", shipped, "--eval-tasks", items, "--against", b, "--why");
    if (p.status) fail_msg("%s", p.err);
    assert_non_null(strstr(p.out, "of 2 answers; 29 tensors differ\n"));
    process_free(&p);
    p = RUN("run", shipped, "--eval-tasks", items, "--why");
    PROCESS_SAYS(p, 2, "--why needs --against MODEL");
    free(b);
    free(items);
    fixture_remove_directory(directory);
}

/* Who asks what quantization changed may name the two in either order; one of them is not what he
 * means. */
static void a_smaller_model_against_a_larger_one_is_told_so(void **state) {
    (void)state;
    char *directory = fixture_directory(), *small = fixture_path(directory, "b.bin");
    char *text = fixture_path(directory, "text");
    static const char story[] = "Let me tell you about Rila, a girl who always kept his promises. "
                                "One rainy day, Rila wanted to make a pizza "
                                "for his father. He put on a white apron and washed his hands. But "
                                "there was no honey! \"What shall I do,\"\n";
    file_write(text, story, sizeof story - 1);
    export_to(shipped, small, "q3_k", NULL);
    static const char line[] = "order               tensors of the smaller model";
    Process p = RUN("run", small, "--eval", text, "--against", shipped, "--why");
    if (p.status) fail_msg("%s", p.err);
    const char *alone = strstr(p.out, "that one tensor wins back");
    assert_non_null(strstr(p.out, line));
    assert_non_null(alone);
    assert_non_null(strstr(alone, " MiB less\n"));
    assert_null(strstr(p.out, "inf a MiB"));
    process_free(&p);
    p = RUN("run", shipped, "--eval", text, "--against", small, "--why");
    if (p.status) fail_msg("%s", p.err);
    assert_null(strstr(p.out, line));
    assert_non_null(strstr(p.out, " MiB more, "));
    process_free(&p);
    free(small);
    free(text);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_set_passes_and_nothing_can_be_left_out),
        cmocka_unit_test(two_tensors_that_win_together_are_both_named_and_no_other),
        cmocka_unit_test(embeddings_that_one_model_alone_ties_are_exchanged_one_by_one),
        cmocka_unit_test(damage_is_named_where_every_tensor_differs),
        cmocka_unit_test(a_trial_has_the_cache_of_the_other_model),
        cmocka_unit_test(a_trial_that_begins_at_a_later_layer_has_the_same_bits),
        cmocka_unit_test(a_damaged_tensor_is_named_where_it_turns_an_answer),
        cmocka_unit_test(questions_are_explained_by_their_choices),
        cmocka_unit_test(a_smaller_model_against_a_larger_one_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
