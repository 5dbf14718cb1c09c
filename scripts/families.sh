#!/bin/sh
# Writes docs/families.md, which contains the tables that two tests measure:
#     VERBATIM_FAMILIES=table build/tests/test_reference_logits
#     VERBATIM_FAMILIES=gguf build/tests/test_gguf_families && scripts/families.sh table gguf
set -e
[ -f "$1" ] && [ -f "$2" ] || { echo "usage: $0 TABLE GGUF_TABLE" >&2; exit 2; }
cat > docs/families.md <<'END'
# Families

For each decoder-only family that `verbatim` reads from a Hugging Face directory, tests/fixtures has
two tiny models (more for llama), with awkward sizes, every feature active, windows shorter than the
text, and every tensor (norms, biases, sinks) filled from a hash. `tests/test_reference_logits`
converts them and compares the logits of 48 tokens with those of transformers 5.23 (float32, eager
attention), for RoPE families also from positions 4,000 and 100,000 on.

- **difference**: the largest difference of a logit, in standard deviations of the logits. The limit
  is 1e-4.
- **greedy**: whether both choose the same 32 next tokens.
- **steps**: whether a prompt gives the same bits in one call, in calls of 7 tokens and token by
  token.

The test also checks that every model gives the same bits on every instruction set, in f32 and q8.

| model_type | features | weights | difference | greedy | steps |
| --- | --- | --- | --- | --- | --- |
END
sort -t'|' -k2,2 -s "$1" >> docs/families.md
cat >> docs/families.md <<'END'
| internlm2 | a llama's weights under its names, q, k, v joined | f32 | the llama's bits | equal | equal |

## GGUF
These are the same models as GGUF files, as llama.cpp's converter (of llama-cpp-python 0.3.36) makes
them. tests/fixtures/gguf records for each element of each tensor where in the source it came from;
`tests/test_gguf_families` writes the file from that record and compares its logits with those of
transformers. Files in F16 and Q8_0 (and of GPT-OSS with its experts in MXFP4), converted to f32, give
the same bits as a file in F32 with the same values.

- **difference**, **greedy**: as above, for the F32 file.
- **llama.cpp**: the largest difference of llama.cpp's own logits (the same build, F32, no flash
  attention) from those of transformers, or why the two cannot be compared. Where it is near 1e-3,
  llama.cpp takes GELU from a table in float16.

| architecture | model_type | features | difference | greedy | llama.cpp |
| --- | --- | --- | --- | --- | --- |
END
sort -t'|' -k2,2 -s "$2" >> docs/families.md
cat >> docs/families.md <<'END'

The converter leaves out what GGUF has no key for: the windows of Mistral and QWen 2, the
normalization of experts' weights where the family usually has none, the `long_mscale` of Phi 3.5
MoE. Such a file is computed as if the model did not have it. Llama 4's chunks, its layers without
RoPE and how their queries grow are in no key either; its files get the released models' values.
MiMo V2 Flash's windows are as wide as the file says, one position less than transformers gives the released
model by its `sliding_window_size`.

## Models of images and sound
Of `mistral3`, `gemma3`, `llama4`, `qwen2_vl`, `qwen2_5_vl`, `qwen3_vl`, `qwen3_vl_moe`, `glm4v`,
`exaone4_5`, `kimi_k25`, `step3p7`, `phi4_multimodal` (and `phi4mm`, the same with the adapters beside its matrices) the text
model is converted and runs. Their other tensors are left out, which the conversion says once. Positions
are plain: the three of M-RoPE are equal in a text.

## What is refused
| what | why |
| --- | --- |
| `rwkv7`, `plamo2` and other state-space models and hybrids that no table above lists | layers without attention |
| `t5` and its kind | an encoder; relative-position biases |
| `attention.causal` false | not a decoder |

Some values of known keys cannot be computed and are refused by the key's name: GPT-OSS's
`swiglu_alpha` other than 1.702, CTRL's `layer_norm_epsilon` other than 1e-6, XGLM's `pad_token_id` from
2 on, HunYuan's `moe_topk` that differs by layer, a third base in `layer_rope_theta`, BitNet's
`quantization_mode` `online`, IQuestCoder's `clip_qkv`, `per_layer_config`, `add_cross_attention`, `use_bidirectional_attention`, MPT's `alibi` false,
`qk_ln` and `prefix_lm`, RoPE scaling `dynamic` or `longrope` for Gemma 3's layers with windows, and a 0
that would make scores or logits meaningless (`sliding_window`, `clip_qkv`, caps, multipliers). Other
keys mean what they mean to the family's class in transformers, which ignores those that it does not
know. `tests/fixtures/random_configs.py` compares random configurations of every family with
transformers.

A model_type, RoPE scaling, activation, layer type or switch that is not known here is refused by
its name, and so is a tensor inside a layer that no rule of the family takes. Weights that are
quantized in the source (`quantization_config`) are refused too, except MXFP4, BitNet's, and 8 bits with
scales (FP8 as DeepSeek, Qwen and Mistral publish it; compressed-tensors' FP8, int8 and int4): [format.md](format.md#sources). Of an
unknown model_type the message names the nearest that runs and what config.json says the model has.

## Where this differs from transformers
- Sparse attention: of positions with equal scores the lowest is chosen; torch.topk says nothing of them.
- LongRoPE and dynamic RoPE scaling follow the context that a model is opened with, not the length
  that a text has reached, which would change the frequencies of what is cached already. So the
  logits of a text never depend on what comes later.
- Falcon's ALiBi: the eager attention of transformers 5.23 adds it twice; this program agrees with
  transformers' other implementations of attention. They round each key's bias to bfloat16. This
  program rounds only the slopes, which is the same up to 8 heads and 256 tokens. With more heads
  (falcon-rw-1b has 32) logits of tiny models moved by 0.007 standard deviations; converting such a
  model says so.
- Phi 3.5 MoE's LongRoPE: transformers 5.23 takes the short factors whatever the length; here the
  context decides, as in the model's own code.
- MPT's `attn_config.alibi_bias_max` is ignored in config.json, as in transformers, where it is
  always 8. A GGUF file's is read.
- A bias that the model's config.json does not have (`attention_bias` false and a `q_proj.bias` in the
  file) is refused; transformers leaves it out with a warning.
- Gemma 3's `attn_logit_softcapping` is ignored. (transformers reads it and does not use it.)
- Gemma 3 with images: transformers caps no logits there; neither does this program.
- DBRX's `attn_config.rope_theta` is its RoPE base, as in the model's own code; transformers 5.23 reads
  `rope_parameters` alone.
- A quantized BitNet rounds inputs to 8 bits; where a value lies on the edge, the last bit of a sum
  decides, and logits may differ from transformers' by a rounding step.
- GGUF: Mellum's layers with windows have no YaRN, as in transformers. llama.cpp computes BitNet with
  SiLU, so that architecture is not read.
- GGUF: YaRN's ramp of GPT-OSS keeps the ends that the model's config.json asks for, where llama.cpp
  rounds them to whole dimensions. Phi 3's window is used, where llama.cpp ignores it. Phi 3.5 MoE is
  routed by its sparse mixer.

[Adding a family](adding-a-family.md) is an entry in one of formats/families_*.c: which keys of
config.json fill which fields of `Config`, and the rules that name its tensors.
END
