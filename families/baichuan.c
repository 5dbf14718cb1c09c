/* Baichuan 7B and 13B, in GGUF files alone: a llama, the larger one with ALiBi. */
#include "families/shared.h"

static GgufFinish gguf_baichuan_finish;

const Family families_baichuan[] = {
    {
        .model_type = "baichuan",
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "baichuan",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_baichuan_finish,
                },
                {0},
            },
    },
    {0},
};

/* Baichuan 13B, with 40 layers, has ALiBi; 7B has RoPE. */
static Status gguf_baichuan_finish(const GgufModel *m, Config *c) {
    (void)m;
    if (c->n_layers == 40) c->position = POSITION_ALIBI;
    return STATUS_OK;
}
