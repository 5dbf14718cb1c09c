#include "template/chat_family.h"

#include <string.h>

static const char plain[] = "{%- for message in messages %}\n"
                            "{{- message.role|capitalize }}: {{ message.content|trim }}\n"
                            "{% endfor %}\n"
                            "{%- if add_generation_prompt %}Assistant:{% endif %}\n";

static const char chatml[] = "{%- for message in messages %}\n"
                             "{{- '<|im_start|>' ~ message.role }}\n"
                             "{{ message.content }}{{ '<|im_end|>' }}\n"
                             "{% endfor %}\n"
                             "{%- if add_generation_prompt %}\n"
                             "{{- '<|im_start|>assistant\\n' }}\n"
                             "{%- endif %}\n";

static const char llama_3[] =
    "{{- bos_token }}\n"
    "{%- for message in messages %}\n"
    "{{- '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\\n\\n' }}\n"
    "{{- message.content|trim ~ '<|eot_id|>' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
    "{%- endif %}\n";

/* Gemma has no system role: the system message is put before the first user message. */
static const char gemma[] = "{{- bos_token }}\n"
                            "{%- set ns = namespace(system='') %}\n"
                            "{%- for message in messages %}\n"
                            "{%- if message.role == 'system' %}\n"
                            "{%- set ns.system = message.content|trim ~ '\\n\\n' %}\n"
                            "{%- else %}\n"
                            "{{- '<start_of_turn>' }}\n"
                            "{{- 'model' if message.role == 'assistant' else message.role }}\n"
                            "{{- '\\n' ~ ns.system ~ message.content|trim }}\n"
                            "{{- '<end_of_turn>\\n' }}\n"
                            "{%- set ns.system = '' %}\n"
                            "{%- endif %}\n"
                            "{%- endfor %}\n"
                            "{%- if add_generation_prompt %}\n"
                            "{{- '<start_of_turn>model\\n' }}\n"
                            "{%- endif %}\n";

/* Phi-3 has one token for each role, so every other role becomes <|user|>. */
static const char phi_3[] = "{%- for message in messages %}\n"
                            "{%- if message.role == 'system' %}{{- '<|system|>\\n' }}\n"
                            "{%- elif message.role == 'assistant' %}{{- '<|assistant|>\\n' }}\n"
                            "{%- else %}{{- '<|user|>\\n' }}\n"
                            "{%- endif %}\n"
                            "{{- message.content ~ '<|end|>\\n' }}\n"
                            "{%- endfor %}\n"
                            "{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}\n"
                            "{%- endif %}\n";

/* Granite 3 and later. */
static const char granite[] = "{%- for message in messages %}\n"
                              "{{- '<|start_of_role|>' ~ message.role ~ '<|end_of_role|>' }}\n"
                              "{{- message.content ~ '<|end_of_text|>\\n' }}\n"
                              "{%- endfor %}\n"
                              "{%- if add_generation_prompt %}\n"
                              "{{- '<|start_of_role|>assistant<|end_of_role|>' }}\n"
                              "{%- endif %}\n";

static const ChatFamily families[] = {
    {"chatml", {"<|im_start|>", "<|im_end|>", NULL}, "<|im_end|>", chatml},
    {"llama-3", {"<|start_header_id|>", "<|end_header_id|>", NULL}, "<|eot_id|>", llama_3},
    {"gemma", {"<start_of_turn>", "<end_of_turn>", NULL}, "<end_of_turn>", gemma},
    {"phi-3", {"<|user|>", "<|assistant|>", NULL}, "<|end|>", phi_3},
    {"granite", {"<|start_of_role|>", "<|end_of_role|>", NULL}, "<|end_of_text|>", granite},
};

static bool is_token(const Tokenizer *tokenizer, const char *text) {
    return tokenizer_token_id(tokenizer, text, strlen(text)) >= 0;
}

const ChatFamily *chat_family_find(const Tokenizer *tokenizer) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        bool all = is_token(tokenizer, families[i].end);
        for (size_t k = 0; all && families[i].tokens[k]; k++)
            all = is_token(tokenizer, families[i].tokens[k]);
        if (all) return &families[i];
    }
    return NULL;
}

const ChatFamily *chat_family_named(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0) return &families[i];
    return NULL;
}

const char *chat_family_plain(void) {
    return plain;
}
