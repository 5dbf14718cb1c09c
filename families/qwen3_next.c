/* Qwen3-Next and Qwen 3.5: gated DeltaNet beside gated attention. */
#include "families/shared.h"

static Status gguf_qwen3next_finish(const GgufModel *m, Config *c) {
    if (gguf_delta_kinds(m, c, LAYER_ATTENTION) != STATUS_OK) return STATUS_FAILED;
    c->qk_norm = QK_NORM_HEAD;
    c->router.kind = ROUTER_SOFTMAX_CHOSEN;
    if (c->experts.count > 0 && c->ffn_dim == 0) c->ffn_dim = c->experts.ffn_dim;
    return gguf_read_state(m, c);
}

const FamilyHook families_qwen3_next[] = {
    {"qwen3next", .gguf_finish = gguf_qwen3next_finish},
    {0},
};
