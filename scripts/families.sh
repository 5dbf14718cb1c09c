#!/bin/sh
# Writes docs/families.md around the table that the test has measured:
#     VERBATIM_FAMILIES=table build/tests/test_reference_logits && scripts/families.sh table
set -e
[ -f "$1" ] || { echo "usage: $0 TABLE" >&2; exit 2; }
cat > docs/families.md <<'END'
# Families

Each decoder-only family that `verbatim` reads from a Hugging Face directory has two (llama more)
tiny models in tests/fixtures: awkward sizes, every tensor (norms, biases, sinks) filled from a
hash, every feature active, windows shorter than the text. `tests/test_reference_logits` converts
them and compares 48 tokens' logits with transformers 5.23 (float32, eager attention); RoPE
families also from positions 4,000 and 100,000 on.

- **difference**: the largest of a logit, in standard deviations of the logits; 1e-4 is the limit.
- **greedy**: the next 32 tokens that both choose.
- **steps**: logits of a prompt in one call, in calls of 7 tokens and token by token, bit for bit.

The test also holds every model to the same bits on every instruction set, in f32 and q8.

| model_type | features | weights | difference | greedy | steps |
| --- | --- | --- | --- | --- | --- |
END
sort -t'|' -k2,2 -s "$1" >> docs/families.md
cat >> docs/families.md <<'END'

## What is refused
A model_type, RoPE scaling, activation, layer type or switch that is not known here is refused by
its name, and so is a tensor inside a layer that the family has no place for. Weights that are
quantized in the source (`quantization_config`) are refused too.

## Where this differs from transformers
- LongRoPE and dynamic RoPE scaling: the context that a model is opened with decides, not the
  length that a text happens to have reached, which would change the frequencies of what is
  cached already. A text's logits so never depend on what came later.
- Falcon's ALiBi: eager attention of transformers 5.23 adds it twice; this program agrees with its
  other attention implementations. Its bfloat16 rounding of positions past 256 is not imitated.
- Phi 3.5 MoE's long RoPE: transformers 5.23 takes the short factors whatever the length; here the
  context decides, as in the model's own code.
- Gemma 3's `attn_logit_softcapping`, which transformers reads and does not use, is not used.
- `gpt2`: `scale_attn_by_inverse_layer_idx` is refused.

Adding a family is an entry in one of formats/families_*.c: which keys of config.json fill which
fields of `Config`, and the rules that name its tensors ([how](adding-a-family.md)).
END
