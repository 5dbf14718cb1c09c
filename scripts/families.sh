#!/bin/sh
# Writes docs/families.md around the tables that two tests have measured:
#     VERBATIM_FAMILIES=table build/tests/test_reference_logits
#     VERBATIM_FAMILIES=gguf build/tests/test_gguf_families && scripts/families.sh table gguf
set -e
[ -f "$1" ] && [ -f "$2" ] || { echo "usage: $0 TABLE GGUF_TABLE" >&2; exit 2; }
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
| internlm2 | a llama's weights under its names, q, k, v joined | f32 | the llama's bits | equal | equal |

## GGUF
The same models as llama.cpp's converter (of llama-cpp-python 0.3.36) makes GGUF files of them: for
each element of each tensor, tests/fixtures/gguf records where in the source it came from, and
`tests/test_gguf_families` writes the file from there and compares its logits with transformers'.
Files in F16 and Q8_0 (and of GPT-OSS with its experts in MXFP4), taken over as f32, give the bits of
a file in F32 with the same values.

- **difference**, **greedy**: as above, of the F32 file.
- **llama.cpp**: the largest difference of its own logits (of the same build, F32, no flash
  attention) from transformers', or why the two cannot be compared. Where it is near 1e-3, GELU
  comes from a table of float16 there.

| architecture | model_type | features | difference | greedy | llama.cpp |
| --- | --- | --- | --- | --- | --- |
END
sort -t'|' -k2,2 -s "$2" >> docs/families.md
cat >> docs/families.md <<'END'

What GGUF has no key for is what the converter leaves out: a Mistral's window, QWen 2's window,
weights of experts that are normalized where the family's usually are not, the `long_mscale` of
Phi 3.5 MoE. Such a file is computed as it says.

## What is refused
| what | why |
| --- | --- |
| `deepseek_v2`, `deepseek_v3` (`deepseek2`) | attention through a compressed cache, groups of experts |
| `mamba`, `jamba`, `rwkv7`, `qwen3next` and other state-space models and hybrids | no attention, or not alone |
| `t5` and its kind | an encoder; relative-position biases |
| `gemma3n` | embeddings of each layer, layers that share caches |
| OLMo 3 (`olmo2` with a window) | not checked against a reference yet |
| GGUF files with `expert_gating_func` sigmoid, `expert_weights_scale`, `expert_group_count` | routing of DeepSeek 3 and its relatives |
| `attention.causal` false | no decoder |

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
- GPT-OSS as GGUF: YaRN's ramp keeps the ends that the model's config.json asks for, which llama.cpp
  rounds to whole dimensions. Phi 3's window counts, which llama.cpp ignores. Phi 3.5 MoE routes by
  its sparse mixer also from GGUF.

[Adding a family](adding-a-family.md) is an entry in one of formats/families_*.c: which keys of
config.json fill which fields of `Config`, and the rules that name its tensors.
END
