"""A story: a cast, a setting, a plot, an opening and an end, and what can be asked of it."""

from grammar import expand
from plots import NOISES, PLOTS, TROUBLES
from words import (
    ADJECTIVES,
    ANIMALS,
    BOYS,
    COLORS,
    DAYS,
    FANTASY,
    FLOWERS,
    FOOD_PLURALS,
    FOODS,
    GIRLS,
    HE_KINDS,
    JOBS,
    LIKES,
    ODD_ADJECTIVES,
    ODD_NOUNS,
    ODD_VERBS,
    PEOPLE,
    PETS,
    SETTING_NAMES,
    SETTING_OF,
    SETTING_THE,
    SETTINGS,
    SHE_KINDS,
    TOYS,
    WEATHER,
    made_up_name,
)

PRONOUNS = {"he": ("he", "him", "his", "himself"), "she": ("she", "her", "her", "herself")}
THINGS = """train boat cloud star teapot tree car bus tractor spoon doll lamp clock leaf raindrop
snowflake button balloon kite shoe pencil cup pumpkin scarecrow rocket bicycle bell lighthouse
broom cupcake puppet wooden~horse tin~soldier teddy~bear paper~boat toy~train rag~doll""".split()
GROWN_UPS = ["mother", "father", "grandmother", "grandfather", "aunt", "uncle"]
SHE_GROWN = {"mother", "grandmother", "aunt"}


def settled_sex(name, kind):
    """The pronoun of the second text: the name says it where no list and no kind does."""
    if name in GIRLS or kind in SHE_KINDS or kind == "girl":
        return "she"
    if name in BOYS or kind in HE_KINDS or kind == "boy":
        return "he"
    return "she" if name[-1] in "aeiy" else "he"


def person(rng, prefix, taken, kind=None, name=None, settled=False):
    """The slots of one character: name, kind, pronouns and how it is introduced."""
    while kind is None:
        dice = rng.random()
        pool = (
            ["girl", "boy"]
            if dice < 0.24
            else (
                list(ANIMALS)
                if dice < 0.84
                else list(FANTASY) if dice < 0.92 else list(PEOPLE) if dice < 0.97 else THINGS
            )
        )
        kind = rng.choice(pool).replace("~", " ")
        if kind in taken and kind not in ("girl", "boy"):
            kind = None
    sex = (
        "she"
        if kind in SHE_KINDS or kind == "girl"
        else "he" if kind in HE_KINDS or kind == "boy" else rng.choice(["he", "she"])
    )
    if name in GIRLS:
        sex = "she"
    elif name in BOYS:
        sex = "he"
    while name is None or name in taken:
        dice = rng.random()
        human = kind in ("girl", "boy") or kind in PEOPLE
        if dice < 0.2:
            name = made_up_name(rng)
        elif human or dice < 0.45:
            name = rng.choice(GIRLS if sex == "she" else BOYS)
        else:
            name = rng.choice(PETS)
        if settled and name not in taken and settled_sex(name, kind) != sex:
            if human or kind in SHE_KINDS or kind in HE_KINDS:
                name = None  # such a kind has its pronoun: another name
    taken.update([kind, name])
    if settled:
        sex = settled_sex(name, kind)
    adjective = rng.choice(ADJECTIVES)
    intro = rng.choice(
        [
            f"a {adjective} {kind} named {name}",
            f"a {kind} named {name}",
            f"{name} the {kind}",
            f"a {kind} called {name}",
            f"a {adjective} {kind} called {name}",
        ]
    )
    slots = {
        "": name,
        ".kind": kind,
        ".intro": intro,
        ".adj": adjective,
    }
    return {prefix + k: v for k, v in slots.items()} | pronouns(prefix, sex)


def pronouns(prefix, sex):
    he, him, his, himself = PRONOUNS[sex]
    return {
        prefix + ".he": he,
        prefix + ".him": him,
        prefix + ".his": his,
        prefix + ".himself": himself,
        prefix + ".He": he.capitalize(),
        prefix + ".His": his.capitalize(),
    }


def nameless(slots, prefix, settled=False):
    """Turns a character into "the fox"."""
    if settled:
        slots.update(pronouns(prefix, settled_sex(slots[prefix + ".kind"], slots[prefix + ".kind"])))
    slots[prefix] = "the " + slots[prefix + ".kind"]
    slots[prefix + ".intro"] = f"a [{slots[prefix + '.adj']}|] {slots[prefix + '.kind']}"


def home_of(kind, rng):
    for table in (ANIMALS, FANTASY, PEOPLE):
        if kind in table:
            return table[kind]
    return rng.choice(
        [
            "a small house",
            "a little cottage",
            "a tall house",
            "a red house",
            "a house with a blue door",
        ]
    )


def setting_of(kind, rng):
    for kinds, settings in SETTING_OF.items():
        if kind in kinds.split():
            return rng.choice(settings)
    return rng.choice(list(SETTINGS))


def draw(rng, kind=None, name=None, plot=None, setting=None, named=False, settled=False):
    """All slots of a story, and its plot."""
    plot = plot or rng.choice(PLOTS)
    taken = set()
    s = person(rng, "H", taken, kind, name, settled=settled)
    s.update(person(rng, "F", taken, settled=settled))
    s.update(person(rng, "G", taken, settled=settled))
    s["has_name"] = "yes"
    if plot["name"] != "new friend":
        if not named and rng.random() < 0.13:
            nameless(s, "H", settled)
            s["has_name"] = ""
        if rng.random() < 0.12:
            nameless(s, "F", settled)
        elif s["F.kind"] in ("girl", "boy") and rng.random() < 0.4:
            word = (
                ["sister", "friend", "cousin"]
                if s["F.he"] == "she"
                else ["brother", "friend", "cousin"]
            )
            s["F.intro"] = f"{s['H.his']} {rng.choice(word)} {s['F']}"
        if rng.random() < 0.12:
            nameless(s, "G", settled)
    for short in ("he", "him", "his", "himself", "He", "His", "kind", "adj"):
        s[short] = s["H." + short]
    grown = rng.choice(GROWN_UPS)
    he, him, his, _ = PRONOUNS["she" if grown in SHE_GROWN else "he"]
    s.update({"P": f"{s['his']} {grown}", "P.he": he, "P.him": him, "P.his": his})
    setting = setting or setting_of(s["kind"], rng)
    spots = rng.sample(SETTINGS[setting], 3)
    s.update(
        setting=setting,
        place=SETTING_THE[setting],
        home=home_of(s["kind"], rng),
        spot1=spots[0],
        spot2=spots[1],
        spot3=spots[2],
    )
    s["at_place"] = {
        "farm": "on the farm",
        "seaside": "at the beach",
        "mountains": "on the mountain",
    }.get(setting, "in " + s["place"])
    s["in_setting"] = ("on " if setting == "farm" else "in ") + SETTING_NAMES[setting]
    s.update(
        toy=rng.choice(TOYS),
        color=rng.choice(COLORS),
        food=rng.choice(FOODS),
        foods=rng.choice(FOOD_PLURALS),
        flower=rng.choice(FLOWERS),
        day=rng.choice(DAYS),
        like=rng.choice(LIKES),
        weather=rng.choice(WEATHER),
    )
    for key, values in plot["pick"].items():
        s[key] = rng.choice(values)
        s[key.capitalize()] = s[key][0].upper() + s[key][1:]
    s["cause"], s["cure"] = NOISES.get(s.get("noise"), ""), TROUBLES.get(s.get("trouble"), "")
    # What is said once must be said the same way later: choices inside values are made now.
    for key in ("like", "in_setting"):
        s[key] = expand(rng, s[key], s)
    s["in_setting"] = s["in_setting"][0].lower() + s["in_setting"][1:]
    s["like"] = s["like"][0].lower() + s["like"][1:]
    s["who"] = rng.choice(plot["who"])
    return s, plot


NAMED_OPENINGS = [
    (
        "[once upon a time|once|long ago|a long time ago], there [was|lived] a [{adj}|] {kind}"
        " [named|called] {H}."
    ),
    (
        "[once upon a time|long, long ago|once], {in_setting}, there lived a [{adj}|] {kind}"
        " [named|called] {H}."
    ),
    "{in_setting}, there [was|lived] a [{adj}|] {kind} [named|called] {H}.",
    "there [once was|was once] a [{adj}|] {kind} [whose name was|named|called] {H}.",
    "{H} was a [{adj}|little|] {kind}.",
    "{H} was a [{adj}|little|] {kind} who lived {in_setting}.",
    "{H} was a {adj} [and {adj2}|little] {kind} who {who}.",
    (
        "[once|once upon a time|long ago] there was a [{adj}|] {kind} who {who}. [The {kind} was"
        " called {H}.|{His} name was {H}.]"
    ),
    "[once|once upon a time|long ago] there was a [{adj}|] {kind} [named|called] {H} who {who}.",
    "far away, {in_setting}, there lived a {kind} named {H}.",
    "{H} the {kind} lived {in_setting}.",
    "[this is the story of|let me tell you about] {H}, a {kind} who {who}.",
    "[do you know|have you heard of] {H}, the {kind} who {who}?",
    "{H} the {kind} {who}.",
    (
        "one [{day}|day|morning|fine day|sunny morning], {H} the {kind} [woke up early|looked out"
        " of the window|went outside|was sitting {spot1}]."
    ),
    (
        "it was a [sunny|rainy|windy|cold|warm|beautiful] [day|morning]. A {kind} named {H} was"
        " [sitting|playing|walking|sleeping] {spot1}."
    ),
    '"[Good morning|Hello|What a lovely day]!" said {H}. {H} was a {adj} {kind}.',
    "every [morning|day|evening], {H} the {kind} [went for a walk|sat {spot1}|sang a little song].",
    "{his} name was {H}, and {he} was a {adj} {kind}.",
    "the {adj} {kind} {H} lived {in_setting}.",
    "{H} lived {in_setting}. {He} was a {adj} {kind}.",
    "in a [land|place|country] far away, there was a [{adj}|] {kind} named {H}.",
    "a [{adj}|little] {kind} named {H} lived {in_setting}.",
]
NAMELESS_OPENINGS = [
    "[once upon a time|once|long ago|one day], there [was|lived] a [{adj}|little|] {kind}.",
    "[once upon a time|once|long ago], {in_setting}, there lived a [{adj}|] {kind}.",
    "[once upon a time|once|] there was a [{adj}|] {kind} who {who}.",
    "a [{adj}|little|] {kind} lived {in_setting}.",
    "the [{adj}|little] {kind} {who}.",
    "{in_setting}, a {adj} {kind} had [{his}|a] home.",
    (
        "it was a [sunny|rainy|windy|cold|warm] [day|morning]. A [{adj}|] {kind} was"
        " [sitting|playing|walking] {spot1}."
    ),
    "one [day|morning], a [{adj}|little] {kind} [sat|was playing] {spot1}.",
]


ODD_SENTENCES = [
    "{H} [had|owned|loved] a {odd_adj} {odd}.",
    "{H} wanted to be a {job}.",
    "{H} [dreamed|often dreamed] of a {odd_adj} {odd}.",
    "{H} could {odd_verb} [very well|all day|louder than anyone].",
    "[Next door|Not far away] lived a {odd_adj} {other}.",
    "{He} had [two|three|four|five|many] [brothers|sisters|cousins|{foods}].",
    "{He} was as {adj2} as a {other}.",
    "{He} always wore a {color} [hat|scarf|coat|ribbon].",
    "{He} had {color} [eyes|shoes|hair].",
    "{H} never liked to {odd_verb}, but {he} liked to {odd_verb2}.",
    "There was a {odd_adj} {odd} in {his} [garden|home|room|bag].",
    "{H} ate only {foods}[ and {odd_adj} soup|].",
    "It was [{day}|a holiday|the first day of spring|autumn|summer], and {H} wanted to {odd_verb}.",
    '"I want a {odd_adj} {odd}!" said {H}.',
    "{H} was [two|three|four|five|six|seven|eight] years old.",
    "Sometimes {he} would {odd_verb} with a {other}.",
    "{H} had never seen a {odd}.",
    "{He} could not {odd_verb}, but {he} did not mind.",
    "The {odd} was {odd_adj}, and {H} liked it.",
]
# What the weather of an opening would contradict.
OWN_WEATHER = {"box", "storm", "snow", "noise", "moon"}


def opening(rng, s, facts, plot, settled=False):
    s["adj2"] = rng.choice([a for a in ADJECTIVES if a != s["adj"]])
    s.update(
        odd=rng.choice(ODD_NOUNS),
        odd_adj=rng.choice(ODD_ADJECTIVES),
        job=rng.choice(JOBS),
        odd_verb=rng.choice(ODD_VERBS),
        odd_verb2=rng.choice(ODD_VERBS),
        other=rng.choice(list(ANIMALS)),
    )
    own_weather = plot["name"] in OWN_WEATHER
    choices = NAMED_OPENINGS if s["has_name"] else NAMELESS_OPENINGS
    if own_weather:
        choices = [c for c in choices if not c.startswith("it was a [")]
    text = expand(rng, rng.choice(choices), s)
    in_setting = s["in_setting"].split(" ")[-1].rstrip(".") in text
    if rng.random() < 0.3:
        text += " " + expand(
            rng,
            "{He} lived in {home} [with {P}|" + ("" if in_setting else "{in_setting}|") + "].",
            s,
        )
        facts.append(("Where did {H} live?", "{H} lived in {home}."))
    elif s["in_setting"].lower() in text.lower() and "live" in text:
        facts.append(("Where did {H} live?", "{H} lived {in_setting}."))
    if rng.random() < 0.4:
        text += " " + expand(
            rng,
            "{He} [loved|liked] to {like}[. It made {him} happy|, and {he} did it "
            "every day| all day long||].",
            s,
        )
        facts.append(("What did {H} like to do?", "{H} liked to {like}."))
    elif rng.random() < 0.15:
        text += " " + expand(rng, "{H} was [very|always|] {adj2}.", s)
    if rng.random() < (0.12 if settled else 0.35):
        text += " " + expand(rng, rng.choice(ODD_SENTENCES), s)
    if rng.random() < 0.2 and not own_weather:
        text += " " + expand(rng, "{weather}.", s)
    return text


def story(rng, settled=False, **wish):
    """Returns (text, slots, questions, plot). `wish` may fix kind, name, plot and setting;
    `settled` tells the second text, in which a name goes with one pronoun (settled_sex)."""
    s, plot = draw(rng, settled=settled, **wish)
    facts = []
    parts = [opening(rng, s, facts, plot, settled)] + [expand(rng, beat, s) for beat in plot["beats"]]
    moral = ""
    if rng.random() < 0.45:
        s["moral"] = expand(rng, rng.choice(plot["morals"]), s)
        s["moral"] = s["moral"][0].lower() + s["moral"][1:]
        moral = expand(rng, "[{H}|and so {H}|and {H}|that day, {H}] learned that {moral}.", s)
        facts.append(("What did {H} learn?", "{H} learned that {moral}."))
        facts.append(("What is the moral of the story?", "The moral is that {moral}."))
        parts[-1] += " " + moral
    if rng.random() < 0.25:
        parts[-1] += " The end."
    style = rng.random()
    if style < 0.45:
        text = " ".join(parts)
    elif style < 0.8:
        text = ""
        for part in parts:
            text += part + (" " if rng.random() < 0.5 else "\n\n")
    else:
        text = "\n\n".join(parts)
    facts += [
        (
            "Who [is|was] the story about?",
            "[It|The story] [is|was] about " + ("{H}, a {kind}." if s["has_name"] else "a {kind}."),
        )
    ]
    if s["has_name"]:
        facts += [
            ("What was the {kind} called?", "The {kind} was called {H}."),
            ("What was the name of the {kind}?", "The {kind} was called {H}."),
            ("Who was {H}?", "{H} was a {kind}."),
            ("What animal was {H}?", "{H} was a {kind}."),
        ][: 4 if s["kind"] in ANIMALS else 3]
    if (
        not s["F"].startswith("the ")
        and s["F.kind"] != "girl"
        and s["F"] in text
        and s["F.kind"] in text
    ):
        facts.append(("Who was {F}?", "{F} was a {F.kind}."))
    return text.strip(), s, facts + plot["qa"], plot


def title(rng, s, plot):
    words = expand(
        rng,
        rng.choice(["{H} and {t}", "the {kind} and {t}", "{t}"]),
        dict(s, t=rng.choice(plot["topics"])),
    ).split(" ")
    small = {"a", "an", "the", "and", "of", "to", "who", "in", "for"}
    return " ".join(w if i and w in small else w[0].upper() + w[1:] for i, w in enumerate(words))
