#include "formats/family/own_names.h"

const char *const own_part_keys[OWN_PARTS] = {
    [OWN_EMBEDDING] = "token_embedding",
    [OWN_POSITIONS] = "position_embedding",
    [OWN_OUTPUT] = "output",
    [OWN_FINAL_NORM] = "final_norm",
    [OWN_WQ] = "wq",
    [OWN_WK] = "wk",
    [OWN_WV] = "wv",
    [OWN_WQKV] = "wqkv",
    [OWN_WO] = "wo",
    [OWN_UP] = "w_up",
    [OWN_GATE] = "w_gate",
    [OWN_DOWN] = "w_down",
    [OWN_ATTENTION_NORM] = "attention_norm",
    [OWN_FFN_NORM] = "ffn_norm",
};

static const char *const embeddings[] = {"token_embedding",
                                         "token_embedding_table",
                                         "transformer.wte",
                                         "wte",
                                         "tok_emb",
                                         "token_emb",
                                         "tok_embeddings",
                                         "embed_tokens",
                                         "tgt_embed.0.lut",
                                         "src_embed.0.lut",
                                         "embed.0.lut",
                                         "embedding",
                                         "embeddings",
                                         "embed",
                                         "emb",
                                         "input_emb",
                                         "encoder",
                                         NULL};
static const char *const positions[] = {"position_embedding_table",
                                        "position_embedding",
                                        "positional_embedding",
                                        "transformer.wpe",
                                        "wpe",
                                        "pos_emb",
                                        "pos_embedding",
                                        "pos_embed",
                                        NULL};
static const char *const outputs[] = {
    "lm_head", "output", "output_proj", "generator.proj", "generator", "fc_out", "decoder", "head",
    "out",     "linear", "fc",          "proj",           NULL};
static const char *const final_norms[] = {"transformer.ln_f",
                                          "ln_f",
                                          "final_norm",
                                          "norm_f",
                                          "norm",
                                          "decoder.norm",
                                          "ln",
                                          "transformer_encoder.norm",
                                          "encoder.norm",
                                          NULL};

const char *const *own_outer_names(OwnPart part) {
    static const char *const none[] = {NULL};
    switch (part) {
    case OWN_EMBEDDING:
        return embeddings;
    case OWN_POSITIONS:
        return positions;
    case OWN_OUTPUT:
        return outputs;
    case OWN_FINAL_NORM:
        return final_norms;
    default:
        return none;
    }
}

const OwnStyle own_styles[] = {
    {"nanogpt",
     "attn.c_attn.weight",
     {[OWN_WQKV] = "attn.c_attn",
      [OWN_WO] = "attn.c_proj",
      [OWN_UP] = "mlp.c_fc",
      [OWN_DOWN] = "mlp.c_proj",
      [OWN_ATTENTION_NORM] = "ln_1",
      [OWN_FFN_NORM] = "ln_2"},
     "learned",
     "gelu",
     .norm_before = true},
    /* nn.TransformerEncoderLayer with a causal mask */
    {"torch",
     "self_attn.in_proj_weight",
     {[OWN_WQKV] = "self_attn.in_proj_weight",
      [OWN_WO] = "self_attn.out_proj",
      [OWN_UP] = "linear1",
      [OWN_DOWN] = "linear2",
      [OWN_ATTENTION_NORM] = "norm1",
      [OWN_FFN_NORM] = "norm2"},
     "sinusoidal",
     "relu",
     .norm_before = false},
    {"annotated",
     "self_attn.linears.0.weight",
     {[OWN_WQ] = "self_attn.linears.0",
      [OWN_WK] = "self_attn.linears.1",
      [OWN_WV] = "self_attn.linears.2",
      [OWN_WO] = "self_attn.linears.3",
      [OWN_UP] = "feed_forward.w_1",
      [OWN_DOWN] = "feed_forward.w_2",
      [OWN_ATTENTION_NORM] = "sublayer.0.norm.a_2",
      [OWN_FFN_NORM] = "sublayer.1.norm.a_2"},
     "sinusoidal",
     "relu",
     .norm_before = true,
     .annotated_norm = true},
    /* The GPT of the lecture "Let's build GPT": a matrix for each head. */
    {"lecture",
     "sa.heads.0.key.weight",
     {[OWN_WQ] = "sa.heads.%h.query",
      [OWN_WK] = "sa.heads.%h.key",
      [OWN_WV] = "sa.heads.%h.value",
      [OWN_WO] = "sa.proj",
      [OWN_UP] = "ffwd.net.0",
      [OWN_DOWN] = "ffwd.net.2",
      [OWN_ATTENTION_NORM] = "ln1",
      [OWN_FFN_NORM] = "ln2"},
     "learned",
     "relu",
     .norm_before = true},
    /* The decoder that guides write from scratch, as this program's models/train has it. */
    {"guide",
     "attention.wq.weight",
     {[OWN_WQ] = "attention.wq",
      [OWN_WK] = "attention.wk",
      [OWN_WV] = "attention.wv",
      [OWN_WO] = "attention.wo",
      [OWN_UP] = "ffn.w1",
      [OWN_DOWN] = "ffn.w2",
      [OWN_ATTENTION_NORM] = "norm1",
      [OWN_FFN_NORM] = "norm2"},
     "sinusoidal",
     "relu",
     .norm_before = false},
    /* Guides that build multi-head attention as a module of its own: self_attn.W_q, ffn.w_1. */
    {"modules",
     "self_attn.W_q.weight",
     {[OWN_WQ] = "self_attn.W_q",
      [OWN_WK] = "self_attn.W_k",
      [OWN_WV] = "self_attn.W_v",
      [OWN_WO] = "self_attn.W_o",
      [OWN_UP] = "ffn.w_1",
      [OWN_DOWN] = "ffn.w_2",
      [OWN_ATTENTION_NORM] = "norm1",
      [OWN_FFN_NORM] = "norm2"},
     "sinusoidal",
     "relu",
     .norm_before = false},
    {.name = NULL},
};
