/* Tokenizers of Hugging Face's directories (tokenizer_import.h). */
#ifndef TOKENIZER_JSON_H
#define TOKENIZER_JSON_H

#include "formats/tokenizers/tokenizer_import.h"

/* Imports tokenizer.json, the tokenizers library's format. tokenizer_config.json (NULL: absent)
 * gives the bos and eos tokens and the added tokens that tokenizer.json lacks. */
Status tokenizer_import_json(const char *tokenizer_json, size_t json_size, const char *config_json,
                             size_t config_size, TokenizerBlob *out, Error *error);

/* Imports the files of transformers' "slow" tokenizers: GPT-2's vocab.json and merges.txt;
 * added_tokens.json and tokenizer_config.json may be NULL. */
Status tokenizer_import_slow(const char *vocab_json, size_t vocab_size, const char *merges_txt,
                             size_t merges_size, const char *added_json, size_t added_size,
                             const char *config_json, size_t config_size, TokenizerBlob *out,
                             Error *error);

#endif
