/* What a tokenizer.json does to text before and after the model, and to ids: normalizers,
 * pre-tokenizers, decoders, post-processors. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_JSON_STEPS_H
#define FORMATS_TOKENIZERS_TOKENIZER_JSON_STEPS_H

#include "formats/tokenizers/tokenizer_json_import.h"

/* Reads the components that work before the model: normalizer and pre_tokenizer. */
Status json_import_steps_before(JsonImport *im, const json_t *root);
/* Reads those that work after it, and need the tokens: decoder and post_processor. */
Status json_import_steps_after(JsonImport *im, const json_t *root);

/* Adds GPT-2's splits and decoder, which vocab.json and merges.txt go with. */
Status json_import_gpt2_steps(JsonImport *im, bool prefix_space);

/* Prepends more[n_more] to ids[*n], the ids that begin every text; does nothing when there is no
 * room. */
void json_import_put_before(int32_t *ids, size_t *n, const int32_t *more, size_t n_more);

#endif
