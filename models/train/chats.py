"""Chats: greetings, stories on request with questions about them, small facts and sums."""

from facts import fact_turn, sum_turn, unknown_turn
from grammar import expand, mend
from plots import PLOTS
from stories import story
from words import ANIMALS, BOYS, FANTASY, GIRLS, PEOPLE, PETS, SETTING_THE, made_up_name

SYSTEMS = [
    "You are a friendly storyteller.",
    "You are a helpful assistant.",
    "You tell stories to children.",
    "You are Verbatim, a small model that tells stories.",
    "You are a kind helper for children.",
    "Be short and friendly.",
    "You are a chatbot.",
]
GREETINGS = [
    (
        "[hello|hi|hey|good morning|good evening|good day|hello there|hi there][!|.|]",
        (
            "[Hello|Hi|Hello there|Good day]! [How are you?|What can I do for you?|Would you like a"
            " story?|I can tell you a story.|How can I help you?]"
        ),
    ),
    (
        "[how are you|how do you do|how are you today]?",
        "I am [fine|very well|well], thank you. [How are you?|Would you like a story?|And you?]",
    ),
    (
        "[hello, |hi, |]my name is {name}.",
        (
            "[Hello|Hi|Nice to meet you], {name}! [Would you like a story?|How are you today?|What"
            " can I do for you?]"
        ),
    ),
    (
        "[i am|i'm] {name}.",
        "[Hello|Nice to meet you], {name}! [Would you like a story?|How are you?]",
    ),
    (
        "[what is your name|who are you|what's your name]?",
        "I am Verbatim[, and I tell stories|, a small storyteller|. I like to tell stories].",
    ),
    ("what can you do?", "I can tell you a story, answer small questions and do small sums."),
    (
        "are you [a robot|human|a person|real]?",
        "I am a very small computer program that tells stories.",
    ),
    ("how old are you?", "I do not know. I am [still|] very young."),
    (
        "i am [sad|not happy|bored|tired|lonely].",
        (
            "[I am sorry to hear that|Oh, I am sorry]. [Shall I tell you a story?|Would you like a"
            " story?]"
        ),
    ),
    (
        "i am [happy|fine|very well|good|great].",
        "[That is nice|I am glad|That is good to hear]! Would you like a story?",
    ),
    (
        "can you help me?",
        "[Yes, of course|Of course|Yes]! [What would you like?|What can I do for you?]",
    ),
    (
        "do you like [stories|animals|children|music|cake|the rain]?",
        "Yes, I do! [Do you?|I like them very much.|Stories are what I like best.]",
    ),
]
THANKS = [
    (
        "[thank you|thanks|thank you very much|thanks a lot][!|.|]",
        "You are welcome! [Would you like another story?||]",
    ),
    (
        (
            "[that was nice|i liked it|what a nice story|that was a good story|i liked that"
            " story|great story][!|.]"
        ),
        (
            "[Thank you|I am glad that you liked it|I am happy that you liked it]! [Shall I tell"
            " you another one?||]"
        ),
    ),
    (
        "[bye|goodbye|good night|see you|good bye|i have to go][!|.|]",
        "[Goodbye|Bye|See you soon|Good night]! [Sleep well.|Have a nice day.|Come back soon.|]",
    ),
    ("that was [funny|short|silly].", "[I hope you liked it.|I am glad that I could tell it.]"),
]


def plain_turn(rng, table, slots=None):
    q, a = rng.choice(table)
    q = expand(rng, q, slots or {})
    return q, expand(rng, a, slots or {})


ASK = [
    "tell me a story about {t}.",
    "[please|can you|could you] tell me a story about {t}[?|.]",
    "tell a story about {t}.",
    "a story about {t}, please.",
    "i want a story about {t}.",
    "i would like a story about {t}.",
    "write a [short|] story about {t}.",
    "do you know a story about {t}?",
    "[please|] tell me [a bedtime story|something] about {t}.",
    "story about {t}",
    "make up a story about {t}.",
]
ASK_ANY = [
    "tell me a story.",
    "[please|can you|could you] tell me a story[?|.]",
    "tell me [another|a new|a short|a bedtime] story[, please|].",
    "a story, please.",
    "i want [to hear|] a story.",
    "yes, please[.|!]",
    "another one, please[.|!]",
    "do you know a story?",
    "once more[!|.]",
]
LEAD = ["", "", "", "", "Of course! ", "Here is a story. ", "Yes! ", "With pleasure. ", "Sure! "]


def story_turn(rng, settled=False):
    """(request, story, [(question, answer), ...]): what was asked for is what is told."""
    dice = rng.random()
    wish, topic = {}, None
    kinds = list(ANIMALS) + list(FANTASY) + list(PEOPLE)
    if dice < 0.3:
        wish["kind"] = rng.choice(kinds)
    elif dice < 0.45:
        sex = rng.choice(["girl", "boy"])
        wish["kind"] = rng.choice([sex, rng.choice(kinds)])
        wish["name"] = rng.choice(
            [
                (
                    rng.choice(GIRLS if sex == "girl" else BOYS)
                    if wish["kind"] == sex
                    else rng.choice(PETS)
                ),
                made_up_name(rng),
            ]
        )
        wish["named"] = True
    elif dice < 0.7:
        wish["plot"] = rng.choice(PLOTS)
    elif dice < 0.76:
        wish["setting"] = rng.choice(list(SETTING_THE))
    text, s, questions, plot = story(rng, settled=settled, **wish)
    if dice < 0.3:
        topic = rng.choice(
            [
                "a {kind}",
                "a {kind}",
                "a [{adj}|little|] {kind}",
                "a {kind} who {who}",
                "a {kind} and a {F.kind}",
                "{kind}",
            ]
        )
        if topic == "{kind}" or "F.kind" in topic and s["F.kind"] not in text:
            topic = "a {kind}"
    elif dice < 0.45:
        topic = rng.choice(
            [
                "a {kind} [named|called] {H}",
                "{H} the {kind}",
                "{H}, a {kind}",
                "a {kind} [named|called] {H} who {who}",
            ]
        )
    elif dice < 0.7:
        topic = rng.choice(plot["topics"] + ["a {kind} who {who}"] * 2)
    elif dice < 0.76:
        topic = "{place}"
    if topic is None:
        request = expand(rng, rng.choice(ASK_ANY), {})
    else:
        request = expand(rng, rng.choice(ASK), dict(s, t=expand(rng, topic, s)))
        request = request.replace("about A ", "about a ").replace("about An ", "about an ")
    rng.shuffle(questions)
    asked = [
        (expand(rng, q, s), expand(rng, a, s))
        for q, a in questions[: rng.choice([2, 3, 4, 5] if settled else [0, 1, 2, 2, 3, 4])]
    ]
    if rng.random() < 0.15:
        asked.append(
            rng.choice(
                [
                    ("Did you like the story?", "Yes, I liked it very much."),
                    ("Is it a true story?", "No, I made it up."),
                    ("Is the story over?", "Yes, that was the end."),
                ]
            )
        )
    return request, rng.choice(LEAD) + text, asked


def small_turn(rng):
    ask = rng.choice([sum_turn] * 5 + [fact_turn] * 6 + [unknown_turn])
    q, a = ask(rng)
    return q if ask is sum_turn else mend(q), mend(a)


def drill(rng):
    """A list of (role, text): a chat of sums and facts alone, for the second text."""
    ask = rng.choice([sum_turn, sum_turn, fact_turn, fact_turn, None])
    messages = []
    for _ in range(rng.randint(3, 10)):
        q, a = ask(rng) if ask else small_turn(rng)
        messages += [("user", q if ask is sum_turn else mend(q)), ("assistant", mend(a))]
    return messages


def chat(rng, settled=False):
    """A list of (role, text), system first where there is one."""
    turns = []
    slots = {"name": rng.choice([rng.choice(GIRLS), rng.choice(BOYS), made_up_name(rng)])}
    if rng.random() < 0.25:
        turns.append(plain_turn(rng, GREETINGS, slots))
        if rng.random() < 0.3:
            turns.append(plain_turn(rng, GREETINGS, slots))
        if slots["name"] in " ".join(q for q, _ in turns) and rng.random() < 0.3:
            turns.append(("What is my name?", f"Your name is {slots['name']}."))
    if rng.random() < 0.6:
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            turns.append(small_turn(rng))
        request, text, asked = story_turn(rng, settled)
        turns.append((request, text))
        turns += asked
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            turns.append(small_turn(rng))
    else:
        for _ in range(rng.randint(1, 8)):
            turns.append(small_turn(rng))
    if rng.random() < 0.25:
        turns.append(plain_turn(rng, THANKS))
    messages = [("system", rng.choice(SYSTEMS))] if rng.random() < 0.3 else []
    for q, a in turns:
        dice = rng.random()
        if dice < 0.12:
            q = q.lower()
        if 0.08 < dice < 0.2 and len(q) > 4:
            q = q.rstrip(".?!")
        messages += [("user", q), ("assistant", a)]
    return messages
