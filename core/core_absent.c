/* What the core leaves out: every function of layers/, tokenizer/, kvcache/ and kernels/ that the
 * rest of it calls, refusing by name or doing nothing. Only `make core` compiles this file. What is
 * asked only after a refusal returns NULL. */
#include "core/attention.h"
#include "kvcache/kvcache_snapshots_internal.h"
#include "kernels/kernels.h"
#include "kernels/weight_types.h"
#include "core/layer_kind.h"
#include "tokenizer/tokenizer_parts.h"

/* ---- Layers, mixtures of experts and arrangements: layers/ ---- */

const BranchKind *layer_kind(uint32_t number) {
    return NULL;
}

const ConfigField *layer_kind_field(size_t i) {
    return NULL;
}

Status layer_kind_validate(const Config *config, uint32_t layer, Error *error) {
    return error_set(error, "layer %u is of a kind that this build leaves out (layer_kind %u)",
                     layer, config->layer_kind[layer]);
}

double layer_kind_work(const Config *config, uint32_t layer) {
    return 0;
}

const BranchKind *mixture_kind(void) {
    return NULL;
}

void limits_activate(const Numeric *numeric, const Config *c, const struct FeedForward *f,
                     float *gate, float *up) {}

Status mixture_validate(const Config *config, Error *error) {
    return error_set(error, "n_experts is %u, but this build leaves out mixtures of experts",
                     config->experts.count);
}

double mixture_work(const Config *config) {
    return 0;
}

const Arrangement *arrangement_of(StackNumber number) {
    return NULL;
}

void norm_gate_apply(struct ForwardPass *pass, const Branch *branch) {}

Status arrangement_validate(const Config *config, Error *error) {
    return error_set(error, "this build leaves out the stack of '%s'", config->family);
}

double arrangement_work(const Config *config) {
    return 0;
}

void latent_scores_reference(const AttentionParams *params, const AttentionJob *job,
                             const void *keys, ptrdiff_t next) {}

void latent_add_values_reference(const AttentionParams *params, const AttentionJob *job,
                                 const void *keys, const PageOutput *outputs) {}

/* ---- Tokenizers: tokenizer/ ---- */

Status unigram_encode(Encoding *e, const char *bytes, size_t length) {
    return error_set(e->error, "tokenizer: this build has no Unigram");
}

Status characters_normalize(Encoding *e, const StepRecord *step, TextBuffer *out, TextSpan *in) {
    return error_set(e->error, "tokenizer: this build has no normalizer step %u",
                     (unsigned)step->op);
}

size_t characters_charsmap_replacement(const Tokenizer *t, const char *text, size_t n,
                                       const char **to, size_t *to_length) {
    return 0;
}

bool characters_charsmap_is_sound(const void *bytes, size_t n) {
    return true;
}

/* ---- Snapshots of the KV cache: kvcache/ ---- */

void snapshots_forget(KvCache *cache, Sequence *sequence, int32_t start) {}

bool snapshots_restore(KvCache *cache, Sequence *sequence) {
    return false;
}

bool snapshots_shed(KvCache *cache) {
    return false;
}

void snapshots_end(KvCache *cache) {}

Status snapshots_own_page(KvCache *cache, Sequence *sequence, size_t index, Error *error) {
    return STATUS_OK;
}

void snapshots_commit(KvCache *cache, Sequence *sequence, size_t n) {}

size_t snapshots_call_rows(const KvCache *cache, const Sequence *sequence, size_t left,
                           size_t most) {
    return left < most ? left : most;
}

/* ---- The 8-bit KV cache, types of weights with scales inside scales, bench's peak: kernels/ ----
 */

const AttentionQ8 attention_q8_reference = {0};

const PanelReader superblock_reader = {0};

double kernels_reference_spin(TensorType type, size_t rounds) {
    return 0;
}
