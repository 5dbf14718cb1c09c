"""Small facts and sums, with the questions about them, and questions that have no answer here."""

from grammar import expand
from words import DAYS, made_up_name

CAPITALS = dict(
    France="Paris",
    Italy="Rome",
    Spain="Madrid",
    Germany="Berlin",
    England="London",
    Japan="Tokyo",
    China="Beijing",
    Russia="Moscow",
    Egypt="Cairo",
    Greece="Athens",
    Portugal="Lisbon",
    Norway="Oslo",
    Sweden="Stockholm",
    Finland="Helsinki",
    Denmark="Copenhagen",
    Poland="Warsaw",
    Austria="Vienna",
    Hungary="Budapest",
    Ireland="Dublin",
    Canada="Ottawa",
    Kenya="Nairobi",
    Peru="Lima",
    Cuba="Havana",
    India="New Delhi",
    Belgium="Brussels",
    Mexico="Mexico City",
    Argentina="Buenos Aires",
    Turkey="Ankara",
    Thailand="Bangkok",
    Australia="Canberra",
    Chile="Santiago",
    Scotland="Edinburgh",
)
THING_COLORS = {
    "the sky": "blue",
    "grass": "green",
    "snow": "white",
    "a banana": "yellow",
    "a lemon": "yellow",
    "the sun": "yellow",
    "coal": "black",
    "a carrot": "orange",
    "a frog": "green",
    "milk": "white",
    "a tomato": "red",
    "a strawberry": "red",
    "the sea": "blue",
    "a leaf": "green",
    "a pig": "pink",
    "a crow": "black",
    "a swan": "white",
    "an elephant": "grey",
    "chocolate": "brown",
    "a pumpkin": "orange",
    "a cherry": "red",
    "a polar bear": "white",
    "a flamingo": "pink",
    "a plum": "purple",
    "a cloud": "white",
    "a fire truck": "red",
}
SOUNDS = dict(
    cow="moo",
    dog="woof",
    cat="meow",
    duck="quack",
    sheep="baa",
    pig="oink",
    horse="neigh",
    owl="hoot",
    lion="roar",
    bee="buzz",
    hen="cluck",
    frog="ribbit",
    mouse="squeak",
    snake="hiss",
    crow="caw",
    wolf="howl",
    donkey="hee-haw",
    rooster="cock-a-doodle-doo",
)
BABIES = dict(
    dog="puppy",
    cat="kitten",
    cow="calf",
    sheep="lamb",
    horse="foal",
    hen="chick",
    duck="duckling",
    pig="piglet",
    bear="cub",
    lion="cub",
    goat="kid",
    deer="fawn",
    frog="tadpole",
    goose="gosling",
    kangaroo="joey",
    swan="cygnet",
    owl="owlet",
    fox="cub",
)
LEGS = dict(
    spider="eight",
    dog="four",
    cat="four",
    bird="two",
    ant="six",
    bee="six",
    horse="four",
    fish="no",
    snake="no",
    cow="four",
    hen="two",
    butterfly="six",
    octopus="no",
    duck="two",
    elephant="four",
    fly="six",
    crab="ten",
)
OPPOSITES = [
    ("big", "small"),
    ("hot", "cold"),
    ("up", "down"),
    ("happy", "sad"),
    ("fast", "slow"),
    ("day", "night"),
    ("black", "white"),
    ("open", "closed"),
    ("wet", "dry"),
    ("old", "young"),
    ("high", "low"),
    ("hard", "soft"),
    ("good", "bad"),
    ("full", "empty"),
    ("long", "short"),
    ("loud", "quiet"),
    ("left", "right"),
    ("light", "dark"),
    ("heavy", "light"),
    ("strong", "weak"),
    ("rich", "poor"),
    ("early", "late"),
    ("near", "far"),
    ("yes", "no"),
    ("in", "out"),
    ("clean", "dirty"),
    ("thick", "thin"),
    ("sweet", "sour"),
    ("awake", "asleep"),
    ("tall", "short"),
    ("new", "old"),
    ("begin", "end"),
    ("give", "take"),
    ("love", "hate"),
    ("win", "lose"),
]
EATS = dict(
    rabbit="carrots",
    cow="grass",
    monkey="bananas",
    mouse="cheese",
    bear="honey",
    panda="bamboo",
    squirrel="nuts",
    cat="fish",
    dog="bones",
    horse="hay",
    bee="nectar",
    lion="meat",
    koala="leaves",
    penguin="fish",
    frog="flies",
    sheep="grass",
    owl="mice",
    caterpillar="leaves",
)
LIVES = dict(
    fish="in the water",
    bird="in a nest",
    bee="in a hive",
    dog="in a kennel",
    cow="in a barn",
    spider="in a web",
    lion="in Africa",
    penguin="where it is cold",
    camel="in the desert",
    horse="in a stable",
    whale="in the sea",
    bear="in a cave",
    king="in a palace",
    rabbit="in a burrow",
    ant="in an anthill",
    monkey="in the jungle",
    kangaroo="in Australia",
    fox="in a den",
)
MONTHS = (
    "January February March April May June July August September October November December".split()
)
NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty".split()
)
GENERAL = [
    ("how many days are in a week?", "There are seven days in a week."),
    ("how many months are in a year?", "There are twelve months in a year."),
    ("how many seasons are there?", "There are four seasons: spring, summer, autumn and winter."),
    ("what are the seasons?", "The seasons are spring, summer, autumn and winter."),
    ("how many sides does a triangle have?", "A triangle has three sides."),
    ("how many sides does a square have?", "A square has four sides."),
    ("how many sides does a circle have?", "A circle has no sides. It is round."),
    ("what shape is a ball?", "A ball is round."),
    ("what shape is the sun?", "The sun is round."),
    ("how many wheels does a car have?", "A car has four wheels."),
    ("how many wheels does a bicycle have?", "A bicycle has two wheels."),
    ("how many fingers do you have on one hand?", "There are five fingers on a hand."),
    ("how many hours are in a day?", "There are 24 hours in a day."),
    ("how many minutes are in an hour?", "There are 60 minutes in an hour."),
    ("what do bees make?", "Bees make honey."),
    ("what do cows give us?", "Cows give us milk."),
    ("what do hens lay?", "Hens lay eggs."),
    ("when does the sun rise?", "The sun rises in the morning."),
    ("when do we sleep?", "We sleep at night."),
    ("what do we see with?", "We see with our eyes."),
    ("what do we hear with?", "We hear with our ears."),
    ("what do we smell with?", "We smell with our nose."),
    ("which season is cold?", "Winter is cold."),
    ("which season is hot?", "Summer is hot."),
    ("what is ice made of?", "Ice is made of water."),
    ("what is bread made of?", "Bread is made of flour."),
    ("what is the biggest animal?", "The blue whale is the biggest animal."),
    ("what is the tallest animal?", "The giraffe is the tallest animal."),
    ("what is the fastest animal?", "The cheetah is the fastest animal on land."),
    ("can a fish fly?", "No, most fish swim."),
    ("can a bird fly?", "Yes, most birds can fly."),
    ("can a dog fly?", "No, a dog cannot fly."),
    ("can a pig fly?", "No, a pig cannot fly."),
    ("can a cat swim?", "Yes, but most cats do not like water."),
    ("is the sun hot?", "Yes, the sun is very hot."),
    ("is snow hot?", "No, snow is cold."),
    ("is an elephant small?", "No, an elephant is very big."),
    ("is a mouse big?", "No, a mouse is small."),
    ("what do you get when you mix blue and yellow?", "Blue and yellow make green."),
    ("what do you get when you mix red and yellow?", "Red and yellow make orange."),
    ("what do you get when you mix red and blue?", "Red and blue make purple."),
    (
        "what are the days of the week?",
        (
            "The days of the week are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and"
            " Sunday."
        ),
    ),
    ("count to [three|3].", "One, two, three."),
    ("count to [five|5].", "One, two, three, four, five."),
    ("count to [ten|10].", "One, two, three, four, five, six, seven, eight, nine, ten."),
    ("what planet do we live on?", "We live on the Earth."),
    ("what is the first letter of the alphabet?", "The first letter is A."),
    (
        "say the alphabet.",
        "A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z.",
    ),
    ("what do you need when it rains?", "You need an umbrella when it rains."),
    ("what does a baker make?", "A baker makes bread."),
    ("what does a farmer do?", "A farmer grows food and looks after animals."),
    ("what color are bananas?", "Bananas are yellow."),
    ("what color is the grass?", "The grass is green."),
]
UNKNOWN = [
    "who won the [game|cup|race|election] [yesterday|last year|in 19{n2}]?",
    "what is the capital of [Mars|the moon|{madeup}|Atlantis]?",
    "how do I [fix|sell|buy] [my|a|an old] [car|phone|computer|house]?",
    "what is [quantum physics|a black hole|inflation|democracy|philosophy|chemistry]?",
    "who is the president?",
    "what is the weather [today|tomorrow|in {madeup}]?",
    "can you write [a program|some code|a poem in French|an email]?",
    "what time is it?",
    "what day is it today?",
    "who is {madeup}?",
    "what is a {madeup2}?",
    "how far is it to {madeup}?",
    "what is {n2} times {n3}?",
    "what is {n2}{n3} plus {n3}{n2}?",
    "where is {madeup}?",
    "tell me about [politics|the stock market|football|{madeup}].",
    "who wrote {madeup}?",
    "translate [this|cat|hello] into [German|Spanish|French].",
]
DONT_KNOW = (
    "[I do not know that.|I am sorry, I do not know that.|Sorry, I do not know.|That is too hard"
    " for me.] [I only know small things and stories.|I can tell you a story.|Shall I tell you a"
    " story?|]"
)


def number(rng, n):
    return NUMBERS[n] if rng.random() < 0.15 else str(n)


def sum_turn(rng):
    a = rng.randint(0, 20)
    if rng.random() < 0.55:
        b = rng.randint(0, 20 - a)
        word, sign, c = "plus", "+", a + b
    else:
        b = rng.randint(0, a)
        word, sign, c = rng.choice(["minus", "minus", "take away"]), "-", a - b
    x, y = number(rng, a), number(rng, b)
    dice = rng.random()
    if dice < 0.45:
        q = rng.choice(["What is", "What's", "How much is", "And what is"]) + f" {x} {word} {y}?"
    elif dice < 0.75:
        q = rng.choice(["What is ", "What's ", "", "How much is "]) + f"{a} {sign} {b}?"
    elif dice < 0.88:
        q = rng.choice([f"{a}{sign}{b}", f"{a}{sign}{b}=", f"{a} {sign} {b} =", f"{a} {sign} {b}"])
    else:
        things = rng.choice(["apples", "balls", "cakes", "nuts", "eggs", "books", "coins"])
        more = "get" if sign == "+" else rng.choice(["eat", "lose", "give away"])
        q = (
            f"I have {a} {things} and {more} {b}{' more' if sign == '+' else ''}. How many {things}"
            " do I have?"
        )
        return q, f"You have {c} {things}."
    # The answer says the sum again in digits, whatever form the question had.
    return q, f"{a} {'plus' if sign == '+' else 'minus'} {b} is {c}."


def fact_turn(rng):
    dice = rng.randrange(15)
    if dice == 0:
        k = rng.choice(list(CAPITALS))
        return (
            rng.choice(
                [
                    f"What is the capital of {k}?",
                    f"What's the capital of {k}?",
                    f"Capital of {k}?",
                    f"Which city is the capital of {k}?",
                ]
            ),
            f"The capital of {k} is {CAPITALS[k]}.",
        )
    if dice == 1:
        k = rng.choice(list(THING_COLORS))
        return (
            rng.choice(
                [
                    f"What color is {k}?",
                    f"What colour is {k}?",
                    f"Which color is {k}?",
                    f"What is the color of {k}?",
                ]
            ),
            f"{k[0].upper() + k[1:]} is {THING_COLORS[k]}.",
        )
    if dice == 2:
        k = rng.choice(list(SOUNDS))
        return (
            rng.choice(
                [f"What does a {k} say?", f"What sound does a {k} make?", f"How does a {k} go?"]
            ),
            f"A {k} says {SOUNDS[k]}.",
        )
    if dice == 3:
        k = rng.choice(list(BABIES))
        return (
            rng.choice(
                [
                    f"What is a baby {k} called?",
                    f"What do you call a baby {k}?",
                    f"What is the name for a young {k}?",
                ]
            ),
            f"A baby {k} is called a {BABIES[k]}.",
        )
    if dice == 4:
        k = rng.choice(list(LEGS))
        return (
            rng.choice([f"How many legs does a {k} have?", f"How many legs has a {k}?"]),
            f"A {k} has {LEGS[k]} legs.",
        )
    if dice in (5, 6):
        a, b = rng.choice(OPPOSITES)
        if rng.random() < 0.5 and (a, b) not in (
            ("heavy", "light"),
            ("tall", "short"),
            ("new", "old"),
        ):
            a, b = b, a
            if a == "light":
                b = "dark"
            elif a in ("short", "old"):
                b = {"short": "long", "old": "young"}[a]
        if a == "old":
            b = "young"
        return (
            rng.choice(
                [
                    f"What is the opposite of {a}?",
                    f"What's the opposite of {a}?",
                    f"Opposite of {a}?",
                    f"Tell me the opposite of {a}.",
                ]
            ),
            f"The opposite of {a} is {b}.",
        )
    if dice == 7:
        k = rng.choice(list(EATS))
        return (
            rng.choice(
                [
                    f"What does a {k} eat?",
                    (
                        f"What do {k}s eat?"
                        if k not in ("sheep", "mouse")
                        else f"What does a {k} like to eat?"
                    ),
                ]
            ),
            f"A {k} eats {EATS[k]}.",
        )
    if dice == 8:
        k = rng.choice(list(LIVES))
        return f"Where does a {k} live?", f"A {k} lives {LIVES[k]}."
    if dice == 9:
        i = rng.randrange(7)
        if rng.random() < 0.5:
            return (
                rng.choice([f"What day comes after {DAYS[i]}?", f"Which day is after {DAYS[i]}?"]),
                f"{DAYS[(i + 1) % 7]} comes after {DAYS[i]}.",
            )
        return (
            rng.choice([f"What day comes before {DAYS[i]}?", f"Which day is before {DAYS[i]}?"]),
            f"{DAYS[(i - 1) % 7]} comes before {DAYS[i]}.",
        )
    if dice == 10:
        i = rng.randrange(12)
        if rng.random() < 0.5:
            return (
                f"What month comes after {MONTHS[i]}?",
                f"{MONTHS[(i + 1) % 12]} comes after {MONTHS[i]}.",
            )
        return (
            f"What month comes before {MONTHS[i]}?",
            f"{MONTHS[(i - 1) % 12]} comes before {MONTHS[i]}.",
        )
    if dice == 11:
        i = rng.randint(1, 19)
        if rng.random() < 0.5:
            return f"What number comes after {i}?", f"{i + 1} comes after {i}."
        a, b = rng.sample(range(21), 2)
        return f"Which is {rng.choice(['bigger', 'more'])}, {a} or {b}?", f"{max(a, b)} is bigger."
    q, a = rng.choice(GENERAL)
    return expand(rng, q, {}), a


def unknown_turn(rng):
    slots = dict(
        madeup=made_up_name(rng),
        madeup2=made_up_name(rng).lower(),
        n2=str(rng.randint(21, 99)),
        n3=str(rng.randint(21, 99)),
    )
    return expand(rng, rng.choice(UNKNOWN), slots), expand(rng, DONT_KNOW, {})
