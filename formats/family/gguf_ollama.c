#include "formats/family/gguf_ollama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Architectures that llama.cpp has under another name; `from` stays the beginning of the keys. */
static const struct {
    const char *from, *to;
} architectures[] = {{"gptoss", "gpt-oss"}, {"olmo3", "olmo2"}, {"qwen25vl", "qwen2vl"}};

static const struct {
    const char *from, *to;
} keys[] = {
    {"gemma3.rope.global.freq_base", "gemma3.rope.freq_base"},
    {"gemma3.rope.local.freq_base", "gemma3.rope.freq_base_swa"},
    {"laguna.rope.swa.dimension_count", "laguna.rope.dimension_count_swa"},
    {"laguna.rope.swa.freq_base", "laguna.rope.freq_base_swa"},
    {"mistral3.rope.scaling.beta_fast", "mistral3.rope.scaling.yarn_beta_fast"},
    {"mistral3.rope.scaling.beta_slow", "mistral3.rope.scaling.yarn_beta_slow"},
    {"mistral3.rope.scaling.mscale_all_dim", "mistral3.rope.scaling.yarn_log_multiplier"},
    {"mistral3.rope.scaling_beta", "mistral3.attention.temperature_scale"},
};

/* What tensors' names end in. Those outside layers have no ".": the whole name. */
static const struct {
    const char *architecture, *from, *to;
} tensors[] = {
    {"gpt-oss", ".attn_out.weight", ".attn_output.weight"},
    {"gpt-oss", ".attn_out.bias", ".attn_output.bias"},
    {"gpt-oss", ".attn_sinks", ".attn_sinks.weight"},
    {"gpt-oss", ".ffn_norm.weight", ".post_attention_norm.weight"},
    {"qwen35", ".ssm_dt", ".ssm_dt.bias"},
    {"qwen35moe", ".ssm_dt", ".ssm_dt.bias"},
    {"qwen3next", ".ssm_dt", ".ssm_dt.bias"},
    {"laguna", ".attn_g.weight", ".attn_gate.weight"},
    {"lfm2", "output_norm.weight", "token_embd_norm.weight"},
    {"lfm2moe", "output_norm.weight", "token_embd_norm.weight"},
    {"gemma4", ".ffn_gate_inp.per_expert_scale", ".ffn_down_exps.scale"},
};

static void rename_architecture(GgufModel *m) {
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(m->architecture, architectures[i].from) == 0)
            snprintf(m->architecture, sizeof m->architecture, "%s", architectures[i].to);
}

/* A key that llama.cpp's name has as well stays as it is. */
static void rename_keys(GgufModel *m) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!gguf_find(&m->gguf, keys[i].to)) gguf_rename(&m->gguf, keys[i].from, keys[i].to);
}

/* Gives the tensor the name with `to` for `from` at its end, unless another tensor has it. */
static Status rename_tensor(GgufModel *m, RawTensor *raw, const char *from, const char *to) {
    size_t n = strlen(raw->name) - strlen(from), size = n + strlen(to) + 1;
    char *name = malloc(size);
    if (!name) return error_set(m->error, "%s: no memory", m->source->path);
    snprintf(name, size, "%.*s%s", (int)n, raw->name, to);
    if (raw_table_find(&m->table, name)) {
        free(name);
        return STATUS_OK;
    }
    free(raw->name);
    raw->name = name;
    return STATUS_OK;
}

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && (end[0] == '.' || n == m) && strcmp(name + n - m, end) == 0;
}

static Status rename_tensors(GgufModel *m) {
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        if (strcmp(m->architecture, tensors[i].architecture) != 0) continue;
        for (size_t k = 0; k < m->table.n; k++)
            if (ends_in(m->table.items[k].name, tensors[i].from) &&
                rename_tensor(m, &m->table.items[k], tensors[i].from, tensors[i].to) != STATUS_OK)
                return STATUS_FAILED;
        if (raw_table_sort(&m->table, m->error) != STATUS_OK)
            return error_prefix(m->error, "%s", m->source->path);
    }
    return STATUS_OK;
}

/* What the library's Gemma 3 lacks. Those with images, of a context of 131,072, stretch the
 * positions of the layers without a window by 8. Its vocabulary has tokens of images, for which
 * there are no embeddings. */
static void complete_gemma3(GgufModel *m) {
    uint32_t context = 0;
    if (gguf_model_value(m, "attention.layer_norm_rms_epsilon") &&
        !gguf_model_value(m, "mm.tokens_per_image"))
        return;
    m->absent.trims_tokens = true;
    gguf_model_uint(m, "context_length", &context);
    if (context >= 131072) m->absent.scaling_factor = 8.0;
}

Status gguf_ollama_translate(GgufModel *m) {
    const bool gptoss = strcmp(m->architecture, "gptoss") == 0;
    rename_architecture(m);
    rename_keys(m);
    if (strcmp(m->architecture, "gemma3") == 0) complete_gemma3(m);
    if (strcmp(m->architecture, "gemma4") == 0) m->absent.tokenizer_model = "gemma4";
    if (gptoss) {
        m->absent.scaling_type = "yarn";
        m->absent.pre = "gpt-4o"; /* also where the file says "default" */
    }
    return rename_tensors(m);
}
