/* What the core leaves out: every function of layers/, tokenizer/, kvcache/ and kernels/ that the
 * rest of it calls, refusing by name or doing nothing. Only `make core` compiles this file. What is
 * asked only after a refusal returns NULL. */
#include "core/attention.h"
#include "kvcache/kvcache_snapshots_internal.h"
#include "kernels/reference_spin.h"
#include "kernels/weight_types.h"
#include "core/layer_kind.h"
#include "tokenizer/characters.h"
#include "tokenizer/unigram.h"

/* ---- Layers, mixtures of experts and arrangements: layers/ ---- */

const LayerKinds layer_kinds = {0};

static const ConfigField *absent_field(size_t i) {
    return NULL;
}

static Status absent_kind(const Config *config, uint32_t layer, Error *error) {
    return error_set(error, "layer %u is of a kind that this build leaves out (layer_kind %u)",
                     layer, config->layer_kind[layer]);
}

static Status absent_mixture(const Config *config, Error *error) {
    return error_set(error, "n_experts is %u, but this build leaves out mixtures of experts",
                     config->experts.count);
}

static Status absent_arrangement(const Config *config, Error *error) {
    return error_set(error, "this build leaves out the stack of '%s'", config->family);
}

const LayerConfig layer_config = {
    .field = absent_field,
    .validate = absent_kind,
    .validate_mixture = absent_mixture,
    .validate_arrangement = absent_arrangement,
};

const LatentPage latent_page_reference = {0};

/* ---- Tokenizers: tokenizer/ ---- */

Status unigram_encode(Encoding *e, const char *bytes, size_t length) {
    return error_set(e->error, "tokenizer: this build has no Unigram");
}

static Status absent_step(Encoding *e, const StepRecord *step, TextBuffer *out, TextSpan *in) {
    return error_set(e->error, "tokenizer: this build has no normalizer step %u",
                     (unsigned)step->op);
}

static size_t absent_replacement(const Tokenizer *t, const char *text, size_t n, const char **to,
                                 size_t *to_length) {
    return 0;
}

static bool is_sound(const void *bytes, size_t n) {
    return true;
}

const Characters characters = {absent_step, absent_replacement, is_sound};

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

double reference_spin(TensorType type, size_t rounds) {
    return 0;
}
