"""Writes the training text: one JSON string a line, a story or a chat in its template.

    python make_text.py OUT.jsonl --documents 120000 --seed 1

The text depends on the seed, the number of documents and these scripts only; the held-out
text is the same command with another seed; a few short chats come out of both by chance
(models/README.md counts them).
"""

import argparse
import json
import random

from chats import chat
from stories import story, title

CHAT_SHARE = 0.45


def document(rng):
    if rng.random() < CHAT_SHARE:
        return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in chat(rng))
    text, slots, _, plot = story(rng)
    if rng.random() < 0.07:
        text = title(rng, slots, plot) + "\n\n" + text
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--documents", type=int, default=120000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with open(args.out, "w", encoding="utf-8") as out:
        for _ in range(args.documents):
            out.write(json.dumps(document(rng)) + "\n")


if __name__ == "__main__":
    main()
