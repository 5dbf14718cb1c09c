#include "measure/report_speed.h"

#include <string.h>
#include <unistd.h>

#include "convert/convert_target.h"
#include "measure/bench_model.h"
#include "measure/report_beside.h"
#include "measure/report_shape.h"

enum { PROMPT_TOKENS = 512, PROMPT_RUNS = 3, BATCH = 8, ROUNDS = 3, PEER_TOKENS = 64 };

static json_t *limits_of(const BenchModel *b) {
    json_t *limits = json_object();
    json_object_set_new(limits, "threads", json_integer(b->n_threads));
    json_object_set_new(limits, "instruction_set", json_string(b->isa->name));
    json_object_set_new(limits, "read_bandwidth", json_real(b->bandwidth));
    json_object_set_new(limits, "peak_fma", json_real(bench_model_peak(b, TENSOR_F32)));
    json_object_set_new(limits, "peak_dot", json_real(b->peak)); /* all matrices are q8 */
    return limits;
}

static json_t *model_of(const BenchModel *b) {
    json_t *model = json_object();
    json_object_set_new(model, "shape", json_string(b->choice->model));
    json_object_set_new(model, "type", json_string(b->choice->type));
    json_object_set_new(model, "bytes", json_integer((json_int_t)modelfile_bytes(b->file)));
    json_object_set_new(model, "operations_per_token", json_real(b->token_ops));
    return model;
}

static json_t *result_of(const BenchResult *r) {
    json_t *result = json_object();
    json_object_set_new(result, "what", json_string(r->what));
    json_object_set_new(result, "batch", json_integer((json_int_t)r->batch));
    json_object_set_new(result, "position", json_integer((json_int_t)r->position));
    json_object_set_new(result, "tokens_per_second", json_real(r->tokens));
    json_object_set_new(result, "rate", json_real(r->rate));
    json_object_set_new(result, "share", json_real(r->share));
    json_object_set_new(result, "limit", json_string(r->computes ? "peak" : "memory"));
    return result;
}

/* Decoding, a prompt, and a batch of the standard model. */
static Status measure_speeds(BenchModel *b, json_t *speeds, Error *error) {
    BenchResult results[3];
    Status status = bench_model_decode(b, 1, BENCH_PROMPT, &results[0], error);
    if (status == STATUS_OK)
        status = bench_model_prefill(b, PROMPT_TOKENS, PROMPT_RUNS, &results[1], error);
    if (status == STATUS_OK)
        status = bench_model_decode(b, BATCH, BENCH_PROMPT, &results[2], error);
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        json_array_append_new(speeds, result_of(&results[i]));
    return status;
}

/* ---- other programs ---- */

/* {"tokens_per_second": theirs, "ours", "ratio"}, medians of rounds in which both took turns. */
static json_t *compared(double *theirs, double *ours, double *ratios) {
    json_t *member = json_object();
    json_object_set_new(member, "tokens_per_second", json_real(bench_median(theirs, ROUNDS)));
    json_object_set_new(member, "ours", json_real(bench_median(ours, ROUNDS)));
    json_object_set_new(member, "ratio", json_real(bench_median(ratios, ROUNDS)));
    return member;
}

/* Runs llama-bench of one folder and the same measurements of ours in turn. */
static Status compare_with(const ReportOptions *options, const char *directory, BenchModel *b,
                           int gguf, json_t *beside, Error *error) {
    double theirs[2][ROUNDS], ours[2][ROUNDS], ratios[2][ROUNDS];
    PeerSpeed peer;
    Status status = STATUS_OK;
    for (int i = 0; i < ROUNDS && status == STATUS_OK; i++) {
        BenchResult decode, prefill;
        status = report_beside_run(directory, gguf, b->n_threads, PROMPT_TOKENS, PEER_TOKENS,
                                   options->interrupted, &peer, error);
        if (status == STATUS_OK) status = bench_model_prefill(b, PROMPT_TOKENS, 1, &prefill, error);
        if (status == STATUS_OK) status = bench_model_decode(b, 1, BENCH_PROMPT, &decode, error);
        if (status != STATUS_OK) return status;
        theirs[0][i] = peer.decode, theirs[1][i] = peer.prefill;
        ours[0][i] = decode.tokens, ours[1][i] = prefill.tokens;
        for (int k = 0; k < 2; k++) ratios[k][i] = ours[k][i] / theirs[k][i];
    }
    json_t *entry = json_object();
    json_object_set_new(entry, "program", json_string(peer.build));
    json_object_set_new(entry, "rounds", json_integer(ROUNDS));
    json_object_set_new(entry, "decode", compared(theirs[0], ours[0], ratios[0]));
    json_object_set_new(entry, "prefill", compared(theirs[1], ours[1], ratios[1]));
    json_array_append_new(beside, entry);
    return STATUS_OK;
}

static Status compare_all(const ReportOptions *options, BenchModel *b, json_t *report,
                          Error *error) {
    if (options->beside->n == 0) return STATUS_OK;
    int gguf = convert_unlinked_anywhere(NULL);
    if (gguf < 0) return error_set(error, "no room for a temporary GGUF file");
    json_t *beside = json_array();
    json_object_set_new(report, "beside", beside);
    Status status = report_shape_gguf(report_shape(options->quick), gguf, error);
    for (size_t i = 0; i < options->beside->n && status == STATUS_OK; i++)
        status = compare_with(options, options->beside->items[i], b, gguf, beside, error);
    close(gguf);
    return status;
}

Status report_speeds(const ReportOptions *options, json_t *report, Error *error) {
    char shape[160];
    BenchModel b = {0};
    const BenchChoice choice = {.model = shape,
                                .type = "q8",
                                .seconds = options->quick ? 0.01 : 0.0,
                                .interrupted = options->interrupted};
    json_t *speeds = json_array();
    report_shape_name(report_shape(options->quick), shape, sizeof shape);
    Status status = bench_model_find(&b, &choice, error);
    if (status == STATUS_OK) status = bench_model_open(&b, (int)options->n_threads, error);
    if (status == STATUS_OK) status = bench_model_limits(&b, error);
    if (status == STATUS_OK) {
        json_object_set_new(report, "limits", limits_of(&b));
        json_object_set_new(report, "model", model_of(&b));
        json_object_set(report, "speed", speeds);
        status = measure_speeds(&b, speeds, error);
    }
    if (status == STATUS_OK) status = compare_all(options, &b, report, error);
    json_decref(speeds);
    bench_model_free(&b);
    return status;
}
