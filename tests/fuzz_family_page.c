/* Fuzz target: reads the input as a page of a family, and converts a small llama by it, whose
 * config.json has the page's name as its model_type. */
#include "formats/family/family_page.h"
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config[] =
    "\"hidden_size\": 8, \"n_embd\": 8, \"intermediate_size\": 12, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 4, \"vocab_size\": 16, "
    "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
    "\"num_experts\": 2, \"num_experts_per_tok\": 1, \"moe_intermediate_size\": 4, "
    "\"sliding_window\": 7, \"layer_types\": [\"sliding_attention\", \"full_attention\"], "
    "\"kv_lora_rank\": 4, \"qk_rope_head_dim\": 2, \"qk_nope_head_dim\": 2, \"v_head_dim\": 4, "
    "\"attention_bias\": true, \"rope_parameters\": {\"rope_theta\": 10000}}";

/* A tensor of the model, in each layer where its name begins with ".". */
static const struct {
    const char *name;
    unsigned rows, cols; /* cols 0: a vector */
} tensors[] = {
    {"model.embed_tokens.weight", 16, 8},
    {"model.norm.weight", 8, 0},
    {"lm_head.weight", 16, 8},
    {".input_layernorm.weight", 8, 0},
    {".post_attention_layernorm.weight", 8, 0},
    {".self_attn.q_proj.weight", 8, 8},
    {".self_attn.k_proj.weight", 4, 8},
    {".self_attn.v_proj.weight", 4, 8},
    {".self_attn.o_proj.weight", 8, 8},
    {".self_attn.q_norm.weight", 4, 0},
    {".self_attn.k_norm.weight", 4, 0},
    {".self_attn.qkv_proj.weight", 16, 8},
    {".self_attn.qkv_proj.bias", 16, 0},
    {".mlp.gate_proj.weight", 12, 8},
    {".mlp.up_proj.weight", 12, 8},
    {".mlp.down_proj.weight", 8, 12},
    {".mlp.gate_up_proj.weight", 24, 8},
    {".mlp.gate.weight", 2, 8},
    {".mlp.experts.0.gate_proj.weight", 4, 8},
    {".mlp.experts.0.up_proj.weight", 4, 8},
    {".mlp.experts.0.down_proj.weight", 8, 4},
    {".mlp.experts.1.gate_proj.weight", 4, 8},
    {".mlp.experts.1.up_proj.weight", 4, 8},
    {".mlp.experts.1.down_proj.weight", 8, 4},
};

static void add_tensor(char *header, size_t bytes, size_t *at, size_t i, unsigned layer,
                       size_t *offset) {
    size_t end = *offset + 4 * tensors[i].rows * (tensors[i].cols ? tensors[i].cols : 1);
    char name[80], shape[32];
    bool in_layer = tensors[i].name[0] == '.';
    if (in_layer) {
        snprintf(name, sizeof name, "model.layers.%u%s", layer, tensors[i].name);
    } else {
        snprintf(name, sizeof name, "%s", tensors[i].name);
    }
    snprintf(shape, sizeof shape, tensors[i].cols ? "%u, %u" : "%u", tensors[i].rows,
             tensors[i].cols);
    *at += (size_t)snprintf(header + *at, bytes - *at,
                            "%c\"%s\": {\"dtype\": \"F32\", \"shape\": [%s], "
                            "\"data_offsets\": [%zu, %zu]}",
                            *at ? ',' : '{', name, shape, *offset, end);
    *offset = end;
}

/* The llama's weights as a file. */
static void add_weights(Source *source) {
    static char file[1 << 16];
    enum { N = sizeof tensors / sizeof *tensors };
    size_t at = 0, offset = 0;
    for (size_t i = 0; i < N; i++)
        for (unsigned layer = 0; layer < (tensors[i].name[0] == '.' ? 2 : 1); layer++)
            add_tensor(file + 8, sizeof file - 8, &at, i, layer, &offset);
    file[8 + at++] = '}';
    uint64_t length = at;
    memcpy(file, &length, sizeof length);
    if (8 + at + offset > sizeof file) abort();
    fuzz_fill((uint8_t *)file + 8 + at, offset);
    fuzz_add_file(source, "fuzz/model.safetensors", (const uint8_t *)file, 8 + at + offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FamilyPage *page;
    Error error;
    char text[sizeof config + 128];
    if (family_page_read(&page, "fuzz", (const char *)data, size, &error) != STATUS_OK) {
        if (error.text[0] == '\0' || strchr(error.text, '\n')) abort();
        return 0;
    }
    int n = snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s",
                     family_page_family(page)->model_type, config);
    family_page_free(page);
    Source *source = fuzz_source(SOURCE_HUGGINGFACE, "fuzz");
    fuzz_add_file(source, "fuzz/config.json", (const uint8_t *)text, (size_t)n);
    add_weights(source);
    int fd = memfd_create("page", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
        input_adopt(&source->family_file, "mine.family", fd, &error) != STATUS_OK)
        abort();
    fuzz_convert(source, NULL);
    return 0;
}
