"""Trains the byte-level BPE tokenizer and packs the text to token files.

    python make_tokenizer.py TRAIN.jsonl HELDOUT.jsonl OUTDIR [--vocab 2048]
    python make_tokenizer.py TRAIN.jsonl HELDOUT.jsonl OUTDIR --tokenizer OTHER/tokenizer.json

OUTDIR gets tokenizer.json, tokenizer_config.json, chat_template.jinja, and for each text
NAME.npy (uint16 tokens, every document led by <|endoftext|>).
"""

import argparse
import json
import pathlib

import numpy
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

# The splitting of Qwen2 and its kin: words with their space, single digits, punctuation runs.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def documents(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def assemble(tok):
    """Gives a BPE the splitting, the decoder and the leading token of the story models."""
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    bos = SPECIAL[0]
    tok.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, 0)]
            ),
        ]
    )
    return tok


def train(path, vocab, sample):
    tok = assemble(Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )

    def plain():
        for n, text in enumerate(documents(path)):
            if n == sample:
                return
            for mark in SPECIAL:
                text = text.replace(mark, "\n")
            yield text

    tok.train_from_iterator(plain(), trainer)
    return tok


def pack(tok, path, out):
    ids = []
    batch = []

    def flush():
        for coded in tok.encode_batch(batch, add_special_tokens=True):
            ids.append(numpy.array(coded.ids, dtype=numpy.uint16))
        batch.clear()

    size = 0
    for text in documents(path):
        size += len(text.encode())
        batch.append(text)
        if len(batch) == 4096:
            flush()
    flush()
    tokens = numpy.concatenate(ids)
    numpy.save(out, tokens)
    print(
        f"{out}: {len(ids)} documents, {len(tokens)} tokens, {size / len(tokens):.2f} bytes a token"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train"), parser.add_argument("heldout"), parser.add_argument("out")
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--sample", type=int, default=20000, help="documents to learn merges from")
    parser.add_argument("--tokenizer", help="take this one instead of training")
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    if args.tokenizer:
        tok = Tokenizer.from_file(args.tokenizer)
    else:
        tok = train(args.train, args.vocab, args.sample)
    tok.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[0],
        "pad_token": SPECIAL[0],
        "add_bos_token": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "additional_special_tokens": SPECIAL[1:],
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    pack(tok, args.heldout, out / "heldout.npy")
    pack(tok, args.train, out / "train.npy")


if __name__ == "__main__":
    main()
