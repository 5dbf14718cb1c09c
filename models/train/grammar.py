"""Templates to text: `[a|b]` is a choice, `{slot}` a value, and English is mended after.

A template is expanded in three steps. Choices are taken at random, innermost last, so
they may nest and an empty arm leaves a sentence out. Slots are filled from a dictionary,
whose values may be templates too. Then articles are mended ("a owl" to "an owl"), spaces
closed up, and the first letter of each sentence made a capital; after `!"` and `?"` only when
what follows is not `said the fox` or `the fox said`. A nameless hero is "the fox", which
nobody says when speaking to him: `Thank you, fox`.
"""

import re

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{([^{}]+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU](?!ni(?:corn|que)|seful|ne\b|nce\b))")
_START = re.compile(r"(^|[.!?] |[.]\" |\n)(\"?)([a-z])")
_SPEECH = "said|asked|cried|called|whispered|thought|roared|sang|laughed and said|told"
_AFTER_QUOTE = re.compile(
    r"([!?]\" )(?!(?:%s)\b|(?:[\w.]+ ){1,5}?(?:%s)\b)([a-z])" % (_SPEECH, _SPEECH)
)


def expand(rng, text, slots):
    """One random text of the template `text`; an unknown slot is a KeyError."""
    for _ in range(8):
        while True:
            new = _CHOICE.sub(lambda m: rng.choice(m.group(1).split("|")), text)
            if new == text:
                break
            text = new
        if "{" not in text:
            break
        text = _SLOT.sub(lambda m: slots[m.group(1)], text)
    return mend(text)


def mend(text):
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ([.,!?])", r"\1", text)
    text = re.sub(r" ?\n ?", "\n", text).strip()
    text = re.sub(r'(, |[Pp]oor )the (?=\w+( \w+)?[,.!?]+")', r"\1", text)
    text = _ARTICLE.sub(r"\1n ", text)
    text = _START.sub(lambda m: m.group(1) + m.group(2) + m.group(3).upper(), text)
    return _AFTER_QUOTE.sub(lambda m: m.group(1) + m.group(2).upper(), text)
