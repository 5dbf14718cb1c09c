#include "draft/draft_choice.h"

#include <string.h>

/* A draft ends before a token of less probability. */
static const float SURE = 0.3f;

Sampler *draft_choice_new(const SamplerOptions *text, const Model *model) {
    SamplerOptions options = sampler_options_default();
    Sampler *sampler;
    Error ignored;
    options.temperature = text->temperature;
    options.top_k = text->top_k;
    options.top_p = text->top_p;
    options.min_p = text->min_p;
    options.seed = text->seed;
    options.sample = text->sample;
    Status status = sampler_new(&sampler, &options, model_config(model)->vocab_size,
                                model_isa(model)->numeric, &ignored);
    return status == STATUS_OK ? sampler : NULL;
}

int32_t draft_choice(Sampler *sampler, const Model *model, float *logits, float *scratch,
                     size_t position) {
    const Numeric *numeric = model_isa(model)->numeric;
    size_t n = model_config(model)->vocab_size;
    memcpy(scratch, logits, n * sizeof *logits);
    int32_t token = sampler_next(sampler, scratch, position);
    float max = numeric->maximum(logits, n), share = logits[token] - max;
    float sum = numeric->softmax_sum(logits, max, n);
    numeric->softmax_sum(&share, 0.0f, 1);
    return share >= SURE * sum ? token : -1;
}
