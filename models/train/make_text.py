"""Writes the training text: one JSON string a line, a story or a chat in its template.

    python make_text.py OUT.jsonl --documents 120000 --seed 1
    python make_text.py OUT.jsonl --documents 70000 --seed 3 --second

The text depends on the seed, the number of documents and these scripts only; the held-out
text is the same command with another seed; a few short chats come out of both by chance
(models/README.md counts them). The second text is for going on with a model that has read the
first: names go with one pronoun, stories get more questions, and a quarter of the documents
are sums and facts alone.
"""

import argparse
import json
import random

from chats import chat, drill
from stories import story, title

CHAT_SHARE = 0.45
DRILL_SHARE = 0.25  # of the second text


def conversation(messages):
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)


def document(rng, second=False, chats=CHAT_SHARE):
    if second and rng.random() < DRILL_SHARE:
        return conversation(drill(rng))
    if rng.random() < chats:
        return conversation(chat(rng, settled=second))
    text, slots, _, plot = story(rng, settled=second)
    if rng.random() < 0.07:
        text = title(rng, slots, plot) + "\n\n" + text
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--documents", type=int, default=120000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--second", action="store_true", help="the second text")
    parser.add_argument("--chats", type=float, default=CHAT_SHARE, help="share of chats")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with open(args.out, "w", encoding="utf-8") as out:
        for _ in range(args.documents):
            out.write(json.dumps(document(rng, args.second, args.chats)) + "\n")


if __name__ == "__main__":
    main()
